"""Encoder for replies to Gemini clients: streams, complete responses and errors.

A call is sent when it is complete; incomplete calls are dropped. Text deltas, the bulk of a stream, are written from
byte templates.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import filterfalse, groupby

from ...core.events import CallEvent, Event, Failure, FinishReason, OpaqueSeen, ReasoningDelta, Reply, TextDelta
from ...core.types import JSONObject, Opaque, Request, ToolCall, Usage, is_object
from ...errors import ToolspeakError, UpstreamError
from ..shared.fields import encode_plain, error_value, filled, http_status, take_call_extra, to_line, to_wire, without
from ..shared.passthrough_bytes import PassthroughEncoder
from ..shared.reply_encoder import FAILED_TURN, Events, Extra
from ..shared.unstreamed_calls import WholeCalls
from . import wire as gemini_wire
from .wire import error_failure, error_object, finish_word, usage_to_wire


class _ResponseParts:
    """Converts events to parts of a response. Stores extra fields from a Gemini upstream until they can be sent."""

    def __init__(self) -> None:
        self._calls = WholeCalls()
        self._call_extras: list[JSONObject] = []
        self._candidate: JSONObject = {}
        self._usage: JSONObject = {}
        self.blocked: JSONObject = {}

    def add(self, part: Opaque) -> JSONObject | None:
        """Return the part if it can be sent immediately. Otherwise store its fields and return None."""
        data = part.data
        if not is_object(data):
            return None
        match part.kind:
            case gemini_wire.PART:
                return data
            case gemini_wire.CALL:
                self._call_extras.append(data)
            case gemini_wire.CANDIDATE:
                self._candidate |= data
            case gemini_wire.USAGE:
                self._usage = data
            case gemini_wire.PROMPT:
                self.blocked = data
            case _:  # a part from another protocol
                pass
        return None

    def call_part(self, call: ToolCall) -> JSONObject:
        """Return the part for a call, including the next stored extra fields for a call to this tool."""
        body: JSONObject = {"name": call.name, "args": call.arguments, **filled({"id": call.id})}
        return {"functionCall": body, **take_call_extra(self._call_extras, "", call.name)}

    def last_response(self, reason: FinishReason, usage: Usage, content: JSONObject) -> JSONObject:
        word = finish_word(reason, self._candidate.get("finishReason"))
        candidate: JSONObject = {
            "content": content,
            "finishReason": word,
            "index": 0,
            **without(self._candidate, "finishReason"),
        }
        fields: JSONObject = {"candidates": [candidate], "usageMetadata": usage_to_wire(usage, self._usage)}
        return fields | filled({"promptFeedback": self.blocked})

    def part(self, event: Event) -> JSONObject | None:
        """Return the part for an event. Return None for events without a part and for incomplete calls."""
        if isinstance(event, CallEvent):
            call = self._calls.feed(event)
            return self.call_part(call) if call is not None else None
        match event:
            case TextDelta(text):
                return {"text": text}
            case ReasoningDelta(text):
                return {"text": text, "thought": True}
            case OpaqueSeen(opaque):
                return self.add(opaque)
            case _:
                return None

    def all_parts(self, events: Iterable[Event]) -> list[JSONObject]:
        """Return all parts of a reply. Merge extra fields into their text and join other adjacent texts."""
        parts: list[JSONObject] = []
        for event in events:
            part = self.part(event)
            if part is None:
                continue
            is_marker = part.get("text") == "" and not _is_plain(part)
            if is_marker and parts and _is_plain(parts[-1]) and _is_thought(parts[-1]) == _is_thought(part):
                part = {**part, "text": parts.pop()["text"]}
            parts.append(part)
        return _join_texts(parts)


def _join_texts(parts: Iterable[JSONObject]) -> list[JSONObject]:
    joined: list[JSONObject] = []
    for (plain, _), group in groupby(parts, lambda part: (_is_plain(part), _is_thought(part))):
        run = list(group)
        joined += [{**run[-1], "text": "".join(part["text"] for part in run)}] if plain else run
    return joined


def _is_thought(part: JSONObject) -> bool:
    return bool(part.get("thought"))


def _is_plain(part: JSONObject) -> bool:
    """Whether a part is text or thinking without extra fields."""
    return "text" in part and not without(part, "text", "thought")


class ReplyEncoder(PassthroughEncoder):
    """Encodes events as server-sent events or, without `alt=sse`, as elements of a JSON array. Ignores `created`."""

    def __init__(self, request: Request, *, id: str, created: int, model: str, sse: bool = True) -> None:
        super().__init__()
        self._adopt({"modelVersion": model, "responseId": id})
        self._head, self._tail = (b"data: ", b"\r\n\r\n") if sse else (b"[", b"")
        self._sse = sse
        self._text_head = b'{"candidates":[{"content":{"parts":[{"text":'
        self._parts = _ResponseParts()
        self._has_output = False

    def _adopt(self, identity: JSONObject) -> None:
        self._identity = identity
        self._text_tail = b'}],"role":"model"},"index":0}],' + to_line(identity)[1:]

    def relay(self, batch: Sequence[Event]) -> bytes:
        """Return the bytes for a batch. Only server-sent events are passed through; arrays need other separators."""
        return super().relay(batch) if self._sse else self.encode(batch)

    def _lead_in(self, wire: bytes) -> bytes:
        self._has_output = True
        return b""

    def encode(self, events: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if self._closed:
                break
            if type(event) is TextDelta:
                text = event.text
                body = encode_plain(text) if text.isascii() else to_line(text)
                out.append(self._frame(self._text_head + body + self._text_tail))
            else:
                out.append(self._encode_event(event))
        return b"".join(out)

    def _finish(self, extension: JSONObject | None) -> bytes:
        self._closed = True
        fields = self._parts.last_response(self._reason, self._usage, {"parts": [{"text": ""}], "role": "model"})
        if self._parts.blocked and not self._has_output:
            del fields["candidates"]  # a blocked prompt has no candidates
        fields |= self._identity | filled({"toolspeak": extension})
        return self._frame(to_line(fields)) + (b"" if self._sse else b"]")

    def _frame(self, payload: bytes) -> bytes:
        self._has_output = True
        frame = self._head + payload + self._tail
        if not self._sse:
            self._head = b",\r\n"
        return frame

    def _part(self, part: JSONObject) -> bytes:
        content: JSONObject = {"parts": [part], "role": "model"}
        return self._frame(to_line({"candidates": [{"content": content, "index": 0}], **self._identity}))

    def _encode_event(self, event: Event) -> bytes:
        part = self._parts.part(event)
        return self._track(event) if part is None else self._part(part)

    def _fail(self, failure: Failure) -> bytes:
        self._closed = True
        return self._frame(to_line(_failure(failure))) + (b"" if self._sse else b"]")


def encode_reply(
    reply: Reply, request: Request, *, id: str, created: int, model: str, extension: Extra = None, events: Events = ()
) -> bytes:
    """Encode a non-streamed reply, or an error object if the turn failed. `events`, if given, determine the order."""
    if reply.failure is not None or reply.finish_reason == "error":
        return to_wire(_failure(reply.failure or FAILED_TURN))
    encoder = _ResponseParts()
    parts = encoder.all_parts(events) if events else _default_parts(reply, encoder)
    content: JSONObject = {"parts": parts or [{"text": ""}], "role": "model"}
    body = encoder.last_response(reply.finish_reason, reply.usage, content)
    if encoder.blocked and not parts:
        del body["candidates"]
    return to_wire({**body, "modelVersion": model, "responseId": id, **filled({"toolspeak": extension})})


def _default_parts(reply: Reply, encoder: _ResponseParts) -> list[JSONObject]:
    """Return the parts of a reply in default order: thinking, text, opaque parts, calls."""
    parts: list[JSONObject] = [{"text": reply.reasoning, "thought": True}] if reply.reasoning else []
    opaque_parts = [part for opaque in reply.opaque if (part := encoder.add(opaque)) is not None]
    parts += filter(_is_thought, opaque_parts)
    if reply.text:
        parts.append({"text": reply.text})
    parts += filterfalse(_is_thought, opaque_parts)
    parts += map(encoder.call_part, reply.calls)
    return parts


def _failure(failure: Failure) -> JSONObject:
    return error_object(failure.message, failure.status, failure.kind, failure.code)


def decode_error(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """Convert an HTTP error response to a `Failure`. Header names must be in lower case."""
    return error_failure(error_value(body), status, body, f"the upstream returned status {status}")


def encode_error(error: ToolspeakError) -> tuple[int, bytes]:
    """Return the HTTP status and body for an error. An upstream's own status is preserved."""
    status = http_status(error)
    code = error.code if isinstance(error, UpstreamError) else ""
    return status, to_wire(error_object(str(error), status, code=code))
