"""Base class of reply decoders: distinguishes a stream from a whole reply and collects events.

A codec derives from `BaseReplyDecoder` and defines the meaning of one event, of a whole reply and of the end.
Adjacent deltas of one kind within a read are joined, unreadable events are counted, and each note is emitted once.
On request (`capture_raw`) events are returned with their raw bytes, see `passthrough_bytes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from ...core.events import CallArgs, Event, Failure, Noted, ReasoningDelta, TextDelta
from ...core.types import Note
from .fields import MAX_BODY, shorten
from .framing import Frame, FrameError, FrameTemplate, ServerEvent, SSEDecoder, join_strings
from .passthrough_bytes import RawCapture

#: First bytes of a whole body and of a stream; anything else is what the request asked for.
_BODY_STARTS, _STREAM_STARTS = b"{[<", b"deir:"
_BOM = b"\xef\xbb\xbf"
#: How much of a reply is stored for error messages.
_HEAD_BYTES = 1000
#: Consecutive attempts to learn a template that never matched; then the server's events differ in more than text.
MAX_TEMPLATE_ATTEMPTS = 8
#: A longer read contains several events and is worth splitting, but not into more parts than this, because each part
#: costs a search through the rest. An incomplete event of up to `_MAX_PARTIAL` bytes is buffered.
_LONG_READ, _MAX_PARTS, _MAX_PARTIAL = 1024, 16, 4096
_END = b"\n\n"

#: Creates the event for a piece of text.
EventFactory: TypeAlias = Callable[[str], Event]


class EventTemplate(FrameTemplate):
    """A template for frames with an `event:` line."""

    __slots__ = ()

    def _read_run(self, data: bytes) -> str | None:
        return join_strings(data[len(self._head) : -len(self._tail)].split(self._joint))

    @classmethod
    def learn_named(cls, read: bytes, event: str, payload: bytes, key: bytes, text: str) -> EventTemplate | None:
        """Like `learn`, for the frame at the end of a read; `event` is its name, or empty."""
        template = FrameTemplate.learn(read, payload, key, text)
        if template is None:
            return None
        head, tail = template._head, template._tail  # same class family
        if event:
            head = b"event: " + event.encode() + b"\n" + head
        ends = read.endswith(head + b'"' + text.encode() + b'"' + tail)
        return cls(head, tail) if ends else None


class BaseReplyDecoder(ABC):
    """Decodes one reply: `feed` returns the events that are certain so far, `close` the last ones.

    `stream` is what the request asked for; an upstream that replies the other way is supported too.
    """

    def __init__(self, stream: bool) -> None:
        self._stream = stream
        self._sniffed = False
        self._head: bytes = b""
        self._frames = SSEDecoder()
        self._body = bytearray()
        self._over = False
        self._closing = False
        #: The last event of a read, and the template learned from it.
        self._last: tuple[str, bytes] | None = None
        self._template: FrameTemplate | None = None
        self._attempts = MAX_TEMPLATE_ATTEMPTS
        #: The incomplete event at the end of a long read.
        self._partial = b""
        self._template_factory: EventFactory = TextDelta
        self._events: list[Event] = []
        self._run_factory: EventFactory = TextDelta
        self._run: list[str] = []
        self._note_codes: set[str] = set()
        self._read = 0
        self._bad = 0
        self._bad_body = b""
        #: The raw bytes of the events, if requested.
        self._raw: RawCapture | None = None

    def capture_raw(self, secrets: tuple[bytes, ...] = ()) -> None:
        """Return events with their raw bytes from now on, except bytes that contain one of `secrets`."""
        self._raw = RawCapture(secrets)

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes make certain."""
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
        """Return the events that only the end of the reply makes certain."""
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
                self._whole(body.removeprefix(_BOM))
            else:
                self._fail(Failure("the upstream returned an empty reply", "truncated"))
        return self._drain()

    def _read_frames(self, data: bytes) -> None:
        """Read frames. A long read is split: a template learned from its first frames speeds up the rest."""
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
        """Return the data up to its last complete frame and buffer the rest."""
        end = data.rfind(_END) + len(_END)
        rest = data[end:]
        if end < len(_END) or not self._frames.idle or len(rest) > _MAX_PARTIAL or b"\r" in rest:
            return data
        self._partial = rest
        return data[:end]

    def _track_head(self, data: bytes) -> bytes:
        """Return the bytes to decode and record the beginning of the reply for error messages."""
        if not self._sniffed:
            return self._sniff(data)
        if len(self._head) < _HEAD_BYTES:
            self._head += data[: _HEAD_BYTES - len(self._head)]
        return data

    def _sniff(self, data: bytes) -> bytes:
        """Buffer leading white space, then detect whether this is a stream."""
        data = (self._head + data).lstrip()
        self._head = data[:_HEAD_BYTES]
        first = data.removeprefix(_BOM).lstrip()[:1]
        if not first or _BOM.startswith(data):
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
        """Learn a template from the last event of a read, if it contains only one text."""
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
        """Handle one event of a stream."""

    @abstractmethod
    def _whole(self, body: bytes) -> None:
        """Handle a non-streamed reply."""

    @abstractmethod
    def _end(self) -> None:
        """Handle the end of the stream."""

    @abstractmethod
    def _learn(self, read: bytes, name: str, payload: bytes) -> FrameTemplate | None:
        """Return the template of the last event of a read and set `_template_factory`."""

    def _wrap_up(self) -> None:
        """Emit what precedes `Finish` or a failure."""
        if self._bad:
            self._note("bad_events", f"{self._bad} unreadable, the first: {shorten(self._bad_body)}")
        self._over = True

    def _drain(self) -> list[Event]:
        self._flush()
        events, self._events = self._events, []
        return events if self._raw is None else self._raw.batch(events)

    def _split_at_raw_end(self) -> None:
        """Before an event that the raw bytes do not cover: prevent joining it to a covered one."""
        if self._raw is not None and self._raw.end_here:
            self._flush()
            self._raw.covers = len(self._events)

    def _flush(self) -> None:
        if self._run:
            self._push(self._run_factory("".join(self._run)))
            self._run = []

    def _push(self, event: Event) -> None:
        """Append an event, joined to the previous one if both are pieces of the same."""
        covered = 0 if self._raw is None else self._raw.covers or 0
        if len(self._events) == covered:  # the first event, or the first that the raw bytes do not cover
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

    def _note_repair(self) -> None:
        """Note that the current event could be decoded only after a repair."""
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
            return Failure("the stream contained nothing readable", body=shorten(self._bad_body))
        return Failure("the stream ended before it began", "truncated", body=shorten(self._head))

    def _fail(self, failure: Failure) -> None:
        self._wrap_up()
        self._emit(failure)
