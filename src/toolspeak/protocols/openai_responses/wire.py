"""What the events and the response object of the Responses API look like on the wire, as far as they are read.

The structs name only what is used, so that one decode skips the rest. Leaves take any JSON, for servers differ in
them. `Numbered` is the shortcut for deltas: each event has a number of its own, so none is like the one before it.
"""

from __future__ import annotations

import msgspec

from ...core.events import Failure
from ...core.types import JSONObject, JSONValue, Usage, is_object
from ..shared.fields import count, failure_from
from ..shared.framing import FramewiseTemplate


class WireEvent(msgspec.Struct, gc=False):
    """An event of a stream."""

    type: JSONValue = None
    output_index: JSONValue = None
    item_id: JSONValue = None
    content_index: JSONValue = None
    summary_index: JSONValue = None
    delta: JSONValue = None
    text: JSONValue = None
    refusal: JSONValue = None
    arguments: JSONValue = None
    input: JSONValue = None
    item: JSONValue = None
    response: JSONValue = None
    error: JSONValue = None
    message: JSONValue = None
    code: JSONValue = None
    param: JSONValue = None
    sequence_number: JSONValue = None


decode_event = msgspec.json.Decoder(WireEvent).decode


def tidied(event: WireEvent) -> WireEvent:
    """The event, with nothing but numbers where numbers belong and a text where an id belongs."""
    if not isinstance(event.item_id, str):
        event.item_id = None
    for name in ("output_index", "content_index", "summary_index"):
        if not isinstance(getattr(event, name), int):
            setattr(event, name, None)
    return event


class _Bare(msgspec.Struct, gc=False):
    """What follows what all deltas of one place begin with: a text, and no word about the place."""

    delta: str
    type: None = None
    output_index: None = None
    item_id: None = None
    content_index: None = None
    summary_index: None = None


class _Placed(msgspec.Struct, gc=False):
    """What follows where some of the words for the place come after the number or the text."""

    delta: str
    type: JSONValue = None
    output_index: JSONValue = None
    item_id: JSONValue = None
    content_index: JSONValue = None
    summary_index: JSONValue = None

    @property
    def place(self) -> tuple[JSONValue, ...]:
        """What it says about what the delta belongs to: all of the words, if nothing stands before."""
        return self.type, self.output_index, self.item_id, self.content_index, self.summary_index


_read_bare = msgspec.json.Decoder(_Bare).decode
_read_placed = msgspec.json.Decoder(_Placed).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_KEYS = (b'"delta":', b'"sequence_number":')
_END, _LF, _CR = b"\n\n", 10, 13


class Numbered(FramewiseTemplate):
    """Frames with a delta each that all belong to one place.

    Each has a number of its own, and padding. So only what stands before the number or the text, whichever comes first,
    is compared, byte for byte; of the rest only the text is read, and words for the place where there are any.
    """

    __slots__ = ("_begin", "_open", "_place")

    def __init__(self, head: bytes, start: bytes, opening: bytes, place: tuple[JSONValue, ...]) -> None:
        super().__init__(head, _END)
        self._begin = head + start
        self._open = opening
        #: What follows of the words for the place; nothing if all of them stand before.
        self._place = place if any(word is not None for word in place) else ()

    @classmethod
    def of(cls, read: bytes, name: str, payload: bytes) -> Numbered | None:
        """What the frame at the end of a read looks like."""
        head = b"event: " + name.encode() + b"\ndata: " if name else b"data: "
        if not read.endswith(head + payload + _END) or _CR in read or _LF in payload:
            return None
        at, key = min((payload.find(key) % (len(payload) + 1), key) for key in _KEYS)
        opening = b"{" + key
        try:
            place = _read_placed(opening + payload[at + len(key) :]).place
        except _UNREADABLE:
            return None
        return cls(head, payload[:at] + key, opening, place)

    def read(self, data: bytes) -> str | None:
        """The text of the frames, joined; None when these bytes are anything else."""
        body = data.removeprefix(self._begin)
        if len(body) == len(data) or _CR in data:
            return None
        if body.find(_LF) != len(body) - 2:
            return self._read_run(data)
        if self._place:
            return self._delta(body)
        try:  # what most frames are: not one call too many
            return _read_bare(self._open + body).delta
        except _UNREADABLE:
            return None

    def _text(self, frame: bytes) -> str | None:
        body = frame.removeprefix(self._begin)
        return self._delta(body) if len(body) < len(frame) and _LF not in body else None

    def _delta(self, body: bytes) -> str | None:
        """The text of a frame, given what follows its beginning."""
        try:
            if not self._place:
                return _read_bare(self._open + body).delta
            placed = _read_placed(self._open + body)
        except _UNREADABLE:
            return None
        return placed.delta if placed.place == self._place else None


# ------------------------------------------------------------------------------------------- usage and failures


def usage_from(value: JSONValue) -> Usage | None:
    """Token counts."""
    if not is_object(value):
        return None
    details = value.get("input_tokens_details")
    cached = details.get("cached_tokens") if is_object(details) else None
    details = value.get("output_tokens_details")
    thought = details.get("reasoning_tokens") if is_object(details) else None
    return Usage(count(value.get("input_tokens")), count(value.get("output_tokens")), count(cached), count(thought))


#: Codes of errors inside a stream that stand for an HTTP status.
_STATUSES = {
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "server_error": 500,
}


def failure_of(error: JSONValue, payload: bytes, otherwise: str = "") -> Failure:
    """The failure that an error inside an answer stands for."""
    inner: JSONObject = error if is_object(error) else {}
    if is_object(inner.get("error")):
        inner = inner["error"]
    code = inner.get("code")
    status = _STATUSES.get(code, 0) if isinstance(code, str) else 0
    return failure_from(error, status, payload, otherwise)
