"""Helpers that all codecs share: JSON values, JSON encoding, error objects."""

import json
import re
from collections.abc import Mapping

import msgspec

from ...core.events import Failure
from ...core.json_repair.literals import has_surrogate, replace_surrogates
from ...core.text import printable
from ...core.types import MAX_TOKEN_COUNT, JSONObject, JSONValue, is_array, is_object
from ...errors import ToolspeakError, UpstreamError, UsageError
from .validation import object_field, type_error

#: Maximum size of a non-streamed reply, in bytes.
MAX_BODY = 32 * 1024 * 1024
#: Maximum nesting depth of a request body; llama.cpp has the same limit.
MAX_DEPTH = 64
#: Maximum number of calls in one reply. A reply with more calls is probably an endless loop.
MAX_CALLS = 1024

#: Fields that select the upstream and its API key in some gateways. They are stored, so that a server can report them,
#: but never forwarded.
ROUTING_FIELDS = frozenset(
    "api_base api_key api_type api_version base_url custom_llm_provider extra_body extra_headers extra_query"
    " headers organization proxies proxy".split()
)

#: Maximum length of an excerpt in errors and notes: long enough to be recognizable, too short to flood a log.
_MAX_EXCERPT_CHARS = 200


def object_or_empty(value: JSONValue) -> JSONObject:
    """Return an object unchanged, and an empty one for any other value."""
    return value if is_object(value) else {}


def list_or_empty(value: JSONValue) -> list[JSONValue]:
    """Return a list unchanged, and an empty one for any other value."""
    return value if is_array(value) else []


def text_or_empty(value: JSONValue) -> str:
    """Return a string unchanged, and an empty one for any other value."""
    return value if isinstance(value, str) else ""


def filled(fields: JSONObject) -> JSONObject:
    """Return the fields whose value is not empty."""
    return {name: value for name, value in fields.items() if value}


def without(value: JSONObject, *names: str) -> JSONObject:
    """Return a copy of an object without the named fields."""
    return {key: item for key, item in value.items() if key not in names}


def take_call_extra(extras: list[JSONObject], identifier: str, name: str) -> JSONObject:
    """Remove the extra fields of a call from `extras` and return them. They name the call by its id or its tool."""
    for extra in extras:
        if extra.get("id", identifier) == identifier and extra.get("name", name) == name:
            extras.remove(extra)
            return without(extra, "id", "name")
    return {}


#: Encodes a value of which JSON can express everything. `to_wire` encodes any value.
encode_plain = msgspec.json.Encoder().encode

#: Prefixes of `\u` escapes for printable ASCII characters. JSON never requires them, and they could hide a secret.
ASCII_ESCAPES = tuple(b"\\u00%d" % digit for digit in range(2, 8))
#: Characters that are valid in JSON strings but that some clients treat as line ends.
_LINE_ENDS = {"\u0085".encode(): b"\\u0085", "\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029"}


def parse_object(body: bytes | str) -> JSONObject:
    """Parse a request body. Raises UsageError if it is not a JSON object or contains a duplicate key."""
    try:
        body = body.encode() if isinstance(body, str) else body
        value = msgspec.json.decode(body)
        _check_unique_keys(body, value)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"the body is not valid JSON: {_describe_json_error(body, error)}") from None
    except RecursionError:
        raise UsageError("the body is nested too deeply") from None
    return object_field(value, "the body")


def _describe_json_error(body: bytes | str, error: Exception) -> str:
    """Describe a JSON error. Lone surrogates need a check of their own: msgspec may report truncated input instead."""
    try:
        halved = has_surrogate(json.dumps(json.loads(body), ensure_ascii=False))
    except (ValueError, RecursionError):
        halved = False
    return "a string contains a lone surrogate such as \\ud800" if halved else str(error)


def request_fields(body: bytes | str | Mapping[str, JSONValue]) -> JSONObject:
    """Return the fields of a request body: JSON text or a mapping. Raises UsageError if it is not an object."""
    if isinstance(body, Mapping):
        return dict(body)
    if isinstance(body, bytes | str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may not be typed
        return parse_object(body)
    raise type_error("the body", "an object", body)


def read_json(payload: bytes | str) -> JSONValue:
    """Parse JSON. Return None if it is invalid."""
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def read_arguments(arguments: JSONValue) -> JSONObject | None:
    """Parse call arguments, which some clients send as an object. Return None if they are not a JSON object."""
    if isinstance(arguments, str) and arguments.strip():
        arguments = read_json(arguments)
    elif arguments is None or arguments == "":
        return {}
    return arguments if is_object(arguments) else None


def repair_json(payload: bytes) -> bytes | None:
    """Replace invalid characters with U+FFFD. Return None if the result is still not valid JSON."""
    try:
        value = json.loads(payload.decode("utf-8", "replace"), strict=False)
        return replace_surrogates(json.dumps(value, ensure_ascii=False)).encode()
    except (ValueError, RecursionError):
        return None


def to_wire(value: JSONValue) -> bytes:
    """Encode a value as JSON. Lone surrogates become U+FFFD. Raises UsageError if JSON cannot express the value.

    Values of type `msgspec.Raw` are encoded already.
    """
    try:
        return encode_plain(value)
    except (UnicodeEncodeError, TypeError, OverflowError):  # `json` also accepts subclasses of str
        try:
            return replace_surrogates(json.dumps(value, ensure_ascii=False, default=_decode_raw)).encode()
        except (TypeError, ValueError) as error:
            raise UsageError(f"the value cannot be encoded as JSON: {shorten(str(error))}") from None


def _decode_raw(value: JSONValue) -> JSONValue:
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"type `{type(value).__name__}` is not JSON")


