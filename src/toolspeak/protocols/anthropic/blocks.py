"""What an upstream's events and answers look like on the wire, as far as they are read, and what their words mean.

The structs name only what is used, so that one decode skips the rest; leaves take any JSON, for servers differ in
them. The same tables serve both directions: finish reasons, usage, errors.
"""

from __future__ import annotations

import msgspec

from ...core.events import Failure, FinishReason
from ...core.types import JSONObject, JSONValue, Opaque, Usage, is_object
from ..shared.fields import count, failure_from, without


class WireDelta(msgspec.Struct, gc=False):
    """What a delta adds, and the end of a message."""

    type: JSONValue = None
    text: JSONValue = None
    thinking: JSONValue = None
    partial_json: JSONValue = None
    signature: JSONValue = None
    citation: JSONValue = None
    stop_reason: JSONValue = None
    stop_sequence: JSONValue = None
    stop_details: JSONValue = None
    container: JSONValue = None


class WireEvent(msgspec.Struct, gc=False):
    """An event of a stream, or a whole message."""

    type: JSONValue = None
    index: JSONValue = None
    delta: WireDelta | None = None
    content_block: JSONValue = None
    message: JSONValue = None
    usage: JSONValue = None
    error: JSONValue = None
    content: JSONValue = None
    stop_reason: JSONValue = None
    stop_sequence: JSONValue = None
    stop_details: JSONValue = None
    container: JSONValue = None


decode_event = msgspec.json.Decoder(WireEvent).decode

#: Kinds of opaque parts: thinking with its signature, what a text cites, what a call says besides, why it stopped
#: and what was used, where these say more than the common words can.
THINKING, CITATIONS, USE, STOP, USAGE = "thinking", "citations", "tool_use", "stop", "usage"

#: Blocks of an answer that are carried, not read; so are those that end in `_tool_use` and `_tool_result`.
_BLOCKS = frozenset({"redacted_thinking", "container_upload", "compaction", "fallback", "connector_text"})
#: How the kind of a part begins that is a block of any other type: parts of other protocols are named by their types.
_BLOCK = "block:"


def _known(type: str) -> bool:
    return type in _BLOCKS or type.endswith(("_tool_use", "_tool_result"))


def block_kind(type: str) -> str:
    """The kind of an opaque part that is a block of this type."""
    return type if _known(type) else _BLOCK + type


def block_type(kind: str) -> str:
    """The type of the block that a part of this kind is."""
    return kind.removeprefix(_BLOCK)


def is_block(part: Opaque) -> bool:
    """Whether an opaque part is a block of an answer in this protocol's words."""
    named = part.kind.startswith(_BLOCK) or _known(part.kind)
    return named and is_object(part.data) and part.data.get("type") == block_type(part.kind)


# ---------------------------------------------------------------------------------------------- finish reasons

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "compaction": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
#: The plain word for each reason; the others are kept beside it.
_STOP: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def finish_from(reason: str) -> FinishReason:
    """The finish reason that a server's word means."""
    return _FINISH.get(reason, "unknown")


def stop_fields(reason: FinishReason, called: bool, beside: JSONValue) -> JSONObject:
    """`stop_reason` and what belongs to it. `beside`: what the upstream said, if it spoke this protocol."""
    if reason not in ("length", "content_filter"):
        reason = "tool_calls" if called else "stop"
    fields: JSONObject = {"stop_reason": _STOP[reason], "stop_sequence": None}
    if is_object(beside) and finish_from(str(beside.get("stop_reason"))) == reason:
        fields |= beside
    return fields


# ------------------------------------------------------------------------------------------------------- usage

_INPUT, _CREATED, _READ, _OUTPUT, _DETAILS, _THINKING = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
    "output_tokens_details",
    "thinking_tokens",
)


def usage_from(fields: JSONObject) -> Usage:
    """Token counts. Here, unlike there, tokens of the cache are counted among those that went in."""
    cached = count(fields.get(_READ))
    total = count(fields.get(_INPUT)) + count(fields.get(_CREATED)) + cached
    details = fields.get(_DETAILS)
    thought = count(details.get(_THINKING)) if is_object(details) else 0
    return Usage(total, count(fields.get(_OUTPUT)), cached, thought)


def usage_rest(fields: JSONObject) -> JSONObject:
    """What usage says besides: tokens written to the cache, searches, the tier."""
    return {key: value for key, value in without(fields, _INPUT, _READ, _OUTPUT, _DETAILS).items() if value}


def usage_to_wire(usage: Usage, beside: JSONObject) -> JSONObject:
    """Usage in this protocol's words. `beside`: what an upstream that speaks it said besides."""
    fresh = max(0, usage.input_tokens - usage.cached_tokens)
    created = min(fresh, count(beside.get(_CREATED)))
    known: JSONObject = {
        _INPUT: fresh - created,
        _CREATED: created,
        _READ: usage.cached_tokens,
        _OUTPUT: usage.output_tokens,
    }
    if usage.reasoning_tokens:
        known[_DETAILS] = {_THINKING: usage.reasoning_tokens}
    return {**beside, **known}


# ------------------------------------------------------------------------------------------------------ errors

#: https://platform.claude.com/docs/en/api/errors
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_ERROR_TYPES = {status: name for name, status in _STATUSES.items()}


def error_failure(value: JSONValue, status: int = 0, body: bytes = b"", otherwise: str = "") -> Failure:
    """The failure that an error object stands for; its type tells the status where none is known."""
    inner = value.get("error") if is_object(value) else None
    kind = (inner if is_object(inner) else value if is_object(value) else {}).get("type")
    if not status and isinstance(kind, str):
        status = _STATUSES.get(kind, 0)
    return failure_from(value, status, body, otherwise)


def error_type(status: int, kind: str = "", own: str = "") -> str:
    """The type of an error with this status. `kind`: that of a `Failure`; `own`: the upstream's word, if it has one."""
    if kind == "timeout":
        return "timeout_error"
    if status in _ERROR_TYPES or own not in _STATUSES:
        return _ERROR_TYPES.get(status, "invalid_request_error" if 400 <= status < 500 else "api_error")
    return own
