"""Field names, and conversions of finish reasons, usage and errors.

The wire format is the JSON encoding of protocol buffers: field names can be in camel or snake case, and null means
that a field is absent.
"""

import re
from typing import Final

import msgspec

from ...core.events import Failure, FinishReason
from ...core.types import JSONObject, JSONValue, Usage, is_array, is_object
from ..shared.fields import count, failure_from, filled, list_or_empty, object_or_empty, text_or_empty

PROTOCOL: Final = "gemini"

#: Kinds of opaque parts: an unchanged part, extra fields of a call or candidate, the reason why a prompt was blocked,
#: and extra usage fields.
PART, CALL, CANDIDATE = "gemini_part", "gemini_call", "gemini_candidate"
PROMPT, USAGE = "gemini_prompt", "gemini_usage"

#: Candidate fields, other than the content, that are forwarded to clients.
CANDIDATE_FIELDS = (
    "citationMetadata groundingMetadata groundingAttributions urlContextMetadata safetyRatings logprobsResult"
    " avgLogprobs continuationToken"
).split()

#: A response with one of these fields is not passed through unchanged.
_NON_TEXT_FIELDS = ("error", "promptFeedback", "finishReason", "finishMessage", *CANDIDATE_FIELDS)

#: All known field names that differ between camel and snake case.
_NAMES = (
    "systemInstruction generationConfig toolConfig functionDeclarations functionCallingConfig allowedFunctionNames"
    " streamFunctionCallArguments parametersJsonSchema responseJsonSchema inlineData fileData functionCall"
    " functionResponse thoughtSignature mimeType fileUri displayName maxOutputTokens topP stopSequences candidateCount"
    " responseMimeType responseSchema googleSearch googleSearchRetrieval codeExecution urlContext googleMaps"
    " fileSearch computerUse executableCode codeExecutionResult safetySettings cachedContent videoMetadata"
    " anyOf minItems maxItems minLength maxLength minProperties maxProperties propertyOrdering additionalProperties"
).split()
_TEXT_FIELDS = frozenset({"text", "thought"})
_CAPITAL = re.compile("[A-Z]")
_SNAKE = {_CAPITAL.sub(lambda match: f"_{match[0].lower()}", name): name for name in _NAMES}


def normalize_fields(fields: JSONObject) -> JSONObject:
    """Convert field names to camel case, as documented, and remove null fields."""
    return {_SNAKE.get(key, key): value for key, value in fields.items() if value is not None}


def is_text_only(response: JSONObject) -> bool:
    """Whether a streamed response contains only text or thinking, in the format that `ReplyEncoder` writes."""
    candidates = response.get("candidates")
    candidate = candidates[0] if is_array(candidates) and len(candidates) == 1 else None
    content = candidate.get("content") if is_object(candidate) else None
    if not is_object(candidate) or not is_object(content) or candidate.get("index") or content.get("role") != "model":
        return False
    parts = content.get("parts")
    if any(response.get(key) or candidate.get(key) for key in _NON_TEXT_FIELDS) or not is_array(parts):
        return False
    return bool(parts) and all(
        is_object(part) and isinstance(part.get("text"), str) and part.keys() <= _TEXT_FIELDS for part in parts
    )


#: Finish reason of a failed attempt to call a tool -> note code. The engine may retry.
MISSED_CALL_NOTES = {
    "MALFORMED_FUNCTION_CALL": "malformed_call",
    "UNEXPECTED_TOOL_CALL": "unexpected_call",
    "TOO_MANY_TOOL_CALLS": "too_many_calls",
    "MALFORMED_RESPONSE": "malformed_response",
}
_BLOCKED = "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT"
_FINISH_REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(("STOP", "CONTINUATION", *MISSED_CALL_NOTES), "stop"),
    **dict.fromkeys([*_BLOCKED.split(), "IMAGE_RECITATION"], "content_filter"),
    "MAX_TOKENS": "length",
}
_FINISH_WORDS: dict[FinishReason, str] = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}


def finish_from(reason: str) -> FinishReason:
    """Convert Gemini's `finishReason` to a `FinishReason`."""
    return _FINISH_REASONS.get(reason, "unknown")


