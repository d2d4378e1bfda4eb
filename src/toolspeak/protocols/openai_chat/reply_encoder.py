"""What our own face answers to a chat-completions client: events to chunks, a reply to an answer.

Text, the bulk of a stream, goes out by byte templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ...core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    FinishReason,
    OpaqueSeen,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageSeen,
)
from ...core.types import JSONObject, JSONValue, Opaque, Request, ToolCall, Usage, is_array, is_object
from ..shared.fields import to_line, to_wire, without
from ..shared.openai_errors import error_of
from ..shared.passthrough_bytes import NamingEncoder
from .chunks import ANSWER, CALL, CARRIED, LOGPROBS, OBJECT
from .messages import REASONING_FIELDS
from .request import LEGACY

_encode = msgspec.json.Encoder().encode
_DONE = b"data: [DONE]\n\n"


class _Custom:
    """A call of a custom tool: its one text is inside JSON until its end, so it is sent then."""

    __slots__ = ("fragments", "start")

    def __init__(self, start: CallStart) -> None:
        self.start = start
        self.fragments: list[str] = []


class ReplyEncoder(NamingEncoder):
    """Events to the server-sent events of chat completions."""

    def __init__(self, request: Request, *, id: str, created: int, model: str) -> None:
        super().__init__()
        self._adopt({"id": id, "object": OBJECT, "created": created, "model": model})
        self._behind = b',"finish_reason":null}]}\n\n'
        self._after_text = b"}" + self._behind
        self._legacy = LEGACY in request.options.extra
        self._tells_logprobs = _tells_logprobs(request)
        self._wants_usage = _wants_usage(request)
        self._kinds = {tool.name for tool in request.tools if tool.kind == "custom"}
        self._opened = self._closed = self._live = False
        self._numbers: dict[int, int] = {}
        self._custom: dict[int, _Custom] = {}
        self._beside: list[JSONObject] = []  # what calls say besides
        self._usage = Usage()
        self._reason: FinishReason = "unknown"

    def _adopt(self, name: JSONObject) -> None:
        self._named = name
        self._begin_chunks_with(name)

    def _lead(self, wire: bytes) -> bytes:
        if self._opened:
            return b""
        # Clients want to hear first who speaks. No string of JSON holds these quotes, so they are a key and its value.
        after = [rest.lstrip().removeprefix(b":").lstrip() for rest in wire.split(b'"role"')[1:]]
        told = any(value.startswith(b'"assistant"') for value in after)
        opening = self._open()
        return b"" if told else opening

    def _begin_chunks_with(self, fields: JSONObject) -> None:
        """What stands before the choices of every chunk from here on."""
        self._head = b"data: " + to_line(fields)[:-1]
        self._before = self._head + b',"choices":[{"index":0,"delta":'
        self._text = self._before + b'{"content":'

    def encode(self, events: Sequence[Event]) -> bytes:
        """The bytes to send for these events."""
        # One text, then many: the bulk of every stream comes first and makes no detours.
        if len(events) == 1 and type(event := events[0]) is TextDelta and self._live:
            text = event.text
            return self._text + (_encode(text) if text.isascii() else to_line(text)) + self._after_text
        out: list[bytes] = []
        for event in events:
            if type(event) is TextDelta and self._live:
                text = event.text
                out += (self._text, _encode(text) if text.isascii() else to_line(text), self._after_text)
            elif not self._closed:
                out.append(self._other(event))
        return b"".join(out)

    def close(self, extension: JSONObject | None = None) -> bytes:
        """The last chunk, the usage if it was asked for, and the end. `extension` goes into the last chunk."""
        if self._closed:
            return b""
        if self._reason == "error":
            return self._fail(Failure("the turn ended in an error"))
        opening = b"" if self._opened else self._open()
        self._end()
        reason = _finish_word(self._reason, bool(self._numbers), self._legacy)
        chunks: list[JSONObject] = [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}]
        if self._wants_usage:
            chunks.append({"choices": [], "usage": _usage(self._usage)})
        if extension:
            chunks[-1]["toolspeak"] = extension
        return opening + b"".join(map(self._chunk, chunks)) + _DONE

    def _open(self) -> bytes:
        self._opened = self._live = True
        return self._delta({"role": "assistant", "content": ""})

    def _end(self) -> None:
        self._closed = True
        self._live = False

    def _chunk(self, fields: JSONObject) -> bytes:
        return self._head + b"," + to_line(fields)[1:] + b"\n\n"

    def _delta(self, delta: JSONObject) -> bytes:
        return self._before + to_line(delta) + self._behind

    def _other(self, event: Event) -> bytes:
        delta: JSONObject | None = None
        match event:
            case TextDelta(text):
                delta = {"content": text}
            case ReasoningDelta(text):
                delta = {REASONING_FIELDS[0]: text}
            case CallStart() | CallArgs() | CallEnd():
                delta = self._call(event)
            case OpaqueSeen(Opaque(kind, data)) if kind in CARRIED:
                delta = {kind: data}
            case OpaqueSeen(Opaque(kind, data)) if is_object(data):
                return self._about(kind, data)
            case UsageSeen(usage):
                self._usage = usage
            case Finish(reason):
                self._reason = reason
            case Failure():
                return self._fail(event)
            case _:  # notes and judgements are for the extension
                pass
        if delta is None:
            return b""
        return (b"" if self._opened else self._open()) + self._delta(delta)

    def _about(self, kind: str, data: JSONObject) -> bytes:
        """What is said about the answer, or about a call to come."""
        if kind == CALL:
            self._beside.append(data)
        elif kind == ANSWER:
            self._begin_chunks_with(self._named | data)
        elif kind == LOGPROBS and self._tells_logprobs:
            choice = {"index": 0, "delta": {}, "logprobs": data, "finish_reason": None}
            return (b"" if self._opened else self._open()) + self._chunk({"choices": [choice]})
        return b""

    def _fail(self, failure: Failure) -> bytes:
        self._end()
        return b"data: " + to_line({"error": error_of(failure)}) + b"\n\n"

    def _call(self, event: CallStart | CallArgs | CallEnd) -> JSONObject | None:
        match event:
            case CallStart(index, name) if name in self._kinds:
                self._custom[index] = _Custom(event)
                return None
            case CallArgs(index, fragment) if index in self._custom:
                self._custom[index].fragments.append(fragment)
                return None
            case CallEnd(index) if index in self._custom:
                return self._custom_call(index, self._custom.pop(index), event.valid)
            case CallStart(index, name, identifier):
                number = self._numbers[index] = len(self._numbers)
                function = {"name": name, "arguments": ""}
                call = {"index": number, "id": identifier, "type": "function", "function": function}
                call |= _beside(self._beside, identifier, name)
                return self._piece(number, call)
            case CallArgs(index, fragment):
                number = self._numbers[index]
                return self._piece(number, {"index": number, "function": {"arguments": fragment}})
            case _:
                return None

    def _piece(self, number: int, call: JSONObject) -> JSONObject | None:
        if not self._legacy:
            return {"tool_calls": [call]}
        # One function at most was called in those days.
        return {"function_call": call["function"]} if number == 0 else None

    def _custom_call(self, index: int, call: _Custom, valid: bool) -> JSONObject | None:
        given = _input_of("".join(call.fragments)) if valid else None
        if given is None:
            return None
        number = self._numbers[index] = len(self._numbers)
        wire = _wire_call(ToolCall(call.start.name, {"input": given}, call.start.id), self._kinds)
        return {"tool_calls": [{"index": number, **wire}]}


def _input_of(arguments: str) -> str | None:
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return None
    given = value.get("input") if is_object(value) else None
    return given if isinstance(given, str) else None


def _tells_logprobs(request: Request) -> bool:
    """Beside tools a text may be taken apart, and what was said of the whole of it is no longer true."""
    return not request.tools


def _wants_usage(request: Request) -> bool:
    given = request.options.extra.get("stream_options")
    return is_object(given) and bool(given.get("include_usage"))


def _finish_word(reason: FinishReason, called: bool, legacy: bool) -> str:
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


def _beside(said: list[JSONObject], identifier: str, name: str) -> JSONObject:
    """What is said about a call besides; each is used once."""
    for one in said:
        if one.get("id", identifier) == identifier and one.get("name", name) == name:
            said.remove(one)
            return without(one, "id", "name")
    return {}


def _wire_call(call: ToolCall, custom: Iterable[str]) -> JSONObject:
    given = call.arguments.get("input")
    if call.name in custom and isinstance(given, str):
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": given}}
    function = {"name": call.name, "arguments": to_wire(call.arguments).decode()}
    return {"id": call.id, "type": "function", "function": function}


def encode_reply(
    reply: Reply, request: Request, *, id: str, created: int, model: str, extension: JSONObject | None = None
) -> bytes:
    """The answer to a client that did not ask for a stream; an error object when the turn broke."""
    if reply.failure is not None or reply.finish_reason == "error":
        return to_wire({"error": error_of(reply.failure or Failure("the turn ended in an error"))})
    legacy = LEGACY in request.options.extra
    called = bool(reply.calls)
    message: JSONObject = {"role": "assistant", "content": reply.text or (None if called else "")}
    message["refusal"] = None
    if reply.reasoning:
        message[REASONING_FIELDS[0]] = reply.reasoning
    custom = {tool.name for tool in request.tools if tool.kind == "custom"}
    beside = [part.data for part in reply.opaque if part.kind == CALL and is_object(part.data)]
    calls = [_wire_call(call, custom) | _beside(beside, call.id, call.name) for call in reply.calls]
    if called and legacy:
        message["function_call"] = calls[0]["function"]
    elif called:
        message["tool_calls"] = calls
    message |= _carried(reply.opaque)
    body: JSONObject = {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": _logprobs(reply.opaque) if _tells_logprobs(request) else None,
                "finish_reason": _finish_word(reply.finish_reason, called, legacy),
            }
        ],
        "usage": _usage(reply.usage),
    }
    for part in reply.opaque:
        if part.kind == ANSWER and is_object(part.data):
            body |= part.data
    return to_wire(body | {"toolspeak": extension} if extension else body)


def _logprobs(parts: Iterable[Opaque]) -> JSONObject | None:
    """How likely the words of an answer were, put together from what came piece by piece."""
    whole: JSONObject = {}
    for part in parts:
        for name, said in part.data.items() if part.kind == LOGPROBS and is_object(part.data) else ():
            before: JSONValue = whole.get(name)
            whole[name] = before + said if is_array(before) and is_array(said) else said
    return whole or None


def _carried(parts: Iterable[Opaque]) -> JSONObject:
    """Carried fields, put together from what came piece by piece."""
    fields: JSONObject = {}
    for part in parts:
        if part.kind in CARRIED:
            before: JSONValue = fields.get(part.kind)
            fields[part.kind] = before + part.data if is_array(before) and is_array(part.data) else part.data
    return fields
