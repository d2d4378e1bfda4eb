"""Shared helpers of the codecs: field validation, JSON encoding, error objects.

Every validation error names the offending field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Final, Literal

import msgspec

from ...core.events import Failure
from ...core.json_repair.literals import has_surrogate, replace_surrogates
from ...core.text import printable
from ...core.types import (
    MAX_TOKEN_COUNT,
    JSONObject,
    JSONValue,
    Media,
    Message,
    Opaque,
    Options,
    Request,
    Tool,
    is_array,
    is_object,
    tools_from,
)
from ...errors import ToolspeakError, UpstreamError, UsageError

#: Largest non-streamed reply.
MAX_BODY = 32 * 1024 * 1024
#: Maximum number of calls in one reply; more means that the model is stuck in a loop.
MAX_CALLS = 1024

#: Fields by which some gateways let a caller choose the upstream and its key. They are stored, so a server can report
#: them, and never forwarded.
ROUTING_FIELDS = frozenset(
    "api_base api_key api_type api_version base_url custom_llm_provider extra_body extra_headers extra_query"
    " headers organization proxies proxy".split()
)

#: The field for the image detail level in both of OpenAI's protocols.
DETAIL: Final = "detail"
_NAMESPACE = "namespace"

#: Integers below this are exactly representable as floats.
_MAX_EXACT_INT = 2**53
#: Length of an excerpt of unreadable text: enough to recognize it, too short to flood a log.
_MAX_EXCERPT_CHARS = 200
_GRAMMAR = "grammar"


class Loss(msgspec.Struct, frozen=True):
    """Something that a protocol cannot express."""

    half: Literal["request", "reply"]
    name: str
    #: What happens to it.
    becomes: str


# ------------------------------------------------------------------------------------------------------ fields


def _type_error(path: str, expected: str, value: JSONValue) -> UsageError:
    actual = "null" if value is None else type(value).__name__
    return UsageError(f"`{path}` must be {expected}, not `{actual}`")


def text_field(value: JSONValue, path: str) -> str:
    """Validate a string; null and a missing field become the empty string."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    raise _type_error(path, "a string", value)


def bool_field(value: JSONValue, path: str, default: bool) -> bool:
    """Validate a boolean; null and a missing field become the default."""
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise _type_error(path, "true or false", value)


def int_field(value: JSONValue, path: str) -> int | None:
    """Validate an integer or null."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float) and abs(value) < _MAX_EXACT_INT and value.is_integer():
        return int(value)  # JSON has one number type, and some clients write 1 as 1.0
    raise _type_error(path, "an integer", value)


def number_field(value: JSONValue, path: str) -> float | None:
    """Validate a number or null."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(f"`{path}` must be a finite number, not {value}")
        return value
    raise _type_error(path, "a number", value)


def array_field(value: JSONValue, path: str) -> list[JSONValue]:
    """Validate a list; null and a missing field become the empty list."""
    if value is None:
        return []
    if is_array(value):
        return value
    raise _type_error(path, "a list", value)


def object_field(value: JSONValue, path: str) -> JSONObject:
    """Validate a required object."""
    if is_object(value):
        return value
    raise _type_error(path, "an object", value)


def without(value: JSONObject, *names: str) -> JSONObject:
    """Return the fields of an object except those with the given names."""
    return {key: item for key, item in value.items() if key not in names}


def is_from_protocol(message: Message, request: Request, protocol: str) -> bool:
    """Whether the protocol-specific extras of a message belong to `protocol`."""
    return (message.protocol or request.protocol) in (protocol, "")


def merge_assistant_turns(request: Request, protocol: str) -> Iterator[Message]:
    """Yield the messages, merging what an assistant says after its calls into the message with the calls.

    Item-based protocols allow text between two calls, or between a call and its result. Services of this protocol
    require all results directly after the message that contains the calls.
    """
    group: list[Message] = []
    for message in request.messages:
        foreign = (
            message.role == "assistant" and not message.results and not is_from_protocol(message, request, protocol)
        )
        if group and not foreign:
            yield _merge_group(group)
            group = []
        if group or (foreign and message.calls):
            group.append(message)
        else:
            yield message
    if group:
        yield _merge_group(group)


def _merge_group(messages: list[Message]) -> Message:
    if len(messages) == 1:
        return messages[0]
    return msgspec.structs.replace(
        messages[0],
        parts=tuple(part for message in messages for part in message.parts),
        reasoning="\n\n".join(message.reasoning for message in messages if message.reasoning),
        calls=tuple(call for message in messages for call in message.calls),
    )


def is_opaque_only(message: Message) -> bool:
    """Whether an assistant message has only opaque parts, so it would be empty in another protocol.

    Services reject an empty message between a call and its result.
    """
    carried = bool(message.parts) and all(isinstance(part, Opaque) for part in message.parts)
    return carried and message.role == "assistant" and not message.calls


