"""One turn through the engine: the choice of tools, and what has left stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from tests.engine.engine_helpers import (
    ANSWER,
    ASKED,
    BROWSER,
    DECISION,
    INLINE,
    NATIVE,
    NO_TOOLS,
    PLANS,
    REFUSAL,
    TOOLS,
    UNSAFE,
    WEATHER,
    WEATHER_CALL,
    action,
    decision,
    emitted,
    envelope,
    finished,
    last_words,
    native,
    turn,
)
from tests.offline_turn import engine_for
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Failure,
    Finish,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
)
from toolspeak.core.types import Message, Note, Tool, ToolCall, ToolChoice, ToolResult, Usage
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.actions import AskUpstream, Done, Emit, StopAttempt
from toolspeak.errors import UsageError

LIVE_CALLS = Settings(mode="force", stream_calls="live")

# ---- the choice of tools


@pytest.mark.requirement("A10")
@check_each("plan", PLANS)
@check_each("mode", ["auto", "required", "named"])
def test_a_choice_that_names_a_tool_that_is_not_there_is_the_callers_mistake(plan: str, mode: Any):
    settings, profile = PLANS[plan]
    with pytest.raises(UsageError, match="`get_wether`"):
        engine_for(ASKED, TOOLS, settings, choice=ToolChoice(mode, ("get_wether",)), profile=profile)


@pytest.mark.requirement("A10")
def test_a_choice_that_names_a_tool_that_cannot_be_emulated_is_the_callers_mistake():
    with pytest.raises(UsageError, match="`browser`"):
        engine_for(ASKED, (WEATHER, BROWSER), INLINE, choice=ToolChoice("named", ("browser",)))
    engine_for(ASKED, (WEATHER, BROWSER), Settings(), choice=ToolChoice("named", ("browser",)), profile=NATIVE)


@pytest.mark.requirement("A10")
@check_each("tools", [(), (BROWSER,)])
def test_a_demand_without_a_tool_to_call_is_the_callers_mistake(tools: tuple[Tool, ...]):
    messages = [*ASKED, Message("assistant", calls=(ToolCall("f", {}, "1"),)), Message("tool", results=(_RESULT,))]
    with pytest.raises(UsageError, match="no usable tool is listed"):
        engine_for(messages, tools, INLINE, choice=ToolChoice("required"))


_RESULT = ToolResult("1", "done")


@pytest.mark.requirement("A10")
@check_each("plan", PLANS)
def test_a_model_that_keeps_calling_what_is_not_allowed_ends_in_an_error(plan: str):
    settings, profile = PLANS[plan]
    call = ("search", {"query": "Oslo"})
    script: dict[str, list[Any]] = {
        "native": [finished(*native("search", query="Oslo"))],
        "inline": [action("search", query="Oslo")],
        "decision": [decision(call)],
        "envelope": [envelope("", call)],
        "fallback": [finished(*native("search", query="Oslo")), decision(call)],
    }
    choice = ToolChoice("required", ("get_weather",))
    turned = turn(*script[plan], settings=settings, profile=profile, choice=choice)
    assert (turned.calls, turned.reply.text, turned.reply.finish_reason) == ([], "", "error")
    assert turned.outcome.requests == (4 if plan == "fallback" else 3)
    assert turned.outcome.failure is not None
    assert "`search` may not be called now" in turned.outcome.failure.message
    assert "call_not_allowed" in turned.notes


@pytest.mark.requirement("A10")
def test_a_subset_without_a_demand_leaves_the_answer_to_the_model():
    choice = ToolChoice("auto", ("get_weather",))
    assert turn(ANSWER, choice=choice).reply.text == ANSWER
    turned = turn(action("search", query="x"), action(city="Oslo"), choice=choice)
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
    assert "search" not in turned.asked[0].messages[0].text


@pytest.mark.requirement("A10")
@check_each("stream", [False, True])
def test_two_calls_of_the_one_tool_that_is_named_are_one(stream: bool):
    both = f"{action(city='Oslo')}\n{action(city='Rome')}"
    turned = turn(both, choice=ToolChoice("named", ("get_weather",)), stream=stream)
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 1)
    assert "extra_call_dropped" in turned.notes


@pytest.mark.requirement("A10", "E1")
@check_each("plan", ["native", "inline", "envelope", "decision"])
def test_a_safety_refusal_is_not_asked_again_but_a_demand_that_it_leaves_unmet_is_an_error(plan: str):
    settings, profile = PLANS[plan]
    said = envelope(UNSAFE) if plan == "envelope" else UNSAFE
    turned = turn(said, settings=settings, profile=profile, choice=ToolChoice("required"))
    assert (turned.outcome.requests, turned.reply.text, turned.reply.finish_reason) == (1, "", "error")
    assert turned.outcome.failure is not None
    assert turned.outcome.failure.kind == "tool_choice"
    if plan != "decision":
        allowed = turn(said, settings=settings, profile=profile)
        assert (allowed.outcome.requests, allowed.reply.text, allowed.reply.failure) == (1, UNSAFE, None)


@pytest.mark.requirement("A10", "B6")
@check_each("reason", ["length", "content_filter"])
def test_a_demand_that_the_upstream_cut_short_keeps_the_upstreams_reason(reason: Any):
    turned = turn(finished(TextDelta("Well, "), reason=reason), choice=ToolChoice("required"))
    assert (turned.reply.text, turned.reply.finish_reason, turned.outcome.requests) == ("Well, ", reason, 1)


@pytest.mark.requirement("A10", "B6")
def test_a_demanded_decision_that_is_cut_before_any_call_keeps_its_reason_and_gets_no_answer():
    turned = turn(finished(TextDelta("Hm, I th"), reason="length"), settings=DECISION, choice=ToolChoice("required"))
    assert (turned.reply.text, turned.reply.finish_reason, turned.outcome.requests) == ("", "length", 1)


@pytest.mark.requirement("A10", "B11")
def test_a_demanded_call_that_left_and_turned_out_wrong_is_an_error():
    settings = Settings(mode="force", stream_calls="live")
    turned = turn(action(days=1), settings=settings, choice=ToolChoice("required"), stream=True)
    assert (turned.calls, turned.outcome.requests, turned.reply.finish_reason) == ([], 1, "error")
    assert turned.outcome.failure is not None
    assert "an unusable call was streamed" in turned.outcome.failure.message


# ---- what has left stays


@pytest.mark.requirement("B9")
def test_an_invented_result_stops_the_attempt_and_whatever_still_comes_of_it_is_ignored():
    engine = engine_for(ASKED, TOOLS, INLINE, stream=True)
    engine.start()
    engine.feed(1, TextDelta(f"{action(city='Oslo')}\n"))
    actions = engine.feed(1, TextDelta("```json result\n4 degrees\n```\n"))
    assert StopAttempt(1) in actions
    assert isinstance(actions[-1], Done)
    assert emitted(actions)[-1] == Finish("tool_calls")
    assert engine.feed(1, TextDelta("It is cold.")) == []
    assert engine.feed(1, Failure("late")) == []
    assert engine.end(1) == []


@pytest.mark.requirement("B9")
def test_an_invented_result_behind_a_call_that_does_not_fit_is_cut_off_too():
    turned = turn(f"{action()}\n```json result\n4 degrees\n```\n", action(city="Oslo"))
    assert (turned.calls, turned.reply.text.strip(), turned.outcome.requests) == (WEATHER_CALL, "", 2)


@pytest.mark.requirement("A9", "B9")
def test_an_answer_that_is_not_streamed_tells_its_tokens_although_it_invents_a_result():
    invented = f"{action(city='Oslo')}\n```json result\n4 degrees\n```\nIt is cold."
    answer = [TextDelta(invented), *native("search", query="x"), UsageSeen(Usage(7, 8)), Finish("length")]
    turned = turn(answer)
    assert (turned.calls, turned.reply.text.strip(), turned.reply.finish_reason) == (WEATHER_CALL, "", "tool_calls")
    assert turned.reply.usage == Usage(7, 8)
    assert turn([TextDelta(invented), Failure("gone")]).reply.failure is None


def test_events_of_another_attempt_are_ignored():
    engine = engine_for(ASKED, TOOLS, INLINE)
    assert engine.feed(1, TextDelta("early")) == []
    engine.start()
    assert engine.feed(2, TextDelta("Hello")) == []
    assert engine.end(2) == []
    engine.feed(1, TextDelta(REFUSAL))
    asks = [each for each in engine.end(1) if isinstance(each, AskUpstream)]
    assert [ask.attempt for ask in asks] == [2]
    assert engine.feed(1, TextDelta("late")) == []


@pytest.mark.requirement("B10")
def test_thinking_is_set_apart_in_answers_and_in_final_answers():
    turned = turn("<think>Hm.</think>It is cold.")
    assert (turned.reply.reasoning, turned.reply.text) == ("Hm.", "It is cold.")
    turned = turn(NO_TOOLS, f"<think>Hm.</think>{ANSWER}", settings=DECISION)
    assert (turned.reply.reasoning, turned.reply.text) == ("Hm.", ANSWER)


@pytest.mark.requirement("B7", "E1")
@check_each("call", [action(city="Oslo"), '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>'])
def test_a_call_in_thinking_that_the_upstream_sets_apart_is_asked_for_again(call: str):
    turned = turn(finished(ReasoningDelta(f"I call it.\n{call}\n")), action(city="Oslo"))
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
    assert [each.verdict for each in turned.reply.candidates] == ["reasoning", "call"]
    assert "inside your reasoning" in last_words(turned.asked[1])


@pytest.mark.requirement("B7")
@check_each("thought", ["What a day.", '<tool_call>{"name": "fly", "arguments": {}}</tool_call>'])
def test_thinking_without_a_call_of_a_tool_is_no_fault(thought: str):
    turned = turn(finished(ReasoningDelta(thought)))
    assert (turned.calls, turned.outcome.requests, turned.reply.reasoning) == ([], 1, thought)


@pytest.mark.requirement("B11")
@check_each("settings", [INLINE, LIVE_CALLS])
def test_an_announced_call_of_which_nothing_has_left_is_made_by_the_retry(settings: Settings):
    turned = turn(f"Wait.\n{action()}", f"Sorry.\n{action(city='Oslo')}", stream=True, settings=settings)
    starts = [event for event in turned.events if isinstance(event, CallStart)]
    assert [(start.index, start.name) for start in starts] == [(0, "get_weather")]
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
    assert turned.reply.text.strip() == "Wait."


@pytest.mark.requirement("B11")
def test_an_announced_call_that_is_never_made_is_closed_as_invalid():
    turned = turn(action(), ANSWER, stream=True, settings=LIVE_CALLS)
    assert [event for event in turned.events if isinstance(event, CallArgs | CallEnd)] == [
        CallArgs(0, "{}"),
        CallEnd(0, False, (Note("arguments_invalid", "`get_weather` was announced, but never made"),)),
    ]
    assert (turned.calls, turned.reply.text, turned.reply.finish_reason) == ([], ANSWER, "stop")


@pytest.mark.requirement("B11")
def test_a_call_whose_arguments_have_left_is_closed_and_not_asked_for_again():
    turned = turn(f"{action(days=1)}\nDone.", stream=True, settings=LIVE_CALLS)
    joined = "".join(event.fragment for event in turned.events if isinstance(event, CallArgs))
    assert json.loads(joined) == {"days": 1}
    (end,) = [event for event in turned.events if isinstance(event, CallEnd)]
    assert (end.valid, [note.code for note in end.notes]) == (False, ["arguments_invalid"])
    assert (turned.calls, turned.outcome.requests, turned.outcome.failure) == ([], 1, None)


@pytest.mark.requirement("B11", "E1")
@check_each("stream", [False, True])
def test_a_call_that_was_described_and_not_made_keeps_its_text_and_gains_the_retrys_call(stream: bool):
    said = "I will now call get_weather to look at the weather in Oslo for you."
    turned = turn(said, f"Here it is:\n{action(city='Oslo')}", stream=stream)
    assert (turned.calls, turned.reply.text, turned.outcome.requests) == (WEATHER_CALL, said, 2)
    assert "described a tool call" in last_words(turned.asked[1])


@pytest.mark.requirement("B11")
def test_an_opening_that_may_be_a_refusal_waits_and_any_other_flows():
    engine = engine_for(ASKED, TOOLS, INLINE, stream=True)
    engine.start()
    assert engine.feed(1, TextDelta("I'm sorry, but ")) == []
    assert engine.feed(1, TextDelta("I don't have access to any tools.")) == []
    assert [type(action) for action in engine.end(1)] == [Emit, AskUpstream]
    assert emitted(engine.feed(2, TextDelta("Oslo is "))) == [TextDelta("Oslo is ")]
    assert emitted(engine.feed(2, TextDelta("cold."))) == [TextDelta("cold.")]


@pytest.mark.requirement("B11")
def test_text_that_has_left_before_a_refusal_showed_itself_stays_and_the_retrys_text_is_dropped():
    said = f"Oslo, then. {REFUSAL}"
    turned = turn(said, f"Trying.\n{action(city='Oslo')}", stream=True, chunk=7)
    assert (turned.calls, turned.reply.text, turned.outcome.requests) == (WEATHER_CALL, said, 2)


@pytest.mark.requirement("B11")
def test_text_waits_for_a_call_where_one_is_demanded():
    engine = engine_for(ASKED, TOOLS, INLINE, stream=True, choice=ToolChoice("required"))
    engine.start()
    assert engine.feed(1, TextDelta("Let me see.\n")) == []
    call = action(city="Oslo")
    assert engine.feed(1, TextDelta(call[:-8])) == []
    assert [type(event) for event in emitted(engine.feed(1, TextDelta(call[-8:] + "\n")))][:4] == [
        TextDelta,
        CallStart,
        CallArgs,
        CallEnd,
    ]
