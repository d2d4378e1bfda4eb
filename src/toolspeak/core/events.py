"""Events of a model turn, and `fold`, which turns a stream of events into a reply.

The text scanner and the decoders of native tool calls produce these events; the protocol encoders consume them. A reply
that is not streamed is built by folding the same stream.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, assert_never

import msgspec

from ..errors import UsageError
from .types import JSONObject, JSONValue, Note, Opaque, ToolCall, Usage, is_object, require

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "error", "unknown"]

#: `call`: a valid call. `invalid`: the arguments do not match the schema. `truncated`: cut off, must not be executed.
#: `text`: looked like a call, but is part of the text. `reasoning`: inside a reasoning block.
Verdict = Literal["call", "invalid", "truncated", "text", "reasoning"]


class TextDelta(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A chunk of the answer's text."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A chunk of the model's reasoning."""

    text: str


class CallStart(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The start of a call, whose name is final."""

    index: int
    name: str
    id: str = ""


class CallArgs(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A fragment of a call's arguments. The joined fragments of a valid call form one strict JSON object.

    An invalid call may have no fragments.
    """

    index: int
    fragment: str


class CallEnd(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The end of a call. If `valid` is false, the call must not be executed; `notes` say why."""

    index: int
    valid: bool = True
    notes: tuple[Note, ...] = ()


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """Text that looked like a call, with the verdict on it and the reason."""

    name: str
    verdict: Verdict
    #: Code of the deciding rule, for example `unknown_tool`, `in_fence` or `accepted`.
    reason: str
    dialect: str = ""
    arguments: JSONValue = None
    evidence: dict[str, JSONValue] = {}
    notes: tuple[Note, ...] = ()


class Judged(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The verdict on a candidate call."""

    candidate: Candidate


class Noted(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A note about the turn, not about a particular call."""

    note: Note


class OpaqueSeen(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A provider-specific part that is passed through uninterpreted."""

    part: Opaque


class UsageSeen(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Token usage reported by the upstream."""

    usage: Usage


class Finish(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The reason why the upstream stopped generating."""

    reason: FinishReason


class Failure(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A failed turn. `kind`: `upstream`, `timeout`, `truncated` (the stream ended early), `tool_choice` or `format`."""

    message: str
    kind: str = "upstream"
    #: HTTP status of the upstream's response; 0 if there was none.
    status: int = 0
    #: The body of the upstream's response, shortened.
    body: str = ""
    #: The upstream's retry advice, if any: seconds to wait, and whether to retry at all.
    retry_after: float | None = None
    should_retry: bool | None = None
    #: Error code, error type and name of the offending field, as reported by the upstream.
    code: str = ""
    error_type: str = ""
    param: str = ""


CallEvent: TypeAlias = CallStart | CallArgs | CallEnd
Event: TypeAlias = TextDelta | ReasoningDelta | CallEvent | Judged | Noted | OpaqueSeen | UsageSeen | Finish | Failure


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The result of one model turn."""

    text: str = ""
    reasoning: str = ""
    #: Complete calls whose arguments match their schema. Text that only looked like a call is in `candidates`.
    calls: tuple[ToolCall, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[Note, ...] = ()
    #: False if the model's output ended inside a call or a reasoning block.
    complete: bool = True
    finish_reason: FinishReason = "unknown"
    usage: Usage = Usage()
    opaque: tuple[Opaque, ...] = ()
    failure: Failure | None = None
    #: Number of upstream requests that this reply took, and warnings about how it was obtained.
    requests: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Alias of `calls`, under the name that common SDKs use."""
        return self.calls


#: Codes of notes which mean that the model's output ended too early.
INCOMPLETE_NOTES = frozenset({"truncated_call", "reasoning_unclosed"})


def fold(events: Iterable[Event]) -> Reply:
    """Fold a stream of events into a reply. Raises UsageError if it contains something that is not an event."""
    if events.__class__ is not list:
        require(events, Iterable, "`events`", "events")
    elif PLAIN_EVENTS.issuperset(map(type, events)):
        return _plain_reply(events)
    builder = _ReplyBuilder()
    builder.add(events)
    return builder.reply()


#: The events of an answer in plain text.
PLAIN_EVENTS = frozenset({TextDelta, UsageSeen, Finish})


def _plain_reply(events: Iterable[Event]) -> Reply:
    texts: list[str] = []
    usage = Usage()
    reason: FinishReason = "unknown"
    for event in events:
        if type(event) is TextDelta:
            texts.append(event.text)
        elif type(event) is UsageSeen:
            usage = event.usage
        else:
            assert type(event) is Finish
            reason = event.reason
    return Reply("".join(texts), finish_reason=reason, usage=usage)


def final_events(events: Sequence[Event], reply: Reply, since: int = 0) -> list[Event]:
    """Return the events of a turn that belong to its reply, in order.

    Omits rejected calls. Reasoning and opaque parts are kept only for the last answer, which begins at index `since`.
    """
    ids = {call.id for call in reply.calls}
    calls = {event.index for event in events if isinstance(event, CallStart) and event.id in ids}
    result: list[Event] = []
    for at, event in enumerate(events):
        if isinstance(event, CallEvent):
            belongs = event.index in calls
        else:
            belongs = at >= since or not isinstance(event, _LAST_ANSWER_ONLY)
        if belongs:
            result.append(event)
    return result


#: Event types that are kept only for the last answer of a turn.
_LAST_ANSWER_ONLY = (ReasoningDelta, OpaqueSeen)


class _ReplyBuilder:
    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        #: Calls whose end has not arrived yet, with the fragments of their arguments.
        self._open: dict[int, tuple[CallStart, list[str]]] = {}
        self._calls: dict[int, ToolCall] = {}
        self._candidates: list[Candidate] = []
        self._notes: list[Note] = []
        self._opaque: list[Opaque] = []
        self._usage = Usage()
        self._finish: FinishReason = "unknown"
        self._failure: Failure | None = None

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            # Ordered by frequency: nearly all events are of the first two types, and every answer has the next two.
            if type(event) is TextDelta:
                self._text.append(event.text)
            elif type(event) is CallArgs:
                self._opened(event.index)[1].append(event.fragment)
            elif type(event) is UsageSeen:
                self._usage = event.usage
            elif type(event) is Finish:
                self._finish = event.reason
            else:
                self._add_rarer(event)  # pyright: ignore[reportArgumentType]  # comparing types narrows nothing

    def _add_rarer(self, event: ReasoningDelta | CallStart | CallEnd | Judged | Noted | OpaqueSeen | Failure) -> None:
        match event:
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case CallStart(index):
                self._open[index] = (event, [])
            case CallEnd(index):
                self._end(*self._opened(index), event)
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
                require(event, Event, "each item", "an event")
                assert_never(event)

    def _opened(self, index: int) -> tuple[CallStart, list[str]]:
        try:
            return self._open[index]
        except KeyError:
            raise UsageError(f"an event for call {index} came before its `CallStart` or after its `CallEnd`") from None

    def _end(self, call: CallStart, fragments: list[str], end: CallEnd) -> None:
        self._notes.extend(end.notes)
        if not end.valid:
            return
        arguments = _decode_arguments(fragments)
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
