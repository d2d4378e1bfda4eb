"""What the codecs share besides framing: reading fields, writing JSON, saying what went wrong, what gets lost.

Each reader of a field names it in its error.
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
    MOST_TOKENS,
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
from .unique_keys import check_keys

#: Largest answer that is not streamed.
MAX_BODY = 32 * 1024 * 1024
#: Calls in one reply; more is a model that runs in circles.
MAX_CALLS = 1024

#: Fields by which some gateways let a caller choose where a request goes and with which key. They are kept, so that
#: a server can say that it saw them, and never sent on.
ROUTING_FIELDS = frozenset(
    "api_base api_key api_type api_version base_url custom_llm_provider extra_body extra_headers extra_query"
    " headers organization proxies proxy".split()
)

#: The word by which both of OpenAI's protocols say how closely to look at a picture.
DETAIL: Final = "detail"
_NAMESPACE = "namespace"

#: Whole numbers below this are the same as floats.
_EXACT = 2**53
#: What is shown of a text that could not be read: enough to recognise it, too little to fill a log.
_SHOWN = 200
_GRAMMAR = "grammar"


class Loss(msgspec.Struct, frozen=True):
    """Something that a protocol has no word for."""

    half: Literal["request", "reply"]
    name: str
    #: What becomes of it.
    becomes: str


# ------------------------------------------------------------------------------------------------------ fields


def _wrong(path: str, wanted: str, value: JSONValue) -> UsageError:
    given = "null" if value is None else type(value).__name__
    return UsageError(f"`{path}` must be {wanted}, not `{given}`")


def text_field(value: JSONValue, path: str) -> str:
    """A text; null and absence are the empty text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    raise _wrong(path, "a string", value)


def bool_field(value: JSONValue, path: str, default: bool) -> bool:
    """True or false; null and absence are the default."""
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise _wrong(path, "true or false", value)


def int_field(value: JSONValue, path: str) -> int | None:
    """A whole number, or None."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float) and abs(value) < _EXACT and value.is_integer():
        return int(value)  # JSON does not tell 1.0 from 1, and neither do some clients
    raise _wrong(path, "an integer", value)


def number_field(value: JSONValue, path: str) -> float | None:
    """A number, or None."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(f"`{path}` must be a number that JSON has a word for, not {value}")
        return value
    raise _wrong(path, "a number", value)


def array_field(value: JSONValue, path: str) -> list[JSONValue]:
    """A list; null and absence are the empty list."""
    if value is None:
        return []
    if is_array(value):
        return value
    raise _wrong(path, "a list", value)


def object_field(value: JSONValue, path: str) -> JSONObject:
    """An object, which must be there."""
    if is_object(value):
        return value
    raise _wrong(path, "an object", value)


def without(value: JSONObject, *known: str) -> JSONObject:
    """What an object says besides the known fields."""
    return {key: item for key, item in value.items() if key not in known}


def speaks(message: Message, request: Request, protocol: str) -> bool:
    """Whether what a message says besides the common words is said in those of this protocol."""
    return (message.protocol or request.protocol) in (protocol, "")


def in_turns(request: Request, protocol: str) -> Iterator[Message]:
    """The messages, with what an assistant goes on to say behind calls in one message with them.

    Where another protocol tells items one by one, something may stand between two calls, or between a call and its
    result; the services of this one want the results of all calls right behind the message that holds them.
    """
    group: list[Message] = []
    for message in request.messages:
        foreign = message.role == "assistant" and not message.results and not speaks(message, request, protocol)
        if group and not foreign:
            yield _joined(group)
            group = []
        if group or (foreign and message.calls):
            group.append(message)
        else:
            yield message
    if group:
        yield _joined(group)


def _joined(group: list[Message]) -> Message:
    if len(group) == 1:
        return group[0]
    return msgspec.structs.replace(
        group[0],
        parts=tuple(part for message in group for part in message.parts),
        reasoning="\n\n".join(message.reasoning for message in group if message.reasoning),
        calls=tuple(call for message in group for call in message.calls),
    )


def unspoken(message: Message) -> bool:
    """Whether an assistant's message consists of carried parts only: without them it has nothing to say.

    An empty message may stand between a call and its result, where services take none.
    """
    carried = bool(message.parts) and all(isinstance(part, Opaque) for part in message.parts)
    return carried and message.role == "assistant" and not message.calls


