"""Fast decoding and encoding of requests that repeat what earlier requests contained.

The results are those of `decode_request` and `encode_request`, to which unusual requests are left.
"""

from functools import partial
from typing import Literal

import msgspec

from ...core.bounded_cache import BoundedCache
from ...core.parsing.tool_index import toolkit
from ...core.types import JSONValue, Message, Request, TextPart, Tool
from ..shared.fields import MAX_DEPTH, check_depth, encode_plain, has_unique_keys, parse_object
from ..shared.resent_values import ResentRequests, ResentValues, items_of
from .messages import PROTOCOL, decode_messages, encode_messages
from .request import LEGACY, decode_request, decode_tools, encode_fields, encode_request, encode_tools, is_own

_decode_messages = partial(decode_messages, path="messages")
#: Role of the results of legacy function calls, whose ids depend on the messages before.
_LEGACY_ROLE = "function"
#: Size of the largest encoded set of fields that is kept, and of all of them together. Nearly all clients use a few.
_MAX_FIELDS_BYTES, _MAX_FIELDS_TOTAL = 32 * 1024, 1024 * 1024
#: Levels of nesting around a message.
_OUTER_LEVELS = 2


class _PlainMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message with a text and nothing else."""

    role: Literal["system", "user", "assistant"]
    content: str


_plain_message = msgspec.json.Decoder(_PlainMessage).decode


def _message(data: bytes) -> Message | None:
    try:
        plain = _plain_message(data)
        if plain.content and ((encoded := encode_plain(plain)) == data or has_unique_keys(data, encoded)):
            return Message(plain.role, (TextPart(plain.content),))
    except msgspec.ValidationError:
        pass
    value = parse_object(data)
    check_depth(value, MAX_DEPTH - _OUTER_LEVELS)
    if value.get("role") == _LEGACY_ROLE or value.get("function_call") is not None:
        return None
    return _decode_messages([value])[0]


def _message_wire(message: Message) -> bytes:
    """Encode a message. Returns empty bytes if it becomes several messages or none, or has half a character."""
    role, part = message.role, message.parts[0] if len(message.parts) == 1 else None
    try:
        if type(part) is TextPart and role != "tool" and not part.extra and message == Message(role, message.parts):
            return encode_plain(_PlainMessage(role, part.text))
        wires = encode_messages(Request("", (message,), protocol=PROTOCOL), frozenset())
        return encode_plain(wires[0]) if len(wires) == 1 else b""
    except (UnicodeEncodeError, TypeError, OverflowError):
        return b""


_messages = ResentValues(_message, _message_wire)


class _ChatRequests(ResentRequests):
    def _read_messages(self, value: bytes) -> list[Message | None]:
        return _messages.get_all(map(bytes, items_of(value)))


_requests = _ChatRequests("messages", b'[{"role":"user"}]', decode_request, _decode_messages, decode_tools)


def decode_body(body: bytes) -> Request | None:
    """Decode a request. Returns None if it is unusual or invalid."""
    request = _requests.decode(body)
    return None if request is None or LEGACY in request.options.extra else request


def encode_body(request: Request) -> bytes:
    """Encode a request, with the bytes of messages that are known already."""
    if not is_own(request):
        return encode_request(request)
    wires = _messages.wires(request.messages)
    try:
        model, fields = encode_plain(request.model), _fields_wire(request)
    except (UnicodeEncodeError, TypeError, OverflowError):
        return encode_request(request)
    if not fields or not all(wires):
        return encode_request(request)
    return b'{"model":%b,"messages":[%b]%b' % (model, b",".join(wires), fields)


#: The encoded fields of recent requests, without model and messages, by the identity of what they are made of. Entries
#: keep that alive.
_field_wires: BoundedCache[tuple[int, int, int, bool], tuple[Request, bytes]] = BoundedCache(_MAX_FIELDS_TOTAL)


def _fields_wire(request: Request) -> bytes:
    """Return the end of a request after its messages, or empty bytes if its fields depend on the messages."""
    key = (id(request.options), id(request.tools), id(request.tool_choice), request.stream)
    entry = _field_wires.get(key)
    if entry is not None:
        return entry[1]
    if any(tool.kind == "custom" for tool in request.tools):
        return b""
    fields = encode_plain(encode_fields(request, set(), _tools_wire(request.tools)))
    wire = b"," + fields[1:] if len(fields) > 2 else b"}"
    if len(wire) <= _MAX_FIELDS_BYTES:
        _field_wires.keep(key, (msgspec.structs.replace(request, messages=()), wire), 2 * len(wire))
    return wire


def _tools_wire(tools: tuple[Tool, ...]) -> JSONValue:
    """Return the encoded tools. They are encoded once while the tools are cached."""
    return toolkit(tools).derive_from_all(_encoded_tools) if tools else None


def _encoded_tools(tools: tuple[Tool, ...]) -> JSONValue:
    return msgspec.Raw(encode_plain(encode_tools(tools, same_protocol=True)))
