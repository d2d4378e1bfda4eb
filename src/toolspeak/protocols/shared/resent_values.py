"""Requests and values that clients send again and again: agents repeat the whole conversation with every request.

A `ResentValues` maps the bytes of a JSON value to its decoded form, so each message is decoded only once. It can also
keep the bytes that a decoded value has in a request to an upstream. A `ResentRequests` decodes whole requests with such
tables; the results are those of a protocol's `decode_request`, to which unusual and invalid requests are left.
`cached_tools` caches decoded tool declarations: equal declarations yield the same tuple object, so derived data can be
cached by object identity (see `core.parsing.tool_index`). Tools are immutable and therefore safe to share.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from ...core.bounded_cache import BoundedCache
from ...core.schema.json_values import encode_json
from ...core.types import JSONObject, JSONValue, Message, Request, Tool, is_array
from ...errors import UsageError
from .fields import check_depth, encode_plain, has_unique_keys, parse_object

T = TypeVar("T")

#: Maximum memory of one generation, and maximum size of one value, in bytes of JSON. Coding agents send up to 75 kB of
#: tools.
MAX_BYTES, MAX_VALUE_BYTES = 5 * 1024 * 1024 // 2, 256 * 1024
#: Approximate memory that an entry takes in addition to its texts.
ENTRY_BYTES = 400


class _Generation(Generic[T]):
    def __init__(self) -> None:
        self.size = 0
        self.by_bytes: dict[bytes, T] = {}
        #: Values and their bytes for an upstream, by the identity of the value, which the entry keeps alive.
        self.wires: dict[int, tuple[T, bytes]] = {}


class ResentValues(Generic[T]):
    """A bounded table of decoded values. What was not used for a whole generation is forgotten.

    Args:
        decode: decodes the bytes of a value. A value for which it returns None is not kept.
        encode: returns the bytes of a decoded value for an upstream; needed only for `wire`.
    """

    def __init__(self, decode: Callable[[bytes], T | None], encode: Callable[[T], bytes] = lambda _: b"") -> None:
        self._decode = decode
        self._encode = encode
        self._young: _Generation[T] = _Generation()
        self._old: _Generation[T] = _Generation()

    def get(self, data: bytes) -> T | None:
        """Return the decoded value of these bytes; None if it cannot be decoded."""
        value = self._young.by_bytes.get(data)
        if value is not None:
            return value
        value = self._old.by_bytes.get(data)
        if value is None:
            value = self._decode(data)
        if value is not None and len(data) <= MAX_VALUE_BYTES:
            self._make_room(2 * len(data)).by_bytes[data] = value  # the bytes and what they say
        return value

    def get_all(self, values: Iterable[bytes]) -> list[T | None]:
        """Return `get` of each value. Most were in the request before."""
        look_up = self._young.by_bytes.get
        return [look_up(data) or self.get(data) for data in values]

    def wires(self, values: Iterable[T]) -> list[bytes]:
        look_up = self._young.wires.get
        return [entry[1] if (entry := look_up(id(value))) is not None else self.wire(value) for value in values]

    def wire(self, value: T) -> bytes:
        """Return the bytes of a value for an upstream."""
        kept = self._young.wires.get(id(value))
        if kept is not None:
            return kept[1]
        kept = self._old.wires.get(id(value)) or (value, self._encode(value))
        if len(kept[1]) <= MAX_VALUE_BYTES:
            self._make_room(len(kept[1])).wires[id(value)] = kept
        return kept[1]

    def _make_room(self, size: int) -> _Generation[T]:
        """Return the generation to keep a value in."""
        if self._young.size + size + ENTRY_BYTES > MAX_BYTES:
            self._old, self._young = self._young, _Generation()
        self._young.size += size + ENTRY_BYTES
        return self._young


#: Limits for one entry and for all entries of a protocol, in bytes of JSON (about a fifth of the memory used). Coding
#: agents send up to 75 kB. The size is limited, not the number of entries, because clients can send tools of any size.
MAX_CACHED_BYTES, MAX_CACHED_TOTAL = 256 * 1024, 2 * 1024 * 1024

_Decode: TypeAlias = Callable[[JSONValue], tuple[Tool, ...]]


def cached_tools(decode: _Decode) -> _Decode:
    """Decorator that adds a cache to the decoder of a `tools` field."""
    cache: BoundedCache[bytes, tuple[Tool, ...]] = BoundedCache(MAX_CACHED_TOTAL)

    @wraps(decode)
    def decode_cached(value: JSONValue) -> tuple[Tool, ...]:
        key = _cache_key(value)
        cached = cache.get(key)
        if cached is not None:
            return cached
        tools = decode(value)
        # Cache only plain JSON, because different Python values can encode to the same bytes.
        if tools and key and msgspec.json.decode(key) == value:
            cache.keep(key, tools, len(key))
        return tools

    return decode_cached


def _cache_key(value: JSONValue) -> bytes:
    """Return the encoded declarations as the cache key, or empty bytes if they cannot be cached."""
    key = encode_json(value) if is_array(value) else None  # if it cannot be encoded, the decoder reports the error
    return key if key is not None and len(key) <= MAX_CACHED_BYTES else b""


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
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
            if not has_unique_keys(body, encode_plain(fields)):
                return None
            messages = self._read_messages(bytes(fields.pop(self._field)))
            # A choice that names tools is decoded together with them.
            named = bytes(fields.get("tool_choice", b"")).startswith(b"{")
            tools = None if named else fields.pop("tools", None)
            request = self._options.get(encode_plain(fields))
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
