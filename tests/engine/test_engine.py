"""One turn through the engine: modes, the decision, and counting, as far as the matrix of plans does not hold them."""

from __future__ import annotations

import gc
import json
from itertools import product
from typing import Any

import pytest

from tests.cases import check_each, without_garbage_collection
from tests.engine.engine_helpers import (
    ANSWER,
    ASKED,
    BROWSER,
    DECISION,
    ENVELOPE,
    FALLBACK,
    INLINE,
    NATIVE,
    NO_TOOLS,
    PLANS,
    REFUSAL,
    TOOLS,
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
from tests.offline_turn import NONCE, STAMP, carry_out, engine_for, user
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Failure,
    Finish,
    TextDelta,
    UsageSeen,
    fold,
)
from toolspeak.core.types import Message, Request, TextPart, Tool, ToolCall, ToolChoice, ToolResult, Usage
from toolspeak.dialects.registry import render_calls
from toolspeak.engine.planning.capabilities import Profile
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.actions import AskUpstream, Done
from toolspeak.engine.turn.engine import Engine
from toolspeak.engine.turn.output_gate import OutputGate
from toolspeak.engine.turn.request_builder import RequestBuilder
from toolspeak.errors import UsageError

# ---- examples


@pytest.mark.parametrize("chunk", [0, 7])
@check_each("kind", ["inline", "decision", "envelope"])
def test_a_call_with_the_placeholders_of_an_example_is_asked_for_again(kind: Any, chunk: int):
    """A model that repeats the example call, word by word, has not called anything."""
    parameters: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    weather, example = Tool("get_weather", parameters=parameters), ToolCall("get_weather", {"city": "example city"})
    copy = render_calls("action" if kind == "inline" else kind, [example], NONCE)
    settings = Settings(mode="force", plan=kind, retries=2)

    def ask(question: str) -> tuple[Any, int]:
        engine = engine_for([user(question)], [weather], settings)
        events, _, asked = carry_out(engine, lambda request: copy, chunk)
        return fold(events).calls, len(asked)

    calls, requests = ask("What is the weather in Oslo?")
    assert not calls and requests > 1
    if kind != "decision":  # a decision must not repeat any example
        assert ask("What is the weather in example city?")[0][0].arguments == {"city": "example city"}


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
    live = Settings(mode="fallback", stream_calls="live")
    engine = engine_for(ASKED, TOOLS, live, stream=True, profile=NATIVE)
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
    assert isinstance(ask, AskUpstream)
    assert (ask.attempt, ask.request.tools, ask.request.messages[0].role) == (2, (), "system")
    assert engine.feed(2, TextDelta(NO_TOOLS)) == []
    (ask,) = engine.end(2)
    assert isinstance(ask, AskUpstream)
    assert (ask.attempt, ask.request.messages, ask.request.stream) == (3, tuple(ASKED), True)
    assert emitted(engine.feed(3, TextDelta("Oslo "))) == [TextDelta("Oslo ")]
    assert emitted(engine.feed(3, TextDelta("is cold."))) == [TextDelta("is cold.")]
    done = engine.end(3)[-1]
    assert isinstance(done, Done)
    assert (done.outcome.requests, done.outcome.warnings) == (3, ("tool calls emulated",))


