"""The table that decides: which evidence is enough for which policy, and what people are told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import check_each
from toolspeak.core.parsing.acceptance import (
    REGION_REASONS,
    Acceptance,
    Evidence,
    Policy,
    judge_end,
    judge_name,
    needs_line,
)

pytestmark = pytest.mark.requirement("B7")

LIVE, HOLD = Acceptance("live", "accepted"), Acceptance("hold", "held")
POLICIES: tuple[Policy, ...] = ("strict", "standard", "eager")


def evidence(wrapper: Any = "strong", **more: Any) -> Evidence:
    return Evidence("hermes", wrapper, **more)


def python(**more: Any) -> Evidence:
    return Evidence("pythonic", "bare", **more)


def no(reason: str) -> Acceptance:
    return Acceptance("reject", reason)


#: The evidence, and what strict, standard and eager make of the name alone.
AT_NAME: dict[str, tuple[Any, ...]] = {
    "marks and nothing else": (evidence(), LIVE, LIVE, LIVE),
    "a known name in marks": (evidence(known=True), LIVE, LIVE, LIVE),
    "an unknown name in marks": (evidence(known=False), *[no("unknown_tool")] * 3),
    "weak marks": (evidence("weak"), no("not_wrapped"), HOLD, HOLD),
    "no marks": (evidence("bare", known=True), no("not_wrapped"), HOLD, HOLD),
    "no marks, unknown": (evidence("bare", known=False), *[no("unknown_tool")] * 3),
    "no marks, tools not told": (evidence("bare"), no("not_wrapped"), HOLD, HOLD),
    "no marks, behind text, tools not told": (
        evidence("bare", answer_start=False),
        no("not_wrapped"),
        *[no("not_whole_answer")] * 2,
    ),
    "no marks, behind text, known": (evidence("bare", answer_start=False, known=True), no("not_wrapped"), HOLD, HOLD),
    "marks in the middle of a line": (evidence(line_start=False), no("inline"), LIVE, LIVE),
    "in reasoning": (evidence(in_reasoning=True, known=True), no("reasoning"), HOLD, HOLD),
    "in a fence in reasoning": (evidence(in_reasoning=True, in_fence=True, known=True), *[no("reasoning")] * 3),
    "in reasoning, without marks": (evidence("weak", in_reasoning=True, known=True), *[no("reasoning")] * 3),
    "in a fence": (evidence(in_fence=True), no("in_fence"), no("in_fence"), LIVE),
    "in inline code": (evidence(in_code=True), *[no("in_code")] * 3),
    "without the nonce": (evidence(nonce=False), *[no("no_nonce")] * 3),
    "with the nonce": (evidence(nonce=True), LIVE, LIVE, LIVE),
    "everything against it": (
        evidence("bare", in_reasoning=True, nonce=False, in_fence=True, in_code=True, known=False, line_start=False),
        *[no("reasoning")] * 3,
    ),
}


@check_each("case", AT_NAME)
def test_a_name_is_judged_by_its_evidence_and_the_policy(case: str):
    given, *expected = AT_NAME[case]
    assert [judge_name(given, policy) for policy in POLICIES] == expected


AT_END: dict[str, tuple[Any, ...]] = {
    "marks, fits": (evidence(fits=True), LIVE, LIVE, LIVE),
    "marks, does not fit": (evidence(fits=False), LIVE, LIVE, LIVE),  # goes out, and is closed as invalid
    "an echo": (evidence(fits=True, echo=True), *[no("echo")] * 3),
    "weak, fits": (evidence("weak", fits=True), HOLD, HOLD, LIVE),
    "weak, ends the answer": (evidence("weak", fits=True, answer_end=True), LIVE, LIVE, LIVE),
    "weak, more follows": (evidence("weak", fits=True, answer_end=False), *[no("more_follows")] * 2, LIVE),
    "weak, does not fit": (evidence("weak", fits=False), *[no("does_not_fit")] * 3),
    "bare, known": (evidence("bare", fits=True, known=True), LIVE, LIVE, LIVE),
    "bare, known, in a line": (evidence("bare", fits=True, known=True, line_start=False), HOLD, HOLD, LIVE),
    "bare, known, in a line that goes on": (
        evidence("bare", fits=True, known=True, line_start=False, answer_end=False),
        *[no("more_follows")] * 2,
        LIVE,
    ),
    "bare, known, at a line start, more follows": (
        evidence("bare", fits=True, known=True, answer_end=False),
        LIVE,
        LIVE,
        LIVE,
    ),
    "bare, tools not told": (evidence("bare", fits=True), HOLD, HOLD, HOLD),
    "bare, tools not told, whole answer": (evidence("bare", fits=True, answer_end=True), LIVE, LIVE, LIVE),
    "bare, tools not told, more follows": (
        evidence("bare", fits=True, answer_end=False),
        *[no("not_whole_answer")] * 3,
    ),
    "bare Python": (python(fits=True, known=True), HOLD, HOLD, LIVE),
    "bare Python that ends the answer": (python(fits=True, known=True, answer_end=True), LIVE, LIVE, LIVE),
    "bare Python in a sentence": (
        python(fits=True, known=True, answer_end=False),
        *[no("more_follows")] * 2,
        LIVE,
    ),
    "bare, does not fit": (evidence("bare", fits=False, known=True), *[no("does_not_fit")] * 3),
}


@check_each("case", AT_END)
def test_a_complete_call_is_judged_by_its_evidence_and_the_policy(case: str):
    given, *expected = AT_END[case]
    assert [judge_end(given, policy) for policy in POLICIES] == expected


@pytest.mark.requirement("R-E5")
def test_what_holds_for_everything_between_the_same_marks_is_listed():
    places = (
        evidence("weak", in_reasoning=True),
        evidence(in_fence=True),
        evidence(in_code=True),
        evidence(example="table"),
    )
    everything = (*places, evidence(nonce=False))
    inline = judge_name(evidence(line_start=False), "strict").reason
    assert {judge_name(each, "standard").reason for each in everything} | {inline} == REGION_REASONS
    assert "unknown_tool" not in REGION_REASONS


@check_each("dialect", ["name", "pythonic", "json", "hermes"])
@check_each("wrapper", ["bare", "weak", "strong"])
def test_only_a_bare_list_of_python_calls_needs_its_line_for_itself(dialect: str, wrapper: Any):
    needed = wrapper == "bare" and dialect == "pythonic"
    assert needs_line(Evidence(dialect, wrapper)) is needed