def with_own(body: JSONObject, options: Options) -> JSONObject:
    """A body with the fields that stand in its options in the words of its protocol; an object is filled up.

    A field of the caller's does not replace what is said by the common words; a grammar, which is ours, does.
    """
    for key, value in options.own.items():
        body[key] = _filled(body.get(key), value) if key not in body or is_object(body[key]) else body[key]
    for key, value in options.grammar.items():
        body[key] = _filled(body.get(key), value)
    return body


def _filled(before: JSONValue, value: JSONValue) -> JSONValue:
    return {**before, **value} if is_object(before) and is_object(value) else value


def declared_tools(value: JSONValue) -> Iterator[tuple[JSONObject, tuple[Tool, ...]]]:
    """Each declaration in a `tools` of OpenAI's shape, and the tools that it stands for."""
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


def _check_namespace(declared: JSONObject, path: str) -> None:
    if not text_field(declared.get("name"), f"{path}.name"):
        raise UsageError(f"`{path}.name` is missing")
    for at, inner in enumerate(array_field(declared.get("tools"), f"{path}.tools")):
        where = f"{path}.tools[{at}]"
        if text_field(object_field(inner, where).get("type"), f"{where}.type") == _NAMESPACE:
            raise UsageError(f"`{where}.type` is `{_NAMESPACE}`, and a namespace holds no other")


def custom_format(tool: Tool, nested: bool) -> JSONObject:
    """What the input of a custom tool must look like; chat completions nest a grammar, responses do not."""
    form = tool.extra.get("format")
    if tool.kind != "custom" or not is_object(form):
        return {}
    if form.get("type") != _GRAMMAR:
        return {"format": form}
    inner = form.get(_GRAMMAR)
    rules = inner if is_object(inner) else without(form, "type")
    return {"format": {"type": _GRAMMAR, _GRAMMAR: rules} if nested else {"type": _GRAMMAR, **rules}}


def file_name(media: Media) -> JSONObject:
    """What a file is called, where somebody said so, in the words of OpenAI's protocols."""
    name = media.extra.get("filename")
    return {"filename": name} if media.kind == "file" and isinstance(name, str) else {}


def is_inline(url: str) -> bool:
    """Whether an address is the thing itself, in base64."""
    return url.startswith("data:") and ";base64," in url


def is_fetchable(url: str, *schemes: str) -> bool:
    """Whether a service can fetch what is at an address: on the web, or by these schemes. Nobody's own files are."""
    return url.lower().startswith(("http://", "https://", *schemes))


def detail_of(media: Media) -> JSONObject:
    """How closely to look at a picture, where somebody said so, in whichever protocol."""
    detail = media.extra.get(DETAIL)
    return {DETAIL: detail} if media.kind == "image" and isinstance(detail, str) else {}


# -------------------------------------------------------------------------------------------------------- JSON

_encode = msgspec.json.Encoder().encode

#: How JSON may write an ASCII character that needs no escape: where one is written so, a secret could not be found.
HIDING_ESCAPES = tuple(b"\\u00%d" % digit for digit in range(2, 8))
#: Characters that are ordinary in JSON and end a line for some clients' readers of streams.
_LINE_ENDS = {
    "\u0085".encode(): b"\\u0085",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


def parse_object(body: bytes | str) -> JSONObject:
    """The object that a request's body is.

    Raises:
        UsageError: the body is no JSON object, or an object in it names a key twice.
    """
    try:
        body = body.encode() if isinstance(body, str) else body
        value = msgspec.json.decode(body)
        check_keys(body, value)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"the body is not JSON: {_flaw(body, error)}") from None
    except RecursionError:
        raise UsageError("the body is nested too deeply") from None
    return object_field(value, "the body")


def _flaw(body: bytes | str, error: Exception) -> str:
    """What is wrong with a body. Of half a surrogate pair near the end, the parser says that it ends too soon."""
    try:
        halved = has_surrogate(json.dumps(json.loads(body), ensure_ascii=False))
    except (ValueError, RecursionError):
        halved = False
    return "a text in it holds half of a surrogate pair, such as \\ud800" if halved else str(error)