def to_line(value: JSONValue) -> bytes:
    """Encode a value as JSON, escaping all characters that a client could treat as a line end."""
    payload = to_wire(value)
    if not payload.isascii():
        for raw, escaped in _LINE_ENDS.items():
            payload = payload.replace(raw, escaped)
    return payload


def contains_line_end(data: bytes) -> bool:
    """Whether UTF-8 bytes contain a non-ASCII character that some clients treat as a line end."""
    return any(raw in data for raw in _LINE_ENDS)


def count(value: JSONValue) -> int:
    """Return a token count from a server as an integer, or 0 if it is implausible."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 < value <= MAX_TOKEN_COUNT else 0


_MAX_KEY_CHARS = 80


def _check_unique_keys(body: bytes, value: JSONValue) -> None:
    """Raise UsageError if a body contains duplicate keys. `value` is the parsed body.

    Parsers disagree on which of two values they use, so toolspeak and the upstream could see different requests.
    msgspec silently drops all but the last value, so the value is encoded again and compared with the body. Each check
    is slower and more accurate than the previous one; most bodies pass the first.
    """
    encoded = encode_plain(value)
    if encoded == body or msgspec.json.format(body, indent=-1) == encoded or _same_colon_count(body, encoded):
        return
    json.loads(body, object_pairs_hook=_reject_duplicate_keys, parse_int=str, parse_float=str, strict=False)


def has_unique_keys(body: bytes, encoded: bytes) -> bool:
    """Whether an object surely has no duplicate keys at its top level. `encoded` is made of its parsed fields."""
    return encoded == body or _same_colon_count(body, encoded)


def check_depth(value: JSONValue, most: int = MAX_DEPTH) -> None:
    """Raise UsageError if a value is nested too deeply."""
    level: list[JSONValue] = [value]
    for _ in range(most):
        level = [
            each
            for one in level
            for each in (one.values() if is_object(one) else one)
            if type(each) is dict or type(each) is list
        ]
        if not level:
            return
    raise UsageError(f"the body is nested deeper than {MAX_DEPTH} levels")


def _same_colon_count(body: bytes, encoded: bytes) -> bool:
    """Whether both texts contain the same number of colons. Each dropped key would remove at least one.

    Return False if the body contains an escaped colon, because the encoded text never does.
    """
    escaped = b"\\u003a" in body or b"\\u003A" in body
    return not escaped and body.count(b":") == encoded.count(b":")


def _reject_duplicate_keys(pairs: list[tuple[str, JSONValue]]) -> JSONObject:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        keys: set[str] = set()
        key = next(key for key, _ in pairs if key in keys or keys.add(key))
        raise UsageError(f"the body contains the key `{key[:_MAX_KEY_CHARS]}` twice in one object")
    return fields


#: HTTP statuses that indicate a timeout.
_TIMEOUTS = (408, 504)


def shorten(text: str | bytes) -> str:
    """Return the start of a text on one line, with unprintable characters and terminal controls escaped."""
    if isinstance(text, bytes):
        text = text[: 4 * _MAX_EXCERPT_CHARS].decode("utf-8", "backslashreplace")
    return printable(" ".join(text[: 2 * _MAX_EXCERPT_CHARS].split())[:_MAX_EXCERPT_CHARS])


def error_value(body: bytes) -> JSONValue:
    """Return the body of an HTTP error response as JSON or, if it is not JSON, as text."""
    value = read_json(body)
    if value is not None:
        return value
    text = shorten(body)
    return "" if text.startswith("<") else text  # an HTML page is useless as a message


def failure_from(value: JSONValue, status: int = 0, body: bytes = b"", otherwise: str = "") -> Failure:
    """Convert an error object in any common format to a `Failure`. A missing status is taken from the object."""
    message, error_status, error = _error_parts(value)
    status = status or (error_status if 400 <= error_status < 600 else 0)
    param = error.get("param")
    return Failure(
        message or otherwise or "the upstream returned an error without a message",
        "timeout" if status in _TIMEOUTS else "upstream",
        status,
        shorten(body),
        code=_error_word(error.get("code")) or _error_word(error.get("status")),
        error_type=_error_word(error.get("type")),
        param=shorten(param) if isinstance(param, str) else "",
    )


#: Maximum nesting of error objects.
_ERROR_DEPTH = 8


#: Matches an error code or type, but no free text and no number.
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,63}")


def _error_word(value: JSONValue) -> str:
    """Return the value if it is a usable error code or type, otherwise "". The word "error" is ignored."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) and value != "error" else ""


def _error_parts(value: JSONValue, depth: int = _ERROR_DEPTH) -> tuple[str, int, JSONObject]:
    """Return the message of an error object, its HTTP status (or 0) and the object that contains the message."""
    if is_array(value) and value:
        value = value[0]
    if isinstance(value, str):
        return shorten(value), 0, {}
    if not is_object(value) or not depth:
        return "", 0, {}
    for key in ("error", "message", "msg", "detail", "errors"):
        message, inner, error = _error_parts(value.get(key), depth - 1)
        if message:
            return message, inner or _status_number(value.get("code", value.get("status"))), error or value
    return "", 0, {}


def _status_number(code: JSONValue) -> int:
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        return int(code)
    return code if isinstance(code, int) else 0


def http_status(error: ToolspeakError) -> int:
    """Return the HTTP status for an error response. An upstream's own status is preserved."""
    if isinstance(error, UpstreamError) and 400 <= error.upstream_status < 600:
        return error.upstream_status
    return error.status
