"""Fast decoding of requests that repeat what earlier requests contained.

The results are those of a protocol's `decode_request`, to which unusual and invalid requests are left.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from ...core.types import JSONObject, JSONValue, Message, Request, Tool
from ...errors import UsageError
from .fields import check_depth, has_unique_keys, parse_object
from .resent_values import ResentValues

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
#: Largest number of messages. Servers refuse requests with many more.
_MAX_MESSAGES: Final = 10_000


def items_of(messages: bytes) -> list[msgspec.Raw]:
    """Return the encoded items of a list. Raises DecodeError or UsageError."""
    items = _items(messages)
    if len(items) > _MAX_MESSAGES:
        raise UsageError("there are too many messages")
    return items


def _one_by_one(messages: bytes) -> Iterable[bytes]:
    return [b"[%b]" % item for item in items_of(messages)]


class ResentRequests:
    """Decodes the requests of one protocol. The same bytes of messages, tools and other fields are decoded once.

    Args:
        field: name of the field with the messages.
        placeholder: value of this field while the other fields are decoded; it must become one message.
        decode_messages: decodes a value of that field.
        split: splits an encoded value of that field into values that can be decoded one by one.
    """

    def __init__(
        self,
        field: str,
        placeholder: bytes,
        decode_request: Callable[[JSONObject], Request],
        decode_messages: Callable[[JSONValue], tuple[Message, ...]],
        decode_tools: Callable[[JSONValue], tuple[Tool, ...]],
        split: Callable[[bytes], Iterable[bytes]] = _one_by_one,
    ) -> None:
        self._field = field
        self._head = b'{"%b":' % field.encode()
        self._placeholder = placeholder
        self._decode_request = decode_request
        self._decode_messages = decode_messages
        self._decode_tools = decode_tools
        self._split = split
        self._messages = ResentValues(self._new_messages)
        self._options = ResentValues(self._new_options)
        self._tools = ResentValues(self._new_tools)

    def decode(self, body: bytes) -> Request | None:
        """Decode a request. Returns None if it is unusual or invalid."""
        try:
            fields = _fields(body)
            if not has_unique_keys(body, _encode(fields)):
                return None
            messages = self._read_messages(bytes(fields.pop(self._field)))
            # A choice that names tools is decoded together with them.
            named = bytes(fields.get("tool_choice", b"")).startswith(b"{")
            tools = None if named else fields.pop("tools", None)
            request = self._options.get(_encode(fields))
            assert request is not None
            listed = self._tools.get(bytes(tools)) if tools is not None else request.tools
        except (msgspec.DecodeError, UnicodeError, RecursionError, UsageError, KeyError):
            return None
        if not messages or not all(messages):
            return None
        return msgspec.structs.replace(request, messages=(*request.messages[:-1], *messages), tools=listed or ())

    def _read_messages(self, value: bytes) -> Sequence[Message | None]:
        """Decode a value of the field with the messages. An unusual message becomes None."""
        groups = self._messages.get_all(self._split(value))
        return [message for group in groups if group for message in group]

    def _new_messages(self, data: bytes) -> tuple[Message, ...]:
        return self._decode_messages(_parse(self._head + data + b"}")[self._field])

    def _new_options(self, data: bytes) -> Request:
        rest = b"," + data[1:] if len(data) > 2 else b"}"
        return self._decode_request(_parse(self._head + self._placeholder + rest))

    def _new_tools(self, data: bytes) -> tuple[Tool, ...]:
        return self._decode_tools(_parse(b'{"tools":%b}' % data)["tools"])


def _parse(data: bytes) -> JSONObject:
    value = parse_object(data)
    check_depth(value)
    return value