def add_own_fields(body: JSONObject, options: Options) -> JSONObject:
    """Add protocol-specific options (`own`) and the grammar to a body; objects are merged.

    A caller's field never replaces a value of the common options. The grammar, set by toolspeak, does.
    """
    for key, value in options.own.items():
        body[key] = _merge_value(body.get(key), value) if key not in body or is_object(body[key]) else body[key]
    for key, value in options.grammar.items():
        body[key] = _merge_value(body.get(key), value)
    return body


def _merge_value(existing: JSONValue, value: JSONValue) -> JSONValue:
    return {**existing, **value} if is_object(existing) and is_object(value) else value


def declared_tools(value: JSONValue) -> Iterator[tuple[JSONObject, tuple[Tool, ...]]]:
    """Yield each declaration of OpenAI-style `tools` with the tools that it defines."""
    for at, item in enumerate(array_field(value, "tools")):
        path = f"tools[{at}]"
        declared = object_field(item, path)
        if text_field(declared.get("type"), f"{path}.type") == _NAMESPACE:
            _check_namespace(declared, path)
        elif declared.get("type", "") is None:
            declared = without(declared, "type")
        try:
            tools = tools_from([declared]) or ()
        except UsageError as error:
            raise UsageError(f"`{path}`: {error}") from None
        yield declared, tools


def choice_mode(value: JSONValue, path: str) -> Literal["auto", "none", "required"]:
    """Validate the mode of an OpenAI-style tool choice."""
    match text_field(value, path):
        case "auto" | "none" | "required" as mode:
            return mode
        case "any":
            return "required"
        case _:
            hint = "use auto, none, required or an object that names a tool"
            raise UsageError(f"invalid `{path}`: `{value}`", hint=hint)


def _check_namespace(declared: JSONObject, path: str) -> None:
    if not text_field(declared.get("name"), f"{path}.name"):
        raise UsageError(f"`{path}.name` is missing")
    for at, inner in enumerate(array_field(declared.get("tools"), f"{path}.tools")):
        where = f"{path}.tools[{at}]"
        if text_field(object_field(inner, where).get("type"), f"{where}.type") == _NAMESPACE:
            raise UsageError(f"`{where}.type` is `{_NAMESPACE}`, but namespaces cannot be nested")


def custom_format(tool: Tool, nested: bool) -> JSONObject:
    """Return the input format of a custom tool. Chat completions nest a grammar; the Responses API does not."""
    form = tool.extra.get("format")
    if tool.kind != "custom" or not is_object(form):
        return {}
    if form.get("type") != _GRAMMAR:
        return {"format": form}
    inner = form.get(_GRAMMAR)
    rules = inner if is_object(inner) else without(form, "type")
    return {"format": {"type": _GRAMMAR, _GRAMMAR: rules} if nested else {"type": _GRAMMAR, **rules}}


def filename_field(media: Media) -> JSONObject:
    """Return the file name as a field of OpenAI's protocols, if there is one."""
    name = media.extra.get("filename")
    return {"filename": name} if media.kind == "file" and isinstance(name, str) else {}


def is_inline(url: str) -> bool:
    """Whether a URL contains the data itself, in base64."""
    return url.startswith("data:") and ";base64," in url


def is_fetchable(url: str, *schemes: str) -> bool:
    """Whether a service can fetch a URL: HTTP(S) or one of the schemes. Local files are excluded."""
    return url.lower().startswith(("http://", "https://", *schemes))


def detail_field(media: Media) -> JSONObject:
    """Return the image detail level, in the format of OpenAI's protocols, if there is one."""
    detail = media.extra.get(DETAIL)
    return {DETAIL: detail} if media.kind == "image" and isinstance(detail, str) else {}


# -------------------------------------------------------------------------------------------------------- JSON

_encode = msgspec.json.Encoder().encode

#: Escapes of printable ASCII characters, which JSON never requires. They could hide a secret from a search.
ASCII_ESCAPES = tuple(b"\\u00%d" % digit for digit in range(2, 8))
#: Ordinary characters in JSON that some clients' stream readers take for line ends.
_LINE_ENDS = {
    "\u0085".encode(): b"\\u0085",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


def parse_object(body: bytes | str) -> JSONObject:
    """Parse a request body as a JSON object.

    Raises:
        UsageError: the body is not a JSON object, or an object contains a duplicate key.
    """
    try:
        body = body.encode() if isinstance(body, str) else body
        value = msgspec.json.decode(body)
        _check_unique_keys(body, value)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"the body is not JSON: {_describe_json_error(body, error)}") from None
    except RecursionError:
        raise UsageError("the body is nested too deeply") from None
    return object_field(value, "the body")


def _describe_json_error(body: bytes | str, error: Exception) -> str:
    """Describe a JSON error. For a lone surrogate near the end, the parser only reports truncated input."""
    try:
        halved = has_surrogate(json.dumps(json.loads(body), ensure_ascii=False))
    except (ValueError, RecursionError):
        halved = False
    return "a string contains a lone surrogate such as \\ud800" if halved else str(error)


