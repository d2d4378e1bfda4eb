"""Structs and templates for decoding stream events of the Responses API.

The structs declare only the fields that toolspeak uses; decoding skips the rest. Most fields accept any JSON value,
because servers send different types.
"""

from typing import Generic, TypeVar

import msgspec

from ...core.events import Failure
from ...core.types import JSONValue, Usage, is_object
from ..shared.fields import count, failure_from, object_or_empty, text_or_empty
from ..shared.framing import FramewiseTemplate


class StreamEvent(msgspec.Struct, gc=False):
    """A stream event of any type."""

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


decode_event = msgspec.json.Decoder(StreamEvent).decode


def normalize(event: StreamEvent) -> StreamEvent:
    """Replace non-integer indexes and non-string item ids with None."""
    if not isinstance(event.item_id, str):
        event.item_id = None
    for name in ("output_index", "content_index", "summary_index"):
        if not isinstance(getattr(event, name), int):
            setattr(event, name, None)
    return event


_T = TypeVar("_T")


class _Delta(msgspec.Struct, Generic[_T], gc=False):
    """The part of a delta event after the template's prefix: the text, and position fields of type `_T` or null."""

    delta: str
    type: _T | None = None
    output_index: _T | None = None
    item_id: _T | None = None
    content_index: _T | None = None
    summary_index: _T | None = None

    @property
    def position(self) -> tuple[JSONValue, ...]:
        """The fields that identify the item and part to which the delta belongs."""
        return self.type, self.output_index, self.item_id, self.content_index, self.summary_index


_decode_bare = msgspec.json.Decoder(_Delta[None]).decode
_decode_positioned = msgspec.json.Decoder(_Delta[JSONValue]).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_VARYING_KEYS = (b'"delta":', b'"sequence_number":')
_END, _LF, _CR = b"\n\n", 10, 13


class NumberedTemplate(FramewiseTemplate):
    """A template for the numbered delta events of one item part.

    Sequence number and padding differ between events, so only the prefix is compared: the bytes before the number or
    the text, whichever comes first. Of the rest, only the text and the position fields are parsed.
    """

    __slots__ = ("_opening", "_position", "_prefix")

    def __init__(self, head: bytes, start: bytes, opening: bytes, position: tuple[JSONValue, ...]) -> None:
        super().__init__(head, _END)
        self._prefix = head + start
        self._opening = opening
        #: Values of the position fields after the prefix; empty if the prefix contains all of them.
        self._position = position if any(value is not None for value in position) else ()

    @classmethod
    def from_frame(cls, read: bytes, name: str, payload: bytes) -> "NumberedTemplate | None":
        """Derive a template from the last frame of a read, or return None if that is impossible."""
        head = b"event: " + name.encode() + b"\ndata: " if name else b"data: "
        if not read.endswith(head + payload + _END) or _CR in read or _LF in payload:
            return None
        at, key = min((payload.find(key) % (len(payload) + 1), key) for key in _VARYING_KEYS)
        opening = b"{" + key
        try:
            position = _decode_positioned(opening + payload[at + len(key) :]).position
        except _UNREADABLE:
            return None
        return cls(head, payload[:at] + key, opening, position)

    def read(self, data: bytes) -> str | None:
        body = data.removeprefix(self._prefix)
        if len(body) == len(data) or _CR in data:
            return None
        if body.find(_LF) != len(body) - 2:
            return self._read_run(data)
        if self._position:
            return self._delta(body)
        try:  # inlined for speed: the common case
            return _decode_bare(self._opening + body).delta
        except _UNREADABLE:
            return None

    def _text(self, frame: bytes) -> str | None:
        body = frame.removeprefix(self._prefix)
        return self._delta(body) if len(body) < len(frame) and _LF not in body else None

    def _delta(self, body: bytes) -> str | None:
        """Return the text of a frame, given the bytes after its prefix. Return None if the frame does not match."""
        try:
            if not self._position:
                return _decode_bare(self._opening + body).delta
            positioned = _decode_positioned(self._opening + body)
        except _UNREADABLE:
            return None
        return positioned.delta if positioned.position == self._position else None


def usage_from(value: JSONValue) -> Usage | None:
    if not is_object(value):
        return None
    cached = object_or_empty(value.get("input_tokens_details")).get("cached_tokens")
    reasoning = object_or_empty(value.get("output_tokens_details")).get("reasoning_tokens")
    return Usage(count(value.get("input_tokens")), count(value.get("output_tokens")), count(cached), count(reasoning))


#: HTTP statuses for error codes that occur inside a stream.
_STATUSES = {
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "server_error": 500,
}


def failure_from_error(error: JSONValue, payload: bytes, default: str = "") -> Failure:
    """Convert an error inside a reply to a `Failure`."""
    outer = object_or_empty(error)
    inner = outer["error"] if is_object(outer.get("error")) else outer
    status = _STATUSES.get(text_or_empty(inner.get("code")), 0)
    return failure_from(error, status, payload, default)
