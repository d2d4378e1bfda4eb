"""Codec for OpenAI's Chat Completions API, the most widely supported protocol.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent). Upstream replies:
`ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`, `encode_reply`, `encode_error`. `LOSSES` lists what the
protocol cannot carry.
"""

from __future__ import annotations

from ..shared.fields import ROUTING_FIELDS, Loss
from ..shared.openai_errors import decode_error, encode_error
from .messages import PROTOCOL
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
    Loss("request", "protocol-specific fields", "`extra` fields, opaque parts and tools of its own kinds are not sent"),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like are stored in `options.extra`, never sent"),
    Loss("request", "empty text", "a message whose only part is an empty text has no part"),
    Loss("request", "opaque part", "is sent if it is an object, else left out"),
    Loss("request", "several results", "each result is a message of its own, before the text of its message"),
    Loss(
        "request",
        "pictures of a tool",
        "are sent in a user message after the results, unless they came by this protocol",
    ),
    Loss("request", "pictures of an assistant or a system", "are not sent unless they came by this protocol"),
    Loss("request", "tool message", "only its results are sent"),
    Loss("request", "result error", "the error flag of a result is not sent; its text is"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "custom call", "only its `input` is sent"),
    Loss("request", "custom tool", "its schema is always a single string"),
    Loss("request", "namespace", "is not sent; the tool name starts with it"),
    Loss("request", "side effects", "the flag of a tool is not sent"),
    Loss("request", "tool_choice without tools", "is not sent, because servers reject it"),
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
    Loss("request", "functions", "the legacy `functions` are sent as `tools`; the reply uses `function_call`"),
    Loss("reply", "other choices", "only the first choice is read, with a note"),
    Loss("reply", "refusal", "is text, with a note"),
    Loss("reply", "notes and candidates", "are not sent; a server puts them into the extension field `toolspeak`"),
    Loss(
        "reply",
        "invalid calls",
        "an invalid call that was already streamed stays in the stream; otherwise left out",
    ),
    Loss(
        "reply",
        "opaque parts",
        "are not sent, except annotations, audio, images, reasoning details and metadata of the reply",
    ),
    Loss("reply", "functions", "a client that sent `functions` receives at most one call"),
    Loss("reply", "custom input", "the input of a custom tool is sent when it is complete, not streamed"),
    Loss("reply", "other tokens", "audio and prediction tokens are not reported separately"),
    Loss("reply", "logprobs", "are sent only without tools, because with tools the text may be cut"),
)