def request_fields(body: bytes | str | Mapping[str, JSONValue]) -> JSONObject:
    """The fields of a request's body, in bytes or as the object that they stand for.

    Raises:
        UsageError: it is no object.
    """
    if isinstance(body, Mapping):
        return dict(body)
    if isinstance(body, bytes | str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may not be typed
        return parse_object(body)
    raise _wrong("the body", "an object", body)


def read_json(payload: bytes | str) -> JSONValue:
    """The value of a JSON text; None when it is none."""
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def read_arguments(given: JSONValue) -> JSONObject | None:
    """The arguments of a call as an object; None when they are none. Some clients send the object itself."""
    if isinstance(given, str) and given.strip():
        given = read_json(given)
    elif given is None or given == "":
        return {}
    return given if is_object(given) else None


def repair_json(payload: bytes) -> bytes | None:
    """A JSON text with characters that JSON or UTF-8 forbids, U+FFFD in their places; None when it is none at all."""
    try:
        value = json.loads(payload.decode("utf-8", "replace"), strict=False)
        return replace_surrogates(json.dumps(value, ensure_ascii=False)).encode()
    except (ValueError, RecursionError):
        return None


def to_wire(value: JSONValue) -> bytes:
    """JSON bytes of a value; half a surrogate pair, which no bytes can carry, becomes U+FFFD.

    Raises:
        UsageError: a caller has put something into it that is no JSON.
    """
    try:
        return _encode(value)
    except (UnicodeEncodeError, TypeError, OverflowError):  # the slower encoder also knows classes made of texts
        try:
            return replace_surrogates(json.dumps(value, ensure_ascii=False)).encode()
        except (TypeError, ValueError) as error:
            raise UsageError(f"what is to be sent is not JSON: {shorten(str(error))}") from None


def to_line(value: JSONValue) -> bytes:
    """JSON bytes of a value in which no client finds the end of a line."""
    payload = to_wire(value)
    if not payload.isascii():
        for raw, escaped in _LINE_ENDS.items():
            payload = payload.replace(raw, escaped)
    return payload


def holds_line_end(data: bytes) -> bool:
    """Whether some client would find the end of a line among these bytes of UTF-8, where JSON has none."""
    return any(raw in data for raw in _LINE_ENDS)


def count(value: JSONValue) -> int:
    """A number of tokens, whatever a server wrote for it; 0 for what can be none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 < value <= MOST_TOKENS else 0


# ------------------------------------------------------------------------------------------------------ errors

#: Statuses that mean that time ran out.
_TIMEOUTS = (408, 504)


def shorten(text: str | bytes) -> str:
    """The beginning of a text, on one line; what cannot be shown, or would do something to a terminal, is escaped."""
    if isinstance(text, bytes):
        text = text[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
    return printable(" ".join(text[: 2 * _SHOWN].split())[:_SHOWN])


def failure_from(value: JSONValue, status: int = 0, body: bytes = b"", otherwise: str = "") -> Failure:
    """The failure that an error object, in any of the shapes in use, stands for; it may name a status itself."""
    message, named, error = _said(value)
    status = status or (named if 400 <= named < 600 else 0)
    param = error.get("param")
    return Failure(
        message or otherwise or "the upstream gave an error without a word",
        "timeout" if status in _TIMEOUTS else "upstream",
        status,
        shorten(body),
        code=_word(error.get("code")) or _word(error.get("status")),
        error_type=_word(error.get("type")),
        param=shorten(param) if isinstance(param, str) else "",
    )


#: Servers wrap an error in an error at most this often.
_ERROR_DEPTH = 8


#: A code or a type, as services have them: no text that somebody wrote, and no number.
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,63}")


def _word(value: JSONValue) -> str:
    """What clients can go by. That something is an error says nothing."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) and value != "error" else ""


def _said(value: JSONValue, depth: int = _ERROR_DEPTH) -> tuple[str, int, JSONObject]:
    """The message of an error object, the number that it names as its status, if any, and the object that says it."""
    if is_array(value) and value:
        value = value[0]
    if isinstance(value, str):
        return shorten(value), 0, {}
    if not is_object(value) or not depth:
        return "", 0, {}
    for key in ("error", "message", "msg", "detail", "errors"):
        message, inner, error = _said(value.get(key), depth - 1)
        if message:
            return message, inner or _number(value.get("code", value.get("status"))), error or value
    return "", 0, {}


def _number(code: JSONValue) -> int:
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        return int(code)
    return code if isinstance(code, int) else 0


def status_of(error: ToolspeakError) -> int:
    """The HTTP status of an answer that tells of an error; an upstream's own status is passed on."""
    if isinstance(error, UpstreamError) and 400 <= error.upstream_status < 600:
        return error.upstream_status
    return error.status
