"""Codec for Gemini's generateContent API.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent) and `path`, which contains the
model. Upstream replies: `ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`, `encode_reply`,
`encode_error`. `LOSSES` lists what the protocol cannot carry.
"""

from __future__ import annotations

from ..shared.fields import Loss
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, decode_error, encode_error, encode_reply
from .request import decode_request, encode_request, path, request_notes
from .wire import PROTOCOL

__all__ = [
    "LOSSES",
    "PROTOCOL",
    "ReplyDecoder",
    "ReplyEncoder",
    "decode_error",
    "decode_request",
    "encode_error",
    "encode_reply",
    "encode_request",
    "path",
    "request_notes",
]

LOSSES: tuple[Loss, ...] = (
    Loss("request", "protocol", "comes back as `gemini`"),
    Loss("request", "model and stream", "are part of the URL path; `decode_request` takes them as arguments"),
    Loss("request", "protocol-specific fields", "`extra` fields, opaque parts and tools of its own kinds are not sent"),
    Loss("request", "foreign calls", "the first call of a message is marked as not signed by Gemini"),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like are stored in `options.extra`, never sent"),
    Loss("request", "system messages", "are merged into one instruction before all other messages"),
    Loss("request", "names of messages", "are not sent"),
    Loss("request", "empty text", "is not sent unless it has extra fields"),
    Loss("request", "empty message", "is not sent, also if none of its parts can be sent"),
    Loss("request", "opaque part", "is sent if it is a part of this protocol, else left out"),
    Loss("request", "reasoning", "comes back with its part"),
    Loss("request", "consecutive results", "consecutive messages with only results are merged"),
    Loss("request", "tool message", "with more than results comes back as a user message"),
    Loss("request", "result without a name", "gets the name of its call"),
    Loss("request", "generated ids", "generated ids of calls are not sent; results follow the order of the calls"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "custom tool", "is sent as a function with one string parameter"),
    Loss("request", "namespace", "is not sent; the tool name starts with it"),
    Loss("request", "side effects", "the flag of a tool is not sent"),
    Loss("request", "choice without functions", "is not sent"),
    Loss("request", "allowed tools under none", "are not sent"),
    Loss("request", "named choice", "comes back as required, with one allowed tool"),
    Loss("request", "allowed tools under auto", "are sent as VALIDATED, because AUTO does not accept names"),
    Loss("request", "single calls", "the limit to one call is not sent"),
    Loss("request", "streamed arguments", "`streamFunctionCallArguments` is not sent, because calls are not split"),
    Loss("request", "format", "its name and strictness are not sent"),
    Loss("request", "grammar", "comes back as the format, or as `options.extra`"),
    Loss("request", "media", "the kind follows the media type; base64 uses the standard alphabet"),
    Loss("reply", "other choices", "only the first choice is read, with a note"),
    Loss("reply", "notes and candidates", "are not sent; a server puts them into the extension field `toolspeak`"),
    Loss("reply", "incomplete calls", "an incomplete or invalid call is not sent"),
    Loss("reply", "split calls", "a call with streamed arguments is dropped, with a note"),
    Loss("reply", "opaque parts", "those of other protocols are not sent"),
    Loss("reply", "order", "of a whole reply is kept for an upstream of this protocol; else thinking, text, calls"),
    Loss("reply", "created", "`createTime` is neither read nor sent"),
    Loss("reply", "failure", "its kind is not sent, its status is"),
)
