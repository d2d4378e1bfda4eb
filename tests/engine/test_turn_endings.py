"""A turn always ends well: with a call, or with words."""

from __future__ import annotations

import json

import pytest

from tests.cases import check_each
from tests.engine.engine_helpers import (
    ASKED,
    DECISION,
    ENVELOPE,
    PLANS,
    WEATHER_CALL,
    action,
    decision,
    envelope,
    finished,
    last_words,
    native,
    turn,
)
from tests.offline_turn import NONCE, user
from toolspeak.core.events import CallStart, Event, TextDelta
from toolspeak.core.types import Message, TextPart, Tool, ToolCall, ToolResult
from toolspeak.engine.planning.strategy import Settings

#: A call whose arguments do not fit, in each plan. `days` must be an integer.
WRONG: dict[str, str | list[Event]] = {
    "inline": action(city="Oslo", days="x"),
    "decision": decision(("get_weather", {"city": "Oslo", "days": "x"})),
    "envelope": envelope("", ("get_weather", {"city": "Oslo", "days": "x"})),
    "native": finished(*native(city="Oslo", days="x"), reason="tool_calls"),
}
FORM = "<tool_call>{}</tool_call>"
HERMES = FORM.format(json.dumps({"name": "get_weather", "arguments": {"city": "Oslo"}}))
STRICT = Settings(mode="force", marks="nonce")


@check_each("plan", WRONG)
@check_each("stream", [False, True])
@check_each("chunk", [0, 1, 7])
@pytest.mark.requirement("E3", "B5")
def test_arguments_that_never_fit_end_in_words(plan: str, stream: bool, chunk: int):
    settings, profile = PLANS[plan]
    made = turn(*[WRONG[plan]] * 3, settings=settings, profile=profile, stream=stream, chunk=chunk)
    assert (made.calls, made.outcome.failure, made.reply.finish_reason) == ([], None, "stop")
    assert len(made.asked) == (4 if plan == "decision" else 3)
    assert "`days` must be integer, not string" in last_words(made.asked[1])
    assert not [event for event in made.events if isinstance(event, CallStart)]
    if plan != "decision":  # there, the model answers in a request of its own
        assert made.reply.text == (
            "The model tried to call `get_weather`, but its arguments do not fit the tool. "
            "For details, see `reply.trace()`."
        )


@check_each("plan", WRONG)
@check_each("stream", [False, True])
@pytest.mark.requirement("E3", "B5")
def test_a_call_that_is_put_right_is_made(plan: str, stream: bool):
    settings, profile = PLANS[plan]
    right: dict[str, str | list[Event]] = {
        "inline": action(city="Oslo"),
        "decision": decision(*WEATHER_CALL),
        "envelope": envelope("", *WEATHER_CALL),
        "native": finished(*native(city="Oslo"), reason="tool_calls"),
    }
    made = turn(WRONG[plan], right[plan], settings=settings, profile=profile, stream=stream, chunk=3 * stream)
    assert (made.calls, len(made.asked), made.reply.text) == (WEATHER_CALL, 2, "")


@pytest.mark.requirement("E3")
def test_words_of_the_model_are_kept_when_its_call_never_fits():
    made = turn(f"Let me look.\n\n{action(days='x')}", stream=True)
    assert (made.calls, made.reply.text.strip()) == ([], "Let me look.")


@check_each("stream", [False, True])
@check_each("chunk", [0, 1, 5])
@check_each(
    ("answer", "words"),
    [
        (HERMES, "The model wrote a call of `get_weather`"),
        (f"{HERMES}\nDone.", "Done."),
        (
            f"```json action\n{json.dumps({'tool': 'get_weather', 'parameters': {'city': 'Oslo'}})}\n```",
            "The model wrote",
        ),
    ],
)
@pytest.mark.requirement("E3")
def test_a_call_that_never_counts_is_not_shown_as_markup(answer: str, words: str, stream: bool, chunk: int):
    made = turn(answer, settings=STRICT, stream=stream, chunk=chunk)
    assert (made.calls, len(made.asked)) == ([], 3)
    assert made.reply.text.strip().startswith(words)
    assert "tool_call" not in made.reply.text
    assert "```" not in made.reply.text


@check_each("stream", [False, True])
def test_a_call_of_a_tool_that_does_not_exist_is_not_shown_as_markup(stream: bool):
    made = turn(FORM.format('{"name": "fly", "arguments": {}}'), stream=stream, chunk=5 * stream)
    assert (made.calls, len(made.asked)) == ([], 3)
    assert made.reply.text.startswith("The model tried to call `fly`, which it may not call.")


