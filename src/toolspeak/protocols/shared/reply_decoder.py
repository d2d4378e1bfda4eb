"""What every decoder of replies does, whatever the protocol: tell a stream from a whole answer, hand out events.

A codec derives from `ReplyReader` and says what one event means, what a whole answer means and what the end means.
Adjacent deltas of one kind inside one read are joined; unreadable events are counted; each note is given once.
Asked to `quote`, it hands the bytes of events out with them, as `quoting` tells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from ...core.events import CallArgs, Event, Failure, Noted, ReasoningDelta, TextDelta
from ...core.types import Note
from .fields import MAX_BODY, shorten
from .framing import Frame, FrameError, ServerEvent, SSEDecoder, Template, joined_texts
from .passthrough_bytes import Quotes

#: First bytes by which a body that is not a stream, and a stream, are known; anything else is what was asked for.
_BODY, _STREAM = b"{[<", b"deir:"
_BOM = b"\xef\xbb\xbf"
#: How much of an answer is kept to show it if it cannot be read.
_HEAD = 1000
#: Tries to learn a template, one after the other, that never fitted: then the server's events differ by more than text.
MAX_LESSONS = 8
#: A read longer than this holds several events and is worth being looked at in parts; not in more than so many, for
#: each part costs a look at the rest. Of an event that is cut this much is held until its end comes.
_LONG, _MOST_PARTS, _MOST_HELD = 1024, 16, 4096
_END = b"\n\n"

#: Makes the event of a piece of text.
Make: TypeAlias = Callable[[str], Event]


class EventTemplate(Template):
    """A template of frames that name their event in a line of its own."""

    __slots__ = ()

    def _read_run(self, data: bytes) -> str | None:
        return joined_texts(data[len(self._head) : -len(self._tail)].split(self._joint))

    @classmethod
    def learn_named(cls, read: bytes, event: str, payload: bytes, key: bytes, text: str) -> EventTemplate | None:
        """As `learn`, of the frame at the end of a read; `event` is its name, or nothing."""
        found = Template.learn(read, payload, key, text)
        if found is None:
            return None
        head, tail = found._head, found._tail  # pyright: ignore[reportPrivateUsage] - of our own kind
        if event:
            head = b"event: " + event.encode() + b"\n" + head
        ends = read.endswith(head + b'"' + text.encode() + b'"' + tail)
        return cls(head, tail) if ends else None


class ReplyReader(ABC):
    """Reads one answer: `feed` gives the events that the bytes make certain, `close` the last ones.

    `stream` says what was asked for; an upstream that answers the other way is understood too.
    """

    def __init__(self, stream: bool) -> None:
        self._stream = stream
        self._sniffed = False
        self._head: bytes = b""
        self._frames = SSEDecoder()
        self._body = bytearray()
        self._over = False
        self._closing = False
        #: The last event of a read, and what was learned from it.
        self._last: tuple[str, bytes] | None = None
        self._template: Template | None = None
        self._lessons = MAX_LESSONS
        #: The beginning of an event, at the end of a long read.
        self._held = b""
        self._repeated: Make = TextDelta
        self._events: list[Event] = []
        self._target: Make = TextDelta
        self._run: list[str] = []
        self._noted: set[str] = set()
        self._read = 0
        self._bad = 0
        self._bad_body = b""
        #: The bytes that said what is handed out, where somebody wants them.
        self._quotes: Quotes | None = None

    def quote(self, never: tuple[bytes, ...] = ()) -> None:
        """Hand out the bytes of events with them, for a client of this protocol; none that hold one of `never`."""
        self._quotes = Quotes(never)

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes make certain."""
        if self._held:
            data, self._held = self._held + data, b""
        if self._template is not None:
            text = self._template.read(data)
            if text:
                self._lessons = MAX_LESSONS
                event = self._repeated(text)
                return [event] if self._quotes is None else self._quotes.alone(event, data)
        if self._over:
            return []
        data = self._begun(data)
        if self._stream:
            self._read_frames(data)
        elif len(self._body) + len(data) > MAX_BODY:
            self._fail(Failure(f"the answer is larger than {MAX_BODY} bytes", body=shorten(self._head)))
        else:
            self._body += data
        return self._taken()

    def close(self) -> list[Event]:
        """The events that only the end of the answer makes certain."""
        self._closing = True
        if self._stream:
            if self._held:
                self._read_part(self._held)
            for frame in self._frames.close():
                self._frame(frame)
            if not self._over:
                self._end()
        elif not self._over:
            body = bytes(self._body)
            if body.strip():
                self._whole(body.removeprefix(_BOM))
            else:
                self._fail(Failure("the upstream answered with nothing", "truncated"))
        return self._taken()

    def _read_frames(self, data: bytes) -> None:
        """Read events. A long read is looked at in parts: what its first events teach makes short work of the rest."""
        if len(data) > _LONG:
            data = self._whole_frames(data)
            parts = _MOST_PARTS
            while data and parts:
                parts -= 1
                found = self._template.run(data) if self._template is not None and self._frames.idle else None
                if found is None:
                    end = data.find(_END) + len(_END)
                    part, data = (data[:end], data[end:]) if end >= len(_END) else (data, b"")
                    self._read_part(part)
                else:
                    text, rest = found
                    self._lessons = MAX_LESSONS
                    self._repeat(text, data[: len(data) - len(rest)])
                    data = rest
        if data:
            self._read_part(data)

    def _read_part(self, data: bytes) -> None:
        self._last = None
        for frame in self._frames.feed(data):
            self._frame(frame)
        self._template = self._lesson(data)

    def _repeat(self, text: str, run: bytes) -> None:
        """What a run of events said that differ by their text only."""
        if text:
            if self._quotes is not None:
                self._quotes.repeat(run)
            self._part_quoted()
            self._flush()
            self._push(self._repeated(text))

    def _whole_frames(self, data: bytes) -> bytes:
        """The data without the beginning of an event at its end, which is held so that the event can be read whole."""
        end = data.rfind(_END) + len(_END)
        rest = data[end:]
        if end < len(_END) or not self._frames.idle or len(rest) > _MOST_HELD or b"\r" in rest:
            return data
        self._held = rest
        return data[:end]

    def _begun(self, data: bytes) -> bytes:
        """What to read of these bytes; the beginning of the answer is kept, however it is cut."""
        if not self._sniffed:
            return self._sniff(data)
        if len(self._head) < _HEAD:
            self._head += data[: _HEAD - len(self._head)]
        return data

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

    def _frame(self, frame: Frame) -> None:
        if self._over:
            return
        if isinstance(frame, FrameError):
            self._fail(Failure(frame.message))
            return
        self._last = (frame.event, frame.data) if isinstance(frame, ServerEvent) else ("", frame)
        if self._quotes is not None:
            self._quotes.next()
        self._event(*self._last)

    def _lesson(self, read: bytes) -> Template | None:
        """What the last event of a read looks like, if it holds nothing but one text."""
        if not self._lessons or self._last is None or self._over or not self._frames.idle:
            return None
        found = self._learn(read, *self._last)
        if found is not None:
            self._lessons -= 1
        if self._quotes is not None:
            self._quotes.learn(found)
        return found

    # ------------------------------------------------------------------------------------ what a codec says

    @abstractmethod
    def _event(self, name: str, payload: bytes) -> None:
        """One event of a stream."""

    @abstractmethod
    def _whole(self, body: bytes) -> None:
        """An answer that is no stream."""

    @abstractmethod
    def _end(self) -> None:
        """The stream is over."""

    @abstractmethod
    def _learn(self, read: bytes, name: str, payload: bytes) -> Template | None:
        """The template of the last event of a read, and `_repeated` set to what its text makes."""

    def _last_words(self) -> None:
        """What is told before `Finish` or a failure."""
        if self._bad:
            self._note("bad_events", f"{self._bad} unreadable, the first: {shorten(self._bad_body)}")
        self._over = True

    # ---------------------------------------------------------------------------------------------- output

    def _taken(self) -> list[Event]:
        self._flush()
        events, self._events = self._events, []
        return events if self._quotes is None else self._quotes.batch(events)

    def _part_quoted(self) -> None:
        """Something is going to be said: it is not joined to what stands before it where only that is quoted."""
        if self._quotes is not None and self._quotes.end_here:
            self._flush()
            self._quotes.covers = len(self._events)

    def _flush(self) -> None:
        if self._run:
            self._push(self._target("".join(self._run)))
            self._run = []

    def _push(self, event: Event) -> None:
        """Hand an event out; it is joined to the one before it if both are pieces of the same."""
        covered = 0 if self._quotes is None else self._quotes.covers or 0
        if len(self._events) == covered:  # it is the first of all, or of those that are not quoted
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
        self._part_quoted()
        self._flush()
        self._events.append(event)

    def _add(self, target: Make, text: str) -> None:
        if target is not self._target:
            self._flush()
            self._target = target
        if text:
            self._part_quoted()
            self._run.append(text)

    def _note(self, code: str, detail: str) -> None:
        if code not in self._noted:
            self._noted.add(code)
            self._emit(Noted(Note(code, detail)))

    def _mended(self) -> None:
        """The event that is read could be read only after something in it was replaced."""
        self._note("invalid_text", "characters that are no text were replaced")
        if self._quotes is not None:
            self._quotes.refuse()

    def _unreadable(self, payload: bytes) -> None:
        self._bad += 1
        self._bad_body = self._bad_body or payload[:_HEAD]

    def _truncated(self) -> Failure:
        if self._read:
            return Failure("the stream ended before the answer did", "truncated")
        if self._bad:
            return Failure("the stream held nothing that could be read", body=shorten(self._bad_body))
        return Failure("the stream ended before it began", "truncated", body=shorten(self._head))

    def _fail(self, failure: Failure) -> None:
        self._last_words()
        self._emit(failure)
