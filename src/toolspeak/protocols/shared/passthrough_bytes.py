"""Pass-through of upstream bytes to a client of the same protocol when toolspeak changes nothing.

On request (`BaseReplyDecoder.capture_raw`) a decoder returns `RawBatch`es: the events of a read with the bytes that
encode them. `RawBatch.after` drops the bytes if the events were changed on the way. A `PassthroughEncoder` sends the
bytes instead of encoding the events. The end of a stream and all events other than text are always encoded here. So
if events carry the id of the reply, the upstream's id is adopted; otherwise one stream would have two.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from operator import is_
from typing import TypeAlias

from ...core.events import Event, OpaqueSeen, TextDelta
from ...core.types import JSONObject
from .fields import ASCII_ESCAPES, contains_line_end
from .framing import FrameTemplate

#: Fields of a frame that must match the preceding frames: the reply's identity (id, model) or the block index. Frames
#: in a row with the same values share one object.
Identity: TypeAlias = JSONObject

#: Common prefix of all escapes of ASCII characters.
_ESCAPED = b"\\u00"
#: Maximum size of frames without events that wait for one with an event.
_MAX_SILENT_BYTES = 64 * 1024
_CRLF, _LF = b"\r\n", b"\n"


class RawBatch(list[Event]):
    """The events of one read. Its bytes, `wire`, encode exactly the first `covers` events."""

    __slots__ = ("covers", "identity", "wire")
    wire: bytes
    covers: int
    identity: Identity

    def after(self, events: list[Event]) -> RawBatch:
        """Return the batch for the processed events; it keeps its bytes if the covered events are unchanged."""
        if len(events) == 1 == len(self) and events[0] is self[0]:
            return self  # the common case
        covered = self[: self.covers]
        unchanged = len(events) >= len(covered) and all(map(is_, events, covered))
        wire, covers = (self.wire, self.covers) if unchanged else (b"", 0)
        return raw_batch(events, wire, covers, self.identity)


def raw_batch(events: Iterable[Event], wire: bytes, covers: int, identity: Identity) -> RawBatch:
    """Create a batch. One is created per read; avoiding a constructor halves the time."""
    batch = RawBatch(events)
    batch.wire, batch.covers, batch.identity = wire, covers, identity
    return batch


class RawCapture:
    """Collects the raw frames of one reply and builds `RawBatch`es from them.

    Args:
        secrets: byte strings that passed-through bytes must not contain.
    """

    __slots__ = (
        "_check_runs",
        "_crlf",
        "_frames",
        "_identity",
        "_passable",
        "_passed",
        "_rejected",
        "_secrets",
        "_template_passable",
        "covers",
    )

    def __init__(self, secrets: tuple[bytes, ...]) -> None:
        self._secrets = secrets
        #: The identity that the upstream gave its reply.
        self._identity: Identity | None = None
        #: The frames to pass through, and how many events they cover, if not all.
        self._frames: list[bytes] = []
        self.covers: int | None = None
        #: Whether the current frame may be passed through, and is; whether frames that match the template may be.
        self._passable = self._passed = self._template_passable = False
        self._rejected = self._crlf = self._check_runs = False

    def next_frame(self) -> None:
        self._passable = self._passed = self._rejected = False

    def reject(self) -> None:
        """Mark the current frame as malformed: other parsers might not be able to read it."""
        self._rejected = True

    def add(self, frame: bytes, identity: Identity) -> None:
        """Add the current frame, if it is safe and has the same identity as the others of its batch."""
        if self._rejected or not _is_safe(frame, self._secrets):
            return
        if identity != self._identity and not self._frames:
            self._identity = identity
        self._passable = identity == self._identity
        self._append(frame)

    def learn(self, template: FrameTemplate | None) -> None:
        """Set the template that the following frames may match."""
        self._template_passable = self._passable and template is not None and template.spaced
        self._crlf = template is not None and template.crlf
        self._check_runs = template is not None and template.varied

    def repeat(self, run: bytes) -> None:
        """Add a run of frames that match the template."""
        self._passable = self._template_passable and self._is_run_safe(run)
        self._append(run.replace(_CRLF, _LF) if self._crlf else run)

    def single(self, event: Event, read: bytes) -> list[Event]:
        """Return the batch for a read that consists of one run of frames."""
        identity = self._identity
        if identity is None or not self._template_passable or not self._is_run_safe(read):
            return [event]
        if self._crlf:  # other frames are sent with LF, and a stream must not mix line ends
            read = read.replace(_CRLF, _LF)
        if self._frames:
            read = b"".join((*self._frames, read))
            self._frames = []
        return raw_batch((event,), read, 1, identity)

    def _is_run_safe(self, run: bytes) -> bool:
        """Whether frames that match the template may be passed through; only their texts were parsed."""
        if self._check_runs:
            return _is_safe(run, self._secrets)
        return run.isascii() or not contains_line_end(run)

    def _append(self, frames: bytes) -> None:
        self._passed = self._passable and self.covers is None
        if self._passed:
            self._frames.append(frames)

    @property
    def end_here(self) -> bool:
        """Whether the next event is the first that the bytes do not cover; the rest of this read is encoded."""
        return not self._passed and self.covers is None

    def batch(self, events: list[Event]) -> list[Event]:
        """Return the events with their bytes. Frames without events wait for the next event."""
        if not events:
            if sum(map(len, self._frames)) > _MAX_SILENT_BYTES:
                self._frames = []
            return events
        covers = len(events) if self.covers is None else self.covers
        wire, self._frames, self.covers = b"".join(self._frames), [], None
        return events if self._identity is None else raw_batch(events, wire, covers, self._identity)


class PassthroughEncoder(ABC):
    """Encodes a streamed reply and passes bytes through where possible."""

    def __init__(self) -> None:
        #: The identity of the bytes that are being passed through.
        self._current: Identity | None = None

    def relay(self, batch: Sequence[Event]) -> bytes:
        """Return the bytes to send for a batch: its own, if it has any and they fit the stream so far."""
        if type(batch) is not RawBatch:
            self._observe({})
            return self.encode(batch)
        if batch.identity is self._current and batch.covers == 1 == len(batch) and type(batch[0]) is TextDelta:
            return batch.wire  # the common case
        self._observe(batch.identity)
        lead = self._prefix_for(batch.identity, batch.wire) if batch.covers else None
        if lead is None:
            return self.encode(batch)
        self._current = batch.identity
        for event in batch[: batch.covers]:
            if type(event) is OpaqueSeen:
                self.encode([event])  # only to update the encoder's state; the bytes already contain it
        return lead + batch.wire + self.encode(batch[batch.covers :])

    @abstractmethod
    def encode(self, events: Sequence[Event], /) -> bytes:
        """Return the bytes to send for these events."""

    @abstractmethod
    def _observe(self, identity: Identity) -> None:
        """Handle the identity of a batch before anything of it is written; empty if unknown."""

    @abstractmethod
    def _prefix_for(self, identity: Identity, wire: bytes) -> bytes | None:
        """Return the bytes to send before `wire`; None if it cannot be passed through."""


class IdentityEncoder(PassthroughEncoder):
    """Encoder for protocols in which every event carries the reply's identity: the upstream's, or toolspeak's own."""

    def __init__(self) -> None:
        super().__init__()
        #: None before the first event; empty if the identity is toolspeak's own.
        self._adopted: Identity | None = None

    def _observe(self, identity: Identity) -> None:
        if self._adopted is None:
            self._adopted = identity
            if identity:
                self._adopt(identity)

    def _prefix_for(self, identity: Identity, wire: bytes) -> bytes | None:
        return self._lead_in(wire) if identity == self._adopted else None

    @abstractmethod
    def _adopt(self, identity: Identity) -> None:
        """Use the upstream's identity for the reply; called before anything is sent."""

    def _lead_in(self, wire: bytes) -> bytes:
        """Return the bytes to send before `wire`."""
        return b""


def secret_patterns(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Return the byte strings to search for in JSON, which can write non-ASCII characters in two ways."""
    forms = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1])}
    return tuple(sorted(form.encode("utf-8", "replace") for form in forms))


def _is_safe(frame: bytes, secrets: Iterable[bytes]) -> bool:
    """Whether a decoded frame may be sent to a client unchanged.

    Fields that a codec ignores may contain anything: invalid UTF-8, line ends, the upstream API key.
    """
    if not frame.isascii():
        try:
            frame.decode()
        except UnicodeDecodeError:
            return False
        if contains_line_end(frame):
            return False
    if not secrets:
        return True
    plain = frame.replace(b"\\/", b"/")
    hidden = _ESCAPED in plain and any(escape in plain for escape in ASCII_ESCAPES)
    return not hidden and not any(secret in plain for secret in secrets)
