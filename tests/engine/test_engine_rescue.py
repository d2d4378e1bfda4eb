"""What becomes of a turn when the model says nothing, asking again fails, or strict mode leaves nulls behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.cases import check_each
from tests.offline_turn import NONCE, STAMP, carry_out, engine_for, planned, user
from toolspeak.core.events import (
    CallArgs,
    CallStart,
    Event,
    Failure,
    Finish,
    OpaqueSeen,
    ReasoningDelta,
    Reply,
    TextDelta,
    fold,
)
from toolspeak.core.types import Opaque, Options, Request, ResponseFormat, Tool, ToolChoice
from toolspeak.engine.planning.capabilities import Profile
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.actions import TurnOutcome
from toolspeak.engine.turn.engine import Engine

WEATHER = Tool(
    "get_weather",
    "The weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
ASKED = (user("How is it in Oslo today?"),)
INLINE, DECISION, ENVELOPE = (Settings(mode="force", plan=plan) for plan in ("inline", "decision", "envelope"))
NATIVE, CONSTRAINED, STRICT = (
    Profile(capability="openai"),
    Profile(constraint="gbnf"),
    Profile(constraint="openai_strict"),
)
REFUSAL = "I'm sorry, but I don't have access to any tools."
BROKEN = Failure("the upstream is busy", status=429)
CALL = f'```json action {NONCE}\n{{"tool": "get_weather", "parameters": {{"city": "Oslo"}}}}\n```'

Said = str | Sequence[Event]


def carried_out(engine: Engine, *script: Said) -> tuple[Reply, TurnOutcome, list[Request]]:
    """A turn with a model that answers in this order, and then no more."""
    left = list(script)
    events, outcome, asked = carry_out(engine, lambda _: left.pop(0))
    assert not left
    return fold(events), outcome, asked


def codes(reply: Reply) -> list[str]:
    return [note.code for note in reply.notes]


def envelope(reply: Any) -> str:
    return json.dumps({"nonce": NONCE, "calls": [], "reply": reply})


# ---- nothing

EMPTY: dict[str, tuple[Settings, Profile, Said]] = {
    "native": (Settings(), NATIVE, [Finish("stop")]),
    "inline": (INLINE, Profile(), ""),
    "inline, white space": (INLINE, Profile(), " \n"),
    "envelope": (ENVELOPE, CONSTRAINED, envelope("")),
}


@pytest.mark.requirement("E2")
@check_each(("settings", "profile", "nothing"), EMPTY.values(), ids=EMPTY)
def test_an_empty_answer_is_asked_for_once_more(settings: Settings, profile: Profile, nothing: Said):
    engine = engine_for(ASKED, [WEATHER], settings, profile=profile)
    words = envelope("Sunny.") if settings is ENVELOPE else "Sunny."
    reply, outcome, asked = carried_out(engine, nothing, words)
    assert (reply.text, outcome.requests, codes(reply)) == ("Sunny.", 2, ["retry_empty"])
    assert "Your last answer was empty." in asked[1].messages[-1].text
    assert not any("no usable" in warning for warning in outcome.warnings)


@pytest.mark.requirement("E3")
@check_each(("settings", "profile", "nothing"), EMPTY.values(), ids=EMPTY)
def test_who_has_nothing_to_say_twice_is_not_asked_again(settings: Settings, profile: Profile, nothing: Said):
    engine = engine_for(ASKED, [WEATHER], settings, profile=profile)
    reply, outcome, _ = carried_out(engine, nothing, nothing)
    assert (reply.text, outcome.requests, outcome.failure) == (
        "The model returned an empty answer. For details, see `reply.trace()`.",
        2,
        None,
    )
    assert outcome.warnings[-1] == "no usable tool call after 2 requests: empty: the model returned no content"


def test_an_empty_decision_is_asked_for_once_more_and_then_answered():
    engine = engine_for(ASKED, [WEATHER], DECISION)
    reply, outcome, _ = carried_out(engine, "", "", "Sunny.")
    assert (reply.text, outcome.requests) == ("Sunny.", 3)


NOT_EMPTY: dict[str, tuple[ToolChoice, Said]] = {
    "thoughts": (ToolChoice(), [ReasoningDelta("Hm."), Finish("stop")]),
    "what is carried": (ToolChoice(), [OpaqueSeen(Opaque("audio", {})), Finish("stop")]),
    "an answer that was cut": (ToolChoice(), [Finish("length")]),
    "an answer that was withheld": (ToolChoice(), [Finish("content_filter")]),
    "no call is allowed": (ToolChoice("none"), [Finish("stop")]),
}


@check_each(("choice", "said"), NOT_EMPTY.values(), ids=NOT_EMPTY)
def test_these_are_not_empty_answers(choice: ToolChoice, said: Said):
    _, outcome, _ = carried_out(engine_for(ASKED, [WEATHER], profile=NATIVE, choice=choice), said)
    assert outcome.requests == 1


# ---- asking again fails


@pytest.mark.requirement("E3")
@check_each("stream", [False, True])
@check_each("broken", [[BROKEN], [TextDelta("I'm sor"), BROKEN]], ids=["at once", "in its middle"])
@check_each(("settings", "profile"), [(INLINE, Profile()), (Settings(), NATIVE)], ids=["inline", "native"])
def test_when_asking_again_fails_the_answer_before_is_given(
    settings: Settings, profile: Profile, broken: list[Event], stream: bool
):
    engine = engine_for(ASKED, [WEATHER], settings, profile=profile, stream=stream)
    reply, outcome, _ = carried_out(engine, REFUSAL, broken)
    assert (reply.text, reply.finish_reason, outcome.failure) == (REFUSAL, "stop", None)
    assert outcome.warnings[-1].startswith("no usable tool call after 2 requests: refusal")
    assert outcome.warnings[-1].endswith("; the retry failed: the upstream is busy")
    assert outcome.trace.why_no_call == "the upstream failed: the upstream is busy"


def test_text_that_has_left_is_not_given_twice():
    said = f"Paris is far from here. {REFUSAL}"
    engine = engine_for(ASKED, [WEATHER], INLINE, stream=True)
    reply, outcome, _ = carried_out(engine, said, [BROKEN])
    assert (reply.text, outcome.failure) == (said, None)


FAILING: dict[str, tuple[dict[str, Any], list[Said]]] = {
    "a call is demanded": ({"choice": ToolChoice("required")}, [REFUSAL, [BROKEN]]),
    "nothing came before": ({}, [[BROKEN]]),
    "the caller has seen a part of the new answer": (
        {"stream": True},
        [REFUSAL, [TextDelta("It is sunny in Oslo, "), BROKEN]],
    ),
    "a call has been announced": (
        {"stream": True, "settings": Settings(stream_calls="live"), "profile": NATIVE},
        [REFUSAL, [CallStart(0, "get_weather"), CallArgs(0, "{"), BROKEN]],
    ),
    "the decision says no word to the caller": ({"settings": DECISION}, [REFUSAL, [BROKEN]]),
}


@check_each(("given", "script"), FAILING.values(), ids=FAILING)
def test_a_turn_fails_with_its_upstream_when(given: dict[str, Any], script: list[Said]):
    settings = given.pop("settings", INLINE) if "settings" in given else INLINE
    _, outcome, _ = carried_out(engine_for(ASKED, [WEATHER], settings, **given), *script)
    assert outcome.failure == BROKEN


# ---- strict mode and the form of the answer

FORM = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "wind": {"type": "number"}, "rain": {"type": ["number", "null"]}},
    "required": ["city"],
}


def formed(profile: Profile, stream: bool = False) -> Engine:
    options = Options(response_format=ResponseFormat(FORM, "weather"))
    request = Request("m", ASKED, (WEATHER,), stream=stream, options=options)
    return Engine(request, planned(request, ENVELOPE, profile), ENVELOPE, stamp=STAMP, nonces=lambda _: NONCE)


@pytest.mark.requirement("C6")
@check_each("stream", [False, True])
def test_nulls_that_strict_mode_demands_do_not_reach_the_caller(stream: bool):
    said = envelope({"city": "Oslo", "wind": None, "rain": None})
    reply, outcome, asked = carried_out(formed(STRICT, stream), said)
    assert json.loads(reply.text) == {"city": "Oslo", "rain": None}
    assert ("null_dropped" in codes(reply), outcome.failure) == (True, None)
    schema = asked[0].options.grammar["response_format"]["json_schema"]["schema"]["properties"]["reply"]
    assert "wind" in schema["anyOf"][1]["required"]


def test_an_answer_that_fits_stays_as_it_is():
    reply, _, _ = carried_out(formed(STRICT), envelope({"city": "Oslo", "wind": 3, "rain": None}))
    assert (json.loads(reply.text), codes(reply)) == ({"city": "Oslo", "wind": 3, "rain": None}, [])


def test_an_answer_of_another_form_is_asked_for_again():
    reply, outcome, _ = carried_out(formed(STRICT), envelope({"wind": 3}), envelope({"city": "Oslo"}))
    assert (json.loads(reply.text), outcome.requests, codes(reply)) == ({"city": "Oslo"}, 2, ["retry_bad_format"])


def test_asking_for_the_form_again_and_failing_is_a_failure():
    _, outcome, _ = carried_out(formed(STRICT), envelope({"wind": 3}), [BROKEN])
    assert outcome.failure == BROKEN
