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
    Loss("request", "protocol", "comes back as `ollama`"),
    Loss("request", "protocol-specific fields", "`extra` fields and tools of its own kinds are not sent"),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like are stored in `options.extra`, never sent"),
    Loss("request", "names of messages", "are not sent"),
    Loss("request", "several texts", "of one message are joined, and precede its images"),
    Loss("request", "media", "only inline images are sent, as base64 without a media type"),
    Loss("request", "opaque part", "is not sent"),
    Loss("request", "several results", "each result is a message of its own, before the text of its message"),
    Loss("request", "tool message", "only its results are sent"),
    Loss("request", "result error", "the error flag of a result is not sent; its text is"),
    Loss("request", "result without a name", "gets the name of its call"),
    Loss("request", "generated ids", "generated ids of calls are not sent; results follow the order of the calls"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "custom tool", "is sent as a function with one string parameter"),
    Loss("request", "namespace", "is not sent; the tool name starts with it"),
    Loss("request", "side effects", "the flag of a tool is not sent"),
    Loss("request", "tool choice", "is not sent; with `none`, no tools are sent"),
    Loss("request", "several answers", "only one is requested"),
    Loss("request", "format", "its name and strictness are not sent"),
    Loss("request", "grammar", "comes back as the format, or as `options.extra`"),
    Loss("reply", "content filter", "is sent as `stop`"),
    Loss("reply", "cached and reasoning tokens", "are not sent"),
    Loss("reply", "notes and candidates", "are not sent; a server puts them into the extension field `toolspeak`"),
    Loss("reply", "incomplete calls", "an incomplete or invalid call is not sent"),
    Loss("reply", "opaque parts", "are not sent, except images and timings"),
    Loss("reply", "failure", "its kind and status are not sent once the answer has begun"),
    Loss("reply", "logprobs", "are not read"),
    Loss("reply", "id", "is not sent"),
)
