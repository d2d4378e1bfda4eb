"""The words of Gemini's API, and what they mean: names of fields, finish reasons, usage, errors.

The wire is protocol buffers written as JSON, so a field may be spelled in camel or in snake case and null is absence.
The same tables serve both directions.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from ...core.events import Failure, FinishReason
from ...core.types import JSONObject, JSONValue, Usage, is_array, is_object
from ..shared.fields import count, failure_from

PROTOCOL: Final = "gemini"

#: Kinds of opaque parts: a part that is carried as it is, what a call says besides, what a candidate says besides,
#: why a prompt was blocked, and what was counted besides.
PART, CALL, CANDIDATE, PROMPT, USAGE = (
    "gemini_part",
    "gemini_call",
    "gemini_candidate",
    "gemini_prompt",
    "gemini_usage",
)

#: What a candidate says besides its content that is carried.
CARRIED = (
    "citationMetadata groundingMetadata groundingAttributions urlContextMetadata safetyRatings logprobsResult"
    " avgLogprobs continuationToken"
).split()

#: What a response or its candidate says besides text: one with something of it is not passed on as it is.
_BESIDE = ("error", "promptFeedback", "finishReason", "finishMessage", *CARRIED)

# ------------------------------------------------------------------------------------------------------- fields

#: Every field that is read and has more than one word.
_NAMES = (
    "systemInstruction generationConfig toolConfig functionDeclarations functionCallingConfig allowedFunctionNames"
    " streamFunctionCallArguments parametersJsonSchema responseJsonSchema inlineData fileData functionCall"
    " functionResponse thoughtSignature mimeType fileUri displayName maxOutputTokens topP stopSequences candidateCount"
    " responseMimeType responseSchema googleSearch googleSearchRetrieval codeExecution urlContext googleMaps"
    " fileSearch computerUse executableCode codeExecutionResult safetySettings cachedContent videoMetadata"
    " anyOf minItems maxItems minLength maxLength minProperties maxProperties propertyOrdering additionalProperties"
).split()
_TEXT = frozenset({"text", "thought"})
_CAPITAL = re.compile("[A-Z]")
_SNAKE = {_CAPITAL.sub(lambda found: f"_{found[0].lower()}", name): name for name in _NAMES}


def proto(fields: JSONObject) -> JSONObject:
    """The fields of an object under the names that the documentation uses; null is absence."""
    return {_SNAKE.get(key, key): value for key, value in fields.items() if value is not None}


def says_only_text(response: JSONObject) -> bool:
    """Whether a response of a stream is one of those that our own face writes for a text, or a thought."""
    candidates = response.get("candidates")
    candidate = candidates[0] if is_array(candidates) and len(candidates) == 1 else None
    content = candidate.get("content") if is_object(candidate) else None
    if not is_object(candidate) or not is_object(content) or candidate.get("index") or content.get("role") != "model":
        return False
    parts = content.get("parts")
    if any(response.get(key) or candidate.get(key) for key in _BESIDE) or not is_array(parts):
        return False
    return bool(parts) and all(
        is_object(part) and isinstance(part.get("text"), str) and part.keys() <= _TEXT for part in parts
    )


# ---------------------------------------------------------------------------------------------- finish reasons

_FINISH: dict[str, FinishReason] = {
    "STOP": "stop",
    "CONTINUATION": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        (
            "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT"
            " IMAGE_RECITATION"
        ).split(),
        "content_filter",
    ),
    **dict.fromkeys(
        "MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS MALFORMED_RESPONSE".split(), "stop"
    ),
}
#: Reasons that say that a call was meant and none came: the engine may ask again.
_MISSED = {
    "MALFORMED_FUNCTION_CALL": "malformed_call",
    "UNEXPECTED_TOOL_CALL": "unexpected_call",
    "TOO_MANY_TOOL_CALLS": "too_many_calls",
    "MALFORMED_RESPONSE": "malformed_response",
}
_WORDS: dict[FinishReason, str] = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}


def finish_from(reason: str) -> FinishReason:
    """The finish reason that a server's word means."""
    return _FINISH.get(reason, "unknown")


