"""Ollama's chat (`/api/chat`): the four halves of its codec.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent). Replies of an upstream:
`ReplyDecoder`, `decode_error`. Replies to a client: `ReplyEncoder`, `encode_reply`, `encode_error`. What cannot be
carried is listed in `LOSSES`.
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
    Loss("request", "words of another protocol", "`extra` fields and tools of its own kinds are not sent"),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like are kept in `options.extra`, never sent"),
    Loss("request", "names of messages", "are not sent"),
    Loss("request", "several texts", "of one message are joined, and stand before its pictures"),
    Loss("request", "media", "only pictures that are sent along can be sent, as their base64 alone"),
    Loss("request", "opaque part", "is not sent"),
    Loss("request", "several results", "each result is a message of its own, before the text of its message"),
    Loss("request", "tool message", "only its results are sent"),
    Loss("request", "result error", "the mark that a result is an error is not sent; its text is"),
    Loss("request", "result without a name", "gets the name of its call"),
    Loss(
        "request",
        "made ids",
        "ids that were made for calls without one are not sent; their results stand in the order of the calls",
    ),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "custom tool", "is sent as a function of one text"),
    Loss("request", "namespace", "is not sent; the name of the tool begins with it"),
    Loss("request", "side effects", "the mark of a tool is not sent"),
    Loss("request", "tool choice", "is not sent; under `none` no tool is"),
    Loss("request", "several answers", "only one is asked for"),
    Loss("request", "format", "its name and strictness are not sent"),
    Loss("request", "grammar", "comes back as the format, or as `options.extra`"),
    Loss("reply", "content filter", "is told as `stop`"),
    Loss("reply", "cached and reasoning tokens", "are not told"),
    Loss("reply", "notes and candidates", "are not sent; a server puts them into the extension field `toolspeak`"),
    Loss("reply", "cut calls", "a call that was cut or turned out wrong is not sent"),
    Loss("reply", "opaque parts", "all but pictures and timings are not sent"),
    Loss("reply", "failure", "its kind and status are not sent once the answer has begun"),
    Loss("reply", "logprobs", "are not read"),
    Loss("reply", "id", "is not sent"),
)
