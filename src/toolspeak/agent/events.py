"""Events and result of an agent.

`stream` yields these events, `on_event` receives them, and `toolspeak run --json` prints them as JSON.
"""

from typing import Any, TypeAlias

import msgspec

from ..core.types import JSONObject, Media, Message, Note, ToolCall, ToolResult, Usage
from ..engine.rounds.expansion import expand_messages
from ..engine.rounds.transcript import Answer, AnswerStatus, Round
from ..protocols.generated_images import generated_images


class AgentResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of a task."""

    content: str  # the final answer; partial if the task is not complete
    rounds: tuple[Round, ...]
    status: AnswerStatus  # `complete`, `interrupted` or `failed`; `notes` says why
    usage: Usage
    notes: tuple[Note, ...]
    session: str  # session id, for continuing or resuming
    requests: int
    output: Any = None  # the value of the agent's `output_type`; None without one, or if the task is not complete
    task: tuple[Message, ...] = ()  # the messages that this run answered
    reasoning: str = ""
    said: Message | None = None  # the model's original final message, if it has parts other than text

    @property
    def text(self) -> str:
        """The final answer; the same as `content`."""
        return self.content

    @property
    def images(self) -> tuple[Media, ...]:
        """The images that the model generated in its final answer."""
        return () if self.said is None else generated_images(self.said)

    def messages(self, protocol: str) -> list[JSONObject]:
        """Return the new messages of this run in the form of a protocol: task, rounds and answer.

        `protocol` is `openai`, `responses`, `anthropic`, `gemini` or `ollama`.
        Raises UsageError if the protocol is unknown.
        """
        answer = Answer(self.content, self.rounds, self.status, self.reasoning, self.said)
        return expand_messages((*self.task, answer), protocol)

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
    """A request to the model starts. With `summary`, it offers no tools and asks only for a final text."""

    number: int
    summary: bool = False
    tokens: int = 0  # estimated size of the conversation and the tools


class RetryStarted(_Event, frozen=True, tag="retry_started"):
    """The model is asked again within a round, because its answer was not usable."""

    reason: str


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
    diff: str  # unified diff, shortened if it is very long


class RoundComplete(_Event, frozen=True, tag="round_complete"):
    """All calls of a round have results."""

    number: int
    made: Round


class WorkFinished(_Event, frozen=True, tag="finished"):
    """The task has ended. This is the last event."""

    result: AgentResult


AgentEvent: TypeAlias = (
    RoundStarted
    | RetryStarted
    | TextPiece
    | ThoughtPiece
    | CallStarted
    | OutputPiece
    | FileChanged
    | ResultReady
    | RoundComplete
    | WorkFinished
)
