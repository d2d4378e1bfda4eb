"""What a person reads about a turn."""

from __future__ import annotations

import msgspec
import pytest

from toolspeak.core.events import Candidate
from toolspeak.core.types import Message, Note, Request, TextPart, ToolCall, Usage
from toolspeak.engine.turn.faults import Fault
from toolspeak.engine.turn.trace import AttemptTrace, Trace, TracedReply, count_retries

pytestmark = pytest.mark.requirement("H6")

REQUEST = Request("m", (Message("user", (TextPart("Weather?"),)),))
REFUSED = AttemptTrace(
    phase="inline",
    request=REQUEST,
    raw="I have no tools.",
    reasoning="",
    candidates=(),
    notes=(),
    finish_reason="stop",
    usage=Usage(3, 4),
    fault=Fault("refusal", "it says that it has no tools"),
)
CALLED = AttemptTrace(
    phase="inline",
    request=REQUEST,
    raw="x" * 50,
    reasoning="Hm.",
    candidates=(Candidate("weather", "call", "accepted"), Candidate("x", "text", "unknown_tool")),
    notes=(Note("trailing_comma", "one too many"),),
    finish_reason="stop",
    usage=Usage(3, 4),
)


def test_a_turn_is_told_line_by_line():
    trace = Trace("inline", "provider.ollama", "no native calling", (REFUSED, CALLED), 120)
    assert trace.lines() == [
        "plan inline: no native calling [provider.ollama]",
        "request 1 (inline): stop, 16 characters",
        "  user: Weather?",
        "  answer: I have no tools.",
        "  retried: refusal it says that it has no tools",
        "request 2 (inline): stop, 50 characters",
        "  user: Weather?",
        f"  answer: {'x' * 50}",
        "  call `weather`: accepted",
        "  text `x`: unknown_tool",
        "  trailing_comma: one too many",
    ]


def test_it_says_in_one_line_why_there_is_no_call():
    trace = Trace("pass", "no_tools", "there are no tools", why_no_call="no tools reached the model")
    assert trace.lines() == ["plan pass: there are no tools [no_tools]", "no call: no tools reached the model"]


def test_a_fault_without_detail_leaves_nothing_behind_it():
    attempt = msgspec.structs.replace(REFUSED, fault=Fault("no_call"))
    assert Trace("p", "r", "w", (attempt,)).lines()[-1] == "  gave up: no_call"


def test_only_an_attempt_behind_which_another_of_its_kind_stands_was_asked_again():
    final = msgspec.structs.replace(CALLED, phase="final")
    lines = Trace("p", "r", "w", (REFUSED, REFUSED, final)).lines()
    assert [line for line in lines if "refusal" in line] == [
        "  retried: refusal it says that it has no tools",
        "  gave up: refusal it says that it has no tools",
    ]


def test_long_texts_are_shown_by_their_ends_on_one_line():
    request = Request("m", (Message("user", (TextPart(f"Head.\n{'y' * 500}\nTail."),)),))
    attempt = msgspec.structs.replace(CALLED, request=request, raw="")
    lines = Trace("p", "r", "w", (attempt,)).lines()
    asked = next(line for line in lines if line.startswith("  user: "))
    assert asked.startswith("  user: Head. y") and asked.endswith("y Tail.") and " [...] " in asked
    assert len(asked) < 270
    assert not any(line.startswith("  answer:") for line in lines)
    nothing = msgspec.structs.replace(attempt, request=Request("m", ()))
    assert Trace("p", "r", "w", (nothing,)).lines()[2] == "  call `weather`: accepted"


def test_a_reply_tells_how_it_came_to_be():
    trace = Trace("inline", "r", "w", (CALLED,))
    assert TracedReply(text="Hi", record=trace).trace() is trace


def test_a_reply_of_which_nothing_was_recorded_says_so():
    assert TracedReply(text="Hi").trace().lines() == ["plan : nothing was recorded []"]


def test_a_trace_survives_storage():
    trace = Trace("inline", "r", "w", (REFUSED, CALLED), 7, "why")
    assert msgspec.json.decode(msgspec.json.encode(trace), type=Trace) == trace


def test_a_reply_is_a_message_of_the_next_request():
    call = ToolCall("f", {}, "c")
    reply = TracedReply(text="Hi", reasoning="hm", calls=(call,))
    assert reply.message == Message("assistant", (TextPart("Hi"),), "hm", (call,))
    assert TracedReply(text=" \n").message == Message("assistant")
    own = Message("assistant", protocol="anthropic")
    assert TracedReply(text="Hi", own=own).message is own


def test_only_requests_after_a_rejected_answer_count_as_retries():
    final = msgspec.structs.replace(CALLED, phase="final")
    interpreted = msgspec.structs.replace(CALLED, phase="interpretation")
    assert count_retries([]) == count_retries([CALLED]) == count_retries([REFUSED, final]) == 0
    assert count_retries([REFUSED, CALLED]) == count_retries([CALLED, REFUSED, CALLED]) == 1
    assert count_retries([REFUSED, interpreted]) == 0
