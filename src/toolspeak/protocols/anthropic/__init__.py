"""Anthropic's Messages API, which Claude's clients and many servers speak: the four halves of its codec.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent), and `needs_store` (whether one
means what only a store of earlier answers can tell). Replies of an upstream: `ReplyDecoder`, `decode_error`. Replies
to a client: `ReplyEncoder`, `encode_reply`, `encode_error`. What cannot be carried is listed in `LOSSES`.
"""

from __future__ import annotations

from ..shared.fields import ROUTING_FIELDS, Loss
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
from .wire import CACHE_CONTROL, PROTOCOL

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
        "words of another protocol",
        "`extra` fields but for `cache_control`, opaque parts and tools of its own kinds are not sent",
    ),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like are kept in `options.extra`, never sent"),
    Loss("request", "names", "of messages and results are not sent"),
    Loss("request", "empty text", "is not sent, for the service refuses it"),
    Loss("request", "opaque part", "is sent if it is an object that names its type, else left out"),
    Loss("request", "media", "audio, video, and data that is neither a picture, a PDF nor plain text, are not sent"),
    Loss("request", "reasoning", "is sent as the signed blocks among the parts, never without a signature"),
    Loss("request", "empty message", "is not sent, for the service refuses it"),
    Loss(
        "request", "several system messages", "those before all others become one prompt of text; later ones the user's"
    ),
    Loss("request", "tool messages", "messages of results behind each other become one; with a text, it is the user's"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "ids", "are written with the characters that the service takes"),
    Loss("request", "custom tool", "is a function with one text"),
    Loss("request", "namespace", "is not sent; the name of the tool begins with it"),
    Loss("request", "side effects", "the mark of a tool is not sent"),
    Loss("request", "tool without a schema", "takes any object"),
    Loss("request", "schema of choices", "at its top becomes one schema of all their fields"),
    Loss("request", "tool_choice without tools", "is not sent"),
    Loss("request", "allowed tools", "only these are sent; under none and named all are"),
    Loss("request", "parallel under none", "is not sent"),
    Loss("request", "max_tokens", "is set where it is missing, for the service wants it"),
    Loss("request", "temperature", "above 1 is 1"),
    Loss("request", "stop", "sequences of nothing but white space are not sent"),
    Loss("request", "seed and n", "are not sent"),
    Loss("request", "format", "its name and strictness are not sent, nor a format without a schema"),
    Loss("request", "grammar", "comes back as `options.extra`"),
    Loss("request", "cache marks", "of more than four the last four are sent"),
    Loss("reply", "blocks of text", "behind each other become one; what they cite stands at its end"),
    Loss("reply", "order of a whole answer", "is kept for an upstream of this protocol; else thoughts, text, calls"),
    Loss("reply", "last call of a whole answer", "that was cut by length has no end, for it may be half of one"),
    Loss("reply", "call without an id", "gets one"),
    Loss("reply", "tokens written to the cache", "are counted as input; only a client of this protocol sees them"),
    Loss("reply", "notes and candidates", "are not sent; a server puts them into the extension field `toolspeak`"),
    Loss("reply", "invalid calls", "a call that was streamed and turned out wrong stays; otherwise left out"),
    Loss("reply", "opaque parts", "only blocks of this protocol are sent, and of those only known types"),
    Loss("reply", "message fields", "as `diagnostics` and `context_management` are not read"),
)
