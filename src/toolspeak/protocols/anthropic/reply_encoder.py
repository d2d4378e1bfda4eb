"""Encoder for replies to clients of the Messages API: streams, complete messages and errors.

Each text, thought and call gets its own block, which ends when the next block starts. Text deltas, the bulk of a
stream, are written from byte templates. A stream starts with estimated input tokens and ends with the actual usage.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from ...core.events import (
    CallArgs,
    CallEnd,
    CallEvent,
    CallStart,
    Event,
    Failure,
    OpaqueSeen,
    ReasoningDelta,
    Reply,
    TextDelta,
)
from ...core.parsing.tool_index import toolkit
from ...core.text import estimate_tokens
from ...core.types import (
    JSONObject,
    JSONValue,
    Message,
    Opaque,
    Request,
    TextPart,
    Tool,
    ToolCall,
    Usage,
    is_array,
    is_object,
)
from ...errors import NotKeptError, ToolspeakError
from ..shared.fields import (
    encode_plain,
    error_value,
    filled,
    http_status,
    object_or_empty,
    read_json,
    shorten,
    text_or_empty,
    to_line,
    to_wire,
    without,
)
from ..shared.passthrough_bytes import Identity, PassthroughEncoder
from ..shared.reply_encoder import FAILED_TURN, Events, Extra
from . import blocks

_TAIL = b"}}\n\n"


def _frame(kind: str, **fields: JSONValue) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + to_line({"type": kind, **fields}) + b"\n\n"


def _block_start(number: int, block: JSONObject) -> bytes:
    head = b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":' % number
    return head + to_line(block) + b"}\n\n"


def _block_stop(number: int) -> bytes:
    return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % number


def _empty_block(kind: str) -> JSONObject:
    return {"type": "text", "text": ""} if kind == "text" else {"type": kind, kind: "", "signature": ""}


def _delta_head(index: int, kind: str, field: str) -> bytes:
    """Return the bytes of a delta event that precede its text."""
    head = f'{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{field}":'
    return b"event: content_block_delta\ndata: " + head.encode()


class _OpenCallBlock:
    """A call whose block has not been closed yet."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.head = _delta_head(number, "input_json_delta", "partial_json")
        self.fragments: list[str] = []
        self.checked = False

    def is_complete(self) -> bool:
        """Whether the arguments are complete. Only the first check, when the next call starts, parses them."""
        complete = not self.checked and is_object(read_json("".join(self.fragments)))
        self.checked = True
        return complete


