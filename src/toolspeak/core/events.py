"""What a turn consists of, as a stream, and `fold`, which turns the stream into a reply.

Every source of a turn (the scanner over plain text, a native protocol) produces these events; every face
consumes them. There is one path: a reply that is not streamed is the fold of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, assert_never

import msgspec

from ..errors import UsageError
from .types import JSONObject, JSONValue, Note, Opaque, ToolCall, Usage, is_object, require

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "error", "unknown"]

#: `call`: returned. `invalid`: started, but its arguments do not fit. `truncated`: cut off, never to be
#: executed. `text`: looked like a call and was left in the text. `reasoning`: made inside a reasoning block.
Verdict = Literal["call", "invalid", "truncated", "text", "reasoning"]


class TextDelta(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A piece of the answer."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A piece of the model's thinking."""

    text: str


class CallStart(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A call has begun and its name is final."""

    index: int
    name: str
    id: str = ""


class CallArgs(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A fragment of the arguments: all fragments of a call that is complete, joined, are one strict JSON object.

    A call that is not valid may have none, if it came to nothing before any had left.
    """

    index: int
    fragment: str


class CallEnd(msgspec.Struct, frozen=True, tag=True):
    """The arguments are complete. `valid` is false when they must not be used (see `notes`)."""

    index: int
    valid: bool = True
    notes: tuple[Note, ...] = ()


class Candidate(msgspec.Struct, frozen=True):
    """Something that looked like a call, what was decided about it, and why."""

    name: str
    verdict: Verdict
    #: One word for the rule that decided, e.g. `unknown_tool`, `in_fence`, `accepted`.
    reason: str
    dialect: str = ""
    arguments: JSONValue = None
    evidence: dict[str, JSONValue] = {}
    notes: tuple[Note, ...] = ()


class Judged(msgspec.Struct, frozen=True, tag=True):
    """A candidate has been decided."""

    candidate: Candidate


class Noted(msgspec.Struct, frozen=True, tag=True):
    """A note about the turn as a whole."""

    note: Note


class OpaqueSeen(msgspec.Struct, frozen=True, tag=True):
    """A part that is carried, not read."""

    part: Opaque


class UsageSeen(msgspec.Struct, frozen=True, tag=True):
    """Token counts as the upstream reports them."""

    usage: Usage


class Finish(msgspec.Struct, frozen=True, tag=True):
    """The upstream said why it stopped."""

    reason: FinishReason


class Failure(msgspec.Struct, frozen=True, tag=True):
    """The turn broke. `kind`: `upstream`, `timeout`, `truncated` (the stream ended early), `tool_choice`, `format`."""

    message: str
    kind: str = "upstream"
    #: The HTTP status that the upstream gave, or 0.
    status: int = 0
    #: What the upstream said, shortened.
    body: str = ""
    #: How many seconds the upstream asks to wait, and whether it says that asking again helps; None: it says nothing.
    retry_after: float | None = None
    should_retry: bool | None = None
    #: The upstream's own words, as far as its protocol has them: what is wrong, of which sort, and in which field.
    code: str = ""
    error_type: str = ""
    param: str = ""


Event: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | CallStart
    | CallArgs
    | CallEnd
    | Judged
    | Noted
    | OpaqueSeen
    | UsageSeen
    | Finish
    | Failure
)


