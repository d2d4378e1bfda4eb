"""Encoder for replies to clients of chat completions: streams and complete replies.

Text deltas, the bulk of a stream, are written from byte templates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain

from ...core.events import (
    CallArgs,
    CallEnd,
    CallEvent,
    CallStart,
    Event,
    Failure,
    FinishReason,
    Noted,
    OpaqueSeen,
    ReasoningDelta,
    Reply,
    TextDelta,
)
from ...core.types import JSONObject, JSONValue, Note, Opaque, Request, ToolCall, Usage, is_array, is_object
from ..shared.fields import encode_plain, filled, object_or_empty, take_call_extra, to_line, to_wire
from ..shared.openai_errors import error_of
from ..shared.passthrough_bytes import PassthroughEncoder
from ..shared.reply_encoder import FAILED_TURN
from ..shared.unstreamed_calls import WholeCalls
from .chunks import ANSWER, CALL, CHUNK_OBJECT, LOGPROBS, OPAQUE_FIELDS
from .messages import REASONING_FIELDS
from .request import LEGACY
from .whole_reply import encode_ordinary

_DONE = b"data: [DONE]\n\n"


class ReplyEncoder(PassthroughEncoder):
    """Encodes events as chat-completion chunks (server-sent events)."""

    def __init__(self, request: Request, *, id: str, created: int, model: str, index: int = 0) -> None:
        """`index`: the number of this answer, if the request asks for several."""
        super().__init__()
        self._index = index
        self._text_field = "content"
        self._adopt({"id": id, "object": CHUNK_OBJECT, "created": created, "model": model})
        self._delta_end = b',"finish_reason":null}]}\n\n'
        self._text_end = b"}" + self._delta_end
        self._legacy = LEGACY in request.options.extra
        self._sends_logprobs = _sends_logprobs(request)
        stream_options = object_or_empty(request.options.extra.get("stream_options"))
        self._wants_usage = bool(stream_options.get("include_usage"))
        self._custom_names = {tool.name for tool in request.tools if tool.kind == "custom"}
        self._opened = self._text_ready = False
        self._numbers: dict[int, int] = {}
        #: Open calls of custom tools. Their input must be extracted from JSON, so they are sent when they are complete.
        self._custom_calls = WholeCalls()
        self._call_extras: list[JSONObject] = []  # for calls that have not started yet

    def _adopt(self, identity: JSONObject) -> None:
        self._identity = identity
        self._set_chunk_fields(identity)

    def _lead_in(self, wire: bytes) -> bytes:
        if self._opened:
            return b""
        # Clients expect the role first. Unescaped quotes cannot occur inside a JSON string, so `"role"` is not text.
        after = [rest.lstrip().removeprefix(b":").lstrip() for rest in wire.split(b'"role"')[1:]]
        has_role = any(value.startswith(b'"assistant"') for value in after)
        opening = self._open()
        return b"" if has_role else opening

    def _set_chunk_fields(self, fields: JSONObject) -> None:
        """Set the fields that precede `choices` in all following chunks."""
        self._chunk_start = b"data: " + to_line(fields)[:-1]
        self._delta_start = self._chunk_start + b',"choices":[{"index":%d,"delta":' % self._index
        self._text_start = self._delta_start + b'{"%s":' % self._text_field.encode()

    def encode(self, events: Sequence[Event]) -> bytes:
        # Fast path: text deltas make up most of a stream.
        if len(events) == 1 and type(event := events[0]) is TextDelta and self._text_ready:
            text = event.text
            return self._text_start + (encode_plain(text) if text.isascii() else to_line(text)) + self._text_end
        out: list[bytes] = []
        for event in events:
            if type(event) is TextDelta and self._text_ready:
                text = event.text
                out += (self._text_start, encode_plain(text) if text.isascii() else to_line(text), self._text_end)
            elif not self._closed:
                out.append(self._other(event))
        return b"".join(out)

    def _finish(self, extension: JSONObject | None) -> bytes:
        """Return the finish reason, the usage (if requested) and `[DONE]`. The last chunk contains `extension`."""
        opening = self.open()
        chunks = [self._last_choice()]
        if self._wants_usage:
            chunks.append({"choices": [], "usage": _usage(self._usage)})
        if extension:
            chunks[-1]["toolspeak"] = extension
        return opening + b"".join(map(self._chunk, chunks)) + _DONE

    def close_choice(self) -> bytes:
        """Return the end of one of several answers, which does not end the stream."""
        return self.open() + self._chunk(self._last_choice())

    def _last_choice(self) -> JSONObject:
        self._end()
        reason = _finish_reason(self._reason, bool(self._numbers), self._legacy)
        return {"choices": [{"index": self._index, "delta": {}, "finish_reason": reason}]}

    def open(self) -> bytes:
        """Return the chunk that begins the answer, unless it has begun."""
        return b"" if self._opened else self._open()

    def _open(self) -> bytes:
        self._opened = self._text_ready = True
        return self._delta({"role": "assistant", "content": ""})

    def _end(self) -> None:
        self._closed = True
        self._text_ready = False

    def _chunk(self, fields: JSONObject) -> bytes:
        return self._chunk_start + b"," + to_line(fields)[1:] + b"\n\n"

    def _delta(self, delta: JSONObject) -> bytes:
        return self._delta_start + to_line(delta) + self._delta_end

    def _other(self, event: Event) -> bytes:
        delta: JSONObject | None = None
        match event:
            case TextDelta(text):
                delta = {self._text_field: text}
            case Noted(note):
                self._text_field = _text_field(self._text_field, note)
                self._text_start = self._delta_start + b'{"%s":' % self._text_field.encode()
            case ReasoningDelta(text):
                delta = {REASONING_FIELDS[0]: text}
            case CallStart() | CallArgs() | CallEnd():
                delta = self._call(event)
            case OpaqueSeen(Opaque(kind, data)) if kind in OPAQUE_FIELDS:
                delta = {kind: data}
            case OpaqueSeen(Opaque(kind, data)) if is_object(data):
                return self._metadata(kind, data)
            case _:
                return self._track(event)
        if delta is None:
            return b""
        return self.open() + self._delta(delta)

    def _metadata(self, kind: str, data: JSONObject) -> bytes:
        """Handle metadata of the reply, or extra fields of the next call."""
        if kind == CALL:
            self._call_extras.append(data)
        elif kind == ANSWER:
            self._set_chunk_fields(self._identity | data)
        elif kind == LOGPROBS and self._sends_logprobs:
            choice = {"index": self._index, "delta": {}, "logprobs": data, "finish_reason": None}
            return self.open() + self._chunk({"choices": [choice]})
        return b""

    def _fail(self, failure: Failure) -> bytes:
        self._end()
        return b"data: " + to_line({"error": error_of(failure)}) + b"\n\n"

    def _call(self, event: CallEvent) -> JSONObject | None:
        if event.index in self._custom_calls or (isinstance(event, CallStart) and event.name in self._custom_names):
            return self._custom_call(event)
        match event:
            case CallStart(index, name, identifier):
                number = self._numbers[index] = len(self._numbers)
                function = {"name": name, "arguments": ""}
                call = {"index": number, "id": identifier, "type": "function", "function": function}
                call |= take_call_extra(self._call_extras, identifier, name)
                return self._piece(number, call)
            case CallArgs(index, fragment):
                number = self._numbers[index]
                return self._piece(number, {"index": number, "function": {"arguments": fragment}})
            case _:
                return None

    def _piece(self, number: int, call: JSONObject) -> JSONObject | None:
        if not self._legacy:
            return {"tool_calls": [call]}
        # The legacy format supports only one call.
        return {"function_call": call["function"]} if number == 0 else None

    def _custom_call(self, event: CallEvent) -> JSONObject | None:
        call = self._custom_calls.feed(event)
        if call is None or not isinstance(call.arguments.get("input"), str):
            return None
        number = self._numbers[event.index] = len(self._numbers)
        return {"tool_calls": [{"index": number, **_wire_call(call, self._custom_names)}]}


class ChoicesEncoder:
    """Encodes several answers to one request as one stream. `current` returns the number of the answer to encode."""

    def __init__(self, request: Request, current: Callable[[], int], *, id: str, created: int, model: str) -> None:
        numbers = range(request.options.n)
        self._encoders = [ReplyEncoder(request, id=id, created=created, model=model, index=at) for at in numbers]
        self._current = current
        self._opened = self._failed = False

    def encode(self, events: Sequence[Event], /) -> bytes:
        self._failed = self._failed or any(isinstance(event, Failure) for event in events)
        at = self._current()
        data = self._encoders[at].encode(events)
        if not data or self._opened or self._failed:
            return data
        self._opened = True  # clients expect the answers to begin in order
        before, after = self._encoders[:at], self._encoders[at + 1 :]
        return b"".join((*(each.open() for each in before), data, *(each.open() for each in after)))

    def close(self, extension: Mapping[str, JSONValue] | None = None) -> bytes:
        """Return the bytes that end the stream. The last answer has the usage of all of them."""
        if self._failed:
            return b""
        *others, last = self._encoders
        return b"".join(each.close_choice() for each in others) + last.close(dict(extension or {}))


def _text_field(field: str, note: Note) -> str:
    """Return the field for the text that follows a note. Text is a refusal until the model is asked again."""
    if note.code == "refusal":
        return "refusal"
    return "content" if note.code.startswith("retry_") else field


def _sends_logprobs(request: Request) -> bool:
    """Whether to send log probabilities. With tools, toolspeak may remove text, so they would not match the reply."""
    return not request.tools


def _finish_reason(reason: FinishReason, called: bool, legacy: bool) -> str:
    if reason in ("length", "content_filter"):
        return reason
    calls = "function_call" if legacy else "tool_calls"
    return calls if called else "stop"


def _usage(usage: Usage) -> JSONObject:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _wire_call(call: ToolCall, custom: Iterable[str]) -> JSONObject:
    input_text = call.arguments.get("input")
    if call.name in custom and isinstance(input_text, str):
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": input_text}}
    function = {"name": call.name, "arguments": to_wire(call.arguments).decode()}
    return {"id": call.id, "type": "function", "function": function}


def encode_reply(
    reply: Reply, request: Request, *, id: str, created: int, model: str, extension: JSONObject | None = None
) -> bytes:
    """Encode a non-streamed reply, or an error object if the turn failed."""
    if reply.failure is not None or reply.finish_reason == "error":
        return to_wire({"error": error_of(reply.failure or FAILED_TURN)})
    legacy = LEGACY in request.options.extra
    custom = {tool.name for tool in request.tools if tool.kind == "custom"} if request.tools else set[str]()
    if not (legacy or custom or extension):
        ordinary = encode_ordinary(reply, id, created, model)
        if ordinary is not None:
            return ordinary
    called = bool(reply.calls)
    message: JSONObject = {"role": "assistant", "content": None if called else "", "refusal": None}
    if reply.text:
        message |= {"content": None, reduce(_text_field, reply.notes, "content"): reply.text}
    message |= filled({REASONING_FIELDS[0]: reply.reasoning})
    call_extras = [part.data for part in reply.opaque if part.kind == CALL and is_object(part.data)]
    calls = [_wire_call(call, custom) | take_call_extra(call_extras, call.id, call.name) for call in reply.calls]
    if called and legacy:
        message["function_call"] = calls[0]["function"]
    elif called:
        message["tool_calls"] = calls
    message |= _joined((part.kind, part.data) for part in reply.opaque if part.kind in OPAQUE_FIELDS)
    logprobs = _logprobs(reply.opaque) if _sends_logprobs(request) else None
    finish = _finish_reason(reply.finish_reason, called, legacy)
    choice: JSONObject = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish}
    body: JSONObject = {"id": id, "object": "chat.completion", "created": created, "model": model}
    body |= {"choices": [choice], "usage": _usage(reply.usage)}
    for part in reply.opaque:
        if part.kind == ANSWER and is_object(part.data):
            body |= part.data
    return to_wire(body | filled({"toolspeak": extension}))


def _logprobs(parts: Iterable[Opaque]) -> JSONObject | None:
    pieces = (part.data.items() for part in parts if part.kind == LOGPROBS and is_object(part.data))
    return _joined(chain.from_iterable(pieces)) or None


def _joined(fields: Iterable[tuple[str, JSONValue]]) -> JSONObject:
    """Return fields as an object. Lists with the same name are joined; of other values, the last one counts."""
    joined: JSONObject = {}
    for name, value in fields:
        before: JSONValue = joined.get(name)
        joined[name] = before + value if is_array(before) and is_array(value) else value
    return joined
