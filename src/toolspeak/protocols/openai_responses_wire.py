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

__all__ = ["Numbered", "Place", "WireEvent", "decode_event", "failure_of", "place_of", "tidied", "usage_from"]


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
Place = tuple[JSONValue, JSONValue, JSONValue, JSONValue, JSONValue]


def place_of(event: WireEvent | _Delta) -> Place:
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


_read_delta = msgspec.json.Decoder(_Delta).decode
_read_deltas = msgspec.json.Decoder(list[_Delta]).decode


class Numbered(Template):
    """Frames with a delta each that all belong to one place, whatever else they say."""

    __slots__ = ("_place",)

    def __init__(self, head: bytes, place: Place) -> None:
        super().__init__(head, b"\n\n")
        self._place = place

    @classmethod
    def of(cls, read: bytes, name: str, payload: bytes, place: Place) -> Numbered | None:
        """What the frame at the end of a read looks like."""
        head = b"event: " + name.encode() + b"\ndata: " if name else b"data: "
        return cls(head, place) if read.endswith(head + payload + b"\n\n") and b"\r" not in read else None

    def read(self, data: bytes) -> str | None:
        """The text of the frames, joined; None when these bytes are anything else."""
        body = data.removeprefix(self._head).removesuffix(b"\n\n")
        if len(data) - len(body) != self._common or b"\r" in body:
            return None
        try:
            if b"\n" in body:
                return self._several(body)
            found = _read_delta(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return found.delta if place_of(found) == self._place else None

    def _several(self, body: bytes) -> str | None:
        payloads = body.split(self._joint)
        if body.count(b"\n") != (len(payloads) - 1) * self._joint.count(b"\n"):
            return None
        found = _read_deltas(b"[" + b",".join(payloads) + b"]")
        # More deltas than frames: a frame held two, which is no JSON.
        if len(found) != len(payloads) or any(place_of(one) != self._place for one in found):
            return None
        return "".join([one.delta for one in found])


# ------------------------------------------------------------------------------------------- usage and failures


def usage_from(value: JSONValue) -> Usage | None:
    """Token counts."""
    if not is_object(value):
        return None
    details = value.get("input_tokens_details")
    cached = details.get("cached_tokens") if is_object(details) else None
    return Usage(count(value.get("input_tokens")), count(value.get("output_tokens")), count(cached))


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
