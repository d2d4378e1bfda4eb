"""Events of an upstream that a client of the same protocol gets byte for byte, where nobody changes what they say.

A decoder that is asked to (`ReplyReader.quote`) hands out a `Quoted` batch: the events of a read, and the bytes that
said them. Whoever carries the batch on looks at the events as ever; `after` tells whether they came through as they
were. A `QuotingEncoder` then writes the bytes instead of its own. The two ends of a stream are always ours, and so is
every event that says more than text: so the encoder takes the name of the answer from the upstream, or a stream made of
both would have two. Above: codecs, `turn`, the server. Below: `common`, `core.events`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from ..core.events import Event, OpaqueSeen
from ..core.model import JSONObject
from .common import holds_line_end

__all__ = ["Quoted", "Quotes", "QuotingEncoder", "never_quoted"]

#: What an upstream calls its answer, in the words of its protocol: one object for all events of an answer.
Name: TypeAlias = JSONObject

#: How JSON may write an ASCII character that needs no escape: what stands there is not looked for.
_HIDING = b"\\u00"
#: Of frames that say nothing, so much is kept until they can be passed on with one that does.
_MOST_SILENT = 64 * 1024


class Quoted(list[Event]):
    """The events of one read. Its bytes, `wire`, say the first `covers` of them and nothing else."""

    __slots__ = ("covers", "name", "wire")

    def __init__(self, events: Iterable[Event], wire: bytes, covers: int, name: Name) -> None:
        super().__init__(events)
        self.wire = wire
        self.covers = covers
        self.name = name

    def after(self, events: list[Event]) -> Quoted:
        """What leaves of this batch as these events: with its bytes, if they begin with what the bytes say."""
        covers = self.covers
        if len(events) == 1 == len(self) and events[0] is self[0]:
            return self  # nearly every read of a stream
        kept = len(events) >= covers and all(one is other for one, other in zip(events, self[:covers], strict=False))
        return Quoted(events, self.wire, covers, self.name) if kept else Quoted(events, b"", 0, self.name)


class Quotes:
    """The bytes of one answer that is being read, from which its `Quoted` batches are made.

    Args:
        never: what no bytes may hold that are passed on.
    """

    __slots__ = ("_frames", "_name", "_never", "_quotable", "_quoted", "_repeats", "covers")

    def __init__(self, never: tuple[bytes, ...]) -> None:
        self._never = never
        #: What the upstream calls its answer.
        self._name: Name | None = None
        #: What is to be passed on, and how many of the events it says, if these are not all.
        self._frames: list[bytes] = []
        self.covers: int | None = None
        #: Whether the frame that is read may be quoted, and is; whether those that fit the template may be.
        self._quotable = self._quoted = self._repeats = False

    def next(self) -> None:
        """Another frame is read."""
        self._quotable = self._quoted = False

    def add(self, frame: bytes, name: Name) -> None:
        """The frame that is read may be passed on like this. One that calls the answer otherwise is not."""
        if _is_quotable(frame, self._never):
            self._name = self._name or name
            self._quotable = name == self._name
            self._pass_on(frame)

    def learn(self) -> None:
        """What follows may be like the frame that was read last, but for its text."""
        self._repeats = self._quotable

    def repeat(self, run: bytes) -> None:
        """A run of frames like the one learned from."""
        self._quotable = self._repeats and _has_only_text(run)
        self._pass_on(run)

    def alone(self, event: Event, read: bytes) -> list[Event]:
        """The batch of a read that is such a run, and nothing else."""
        if self._name is None or not self._repeats or not _has_only_text(read):
            return [event]
        if self._frames:
            read = b"".join((*self._frames, read))
            self._frames = []
        return Quoted((event,), read, 1, self._name)

    def _pass_on(self, frames: bytes) -> None:
        self._quoted = self._quotable and self.covers is None
        if self._quoted:
            self._frames.append(frames)

    @property
    def end_here(self) -> bool:
        """Whether what is said now is the first that the bytes do not say: none behind it in this read is quoted."""
        return not self._quoted and self.covers is None

    def batch(self, events: list[Event]) -> list[Event]:
        """Events with the bytes that say them. Frames that say nothing wait for one that does."""
        if not events:
            if sum(map(len, self._frames)) > _MOST_SILENT:
                self._frames = []
            return events
        covers = len(events) if self.covers is None else self.covers
        wire, self._frames, self.covers = b"".join(self._frames), [], None
        return events if self._name is None else Quoted(events, wire, covers, self._name)


class QuotingEncoder(ABC):
    """Writes one streamed answer, and passes on what can be."""

    def __init__(self) -> None:
        #: What the upstream calls the answer, if that is its name here too; None while nothing was said, then empty.
        self._quoted: Name | None = None

    def relay(self, batch: Sequence[Event]) -> bytes:
        """The bytes to send for a batch: its own, where it has some and they fit what was said before."""
        if type(batch) is not Quoted:
            self._quoted = self._quoted or {}
            return self.encode(batch)
        if self._quoted is None:
            self._quoted = batch.name
            self._adopt(batch.name)
        covers = batch.covers
        if not covers or batch.name is not self._quoted:
            return self.encode(batch)
        if covers > 1 or type(batch[0]) is OpaqueSeen:
            for event in batch[:covers]:
                if type(event) is OpaqueSeen:
                    self.encode([event])  # for what it says about all that follows; the bytes say it themselves
        sent = self._lead(batch.wire) + batch.wire
        return sent if covers == len(batch) else sent + self.encode(batch[covers:])

    @abstractmethod
    def encode(self, events: Sequence[Event], /) -> bytes:
        """The bytes to send for these events."""

    @abstractmethod
    def _adopt(self, name: Name) -> None:
        """Call the answer, of which nothing was said yet, as its upstream does."""

    def _lead(self, wire: bytes) -> bytes:
        """What must stand before bytes that are passed on."""
        return b""


def never_quoted(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """The bytes by which secrets are found in JSON."""
    return tuple({form for secret in secrets for form in (secret.encode(), msgspec.json.encode(secret)[1:-1])})


def _is_quotable(frame: bytes, never: Iterable[bytes]) -> bool:
    """Whether a frame that could be read may be shown to a client as it is.

    What a codec does not read may hold anything: bytes that are no text, ends of lines, our own key.
    """
    if not frame.isascii():
        try:
            frame.decode()
        except UnicodeDecodeError:
            return False
        if holds_line_end(frame):
            return False
    plain = frame.replace(b"\\/", b"/")
    return not (never and (_HIDING in frame or any(secret in plain for secret in never)))


def _has_only_text(run: bytes) -> bool:
    """The same, of frames that differ only by their text from one that may be: that was read, and is our client's."""
    return run.isascii() or not holds_line_end(run)
