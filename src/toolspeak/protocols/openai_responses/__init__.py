"""Codec for OpenAI's Responses API, used by its newer SDKs and by Codex.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent), `needs_store` (whether a request
refers to stored responses). Upstream replies: `ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`,
`encode_reply`, `encode_error`. `LOSSES` lists what the protocol cannot carry.
"""

from __future__ import annotations

from ..shared.fields import Loss
from ..shared.openai_errors import decode_error, encode_error
from .parts import PROTOCOL
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, encode_reply
from .request import decode_request, encode_request, needs_store, request_notes

__all__ = [
    "LOSSES",
    "PROTOCOL",
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
    Loss("request", "protocol", "comes back as `openai_responses`"),
    Loss("request", "protocol-specific fields", "`extra` fields, opaque parts and tools of its own kinds are not sent"),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like are stored in `options.extra`, never sent"),
    Loss("request", "empty text", "a message whose only part is an empty text has no part"),
    Loss("request", "opaque part", "is sent if it is an item or a part of this protocol, else left out"),
    Loss("request", "order of a message", "opaque items come first, then results, text and calls"),
    Loss("request", "turns", "consecutive assistant messages may come back as one"),
    Loss("request", "reasoning text", "is sent only within its own item, which is an opaque part"),
    Loss(
        "request",
        "reasoning that is not stored",
        "an item without content is left out of a request from another protocol",
    ),
    Loss("request", "several results", "each result is an item of its own, before the text of its message"),
    Loss("request", "tool message", "only its results and items are sent"),
    Loss("request", "name of a message", "is not sent"),
    Loss("request", "result error", "the error flag of a result is not sent; its text is"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "custom call", "only its `input` is sent"),
    Loss("request", "custom tool", "its schema is always a single string"),
    Loss(
        "request",
        "namespace",
        "is left out if it has no tools; adjacent namespaces with the same name and description are merged",
    ),
    Loss("request", "side effects", "the flag of a tool is not sent"),
    Loss("request", "strict", "defaults to false for a tool from another protocol"),
    Loss("request", "store", "defaults to false for a request from another protocol"),
    Loss("request", "tool_choice without tools", "is not sent"),
    Loss("request", "allowed tools under none", "are not sent"),
    Loss("request", "stream_options", "sent only when streaming"),
    Loss("request", "stop, seed and n", "are not sent"),
    Loss("request", "sound and film", "are not sent"),
    Loss("request", "pictures of an assistant", "are not sent unless they came by this protocol"),
    Loss(
        "request",
        "format without a name",
        "a schema without a name is sent as `reply`; without a schema, neither name nor strictness",
    ),
    Loss("request", "grammar", "comes back as `options.extra`"),
    Loss("request", "input as a text", "is sent as a user message"),
    Loss("request", "instructions", "the first system message of another protocol is sent as `instructions`"),
    Loss("request", "several texts of a result", "are joined"),
    Loss("request", "several texts of an answer", "are joined, unless they came by this protocol or have extra fields"),
    Loss("request", "types of text", "`text` is sent as `input_text` or, in assistant messages, as `output_text`"),
    Loss("reply", "refusal", "is text, with a note"),
    Loss("reply", "notes and candidates", "are not sent; a server puts them into the extension field `toolspeak`"),
    Loss(
        "reply",
        "invalid calls",
        "an invalid call that was already streamed is marked as incomplete; otherwise left out",
    ),
    Loss("reply", "cut calls", "a truncated call appears in the stream but not in the response"),
    Loss("reply", "opaque parts", "those of other protocols, and unknown parts of a message, are not sent"),
    Loss(
        "reply",
        "order",
        "of a non-streamed reply is preserved for an upstream of this protocol; else reasoning, text, calls",
    ),
    Loss("reply", "custom input", "the input of a custom tool is sent when it is complete, not streamed"),
    Loss("reply", "logprobs", "are not read"),
    Loss("reply", "ids", "of the response, its messages and its call items are generated; `call_id` is preserved"),
    Loss("reply", "status of a custom call", "is not sent"),
    Loss(
        "reply",
        "several texts",
        "parts of a message and consecutive messages are merged; citation offsets are adjusted",
    ),
    Loss(
        "reply", "fields of a response", "are copied from the request, except items, status, usage and `service_tier`"
    ),
)
