"""Events of an upstream that a client of the same protocol gets byte for byte, where nobody changes what they say.

A decoder that is asked to (`ReplyReader.quote`) hands out a `Quoted` batch: the events of a read, and the bytes that
said them. Whoever carries the batch on looks at the events as ever; `after` tells whether they came through as they
were. A `QuotingEncoder` then writes the bytes instead of its own. The end of a stream is always ours, and so is every
event that says more than text: so where events name the answer, the upstream's name is taken, or a stream made of both
would have two.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ...core.events import Event, OpaqueSeen, TextDelta
from ...core.types import JSONObject
from .fields import HIDING_ESCAPES, holds_line_end
from .framing import Template

#: What a frame says besides its text that must fit what was said before, in the words of its protocol: how the answer
#: is called, or which block of it this is. One object for all frames in a row that say the same.
Name: TypeAlias = JSONObject

#: How every escape of an ASCII character begins.
_ESCAPED = b"\\u00"
#: Of frames that say nothing, so much is kept until they can be passed on with one that does.
_MOST_SILENT = 64 * 1024
_CRLF, _LF = b"\r\n", b"\n"


class Quoted(list[Event]):
    """The events of one read. Its bytes, `wire`, say the first `covers` of them and nothing else."""

    __slots__ = ("covers", "name", "wire")
    wire: bytes
    covers: int
    name: Name

    def after(self, events: list[Event]) -> Quoted:
        """What leaves of this batch as these events: with its bytes, if they begin with what the bytes say."""
        if len(events) == 1 == len(self) and events[0] is self[0]:
            return self  # nearly every read of a stream
        covers = self.covers
        kept = len(events) >= covers and all(one is other for one, other in zip(events, self[:covers], strict=False))
        return quoted(events, self.wire, covers, self.name) if kept else quoted(events, b"", 0, self.name)


def quoted(events: Iterable[Event], wire: bytes, covers: int, name: Name) -> Quoted:
    """A batch. One is made for each read of a stream: without a constructor of its own, in half of the time."""
    batch = Quoted(events)
    batch.wire, batch.covers, batch.name = wire, covers, name
    return batch


class Quotes:
    """The bytes of one answer that is being read, from which its `Quoted` batches are made.

    Args:
        never: what no bytes may hold that are passed on.
    """

    __slots__ = (
        "_crlf",
        "_frames",
        "_name",
        "_never",
        "_quotable",
        "_quoted",
        "_refused",
        "_repeats",
        "_varied",
        "covers",
    )

    def __init__(self, never: tuple[bytes, ...]) -> None:
        self._never = never
        #: What the upstream calls its answer.
        self._name: Name | None = None
        #: What is to be passed on, and how many of the events it says, if these are not all.
        self._frames: list[bytes] = []
        self.covers: int | None = None
        #: Whether the frame that is read may be quoted, and is; whether those that fit the template may be.
        self._quotable = self._quoted = self._repeats = False
        self._refused = self._crlf = self._varied = False

    def next(self) -> None:
        """Another frame is read."""
        self._quotable = self._quoted = self._refused = False

    def refuse(self) -> None:
        """The frame that is read is not what it should be: whatever it says, others may not be able to read it."""
        self._refused = True

    def add(self, frame: bytes, name: Name) -> None:
        """The frame that is read may be passed on like this: behind others of its batch, if its name is theirs."""
        if self._refused or not _is_quotable(frame, self._never):
            return
        if name != self._name and not self._frames:
            self._name = name
        self._quotable = name == self._name
        self._pass_on(frame)

    def learn(self, template: Template | None) -> None:
        """What follows may be like the frame that was read last, but for its text."""
        self._repeats = self._quotable and template is not None and template.spaced
        self._crlf = template is not None and template.crlf
        self._varied = template is not None and template.varied

    def repeat(self, run: bytes) -> None:
        """A run of frames like the one learned from."""
        self._quotable = self._repeats and self._may_pass(run)
        self._pass_on(run.replace(_CRLF, _LF) if self._crlf else run)

    def alone(self, event: Event, read: bytes) -> list[Event]:
        """The batch of a read that is such a run, and nothing else."""
        name = self._name
        if name is None or not self._repeats or not self._may_pass(read):
            return [event]
        if self._crlf:  # what was not read by the template is framed as we do it, and a stream has one kind of lines
            read = read.replace(_CRLF, _LF)
        if self._frames:
            read = b"".join((*self._frames, read))
            self._frames = []
        return quoted((event,), read, 1, name)

    def _may_pass(self, run: bytes) -> bool:
        """Whether frames that fit a template may be passed on: of what they do not share, only a text was looked at."""
        if self._varied:
            return _is_quotable(run, self._never)
        return run.isascii() or not holds_line_end(run)

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
        return events if self._name is None else quoted(events, wire, covers, self._name)


class QuotingEncoder(ABC):
    """Writes one streamed answer, and passes on what can be."""

    def __init__(self) -> None:
        #: The name under which bytes are passed on.
        self._flowing: Name | None = None

    def relay(self, batch: Sequence[Event]) -> bytes:
        """The bytes to send for a batch: its own, where it has some and they fit what was said before."""
        if type(batch) is not Quoted:
            self._meet({})
            return self.encode(batch)
        if batch.name is self._flowing and batch.covers == 1 == len(batch) and type(batch[0]) is TextDelta:
            return batch.wire  # nearly every read of a stream
        self._meet(batch.name)
        lead = self._fit(batch.name, batch.wire) if batch.covers else None
        if lead is None:
            return self.encode(batch)
        self._flowing = batch.name
        for event in batch[: batch.covers]:
            if type(event) is OpaqueSeen:
                self.encode([event])  # for what it says about all that follows; the bytes say it themselves
        return lead + batch.wire + self.encode(batch[batch.covers :])

    @abstractmethod
    def encode(self, events: Sequence[Event], /) -> bytes:
        """The bytes to send for these events."""

    @abstractmethod
    def _meet(self, name: Name) -> None:
        """A batch comes, of which nothing is written yet. Where nothing is known of its bytes, its name is empty."""

    @abstractmethod
    def _fit(self, name: Name, wire: bytes) -> bytes | None:
        """What must stand before bytes of this name; None where they cannot be passed on."""


class NamingEncoder(QuotingEncoder):
    """One whose events all say what the answer is called: it is called as its upstream does, or as we do."""

    def __init__(self) -> None:
        super().__init__()
        #: None while nothing was said; empty: it is a name of ours.
        self._theirs: Name | None = None

    def _meet(self, name: Name) -> None:
        if self._theirs is None:
            self._theirs = name
            if name:
                self._adopt(name)

    def _fit(self, name: Name, wire: bytes) -> bytes | None:
        return self._lead(wire) if name == self._theirs else None

    @abstractmethod
    def _adopt(self, name: Name) -> None:
        """Call the answer, of which nothing was said yet, as its upstream does."""

    def _lead(self, wire: bytes) -> bytes:
        """What must stand before these bytes."""
        return b""


def never_quoted(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """The bytes by which secrets are found in JSON, which writes other characters than those of ASCII in two ways."""
    forms = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1])}
    return tuple(sorted(form.encode("utf-8", "replace") for form in forms))


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
    if not never:
        return True
    plain = frame.replace(b"\\/", b"/")
    hidden = _ESCAPED in plain and any(escape in plain for escape in HIDING_ESCAPES)
    return not hidden and not any(secret in plain for secret in never)
