"""What an agent tells while it works, and what it hands out at the end.

The same values go to `stream`, to `on_event` and, as JSON, to readers of `toolspeak run --json`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ..core.types import Note, ToolCall, ToolResult, Usage
from ..engine.rounds.transcript import AnswerStatus, Round


class AgentResult(msgspec.Struct, frozen=True):
    """What became of a task."""

    #: The final text, or what there was of it.
    content: str
    rounds: tuple[Round, ...]
    #: `complete`, `interrupted` or `failed`; `notes` says why.
    status: AnswerStatus
    usage: Usage
    notes: tuple[Note, ...]
    #: Under which it can be gone on with.
    session: str
    #: How often the model was asked.
    requests: int

    @property
    def why(self) -> str:
        """Why it is not complete, or empty."""
        return self._told("interrupted") or self._told("failed")

    @property
    def why_no_call(self) -> str:
        """Why there was no call at all, in one line; empty when there was one."""
        return self._told("no_call")

    def _told(self, code: str) -> str:
        return next((note.detail for note in self.notes if note.code == code), "")


class _Told(msgspec.Struct, frozen=True, tag_field="type"):
    """One event; as JSON it carries its `type`."""


class RoundStarted(_Told, frozen=True, tag="round_started"):
    """The model is asked. `summary`: for a summary, without tools."""

    number: int
    summary: bool = False


class TextPiece(_Told, frozen=True, tag="text"):
    """A piece of what the model says."""

    text: str


class ThoughtPiece(_Told, frozen=True, tag="thought"):
    """A piece of what the model thinks."""

    text: str


class CallStarted(_Told, frozen=True, tag="call_started"):
    """A tool is about to run."""

    call: ToolCall


class OutputPiece(_Told, frozen=True, tag="output"):
    """A running tool shows something."""

    call_id: str
    text: str


class ResultReady(_Told, frozen=True, tag="result_ready"):
    """A call has a result, or was refused."""

    call: ToolCall
    result: ToolResult
    seconds: float = 0.0


class RoundComplete(_Told, frozen=True, tag="round_complete"):
    """All calls of a round have results."""

    number: int
    made: Round


class WorkFinished(_Told, frozen=True, tag="finished"):
    """It is over; nothing follows."""

    result: AgentResult


AgentEvent: TypeAlias = (
    RoundStarted | TextPiece | ThoughtPiece | CallStarted | OutputPiece | ResultReady | RoundComplete | WorkFinished
)
