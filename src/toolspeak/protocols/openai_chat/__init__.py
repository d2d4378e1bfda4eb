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
    Loss("request", "protocol", "the original protocol is not preserved: after a round trip it is `openai_chat`"),
    Loss("request", "protocol-specific fields", "other protocols' `extra` fields, opaque parts and tools are not sent"),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like stay in `options.extra` and are never sent"),
    Loss("request", "empty text", "a message that contains only empty text is decoded without parts"),
    Loss("request", "opaque part", "an opaque part is sent only if it is a JSON object"),
    Loss("request", "several results", "each result becomes a separate message before the text of its message"),
    Loss(
        "request",
        "pictures of a tool",
        "images in tool results from other protocols are sent in a user message after the results",
    ),
    Loss("request", "pictures of an assistant or a system", "images are sent only if they came over this protocol"),
    Loss("request", "tool message", "only the results in a tool message are sent"),
    Loss("request", "result error", "the result's text is sent, but not its error flag"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "custom call", "only the `input` argument of a custom call is sent"),
    Loss("request", "custom tool", "the schema of a custom tool is always a single string"),
    Loss("request", "namespace", "the namespace is sent only as a prefix of the tool name"),
    Loss("request", "side effects", "the side-effects flag of a tool is not sent"),
    Loss("request", "tool_choice without tools", "a tool choice without tools is not sent, because servers reject it"),
    Loss("request", "allowed tools under none", "are not sent"),
    Loss("request", "stream_options", "`stream_options` are sent only when streaming, always with `include_usage`"),
    Loss(
        "request",
        "format without a name",
        "a schema without a name is sent as `reply`; without a schema, strictness is not sent",
    ),
    Loss("request", "grammar", "after a round trip, a grammar is part of `options.extra`"),
    Loss("request", "both token limits", "`max_completion_tokens` takes precedence over `max_tokens`"),
    Loss("request", "several texts of a result", "are joined"),
    Loss("request", "functions", "the legacy `functions` are sent as `tools`; the reply uses `function_call`"),
    Loss("reply", "other choices", "only the first choice is read; a note reports the others"),
    Loss("reply", "refusal", "a refusal is decoded as text, and a note reports it"),
    Loss("reply", "notes and candidates", "notes and candidates are sent only in the extension field `toolspeak`"),
    Loss("reply", "invalid calls", "an invalid call is dropped unless it has already been streamed"),
    Loss("reply", "opaque parts", "only annotations, audio, images, reasoning details and reply metadata are sent"),
    Loss("reply", "functions", "a client that sent `functions` receives at most one call"),
    Loss("reply", "custom input", "the input of a custom tool is not streamed but sent when it is complete"),
    Loss("reply", "other tokens", "audio and prediction tokens are not reported separately"),
    Loss("reply", "logprobs", "logprobs are sent only without tools; with tools, text may be removed from the reply"),
)
