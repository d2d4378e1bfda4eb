"""Codec for Anthropic's Messages API.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent) and `needs_store`
(whether only a store of earlier replies could answer). Upstream replies: `ReplyDecoder`, `decode_error`. Client
replies: `ReplyEncoder`, `encode_reply`, `encode_error`. `LOSSES` lists what the protocol cannot carry.
"""

from __future__ import annotations

from ..shared.fields import ROUTING_FIELDS, Loss
from .encoding_state import CACHE_CONTROL, PROTOCOL
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, decode_error, encode_error, encode_reply
from .request import (
    DEFAULT_MAX_TOKENS,
    MAX_CACHE_MARKS,
    decode_request,
    encode_request,
    needs_store,
    request_notes,
)

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
    Loss("request", "protocol", "comes back as `anthropic`"),
    Loss(
        "request",
        "protocol-specific fields",
        "`extra` fields except `cache_control`, opaque parts and tools of its own kinds are not sent",
    ),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like are stored in `options.extra`, never sent"),
    Loss("request", "names", "names of messages and results are not sent"),
    Loss("request", "empty text", "is not sent, because the service rejects it"),
    Loss("request", "opaque part", "is sent if it is an object with a type, else left out"),
    Loss("request", "media", "audio, video, and inline data other than images, PDF and plain text are not sent"),
    Loss("request", "reasoning", "is sent as signed thinking blocks, never without a signature"),
    Loss("request", "empty message", "is not sent, because the service rejects it"),
    Loss("request", "several system messages", "leading ones become one text prompt; later ones become user messages"),
    Loss(
        "request", "tool messages", "consecutive messages with results are merged; with text they become user messages"
    ),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "ids", "characters that the service rejects are replaced"),
    Loss("request", "custom tool", "is sent as a function with one string parameter"),
    Loss("request", "namespace", "is not sent; the tool name starts with it"),
    Loss("request", "side effects", "the flag of a tool is not sent"),
    Loss("request", "tool without a schema", "accepts any object"),
    Loss("request", "combined schemas", "schemas combined at the top level are merged into one"),
    Loss("request", "tool_choice without tools", "is not sent"),
    Loss("request", "allowed tools", "only these are sent; with `none` or a named tool, all are sent"),
    Loss("request", "parallel under none", "is not sent"),
    Loss("request", "max_tokens", "is set if missing, because the service requires it"),
    Loss("request", "temperature", "is at most 1"),
    Loss("request", "stop", "sequences of only white space are not sent"),
    Loss("request", "seed and n", "are not sent"),
    Loss("request", "format", "its name and strictness are not sent, nor a format without a schema"),
    Loss("request", "grammar", "comes back as `options.extra`"),
    Loss("request", "cache breakpoints", "only the last four are sent"),
    Loss("reply", "blocks of text", "consecutive ones are joined; their citations follow the text"),
    Loss("reply", "order of a whole answer", "is kept for an upstream of this protocol; else thinking, text, calls"),
    Loss(
        "reply", "last call of a whole answer", "is not ended if the length limit cut it, because it may be incomplete"
    ),
    Loss("reply", "call without an id", "gets one"),
    Loss(
        "reply",
        "tokens written to the cache",
        "are counted as input; only clients of this protocol receive them separately",
    ),
    Loss("reply", "notes and candidates", "are not sent; a server puts them into the extension field `toolspeak`"),
    Loss("reply", "invalid calls", "an invalid call that was already streamed stays in the stream; otherwise left out"),
    Loss("reply", "opaque parts", "only blocks of this protocol with known types are sent"),
    Loss("reply", "message fields", "other fields, such as `diagnostics` and `context_management`, are not read"),
)
