"""Structs for decoding chunks and replies from upstreams.

The structs declare only the fields that toolspeak uses; decoding skips the rest. Most fields accept any JSON value,
because servers send different types. A complete reply has `message` where a chunk has `delta`.
"""

from operator import attrgetter

import msgspec

from ...core.events import FinishReason
from ...core.types import JSONObject, JSONValue, Usage, is_object
from ..shared.fields import count, object_or_empty


class DeltaFunction(msgspec.Struct, gc=False):
    """The name and arguments of a called function, or the name and input of a custom tool."""

    name: JSONValue = None
    arguments: JSONValue = None
    input: JSONValue = None


class DeltaCall(msgspec.Struct, gc=False):
    """A piece of a streamed tool call."""

    index: JSONValue = None
    id: JSONValue = None
    function: DeltaFunction | None = None
    custom: DeltaFunction | None = None
    extra_content: JSONValue = None


class Delta(msgspec.Struct, gc=False):
    """A piece of a streamed message, or a complete message."""

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


#: Message fields that are forwarded as opaque parts.
OPAQUE_FIELDS = ("annotations", "audio", "images", "reasoning_details")
#: Kind of the opaque part for extra fields of a call, such as a signature that must be sent back to Gemini.
CALL = "openai_call"
#: Kinds of opaque parts that describe the reply but are not part of its message: token log probabilities and other
#: metadata of chunks.
LOGPROBS, ANSWER = "logprobs", "openai_answer"


CHUNK_OBJECT = "chat.completion.chunk"


class Choice(msgspec.Struct, gc=False):
    """One of several alternative replies."""

    index: JSONValue = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: JSONValue = None
    usage: JSONValue = None
    error: JSONValue = None
    logprobs: JSONValue = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk of a stream, or a complete, non-streamed reply."""

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


#: Message fields with text, and all others. Chunks with other fields are not passed through unchanged.
_TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "thinking")
_texts = attrgetter(*_TEXT_FIELDS)
_others = attrgetter(*(field.name for field in msgspec.structs.fields(Delta) if field.name not in _TEXT_FIELDS))
_TEXT_TYPES = frozenset({str, type(None)})


def has_only_text(chunk: Chunk) -> bool:
    """Whether a chunk is empty or contains only text, in the format that `ReplyEncoder` writes."""
    if chunk.usage is not None or chunk.x_groq is not None or not chunk.choices or len(chunk.choices) != 1:
        return False
    choice = chunk.choices[0]
    others = (choice.message, choice.finish_reason, choice.usage, choice.error or None, choice.logprobs or None)
    if type(choice.index) is not int or choice.index or choice.delta is None or others != (None,) * len(others):
        return False
    delta = choice.delta
    return _TEXT_TYPES.issuperset(map(type, _texts(delta))) and not any(_others(delta))


def identity_of(chunk: Chunk) -> JSONObject | None:
    """Return the fields that are identical in all chunks of a reply. Return None if one of them is missing."""
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
    """Convert usage fields to `Usage`. Servers report cached tokens in one of three different fields."""
    if not is_object(value):
        return None
    cached = object_or_empty(value.get("prompt_tokens_details")).get("cached_tokens")
    for key in ("cached_tokens", "prompt_cache_hit_tokens"):
        cached = value.get(key) if cached is None else cached
    reasoning = object_or_empty(value.get("completion_tokens_details")).get("reasoning_tokens")
    input_tokens, output_tokens = count(value.get("prompt_tokens")), count(value.get("completion_tokens"))
    return Usage(input_tokens, output_tokens, count(cached), count(reasoning))
