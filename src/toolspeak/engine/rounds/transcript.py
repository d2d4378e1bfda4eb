"""The stored form of a conversation: messages, and answers with their rounds.

An answer has its final text and its rounds; a round has the text before its calls, the calls and their results.
`expansion` turns this into protocol messages. Values only.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ...core.types import Message, Note, ToolCall, ToolResult, Usage

#: `planned`: requested by the model. `started`: it may have had side effects. `finished`: it has a result.
CallState: TypeAlias = Literal["planned", "started", "finished"]

#: `running` remains after a crash; opening the session again turns it into `interrupted`.
AnswerStatus: TypeAlias = Literal["running", "complete", "interrupted", "failed"]


class CallRecord(msgspec.Struct, frozen=True):
    """A tool call with its state and result."""

    call: ToolCall
    state: CallState = "planned"
    #: A call with side effects is never rerun without consent.
    side_effects: bool = False
    result: ToolResult | None = None
    seconds: float = 0.0


class Round(msgspec.Struct, frozen=True):
    """One round of an answer: text, then calls with their results."""

    #: Text before the calls.
    text: str = ""
    calls: tuple[CallRecord, ...] = ()
    reasoning: str = ""
    #: The original assistant message, stored only if it contains opaque parts that the upstream needs back, such as
    #: signatures or encrypted reasoning.
    said: Message | None = None


class Answer(msgspec.Struct, frozen=True):
    """The answer to one message: the rounds and the final text."""

    #: The final text, without the text of the rounds.
    content: str = ""
    rounds: tuple[Round, ...] = ()
    status: AnswerStatus = "complete"
    reasoning: str = ""
    #: As in `Round`, for the message with the final text.
    said: Message | None = None
    usage: Usage = Usage()
    notes: tuple[Note, ...] = ()
    #: Upstream requests in total.
    requests: int = 0


#: One element of a conversation.
Entry: TypeAlias = Message | Answer

#: Results for interrupted calls, by the state in which they stopped.
_MISSING_RESULTS: dict[CallState, str] = {
    "planned": "Interrupted: this call was not run.",
    "started": (
        "Interrupted: this call had begun, and its result is not known. "
        "It may or may not have been carried out. Look before you do it again."
    ),
    "finished": "The result of this call was lost.",
}


def with_result(record: CallRecord) -> CallRecord:
    """The record with a result: its own, or an error for an interrupted call. The state does not change."""
    if record.result is not None:
        return record
    call = record.call
    return msgspec.structs.replace(
        record, result=ToolResult(call.id, _MISSING_RESULTS[record.state], call.name, error=True)
    )


def close_open_calls(answer: Answer) -> Answer:
    """Prepare an answer for resuming: give every call a result, and turn `running` into `interrupted`."""
    rounds = tuple(
        msgspec.structs.replace(round_, calls=tuple(map(with_result, round_.calls)))
        if any(record.result is None for record in round_.calls)
        else round_
        for round_ in answer.rounds
    )
    status: AnswerStatus = "interrupted" if answer.status == "running" else answer.status
    return msgspec.structs.replace(answer, rounds=rounds, status=status)
