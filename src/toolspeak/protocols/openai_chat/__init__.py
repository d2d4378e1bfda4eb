"""OpenAI's chat completions, the protocol that most clients and most servers speak: the four halves of its codec.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent). Replies of an upstream:
`ReplyDecoder`, `decode_error`. Replies to a client: `ReplyEncoder`, `encode_reply`, `encode_error`. What cannot be
carried is listed in `LOSSES`.
"""

from __future__ import annotations

from ..shared.fields import ROUTING_FIELDS, Loss
from ..shared.openai_errors import decode_error, encode_error
from .fields import PROTOCOL
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, encode_reply
from .request import LEGACY, decode_request, encode_request, request_notes

__all__ = [
    "LEGACY",
    "LOSSES",
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
    "request_notes",
]


LOSSES: tuple[Loss, ...] = (
    Loss("request", "protocol", "comes back as `openai_chat`"),
    Loss(
        "request", "words of another protocol", "`extra` fields, opaque parts and tools of its own kinds are not sent"
    ),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like are kept in `options.extra`, never sent"),
    Loss("request", "empty text", "a message whose only part is an empty text has no part"),
    Loss("request", "opaque part", "is sent if it is an object, else left out"),
    Loss("request", "several results", "each result is a message of its own, before the text of its message"),
    Loss(
        "request",
        "pictures of a tool",
        "stand in a message of the user behind the results, unless they came by this protocol",
    ),
    Loss("request", "pictures of an assistant or a system", "are not sent unless they came by this protocol"),
    Loss("request", "tool message", "only its results are sent"),
    Loss("request", "result error", "the mark that a result is an error is not sent; its text is"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "custom call", "only its `input` is sent"),
    Loss("request", "custom tool", "its schema is always that of one text"),
    Loss("request", "namespace", "is not sent; the name of the tool begins with it"),
    Loss("request", "side effects", "the mark of a tool is not sent"),
    Loss("request", "tool_choice without tools", "is not sent, for servers refuse it"),
    Loss("request", "allowed tools under none", "are not sent"),
    Loss("request", "stream_options", "sent only when streaming, and then always with `include_usage`"),
    Loss(
        "request",
        "format without a name",
        "a schema without a name is sent as `reply`; without a schema, no strictness",
    ),
    Loss("request", "grammar", "comes back as `options.extra`"),
    Loss("request", "both token limits", "`max_completion_tokens` wins over `max_tokens`"),
    Loss("request", "several texts of a result", "are joined"),
    Loss("request", "functions", "the older `functions` are sent on as `tools`; the reply speaks of functions again"),
    Loss("reply", "other choices", "only the first answer of several is read, with a note"),
    Loss("reply", "refusal", "is text, with a note"),
    Loss("reply", "notes and candidates", "are not sent; a server puts them into the extension field `toolspeak`"),
    Loss(
        "reply",
        "invalid calls",
        "a call that was streamed and turned out wrong stays in the stream; otherwise left out",
    ),
    Loss(
        "reply",
        "opaque parts",
        "all but annotations, audio, images, reasoning details and what is said of an answer are not sent",
    ),
    Loss("reply", "functions", "a client that sent `functions` gets one call at most"),
    Loss("reply", "custom input", "the input of a custom tool is sent at its end, not as it comes"),
    Loss("reply", "other tokens", "of sound, and of predictions that held or did not, are not told apart"),
    Loss("reply", "logprobs", "are sent where no tools were offered, for beside tools a text may be taken apart"),
)