def finish_word(reason: FinishReason, upstream_word: JSONValue = None) -> str:
    """Convert a `FinishReason` to Gemini's `finishReason`. Prefer the upstream's own word if it means the same."""
    if reason not in _FINISH_WORDS:
        reason = "stop"
    if isinstance(upstream_word, str) and finish_from(upstream_word) in (reason, "unknown"):
        return upstream_word
    return _FINISH_WORDS.get(reason, "STOP")


_PROMPT, _TOOLS, _CACHED = "promptTokenCount", "toolUsePromptTokenCount", "cachedContentTokenCount"
_OUTPUT, _THOUGHTS, _TOTAL = "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"
_COMMON = frozenset((_PROMPT, _CACHED, _OUTPUT, _THOUGHTS, _TOTAL))


def usage_from(fields: JSONObject) -> Usage:
    """Convert usage fields to `Usage`, which counts thinking as output and results of built-in tools as input."""
    total_input = count(fields.get(_PROMPT)) + count(fields.get(_TOOLS))
    thought = count(fields.get(_THOUGHTS))
    return Usage(total_input, count(fields.get(_OUTPUT)) + thought, count(fields.get(_CACHED)), thought)


def usage_rest(fields: JSONObject) -> JSONObject:
    """Return the usage fields that `Usage` cannot express, such as counts by modality."""
    return {key: value for key, value in fields.items() if key not in _COMMON and value}


def usage_to_wire(usage: Usage, extra: JSONObject) -> JSONObject:
    """Encode `usage`, together with `extra` usage fields that a Gemini upstream sent."""
    thoughts = min(usage.output_tokens, usage.reasoning_tokens)
    tools = min(usage.input_tokens, count(extra.get(_TOOLS)))
    wire: JSONObject = {
        **extra,
        _PROMPT: usage.input_tokens - tools,
        _OUTPUT: usage.output_tokens - thoughts,
        _TOTAL: usage.input_tokens + usage.output_tokens,
    }
    if _TOOLS in extra:
        wire[_TOOLS] = tools
    return wire | filled({_THOUGHTS: thoughts, _CACHED: usage.cached_tokens})


#: HTTP statuses of error codes, from https://ai.google.dev/gemini-api/docs/troubleshooting and google.rpc.Code
_STATUSES = (
    dict.fromkeys(("INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"), 400)
    | {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404, "ABORTED": 409, "ALREADY_EXISTS": 409}
    | {"RESOURCE_EXHAUSTED": 429, "CANCELLED": 499, "INTERNAL": 500, "UNKNOWN": 500, "UNIMPLEMENTED": 501}
    | {"UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504}
)
_ERROR_WORDS = {status: word for word, status in reversed(_STATUSES.items())}
#: Matches a protocol buffers duration such as `34s` or `1.5s`.
_SECONDS = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,9})?)s")


def error_failure(value: JSONValue, status: int = 0, body: bytes = b"", default_message: str = "") -> Failure:
    """Convert an error object to a `Failure`. A missing status is derived from the error code."""
    if is_array(value) and value:
        value = value[0]
    inner: JSONValue = value.get("error") if is_object(value) else None
    error = inner if is_object(inner) else value if is_object(value) else {}
    failure = failure_from(value, status or _status_in(error), body, default_message)
    return msgspec.structs.replace(failure, retry_after=_retry_delay(error.get("details")))


def _status_in(error: JSONObject) -> int:
    code = error.get("code")
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return _STATUSES.get(text_or_empty(error.get("status")), 0)


def _retry_delay(details: JSONValue) -> float | None:
    """Return the retry delay, in seconds, of a `google.rpc.RetryInfo` detail."""
    for detail in list_or_empty(details):
        match = _SECONDS.fullmatch(text_or_empty(object_or_empty(detail).get("retryDelay")))
        if match:
            return float(match[1])
    return None


def error_object(message: str, status: int, kind: str = "", code: str = "") -> JSONObject:
    """Encode an error. `kind` comes from the `Failure`, `code` (such as `UNAVAILABLE`) from the upstream."""
    if not status:
        status = 504 if kind == "timeout" else 502
    default = "INVALID_ARGUMENT" if status < 500 else "UNAVAILABLE" if status == 502 else "INTERNAL"
    word = code if _STATUSES.get(code) == status else _ERROR_WORDS.get(status, default)
    return {"error": {"code": status, "message": message, "status": word}}
