"""Laws of a turn: whatever a model writes and whatever is allowed, it ends well, streamed or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import size
from tests.engine.engine_helpers import (
    ANSWER,
    NO_TOOLS,
    PLANS,
    REFUSAL,
    TOOLS,
    UNSAFE,
    Turn,
    action,
    decision,
    envelope,
    turn,
)
from tests.offline_turn import NONCE
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
)
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.types import ToolChoice, Usage

PIECES = [
    "",
    "Let me see. ",
    "\n",
    ANSWER,
    REFUSAL,
    UNSAFE,
    "I will call get_weather.",
    action(city="Oslo"),
    action(days=1),
    action(),
    action("search", query="x"),
    action("fly", to="Rome"),
    action(city="Oslo")[:-9],
    action(city="Rome").replace(f" {NONCE}", ""),
    decision(("get_weather", {"city": "Oslo"})),
    decision(("get_weather", {"city": "Oslo"}), ("search", {"query": "x"})),
    decision(("get_weather", {})),
    decision(("fly", {})),
    NO_TOOLS,
    NO_TOOLS[:-3],
    envelope("Hello.", ("get_weather", {"city": "Oslo"})),
    envelope("Hello.", ("search", {"query": "x"}), ("get_weather", {"city": 5})),
    envelope("Hello."),
    envelope("Hello.")[:-6],
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
    '<tool_call>\n{"name": "search", "arguments": {}}\n</tool_call>',
    "<tool_call>",
    "<think>",
    "</think>",
    "```json result\n4 degrees\n```\n",
    "```",
    '{"tool": "get_weather", "args": {"city": "Oslo"}}',
    '{"city": "Oslo"}',
    "{",
    "]",
    "\ud800",
]
_MARKED = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=5)
_SEPARATED = st.sampled_from(["", "\n"])
_NATIVE_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["get_weather", "search", "fly"]),
        st.sampled_from(['{"city": "Oslo"}', '{"query": "x"}', "{}", "", '{"city": "Os', '{"days": 1}', "[1]"]),
        st.booleans(),
    ),
    max_size=3,
)
_REASONS: st.SearchStrategy[FinishReason] = st.sampled_from(
    ["stop", "stop", "stop", "tool_calls", "length", "content_filter", "unknown"]
)


FAILURES = [Failure("m does not support tools", status=400), Failure("gone", "truncated"), Failure("slow", "timeout")]


@st.composite
def written(draw: st.DrawFn) -> list[Event]:
    """An answer: text, thinking, native calls, and the end or a failure."""
    told: list[Event] = [TextDelta(draw(_SEPARATED).join(draw(_MARKED)))]
    if draw(st.integers(0, 3)) == 0:
        told.insert(0, ReasoningDelta(draw(st.sampled_from(PIECES))))
    for at, (name, arguments, whole) in enumerate(draw(_NATIVE_CALLS)):
        told += [CallStart(at, name, draw(st.sampled_from(["", "a", "b"]))), CallArgs(at, arguments)]
        told += [CallEnd(at)] if whole else []
    if draw(st.integers(0, 7)) == 0:
        at = draw(st.integers(0, len(told)))
        return [*told[:at], draw(st.sampled_from(FAILURES))]
    return [*told, UsageSeen(Usage(1, 1)), Finish(draw(_REASONS))]


CHOICES = [
    ToolChoice(),
    ToolChoice("none"),
    ToolChoice("required"),
    ToolChoice("named", ("get_weather",)),
    ToolChoice("auto", ("get_weather",)),
    ToolChoice("required", ("search",)),
    ToolChoice(parallel=False),
    ToolChoice("required", parallel=False),
]
#: Requests at most, with two retries: the decision's final request and the native half come on top.
MOST = {"native": 3, "inline": 3, "envelope": 3, "decision": 4, "fallback": 5}
SCHEMAS = {tool.name: ArgumentSchema.of(tool.parameters) for tool in TOOLS}


#: A call that goes out and turns out wrong lets the text of a fallback's native answer go, which stays.
def spoiled(turned: Turn, choice: ToolChoice) -> bool:
    """Whether a call went out, or only its name, that could not be made at once.

    Where one call is allowed, a name that has gone out keeps every other call from being made.
    """
    if choice.single and any(each.verdict in ("invalid", "truncated") for each in turned.reply.candidates):
        return True
    ends = {event.index for event in turned.events if isinstance(event, CallEnd) and event.valid}
    return any(isinstance(event, CallStart) and event.index not in ends for event in turned.events)


def in_order(turned: Turn) -> list[str]:
    """Its calls. One that was tried before keeps the place in which its name went out, so order says nothing then."""
    calls = [repr(call) for call in turned.calls]
    return sorted(calls) if any(each.verdict != "call" for each in turned.reply.candidates) else calls


def cut(answer: Sequence[Event], size: int) -> list[Event]:
    told: list[Event] = []
    for event in answer:
        text = event.text if isinstance(event, TextDelta) else ""
        told += [TextDelta(text[at : at + size]) for at in range(0, len(text), size)] if text else [event]
    return told


@pytest.mark.requirement("A10", "B5", "B8", "B11", "E2")
@given(
    plan=st.sampled_from(sorted(PLANS)),
    choice=st.sampled_from(CHOICES),
    script=st.lists(written(), min_size=1, max_size=5),
    size=st.sampled_from([1, 7]),
    marks=st.sampled_from(["auto", "fixed"]),
)
@settings(max_examples=size(37, 150))
def test_whatever_a_model_writes_the_turn_ends_well(
    plan: str, choice: ToolChoice, script: list[list[Event]], size: int, marks: Any
):
    wanted, profile = PLANS[plan]
    # The check of languages holds whole answers back longer than streamed ones, so their texts may differ.
    wanted = msgspec.structs.replace(wanted, marks=marks, check_other_languages=False)
    whole, streamed, pieces = (
        turn(*answers, settings=wanted, profile=profile, choice=choice, stream=stream)
        for answers, stream in ((script, False), (script, True), ([cut(each, size) for each in script], True))
    )
    for turned in (whole, streamed, pieces):
        most = MOST[plan] + (plan == "native" and "native_unsupported" in turned.notes)
        assert turned.outcome.requests == len(turned.asked) <= most
        assert (turned.reply.finish_reason == "error") == (turned.outcome.failure is not None)
        assert isinstance(turned.events[-1], Finish)
        assert sum(isinstance(event, Finish) for event in turned.events) == 1
        assert all(choice.permits(name) for name, _ in turned.calls)
        assert len(turned.calls) <= (1 if choice.single else len(turned.calls))
        assert all(not SCHEMAS[name].coerce(arguments).problems for name, arguments in turned.calls)
        assert not choice.demands or turned.calls or turned.reply.finish_reason in ("error", "length", "content_filter")
        assert turned.calls or turned.outcome.trace.why_no_call
        assert len({call.id for call in turned.reply.calls}) == len(turned.calls)
    assert (pieces.calls, pieces.reply.text) == (streamed.calls, streamed.reply.text)
    assert pieces.reply.finish_reason == streamed.reply.finish_reason
    if not spoiled(streamed, choice):
        tried = any(each.verdict != "call" for each in streamed.reply.candidates)
        assert streamed.reply.text == whole.reply.text or (plan == "fallback" and tried)
        assert in_order(streamed) == in_order(whole)
        assert (streamed.reply.finish_reason, len(streamed.asked)) == (whole.reply.finish_reason, len(whole.asked))
