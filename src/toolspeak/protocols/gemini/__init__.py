"""Gemini's generateContent and streamGenerateContent: the four halves of its codec.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent) and `path`, for the model stands
there. Replies of an upstream: `ReplyDecoder`, `decode_error`. Replies to a client: `ReplyEncoder`, `encode_reply`,
`encode_error`. What cannot be carried is listed in `LOSSES`.
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
    Loss("request", "model and stream", "stand in the path; `decode_request` is told them"),
    Loss(
        "request", "words of another protocol", "`extra` fields, opaque parts and tools of its own kinds are not sent"
    ),
    Loss("request", "foreign calls", "the first call of a message is marked as one that Gemini did not sign"),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like are kept in `options.extra`, never sent"),
    Loss("request", "system messages", "are one instruction, before all others"),
    Loss("request", "names of messages", "are not sent"),
    Loss("request", "empty text", "a text that is empty and says nothing besides is not sent"),
    Loss("request", "empty message", "a message of which nothing can be sent is left out"),
    Loss("request", "opaque part", "is sent if it is a part of this protocol, else left out"),
    Loss("request", "reasoning", "comes back with the part that it stands in"),
    Loss("request", "results in turn", "messages that follow each other and hold only results are one"),
    Loss("request", "tool message", "one that holds more than results comes back as the user's"),
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
    Loss("request", "choice without functions", "is not sent"),
    Loss("request", "allowed tools under none", "are not sent"),
    Loss("request", "named choice", "comes back as required, with one name allowed"),
    Loss("request", "allowed tools under auto", "are sent as VALIDATED, for AUTO takes no names"),
    Loss("request", "single calls", "that one call at most is wanted is not sent"),
    Loss("request", "streamed arguments", "`streamFunctionCallArguments` is not sent: a call is one piece"),
    Loss("request", "format", "its name and strictness are not sent"),
    Loss("request", "grammar", "comes back as the format, or as `options.extra`"),
    Loss("request", "media", "the kind follows the media type; base64 is written in the standard alphabet"),
    Loss("reply", "other choices", "only the first answer of several is read, with a note"),
    Loss("reply", "notes and candidates", "are not sent; a server puts them into the extension field `toolspeak`"),
    Loss("reply", "cut calls", "a call that was cut or turned out wrong is not sent"),
    Loss("reply", "calls in pieces", "a call whose arguments come in pieces is dropped, with a note"),
    Loss("reply", "opaque parts", "those of other protocols are not sent"),
    Loss("reply", "order", "without streaming is kept for an upstream of this protocol; else thinking, text, calls"),
    Loss("reply", "created", "`createTime` is neither read nor sent"),
    Loss("reply", "failure", "its kind is not sent, its status is"),
)