class ReplyEncoder(PassthroughEncoder):
    """Encodes events as server-sent events of the Messages API."""

    def __init__(self, request: Request, *, id: str, created: int, model: str) -> None:
        super().__init__()
        self._id = id
        self._model = model
        self._request = request
        self._started = False
        #: Index of the next block; kind of the open text or thinking block; bytes that precede each of its deltas.
        self._next = 0
        self._kind = ""
        self._head = b""
        #: Same as `_head` while a text block is open, otherwise empty.
        self._text_head = b""
        self._calls: dict[int, _OpenCallBlock] = {}
        self._has_calls = False
        #: Extra fields from an Anthropic upstream, for calls (by id), the stop reason and the usage.
        self._call_extras: dict[str, JSONObject] = {}
        self._stop: JSONValue = None
        self._usage_extra: JSONObject = {}

    def encode(self, events: Sequence[Event]) -> bytes:
        if len(events) == 1 and type(only := events[0]) is TextDelta and self._text_head:
            text = only.text
            return self._text_head + (encode_plain(text) if text.isascii() else to_line(text)) + _TAIL
        out: list[bytes] = []
        for event in events:
            if type(event) is TextDelta and self._text_head:
                text = event.text
                out += (self._text_head, encode_plain(text) if text.isascii() else to_line(text), _TAIL)
            elif not self._closed:
                out.append(self._encode_event(event))
        return b"".join(out)

    def _prefix_for(self, identity: Identity, wire: bytes) -> bytes | None:
        """Return the bytes that open the block, or None if the upstream uses a different block index.

        No event to pass through contains the identity of the reply: toolspeak writes the first event of a stream.
        """
        kind = identity["type"]
        number = self._next - 1 if kind == self._kind else self._next
        return self._open_text(kind) if identity["index"] == number else None

    def _finish(self, extension: JSONObject | None) -> bytes:
        """Return the events that close open blocks and the message. The last one contains `extension`."""
        ends = self._close_text() + b"".join(map(self._end_call, list(self._calls)))
        delta = blocks.stop_fields(self._reason, self._has_calls, self._stop)
        ends += _frame("message_delta", delta=delta, usage=blocks.usage_to_wire(self._usage, self._usage_extra))
        last = _frame("message_stop", **filled({"toolspeak": extension}))
        opening = self._message_start()
        self._closed = True
        return opening + ends + last

    def _message_start(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        usage_so_far = self._usage if self._usage.input_tokens else Usage(_estimate_input_tokens(self._request))
        usage = blocks.usage_to_wire(msgspec.structs.replace(usage_so_far, output_tokens=0, reasoning_tokens=0), {})
        return _frame("message_start", message=_message(self._id, self._model, [], {"stop_reason": None}, usage))

    def _encode_event(self, event: Event) -> bytes:
        match event:
            case TextDelta(text):
                return self._text_delta("text", text)
            case ReasoningDelta(text):
                return self._text_delta(blocks.THINKING, text)
            case CallStart() | CallArgs() | CallEnd():
                return self._call(event)
            case OpaqueSeen(part):
                return self._opaque(part)
            case _:
                return self._track(event)

    def _fail(self, failure: Failure) -> bytes:
        self._closed = True
        self._kind, self._text_head, self._current = "", b"", None
        return _frame("error", error=_error(failure))

    def _start_block(self, block: JSONObject) -> bytes:
        number = self._next
        self._next += 1
        return self._message_start() + _block_start(number, block)

    def _open_text(self, kind: str) -> bytes:
        """Return the bytes that open a text or thinking block; empty if such a block is already open."""
        if self._kind == kind:
            return b""
        shut = self._message_start() + self._close_text()
        self._kind = kind
        self._head = _delta_head(self._next, f"{kind}_delta", kind)
        self._text_head = self._head if kind == "text" else b""
        return shut + self._start_block(_empty_block(kind))

    def _text_delta(self, kind: str, text: str) -> bytes:
        return self._open_text(kind) + self._head + to_line(text) + _TAIL if text else b""

    def _delta(self, delta: JSONObject) -> bytes:
        return _frame("content_block_delta", index=self._next - 1, delta=delta)

    def _close_text(self) -> bytes:
        if not self._kind:
            return b""
        self._kind, self._text_head, self._current = "", b"", None
        return _block_stop(self._next - 1)

    def _call(self, event: CallEvent) -> bytes:
        match event:
            case CallStart(index, name, identifier):
                # Some upstreams end their calls only at the end of the reply, but clients expect sequential blocks.
                done = [self._end_call(key) for key, call in list(self._calls.items()) if call.is_complete()]
                shut = self._close_text()
                self._has_calls = True
                self._calls[index] = _OpenCallBlock(self._next)
                identifier = identifier or _generated_call_id(self._id, self._next)
                return b"".join(done) + shut + self._start_block(_tool_use(identifier, name, {}, self._call_extras))
            case CallArgs(index, fragment):
                call = self._calls.get(index)
                if call is None:  # trailing white space of an ended call
                    return b""
                call.fragments.append(fragment)
                return call.head + to_line(fragment) + _TAIL
            case _:
                return self._end_call(event.index, ended=True)

    def _end_call(self, index: int, ended: bool = False) -> bytes:
        call = self._calls.pop(index, None)
        if call is None:
            return b""
        # Clients join the deltas and parse the result, so a call without arguments must send an empty object.
        nothing = call.head + b'"{}"' + _TAIL if ended and not call.fragments else b""
        return nothing + _block_stop(call.number)

    def _opaque(self, part: Opaque) -> bytes:
        data = part.data
        if blocks.is_block(part):
            return self._opaque_block(data)
        match part.kind:
            case "thinking" if is_object(data):
                late = b"" if self._kind == blocks.THINKING else self._open_text(blocks.THINKING)
                text = data.get("thinking")
                if late and isinstance(text, str) and text:
                    late += self._text_delta(blocks.THINKING, text)
                signature = self._delta({"type": "signature_delta", "signature": data.get("signature")})
                return late + signature + self._close_text()
            case "citations" if is_array(data):
                opened = self._open_text("text")
                cited = [self._delta({"type": "citations_delta", "citation": one}) for one in data]
                return opened + b"".join(cited) + self._close_text()
            case _:
                self._store_extra(part)
                return b""

    def _store_extra(self, part: Opaque) -> None:
        if not is_object(part.data):
            return
        match part.kind:
            case "tool_use":
                self._call_extras[str(part.data.get("id"))] = without(part.data, "id")
            case "stop":
                self._stop = part.data
            case "usage":
                self._usage_extra = part.data
            case _:  # a part from another protocol
                pass

    def _opaque_block(self, block: JSONObject) -> bytes:
        shut = self._close_text()
        arguments = block.get("input")
        if not is_object(arguments):
            return shut + self._start_block(block) + _block_stop(self._next - 1)
        started = self._start_block({**block, "input": {}})
        delta = self._delta({"type": "input_json_delta", "partial_json": to_wire(arguments).decode()})
        return shut + started + delta + _block_stop(self._next - 1)


def _message(id: str, model: str, content: list[JSONObject], end: JSONObject, usage: JSONObject) -> JSONObject:
    head: JSONObject = {"id": id, "type": "message", "role": "assistant", "model": model, "content": content}
    return {**head, "stop_sequence": None, **end, "usage": usage}


def encode_reply(
    reply: Reply, request: Request, *, id: str, created: int, model: str, extension: Extra = None, events: Events = ()
) -> bytes:
    """Encode a non-streamed reply, or an error object if the turn failed. `events`, if given, determine the order."""
    if reply.failure is not None or reply.finish_reason == "error":
        return to_wire({"type": "error", "error": _error(reply.failure or FAILED_TURN)})
    upstream_data = {part.kind: part.data for part in reply.opaque if is_object(part.data)}
    content = _ordered_content(events, reply, id) if events else _default_content(reply, id)
    end = blocks.stop_fields(reply.finish_reason, bool(reply.calls), upstream_data.get(blocks.STOP))
    body = _message(id, model, content, end, blocks.usage_to_wire(reply.usage, upstream_data.get(blocks.USAGE, {})))
    return to_wire(body | filled({"toolspeak": extension}))


def _generated_call_id(message: str, number: int) -> str:
    """Return an id, derived from the message id and block number, for a call that has no id."""
    return f"toolu_{message}_{number}"


def _tool_use(identifier: str, name: str, arguments: JSONObject, extras: Mapping[str, JSONObject]) -> JSONObject:
    """Return a `tool_use` block. `extras` maps call ids to extra fields."""
    return {"type": "tool_use", "id": identifier, "name": name, "input": arguments, **extras.get(identifier, {})}


def _call_block(call: ToolCall, extras: Mapping[str, JSONObject], message: str, number: int) -> JSONObject:
    return _tool_use(call.id or _generated_call_id(message, number), call.name, call.arguments, extras)


def _extras_by_id(reply: Reply) -> dict[str, JSONObject]:
    """Return the extra fields of calls by call id."""
    extras = [part.data for part in reply.opaque if part.kind == blocks.TOOL_USE and is_object(part.data)]
    return {str(data.get("id")): without(data, "id") for data in extras}


def _ordered_content(events: Iterable[Event], reply: Reply, message: str) -> list[JSONObject]:
    """Return the blocks in the order of the events, because the service rejects thinking blocks that were moved."""
    calls, extras = {call.id: call for call in reply.calls}, _extras_by_id(reply)
    content = _OrderedContent()
    for event in events:
        match event:
            case TextDelta(text):
                content.add_text("text", text)
            case ReasoningDelta(text):
                content.add_text(blocks.THINKING, text)
            case OpaqueSeen(part):
                content.add_opaque(part)
            case CallStart() if event.id in calls:
                content.add_block(_call_block(calls[event.id], extras, message, len(content.blocks)))
            case _:  # already part of the reply
                pass
    content.close_text()
    return content.blocks


class _OrderedContent:
    def __init__(self) -> None:
        self.blocks: list[JSONObject] = []
        self._open = ""  # kind of the last block if more text can be added
        self._pieces: list[str] = []

    def close_text(self) -> None:
        if self._open:
            self.blocks[-1][self._open] = "".join(self._pieces)
            self._open, self._pieces = "", []

    def add_block(self, block: JSONObject) -> None:
        self.close_text()
        self.blocks.append(block)

    def add_text(self, kind: str, text: str) -> None:
        if not text and kind != self._open:
            return
        self._open_text(kind)
        self._pieces.append(text)

    def _open_text(self, kind: str) -> None:
        if kind != self._open:
            self.add_block(_empty_block(kind))
            self._open = kind

    def add_opaque(self, part: Opaque) -> None:
        """Add an opaque part if it belongs to this protocol."""
        data = part.data
        if blocks.is_block(part):
            self.add_block(data)
        elif part.kind == blocks.THINKING and is_object(data):
            if self._open == blocks.THINKING:
                self.close_text()
                self.blocks.pop()
            self.add_block(data)
        elif part.kind == blocks.CITATIONS and is_array(data):
            self._open_text("text")
            self.blocks[-1][blocks.CITATIONS] = data
            self.close_text()


def _default_content(reply: Reply, message: str) -> list[JSONObject]:
    """Return the blocks in default order: thinking, opaque blocks, text, calls."""
    content = [*_thoughts(reply), *(part.data for part in reply.opaque if blocks.is_block(part)), *_texts(reply)]
    extras = _extras_by_id(reply)
    for call in reply.calls:
        content.append(_call_block(call, extras, message, len(content)))
    return content


def _thoughts(reply: Reply) -> list[JSONObject]:
    """Return the signed thinking blocks. Without any, return all reasoning as one unsigned block."""
    signed = [part.data for part in reply.opaque if part.kind == blocks.THINKING and is_object(part.data)]
    if signed or not reply.reasoning:
        return signed
    return [{"type": blocks.THINKING, blocks.THINKING: reply.reasoning, "signature": ""}]


def _texts(reply: Reply) -> list[JSONObject]:
    cited = [one for part in reply.opaque if part.kind == blocks.CITATIONS and is_array(part.data) for one in part.data]
    if not reply.text and not cited:
        return []
    return [{"type": "text", "text": reply.text, **filled({"citations": cited})}]


#: Size of the sample for token estimates. The rest is extrapolated, because the estimate delays the first byte.
_SAMPLE_CHARS = 512
#: Token overhead of each message and each tool.
_FRAME_TOKENS = 4


def _estimate_input_tokens(request: Request) -> int:
    """Estimate the input tokens of a request, excluding media, for the first event of a stream."""
    texts = [text for message in request.messages for text in _message_texts(message)]
    in_tools, longest = toolkit(request.tools).derive_from_all(_measure)
    characters = sum(map(len, texts)) + in_tools
    if not characters:
        return 0
    sample = max((*texts, longest), key=len)[:_SAMPLE_CHARS]
    frames = _FRAME_TOKENS * (len(request.messages) + len(request.tools))
    return frames + characters * _estimate_sample(sample) // len(sample)


#: The sample is usually a tool or a system prompt, which is sent again and again.
_estimate_sample = lru_cache(64)(estimate_tokens)


def _measure(tools: Iterable[Tool]) -> tuple[int, str]:
    """Return the number of characters in tools, and the text of the longest one."""
    texts = [f"{tool.name} {tool.description} {to_wire(tool.parameters).decode()}" for tool in tools]
    return sum(map(len, texts)), max(texts, key=len, default="")


def _message_texts(message: Message) -> Iterator[str]:
    yield from (part.text for part in message.parts if isinstance(part, TextPart))
    yield from (to_wire(call.arguments).decode() for call in message.calls)
    yield from (result.content for result in message.results)


def _error(failure: Failure) -> JSONObject:
    return {"type": blocks.error_type(failure.status, failure.kind, failure.error_type), "message": failure.message}


def decode_error(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """Convert an HTTP error response to a `Failure`. Header names must be in lower case."""
    value = error_value(body)
    failure = blocks.error_failure(value, status, body, f"the upstream returned status {status}")
    identifier = headers.get("request-id") or text_or_empty(object_or_empty(value).get("request_id"))
    if not identifier:
        return failure
    return msgspec.structs.replace(failure, message=f"{failure.message} (request {shorten(identifier)})")


def encode_error(error: ToolspeakError) -> tuple[int, bytes]:
    """Return the HTTP status and body for an error. An upstream's own status is preserved."""
    status = http_status(error)
    fields: JSONObject = {"type": blocks.error_type(status), "message": str(error)}
    if isinstance(error, NotKeptError):  # this code makes the SDKs resend the whole conversation
        fields["details"] = {"error_code": "thread_not_found"}
    return status, to_wire({"type": "error", "error": fields})
