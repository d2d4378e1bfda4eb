"""Turns in which the prompt only names some tools, and the model asks for their descriptions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.engine.engine_helpers import (
    CONSTRAINED,
    DECISION,
    ENVELOPE,
    INLINE,
    NATIVE,
    NO_TOOLS,
    PLANS,
    REFUSAL,
    Turn,
    action,
    decision,
    envelope,
    finished,
    last_words,
    native,
    turn,
)
from tests.offline_turn import user
from toolspeak.core.events import CallStart
from toolspeak.core.types import Message, Request, Tool, ToolCall, ToolChoice, ToolResult, Usage
from toolspeak.engine.planning.capabilities import Profile
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.prompting.tool_descriptions import MAX_ROUNDS

BUDGET = 900
TOPPING = "Which topping to put on it"


TABLE: dict[str, Any] = {f"value_{at}": {"type": "string", "description": "What it is."} for at in range(6)}
SCHEMA = {"type": "object", "properties": TABLE, "required": ["value_0"]}


def tools_of(count: int, *more: Tool) -> tuple[Tool, ...]:
    return (*(Tool(f"tool_{at}", "Does it.", SCHEMA) for at in range(count)), *more)


PIZZA = Tool(
    "order_pizza",
    "Orders one.",
    {**SCHEMA, "properties": {"top": {"type": "string", "description": TOPPING}, **TABLE}, "required": ["top"]},
)
TOOLS = tools_of(60, PIZZA)
HAM = ("order_pizza", {"top": "ham"})
ASK = ("describe_tools", {"names": ["order_pizza"]})
ORDER = action("order_pizza", top="ham")
QUESTION = action("describe_tools", names=["order_pizza"])
#: How the calls of each plan are written.
WRITERS: dict[str, Any] = {
    "inline": lambda *calls: "\n".join(action(name, **given) for name, given in calls),
    "decision": decision,
    "envelope": lambda *calls: envelope("", *calls),
}
EMULATED = [
    ("inline", INLINE, Profile()),
    ("decision", DECISION, Profile()),
    ("envelope", ENVELOPE, CONSTRAINED),
]

pytestmark = pytest.mark.requirement("C9")


def small(*script: Any, settings: Settings = INLINE, **arguments: Any) -> Turn:
    arguments = {"tools": TOOLS, "messages": [user("Do it.")], **arguments}
    return turn(*script, settings=msgspec.structs.replace(settings, contract_budget=BUDGET), **arguments)


def prompt(request: Request) -> str:
    return request.messages[0].text


@check_each("chunk", [0, 1, 7])
@check_each(("plan", "settings", "profile"), EMULATED, ids=lambda each: each if isinstance(each, str) else "")
def test_a_tool_is_found_in_every_plan_and_the_question_stays_inside(
    plan: str, settings: Settings, profile: Profile, chunk: int
):
    write = WRITERS[plan]
    done = small(write(ASK), write(HAM), settings=settings, profile=profile, chunk=chunk, stream=bool(chunk))
    assert done.calls == [HAM]
    assert [event.name for event in done.events if isinstance(event, CallStart)] == ["order_pizza"]
    assert (done.outcome.requests, done.reply.usage) == (2, Usage(20, 10))
    assert done.outcome.trace.plan == plan and len(done.outcome.trace.attempts) == 2
    assert [note.detail for note in done.reply.notes if note.code == "tools_described"] == ["`order_pizza`"]
    first, second = map(prompt, done.asked)
    assert "order_pizza" in first and TOPPING not in first
    assert TOPPING in second
    assert "The list of tools now describes: order_pizza." in "".join(each.text for each in done.asked[1].messages)


@check_each(("plan", "settings", "profile"), EMULATED, ids=lambda each: each if isinstance(each, str) else "")
def test_a_question_beside_other_calls_is_dropped(plan: str, settings: Settings, profile: Profile):
    other = ("tool_1", {"value_0": "x"})
    done = small(WRITERS[plan](ASK, other), settings=settings, profile=profile)
    assert (done.calls, done.outcome.requests) == ([other], 1)
    assert "description_call_dropped" in done.notes and "tools_described" not in done.notes


@check_each("stream_calls", ["", "live", "checked"])
def test_a_native_question_stays_inside_too(stream_calls: Any):
    asked = finished(*native("describe_tools", names=["order_pizza"]), reason="tool_calls")
    settings = Settings(mode="force", contract_budget=BUDGET, stream_calls=stream_calls)
    done = turn(asked, ORDER, tools=TOOLS, settings=settings, stream=True)
    assert (done.calls, done.outcome.requests, done.reply.finish_reason) == ([HAM], 2, "tool_calls")


def test_an_unknown_tool_is_answered_with_the_listed_ones():
    done = small(action("bake_bread"), ORDER)
    assert (done.calls, done.outcome.requests) == ([HAM], 2)
    assert "`tool_0`" in last_words(done.asked[1]) and "`describe_tools`" in last_words(done.asked[1])


def test_a_model_may_ask_only_a_few_times():
    done = small(QUESTION)
    offers = ["describe_tools:" in prompt(request) for request in done.asked]
    assert offers[: MAX_ROUNDS + 1] == [True] * MAX_ROUNDS + [False]
    assert not any(offers[MAX_ROUNDS:])
    assert done.notes.count("tools_described") == MAX_ROUNDS
    assert (done.calls, done.outcome.failure) == ([], None)
    assert done.outcome.requests == MAX_ROUNDS + 1 + 2  # and the retries for a call of an unknown tool
    assert not any(isinstance(event, CallStart) for event in done.events)


def test_described_tools_stay_whole_for_the_rest_of_the_turn():
    wrong = action("order_pizza", wrong=1)
    done = small(QUESTION, action("describe_tools", names=["tool_59"]), wrong, ORDER)
    assert done.calls == [HAM]
    assert [TOPPING in prompt(request) for request in done.asked] == [False, True, True, True]
    assert "value_5?: string - What it is." in prompt(done.asked[-1]).partition("- tool_59:")[2]


def test_text_before_the_question_is_kept_apart_from_the_answer():
    said = "I will look at the tools first, one moment please."
    done = small(f"{said}\n{QUESTION}", "There is nothing to do.", chunk=3, stream=True)
    assert done.reply.text == f"{said}\n\n\nThere is nothing to do."
    called = small(f"{said}\n{QUESTION}", ORDER)
    assert (called.reply.text.strip(), called.calls) == (said, [HAM])
    assert said in "".join(each.text for each in called.asked[1].messages)


def test_words_that_could_begin_a_refusal_are_released_by_the_question():
    done = small(f"I'm sorry, I\n{QUESTION}", ORDER)
    assert (done.calls, done.outcome.requests) == ([HAM], 2)
    assert done.reply.text.startswith("I'm sorry, I")


def test_a_refusal_after_the_question_is_still_retried():
    done = small(QUESTION, REFUSAL, ORDER)
    assert (done.calls, done.outcome.requests) == ([HAM], 3)
    assert [TOPPING in prompt(request) for request in done.asked] == [False, True, True]


def test_the_final_answer_of_a_decision_knows_nothing_of_the_question():
    done = small(decision(ASK), NO_TOOLS, "Nothing to order.", settings=DECISION)
    assert (done.reply.text, done.outcome.requests) == ("Nothing to order.", 3)
    assert not any("describe_tools" in message.text for message in done.asked[2].messages)


def test_a_required_call_may_follow_the_question():
    done = small(QUESTION, ORDER, choice=ToolChoice("required", parallel=False))
    assert (done.calls, done.outcome.failure) == ([HAM], None)


def test_a_tool_of_the_caller_with_that_name_is_called():
    own = Tool("describe_tools", "Mine.", {"type": "object", "properties": {"names": {}}})
    done = small(QUESTION, tools=tools_of(60, own))
    assert (done.calls, done.outcome.requests) == ([ASK], 1)
    assert "toolspeak_describe_tools: Describes tools" in prompt(done.asked[0])
    both = tools_of(60, own, Tool("toolspeak_describe_tools"))
    assert "by name only" not in prompt(small(QUESTION, tools=both).asked[0])


@check_each("plan", ["inline", "decision", "native"])
def test_without_need_nothing_is_offered(plan: str):
    settings, profile = PLANS[plan]
    done = turn("Hello." if plan != "decision" else NO_TOOLS, "Hello.", settings=settings, profile=profile)
    assert not any("describe_tools" in message.text for message in done.asked[0].messages)


def test_native_tools_are_not_shortened():
    done = small(native("order_pizza", top="ham"), settings=Settings(), profile=NATIVE)
    assert done.calls == [HAM]
    assert done.asked[0].tools == TOOLS


def test_the_upstream_enforces_only_calls_of_described_tools():
    done = small(envelope("", ASK), envelope("", HAM), settings=ENVELOPE, profile=CONSTRAINED)
    first, second = (str(request.options.grammar) for request in done.asked)
    assert "describe_tools" in first and "order_pizza" not in first
    assert "order_pizza" in second


def test_tools_of_the_conversation_stay_whole_whatever_the_budget():
    call = ToolCall("order_pizza", {"top": "ham"}, id="a")
    history = [
        user("Order one."),
        Message("assistant", calls=(call,)),
        Message("tool", results=(ToolResult("a", "Done."),)),
    ]
    for plan, settings, profile in EMULATED:
        done = small(WRITERS[plan](HAM), settings=settings, profile=profile, messages=history)
        assert TOPPING in prompt(done.asked[0])
        assert done.calls == [HAM]


def test_the_request_counts_although_results_follow_it():
    history = [
        user("A pizza with ham, to order."),
        Message("assistant", calls=(ToolCall("tool_3", {"value_0": "x"}, id="a"),)),
        Message("user", results=(ToolResult("a", "Done."),)),
    ]
    for plan, settings, profile in EMULATED:
        done = small(WRITERS[plan](HAM), settings=settings, profile=profile, messages=history)
        assert TOPPING in prompt(done.asked[0])


def test_wrong_arguments_for_a_named_tool_are_put_right():
    done = small(action("order_pizza", nothing=1), ORDER)
    assert (done.calls, done.outcome.requests) == ([HAM], 2)
    assert '"top":"' in done.asked[1].messages[-1].text


def test_wrong_arguments_of_the_question_are_put_right():
    done = small(action("describe_tools", names=[{}]), QUESTION, ORDER)
    assert (done.calls, done.outcome.requests) == ([HAM], 3)
    assert '"tool":"describe_tools"' in done.asked[1].messages[-1].text
