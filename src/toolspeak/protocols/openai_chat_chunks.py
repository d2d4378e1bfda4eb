"""What an upstream's chunk or answer looks like on the wire, as far as it is read, and small readers of its fields.

The structs name only what is used, so that one decode skips the rest. Leaves take any JSON, for servers differ in
them. A whole answer and a chunk of a stream have the same shape but for one word (`message`, `delta`).
Above: `openai_chat_reply`. Below: `core.events`.
"""

from __future__ import annotations

import json

import msgspec

from ..core.events import Failure, FinishReason
from ..core.literals import replace_surrogates
from ..core.model import JSONValue, Usage, is_array, is_object

__all__ = [
    "CARRIED",
    "Choice",
    "Chunk",
    "Delta",
    "DeltaCall",
    "DeltaFunction",
    "decode_chunk",
    "failure_from",
    "finish_from",
    "repair_chunk",
    "shorten",
    "usage_from",
]

#: What is shown of a text that could not be read: enough to recognise it, too little to fill a log.
_SHOWN = 200


class DeltaFunction(msgspec.Struct, gc=False):
    """A function that is called, or a custom tool with its input."""

    name: JSONValue = None
    arguments: JSONValue = None
    input: JSONValue = None


class DeltaCall(msgspec.Struct, gc=False):
    """A piece of a call."""

    index: JSONValue = None
    id: JSONValue = None
    function: DeltaFunction | None = None
    custom: DeltaFunction | None = None


class Delta(msgspec.Struct, gc=False):
    """A piece of a message."""

    content: JSONValue = None
    reasoning_content: JSONValue = None
    reasoning: JSONValue = None
    thinking: JSONValue = None
    refusal: JSONValue = None
    tool_calls: list[DeltaCall] | None = None
    function_call: DeltaFunction | None = None
    annotations: JSONValue = None
    audio: JSONValue = None
    images: JSONValue = None
    reasoning_details: JSONValue = None


#: Fields of a message that are carried, not read.
CARRIED = ("annotations", "audio", "images", "reasoning_details")


class Choice(msgspec.Struct, gc=False):
    """One of the answers."""

    index: JSONValue = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: JSONValue = None
    usage: JSONValue = None
    error: JSONValue = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk of a stream, or a whole answer."""

    choices: list[Choice] | None = None
    usage: JSONValue = None
    error: JSONValue = None
    x_groq: JSONValue = None
    object: JSONValue = None
    message: JSONValue = None
    detail: JSONValue = None


decode_chunk = msgspec.json.Decoder(Chunk).decode


def repair_chunk(payload: bytes) -> Chunk | None:
    """A chunk with characters that JSON or UTF-8 forbids, U+FFFD in their places; None when it is no chunk at all."""
    try:
        value = json.loads(payload.decode("utf-8", "replace"), strict=False)
        return decode_chunk(replace_surrogates(json.dumps(value, ensure_ascii=False)).encode())
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors as well
        return None


def shorten(text: str | bytes) -> str:
    """The beginning of a text, on one line."""
    if isinstance(text, bytes):
        text = text[: 4 * _SHOWN].decode("utf-8", "replace")
    return " ".join(text[: 2 * _SHOWN].split())[:_SHOWN]


# ---------------------------------------------------------------------------------------------- finish reasons

_FINISH: dict[str, FinishReason] = {
    **dict.fromkeys("stop end_turn eos eos_token stop_sequence complete completed done".split(), "stop"),
    **dict.fromkeys("tool_calls tool_call tool_use function_call".split(), "tool_calls"),
    **dict.fromkeys("length max_tokens max_output_tokens model_length token_limit".split(), "length"),
    **dict.fromkeys("content_filter safety sensitive recitation blocklist".split(), "content_filter"),
    **dict.fromkeys("error abort network_error insufficient_system_resource".split(), "error"),
}


def finish_from(reason: str) -> FinishReason:
    """The finish reason that a server's word means."""
    return _FINISH.get(reason.lower(), "unknown")


# ------------------------------------------------------------------------------------------------------- usage


def usage_from(value: JSONValue) -> Usage | None:
    """Token counts; cached tokens have three homes in the wild."""
    if not is_object(value):
        return None
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if is_object(details) else None
    for key in ("cached_tokens", "prompt_cache_hit_tokens"):
        cached = value.get(key) if cached is None else cached
    details = value.get("completion_tokens_details")
    thought = details.get("reasoning_tokens") if is_object(details) else None
    went_in, came_out = _count(value.get("prompt_tokens")), _count(value.get("completion_tokens"))
    return Usage(went_in, came_out, _count(cached), _count(thought))


def _count(value: JSONValue) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0


# ------------------------------------------------------------------------------------------------------ errors

#: Statuses that mean that time ran out.
_TIMEOUTS = (408, 504)


def failure_from(value: JSONValue, status: int = 0, body: bytes = b"", otherwise: str = "") -> Failure:
    """The failure that an error object, in any of the shapes in use, stands for."""
    message, code = _said(value)
    status = status or (code if 400 <= code < 600 else 0)
    kind = "timeout" if status in _TIMEOUTS else "upstream"
    return Failure(message or otherwise or "the upstream gave an error without a word", kind, status, shorten(body))


def _said(value: JSONValue) -> tuple[str, int]:
    """The message of an error object and the HTTP status it names, if any."""
    if is_array(value) and value:
        return _said(value[0])
    if isinstance(value, str):
        return shorten(value), 0
    if not is_object(value):
        return "", 0
    for key in ("error", "message", "msg", "detail", "errors"):
        message, inner = _said(value.get(key))
        if message:
            code = value.get("code", value.get("status"))
            return message, inner or _status(code)
    return "", 0


def _status(code: JSONValue) -> int:
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        return int(code)
    return code if isinstance(code, int) else 0
