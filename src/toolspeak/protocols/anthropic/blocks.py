"""Structs for decoding events and messages, and conversions of finish reasons, usage and errors.

The structs declare only the fields that toolspeak uses; decoding skips the rest. Most fields accept any JSON value,
because servers send different types.
"""

import msgspec

from ...core.events import Failure, FinishReason
from ...core.types import JSONObject, JSONValue, Opaque, Usage, is_object
from ..shared.fields import count, failure_from, filled, object_or_empty, text_or_empty, without


class MessageEnd(msgspec.Struct, gc=False):
    """A type, and the fields that end a message."""

    type: JSONValue = None
    stop_reason: JSONValue = None
    stop_sequence: JSONValue = None
    stop_details: JSONValue = None
    container: JSONValue = None


class MessagesDelta(MessageEnd, gc=False):
    """The `delta` of an event: a piece of a block, or the fields that end a message."""

    text: JSONValue = None
    thinking: JSONValue = None
    partial_json: JSONValue = None
    signature: JSONValue = None
    citation: JSONValue = None


class MessagesEvent(MessageEnd, gc=False):
    """A stream event or a complete, non-streamed message."""

    index: JSONValue = None
    delta: MessagesDelta | None = None
    content_block: JSONValue = None
    message: JSONValue = None
    usage: JSONValue = None
    error: JSONValue = None
    content: JSONValue = None


decode_event = msgspec.json.Decoder(MessagesEvent).decode

#: Kinds of opaque parts: signed thinking, citations, and extra fields of a call, the stop reason and the usage.
THINKING, CITATIONS, TOOL_USE, STOP, USAGE = "thinking", "citations", "tool_use", "stop", "usage"

#: Types of reply blocks that are forwarded unparsed. So are all types that end in `_tool_use` or `_tool_result`.
_BLOCK_TYPES = frozenset({"redacted_thinking", "container_upload", "compaction", "fallback", "connector_text"})
#: Prefix for the kind of all other blocks. It avoids clashes with opaque parts of other protocols.
_BLOCK_PREFIX = "block:"


def _is_block_type(type: str) -> bool:
    return type in _BLOCK_TYPES or type.endswith(("_tool_use", "_tool_result"))


def block_kind(type: str) -> str:
    """Return the kind of opaque part that stores blocks of this type."""
    return type if _is_block_type(type) else _BLOCK_PREFIX + type


def block_type(kind: str) -> str:
    """Return the block type that a kind of opaque part stores."""
    return kind.removeprefix(_BLOCK_PREFIX)


def is_block(part: Opaque) -> bool:
    """Whether an opaque part contains an Anthropic reply block."""
    is_block_kind = part.kind.startswith(_BLOCK_PREFIX) or _is_block_type(part.kind)
    return is_block_kind and is_object(part.data) and part.data.get("type") == block_type(part.kind)


_FINISH_REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(("end_turn", "stop_sequence", "pause_turn", "compaction"), "stop"),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}

_STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def finish_from(reason: str) -> FinishReason:
    """Convert Anthropic's `stop_reason` to a `FinishReason`."""
    return _FINISH_REASONS.get(reason, "unknown")


def stop_fields(reason: FinishReason, has_calls: bool, upstream_fields: JSONValue) -> JSONObject:
    """Return `stop_reason` and related fields. Matching fields from an Anthropic upstream take precedence."""
    if reason not in ("length", "content_filter"):
        reason = "tool_calls" if has_calls else "stop"
    fields: JSONObject = {"stop_reason": _STOP_REASONS[reason], "stop_sequence": None}
    if is_object(upstream_fields) and finish_from(str(upstream_fields.get("stop_reason"))) == reason:
        fields |= upstream_fields
    return fields


_INPUT, _CREATED, _READ = "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"
_OUTPUT, _DETAILS, _THINKING = "output_tokens", "output_tokens_details", "thinking_tokens"


def usage_from(fields: JSONObject) -> Usage:
    """Convert usage fields to `Usage`, which includes cached tokens in the input; Anthropic counts them separately."""
    cached = count(fields.get(_READ))
    total = count(fields.get(_INPUT)) + count(fields.get(_CREATED)) + cached
    thought = count(object_or_empty(fields.get(_DETAILS)).get(_THINKING))
    return Usage(total, count(fields.get(_OUTPUT)), cached, thought)


def usage_rest(fields: JSONObject) -> JSONObject:
    """Return the usage fields that `Usage` cannot express, such as searches and the service tier."""
    return filled(without(fields, _INPUT, _READ, _OUTPUT, _DETAILS))


def usage_to_wire(usage: Usage, extra: JSONObject) -> JSONObject:
    """Encode `usage`, together with `extra` usage fields that an Anthropic upstream sent."""
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


#: HTTP statuses of error types, from https://platform.claude.com/docs/en/api/errors
_STATUSES = (
    {"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403}
    | {"not_found_error": 404, "conflict_error": 409, "request_too_large": 413, "rate_limit_error": 429}
    | {"api_error": 500, "timeout_error": 504, "overloaded_error": 529}
)
_ERROR_TYPES = {status: name for name, status in _STATUSES.items()}


def error_failure(value: JSONValue, status: int = 0, body: bytes = b"", default_message: str = "") -> Failure:
    """Convert an error object to a `Failure`. A missing status is derived from the error type."""
    outer = object_or_empty(value)
    inner = outer["error"] if is_object(outer.get("error")) else outer
    status = status or _STATUSES.get(text_or_empty(inner.get("type")), 0)
    return failure_from(value, status, body, default_message)


def error_type(status: int, kind: str = "", upstream_type: str = "") -> str:
    """Return the error type for a status; use `upstream_type` if the status has no type."""
    if kind == "timeout":
        return "timeout_error"
    if status in _ERROR_TYPES or upstream_type not in _STATUSES:
        return _ERROR_TYPES.get(status, "invalid_request_error" if 400 <= status < 500 else "api_error")
    return upstream_type