def request_fields(body: bytes | str | Mapping[str, JSONValue]) -> JSONObject:
    """Return the fields of a request body, passed as bytes or as a mapping.

    Raises:
        UsageError: the body is not an object.
    """
    if isinstance(body, Mapping):
        return dict(body)
    if isinstance(body, bytes | str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may not be typed
        return parse_object(body)
    raise _type_error("the body", "an object", body)


def read_json(payload: bytes | str) -> JSONValue:
    """Parse JSON; None if it is invalid."""
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def read_arguments(arguments: JSONValue) -> JSONObject | None:
    """Parse call arguments as an object; None if they are not one. Some clients send the object itself."""
    if isinstance(arguments, str) and arguments.strip():
        arguments = read_json(arguments)
    elif arguments is None or arguments == "":
        return {}
    return arguments if is_object(arguments) else None


def repair_json(payload: bytes) -> bytes | None:
    """Replace characters that JSON or UTF-8 forbids by U+FFFD; None if the text is not JSON even then."""
    try:
        value = json.loads(payload.decode("utf-8", "replace"), strict=False)
        return replace_surrogates(json.dumps(value, ensure_ascii=False)).encode()
    except (ValueError, RecursionError):
        return None


def to_wire(value: JSONValue) -> bytes:
    """Encode a value as JSON bytes; a lone surrogate becomes U+FFFD.

    Raises:
        UsageError: the value contains something that JSON cannot express.
    """
    try:
        return _encode(value)
    except (UnicodeEncodeError, TypeError, OverflowError):  # the slower encoder also accepts subclasses of str
        try:
            return replace_surrogates(json.dumps(value, ensure_ascii=False)).encode()
        except (TypeError, ValueError) as error:
            raise UsageError(f"the value cannot be encoded as JSON: {shorten(str(error))}") from None


def to_line(value: JSONValue) -> bytes:
    """Encode a value as JSON bytes without any character that a client could take for a line end."""
    payload = to_wire(value)
    if not payload.isascii():
        for raw, escaped in _LINE_ENDS.items():
            payload = payload.replace(raw, escaped)
    return payload


def contains_line_end(data: bytes) -> bool:
    """Whether UTF-8 bytes contain a non-ASCII character that some clients take for a line end."""
    return any(raw in data for raw in _LINE_ENDS)


def count(value: JSONValue) -> int:
    """Normalize a token count from a server; 0 if it is not a plausible number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 < value <= MAX_TOKEN_COUNT else 0


# ----------------------------------------------------------------------------------------------------- duplicate keys

_MAX_KEY_CHARS = 80


def _check_unique_keys(body: bytes, value: JSONValue) -> None:
    """Reject a body with a duplicate key; `value` is the parsed body.

    Parsers disagree on which of two values wins, so a check and the upstream could see different requests. msgspec
    silently keeps the last value; whatever it dropped is missing when the value is encoded again. Each step is more
    accurate and slower than the one before; most bodies pass the first.

    Raises:
        UsageError: an object contains a duplicate key.
    """
    encoded = _encode(value)
    if encoded == body or msgspec.json.format(body, indent=-1) == encoded or _same_colon_count(body, encoded):
        return
    json.loads(body, object_pairs_hook=_reject_duplicate_keys, parse_int=str, parse_float=str, strict=False)


def _same_colon_count(body: bytes, encoded: bytes) -> bool:
    """Whether both texts contain the same number of colons: each dropped key removes at least one.

    False if the body contains an escaped colon: the encoded form never does, so the counts cannot be compared.
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


# ------------------------------------------------------------------------------------------------------ errors

#: Statuses that indicate a timeout.
_TIMEOUTS = (408, 504)


def shorten(text: str | bytes) -> str:
    """Return a one-line excerpt of a text, with unprintable characters and terminal controls escaped."""
    if isinstance(text, bytes):
        text = text[: 4 * _MAX_EXCERPT_CHARS].decode("utf-8", "backslashreplace")
    return printable(" ".join(text[: 2 * _MAX_EXCERPT_CHARS].split())[:_MAX_EXCERPT_CHARS])


def failure_from(value: JSONValue, status: int = 0, body: bytes = b"", otherwise: str = "") -> Failure:
    """Convert an error object, in any common shape, to a failure. The object may contain its own status."""
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


#: An error code or type as services write them; not free text and not a number.
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,63}")


def _error_word(value: JSONValue) -> str:
    """Return a value that is usable as an error code or type. The word "error" carries no information."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) and value != "error" else ""


def _error_parts(value: JSONValue, depth: int = _ERROR_DEPTH) -> tuple[str, int, JSONObject]:
    """Return the message of an error object, its status number (or 0) and the object that contains the message."""
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
    """Return the HTTP status for an error response; an upstream's own status is passed through."""
    if isinstance(error, UpstreamError) and 400 <= error.upstream_status < 600:
        return error.upstream_status
    return error.status
