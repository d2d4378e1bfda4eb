"""Codec for Gemini's generateContent API.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent) and `path` (the URL path, which
contains the model). Upstream replies: `ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`, `encode_reply`,
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
    Loss("request", "protocol", "the original protocol is not preserved: after a round trip it is `gemini`"),
    Loss("request", "model and stream", "both are in the URL path; `decode_request` takes them as arguments"),
    Loss("request", "protocol-specific fields", "other protocols' `extra` fields, opaque parts and tools are not sent"),
    Loss("request", "foreign calls", "the first call in a message from another protocol is marked as unsigned"),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like stay in `options.extra` and are never sent"),
    Loss("request", "system messages", "system messages are merged into one instruction before all other messages"),
    Loss("request", "names of messages", "are not sent"),
    Loss("request", "empty text", "empty text is not sent unless it has extra fields"),
    Loss("request", "empty message", "a message without any part that can be sent is dropped"),
    Loss("request", "opaque part", "an opaque part is sent only if it is a Gemini part"),
    Loss("request", "reasoning", "after a round trip, the message also contains the thinking parts"),
    Loss("request", "consecutive results", "consecutive messages that contain only results are merged"),
    Loss("request", "tool message", "a tool message that contains more than results becomes a user message"),
    Loss("request", "result without a name", "a result without a tool name gets the name from its call"),
    Loss("request", "generated ids", "generated call ids are not sent; results are sent in the order of the calls"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "custom tool", "a custom tool is sent as a function with one string parameter"),
    Loss("request", "namespace", "the namespace is sent only as a prefix of the tool name"),
    Loss("request", "side effects", "the side-effects flag of a tool is not sent"),
    Loss("request", "choice without functions", "is not sent"),
    Loss("request", "allowed tools under none", "are not sent"),
    Loss("request", "named choice", "a named tool choice becomes `required` with one allowed tool"),
    Loss("request", "allowed tools under auto", "the mode is sent as VALIDATED because AUTO accepts no tool names"),
    Loss("request", "single calls", "the limit of one call per reply is not sent"),
    Loss("request", "streamed arguments", "`streamFunctionCallArguments` is not sent; calls always arrive whole"),
    Loss("request", "format", "the format's name and strictness are not sent"),
    Loss("request", "grammar", "after a round trip, a grammar is the response format or part of `options.extra`"),
    Loss("request", "media", "the media type determines the kind; base64 is sent in the standard alphabet"),
    Loss("reply", "other choices", "only the first choice is read; a note reports the others"),
    Loss("reply", "notes and candidates", "notes and candidates are sent only in the extension field `toolspeak`"),
    Loss("reply", "incomplete calls", "incomplete and invalid calls are not sent"),
    Loss("reply", "split calls", "a call with streamed arguments is dropped, and a note reports it"),
    Loss("reply", "opaque parts", "opaque parts of other protocols are not sent"),
    Loss("reply", "order", "the order is kept for Gemini upstreams; otherwise thinking, then text, then calls"),
    Loss("reply", "created", "`createTime` is neither read nor sent"),
    Loss("reply", "failure", "the status of a failure is sent, but not its kind"),
)
