"""Wire format of upstream chunks and replies, as far as it is read.

The structs declare only the fields in use, so decoding skips the rest. Leaves accept any JSON, because servers differ.
A whole reply and a chunk differ only in one field (`message`, `delta`).
"""

from __future__ import annotations

import msgspec

from ...core.events import FinishReason
from ...core.types import JSONObject, JSONValue, Usage, is_object
from ..shared.fields import count, repair_json


class DeltaFunction(msgspec.Struct, gc=False):
    """A called function, or a custom tool with its input."""

    name: JSONValue = None
    arguments: JSONValue = None
    input: JSONValue = None


class DeltaCall(msgspec.Struct, gc=False):
    """A piece of a call."""

    index: JSONValue = None
    id: JSONValue = None
    function: DeltaFunction | None = None
    custom: DeltaFunction | None = None
    extra_content: JSONValue = None


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


#: Fields of a message that are forwarded as opaque parts.
OPAQUE_FIELDS = ("annotations", "audio", "images", "reasoning_details")
#: Kind of the opaque part with extra fields of a call, such as the signature that Gemini requires back.
CALL = "openai_call"
#: Kinds of opaque parts that describe the reply and are not part of the message: token probabilities, and other
#: metadata in chunks.
LOGPROBS, ANSWER = "logprobs", "openai_answer"


CHUNK_OBJECT = "chat.completion.chunk"


class Choice(msgspec.Struct, gc=False):
    """One of the alternative replies."""

    index: JSONValue = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: JSONValue = None
    usage: JSONValue = None
    error: JSONValue = None
    logprobs: JSONValue = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk of a stream, or a whole reply."""

    choices: list[Choice] | None = None
    usage: JSONValue = None
    error: JSONValue = None
    x_groq: JSONValue = None
    object: JSONValue = None
    message: JSONValue = None
    detail: JSONValue = None
    system_fingerprint: JSONValue = None
    service_tier: JSONValue = None
    id: JSONValue = None
    created: JSONValue = None
    model: JSONValue = None


decode_chunk = msgspec.json.Decoder(Chunk).decode


def repair_chunk(payload: bytes) -> Chunk | None:
    """Decode a chunk after replacing characters that JSON or UTF-8 forbids; None if that fails too."""
    repaired = repair_json(payload)
    try:
        return decode_chunk(repaired) if repaired else None
    except (msgspec.DecodeError, RecursionError):
        return None


#: Text fields of a message, and the others; a chunk with one of the others is not passed through.
_TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "thinking")
_OTHER_FIELDS = tuple(field.name for field in msgspec.structs.fields(Delta) if field.name not in _TEXT_FIELDS)


def has_only_text(chunk: Chunk) -> bool:
    """Whether a chunk contains only text, or nothing, in the form that `ReplyEncoder` writes."""
    if chunk.usage is not None or chunk.x_groq is not None or not chunk.choices or len(chunk.choices) != 1:
        return False
    choice = chunk.choices[0]
    others = (choice.message, choice.finish_reason, choice.usage, choice.error or None, choice.logprobs or None)
    if type(choice.index) is not int or choice.index or choice.delta is None or others != (None,) * len(others):
        return False
    delta = choice.delta
    if not all((text := getattr(delta, name)) is None or isinstance(text, str) for name in _TEXT_FIELDS):
        return False
    return not any(getattr(delta, name) for name in _OTHER_FIELDS)


def identity_of(chunk: Chunk) -> JSONObject | None:
    """Return the fields that are the same in all chunks of a reply; None if one is missing."""
    complete = isinstance(chunk.id, str) and isinstance(chunk.created, int) and isinstance(chunk.model, str)
    if chunk.error or chunk.object != CHUNK_OBJECT or not complete or not chunk.id or not chunk.model:
        return None
    return {"id": chunk.id, "object": CHUNK_OBJECT, "created": chunk.created, "model": chunk.model}


_FINISH: dict[str, FinishReason] = {
    **dict.fromkeys("stop end_turn eos eos_token stop_sequence complete completed done".split(), "stop"),
    **dict.fromkeys("tool_calls tool_call tool_use function_call".split(), "tool_calls"),
    **dict.fromkeys("length max_tokens max_output_tokens model_length token_limit".split(), "length"),
    **dict.fromkeys("content_filter safety sensitive recitation blocklist".split(), "content_filter"),
    **dict.fromkeys("error abort network_error insufficient_system_resource".split(), "error"),
}


def finish_reason_from(reason: str) -> FinishReason:
    return _FINISH.get(reason.lower(), "unknown")


def usage_from(value: JSONValue) -> Usage | None:
    """Read token counts; servers report cached tokens in one of three fields."""
    if not is_object(value):
        return None
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if is_object(details) else None
    for key in ("cached_tokens", "prompt_cache_hit_tokens"):
        cached = value.get(key) if cached is None else cached
    details = value.get("completion_tokens_details")
    reasoning = details.get("reasoning_tokens") if is_object(details) else None
    input_tokens, output_tokens = count(value.get("prompt_tokens")), count(value.get("completion_tokens"))
    return Usage(input_tokens, output_tokens, count(cached), count(reasoning))
