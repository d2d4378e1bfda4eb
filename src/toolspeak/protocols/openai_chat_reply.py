"""What an upstream answers to a chat-completions request, streamed or not, to events.

One path for both: a whole answer is read as a stream of one chunk. Every fault that servers are known for is
tolerated and noted, or becomes a `Failure`; no input raises. Above: `openai_chat`, `upstreams`. Below: `framing`,
`openai_chat_chunks`, `openai_chat_calls`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ..core.events import (
    CallArgs,
    Event,
    Failure,
    Finish,
    FinishReason,
    Noted,
    OpaqueSeen,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
)
from ..core.model import JSONValue, Note, Opaque, Usage, is_array, is_object
from .framing import Frame, FrameError, ServerEvent, SSEDecoder, Template
from .openai_chat_calls import Assembler, OpenCall
from .openai_chat_chunks import (
    CARRIED,
    Choice,
    Chunk,
    Delta,
    DeltaCall,
    decode_chunk,
    failure_from,
    finish_from,
    repair_chunk,
    shorten,
    usage_from,
)

__all__ = ["MAX_BODY", "ReplyDecoder"]

#: Largest answer that is not streamed.
MAX_BODY = 32 * 1024 * 1024
#: First bytes by which a body that is not a stream, and a stream, are known; anything else is what was asked for.
_BODY, _STREAM = b"{[<", b"deir:"
_BOM = b"\xef\xbb\xbf"
#: How much of an answer is kept to show it if it cannot be read.
_HEAD = 1000
#: `[DONE]` with some spaces.
_SHORT = 16
#: Tries to learn a template, one after the other, that never fitted: then the server's chunks differ by more than text.
_MAX_LESSONS = 8

#: What a run of deltas belongs to.
_Target: TypeAlias = type[TextDelta] | type[ReasoningDelta] | OpenCall


class ReplyDecoder:
    """Reads one answer: `feed` gives the events that the bytes make certain, `close` the last ones.

    Adjacent deltas of one kind inside one `feed` are joined. `stream` says what was asked for; an upstream that
    answers the other way is understood too.
    """

    def __init__(self, stream: bool) -> None:
        self._stream = stream
        self._sniffed = False
        self._head: bytes = b""
        self._frames = SSEDecoder()
        self._body = bytearray()
        self._over = False
        self._final = False
        #: The last chunk of a read and its bytes, and what was learned from it.
        self._text: tuple[Chunk, bytes] | None = None
        self._template: Template | None = None
        self._lessons = _MAX_LESSONS
        self._repeated: Callable[[str], Event] = TextDelta
        self._events: list[Event] = []
        self._target: _Target = TextDelta
        self._run: list[str] = []
        self._calls = Assembler()
        #: The call to which the last piece of one belonged.
        self._continued: OpenCall | None = None
        self._index: JSONValue = None
        self._usage: Usage | None = None
        self._reason = ""
        self._chunks = 0
        self._bad = 0
        self._bad_body = b""
        self._noted: set[str] = set()

    @property
    def finished(self) -> bool:
        """Whether the upstream said why it stopped: then a connection that breaks loses nothing."""
        return self._over or bool(self._reason)

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes make certain."""
        if self._template is not None:
            text = self._template.read(data)
            if text:
                self._lessons = _MAX_LESSONS
                return [self._repeated(text)]
        if self._over:
            return []
        if not self._sniffed:
            data = self._sniff(data)
        elif len(self._head) < _HEAD:
            self._head += data[: _HEAD - len(self._head)]
        if self._stream:
            self._text = None
            for frame in self._frames.feed(data):
                self._frame(frame)
            self._template = self._learn(data)
        elif len(self._body) + len(data) > MAX_BODY:
            self._fail(Failure(f"the answer is larger than {MAX_BODY} bytes", body=shorten(self._head)))
        else:
            self._body += data
        return self._taken()

    def close(self) -> list[Event]:
        """The events that only the end of the answer makes certain."""
        if self._stream:
            self._final = True
            for frame in self._frames.close():
                self._frame(frame)
            if not self._over:
                self._end()
        elif not self._over:
            self._whole(bytes(self._body))
        return self._taken()

    def _sniff(self, data: bytes) -> bytes:
        """Hold everything before the first byte that says something, then see whether this is a stream at all."""
        data = (self._head + data).lstrip()
        self._head = data[:_HEAD]
        first = data.removeprefix(_BOM).lstrip()[:1]
        if not first or _BOM.startswith(data):
            return b""
        self._sniffed = True
        self._stream = first in _STREAM or (self._stream and first not in _BODY)
        return data

    # -------------------------------------------------------------------------------------------- output

    def _taken(self) -> list[Event]:
        self._flush()
        events, self._events = self._events, []
        return events

    def _flush(self) -> None:
        if self._run:
            text = "".join(self._run)
            target = self._target
            self._events.append(CallArgs(target.index, text) if isinstance(target, OpenCall) else target(text))
            self._run = []

    def _emit(self, event: Event) -> None:
        self._flush()
        self._events.append(event)

    def _add(self, target: _Target, text: str) -> None:
        if target is not self._target:
            self._flush()
            self._target = target
        if text:
            self._run.append(text)

    def _note(self, code: str, detail: str) -> None:
        if code not in self._noted:
            self._noted.add(code)
            self._emit(Noted(Note(code, detail)))

    # ------------------------------------------------------------------------------------------- reading

    def _frame(self, frame: Frame) -> None:
        if self._over:
            return
        if isinstance(frame, FrameError):
            self._fail(Failure(frame.message))
            return
        payload = frame if isinstance(frame, bytes) else frame.data
        if isinstance(frame, ServerEvent) and frame.event == "error":
            self._fail(failure_from(_json(payload), body=payload, otherwise=shorten(payload)))
            return
        if len(payload) < _SHORT and payload.strip() == b"[DONE]":
            self._end()
            return
        chunk = self._chunk(payload)
        if chunk is None:
            self._bad_event(payload)
            return
        self._chunks += 1
        self._read(chunk, payload)
        self._text = (chunk, payload)

    def _chunk(self, payload: bytes) -> Chunk | None:
        try:
            return decode_chunk(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            chunk = repair_chunk(payload)
            if chunk is not None:
                self._note("invalid_text", "characters that are no text were replaced")
            return chunk

    def _bad_event(self, payload: bytes) -> None:
        self._bad += 1
        self._bad_body = self._bad_body or payload[:_HEAD]
        if self._calls and not self._final:
            # What was lost may be a part of the call.
            self._fail(Failure("an event inside a call could not be read", body=shorten(payload)))

    def _whole(self, body: bytes) -> None:
        if not body.strip():
            self._fail(Failure("the upstream answered with nothing", "truncated"))
            return
        chunk = self._chunk(body.removeprefix(_BOM))
        if chunk is None:
            self._fail(Failure("the upstream did not answer with a chat completion", body=shorten(body)))
            return
        self._chunks += 1
        self._read(chunk, body)
        if self._over:
            return
        if not chunk.choices:
            self._fail(Failure("the upstream answered without a choice", body=shorten(body)))
            return
        self._reason = self._reason or "missing"
        self._end()

    def _read(self, chunk: Chunk, payload: bytes) -> None:
        if chunk.error or chunk.object == "error" or (chunk.choices is None and (chunk.detail or chunk.message)):
            error = chunk.error or {"message": chunk.message, "detail": chunk.detail}
            self._fail(failure_from(error, body=payload))
            return
        if chunk.usage is not None or chunk.x_groq is not None:
            inner = chunk.x_groq.get("usage") if is_object(chunk.x_groq) else None
            self._usage = usage_from(chunk.usage) or usage_from(inner) or self._usage
        for choice in chunk.choices or ():
            if self._index is None:
                self._index = choice.index
            if choice.index is not None and choice.index != self._index:
                self._note("other_choices_dropped", "the upstream gave several answers; the first is used")
            elif not self._over:
                self._choice(choice, payload)

    def _choice(self, choice: Choice, payload: bytes) -> None:
        if choice.error:
            self._fail(failure_from(choice.error, body=payload))
            return
        delta = choice.delta or choice.message
        if delta is not None:
            self._delta(delta)
        if choice.usage is not None:
            self._usage = usage_from(choice.usage) or self._usage
        reason = choice.finish_reason
        if reason is not None and isinstance(reason, str) and reason not in ("", "null") and not self._reason:
            self._reason = reason

    def _delta(self, delta: Delta) -> None:
        if delta.reasoning_content or delta.reasoning or delta.thinking:
            self._thought(delta)
        if delta.content:
            self._content(delta.content)
        if delta.refusal or delta.annotations or delta.audio or delta.images or delta.reasoning_details:
            self._aside(delta)
        for piece in delta.tool_calls or ():
            self._call(piece)
        if delta.function_call is not None and not delta.tool_calls:
            self._call(DeltaCall(function=delta.function_call))

    def _thought(self, delta: Delta) -> None:
        """Servers that fill several of these fields say the same in all of them."""
        thoughts = (delta.reasoning_content, delta.reasoning, delta.thinking)
        self._add(ReasoningDelta, next((thought for thought in thoughts if thought and isinstance(thought, str)), ""))

    def _aside(self, delta: Delta) -> None:
        if isinstance(delta.refusal, str) and delta.refusal:
            self._note("refusal", "the upstream marked this text as a refusal")
            self._add(TextDelta, delta.refusal)
        for kind in CARRIED:
            value = getattr(delta, kind)
            if value:
                self._emit(OpaqueSeen(Opaque(kind, value)))

    def _content(self, content: JSONValue) -> None:
        """Text, or parts as some servers list them."""
        if isinstance(content, str):
            self._add(TextDelta, content)
        elif is_array(content):
            for part in content:
                self._content_part(part)

    def _content_part(self, part: JSONValue) -> None:
        if isinstance(part, str):
            self._add(TextDelta, part)
            return
        kind = part.get("type") if is_object(part) else ""
        match kind:
            case "text" if isinstance(part.get("text"), str):
                self._add(TextDelta, part["text"])
            case "thinking" | "reasoning":
                self._add(ReasoningDelta, _texts(part.get(kind, part.get("text"))))
            case str() if kind:
                self._emit(OpaqueSeen(Opaque(kind, part)))
            case _:
                self._note("content_part_dropped", shorten(str(part)))

    def _call(self, piece: DeltaCall) -> None:
        self._continued = None
        for event in self._calls.add(piece):
            if isinstance(event, CallArgs):
                self._continued = self._calls[event.index]
                self._add(self._continued, event.fragment)
            else:
                self._emit(event)

    # ---------------------------------------------------------------------------------------- the template

    def _learn(self, read: bytes) -> Template | None:
        """What the last chunk of a read looks like, if it holds nothing but one text."""
        if not self._lessons or self._text is None or self._over or not self._frames.idle:
            return None
        found = _only_text(self._text[0])
        if found is None or found[0] != self._index:
            return None
        target = self._continued if found[1] == _ARGUMENTS else self._target
        if target is None:
            return None
        self._lessons -= 1
        self._repeated = target.add if isinstance(target, OpenCall) else target
        return Template.learn(read, self._text[1], found[1], found[2])

    # --------------------------------------------------------------------------------------------- the end

    def _end(self) -> None:
        if not self._reason:
            self._fail(self._truncated())
            return
        reason = finish_from(self._reason)
        if reason == "error":
            self._fail(Failure(f"the upstream stopped with `{self._reason}`"))
            return
        for event in self._calls.end(cut=reason in ("length", "content_filter")):
            self._emit(event)
        for code, detail in self._calls.notes.items():
            self._note(code, detail)
        self._last_words()
        self._emit(Finish(self._settled(reason)))

    def _settled(self, reason: FinishReason) -> FinishReason:
        """The reason, where it fits what was said; else what was said tells it."""
        told: FinishReason = "tool_calls" if self._calls else "stop"
        if reason in ("length", "content_filter", told):
            return reason
        self._note("finish_reason_derived", f"the upstream said `{shorten(self._reason)}`")
        return told

    def _truncated(self) -> Failure:
        if self._chunks:
            return Failure("the stream ended before the answer did", "truncated")
        if self._bad:
            return Failure("the stream held nothing that could be read", body=shorten(self._bad_body))
        return Failure("the stream ended before it began", "truncated", body=shorten(self._head))

    def _last_words(self) -> None:
        if self._bad:
            self._note("bad_events", f"{self._bad} unreadable, the first: {shorten(self._bad_body)}")
        if self._usage is not None:
            self._emit(UsageSeen(self._usage))
        self._over = True

    def _fail(self, failure: Failure) -> None:
        self._last_words()
        self._emit(failure)


def _only_text(chunk: Chunk) -> tuple[JSONValue, bytes, str] | None:
    """The one text of a chunk that holds nothing else, the key before it and the number of its choice."""
    if chunk.usage is not None or chunk.x_groq is not None or not chunk.choices or len(chunk.choices) != 1:
        return None
    choice = chunk.choices[0]
    if choice.delta is None or choice.finish_reason is not None or choice.usage is not None:
        return None
    filled = [(name, value) for name in _FIELDS if (value := getattr(choice.delta, name))]
    if len(filled) != 1 or filled[0][0] not in _KEYS:
        return None
    name, value = filled[0]
    text = _only_arguments(value) if name == "tool_calls" else value
    return (choice.index, _KEYS[name], text) if isinstance(text, str) else None


_FIELDS = tuple(field.name for field in msgspec.structs.fields(Delta))
_ARGUMENTS = b'"arguments":'
#: Fields that are one text, or hold one, and the key before it.
_KEYS = {
    "content": b'"content":',
    "reasoning_content": b'"reasoning_content":',
    "reasoning": b'"reasoning":',
    "thinking": b'"thinking":',
    "tool_calls": _ARGUMENTS,
}


def _only_arguments(pieces: list[DeltaCall]) -> JSONValue:
    """The arguments of the one call that goes on."""
    piece = pieces[0]
    if len(pieces) > 1 or piece.id or piece.custom or piece.function is None or piece.function.name:
        return None
    return piece.function.arguments


def _texts(value: JSONValue) -> str:
    """The text of a part that holds one, or a list of such parts."""
    if is_array(value):
        return "".join(map(_texts, value))
    if is_object(value):
        return _texts(value.get("text"))
    return value if isinstance(value, str) else ""


def _json(payload: bytes) -> JSONValue:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
