"""Events and result of an agent.

`stream` yields these events, `on_event` receives them, and `toolspeak run --json` prints them as JSON.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ..core.types import Note, ToolCall, ToolResult, Usage
from ..engine.rounds.transcript import AnswerStatus, Round


class AgentResult(msgspec.Struct, frozen=True):
    """Result of a task."""

    #: The final answer; partial if the task is not complete.
    content: str
    rounds: tuple[Round, ...]
    #: `complete`, `interrupted` or `failed`; `notes` says why.
    status: AnswerStatus
    usage: Usage
    notes: tuple[Note, ...]
    #: Session id, for continuing or resuming.
    session: str
    #: Number of model requests.
    requests: int

    @property
    def why(self) -> str:
        """The reason why the task is not complete; empty if it is."""
        return self._note("interrupted") or self._note("failed")

    @property
    def why_no_call(self) -> str:
        """The reason why the model made no call, in one line; empty if it made one."""
        return self._note("no_call")

    def _note(self, code: str) -> str:
        return next((note.detail for note in self.notes if note.code == code), "")


class _Event(msgspec.Struct, frozen=True, tag_field="type"):
    """Base of all events. Their JSON form has a `type` field."""


class RoundStarted(_Event, frozen=True, tag="round_started"):
    """A request to the model starts. With `summary`, it asks for a summary and offers no tools."""

    number: int
    summary: bool = False


class TextPiece(_Event, frozen=True, tag="text"):
    """A piece of the model's text."""

    text: str


class ThoughtPiece(_Event, frozen=True, tag="thought"):
    """A piece of the model's reasoning."""

    text: str


class CallStarted(_Event, frozen=True, tag="call_started"):
    """A tool is about to run."""

    call: ToolCall


class OutputPiece(_Event, frozen=True, tag="output"):
    """A piece of a running tool's output."""

    call_id: str
    text: str


class ResultReady(_Event, frozen=True, tag="result_ready"):
    """A call has returned a result or was denied."""

    call: ToolCall
    result: ToolResult
    seconds: float = 0.0


class FileChanged(_Event, frozen=True, tag="file_changed"):
    """A tool has changed a file."""

    call_id: str
    path: str
    #: Unified diff, shortened if it is very long.
    diff: str


class RoundComplete(_Event, frozen=True, tag="round_complete"):
    """All calls of a round have results."""

    number: int
    made: Round


class WorkFinished(_Event, frozen=True, tag="finished"):
    """The task has ended. This is the last event."""

    result: AgentResult


AgentEvent: TypeAlias = (
    RoundStarted
    | TextPiece
    | ThoughtPiece
    | CallStarted
    | OutputPiece
    | FileChanged
    | ResultReady
    | RoundComplete
    | WorkFinished
)
