"""Pass-through of an upstream's bytes to a client of the same protocol.

After `BaseReplyDecoder.capture_raw`, a decoder returns `RawBatch`es: the events of a read and the bytes that encode
them. `RawBatch.after` drops the bytes if the events were changed. A `PassthroughEncoder` sends the bytes instead of
encoding the events. Only text is passed through; all other events and the end of the stream are encoded. If every
event contains the id of the reply, the encoder uses the upstream's id, so that the stream has only one.
"""

import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from operator import is_
from typing import TypeAlias

from ...core.events import Event, OpaqueSeen, TextDelta
from ...core.types import JSONObject
from .fields import ASCII_ESCAPES, contains_line_end
from .framing import FrameTemplate
from .reply_encoder import BaseReplyEncoder

#: Fields that must be the same in consecutive frames: the id and model of the reply, or the block index. Consecutive
#: frames with the same values share one object.
Identity: TypeAlias = JSONObject

#: Common prefix of all escaped ASCII characters.
_ESCAPED = b"\\u00"
#: Maximum size of frames without events that are held back until the next event.
_MAX_SILENT_BYTES = 64 * 1024
_CRLF, _LF = b"\r\n", b"\n"


class RawBatch(list[Event]):
    """The events of one read. `wire` contains the bytes that encode the first `covers` events."""

    __slots__ = ("covers", "identity", "wire")
    wire: bytes
    covers: int
    identity: Identity

    def after(self, events: list[Event]) -> "RawBatch":
        """Return a batch for the processed events. It keeps the bytes if the events they cover are unchanged."""
        if len(events) == 1 == len(self) and events[0] is self[0]:
            return self  # the common case
        covered = self[: self.covers]
        unchanged = len(events) >= len(covered) and all(map(is_, events, covered))
        wire, covers = (self.wire, self.covers) if unchanged else (b"", 0)
        return raw_batch(events, wire, covers, self.identity)


def raw_batch(events: Iterable[Event], wire: bytes, covers: int, identity: Identity) -> RawBatch:
    """Create a batch. There is no constructor, because that would double the time, and every read creates a batch."""
    batch = RawBatch(events)
    batch.wire, batch.covers, batch.identity = wire, covers, identity
    return batch


class RawCapture:
    """Collects the raw frames of one reply and builds `RawBatch`es from them.

    Args:
        secrets: byte strings that passed-through bytes must not contain.
    """

    def __init__(self, secrets: tuple[bytes, ...]) -> None:
        self._secrets = secrets
        #: The identity of the upstream's reply.
        self._identity: Identity | None = None
        #: The frames to pass through, and the number of events that they cover (None for all).
        self._frames: list[bytes] = []
        self.covers: int | None = None
        #: Whether the current frame may be passed through, whether it is, and whether frames matching the template may.
        self._passable = self._passed = self._template_passable = False
        self._rejected = self._crlf = self._check_runs = False

    def next_frame(self) -> None:
        self._passable = self._passed = self._rejected = False

    def reject(self) -> None:
        """Exclude the current frame, which is malformed, because the client might be unable to parse it."""
        self._rejected = True

    def add(self, frame: bytes, identity: Identity) -> None:
        """Add the current frame if it is safe and has the same identity as the other frames of its batch."""
        if self._rejected or not _is_safe(frame, self._secrets):
            return
        if identity != self._identity and not self._frames:
            self._identity = identity
        self._passable = identity == self._identity
        self._append(frame)

    def learn(self, template: FrameTemplate | None) -> None:
        """Set the template for matching the following frames."""
        self._template_passable = self._passable and template is not None and template.spaced
        self._crlf = template is not None and template.crlf
        self._check_runs = template is not None and template.varied

    def repeat(self, run: bytes) -> None:
        """Add a run of frames that match the template."""
        self._passable = self._template_passable and self._is_run_safe(run)
        self._append(run.replace(_CRLF, _LF) if self._crlf else run)

    def single(self, event: Event, read: bytes) -> list[Event]:
        """Return the batch for a read in which all frames match the template."""
        identity = self._identity
        if identity is None or not self._template_passable or not self._is_run_safe(read):
            return [event]
        if self._crlf:  # other frames are sent with LF, and a stream must not mix both
            read = read.replace(_CRLF, _LF)
        if self._frames:
            read = b"".join((*self._frames, read))
            self._frames = []
        return raw_batch((event,), read, 1, identity)

    def _is_run_safe(self, run: bytes) -> bool:
        """Whether frames that match the template may be passed through. Only their texts have been parsed."""
        if self._check_runs:
            return _is_safe(run, self._secrets)
        return run.isascii() or not contains_line_end(run)

    def _append(self, frames: bytes) -> None:
        self._passed = self._passable and self.covers is None
        if self._passed:
            self._frames.append(frames)

    @property
    def end_here(self) -> bool:
        """Whether the next event is the first one in this read that the bytes do not cover."""
        return not self._passed and self.covers is None

    def batch(self, events: list[Event]) -> list[Event]:
        """Return the events with their bytes. Without events, hold the frames back until the next event."""
        if not events:
            if sum(map(len, self._frames)) > _MAX_SILENT_BYTES:
                self._frames = []
            return events
        covers = len(events) if self.covers is None else self.covers
        wire, self._frames, self.covers = b"".join(self._frames), [], None
        return events if self._identity is None else raw_batch(events, wire, covers, self._identity)


class PassthroughEncoder(BaseReplyEncoder):
    """Base class of encoders that pass the upstream's bytes through if possible."""

    def __init__(self) -> None:
        super().__init__()
        #: The identity of the bytes that were last passed through.
        self._current: Identity | None = None
        #: The upstream's identity: None before the first event, empty if toolspeak's own identity is used.
        self._adopted: Identity | None = None

    def relay(self, batch: Sequence[Event]) -> bytes:
        """Return the bytes to send for a batch. Use the upstream's bytes if they fit the stream so far."""
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
                self.encode([event])  # updates the state; the bytes already contain the event
        return lead + batch.wire + self.encode(batch[batch.covers :])

    @abstractmethod
    def encode(self, events: Sequence[Event], /) -> bytes:
        """Return the bytes to send for these events."""

    def _observe(self, identity: Identity) -> None:
        """Handle the identity of a batch before the batch is encoded. An empty identity means that it is unknown."""
        if self._adopted is None:
            self._adopted = identity
            if identity:
                self._adopt(identity)

    def _prefix_for(self, identity: Identity, wire: bytes) -> bytes | None:
        """Return the bytes to send before `wire`, or None if `wire` cannot be passed through."""
        return self._lead_in(wire) if identity == self._adopted else None

    def _adopt(self, identity: Identity) -> None:
        """Use the upstream's identity for the reply, if every event contains it. Called before anything is sent."""

    def _lead_in(self, wire: bytes) -> bytes:
        """Return the bytes to send before `wire`."""
        return b""


def secret_patterns(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Return the byte strings that represent the secrets in JSON, with and without escaped characters."""
    forms = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1])}
    return tuple(sorted(form.encode("utf-8", "replace") for form in forms))


def _is_safe(frame: bytes, secrets: Iterable[bytes]) -> bool:
    """Whether a decoded frame may be sent to a client unchanged.

    Fields that a codec ignores may contain invalid UTF-8, line ends or the upstream's API key.
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
