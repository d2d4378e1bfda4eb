"""Encoder for replies to Ollama clients: streams, complete replies and errors.

A call is sent when it is complete; incomplete calls are dropped. Text deltas, the bulk of a stream, are written from
byte templates.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from ...core.events import CallEvent, Event, Failure, FinishReason, OpaqueSeen, ReasoningDelta, Reply, TextDelta
from ...core.types import JSONObject, JSONValue, Opaque, Request, ToolCall, Usage, is_array, is_object
from ...errors import ToolspeakError
from ..shared.fields import encode_plain, error_value, failure_from, filled, http_status, to_line, to_wire
from ..shared.passthrough_bytes import PassthroughEncoder
from ..shared.reply_encoder import FAILED_TURN
from ..shared.unstreamed_calls import WholeCalls
from .reply_decoder import IMAGES, TIMINGS


class ReplyEncoder(PassthroughEncoder):
    """Encodes events as newline-delimited JSON. Ignores `id`."""

    def __init__(self, request: Request, *, id: str, created: int, model: str) -> None:
        super().__init__()
        self._created = wire_time(created)
        self._text_tail = b'},"done":false}\n'
        self._adopt({"model": model})
        self._has_messages = bool(request.messages)
        self._calls = WholeCalls()
        self._call_count = 0
        self._times: JSONObject = {}

    def _adopt(self, identity: JSONObject) -> None:
        self._head = to_line({**identity, "created_at": self._created})[:-1]
        #: Bytes that precede a piece of text; `_text_tail` follows the text.
        self._text_head = self._head + b',"message":{"role":"assistant","content":'

    def encode(self, events: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if self._closed:
                break
            if type(event) is TextDelta:
                text = event.text
                out += (self._text_head, encode_plain(text) if text.isascii() else to_line(text), self._text_tail)
            else:
                out.append(self._encode_event(event))
        return b"".join(out)

    def _finish(self, extension: JSONObject | None) -> bytes:
        self._closed = True
        return self._line({}, last_fields(self._reason, self._usage, self._times, self._has_messages), extension)

    def _line(self, message: JSONObject, rest: JSONObject, extension: JSONObject | None = None) -> bytes:
        fields: JSONObject = {"message": {"role": "assistant", "content": "", **message}, **rest}
        fields |= filled({"toolspeak": extension})
        return self._head + b"," + to_line(fields)[1:] + b"\n"

    def _encode_event(self, event: Event) -> bytes:
        message: JSONObject = {}
        if isinstance(event, CallEvent):
            message = self._call(event)
        elif isinstance(event, ReasoningDelta):
            message = {"thinking": event.text}
        elif isinstance(event, OpaqueSeen):
            self._times = timings([event.part]) or self._times
            message = filled({"images": _images([event.part])})
        return self._line(message, {"done": False}) if message else self._track(event)

    def _call(self, event: CallEvent) -> JSONObject:
        call = self._calls.feed(event)
        if call is None:
            return {}
        self._call_count += 1
        return {"tool_calls": [_wire_call(call, self._call_count - 1)]}

    def _fail(self, failure: Failure) -> bytes:
        self._closed = True
        return to_line({"error": failure.message}) + b"\n"


def wire_time(created: int) -> str:
    return datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _wire_call(call: ToolCall, index: int) -> JSONObject:
    return {**filled({"id": call.id}), "function": {"index": index, "name": call.name, "arguments": call.arguments}}


def last_fields(reason: FinishReason, usage: Usage, times: JSONObject, has_messages: bool) -> JSONObject:
    """Return the fields of the last line, omitting token counts of zero."""
    word = "length" if reason == "length" else "stop" if has_messages else "load"
    counts = {"prompt_eval_count": usage.input_tokens, "eval_count": usage.output_tokens}
    return {"done": True, "done_reason": word, **times, **filled(counts)}


def encode_reply(
    reply: Reply, request: Request, *, id: str, created: int, model: str, extension: JSONObject | None = None
) -> bytes:
    """Encode a non-streamed reply, or an error object if the turn failed."""
    if reply.failure is not None or reply.finish_reason == "error":
        return to_wire({"error": (reply.failure or FAILED_TURN).message})
    optional = {
        "thinking": reply.reasoning,
        "images": _images(reply.opaque),
        "tool_calls": [_wire_call(call, at) for at, call in enumerate(reply.calls)],
    }
    message = {"role": "assistant", "content": reply.text, **filled(optional)}
    body: JSONObject = {"model": model, "created_at": wire_time(created), "message": message}
    body |= last_fields(reply.finish_reason, reply.usage, timings(reply.opaque), bool(request.messages))
    return to_wire(body | filled({"toolspeak": extension}))


def _images(parts: Iterable[Opaque]) -> list[JSONValue]:
    return [image for part in parts if part.kind == IMAGES and is_array(part.data) for image in part.data]


def timings(parts: Iterable[Opaque]) -> JSONObject:
    """Return the timings of the last part that contains timings."""
    times: JSONObject = {}
    for part in parts:
        if part.kind == TIMINGS and is_object(part.data):
            times = part.data
    return times


def decode_error(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """Convert an HTTP error response to a `Failure`. Header names must be in lower case."""
    return failure_from(error_value(body), status, body, f"the upstream returned status {status}")


def encode_error(error: ToolspeakError) -> tuple[int, bytes]:
    """Return the HTTP status and body for an error. An upstream's own status is preserved."""
    return http_status(error), to_wire({"error": str(error)})