class Reply(msgspec.Struct, frozen=True):
    """A whole turn."""

    text: str = ""
    reasoning: str = ""
    #: Complete calls whose arguments fit their schema. Everything else that looked like a call is in `candidates`.
    calls: tuple[ToolCall, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[Note, ...] = ()
    #: False when the text ended inside a call or a reasoning block.
    complete: bool = True
    finish_reason: FinishReason = "unknown"
    usage: Usage = Usage()
    opaque: tuple[Opaque, ...] = ()
    failure: Failure | None = None
    #: Requests that were sent upstream for this reply, and what its reader should know about how it came to be.
    requests: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, under the name that SDK users know."""
        return self.calls


#: Notes that say that the text ended too early.
INCOMPLETE_NOTES = frozenset({"truncated_call", "reasoning_unclosed"})


def fold(events: Iterable[Event]) -> Reply:
    """Turn a stream of events into the reply it means.

    Raises:
        UsageError: what is in it are no events.
    """
    if events.__class__ is not list:
        require(events, Iterable, "`events`", "events")
    folder = _Folder()
    folder.add(events)
    return folder.reply()


def lasting(events: Sequence[Event], reply: Reply, since: int = 0) -> list[Event]:
    """The events of a turn that its reply still stands for, in their order.

    Calls that came to nothing are left out, and so are the thoughts and the parts of answers before the last one,
    which begins at `since`: they led to nothing that is there.
    """
    ids = {call.id for call in reply.calls}
    calls = {event.index for event in events if isinstance(event, CallStart) and event.id in ids}
    kept: list[Event] = []
    for at, event in enumerate(events):
        if isinstance(event, _OF_CALL):
            lasts = event.index in calls
        else:
            lasts = at >= since or not isinstance(event, _OF_ANSWER)
        if lasts:
            kept.append(event)
    return kept


_OF_CALL = (CallStart, CallArgs, CallEnd)
#: What only the answer that it belongs to has a place for.
_OF_ANSWER = (ReasoningDelta, OpaqueSeen)


class _OpenCall:
    """A call whose end has not been seen."""

    __slots__ = ("fragments", "id", "name")

    def __init__(self, start: CallStart) -> None:
        self.name = start.name
        self.id = start.id
        self.fragments: list[str] = []


class _Folder:
    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._open: dict[int, _OpenCall] = {}
        self._calls: dict[int, ToolCall] = {}
        self._candidates: list[Candidate] = []
        self._notes: list[Note] = []
        self._opaque: list[Opaque] = []
        self._usage = Usage()
        self._finish: FinishReason = "unknown"
        self._failure: Failure | None = None

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            # Nearly all events of a stream are of the first two kinds, and every answer holds the others.
            if isinstance(event, TextDelta):
                self._text.append(event.text)
            elif isinstance(event, CallArgs):
                self._opened(event.index).fragments.append(event.fragment)
            elif isinstance(event, UsageSeen):
                self._usage = event.usage
            elif isinstance(event, Finish):
                self._finish = event.reason
            else:
                self._add_rarer(event)

    def _add_rarer(self, event: ReasoningDelta | CallStart | CallEnd | Judged | Noted | OpaqueSeen | Failure) -> None:
        match event:
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case CallStart(index):
                self._open[index] = _OpenCall(event)
            case CallEnd(index):
                self._end(self._opened(index), event)
                del self._open[index]
            case Judged(candidate):
                self._candidates.append(candidate)
            case Noted(note):
                self._notes.append(note)
            case OpaqueSeen(part):
                self._opaque.append(part)
            case Failure():
                self._failure = event
            case _:
                require(event, Event, "what is folded", "an event")
                assert_never(event)

    def _opened(self, index: int) -> _OpenCall:
        try:
            return self._open[index]
        except KeyError:
            raise UsageError(f"the call {index} goes on before it has begun, or after its end") from None

    def _end(self, call: _OpenCall, end: CallEnd) -> None:
        self._notes.extend(end.notes)
        if not end.valid:
            return
        arguments = _decode_arguments(call.fragments)
        if arguments is None:
            self._notes.append(Note("arguments_invalid", f"the arguments of `{call.name}` are not a JSON object"))
            return
        self._calls[end.index] = ToolCall(call.name, arguments, call.id, end.notes)

    def reply(self) -> Reply:
        cut = self._notes and any(note.code in INCOMPLETE_NOTES for note in self._notes)
        complete = not self._open and not cut
        return Reply(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            calls=tuple(self._calls[index] for index in sorted(self._calls)) if self._calls else (),
            candidates=tuple(self._candidates),
            notes=tuple(self._notes),
            complete=complete,
            finish_reason=self._finish,
            usage=self._usage,
            opaque=tuple(self._opaque),
            failure=self._failure,
        )


def _decode_arguments(fragments: list[str]) -> JSONObject | None:
    try:
        value = msgspec.json.decode("".join(fragments) or "{}")
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if is_object(value) else None
