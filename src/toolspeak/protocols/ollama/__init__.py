"""Codec for Ollama's chat API (`/api/chat`).

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent). Upstream replies:
`ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`, `encode_reply`, `encode_error`. `LOSSES` lists what the
protocol cannot carry.
"""

from __future__ import annotations

from ..shared.fields import Loss
from .messages import PROTOCOL
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, decode_error, encode_error, encode_reply
from .request import decode_request, encode_request, request_notes

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
    "request_notes",
]

LOSSES: tuple[Loss, ...] = (
    Loss("request", "protocol", "the original protocol is not preserved: after a round trip it is `ollama`"),
    Loss("request", "protocol-specific fields", "another protocol's `extra` fields and tools are not sent"),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like stay in `options.extra` and are never sent"),
    Loss("request", "names of messages", "are not sent"),
    Loss("request", "several texts", "the texts of a message are joined and sent before its images"),
    Loss("request", "media", "only inline images are sent, as base64 without a media type"),
    Loss("request", "opaque part", "is not sent"),
    Loss("request", "several results", "each result becomes a separate message before the text of its message"),
    Loss("request", "tool message", "only the results in a tool message are sent"),
    Loss("request", "result error", "the result's text is sent, but not its error flag"),
    Loss("request", "result without a name", "a result without a tool name gets the name from its call"),
    Loss("request", "generated ids", "generated call ids are not sent; results are sent in the order of the calls"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "custom tool", "a custom tool is sent as a function with one string parameter"),
    Loss("request", "namespace", "the namespace is sent only as a prefix of the tool name"),
    Loss("request", "side effects", "the side-effects flag of a tool is not sent"),
    Loss("request", "tool choice", "a tool choice is not sent; with `none`, the tools are not sent either"),
    Loss("request", "several answers", "only one answer is requested"),
    Loss("request", "format", "the format's name and strictness are not sent"),
    Loss("request", "grammar", "after a round trip, a grammar is the response format or part of `options.extra`"),
    Loss("reply", "content filter", "the finish reason `content_filter` is sent as `stop`"),
    Loss("reply", "cached and reasoning tokens", "are not sent"),
    Loss("reply", "notes and candidates", "notes and candidates are sent only in the extension field `toolspeak`"),
    Loss("reply", "incomplete calls", "incomplete and invalid calls are not sent"),
    Loss("reply", "opaque parts", "of all opaque parts, only images and timings are sent"),
    Loss("reply", "failure", "the kind and status of a failure are not sent once the reply has begun"),
    Loss("reply", "logprobs", "are not read"),
    Loss("reply", "id", "is not sent"),
)
