"""Wire structs of events and messages, and the tables for finish reasons, usage and errors in both directions.

The structs declare only the fields in use, so decoding skips the rest. Leaf fields accept any JSON because servers
differ in them.
"""

from __future__ import annotations

import msgspec

from ...core.events import Failure, FinishReason
from ...core.types import JSONObject, JSONValue, Opaque, Usage, is_object
from ..shared.fields import count, failure_from, without


class MessagesDelta(msgspec.Struct, gc=False):
    """A delta of a block, or the end of a message."""

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


class MessagesEvent(msgspec.Struct, gc=False):
    """An event of a stream, or a whole message."""

    type: JSONValue = None
    index: JSONValue = None
    delta: MessagesDelta | None = None
    content_block: JSONValue = None
    message: JSONValue = None
    usage: JSONValue = None
    error: JSONValue = None
    content: JSONValue = None
    stop_reason: JSONValue = None
    stop_sequence: JSONValue = None
    stop_details: JSONValue = None
    container: JSONValue = None


decode_event = msgspec.json.Decoder(MessagesEvent).decode

#: Kinds of opaque parts: signed thinking, citations of a text, extra fields of a call, of the stop reason and of usage.
THINKING, CITATIONS, TOOL_USE, STOP, USAGE = "thinking", "citations", "tool_use", "stop", "usage"

#: Reply blocks that are passed on unparsed, as are types that end in `_tool_use` or `_tool_result`.
_BLOCK_TYPES = frozenset({"redacted_thinking", "container_upload", "compaction", "fallback", "connector_text"})
#: Prefix of the kind of other blocks, because parts of other protocols use their bare type as kind.
_BLOCK_PREFIX = "block:"


def _is_block_type(type: str) -> bool:
    return type in _BLOCK_TYPES or type.endswith(("_tool_use", "_tool_result"))


def block_kind(type: str) -> str:
    """Return the kind of the opaque part for a block type."""
    return type if _is_block_type(type) else _BLOCK_PREFIX + type


def block_type(kind: str) -> str:
    """Return the block type for the kind of an opaque part."""
    return kind.removeprefix(_BLOCK_PREFIX)


def is_block(part: Opaque) -> bool:
    """Whether an opaque part is a reply block of this protocol."""
    is_block_kind = part.kind.startswith(_BLOCK_PREFIX) or _is_block_type(part.kind)
    return is_block_kind and is_object(part.data) and part.data.get("type") == block_type(part.kind)


# ---------------------------------------------------------------------------------------------- finish reasons

_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "compaction": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}

_STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def finish_from(reason: str) -> FinishReason:
    """Return the finish reason for a `stop_reason`."""
    return _FINISH_REASONS.get(reason, "unknown")


def stop_fields(reason: FinishReason, has_calls: bool, upstream_fields: JSONValue) -> JSONObject:
    """Return `stop_reason` and related fields. `upstream_fields`: those that an upstream of this protocol sent."""
    if reason not in ("length", "content_filter"):
        reason = "tool_calls" if has_calls else "stop"
    fields: JSONObject = {"stop_reason": _STOP_REASONS[reason], "stop_sequence": None}
    if is_object(upstream_fields) and finish_from(str(upstream_fields.get("stop_reason"))) == reason:
        fields |= upstream_fields
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
    """Return token counts. `Usage` counts cached tokens as input; the wire counts them separately."""
    cached = count(fields.get(_READ))
    total = count(fields.get(_INPUT)) + count(fields.get(_CREATED)) + cached
    details = fields.get(_DETAILS)
    thought = count(details.get(_THINKING)) if is_object(details) else 0
    return Usage(total, count(fields.get(_OUTPUT)), cached, thought)


def usage_rest(fields: JSONObject) -> JSONObject:
    """Return usage fields that `Usage` lacks: tokens written to the cache, searches, the service tier."""
    return {key: value for key, value in without(fields, _INPUT, _READ, _OUTPUT, _DETAILS).items() if value}


def usage_to_wire(usage: Usage, extra: JSONObject) -> JSONObject:
    """Encode usage. `extra`: further usage fields of an upstream of this protocol."""
    fresh = max(0, usage.input_tokens - usage.cached_tokens)
    created = min(fresh, count(extra.get(_CREATED)))
    fields: JSONObject = {
        _INPUT: fresh - created,
        _CREATED: created,
        _READ: usage.cached_tokens,
        _OUTPUT: usage.output_tokens,
    }
    if usage.reasoning_tokens:
        fields[_DETAILS] = {_THINKING: usage.reasoning_tokens}
    return {**extra, **fields}


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


def error_failure(value: JSONValue, status: int = 0, body: bytes = b"", default_message: str = "") -> Failure:
    """Return the failure for an error object. Without a status, the error type determines it."""
    inner = value.get("error") if is_object(value) else None
    kind = (inner if is_object(inner) else value if is_object(value) else {}).get("type")
    if not status and isinstance(kind, str):
        status = _STATUSES.get(kind, 0)
    return failure_from(value, status, body, default_message)


def error_type(status: int, kind: str = "", upstream_type: str = "") -> str:
    """Return the error type for a status. `kind`: of the `Failure`; `upstream_type`: type sent by the upstream."""
    if kind == "timeout":
        return "timeout_error"
    if status in _ERROR_TYPES or upstream_type not in _STATUSES:
        return _ERROR_TYPES.get(status, "invalid_request_error" if 400 <= status < 500 else "api_error")
    return upstream_type
