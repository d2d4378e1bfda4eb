"""What the events and the response object of the Responses API look like on the wire, as far as they are read.

The structs name only what is used, so that one decode skips the rest. Leaves take any JSON, for servers differ in
them. `Numbered` is the shortcut for deltas: each event has a number of its own, so none is like the one before it.
Above: `openai_responses_reply`. Below: `common`, `framing`.
"""

from __future__ import annotations

import msgspec

from ..core.events import Failure
from ..core.model import JSONObject, JSONValue, Usage, is_object
from .common import count, failure_from
from .framing import Template

__all__ = ["Numbered", "WireEvent", "decode_event", "failure_of", "tidied", "usage_from"]


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


#: What a delta belongs to: its type, the number and id of its item, the numbers of its part.
_Place = tuple[JSONValue, JSONValue, JSONValue, JSONValue, JSONValue]


def _place_of(event: WireEvent | _Delta) -> _Place:
    """What a delta belongs to."""
    return event.type, event.output_index, event.item_id, event.content_index, event.summary_index


class _Delta(msgspec.Struct, gc=False):
    """An event that holds one piece of text."""

    delta: str
    type: JSONValue = None
    output_index: JSONValue = None
    item_id: JSONValue = None
    content_index: JSONValue = None
    summary_index: JSONValue = None
    sequence_number: JSONValue = None


_read_delta = msgspec.json.Decoder(_Delta).decode
_read_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
_DELTA, _NUMBER, _PADDING = b'"delta":', b'"sequence_number":', b'"obfuscation":"'
_END = b"\n\n"
#: What padding consists of, and what stands behind it.
_PLAIN = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CLOSED = b'"}\n\n'


class Numbered(Template):
    """Frames with a delta each that all belong to one place.

    The number of a frame is known from the one before it, and what pads it is of no interest. So a frame that is, byte
    for byte, the next one but for its text needs no parsing. Any other is parsed, and is of this place or not.
    """

    __slots__ = ("_back", "_front", "_number", "_padded", "_place")

    def __init__(self, head: bytes, payload: bytes, event: WireEvent) -> None:
        super().__init__(head, _END)
        self._place = _place_of(event)
        self._number = event.sequence_number if isinstance(event.sequence_number, int) else 0
        front, found, behind = payload.partition(_DELTA + b'"' + str(event.delta).encode() + b'"')
        kept, self._padded, _ = behind.rpartition(_PADDING)
        number = _encode(self._number)
        #: What stands before and behind the text; each is in two parts where the number stands between them.
        self._front: tuple[bytes, ...] = (_END,)
        self._back = _around(kept + self._padded if self._padded else behind + _END, number)
        # An escape could hide a second key of this name.
        if found and payload.count(_DELTA) == 1 and b"\\" not in payload:
            self._front = _around(head + front + _DELTA, number)

    @classmethod
    def of(cls, read: bytes, name: str, payload: bytes, event: WireEvent) -> Numbered | None:
        """What the frame at the end of a read looks like."""
        head = b"event: " + name.encode() + b"\ndata: " if name else b"data: "
        return cls(head, payload, event) if read.endswith(head + payload + _END) and b"\r" not in read else None

    def read(self, data: bytes) -> str | None:
        """The text of the frames, joined; None when these bytes are anything else."""
        text = self._next(data)
        if text is not None:
            return text
        frames = data.split(_END)
        texts: list[str] = []
        if frames.pop():
            return None
        for frame in frames:
            text = self._next(frame + _END)
            if text is None:
                text = self._parsed(frame)
            if text is None:
                return None
            texts.append(text)
        return "".join(texts)

    def _next(self, data: bytes) -> str | None:
        """The text of these bytes, if they are the next frame."""
        number = self._number + 1
        digits = _encode(number)
        body = data.removeprefix(digits.join(self._front))
        if len(body) == len(data):
            return None
        tail = digits.join(self._back)
        if self._padded:
            token, _, padding = body.rpartition(tail)
            if padding.translate(None, _PLAIN) != _CLOSED:
                return None
        else:
            token = body.removesuffix(tail)
            if len(token) == len(body):
                return None
        try:
            text = _read_text(token)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        self._number = number
        return text

    def _parsed(self, frame: bytes) -> str | None:
        """The text of one frame, if it belongs to this place."""
        payload = frame.removeprefix(self._head)
        if len(payload) == len(frame) or b"\n" in payload or b"\r" in payload:
            return None
        try:
            found = _read_delta(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if isinstance(found.sequence_number, int):
            self._number = found.sequence_number
        return found.delta if _place_of(found) == self._place else None


def _around(data: bytes, number: bytes) -> tuple[bytes, ...]:
    """What stands before and behind the number of a frame; all of it where that is elsewhere."""
    before, key, behind = data.partition(_NUMBER)
    return (before + key, behind.removeprefix(number)) if key and behind.startswith(number) else (data,)


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
