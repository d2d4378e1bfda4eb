"""The battery finds the truth about models with known abilities, and no answer decides alone."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.simulated_models import Able, model
from toolspeak import Event, Failure, Finish, Request, Scripted, TextDelta, UpstreamError, Usage, UsageSeen
from toolspeak.engine.planning.capabilities import Profile, check_fields
from toolspeak.engine.planning.probe_questions import (
    LOOKUPS,
    TOOL,
    ProbeRoute,
    inline_question,
    native_question,
    read_answer,
)
from toolspeak.engine.planning.probe_results import DialectScore, ProbeResult
from toolspeak.engine.planning.probes import MAX_REQUESTS, ProbeRun
from toolspeak.engine.planning.server_hints import ServerHints
from toolspeak.upstreams.base import failure_of

NONCE = "k7q2xm"


def events_of(able: Able, request: Request) -> list[Event]:
    async def collect() -> list[Event]:
        events: list[Event] = []
        try:
            async with aclosing(Scripted(model(able)).open(request)) as batches:
                async for batch in batches:
                    events += batch
        except UpstreamError as error:
            events.append(failure_of(error))
        return events

    return asyncio.run(collect())


def probing_of(protocol: str = "openai_chat", profile: Profile | None = None, **more: Any) -> ProbeRun:
    return ProbeRun(ProbeRoute("m", protocol), profile or Profile(), NONCE, **more)


def probe(able: Able, **more: Any) -> ProbeResult:
    probing = probing_of(**more)
    while probing.pending is not None:
        probing.submit(events_of(able, probing.pending.request))
    return probing.result()


def found(verdict: ProbeResult) -> dict[str, str]:
    return {finding.trait: finding.value for finding in verdict.findings}


GOOD = {"capability": "openai", "system_role": True, "required": True, "parallel": True, "streams": True}
BY_TEXT = {"capability": "none", "system_role": True, "parallel": True, "streams": True, "dialect": "action"}


@pytest.mark.requirement("D5")
@pytest.mark.parametrize(
    ("able", "fields"),
    [
        pytest.param(Able(), GOOD | {"constraint": ""}, id="native"),
        pytest.param(Able(native="sometimes"), GOOD | {"leaks": True, "constraint": ""}, id="native, leaky"),
        pytest.param(Able(native="leaks"), BY_TEXT | {"leaks": True, "constraint": ""}, id="leaks only"),
        pytest.param(Able(native="rejects"), BY_TEXT | {"constraint": ""}, id="rejects tools with 400"),
        pytest.param(Able(native="breaks"), BY_TEXT | {"constraint": ""}, id="rejects tools with 500"),
        pytest.param(Able(native="ignores"), BY_TEXT | {"constraint": ""}, id="ignores tools"),
        pytest.param(
            Able(native="ignores", speaks=("hermes",)),
            BY_TEXT | {"dialect": "hermes", "constraint": ""},
            id="only hermes",
        ),
        pytest.param(
            Able(native="ignores", speaks=("invoke",)), BY_TEXT | {"dialect": "invoke", "constraint": ""}, id="only XML"
        ),
        pytest.param(
            Able(refuses=True), {"capability": "none", "streams": True, "constraint": ""}, id="refuses everything"
        ),
        pytest.param(
            Able(native="ignores", system="rejects"),
            BY_TEXT | {"system_role": False, "constraint": ""},
            id="no system role",
        ),
        pytest.param(
            Able(native="ignores", system="drops"),
            BY_TEXT | {"system_role": False, "constraint": ""},
            id="drops the system role",
        ),
        pytest.param(Able(stream="whole"), GOOD | {"streams": False, "constraint": ""}, id="one chunk"),
        pytest.param(Able(stream="rejects"), GOOD | {"streams": False, "constraint": ""}, id="rejects streams"),
        pytest.param(
            Able(parallel=False),
            {name: value for name, value in GOOD.items() if name != "parallel"} | {"constraint": ""},
            id="one call at a time",
        ),
        pytest.param(
            Able(native="ignores", parallel=False),
            BY_TEXT | {"parallel": False, "constraint": ""},
            id="one call at a time, by text",
        ),
        pytest.param(Able(required="ignores"), GOOD | {"required": False, "constraint": ""}, id="ignores required"),
        pytest.param(Able(required="rejects"), GOOD | {"required": False, "constraint": ""}, id="rejects required"),
        pytest.param(Able(schema="enforces"), GOOD | {"constraint": "json_schema"}, id="takes a schema"),
        pytest.param(Able(schema="rejects"), GOOD | {"constraint": ""}, id="rejects response_format"),
        pytest.param(
            Able(native="ignores", schema="rejects", grammar="enforces"),
            BY_TEXT | {"constraint": "gbnf"},
            id="takes a grammar only",
        ),
        pytest.param(
            Able(native="rejects", copies_marks=False),
            BY_TEXT | {"marks": "fixed", "constraint": ""},
            id="cannot copy marks",
        ),
        pytest.param(
            Able(native="ignores", speaks=(), schema="enforces"),
            {
                "capability": "none",
                "system_role": True,
                "streams": True,
                "constraint": "json_schema",
                "plan": "envelope",
            },
            id="calls where it must",
        ),
        pytest.param(
            Able(native="ignores", speaks=(), schema="enforces", fills=False),
            {"capability": "none", "system_role": True, "streams": True, "constraint": "json_schema"},
            id="does not even call where it must",
        ),
        pytest.param(Able(takes_limit=False), GOOD | {"constraint": ""}, id="takes no max_tokens"),
    ],
)
def test_the_truth_about_a_model_is_found(able: Able, fields: dict[str, object]):
    verdict = probe(able)
    assert verdict.fields == fields
    assert verdict.unreachable == ""
    assert check_fields(Profile, verdict.fields, "the verdict") == verdict.fields
    assert verdict.requests <= 32
    assert all(finding.evidence for finding in verdict.findings)


@pytest.mark.requirement("D5")
@check_each("seed", range(8))
@check_each("able", [Able(), Able(native="rejects", speaks=("hermes",))], ids=["native", "by text"])
def test_an_upstream_that_breaks_half_of_the_time_is_never_misjudged(able: Able, seed: int):
    truth = probe(able)
    verdict = probe(replace(able, flaky=0.5, chance=Random(seed)))
    if verdict.unreachable:  # five errors in a row at the very first question
        assert verdict.fields == {}
        return
    # What could not be found out is left open; what is said is true.
    assert verdict.fields.items() <= truth.fields.items()
    assert verdict.requests <= MAX_REQUESTS


def test_most_of_the_truth_is_found_although_half_of_the_answers_are_errors():
    known = [probe(replace(Able(), flaky=0.5, chance=Random(seed))).fields for seed in range(20)]
    assert sum(fields.get("capability") == "openai" for fields in known) >= 15


def test_a_model_that_nobody_can_reach_has_no_verdict():
    probing = probing_of()
    asked = 0
    while probing.pending is not None:
        probing.submit([Failure("no connection")])
        asked += 1
    assert (asked, probing.result().fields, probing.unreachable) == (5, {}, "no connection")


def test_a_key_that_is_not_taken_ends_the_probe_at_once():
    probing = probing_of()
    probing.submit([Failure("invalid key", status=401)])
    assert (probing.pending, probing.unreachable) == (None, "401 invalid key")


def test_a_model_that_is_not_there_is_asked_in_every_way_and_then_no_more():
    probing = probing_of()
    while probing.pending is not None:
        probing.submit([Failure("model not found", status=404)])
    assert (probing.requests, probing.unreachable) == (4, "404 model not found")


def test_a_model_that_calls_natively_is_asked_for_dialects_only_in_full():
    assert probe(Able()).dialects == ()
    full = probe(Able(speaks=("react",)), full=True)
    assert full.dialects[0] == DialectScore("react", won=3, tried=3, marked=3, own=3)
    assert full.fields["capability"] == "openai"
    assert full.fields["dialect"] == "react"


@pytest.mark.requirement("D5")
def test_dialects_are_ranked_by_what_came_of_them():
    verdict = probe(Able(native="rejects", speaks=("invoke", "pythonic")))
    assert [spoken.dialect for spoken in verdict.dialects[:2]] == ["invoke", "pythonic"]
    assert {spoken.won for spoken in verdict.dialects[2:]} == {0}


def test_the_dialect_of_the_family_is_tried_first_and_wins_among_equals():
    everything = ("action", "hermes", "invoke", "tool_line", "pythonic", "react")
    verdict = probe(Able(native="rejects", speaks=everything), profile=Profile(dialect="hermes"))
    assert verdict.fields["dialect"] == "hermes"


def test_among_models_without_marks_the_dialect_that_is_really_spoken_wins():
    able = Able(native="rejects")

    def stubborn(request: Request) -> list[Event]:
        """Writes Hermes calls without a mark, whatever it is asked for."""
        events = events_of(able, request)
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        thing = next((thing for thing in ("lamp", "chair", "kettle") if thing in text), "")
        if not thing:
            return events
        call = f'<tool_call>\n{{"name": "{TOOL.name}", "arguments": {{"item": "{thing}"}}}}\n</tool_call>'
        return [TextDelta(call), Finish("stop")]

    probing = probing_of()
    while probing.pending is not None:
        probing.submit(stubborn(probing.pending.request))
    assert probing.result().fields["dialect"] == "hermes"
    assert probing.result().fields["marks"] == "fixed"


def test_one_lucky_call_is_outvoted():
    probing = probing_of()
    while probing.pending is not None:
        request = probing.pending.request
        lucky = bool(request.tools) and "lamp" in request.messages[-1].text
        probing.submit(events_of(Able() if lucky else Able(native="ignores"), request))
    verdict = probing.result()
    assert verdict.fields["capability"] == "none"
    assert ("native", "no", "1 of 3 answers called the tool") in [
        (f.trait, f.value, f.evidence) for f in verdict.findings
    ]


def test_one_call_at_a_time_is_told_from_calls_that_are_garbled():
    assert found(probe(Able(parallel=False)))["parallel"] == "one at a time"
    probing = probing_of()
    while probing.pending is not None:
        garbled = probing.pending.trait == "parallel"
        probing.submit([TextDelta("?"), Finish("stop")] if garbled else events_of(Able(), probing.pending.request))
    assert found(probing.result())["parallel"] == "no"
    assert probing.result().fields["parallel"] is False


# ---- signs at no cost


@pytest.mark.requirement("D5")
def test_ollama_without_tools_is_believed_and_not_asked():
    signs = ServerHints("ollama", tools=False, media=())
    probing = probing_of("ollama", hints=signs)
    while probing.pending is not None:
        assert not probing.pending.request.tools
        probing.submit(events_of(Able(native="rejects"), probing.pending.request))
    verdict = probing.result()
    assert verdict.fields["capability"] == "none"
    assert verdict.fields["media"] == []


def test_ollama_with_tools_is_asked_all_the_same_and_has_no_word_for_a_choice():
    signs = ServerHints("ollama", tools=True, media=("image",))
    verdict = probe(Able(schema="enforces"), protocol="ollama", hints=signs)
    assert verdict.fields["capability"] == "openai"
    assert verdict.fields["required"] is False
    assert verdict.fields["media"] == ["image"]
    assert verdict.fields["constraint"] == "json_schema"
    assert found(probe(Able(native="ignores"), protocol="ollama", hints=signs))["native"] == "no"


def test_what_llama_cpp_says_of_a_template_is_a_hint_only():
    assert probe(Able(), hints=ServerHints("llama.cpp", tools=False)).fields["capability"] == "openai"


@pytest.mark.requirement("F11")
def test_the_window_that_a_server_reports_is_a_finding():
    result = probe(Able(), hints=ServerHints("llama.cpp", context=8192))
    assert result.fields["context_window"] == 8192
    assert [each.evidence for each in result.findings if each.trait == "context_window"] == ["reported by llama.cpp"]


def test_tools_of_a_shape_of_their_own_are_advanced():
    assert probe(Able(), protocol="anthropic").fields["capability"] == "advanced"


def test_a_protocol_that_can_enforce_nothing_known_is_not_asked_to():
    verdict = probe(Able(), protocol="telepathy")
    assert "constraint" not in found(verdict)
    assert "constraint" not in verdict.fields


# ---- what cannot be found out


def broken(trait: str) -> ProbeResult:
    """A good model whose upstream breaks whenever this is asked."""
    probing = probing_of(full=True)
    while probing.pending is not None:
        asked = probing.pending
        probing.submit(
            [Failure("overloaded", status=503)] if asked.trait == trait else events_of(Able(), asked.request)
        )
    return probing.result()


@check_each("trait", ["system_role", "native", "required", "parallel", "constraint"])
def test_what_breaks_is_unknown_and_says_nothing(trait: str):
    verdict = broken(trait)
    assert found(verdict)[trait] == "unknown"
    assert trait not in verdict.fields
    assert verdict.unreachable == ""


def test_dialects_that_break_are_none():
    verdict = broken("dialects")
    assert found(verdict)["dialects"] == "none"
    assert "dialect" not in verdict.fields


def test_a_model_of_few_words_may_stream_or_not():
    probing = probing_of()
    while probing.pending is not None:
        probing.submit([TextDelta("No."), Finish("stop")])
    assert found(probing.result())["streams"] == "unknown"
    assert "streams" not in probing.result().fields


def test_a_probe_that_becomes_too_long_ends():
    probing = probing_of(full=True)
    first = probing.pending
    assert first is not None
    probing.submit([TextDelta("hello"), Finish("stop")])
    while probing.pending is not None:
        probing.submit([Failure("overloaded", status=503)])
    assert probing.requests == MAX_REQUESTS
    assert not set(probing.result().fields) & {"capability", "dialect", "parallel"}


def test_usage_is_summed():
    probing = probing_of()
    while probing.pending is not None:
        probing.submit([TextDelta("No."), UsageSeen(Usage(10, 2)), Finish("stop")])
    assert probing.result().usage == Usage(10 * probing.requests, 2 * probing.requests)


# ---- one answer


@check_each(
    ("status", "message", "kind"),
    [
        (400, "no", "rejected"),
        (422, "no", "rejected"),
        (429, "later", "failed"),
        (408, "slow", "failed"),
        (403, "forbidden", "denied"),
        (500, "tools param requires --jinja", "rejected"),
        (500, "out of memory", "failed"),
        (503, "tools are overloaded", "failed"),
        (0, "connection reset", "failed"),
    ],
)
def test_a_failure_says_something_about_the_question_or_nothing(status: int, message: str, kind: str):
    asked = native_question(ProbeRoute("m", "openai_chat"), "native", LOOKUPS[0])
    assert read_answer(asked, [Failure(message, status=status)]).kind == kind


def test_a_call_that_was_cut_off_is_none():
    asked = inline_question(ProbeRoute("m", "openai_chat"), "dialects", LOOKUPS[0], "hermes", NONCE)
    text = f'<tool_call {NONCE}>\n{{"name": "lookup_code", "arguments": {{"item": "la'
    assert not read_answer(asked, [TextDelta(text), Finish("length")]).text_call


@given(st.lists(st.sampled_from(["lamp", "<tool_call>", "zanthor", '{"code":"QX7"}', "\n", "x" * 50]), max_size=6))
def test_whatever_is_answered_the_battery_ends_with_fields_that_a_profile_has(words: list[str]):
    probing = probing_of()
    while probing.pending is not None:
        probing.submit([TextDelta(" ".join(words) or "."), Finish("stop")])
    check_fields(Profile, probing.result().fields, "the verdict")
    assert probing.requests <= MAX_REQUESTS
