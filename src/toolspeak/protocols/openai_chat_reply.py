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
        self._template: Template | None = None
        self._lessons = _MAX_LESSONS
        self._repeated: Callable[[str], Event] = TextDelta
        self._events: list[Event] = []
        self._target: _Target = TextDelta
        self._run: list[str] = []
        self._calls = Assembler()
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
        if self._template is not None and self._frames.idle:
            text = self._template.read(data)
            if text is not None:
                self._lessons = _MAX_LESSONS
                return [self._repeated(text)] if text else []
        if self._over:
            return []
        if not self._sniffed:
            data = self._sniff(data)
        if self._stream:
            for frame in self._frames.feed(data):
                self._frame(frame, data)
        elif len(self._body) + len(data) > MAX_BODY:
            self._fail(Failure(f"the answer is larger than {MAX_BODY} bytes", body=shorten(bytes(self._body[:_HEAD]))))
        else:
            self._body += data
        return self._taken()

    def close(self) -> list[Event]:
        """The events that only the end of the answer makes certain."""
        if self._stream:
            for frame in self._frames.close():
                self._frame(frame, b"")
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

    def _frame(self, frame: Frame, read: bytes) -> None:
        if self._over:
            return
        match frame:
            case bytes():
                payload = frame
            case ServerEvent(payload, "error"):
                self._fail(failure_from(_json(payload), body=payload, otherwise=shorten(payload)))
                return
            case ServerEvent(payload):
                pass
            case FrameError(message):
                self._fail(Failure(message))
                return
        if payload.strip() == b"[DONE]":
            self._end()
            return
        chunk = self._chunk(payload)
        if chunk is None:
            self._bad_event(payload, final=not read)
            return
        self._chunks += 1
        self._template = None  # it may speak of a call that this chunk ends
        self._read(chunk, payload)
        if self._lessons and read:
            self._learn(chunk, payload, read)

    def _chunk(self, payload: bytes) -> Chunk | None:
        try:
            return decode_chunk(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            chunk = repair_chunk(payload)
            if chunk is not None:
                self._note("invalid_text", "characters that are no text were replaced")
            return chunk

    def _bad_event(self, payload: bytes, final: bool) -> None:
        self._bad += 1
        self._bad_body = self._bad_body or payload[:_HEAD]
        if self._calls and not final:
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
        self._usage = usage_from(choice.usage) or self._usage
        reason = choice.finish_reason
        if isinstance(reason, str) and reason not in ("", "null") and not self._reason:
            self._reason = reason

    def _delta(self, delta: Delta) -> None:
        for thought in (delta.reasoning_content, delta.reasoning, delta.thinking):
            if isinstance(thought, str) and thought:
                self._add(ReasoningDelta, thought)
                break
        if delta.content is not None:
            self._content(delta.content)
        if isinstance(delta.refusal, str) and delta.refusal:
            self._note("refusal", "the upstream marked this text as a refusal")
            self._add(TextDelta, delta.refusal)
        for kind in CARRIED:
            value = getattr(delta, kind)
            if value:
                self._emit(OpaqueSeen(Opaque(kind, value)))
        for piece in delta.tool_calls or ():
            self._call(piece)
        if delta.function_call is not None and not delta.tool_calls:
            self._call(DeltaCall(function=delta.function_call))

    def _content(self, content: JSONValue) -> None:
        """Text, or parts as some servers list them."""
        if isinstance(content, str):
            self._add(TextDelta, content)
        elif is_array(content):
            for part in content:
                self._content_part(part)

    def _content_part(self, part: JSONValue) -> None:
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
        for event in self._calls.add(piece):
            if isinstance(event, CallArgs):
                self._add(self._calls[event.index], event.fragment)
            else:
                self._emit(event)

    # ---------------------------------------------------------------------------------------- the template

    def _learn(self, chunk: Chunk, payload: bytes, read: bytes) -> None:
        """Remember what a chunk with nothing but one text looks like."""
        found = _only_text(chunk)
        if found is None or self._over:
            return
        index, key, text = found
        self._lessons -= 1
        if index == self._index:
            self._template = Template.learn(read, payload, key, text)
            self._repeated = self._target.add if isinstance(self._target, OpenCall) else self._target

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
        self._template = None

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
    if len(filled) != 1:
        return None
    name, text = filled[0]
    if name == "tool_calls":
        name, text = "arguments", _only_arguments(text)
    return (choice.index, b'"%s":' % name.encode(), text) if isinstance(text, str) else None


_FIELDS = tuple(field.name for field in msgspec.structs.fields(Delta))


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
