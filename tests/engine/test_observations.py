"""What one turn shows about a model, and what it did with the nonce."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import check_each
from tests.engine.engine_helpers import (
    ANSWER,
    ASKED,
    CONSTRAINED,
    DECISION,
    ENVELOPE,
    NATIVE,
    REFUSAL,
    TOOLS,
    Turn,
    action,
    decision,
    envelope,
    native,
    turn,
)
from tests.offline_turn import NONCE
from toolspeak.core.events import Candidate
from toolspeak.core.types import Request, ToolCall
from toolspeak.dialects.registry import render_calls
from toolspeak.engine.planning.capabilities import Profile, ProfileMatch
from toolspeak.engine.planning.strategy import Plan, Settings, plan
from toolspeak.engine.turn.observations import Observation, marks_in, observe, written_dialect
from toolspeak.engine.turn.trace import Trace, mark_of

OSLO = ("get_weather", {"city": "Oslo"})
CALL = [ToolCall(*OSLO)]


def planned(profile: Profile | None = None, settings: Settings | None = None) -> Plan:
    request = Request("m", tuple(ASKED), TOOLS)
    return plan(request, ProfileMatch(profile or Profile(), "unknown", ""), settings or Settings(mode="force"))


def seen(turned: Turn, protocol: str = "openai_chat", profile: Profile | None = None) -> Observation | None:
    return observe(planned(profile), turned.outcome.trace, protocol)


@pytest.mark.requirement("D8")
@check_each(
    ("answer", "fields"),
    [
        (action(city="Oslo"), {"plan": "inline", "dialect": "action", "marks": "auto"}),
        (render_calls("action", CALL), {"plan": "inline", "dialect": "action", "marks": "optional"}),
        (render_calls("hermes", CALL), {"plan": "inline", "dialect": "hermes", "marks": "auto"}),
        (render_calls("qwen_xml", CALL), {"plan": "inline", "dialect": "qwen_xml", "marks": "auto"}),
    ],
)
def test_calls_in_text_show_their_dialect_and_whether_the_nonce_was_copied(answer: str, fields: dict[str, Any]):
    observation = seen(turn(answer))
    assert observation is not None
    assert observation.fields == {"capability": "none", **fields}
    assert str(fields["dialect"]) in observation.why


def test_a_changed_nonce_is_not_asked_for_again():
    wrong = action(city="Oslo").replace(NONCE, "zzzzzz")
    observation = seen(turn(wrong, action(city="Oslo")))
    assert observation is not None
    assert observation.fields["marks"] == "optional"


def test_a_nonce_that_is_no_longer_asked_for_stays_so():
    profile = Profile(marks="optional")
    observation = seen(turn(render_calls("action", CALL), profile=profile), profile=profile)
    assert observation is not None
    assert observation.fields["marks"] == "optional"


@check_each(("protocol", "capability"), [("openai_chat", "openai"), ("anthropic", "advanced"), ("gemini", "advanced")])
def test_native_calls_show_that_tools_are_supported(protocol: str, capability: str):
    turned = turn(native(city="Oslo"), settings=Settings(), profile=NATIVE)
    observation = seen(turned, protocol)
    assert observation is not None
    assert observation.fields == {"capability": capability}


@check_each(
    ("answers", "more", "expected"),
    [
        ([decision(OSLO)], {"settings": DECISION}, "decision"),
        ([REFUSAL, REFUSAL, decision(OSLO)], {}, "decision"),
        ([envelope("", OSLO)], {"settings": ENVELOPE, "profile": CONSTRAINED}, "envelope"),
    ],
)
def test_other_plans_show_themselves(answers: list[Any], more: dict[str, Any], expected: str):
    observation = seen(turn(*answers, **more))
    assert observation is not None
    assert observation.fields == {"capability": "none", "plan": expected}


@check_each("answer", [ANSWER, REFUSAL])
def test_a_turn_without_a_call_shows_nothing(answer: str):
    assert seen(turn(answer)) is None


def test_a_trace_without_candidates_shows_nothing():
    trace = turn(action(city="Oslo")).outcome.trace
    empty = Trace("inline", "unknown", "")
    assert observe(planned(), empty, "openai_chat") is None
    bare = [attempt.__class__(**{**_fields(attempt), "candidates": ()}) for attempt in trace.attempts]
    assert observe(planned(), Trace("inline", "unknown", "", tuple(bare)), "openai_chat") is None
    unknown = Candidate("get_weather", "call", "accepted", "mine")
    odd = [attempt.__class__(**{**_fields(attempt), "candidates": (unknown,)}) for attempt in trace.attempts]
    assert observe(planned(), Trace("inline", "unknown", "", tuple(odd)), "openai_chat") is None


def _fields(attempt: Any) -> dict[str, Any]:
    return {name: getattr(attempt, name) for name in attempt.__struct_fields__}


def test_a_call_that_looks_like_no_dialect_counts_as_that_of_its_mark():
    strong = Candidate("get_weather", "text", "unknown_tool", "hermes", evidence={"wrapper": "strong"})
    assert written_dialect([strong], "something else", "", "action") == "hermes"
    assert written_dialect([strong], "something else", "", "hermes") == ""
    weak = Candidate("get_weather", "text", "unknown_tool", "json", evidence={"wrapper": "bare"})
    assert written_dialect([weak], "{}", NONCE, "action") == ""


# ---- the nonce


@check_each(
    ("answer", "counts"),
    [
        (action(city="Oslo"), {"copied": 1}),
        (render_calls("action", CALL), {"omitted": 1}),
        (render_calls("hermes", CALL * 2), {"omitted": 2}),
        (action(city="Oslo").replace(NONCE, "zzzzzz"), {"changed": 3}),
        (ANSWER, {}),
    ],
)
def test_what_became_of_the_nonce_is_counted(answer: str, counts: dict[str, int]):
    trace = turn(answer, settings=Settings(mode="force", retries=2)).outcome.trace
    assert {mark: count for mark, count in marks_in(trace.attempts).items() if mark in counts} == counts


def test_a_native_call_has_no_place_for_a_nonce():
    assert mark_of(Candidate("f", "call", "accepted", "native", evidence={"nonce": False})) is None
    assert mark_of(Candidate("f", "call", "accepted", "hermes")) is None
