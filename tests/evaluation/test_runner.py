"""A run asks what is missing, in rounds, and loses nothing to a case that goes wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.perfect_model import SUITE, asked, knows
from toolspeak import AsyncClient, Request, Scripted, Tool, UpstreamError, UsageError
from toolspeak.config import load
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.evaluation.cases import EvalCase, Judgement, ModelAnswer, choose
from toolspeak.evaluation.results_file import CaseResult, EvalSetting, ResultsFile
from toolspeak.evaluation.runner import GIVE_UP_AFTER, EvalRun
from toolspeak.key_value import MemoryState

FORCE = EvalSetting("builtin", SUITE.version, "scripted:scripted", mode="force")
OFF = EvalSetting("builtin", SUITE.version, "scripted:scripted", mode="off", max_tokens=77)


def run(
    upstream: Scripted, journal: ResultsFile, *settings: EvalSetting, cases: Any = SUITE.cases, **more: Any
) -> EvalRun:
    async def go() -> EvalRun:
        config = load(env={}, cwd=Path("/nowhere"))
        async with AsyncClient(upstream, config=config, state=MemoryState(), known=Capabilities()) as client:
            made = EvalRun(client, more.pop("suite", SUITE), journal, **more)
            await made.run([(setting, cases) for setting in settings])
            return made

    return asyncio.run(go())


def records(journal: ResultsFile, setting: EvalSetting) -> list[CaseResult]:
    return journal.of(setting, [case.id for case in SUITE.cases])


@pytest.mark.parametrize("parallel", [1, 5])
def test_who_knows_the_answers_has_everything_right_natively_and_emulated(tmp_path: Path, parallel: int):
    journal = ResultsFile(tmp_path / "j")
    heard: list[CaseResult] = []
    run(Scripted(knows, again=True), journal, OFF, FORCE, parallel=parallel, on_result=heard.append)
    for setting, plan in ((OFF, "pass"), (FORCE, "inline")):
        found = records(journal, setting)
        assert [each.case for each in found if not each.correct] == []
        assert len(found) == 30
        assert {each.plans[0] for each in found} == {plan}
        two = [each for each in found if each.category == "rounds"]
        assert {(each.requests, len(each.calls), each.retries) for each in two} == {(2, 2, 0)}
        assert {(each.input_tokens, each.output_tokens) for each in two} == {(40, 20)}
        assert {each.requests for each in found if each.category != "rounds"} == {1}
    assert len(heard) == 60


def test_a_setting_reaches_the_request(tmp_path: Path):
    upstream = Scripted(knows, again=True)
    run(upstream, ResultsFile(tmp_path / "j"), OFF, FORCE, cases=SUITE.cases[:1], parallel=1)
    off, force = upstream.requests
    assert (off.options.max_tokens, off.options.temperature, len(off.tools)) == (77, 0.0, 1)
    assert (force.options.temperature, force.tools) == (0.0, ())


def test_a_second_start_asks_only_what_is_missing(tmp_path: Path):
    run(Scripted(knows, again=True), ResultsFile(tmp_path / "j"), OFF, cases=SUITE.cases[:4])
    second = Scripted(knows, again=True)
    run(second, ResultsFile(tmp_path / "j"), OFF, cases=SUITE.cases[:6])
    first_texts = {case.messages[0].text for case in SUITE.cases[:4]}
    assert len(second.requests) == 2
    assert not first_texts & {asked(request)[0] for request in second.requests}
    third = Scripted(knows, again=True)
    run(third, ResultsFile(tmp_path / "j"), OFF, cases=SUITE.cases[:6])
    assert third.requests == []


def test_an_error_is_recorded_ends_nothing_and_is_asked_again(tmp_path: Path):
    bad = SUITE.cases[2].messages[0].text

    def flaky(request: Request) -> Any:
        if asked(request)[0] == bad:
            raise UpstreamError("it fell over", upstream_status=500)
        return knows(request)

    cases = SUITE.cases[:5]
    made = run(Scripted(flaky, again=True), ResultsFile(tmp_path / "j"), OFF, cases=cases)
    found = records(ResultsFile(tmp_path / "j"), OFF)
    assert [each.correct for each in found] == [True, True, False, True, True]
    assert (found[2].fault, found[2].detail) == ("error", "")
    assert "it fell over" in found[2].error
    assert not made.given_up
    again = Scripted(knows, again=True)
    run(again, ResultsFile(tmp_path / "j"), OFF, cases=cases)
    assert [asked(request)[0] for request in again.requests] == [bad]
    assert all(each.correct for each in records(ResultsFile(tmp_path / "j"), OFF))


def test_where_nobody_answers_the_run_gives_up(tmp_path: Path):
    def gone(request: Request) -> Any:
        raise UpstreamError("nobody is there")

    upstream = Scripted(gone, again=True)
    journal = ResultsFile(tmp_path / "j")
    made = run(upstream, journal, OFF, FORCE, parallel=1)
    assert made.given_up
    asked = [each for setting in (OFF, FORCE) for each in records(journal, setting)]
    assert len(asked) == GIVE_UP_AFTER
    assert {each.case for each in asked} == {case.id for case in SUITE.cases[: GIVE_UP_AFTER // 2]}


def test_a_wrong_answer_is_told_with_its_fault_and_the_second_round_is_not_asked(tmp_path: Path):
    upstream = Scripted("I do not know.", again=True)
    journal = ResultsFile(tmp_path / "j")
    run(upstream, journal, OFF, cases=[case for case in SUITE.cases if case.category == "rounds"])
    found = records(journal, OFF)
    assert {(each.fault, each.requests, each.text) for each in found} == {("no_call", 1, "I do not know.")}


def test_retries_are_counted(tmp_path: Path):
    case = next(case for case in SUITE.cases if case.id == "single_1")
    broken = '```json action\n{"tool": "get_weather", "parameters": {"days": "many"}}\n```'
    upstream = Scripted(broken, knows)
    fixed = EvalSetting("builtin", SUITE.version, "scripted:scripted", mode="force", marks="fixed")
    run(upstream, ResultsFile(tmp_path / "j"), fixed, cases=[case])
    (found,) = records(ResultsFile(tmp_path / "j"), fixed)
    assert (found.correct, found.requests, found.retries) == (True, 2, 1)


class Broken:
    """A suite whose judge fails, or never comes to an end."""

    name, version = "broken", "1"
    cases = tuple(choose(SUITE.cases, 1, 0))

    def __init__(self, found: Judgement | None = None) -> None:
        self._found = found

    def judge(self, case: EvalCase, round_: int, answer: ModelAnswer) -> Judgement:
        if self._found is None:
            raise ZeroDivisionError("a bug")
        return Judgement(True, results=tuple("again" for _ in answer.calls))


@pytest.mark.parametrize(
    ("suite", "fault", "error"),
    [(Broken(), "error", "ZeroDivisionError: a bug"), (Broken(Judgement(True)), "too_many_rounds", "")],
)
def test_a_judge_that_fails_or_never_ends_costs_its_case_only(tmp_path: Path, suite: Broken, fault: str, error: str):
    case = next(case for case in SUITE.cases if case.id == "single_1")
    journal = ResultsFile(tmp_path / "j")
    run(Scripted(knows, again=True), journal, OFF, cases=[case], suite=suite)
    (found,) = journal.of(OFF, [case.id])
    assert (found.correct, found.fault, found.error) == (False, fault, error)


def test_tools_that_cannot_be_used_are_an_error_of_their_case(tmp_path: Path):
    case = EvalCase("bad", "x", SUITE.cases[0].messages, (Tool("f", "", {"type": 3}),))
    journal = ResultsFile(tmp_path / "j")
    run(Scripted(knows, again=True), journal, FORCE, cases=[case])
    (found,) = journal.of(FORCE, ["bad"])
    assert (found.correct, found.fault, bool(found.error)) == (False, "error", True)


def test_the_clock_is_read_around_a_case(tmp_path: Path):
    times = iter([10.0, 12.5])
    journal = ResultsFile(tmp_path / "j")
    run(Scripted(knows, again=True), journal, OFF, cases=SUITE.cases[:1], clock=lambda: next(times), parallel=1)
    assert [each.seconds for each in records(journal, OFF)] == [2.5]


def test_a_run_whose_results_cannot_be_kept_ends(tmp_path: Path):
    journal = ResultsFile(tmp_path / "folder" / "j")
    (tmp_path / "folder").rmdir()
    upstream = Scripted(knows, again=True)
    with pytest.raises(UsageError, match="cannot store results"):
        run(upstream, journal, OFF, parallel=2)
    assert len(upstream.requests) <= 2
