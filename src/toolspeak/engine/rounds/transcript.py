"""The stored form of a conversation: messages, and answers with their rounds.

An answer has a final text and rounds. A round has the text before the calls, the calls, and their results. `expansion`
converts this form to protocol messages. This module only defines values.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from ...core.types import Message, Note, ToolCall, ToolResult, Usage

#: `planned`: the model requested the call. `started`: it may have had side effects. `finished`: it has a result.
CallState: TypeAlias = Literal["planned", "started", "finished"]

#: `running` is also the stored status after a crash. Reopening the session changes it to `interrupted`.
AnswerStatus: TypeAlias = Literal["running", "complete", "interrupted", "failed"]


class FileDiff(msgspec.Struct, frozen=True):
    """What a call changed in a file."""

    #: Path from the work directory, without links.
    path: str
    #: Unified diff, shortened if it is very long.
    diff: str


class CallRecord(msgspec.Struct, frozen=True):
    """A tool call with its state and result."""

    call: ToolCall
    state: CallState = "planned"
    #: Whether the tool declares side effects.
    side_effects: bool = False
    result: ToolResult | None = None
    #: How many seconds the call took, and when it started, as a Unix time (0 if it never did).
    seconds: float = 0.0
    started: float = 0.0
    #: The files that the call changed.
    diffs: tuple[FileDiff, ...] = ()


class Round(msgspec.Struct, frozen=True):
    """One round of an answer: text, then calls with their results."""

    #: The text before the calls.
    text: str = ""
    calls: tuple[CallRecord, ...] = ()
    reasoning: str = ""
    #: The original assistant message, stored only if it contains opaque parts that the upstream needs back, such as
    #: signatures or encrypted reasoning.
    said: Message | None = None


class Answer(msgspec.Struct, frozen=True):
    """The answer to one message: the rounds and the final text."""

    #: The final text, excluding the text of the rounds.
    content: str = ""
    rounds: tuple[Round, ...] = ()
    status: AnswerStatus = "complete"
    reasoning: str = ""
    #: The original message with the final text, stored under the same condition as in `Round`.
    said: Message | None = None
    usage: Usage = Usage()
    notes: tuple[Note, ...] = ()
    #: The total number of upstream requests.
    requests: int = 0


#: One element of a conversation.
Entry: TypeAlias = Message | Answer

#: Results for interrupted calls, by the state at the time of the interruption.
_MISSING_RESULTS: dict[CallState, str] = {
    "planned": "Interrupted: this call was not run.",
    "started": (
        "Interrupted: this call had begun, and its result is not known. "
        "It may or may not have been carried out. Look before you do it again."
    ),
    "finished": "The result of this call was lost.",
}


def records_of(entries: Iterable[Entry]) -> Iterator[CallRecord]:
    for entry in entries:
        if isinstance(entry, Answer):
            for round_ in entry.rounds:
                yield from round_.calls


def results_of(entries: Iterable[Entry]) -> Iterator[ToolResult]:
    """Yield the results of all calls of a conversation."""
    return (record.result for record in records_of(entries) if record.result is not None)


def with_result(record: CallRecord) -> CallRecord:
    """Return the record with a result. A record without one gets an error result; its state does not change."""
    if record.result is not None:
        return record
    call = record.call
    return msgspec.structs.replace(
        record, result=ToolResult(call.id, _MISSING_RESULTS[record.state], call.name, error=True)
    )


def close_open_calls(answer: Answer) -> Answer:
    """Prepare an answer for resuming: give every call a result, and change `running` to `interrupted`."""
    rounds = tuple(
        msgspec.structs.replace(round_, calls=tuple(map(with_result, round_.calls)))
        if any(record.result is None for record in round_.calls)
        else round_
        for round_ in answer.rounds
    )
    status: AnswerStatus = "interrupted" if answer.status == "running" else answer.status
    return msgspec.structs.replace(answer, rounds=rounds, status=status)
