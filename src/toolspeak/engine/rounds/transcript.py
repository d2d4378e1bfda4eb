"""What a conversation leaves behind: what was said, and answers with the rounds that led to them.

Compact: a finished answer holds its final text and its rounds, each round the text that was streamed before its
calls, the calls and their results. `expansion` turns this into the messages of a protocol. Values only.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ...core.types import Message, Note, ToolCall, ToolResult, Usage

#: `planned`: the model asked for it. `started`: it may have changed the world. `finished`: there is a result.
CallState: TypeAlias = Literal["planned", "started", "finished"]

#: `running` is what a crash leaves behind; whoever opens the session next makes it `interrupted`.
AnswerStatus: TypeAlias = Literal["running", "complete", "interrupted", "failed"]


class CallRecord(msgspec.Struct, frozen=True):
    """One call, how far it got, and what came of it."""

    call: ToolCall
    state: CallState = "planned"
    #: Whether it changes the world: such a call is never run a second time by itself.
    side_effects: bool = False
    result: ToolResult | None = None
    #: How long it ran.
    seconds: float = 0.0


class Round(msgspec.Struct, frozen=True):
    """Text, then calls, then their results."""

    #: What was streamed before the calls.
    text: str = ""
    calls: tuple[CallRecord, ...] = ()
    reasoning: str = ""
    #: The model's message as it can be sent back, where it holds more than text and calls: signatures, encrypted
    #: reasoning, whatever an upstream wants back unread.
    said: Message | None = None


class Answer(msgspec.Struct, frozen=True):
    """What became of one thing that was said: the final text, and the rounds before it."""

    #: Only the final text; that of the rounds stands there.
    content: str = ""
    rounds: tuple[Round, ...] = ()
    status: AnswerStatus = "complete"
    reasoning: str = ""
    #: As in a round, of the message that holds the final text.
    said: Message | None = None
    usage: Usage = Usage()
    notes: tuple[Note, ...] = ()
    #: Requests that went upstream for it.
    requests: int = 0


#: A conversation is a row of these.
Entry: TypeAlias = Message | Answer

#: What the model is told of a call that has no result. A call that keeps such a state is one that was interrupted.
_UNKNOWN: dict[CallState, str] = {
    "planned": "Interrupted: this call was not run.",
    "started": (
        "Interrupted: this call had begun, and its result is not known. "
        "It may or may not have been carried out. Look before you do it again."
    ),
    "finished": "The result of this call was lost.",
}


def answered(record: CallRecord) -> CallRecord:
    """A call with a result: its own, or one that says that it was interrupted. The state stays as it is."""
    if record.result is not None:
        return record
    call = record.call
    return msgspec.structs.replace(record, result=ToolResult(call.id, _UNKNOWN[record.state], call.name, error=True))


def repaired(answer: Answer) -> Answer:
    """An answer as it can be gone on from: every call has a result, and what was running is interrupted."""
    rounds = tuple(
        msgspec.structs.replace(made, calls=tuple(map(answered, made.calls)))
        if any(record.result is None for record in made.calls)
        else made
        for made in answer.rounds
    )
    status: AnswerStatus = "interrupted" if answer.status == "running" else answer.status
    return msgspec.structs.replace(answer, rounds=rounds, status=status)
