"""One turn through the engine: what the matrix of plans and scenarios does not hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tests.turns import NONCE, STAMP, carry_out, engine_for, planned, user
from toolspeak.core.capability import Profile
from toolspeak.core.engine import Action, Ask, Done, Emit, Engine, Outcome, Stop
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    Noted,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageSeen,
    fold,
)
from toolspeak.core.model import (
    Media,
    Message,
    Note,
    Options,
    Request,
    ResponseFormat,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)
from toolspeak.core.strategy import Settings
from toolspeak.errors import UsageError

WEATHER = Tool(
    "get_weather",
    "The weather in a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
SEARCH = Tool(
    "search", "Search the web.", {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
)
TOOLS = (WEATHER, SEARCH)
BROWSER = Tool("browser", kind="web_search_preview")
ASKED = [user("How is it in Oslo today?")]

NATIVE = Profile(capability="openai")
INLINE = Settings(mode="force")
DECISION = Settings(mode="force", plan="decision")
ENVELOPE = Settings(mode="force", plan="envelope")
FALLBACK = Settings(mode="fallback")
CONSTRAINED = Profile(constraint="json_schema")
PLANS: dict[str, tuple[Settings, Profile]] = {
    "native": (Settings(), NATIVE),
    "inline": (INLINE, Profile()),
    "decision": (DECISION, Profile()),
    "envelope": (ENVELOPE, CONSTRAINED),
    "fallback": (FALLBACK, NATIVE),
}

REFUSAL = "I'm sorry, but I don't have access to any tools."
UNSAFE = "I'm sorry, but I can't assist with that request."
ANSWER = "Oslo is the capital of Norway."
NO_TOOLS = json.dumps({"nonce": NONCE, "tools": []})


def action(name: str = "get_weather", **arguments: Any) -> str:
    return f"```json action {NONCE}\n{json.dumps({'tool': name, 'parameters': arguments})}\n```"


def decision(*calls: tuple[str, dict[str, Any]]) -> str:
    return json.dumps({"nonce": NONCE, "tools": [{"name": name, "arguments": given} for name, given in calls]})


def envelope(reply: Any, *calls: tuple[str, dict[str, Any]]) -> str:
    listed = [{"name": name, "arguments": given} for name, given in calls]
    return json.dumps({"nonce": NONCE, "calls": listed, "reply": reply})


def native(name: str = "get_weather", index: int = 0, id: str = "call_1", **arguments: Any) -> list[Event]:
    return [CallStart(index, name, id), CallArgs(index, json.dumps(arguments)), CallEnd(index)]


def finished(*events: Event, reason: Any = "stop", usage: Usage | None = None) -> list[Event]:
    return [*events, UsageSeen(usage or Usage(10, 5)), Finish(reason)]


def answers(*script: str | Sequence[Event]) -> Callable[[Request], str | Sequence[Event]]:
    """A model that answers in this order; asked more often, it repeats its last answer."""
    left = list(script)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


class Turn:
    """A turn that has been carried out."""

    def __init__(self, engine: Engine, *script: str | Sequence[Event], chunk: int = 0) -> None:
        self.events, outcome, self.asked = carry_out(engine, answers(*script), chunk)
        self.outcome: Outcome = outcome
        self.reply: Reply = fold(self.events)
        self.calls = [(call.name, call.arguments) for call in self.reply.calls]
        self.notes = [note.code for note in self.reply.notes]
        self.warnings = outcome.warnings


def turn(*script: str | Sequence[Event], chunk: int = 0, **arguments: Any) -> Turn:
    messages = arguments.pop("messages", ASKED)
    tools = arguments.pop("tools", TOOLS)
    return Turn(engine_for(messages, tools, arguments.pop("settings", INLINE), **arguments), *script, chunk=chunk)


def with_options(options: Options, settings: Settings, profile: Profile, choice: ToolChoice | None = None) -> Engine:
    request = Request("m", tuple(ASKED), TOOLS, choice or ToolChoice(), options=options)
    return Engine(request, planned(request, settings, profile), settings, stamp=STAMP, nonces=lambda _: NONCE)


def emitted(actions: Iterable[Action]) -> list[Event]:
    return [event for each in actions if isinstance(each, Emit) for event in each.events]


def last_words(request: Request) -> str:
    return request.messages[-1].text


WEATHER_CALL = [("get_weather", {"city": "Oslo"})]


# ---- modes


@pytest.mark.requirement("A2")
def test_with_mode_off_everything_goes_up_and_comes_back_as_it_is():
    text = f"{REFUSAL}\n<tool_call>\n{{}}\n</tool_call>"
    called = [CallStart(0, "anything", "x"), CallArgs(0, "{not json"), CallEnd(0)]
    turned = turn(
        finished(TextDelta(text), *called, reason="tool_calls"),
        settings=Settings(mode="off"),
        tools=(WEATHER, BROWSER),
        choice=ToolChoice("named", ("nobody",)),
    )
    assert turned.asked[0].tools == (WEATHER, BROWSER)
    assert turned.asked[0].tool_choice == ToolChoice("named", ("nobody",))
    assert turned.events[:4] == [TextDelta(text), *called]
    assert turned.events[-1] == Finish("tool_calls")
    assert (turned.outcome.requests, turned.outcome.warnings, turned.outcome.failure) == (1, (), None)


@pytest.mark.requirement("A3")
def test_the_text_of_a_fallbacks_native_answer_waits_for_its_first_call_and_then_everything_flows():
    engine = engine_for(ASKED, TOOLS, FALLBACK, stream=True, profile=NATIVE)
    engine.start()
    assert engine.feed(1, TextDelta("Let me ")) == []
    assert engine.feed(1, TextDelta("check.")) == []
    assert emitted(engine.feed(1, CallStart(0, "get_weather", "call_1"))) == [
        TextDelta("Let me check."),
        CallStart(0, "get_weather", "call_1"),
    ]
    assert emitted(engine.feed(1, CallArgs(0, '{"city": "Os'))) == [CallArgs(0, '{"city":"Os')]
    assert emitted(engine.feed(1, TextDelta(" One moment."))) == [TextDelta(" One moment.")]
    engine.feed(1, CallArgs(0, 'lo"}'))
    assert isinstance(emitted(engine.feed(1, CallEnd(0)))[0], CallArgs | CallEnd)
    engine.feed(1, Finish("tool_calls"))
    done = engine.end(1)[-1]
    assert isinstance(done, Done)
    assert (done.outcome.requests, done.outcome.warnings) == (1, ())


@pytest.mark.requirement("A3", "A9")
def test_a_fallback_without_a_native_call_drops_the_text_decides_and_lets_the_final_answer_flow():
    engine = engine_for(ASKED, TOOLS, FALLBACK, stream=True, profile=NATIVE)
    engine.start()
    assert engine.feed(1, TextDelta("I would have to look.")) == []
    engine.feed(1, Finish("stop"))
    (ask,) = engine.end(1)
    assert isinstance(ask, Ask)
    assert (ask.attempt, ask.request.tools, ask.request.messages[0].role) == (2, (), "system")
    assert engine.feed(2, TextDelta(NO_TOOLS)) == []
    (ask,) = engine.end(2)
    assert isinstance(ask, Ask)
    assert (ask.attempt, ask.request.messages, ask.request.stream) == (3, tuple(ASKED), True)
    assert emitted(engine.feed(3, TextDelta("Oslo "))) == [TextDelta("Oslo ")]
    assert emitted(engine.feed(3, TextDelta("is cold."))) == [TextDelta("is cold.")]
    done = engine.end(3)[-1]
    assert isinstance(done, Done)
    assert (done.outcome.requests, done.outcome.warnings) == (3, ("tool calls emulated",))


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    ("settings", "profile", "answer"),
    [
        (Settings(mode="fallback", plan="inline"), NATIVE, action(city="Oslo")),
        (
            Settings(mode="fallback", plan="envelope"),
            Profile(capability="openai", constraint="json_schema"),
            envelope("", ("get_weather", {"city": "Oslo"})),
        ),
    ],
)
def test_a_fallback_may_emulate_by_another_plan(settings: Settings, profile: Profile, answer: str):
    turned = turn("Hm.", answer, settings=settings, profile=profile)
    assert (turned.calls, turned.reply.text, turned.outcome.requests) == (WEATHER_CALL, "", 2)


@pytest.mark.requirement("A3", "B6")
def test_a_native_call_of_a_fallback_that_is_cut_off_is_not_made_up_for():
    cut = finished(TextDelta("Wait."), CallStart(0, "get_weather"), CallArgs(0, '{"city": "Os'), reason="length")
    turned = turn(cut, settings=FALLBACK, profile=NATIVE)
    assert (turned.calls, turned.reply.text, turned.reply.finish_reason, len(turned.asked)) == (
        [],
        "Wait.",
        "length",
        1,
    )


@pytest.mark.requirement("A6")
def test_chat_only_takes_the_tools_and_the_choice_away():
    choice = ToolChoice("required")
    turned = turn(ANSWER, settings=Settings(chat_only=True), choice=choice, tools=(WEATHER, BROWSER), profile=NATIVE)
    assert (turned.asked[0].tools, turned.asked[0].tool_choice) == ((), ToolChoice())
    dropped = "`tool_choice` was dropped: it demands a call, and chat only allows none"
    assert (turned.reply.text, turned.reply.failure, turned.outcome.warnings) == (ANSWER, None, (dropped,))
    bare = turn(ANSWER, settings=Settings(chat_only=True), choice=choice, tools=())
    assert (bare.asked[0].tool_choice, bare.outcome.warnings) == (ToolChoice(), (dropped,))
    assert turn(ANSWER, settings=Settings(chat_only=True)).outcome.warnings == ()


@pytest.mark.requirement("A10")
@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("named", ("ping",))])
def test_a_demand_for_a_call_without_any_tools_is_refused_before_anything_is_asked(choice: ToolChoice):
    with pytest.raises(UsageError, match="tool"):
        turn(ANSWER, choice=choice, tools=())


@pytest.mark.requirement("A6", "A10")
@pytest.mark.parametrize("settings", [Settings(chat_only=True), DECISION])
def test_a_native_call_that_nobody_offered_is_no_call(settings: Settings):
    called = finished(TextDelta(ANSWER), *native(city="Oslo"), reason="tool_calls")
    script = [called] if settings.chat_only else [NO_TOOLS, called]
    turned = turn(*script, settings=settings)
    assert (turned.calls, turned.reply.text, turned.reply.finish_reason) == ([], ANSWER, "stop")


# ---- the decision


@pytest.mark.requirement("A8")
def test_the_decision_is_made_on_a_clone_that_lists_what_was_done():
    messages = [
        Message("system", (TextPart("Speak like a pirate."),)),
        user("Hello"),
        Message("assistant", (TextPart("Ahoy."),)),
        user("How is it in Oslo?"),
        Message("assistant", (TextPart("I look."),), calls=(ToolCall("get_weather", {"city": "Oslo"}, "c1"),)),
        Message("tool", results=(ToolResult("c1", "4 degrees"),)),
    ]
    turned = turn(NO_TOOLS, "Arr, 4 degrees.", settings=DECISION, messages=messages)
    clone, final = turned.asked
    prompt = clone.messages[0].text
    assert [message.role for message in clone.messages] == ["system", "user", "user", "assistant", "user"]
    assert [message.text for message in clone.messages[1:4]] == ["Hello", "How is it in Oslo?", "I look."]
    assert "pirate" not in prompt
    assert "4 degrees" in prompt
    assert (clone.tools, clone.tool_choice, clone.stream) == ((), ToolChoice(), False)
    assert not any(message.calls or message.results for message in clone.messages)
    assert final.messages[0].text == "Speak like a pirate."
    assert "4 degrees" in "".join(message.text for message in final.messages)
    assert (final.tools, turned.reply.text) == ((), "Arr, 4 degrees.")


@pytest.mark.requirement("A14")
def test_a_decision_that_is_no_document_means_that_no_tool_is_wanted():
    turned = turn("It is a fine day.", ANSWER, settings=DECISION)
    assert (turned.calls, turned.reply.text, turned.outcome.requests) == ([], ANSWER, 2)


@pytest.mark.requirement("A14", "E3")
def test_a_decision_that_stays_wrong_goes_on_to_the_answer():
    bad = decision(("get_weather", {"days": 1}))
    turned = turn(bad, bad, bad, ANSWER, settings=DECISION)
    assert (turned.calls, turned.reply.text, turned.outcome.requests) == ([], ANSWER, 4)
    assert turned.notes.count("retry_bad_arguments") == 2
    assert "no usable tool call after 3 requests: bad arguments: `get_weather`: `city` is required" in turned.warnings
    assert turned.outcome.trace.why_no_call == "bad arguments `get_weather`: `city` is required"


@pytest.mark.requirement("A14", "E3", "H6")
def test_a_decision_that_is_refused_to_the_end_is_told_like_any_other_refusal():
    turned = turn(REFUSAL, settings=DECISION)
    assert turned.outcome.requests == 4
    assert turned.warnings[1].startswith("no usable tool call after 3 requests: refusal")
    assert turned.outcome.trace.why_no_call.startswith("refusal")
    changed = turn(REFUSAL, NO_TOOLS, ANSWER, settings=DECISION)
    assert (changed.warnings, changed.reply.text) == (("tool calls emulated",), ANSWER)
    assert changed.outcome.trace.why_no_call == "the model answered without calling a tool"


@pytest.mark.requirement("A14", "A10")
def test_a_decision_for_nothing_where_a_call_is_demanded_is_asked_again_and_then_an_error():
    turned = turn(NO_TOOLS, settings=DECISION, choice=ToolChoice("required"))
    assert (turned.outcome.requests, turned.reply.finish_reason, turned.reply.text) == (3, "error", "")
    assert turned.outcome.failure is not None
    assert turned.outcome.failure.kind == "tool_choice"
    assert turned.outcome.failure.message.startswith("no call that `tool_choice` allows after 3 requests")


# ---- answers that break off

BROKEN = Failure("the connection was lost", "truncated")


@pytest.mark.requirement("B8")
def test_text_that_was_held_is_told_before_the_failure_of_the_upstream():
    turned = turn([TextDelta("I am sorry, but I "), BROKEN])
    kinds = [type(event).__name__ for event in turned.events]
    assert turned.reply.text == "I am sorry, but I "
    assert kinds.index("TextDelta") < kinds.index("Failure")


@pytest.mark.parametrize(
    "more", [{"choice": ToolChoice("required")}, {"choice": ToolChoice("named", ("search",))}, {"settings": DECISION}]
)
def test_text_that_was_never_meant_for_the_caller_is_not_told_even_then(more: dict[str, Any]):
    turned = turn([TextDelta("I am sorry, but I "), BROKEN], **more)
    assert (turned.reply.text, turned.outcome.failure) == ("", BROKEN)


# ---- counting


@pytest.mark.requirement("A9")
def test_tokens_are_summed_over_all_requests_and_told_once_before_the_end():
    first = finished(TextDelta(action(days=1)), usage=Usage(100, 20, 50))
    second = finished(TextDelta(action(city="Oslo")), usage=Usage(130, 10))
    turned = turn(first, second)
    assert turned.events[-2:] == [UsageSeen(Usage(230, 30, 50)), Finish("tool_calls")]
    assert sum(isinstance(event, UsageSeen) for event in turned.events) == 1


@pytest.mark.requirement("A11")
def test_calls_are_numbered_over_all_answers_and_ids_that_come_twice_are_replaced():
    answer = finished(
        *native(index=0, id="a", city="Oslo"),
        *native(index=1, id="a", city="Rome"),
        *native(index=2, id="", city="Bonn"),
        reason="tool_calls",
    )
    turned = turn(answer, settings=Settings(), profile=NATIVE)
    assert [call.id for call in turned.reply.calls] == ["a", f"emulated_{STAMP}_1", f"emulated_{STAMP}_2"]


@pytest.mark.requirement("A12")
def test_a_decision_for_no_tool_is_told_as_emulation():
    turned = turn(NO_TOOLS, ANSWER, settings=DECISION)
    assert turned.outcome.warnings == ("tool calls emulated",)


# ---- tools that cannot be emulated


DROPPED = "the tool `browser` of type `web_search_preview` was dropped: it cannot be emulated"


@pytest.mark.requirement("A13")
@pytest.mark.parametrize(
    ("name", "script", "warnings"),
    [
        ("inline", [ANSWER], {"tool calls emulated", DROPPED}),
        ("decision", [NO_TOOLS, ANSWER], {"tool calls emulated", DROPPED}),
        ("envelope", [envelope(ANSWER)], {"tool calls emulated", DROPPED}),
        ("fallback", [ANSWER, NO_TOOLS, ANSWER], {"tool calls emulated", DROPPED}),
        ("fallback", [finished(*native(city="Oslo"))], set[str]()),
        ("native", [ANSWER], set[str]()),
        ("native", [[Failure("no tools here", status=400)], ANSWER], {"tool calls emulated", DROPPED}),
    ],
)
def test_a_tool_that_is_no_function_is_dropped_with_a_warning_where_a_prompt_is_written(
    name: str, script: list[Any], warnings: set[str]
):
    settings, profile = PLANS[name]
    turned = turn(*script, settings=settings, profile=profile, tools=(*TOOLS, BROWSER))
    assert set(turned.outcome.warnings) == warnings
    prompts = [request.messages[0].text for request in turned.asked if not request.tools]
    assert not any("browser" in prompt for prompt in prompts)


@pytest.mark.requirement("A13")
def test_where_no_tool_is_a_function_the_request_goes_up_without_any_and_says_so_once():
    turned = turn(ANSWER, tools=(BROWSER, BROWSER))
    assert (turned.asked[0].tools, turned.outcome.warnings, turned.reply.text) == ((), (DROPPED,), ANSWER)


@pytest.mark.requirement("A13")
def test_a_custom_tool_is_called_with_one_text():
    patch = Tool("patch", "Change a file.", WEATHER.parameters | {"required": []}, kind="custom")
    turned = turn(action("patch", city="x"), tools=(patch,))
    assert turned.calls == [("patch", {"city": "x"})]


@pytest.mark.requirement("C1")
def test_of_two_tools_with_one_name_the_first_counts():
    other = Tool("get_weather", parameters={"type": "object", "properties": {"zip": {"type": "string"}}})
    turned = turn(action(city="Oslo"), tools=(WEATHER, other))
    assert turned.calls == WEATHER_CALL


# ---- the choice of tools


@pytest.mark.requirement("A10")
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("mode", ["auto", "required", "named"])
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
@pytest.mark.parametrize("tools", [(), (BROWSER,)])
def test_a_demand_without_a_tool_to_call_is_the_callers_mistake(tools: tuple[Tool, ...]):
    messages = [*ASKED, Message("assistant", calls=(ToolCall("f", {}, "1"),)), Message("tool", results=(_RESULT,))]
    with pytest.raises(UsageError, match="no tool to call"):
        engine_for(messages, tools, INLINE, choice=ToolChoice("required"))


_RESULT = ToolResult("1", "done")


@pytest.mark.requirement("A10")
@pytest.mark.parametrize("plan", PLANS)
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
@pytest.mark.parametrize("stream", [False, True])
def test_two_calls_of_the_one_tool_that_is_named_are_one(stream: bool):
    both = f"{action(city='Oslo')}\n{action(city='Rome')}"
    turned = turn(both, choice=ToolChoice("named", ("get_weather",)), stream=stream)
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 1)
    assert "extra_call_dropped" in turned.notes


@pytest.mark.requirement("A10", "E1")
@pytest.mark.parametrize("plan", ["native", "inline", "envelope", "decision"])
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
@pytest.mark.parametrize("reason", ["length", "content_filter"])
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
    assert "a call has left that cannot be used" in turned.outcome.failure.message


# ---- what has left stays


@pytest.mark.requirement("B9")
def test_an_invented_result_stops_the_attempt_and_whatever_still_comes_of_it_is_ignored():
    engine = engine_for(ASKED, TOOLS, INLINE, stream=True)
    engine.start()
    engine.feed(1, TextDelta(f"{action(city='Oslo')}\n"))
    actions = engine.feed(1, TextDelta("```json result\n4 degrees\n```\n"))
    assert Stop(1) in actions
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
    asks = [each for each in engine.end(1) if isinstance(each, Ask)]
    assert [ask.attempt for ask in asks] == [2]
    assert engine.feed(1, TextDelta("late")) == []


@pytest.mark.requirement("B10")
def test_thinking_is_set_apart_in_answers_and_in_final_answers():
    turned = turn("<think>Hm.</think>It is cold.")
    assert (turned.reply.reasoning, turned.reply.text) == ("Hm.", "It is cold.")
    turned = turn(NO_TOOLS, f"<think>Hm.</think>{ANSWER}", settings=DECISION)
    assert (turned.reply.reasoning, turned.reply.text) == ("Hm.", ANSWER)


@pytest.mark.requirement("B7", "E1")
@pytest.mark.parametrize(
    "call", [action(city="Oslo"), '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>']
)
def test_a_call_in_thinking_that_the_upstream_sets_apart_is_asked_for_again(call: str):
    turned = turn(finished(ReasoningDelta(f"I call it.\n{call}\n")), action(city="Oslo"))
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
    assert [each.verdict for each in turned.reply.candidates] == ["reasoning", "call"]
    assert "inside your reasoning" in last_words(turned.asked[1])


@pytest.mark.requirement("B7")
@pytest.mark.parametrize("thought", ["What a day.", '<tool_call>{"name": "fly", "arguments": {}}</tool_call>'])
def test_thinking_without_a_call_of_a_tool_is_no_fault(thought: str):
    turned = turn(finished(ReasoningDelta(thought)))
    assert (turned.calls, turned.outcome.requests, turned.reply.reasoning) == ([], 1, thought)


@pytest.mark.requirement("B11")
def test_an_announced_call_of_which_nothing_has_left_is_made_by_the_retry():
    turned = turn(f"Wait.\n{action()}", f"Sorry.\n{action(city='Oslo')}", stream=True)
    starts = [event for event in turned.events if isinstance(event, CallStart)]
    assert [(start.index, start.name) for start in starts] == [(0, "get_weather")]
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
    assert turned.reply.text.strip() == "Wait."


@pytest.mark.requirement("B11")
def test_an_announced_call_that_is_never_made_is_closed_as_invalid():
    turned = turn(action(), ANSWER, stream=True)
    assert [event for event in turned.events if isinstance(event, CallArgs | CallEnd)] == [
        CallArgs(0, "{}"),
        CallEnd(0, False, (Note("arguments_invalid", "`get_weather` was announced, but never made"),)),
    ]
    assert (turned.calls, turned.reply.text, turned.reply.finish_reason) == ([], ANSWER, "stop")


@pytest.mark.requirement("B11")
def test_a_call_whose_arguments_have_left_is_closed_and_not_asked_for_again():
    turned = turn(f"{action(days=1)}\nDone.", stream=True)
    joined = "".join(event.fragment for event in turned.events if isinstance(event, CallArgs))
    assert json.loads(joined) == {"days": 1}
    (end,) = [event for event in turned.events if isinstance(event, CallEnd)]
    assert (end.valid, [note.code for note in end.notes]) == (False, ["arguments_invalid"])
    assert (turned.calls, turned.outcome.requests, turned.outcome.failure) == ([], 1, None)


@pytest.mark.requirement("B11", "E1")
@pytest.mark.parametrize("stream", [False, True])
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
    assert [type(action) for action in engine.end(1)] == [Emit, Ask]
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


# ---- formats, stops, numbers


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WANTED = ResponseFormat(SCHEMA, "city")


@pytest.mark.requirement("C6")
def test_a_format_is_kept_inline_by_repairing_the_text():
    engine = with_options(Options(response_format=WANTED), INLINE, Profile())
    turned = Turn(engine, "Here you are:\n```json\n{'city': 'Oslo',}\n```")
    assert json.loads(turned.reply.text) == {"city": "Oslo"}
    assert (turned.outcome.requests, "format_repaired" in turned.notes) == (1, True)
    assert turned.asked[0].options.response_format is None
    assert json.dumps(SCHEMA, separators=(",", ":")) in turned.asked[0].messages[0].text


@pytest.mark.requirement("C6")
def test_a_call_comes_before_the_format():
    engine = with_options(Options(response_format=WANTED), INLINE, Profile())
    turned = Turn(engine, f"Let me see.\n{action(city='Oslo')}")
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 1)


@pytest.mark.requirement("C6", "E2")
def test_an_answer_without_the_format_is_asked_for_again_and_then_an_error():
    engine = with_options(Options(response_format=WANTED), INLINE, Profile())
    turned = Turn(engine, "It is Oslo.", '{"city": "Oslo"}')
    assert (turned.reply.text, turned.outcome.requests) == ('{"city": "Oslo"}', 2)
    assert "retry_bad_format" in turned.notes
    turned = Turn(with_options(Options(response_format=WANTED), INLINE, Profile()), "It is Oslo.")
    assert (turned.reply.text, turned.reply.finish_reason, turned.outcome.requests) == ("", "error", 3)
    assert turned.outcome.failure is not None
    assert turned.outcome.failure.kind == "format"
    assert turned.outcome.failure.message.startswith("no answer in the form asked for after 3 requests")


@pytest.mark.requirement("C6", "E3")
def test_what_is_returned_after_the_last_retry_has_the_form_asked_for_too():
    turned = Turn(with_options(Options(response_format=WANTED), INLINE, Profile()), REFUSAL)
    assert turned.outcome.failure is not None
    assert (turned.outcome.failure.kind, turned.reply.text, turned.outcome.requests) == ("format", "", 3)
    said = json.dumps({"city": f"{REFUSAL} I cannot look up the weather."})
    turned = Turn(with_options(Options(response_format=WANTED), INLINE, Profile()), f"{REFUSAL}\n```json\n{said}\n```")
    assert (turned.outcome.failure, json.loads(turned.reply.text)) == (None, json.loads(said))


@pytest.mark.requirement("B11")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("opening", ["\n\n", "I'm sorry,\n"])
def test_an_opening_before_a_call_is_no_refusal_whatever_the_call_comes_to(stream: bool, opening: str):
    turned = turn(f"{opening}{action()}\n\n", f"Again.\n{action(city='Oslo')}", stream=stream)
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
    assert turned.reply.text.strip() == (opening.strip() or "Again.")


@pytest.mark.requirement("C6", "B6")
def test_an_answer_that_is_cut_off_is_not_held_to_its_format():
    engine = with_options(Options(response_format=WANTED), INLINE, Profile())
    turned = Turn(engine, finished(TextDelta('{"city": "Os'), reason="length"))
    assert (turned.reply.text, turned.reply.finish_reason, turned.outcome.requests) == ('{"city": "Os', "length", 1)


@pytest.mark.requirement("C6")
def test_a_format_goes_up_with_the_final_request_of_two_phases():
    turned = Turn(with_options(Options(response_format=WANTED), DECISION, Profile()), NO_TOOLS, '{"city": "Oslo"}')
    assert [request.options.response_format for request in turned.asked] == [None, WANTED]
    assert turned.reply.text == '{"city": "Oslo"}'


@pytest.mark.requirement("C6")
def test_a_format_is_the_schema_of_the_reply_in_an_envelope():
    turned = Turn(with_options(Options(response_format=WANTED), ENVELOPE, CONSTRAINED), envelope({"city": "Oslo"}))
    enforced = turned.asked[0].options.grammar["response_format"]["json_schema"]["schema"]
    replies = [branch["properties"]["reply"] for branch in enforced["anyOf"]]
    assert [reply["properties"] for reply in replies if reply["type"] == "object"] == [SCHEMA["properties"]]
    assert turned.asked[0].options.response_format is None
    assert (json.loads(turned.reply.text), turned.outcome.requests) == ({"city": "Oslo"}, 1)


@pytest.mark.requirement("C6")
def test_a_format_goes_up_with_native_tools():
    turned = Turn(with_options(Options(response_format=WANTED), Settings(), NATIVE), "{}")
    assert turned.asked[0].options.response_format == WANTED


@pytest.mark.requirement("C6")
def test_several_answers_at_once_are_not_emulated():
    for plan in ("inline", "decision", "envelope", "fallback"):
        settings, profile = PLANS[plan]
        with pytest.raises(UsageError, match="`n` above 1"):
            with_options(Options(n=2), settings, profile)
    refused = [Failure("tools are not supported", status=400)]
    turned = Turn(with_options(Options(n=2), Settings(), NATIVE), refused)
    assert (turned.outcome.requests, turned.reply.failure) == (1, refused[0])


@pytest.mark.requirement("C4")
def test_what_the_model_cannot_take_is_told_as_text():
    picture = Message("user", (TextPart("What is this?"), Media("image", "data:image/png;base64,AA==")))
    turned = turn(ANSWER, messages=[picture], profile=Profile(media=()))
    assert "[image left out" in last_words(turned.asked[0])
    assert "media_replaced" in turned.notes
    assert turn(ANSWER, messages=[picture]).asked[0].messages[-1].parts[-1] == picture.parts[-1]


# ---- native answers


@pytest.mark.requirement("D7")
def test_a_call_in_the_text_of_a_native_answer_is_rescued_unless_that_never_happens_there():
    said = 'Sure.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    turned = turn(said, settings=Settings(), profile=NATIVE)
    assert (turned.calls, turned.reply.text.strip()) == (WEATHER_CALL, "Sure.")
    assert turned.outcome.warnings == ("tool calls read from text",)
    trusted = Profile(capability="openai", leaks=False)
    turned = turn(said, settings=Settings(), profile=trusted)
    assert (turned.calls, turned.reply.text) == ([], said)


@pytest.mark.requirement("D7")
def test_a_native_call_is_not_told_as_rescued():
    turned = turn(finished(*native(city="Oslo")), settings=Settings(), profile=NATIVE)
    assert (turned.calls, turned.outcome.warnings, turned.reply.finish_reason) == (WEATHER_CALL, (), "tool_calls")


@pytest.mark.requirement("D6")
@pytest.mark.parametrize("plan", ["native", "fallback"])
@pytest.mark.parametrize("status", [400, 404, 422, 501])
def test_an_upstream_that_does_not_take_tools_is_asked_without_them(plan: str, status: int):
    settings, profile = PLANS[plan]
    refusal = [Failure("bad request", status=status, body='{"error": "m does not support tools"}')]
    answer = action(city="Oslo") if plan == "native" else decision(*WEATHER_CALL)
    turned = turn(refusal, answer, settings=settings, profile=profile)
    assert (turned.calls, turned.outcome.requests, turned.outcome.failure) == (WEATHER_CALL, 2, None)
    assert ("native_unsupported" in turned.notes, turned.asked[1].tools) == (True, ())
    assert turned.outcome.warnings == ("tool calls emulated",)


@pytest.mark.requirement("D6")
@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        (Settings(), [Failure("no tools", status=401)]),
        (Settings(), [Failure("context too long", status=400)]),
        (Settings(), [TextDelta("Well, "), Failure("tools broke", status=500)]),
        (Settings(), [ReasoningDelta("Hm."), Failure("tools broke", status=500)]),
        (INLINE, [Failure("no tools", status=400)]),
    ],
)
def test_any_other_failure_ends_the_turn(settings: Settings, answer: list[Event]):
    turned = turn(answer, settings=settings, profile=NATIVE)
    assert (turned.outcome.requests, turned.outcome.failure, turned.reply.finish_reason) == (1, answer[-1], "error")
    assert turned.events[-2:] == [answer[-1], Finish("error")]


@pytest.mark.requirement("B11")
def test_a_failure_in_the_middle_of_an_answer_keeps_what_has_left_and_stops_the_attempt():
    engine = engine_for(ASKED, TOOLS, INLINE, stream=True)
    engine.start()
    assert emitted(engine.feed(1, TextDelta("Oslo is "))) == [TextDelta("Oslo is ")]
    broken = Failure("the connection broke", kind="truncated")
    actions = engine.feed(1, broken)
    assert actions[0] == Stop(1)
    assert emitted(actions) == [UsageSeen(Usage()), broken, Finish("error")]
    assert isinstance(actions[-1], Done)
    assert actions[-1].outcome.failure == broken


@pytest.mark.requirement("B6")
@pytest.mark.parametrize("stream", [False, True])
def test_a_native_call_in_which_the_upstream_fails_is_no_call(stream: bool):
    broken = [CallStart(0, "get_weather", "a"), CallArgs(0, '{"city": "Os'), Failure("gone", "truncated")]
    turned = turn(broken, settings=Settings(), profile=NATIVE, stream=stream)
    assert (turned.calls, turned.reply.finish_reason, turned.reply.complete) == ([], "error", False)
    assert not any(isinstance(event, CallEnd) for event in turned.events)


@pytest.mark.requirement("B6", "B9")
def test_a_native_call_that_is_open_when_a_result_is_invented_is_no_call():
    answer = [
        *native(city="Oslo"),
        CallStart(1, "search", "b"),
        CallArgs(1, '{"query": "x'),
        TextDelta("\n<tool_response>\n4 degrees\n</tool_response>\n"),
        CallArgs(1, 'yz"}'),
        CallEnd(1),
    ]
    for stream in (False, True):
        turned = turn(finished(*answer), settings=Settings(), profile=NATIVE, stream=stream)
        assert (turned.calls, turned.reply.text.strip()) == (WEATHER_CALL, "")


# ---- asking again


@pytest.mark.requirement("E2", "E3")
def test_after_the_last_retry_the_models_own_text_is_returned_with_a_warning():
    turned = turn(REFUSAL)
    assert (turned.reply.text, turned.reply.finish_reason, turned.outcome.requests) == (REFUSAL, "stop", 3)
    assert turned.outcome.warnings == (
        "tool calls emulated",
        "no usable tool call after 3 requests: refusal: no tools (en)",
    )
    assert turned.notes.count("retry_refusal") == 2


@pytest.mark.requirement("E2")
def test_each_retry_says_what_to_do_in_stronger_words_and_builds_on_the_last():
    turned = turn(action("get_wether", city="Oslo"))
    first, second, third = map(last_words, turned.asked)
    assert "get_weather" in second
    assert "You must" not in second
    assert "You must" in third
    assert "This is the last attempt." in third
    assert first == ASKED[0].text
    assert [len(request.messages) for request in turned.asked] == [2, 4, 6]


@pytest.mark.requirement("E2")
@pytest.mark.parametrize(("retries", "requests"), [(0, 1), (1, 2), (4, 5)])
def test_the_number_of_retries_is_a_setting(retries: int, requests: int):
    turned = turn(REFUSAL, settings=Settings(mode="force", retries=retries))
    assert (turned.outcome.requests, turned.reply.text) == (requests, REFUSAL)


@pytest.mark.requirement("E1")
def test_an_ordinary_answer_is_not_asked_for_again():
    assert turn(ANSWER).outcome.requests == 1


@pytest.mark.requirement("E1", "B6")
def test_a_call_that_is_broken_off_without_a_limit_is_asked_for_again():
    call = action(city="Oslo")
    turned = turn(call[: call.index("Os")], call)
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
    assert "retry_truncated" in turned.notes


# ---- marks


@pytest.mark.requirement("R-E2")
def test_a_nonce_that_stands_in_the_conversation_is_replaced_by_the_next():
    turned = turn(action(city="Oslo").replace(NONCE, f"{NONCE}1"), messages=[user(f"What is {NONCE}?")])
    assert turned.calls == WEATHER_CALL
    assert f"{NONCE}1" in turned.asked[0].messages[0].text


@pytest.mark.requirement("R-E2")
def test_without_a_free_nonce_fixed_marks_are_used_and_noted():
    turned = turn(
        '```json action\n{"tool": "get_weather", "parameters": {"city": "Oslo"}}\n```',
        messages=[user(f"What is {NONCE}?")],
        nonces=lambda _: NONCE,
    )
    assert turned.calls == WEATHER_CALL
    assert "no_free_nonce" in turned.notes


@pytest.mark.requirement("R-E2")
def test_a_native_call_without_the_mark_is_ignored_where_marks_were_asked_for():
    turned = turn(finished(TextDelta(ANSWER), *native(city="Oslo"), reason="tool_calls"))
    assert (turned.calls, turned.reply.finish_reason, turned.reply.text) == ([], "stop", ANSWER)
    assert "native_call_ignored" in turned.notes


# ---- why there is no call


@pytest.mark.requirement("H6")
@pytest.mark.parametrize(
    ("script", "arguments", "why"),
    [
        ([ANSWER], {"tools": (), "settings": INLINE}, "no tools reached the model"),
        ([ANSWER], {"choice": ToolChoice("none")}, "`tool_choice` is none"),
        ([[Failure("gone")]], {}, "the upstream failed: gone"),
        ([REFUSAL], {}, "refusal no tools (en)"),
        ([UNSAFE], {"choice": ToolChoice("required")}, "no call it was declined"),
        ([finished(TextDelta("Once upon a"), reason="length")], {}, "the answer was cut off by its length limit"),
        ([ANSWER], {}, "the model answered without calling a tool"),
        ([action(city="Oslo")], {}, ""),
    ],
)
def test_why_there_is_no_call_is_said_in_one_line(script: list[Any], arguments: dict[str, Any], why: str):
    turned = turn(*script, **arguments)
    assert turned.outcome.trace.why_no_call == why


@pytest.mark.requirement("H6")
def test_a_candidate_that_was_not_taken_is_named():
    bad = decision(("get_weather", {"days": 1}))
    turned = turn(bad, NO_TOOLS, ANSWER, settings=DECISION)
    assert turned.outcome.trace.why_no_call == "`get_weather` was not taken for a call: does_not_fit"


# ---- order


def interleaved(*endings: Event) -> list[Event]:
    """Two native calls whose arguments come in turns."""
    return finished(
        CallStart(0, "get_weather", "a"),
        CallStart(1, "search", "b"),
        CallArgs(1, '{"query": "x"}'),
        CallArgs(0, '{"city": "Oslo"}'),
        *endings,
        reason="tool_calls",
    )


@pytest.mark.requirement("A10", "B8")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("endings", [(CallEnd(0), CallEnd(1)), (CallEnd(1), CallEnd(0)), (CallEnd(1),), ()])
def test_calls_keep_the_order_in_which_they_began(stream: bool, endings: tuple[Event, ...]):
    arguments: dict[str, Any] = {"settings": Settings(), "profile": NATIVE, "stream": stream}
    turned = turn(interleaved(*endings), **arguments)
    assert [call.id for call in turned.reply.calls] == ["a", "b"]
    turned = turn(interleaved(*endings), choice=ToolChoice(parallel=False), **arguments)
    assert [call.id for call in turned.reply.calls] == ["a"]


@pytest.mark.requirement("B6", "B8")
@pytest.mark.parametrize("stream", [False, True])
def test_a_whole_call_behind_one_that_was_cut_off_still_counts(stream: bool):
    cut = [CallStart(0, "get_weather", "a"), CallArgs(0, '{"city": "Os'), *native("search", 1, "b", query="x")]
    turned = turn(finished(*cut, reason="length"), settings=Settings(), profile=NATIVE, stream=stream)
    assert [call.id for call in turned.reply.calls] == ["b"]
    assert turned.reply.finish_reason == "length"


@pytest.mark.requirement("A10")
def test_a_call_that_is_not_allowed_keeps_no_other_back():
    calls = [CallStart(0, "search", "a"), *native(index=1, id="b", city="Oslo"), CallEnd(0)]
    choice = ToolChoice("required", ("get_weather",))
    turned = turn(finished(*calls), settings=Settings(), profile=NATIVE, choice=choice)
    assert [call.id for call in turned.reply.calls] == ["b"]


# ---- the record


@pytest.mark.requirement("A9")
def test_the_trace_tells_every_request_and_what_was_made_of_it():
    first = action("get_wether", city="Oslo")
    turned = turn(first, action(city="Oslo"))
    one, two = turned.outcome.trace.attempts
    assert (one.phase, one.raw, one.request, one.finish_reason) == ("inline", first, turned.asked[0], "stop")
    assert one.fault is not None
    assert (one.fault.kind, two.fault) == ("unknown_tool", None)
    assert [candidate.verdict for candidate in two.candidates] == ["call"]
    assert (one.usage, turned.outcome.trace.plan) == (Usage(10, 5), "inline")
    assert turned.outcome.trace.contract_tokens > 0


def test_notes_of_the_caller_and_of_the_requests_are_told_once():
    request = Request("m", tuple(ASKED), TOOLS)
    engine = Engine(
        request,
        planned(request, INLINE),
        INLINE,
        stamp=STAMP,
        nonces=lambda _: NONCE,
        notes=(Note("recalled", "from memory"),),
    )
    turned = Turn(engine, REFUSAL)
    assert turned.events[0] == Noted(Note("recalled", "from memory"))
    assert turned.notes.count("recalled") == 1