def finish_note(reason: str) -> str:
    """The code of the note that a reason deserves, or nothing."""
    return _MISSED.get(reason, "")


def finish_word(reason: FinishReason, beside: JSONValue = None) -> str:
    """The word for a reason. `beside`: the upstream's own, which stands if it means the same."""
    if reason not in _WORDS:
        reason = "stop"
    if isinstance(beside, str) and finish_from(beside) in (reason, "unknown"):
        return beside
    return _WORDS.get(reason, "STOP")


# ------------------------------------------------------------------------------------------------------- usage

_PROMPT, _TOOLS, _CACHED, _OUTPUT, _THOUGHTS, _TOTAL = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "totalTokenCount",
)
_COMMON = frozenset((_PROMPT, _CACHED, _OUTPUT, _THOUGHTS, _TOTAL))


def usage_from(fields: JSONObject) -> Usage:
    """Token counts. Here, unlike there, thoughts count as output, and results of the upstream's own tools as input."""
    went_in = count(fields.get(_PROMPT)) + count(fields.get(_TOOLS))
    thought = count(fields.get(_THOUGHTS))
    return Usage(went_in, count(fields.get(_OUTPUT)) + thought, count(fields.get(_CACHED)), thought)


def usage_rest(fields: JSONObject) -> JSONObject:
    """What usage says besides: tool use, counts by modality."""
    return {key: value for key, value in fields.items() if key not in _COMMON and value}


def usage_to_wire(usage: Usage, beside: JSONObject) -> JSONObject:
    """Usage in this protocol's words. `beside`: what an upstream that speaks it said besides."""
    thoughts = min(usage.output_tokens, usage.reasoning_tokens)
    tools = min(usage.input_tokens, count(beside.get(_TOOLS)))
    wire: JSONObject = {
        **beside,
        _PROMPT: usage.input_tokens - tools,
        _OUTPUT: usage.output_tokens - thoughts,
        _TOTAL: usage.input_tokens + usage.output_tokens,
    }
    if _TOOLS in beside:
        wire[_TOOLS] = tools
    wire |= {name: value for name, value in ((_THOUGHTS, thoughts), (_CACHED, usage.cached_tokens)) if value}
    return wire


# ------------------------------------------------------------------------------------------------------ errors

#: https://ai.google.dev/gemini-api/docs/troubleshooting and google.rpc.Code
_STATUSES = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_ERROR_WORDS = {status: word for word, status in reversed(_STATUSES.items())}
#: Seconds in the words of protocol buffers: `34s`, `1.5s`.
_SECONDS = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,9})?)s")


def error_failure(value: JSONValue, status: int = 0, body: bytes = b"", otherwise: str = "") -> Failure:
    """The failure that an error object stands for; its code tells the status where none is known."""
    if is_array(value) and value:
        value = value[0]
    inner: JSONValue = value.get("error") if is_object(value) else None
    error = inner if is_object(inner) else value if is_object(value) else {}
    failure = failure_from(value, status or _status_in(error), body, otherwise)
    return msgspec.structs.replace(failure, retry_after=_delay(error.get("details")))


def _status_in(error: JSONObject) -> int:
    code = error.get("code")
    if isinstance(code, int) and 400 <= code < 600:
        return code
    word = error.get("status")
    return _STATUSES.get(word, 0) if isinstance(word, str) else 0


def _delay(details: JSONValue) -> float | None:
    """The seconds of a `google.rpc.RetryInfo`."""
    for detail in details if is_array(details) else ():
        delay = detail.get("retryDelay") if is_object(detail) else None
        found = _SECONDS.fullmatch(delay) if isinstance(delay, str) else None
        if found:
            return float(found[1])
    return None


def error_object(message: str, status: int, kind: str = "", code: str = "") -> JSONObject:
    """An error as this protocol writes it. `kind`: that of a `Failure`; `code`: the upstream's word, if it has one."""
    if not status:
        status = 504 if kind == "timeout" else 502
    default = "INVALID_ARGUMENT" if status < 500 else "UNAVAILABLE" if status == 502 else "INTERNAL"
    word = code if _STATUSES.get(code) == status else _ERROR_WORDS.get(status, default)
    return {"error": {"code": status, "message": message, "status": word}}
