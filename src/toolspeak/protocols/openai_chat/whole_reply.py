"""Fast decoding and encoding of ordinary complete replies: with one struct, and with a byte template.

An ordinary reply contains text or function calls, and nothing else that needs attention. The results are those of
`ReplyDecoder` and of the general part of `encode_reply`, to which all other replies are left.

Everything that `ReplyDecoder` parses is declared by the struct, too: undeclared values are skipped without a check of
their characters and numbers, which `ReplyDecoder` repairs or rejects.
"""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from ...core.events import CallArgs, CallEnd, CallStart, Event, Finish, OpaqueSeen, Reply, TextDelta, UsageSeen
from ...core.types import MAX_TOKEN_COUNT, Opaque, ToolCall, Usage
from ..shared.fields import MAX_BODY, encode_plain, to_wire
from .chunks import ANSWER

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKEN_COUNT)]
_Empty: TypeAlias = Annotated[list[Any], msgspec.Meta(max_length=0)] | None
_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
#: Number of calls above which a reply is not ordinary.
_MAX_CALLS = 64


class _InputDetails(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    cached_tokens: _Count | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None
    text_tokens: int | None = None


class _OutputDetails(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    reasoning_tokens: _Count | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None
    text_tokens: int | None = None
    accepted_prediction_tokens: int | None = None
    rejected_prediction_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    total_tokens: int | None = None
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    cached_tokens: None = None
    prompt_cache_hit_tokens: None = None


class _Function(msgspec.Struct, gc=False):
    name: _Text
    arguments: Annotated[str, msgspec.Meta(pattern=r"\S")]
    input: None = None


class _Call(msgspec.Struct, gc=False):
    id: _Text
    function: _Function
    index: None = None
    custom: None = None
    extra_content: None = None


class _Message(msgspec.Struct, gc=False):
    """A message without any of the rarer fields that `chunks.Delta` declares."""

    content: str | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: Literal[""] | None = None
    reasoning: Literal[""] | None = None
    thinking: None = None
    refusal: Literal[""] | None = None
    function_call: None = None
    annotations: _Empty = None
    audio: None = None
    images: _Empty = None
    reasoning_details: _Empty = None


class _Choice(msgspec.Struct, gc=False):
    message: _Message
    finish_reason: Literal["stop", "length", "content_filter", "tool_calls"]
    index: int | None = None
    delta: None = None
    usage: None = None
    error: None = None
    logprobs: None = None


class _Completion(msgspec.Struct, gc=False):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1, max_length=1)]
    object: str | None = None
    usage: _Usage | None = None
    error: None = None
    x_groq: None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    id: str | None = None
    created: int | None = None
    model: str | None = None
    message: None = None
    detail: None = None


_decode = msgspec.json.Decoder(_Completion).decode


def decode_reply(body: bytes) -> list[Event] | None:
    """Return the events of a complete reply. Returns None if the reply is not ordinary."""
    try:
        reply = _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    choice = reply.choices[0]
    message, reason = choice.message, choice.finish_reason
    calls = message.tool_calls or ()
    if bool(calls) != (reason == "tool_calls") or reply.object == "error" or len(body) > MAX_BODY:
        return None
    if len(calls) > 1 and (len(calls) > _MAX_CALLS or len({call.id for call in calls}) < len(calls)):
        return None
    events: list[Event] = []
    if reply.system_fingerprint is not None or reply.service_tier is not None:
        events.append(_metadata(reply))
    if message.content:
        events.append(TextDelta(message.content))
    for index, call in enumerate(calls):
        events += (CallStart(index, call.function.name, call.id), CallArgs(index, call.function.arguments))
    events += map(CallEnd, range(len(calls)))
    if (usage := reply.usage) is not None:
        inputs, outputs = usage.prompt_tokens_details, usage.completion_tokens_details
        cached, reasoning = inputs and inputs.cached_tokens, outputs and outputs.reasoning_tokens
        events.append(UsageSeen(Usage(usage.prompt_tokens, usage.completion_tokens, cached or 0, reasoning or 0)))
    events.append(Finish(reason))
    return events


def _metadata(reply: _Completion) -> Event:
    fields = {"system_fingerprint": reply.system_fingerprint, "service_tier": reply.service_tier}
    return OpaqueSeen(Opaque(ANSWER, {name: value for name, value in fields.items() if value is not None}))


#: A complete reply and a call, with places for encoded values.
_REPLY = (
    b'{"id":%b,"object":"chat.completion","created":%d,"model":%b,"choices":[{"index":0,"message":'
    b'{"role":"assistant","content":%b,"refusal":null%b},"logprobs":null,"finish_reason":"%b"}],'
    b'"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,'
    b'"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}}'
)
_CALL = b'{"id":%b,"type":"function","function":{"name":%b,"arguments":%b}}'


def encode_ordinary(reply: Reply, id: str, created: int, model: str) -> bytes | None:
    """Encode a reply that consists of text, reasoning and calls of functions. Returns None if that is not all."""
    if reply.opaque or (reply.notes and any(note.code == "refusal" for note in reply.notes)):
        return None
    reason: str = reply.finish_reason
    if reason not in ("length", "content_filter"):
        reason = "tool_calls" if reply.calls else "stop"
    usage = reply.usage
    counts = (usage.input_tokens, usage.output_tokens, usage.input_tokens + usage.output_tokens)
    try:
        content = encode_plain(reply.text or (None if reply.calls else ""))
        rest = b',"reasoning_content":' + encode_plain(reply.reasoning) if reply.reasoning else b""
        if reply.calls:
            rest += b',"tool_calls":[%b]' % b",".join(map(_encode_call, reply.calls))
        head = (encode_plain(id), created, encode_plain(model), content, rest, reason.encode())
    except (UnicodeEncodeError, TypeError, OverflowError):  # half a character, for example
        return None
    return _REPLY % (*head, *counts, usage.cached_tokens, usage.reasoning_tokens)


def _encode_call(call: ToolCall) -> bytes:
    return _CALL % (encode_plain(call.id), encode_plain(call.name), encode_plain(to_wire(call.arguments).decode()))