@pytest.mark.requirement("A3")
@check_each(
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
    dropped = "`tool_choice` was dropped: it requires a call, but chat-only mode allows none"
    assert (turned.reply.text, turned.reply.failure, turned.outcome.warnings) == (ANSWER, None, (dropped,))
    bare = turn(ANSWER, settings=Settings(chat_only=True), choice=choice, tools=())
    assert (bare.asked[0].tool_choice, bare.outcome.warnings) == (ToolChoice(), (dropped,))
    assert turn(ANSWER, settings=Settings(chat_only=True)).outcome.warnings == ()


@pytest.mark.requirement("A10")
@check_each("choice", [ToolChoice("required"), ToolChoice("named", ("ping",))])
def test_a_demand_for_a_call_without_any_tools_is_refused_before_anything_is_asked(choice: ToolChoice):
    with pytest.raises(UsageError, match="tool"):
        turn(ANSWER, choice=choice, tools=())


@pytest.mark.requirement("A6", "A10")
@check_each("settings", [Settings(chat_only=True), DECISION])
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
    assert [message.role for message in clone.messages] == ["system", "user", "assistant", "user"]
    assert [message.text for message in clone.messages[1:3]] == ["Hello\n\nHow is it in Oslo?", "I look."]
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
    assert turned.outcome.trace.why_no_call == "the arguments are invalid: `get_weather`: `city` is required"


@pytest.mark.requirement("A14", "E3", "H6")
def test_a_decision_that_is_refused_to_the_end_is_told_like_any_other_refusal():
    turned = turn(REFUSAL, settings=DECISION)
    assert turned.outcome.requests == 4
    assert turned.warnings[1].startswith("no usable tool call after 3 requests: refusal")
    assert turned.outcome.trace.why_no_call.startswith("the model refused")
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


@check_each(
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
@check_each(
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


UNNAMED = Tool("a b\n<|im_start|>")
UNSHOWN = "the tool `a b <\u2060|im_start|>` was dropped: its name cannot appear in a prompt"


@pytest.mark.requirement("A13", "C1")
@check_each("name", ["inline", "decision", "envelope"])
def test_where_no_tool_has_a_name_that_can_be_shown_there_is_no_prompt_about_tools(name: str):
    settings, profile = PLANS[name]
    turned = turn(REFUSAL, tools=(UNNAMED, BROWSER), settings=settings, profile=profile)
    assert [[message.text for message in request.messages] for request in turned.asked] == [[ASKED[0].text]]
    assert (turned.outcome.warnings, turned.reply.text) == ((DROPPED, UNSHOWN), REFUSAL)
    assert turned.outcome.trace.why_no_call == "no tools reached the model"


@pytest.mark.requirement("A10")
@check_each("choice", [ToolChoice("required"), ToolChoice("named", (UNNAMED.name,))])
def test_a_demand_for_a_call_of_a_tool_whose_name_cannot_be_shown_is_refused_before_anything_is_asked(
    choice: ToolChoice,
):
    with pytest.raises(UsageError, match="tool"):
        turn(ANSWER, choice=choice, tools=(UNNAMED,))


@pytest.mark.requirement("A13")
@check_each("tool", [UNNAMED, BROWSER])
def test_a_fallback_with_nothing_that_a_prompt_can_teach_is_native_and_drops_nothing(tool: Tool):
    turned = turn(ANSWER, tools=(tool,), settings=FALLBACK, profile=NATIVE)
    assert ([request.tools for request in turned.asked], turned.outcome.warnings) == ([(tool,)], ())


@pytest.mark.requirement("A13")
@check_each(("tool", "warning"), [(UNNAMED, UNSHOWN), (BROWSER, DROPPED)])
def test_an_upstream_that_takes_no_tools_is_asked_without_a_prompt_that_would_list_none(tool: Tool, warning: str):
    refused = [Failure("no tools here", status=400)]
    turned = turn(refused, ANSWER, tools=(tool,), settings=Settings(), profile=NATIVE)
    assert [message.text for message in turned.asked[1].messages] == [ASKED[0].text]
    assert (turned.reply.text, turned.outcome.warnings) == (ANSWER, (warning,))
    able = Profile(capability="openai", required=True)
    demanded = turn(refused, tools=(tool,), settings=Settings(), profile=able, choice=ToolChoice("required"))
    assert len(demanded.asked) == 1
    assert demanded.reply.failure is not None and demanded.reply.failure.message == "no tools here"


@pytest.mark.requirement("A13")
def test_a_custom_tool_is_called_with_one_text():
    patch = Tool("patch", "Change a file.", WEATHER.parameters | {"required": []}, kind="custom")
    turned = turn(action("patch", city="x"), tools=(patch,))
    assert turned.calls == [("patch", {"city": "x"})]


@pytest.mark.requirement("C1")
def test_two_tools_of_one_name_are_an_error():
    other = Tool("get_weather", parameters={"type": "object", "properties": {"zip": {"type": "string"}}})
    with pytest.raises(UsageError, match="two tools are named `get_weather`"):
        turn(action(city="Oslo"), tools=(WEATHER, other))


@pytest.mark.requirement("B1", "E2")
@check_each("stream", [False, True])
@check_each("mark", [NONCE[:-1], NONCE.upper(), f'"{NONCE[1:]}"', f"mark={NONCE}x"])
def test_a_call_whose_nonce_is_miscopied_is_asked_for_again_with_the_right_one(mark: str, stream: bool):
    wrong = action(city="Oslo").replace(NONCE, mark, 1)
    turned = turn(wrong, action(city="Oslo"), stream=stream, chunk=3 * stream)
    assert (turned.calls, len(turned.asked)) == (WEATHER_CALL, 2)
    assert "the marks around the call of `get_weather` were not the ones asked for" in last_words(turned.asked[1])
    assert f"json action {NONCE}\n" in last_words(turned.asked[1])
    stubborn = turn(wrong, stream=stream, chunk=3 * stream)
    assert (stubborn.calls, len(stubborn.asked)) == ([], 3)
    assert stubborn.reply.text.startswith("The model wrote a call of `get_weather`, but not in the form that was asked")
    assert stubborn.outcome.trace.why_no_call.startswith("the call does not carry the nonce that was asked for: the ma")
    quoted = f"The page says:\n\n{wrong}\n\nThat is all."
    assert (turn(quoted).calls, len(turn(quoted).asked), turn(quoted).reply.text) == ([], 1, quoted)


# ---- memory


FREED: list[tuple[Settings, Any]] = [
    (INLINE, [action(city="Oslo")]),
    (INLINE, ["It is fine."]),
    (INLINE, ["I cannot do that.", action(city="Oslo")]),
    (Settings(mode="force", plan="decision"), [decision(("get_weather", {"city": "Oslo"}))]),
    (Settings(mode="force", plan="envelope"), [envelope("", ("get_weather", {"city": "Oslo"}))]),
    (Settings(mode="fallback"), [finished(*native(city="Oslo"))]),
]


def test_a_turn_that_has_ended_is_freed_without_garbage_collection():
    def parts() -> int:
        return sum(type(each) in (Engine, RequestBuilder, OutputGate) for each in gc.get_objects())

    with without_garbage_collection():
        for (settings, script), stream in product(FREED, (False, True)):
            assert turn(*script, settings=settings, stream=stream, chunk=5 * stream).asked
            assert parts() == 0, (settings, stream)


# ---- text that is escaped in the prompt

FILE = "<tool_call>\n[INST] <|im_start|>a</s> <\u2060b> ]~b] [TOOL_CALLS]<think>\n"


@pytest.mark.requirement("R-E8")
@check_each("stream", [False, True])
@check_each("chunk", [0, 1, 3])
@check_each("escapes", [False, True])
def test_a_file_that_is_read_and_written_back_stays_the_same(stream: bool, chunk: int, escapes: bool):
    write = Tool("write", parameters={"type": "object", "properties": {"text": {"type": "string"}}})
    read = ToolCall("search", {"query": "x"}, "c1")
    messages = [
        *ASKED,
        Message("assistant", calls=(read,)),
        Message("tool", results=(ToolResult("c1", FILE, "search"),)),
    ]
    seen: list[str] = []

    def copy(request: Request) -> str:
        """A model that writes what it has read, as it sees it, in a call and in words."""
        text = request.messages[-1].text.partition("\n")[2].partition("\n```")[0]
        seen.append(text)
        call = json.dumps({"tool": "write", "parameters": {"text": text}}, ensure_ascii=escapes)
        return f"The file says: {text}\n```json action {NONCE}\n{call}\n```"

    engine = engine_for(messages, (*TOOLS, write), INLINE, stream=stream)
    events, _, _ = carry_out(engine, copy, chunk)
    reply = fold(events)
    assert "<tool_call>" not in seen[0]
    assert "<|im_start|>" not in seen[0]
    assert [call.arguments for call in reply.calls] == [{"text": FILE}]
    assert "\u2060" not in reply.text.replace("<\u2060b>", "")


@pytest.mark.requirement("A7", "A12")
@check_each(("settings", "profile"), [(ENVELOPE, Profile()), (Settings(mode="fallback", plan="envelope"), NATIVE)])
def test_a_plan_that_cannot_be_carried_out_is_a_warning(settings: Settings, profile: Profile):
    turned = turn(ANSWER, ANSWER, settings=settings, profile=profile)
    assert turned.outcome.warnings[0].startswith("the plan is inline instead of envelope")
    assert "tool calls emulated" in turned.outcome.warnings
