"""Codec for Anthropic's Messages API.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent) and `needs_store` (whether the
request needs stored replies). Upstream replies: `ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`,
`encode_reply`, `encode_error`. `LOSSES` lists what the protocol cannot carry.
"""

from __future__ import annotations

from ..shared.fields import ROUTING_FIELDS, Loss
from .encoding_state import CACHE_CONTROL, PROTOCOL
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, decode_error, encode_error, encode_reply
from .request import DEFAULT_MAX_TOKENS, MAX_CACHE_MARKS, decode_request, encode_request, needs_store, request_notes

__all__ = [
    "CACHE_CONTROL",
    "DEFAULT_MAX_TOKENS",
    "LOSSES",
    "MAX_CACHE_MARKS",
    "PROTOCOL",
    "ROUTING_FIELDS",
    "Loss",
    "ReplyDecoder",
    "ReplyEncoder",
    "decode_error",
    "decode_request",
    "encode_error",
    "encode_reply",
    "encode_request",
    "needs_store",
    "request_notes",
]

LOSSES: tuple[Loss, ...] = (
    Loss("request", "protocol", "the original protocol is not preserved: after a round trip it is `anthropic`"),
    Loss(
        "request",
        "protocol-specific fields",
        "other protocols' opaque parts, tools and `extra` fields (except `cache_control`) are not sent",
    ),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like stay in `options.extra` and are never sent"),
    Loss("request", "names", "names of messages and results are not sent"),
    Loss("request", "empty text", "empty text is not sent because the service rejects it"),
    Loss("request", "opaque part", "an opaque part is sent only if it is a JSON object with a `type`"),
    Loss("request", "media", "audio, video, and inline data other than images, PDF and plain text are not sent"),
    Loss("request", "reasoning", "reasoning is sent only as signed thinking blocks"),
    Loss("request", "empty message", "an empty message is not sent because the service rejects it"),
    Loss("request", "several system messages", "leading messages form the system prompt; others become user messages"),
    Loss("request", "tool messages", "consecutive tool messages are merged; one with text becomes a user message"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "ids", "characters that the service rejects in call ids are replaced"),
    Loss("request", "custom tool", "a custom tool is sent as a function with one string parameter"),
    Loss("request", "namespace", "the namespace is sent only as a prefix of the tool name"),
    Loss("request", "side effects", "the side-effects flag of a tool is not sent"),
    Loss("request", "tool without a schema", "accepts any object"),
    Loss("request", "combined schemas", "`anyOf`, `oneOf` and `allOf` at the top level of a schema are merged"),
    Loss("request", "tool_choice without tools", "is not sent"),
    Loss("request", "allowed tools", "only allowed tools are sent; with `none` or a named tool, all tools are"),
    Loss("request", "parallel under none", "is not sent"),
    Loss("request", "max_tokens", "a default `max_tokens` is sent if it is missing, because the service requires it"),
    Loss("request", "temperature", "a temperature above 1 is lowered to 1"),
    Loss("request", "stop", "stop sequences that contain only white space are not sent"),
    Loss("request", "seed and n", "are not sent"),
    Loss("request", "format", "the format's name, its strictness and a format without a schema are not sent"),
    Loss("request", "grammar", "after a round trip, a grammar is part of `options.extra`"),
    Loss("request", "cache breakpoints", "only the last four cache breakpoints are sent"),
    Loss("reply", "blocks of text", "consecutive text blocks are joined; their citations follow the text"),
    Loss("reply", "order of a whole answer", "the order is kept for Anthropic upstreams; else thinking, text, calls"),
    Loss("reply", "last call of a whole answer", "a call cut by the length limit gets no end event"),
    Loss("reply", "call without an id", "gets one"),
    Loss(
        "reply",
        "tokens written to the cache",
        "tokens written to the cache count as input; only Anthropic clients receive them separately",
    ),
    Loss("reply", "notes and candidates", "notes and candidates are sent only in the extension field `toolspeak`"),
    Loss("reply", "invalid calls", "an invalid call is dropped unless it has already been streamed"),
    Loss("reply", "opaque parts", "only Anthropic blocks of known types are sent"),
    Loss("reply", "message fields", "other fields, such as `diagnostics` and `context_management`, are not read"),
)
