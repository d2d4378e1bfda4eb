"""What an upstream's chunk or answer looks like on the wire, as far as it is read, and small readers of its fields.

The structs name only what is used, so that one decode skips the rest. Leaves take any JSON, for servers differ in
them. A whole answer and a chunk of a stream have the same shape but for one word (`message`, `delta`).
"""

from __future__ import annotations

import msgspec

from ...core.events import FinishReason
from ...core.types import JSONObject, JSONValue, Usage, is_object
from ..shared.fields import count, repair_json


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


#: Fields of a message that are carried, not read.
CARRIED = ("annotations", "audio", "images", "reasoning_details")
#: The kind of an opaque part: what a call says besides, such as the signature that Gemini wants back.
CALL = "openai_call"
#: Kinds of opaque parts that are about an answer and no part of a message: how likely its words were, and what else its
#: chunks say of it.
LOGPROBS, ANSWER = "logprobs", "openai_answer"


#: What a chunk of a stream calls itself.
OBJECT = "chat.completion.chunk"


class Choice(msgspec.Struct, gc=False):
    """One of the answers."""

    index: JSONValue = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: JSONValue = None
    usage: JSONValue = None
    error: JSONValue = None
    logprobs: JSONValue = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk of a stream, or a whole answer."""

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
    """A chunk with characters that JSON or UTF-8 forbids, U+FFFD in their places; None when it is no chunk at all."""
    mended = repair_json(payload)
    try:
        return decode_chunk(mended) if mended else None
    except (msgspec.DecodeError, RecursionError):
        return None


# ------------------------------------------------------------------------------------------- what can be quoted

#: Fields of a message that are text, and those that say something besides: a chunk with one of these is not quoted.
_TEXTS = ("content", "reasoning_content", "reasoning", "thinking")
_BESIDE = tuple(field.name for field in msgspec.structs.fields(Delta) if field.name not in _TEXTS)


def says_only_text(chunk: Chunk) -> bool:
    """Whether a chunk is one of those that our own face writes for a text, or for nothing at all."""
    if chunk.usage is not None or chunk.x_groq is not None or not chunk.choices or len(chunk.choices) != 1:
        return False
    choice = chunk.choices[0]
    beside = (choice.message, choice.finish_reason, choice.usage, choice.error or None, choice.logprobs or None)
    if type(choice.index) is not int or choice.index or choice.delta is None or beside != (None,) * len(beside):
        return False
    delta = choice.delta
    if not all((text := getattr(delta, name)) is None or isinstance(text, str) for name in _TEXTS):
        return False
    return not any(getattr(delta, name) for name in _BESIDE)


def name_of(chunk: Chunk) -> JSONObject | None:
    """What stands in a chunk as in every other of its answer; None where something of it is missing."""
    named = isinstance(chunk.id, str) and isinstance(chunk.created, int) and isinstance(chunk.model, str)
    if chunk.error or chunk.object != OBJECT or not named or not chunk.id or not chunk.model:
        return None
    return {"id": chunk.id, "object": OBJECT, "created": chunk.created, "model": chunk.model}


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
    went_in, came_out = count(value.get("prompt_tokens")), count(value.get("completion_tokens"))
    return Usage(went_in, came_out, count(cached), count(thought))