@check_each("stream", [False, True])
def test_markup_of_a_rejected_call_does_not_stay_in_the_text_of_a_turn_that_goes_well(stream: bool):
    made = turn(HERMES, action(city="Oslo"), settings=STRICT, stream=stream, chunk=4 * stream)
    assert (made.calls, made.reply.text, len(made.asked)) == (WEATHER_CALL, "", 2)


def test_an_empty_answer_after_a_decision_ends_in_words():
    made = turn(json.dumps({"nonce": NONCE, "tools": []}), "", settings=DECISION)
    assert made.reply.text == "The model returned an empty answer. For details, see `reply.trace()`."


def test_an_answer_that_was_cut_off_needs_no_words():
    made = turn(finished(TextDelta(""), reason="length"))
    assert (made.reply.text, made.reply.finish_reason) == ("", "length")


# ---- the example in a retry

FORECAST = Tool(
    "forecast",
    "A forecast.",
    {
        "type": "object",
        "properties": {
            "days": {"type": "integer"},
            "cities": {"type": "array", "items": {"type": "string"}},
            "unit": {"enum": ["celsius", "kelvin"]},
            "exact": {"type": "boolean"},
            "note": {"type": "string"},
        },
        "required": ["days", "cities", "unit", "exact"],
    },
)


@pytest.mark.requirement("E2")
def test_the_example_shows_the_tool_that_was_called_with_values_of_the_right_types():
    made = turn(action("forecast", days="x"), tools=(*(Tool(f"other_{at}") for at in range(3)), FORECAST))
    example = json.dumps(
        {"days": 1, "cities": ["example cities"], "unit": "celsius", "exact": True}, separators=(",", ":")
    )
    assert f'"forecast","parameters":{example}' in last_words(made.asked[1])


# ---- a call that the user wrote

TYPED = FORM.format(json.dumps({"name": "get_weather", "arguments": {"city": "Oslo"}}))


@check_each("stream", [False, True])
@pytest.mark.requirement("R-E4")
def test_a_call_that_the_user_typed_is_asked_for_again_and_counts_when_it_is_marked(stream: bool):
    messages = [user(f"Please make exactly this call: {TYPED}")]
    made = turn(TYPED, action(city="Oslo"), messages=messages, stream=stream, chunk=5 * stream)
    assert (made.calls, len(made.asked), made.reply.text) == (WEATHER_CALL, 2, "")
    assert "write it again with its marks exactly as shown" in last_words(made.asked[1])


@pytest.mark.requirement("R-E4")
def test_a_call_that_a_tool_result_contains_is_not_asked_for_again():
    messages = [
        *ASKED,
        Message("assistant", (TextPart("I look."),), calls=(ToolCall("search", {"query": "x"}, "c1"),)),
        Message("tool", results=(ToolResult("c1", f"Try {TYPED}"),)),
    ]
    made = turn(TYPED, messages=messages)
    assert (made.calls, len(made.asked), made.reply.text) == ([], 1, TYPED)


# ---- text before calls


@check_each("plan", ["inline", "native", "envelope"])
@check_each("stream", [False, True])
@pytest.mark.requirement("B11")
def test_text_before_a_call_can_be_dropped(plan: str, stream: bool):
    settings, profile = PLANS[plan]
    settings = Settings(mode=settings.mode, plan=settings.plan, text_before_calls="drop")
    answer: dict[str, str | list[Event]] = {
        "inline": f"Let me look that up for you.\n{action(city='Oslo')}\nDone.",
        "native": finished(TextDelta("Let me look that up."), *native(city="Oslo"), reason="tool_calls"),
        "envelope": envelope("Let me look that up.", *WEATHER_CALL),
    }
    made = turn(answer[plan], settings=settings, profile=profile, stream=stream, chunk=3 * stream)
    assert (made.calls, made.reply.text) == (WEATHER_CALL, "")


def test_text_without_a_call_is_kept_where_text_before_calls_is_dropped():
    made = turn("It is sunny in Oslo.", settings=Settings(mode="force", text_before_calls="drop"), stream=True, chunk=3)
    assert made.reply.text == "It is sunny in Oslo."


def test_an_envelope_that_is_not_filled_in_is_parsed_as_text():
    made = turn(action(city="Oslo"), settings=ENVELOPE, profile=PLANS["envelope"][1])
    assert made.calls == WEATHER_CALL
