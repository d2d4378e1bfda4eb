"""Base class of reply decoders: detects whether a reply is a stream, and collects events.

Codecs derive from `BaseReplyDecoder` and handle single events, non-streamed replies and the end of a reply. Invalid
input never raises an exception: it produces a note or a `Failure`. Within a read, adjacent deltas of the same kind are
joined. Unreadable events are counted, and each note is emitted only once. After `capture_raw`, events are returned
together with their raw bytes (see `passthrough_bytes`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Self, TypeAlias, TypeVar

import msgspec

from ...core.events import CallArgs, Event, Failure, FinishReason, Noted, ReasoningDelta, TextDelta, UsageSeen
from ...core.types import JSONValue, Note, Usage
from .fields import MAX_BODY, read_json, repair_json, shorten
from .framing import BOM, Frame, FrameError, FrameTemplate, ServerEvent, SSEDecoder, join_strings
from .passthrough_bytes import RawCapture

#: First bytes of a non-streamed reply and of a stream. If a reply starts with other bytes, the request decides.
_BODY_STARTS, _STREAM_STARTS = b"{[<", b"deir:"
#: Number of bytes of a reply that are stored for error messages.
_HEAD_BYTES = 1000
#: Number of consecutive templates that may fail to match. After that, no further template is learned.
MAX_TEMPLATE_ATTEMPTS = 8
#: Reads longer than `_LONG_READ` are split into at most `_MAX_PARTS` parts, because each part costs a search through
#: the rest. An incomplete event of up to `_MAX_PARTIAL` bytes is buffered.
_LONG_READ, _MAX_PARTS, _MAX_PARTIAL = 1024, 16, 4096
_END = b"\n\n"

#: Enough for `[DONE]` with surrounding white space.
_MAX_DONE_BYTES = 16

#: Creates an event from a piece of text.
EventFactory: TypeAlias = Callable[[str], Event]
_Struct = TypeVar("_Struct")


def is_done(payload: bytes) -> bool:
    """Whether an event is `[DONE]`, which ends chat completions. Some servers send it in other protocols, too."""
    return len(payload) < _MAX_DONE_BYTES and payload.strip() == b"[DONE]"


class EventTemplate(FrameTemplate):
    """A template for frames with an `event:` line."""

    __slots__ = ()

    def _read_run(self, data: bytes) -> str | None:
        return join_strings(data[len(self._head) : -len(self._tail)].split(self._joint))

    @classmethod
    def learn_named(cls, read: bytes, event: str, payload: bytes, key: bytes, text: str) -> Self | None:
        """Derive a template from the last frame of a read. `event` is the name of its event, or empty."""
        template = FrameTemplate.learn(read, payload, key, text)
        if template is None:
            return None
        head, tail = template._head, template._tail  # private attributes of the base class
        if event:
            head = b"event: " + event.encode() + b"\n" + head
        ends = read.endswith(head + b'"' + text.encode() + b'"' + tail)
        return cls(head, tail) if ends else None


class BaseReplyDecoder(ABC):
    """Decodes one reply. `feed` returns the events decoded so far, `close` the remaining ones.

    `stream` says whether a stream was requested. The decoder detects what the upstream actually sends.
    """

    def __init__(self, stream: bool) -> None:
        self._stream = stream
        self._sniffed = False
        self._head: bytes = b""
        self._frames = SSEDecoder()
        self._body = bytearray()
        self._over = False
        self._closing = False
        #: The name and data of the last event, and the template learned from it.
        self._last: tuple[str, bytes] | None = None
        self._template: FrameTemplate | None = None
        self._attempts = MAX_TEMPLATE_ATTEMPTS
        #: The incomplete event at the end of the last long read.
        self._partial = b""
        self._template_factory: EventFactory = TextDelta
        self._events: list[Event] = []
        self._run_factory: EventFactory = TextDelta
        self._run: list[str] = []
        self._note_codes: set[str] = set()
        self._read = 0
        self._bad = 0
        self._bad_body = b""
        self._usage: Usage | None = None
        #: The finish reason in the upstream's own words, once it has arrived.
        self._reason = ""
        #: Captures the raw bytes of the events, if requested.
        self._raw: RawCapture | None = None

    @property
    def finished(self) -> bool:
        """Whether the upstream has ended its reply, so a lost connection would not lose data."""
        return self._over or bool(self._reason)

    def capture_raw(self, secrets: tuple[bytes, ...] = ()) -> None:
        """From now on, return events with their raw bytes, except for bytes that contain one of `secrets`."""
        self._raw = RawCapture(secrets)

    def feed(self, data: bytes) -> list[Event]:
        """Decode more bytes and return the new events."""
        if self._partial:
            data, self._partial = self._partial + data, b""
        if self._template is not None:
            text = self._template.read(data)
            if text:
                self._attempts = MAX_TEMPLATE_ATTEMPTS
                event = self._template_factory(text)
                return [event] if self._raw is None else self._raw.single(event, data)
        if self._over:
            return []
        data = self._track_head(data)
        if self._stream:
            self._read_frames(data)
        elif len(self._body) + len(data) > MAX_BODY:
            self._fail(Failure(f"the reply is larger than {MAX_BODY} bytes", body=shorten(self._head)))
        else:
            self._body += data
        return self._drain()

    def close(self) -> list[Event]:
        """Handle the end of the reply and return the remaining events."""
        self._closing = True
        if self._stream:
            if self._partial:
                self._read_part(self._partial)
            for frame in self._frames.close():
                self._frame(frame)
            if not self._over:
                self._end()
        elif not self._over:
            body = bytes(self._body)
            if body.strip():
                self._whole(body.removeprefix(BOM))
            else:
                self._fail(Failure("the upstream returned an empty reply", "truncated"))
        return self._drain()

    def _read_frames(self, data: bytes) -> None:
        """Decode frames. A long read is split, so that a template learned from its first frames speeds up the rest."""
        if len(data) > _LONG_READ:
            data = self._whole_frames(data)
            parts = _MAX_PARTS
            while data and parts:
                parts -= 1
                run = self._template.run(data) if self._template is not None and self._frames.idle else None
                if run is None:
                    end = data.find(_END) + len(_END)
                    part, data = (data[:end], data[end:]) if end >= len(_END) else (data, b"")
                    self._read_part(part)
                else:
                    text, rest = run
                    self._attempts = MAX_TEMPLATE_ATTEMPTS
                    self._push_run(text, data[: len(data) - len(rest)])
                    data = rest
        if data:
            self._read_part(data)

    def _read_part(self, data: bytes) -> None:
        self._last = None
        for frame in self._frames.feed(data):
            self._frame(frame)
        self._template = self._learn_template(data)

    def _push_run(self, text: str, run: bytes) -> None:
        """Emit the text of a run of frames that match the template."""
        if text:
            if self._raw is not None:
                self._raw.repeat(run)
            self._split_at_raw_end()
            self._flush()
            self._push(self._template_factory(text))

    def _whole_frames(self, data: bytes) -> bytes:
        """Return the data up to the end of its last complete frame, and buffer the rest."""
        end = data.rfind(_END) + len(_END)
        rest = data[end:]
        if end < len(_END) or not self._frames.idle or len(rest) > _MAX_PARTIAL or b"\r" in rest:
            return data
        self._partial = rest
        return data[:end]

    def _track_head(self, data: bytes) -> bytes:
        """Return the bytes to decode, and store the start of the reply for error messages."""
        if not self._sniffed:
            return self._sniff(data)
        if len(self._head) < _HEAD_BYTES:
            self._head += data[: _HEAD_BYTES - len(self._head)]
        return data

    def _sniff(self, data: bytes) -> bytes:
        """Detect from the first byte after white space whether the reply is a stream."""
        data = (self._head + data).lstrip()
        self._head = data[:_HEAD_BYTES]
        first = data.removeprefix(BOM).lstrip()[:1]
        if not first or BOM.startswith(data):
            return b""
        self._sniffed = True
        self._stream = first in _STREAM_STARTS or (self._stream and first not in _BODY_STARTS)
        return data

    def _frame(self, frame: Frame) -> None:
        if self._over:
            return
        if isinstance(frame, FrameError):
            self._fail(Failure(frame.message))
            return
        self._last = (frame.event, frame.data) if isinstance(frame, ServerEvent) else ("", frame)
        if self._raw is not None:
            self._raw.next_frame()
        self._event(*self._last)

    def _learn_template(self, read: bytes) -> FrameTemplate | None:
        """Learn a template from the last event of a read if the event contains only one text."""
        if not self._attempts or self._last is None or self._over or not self._frames.idle:
            return None
        template = self._learn(read, *self._last)
        if template is not None:
            self._attempts -= 1
        if self._raw is not None:
            self._raw.learn(template)
        return template

    @abstractmethod
    def _event(self, name: str, payload: bytes) -> None:
        """Handle one stream event."""

    @abstractmethod
    def _whole(self, body: bytes) -> None:
        """Handle a non-streamed reply."""

    @abstractmethod
    def _end(self) -> None:
        """Handle the end of the stream."""

    def _learn(self, read: bytes, name: str, payload: bytes) -> FrameTemplate | None:
        """Derive a template from the last event of a read and set `_template_factory`. Return None if impossible.

        In some protocols it always is, because events differ in timestamps or token counts.
        """
        return None

    def _wrap_up(self) -> None:
        """Emit the events that must precede `Finish` or a failure."""
        if self._bad:
            self._note("bad_events", f"unreadable events: {self._bad}; the first: {shorten(self._bad_body)}")
        self._over = True
        for event in self._last_events():
            self._emit(event)

    def _last_events(self) -> Iterator[Event]:
        if self._usage is not None:
            yield UsageSeen(self._usage)

    def _checked_reason(self, reason: FinishReason, has_calls: bool) -> FinishReason:
        """Return the upstream's finish reason if it matches the content; otherwise derive one from the content."""
        derived: FinishReason = "tool_calls" if has_calls else "stop"
        if reason in ("length", "content_filter", derived):
            return reason
        self._note("finish_reason_derived", f"the upstream's finish reason was `{shorten(self._reason)}`")
        return derived

    def _drain(self) -> list[Event]:
        self._flush()
        events, self._events = self._events, []
        return events if self._raw is None else self._raw.batch(events)

    def _split_at_raw_end(self) -> None:
        """Ensure that an event that the raw bytes do not cover is not joined to a covered one."""
        if self._raw is not None and self._raw.end_here:
            self._flush()
            self._raw.covers = len(self._events)

    def _flush(self) -> None:
        if self._run:
            self._push(self._run_factory("".join(self._run)))
            self._run = []

    def _push(self, event: Event) -> None:
        """Append an event, or join it to the previous one if both are pieces of the same text or arguments."""
        covered = 0 if self._raw is None else self._raw.covers or 0
        if len(self._events) == covered:  # there is no event to join it to
            self._events.append(event)
            return
        match self._events[-1], event:
            case CallArgs(index, before), CallArgs(same, fragment) if index == same:
                self._events[-1] = CallArgs(index, before + fragment)
            case (TextDelta(before), TextDelta(text)) | (ReasoningDelta(before), ReasoningDelta(text)):
                self._events[-1] = type(event)(before + text)
            case _:
                self._events.append(event)

    def _emit(self, event: Event) -> None:
        self._split_at_raw_end()
        self._flush()
        self._events.append(event)

    def _add(self, factory: EventFactory, text: str) -> None:
        if factory is not self._run_factory:
            self._flush()
            self._run_factory = factory
        if text:
            self._split_at_raw_end()
            self._run.append(text)

    def _note(self, code: str, detail: str) -> None:
        if code not in self._note_codes:
            self._note_codes.add(code)
            self._emit(Noted(Note(code, detail)))

    def _decoded(self, decode: Callable[[bytes], _Struct], payload: bytes) -> _Struct | None:
        """Decode an event, if necessary after replacing invalid characters. Return None if it cannot be decoded."""
        try:
            return decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            repaired = repair_json(payload)
        try:
            event = decode(repaired or b"")
        except (msgspec.DecodeError, RecursionError):
            return None
        self._note_repair()
        return event

    def _json(self, payload: bytes) -> JSONValue:
        """Parse JSON, if necessary after replacing invalid characters. Return None if it is invalid."""
        value = read_json(payload)
        if value is None and (repaired := repair_json(payload)) is not None:
            self._note_repair()
            value = read_json(repaired)
        return value

    def _note_repair(self) -> None:
        self._note("invalid_text", "invalid characters were replaced")
        if self._raw is not None:
            self._raw.reject()

    def _unreadable(self, payload: bytes) -> None:
        self._bad += 1
        self._bad_body = self._bad_body or payload[:_HEAD_BYTES]

    def _truncated(self) -> Failure:
        if self._read:
            return Failure("the stream ended before the reply was complete", "truncated")
        if self._bad:
            return Failure("the stream contained no readable events", body=shorten(self._bad_body))
        return Failure("the stream ended without any events", "truncated", body=shorten(self._head))

    def _fail(self, failure: Failure) -> None:
        self._wrap_up()
        self._emit(failure)
