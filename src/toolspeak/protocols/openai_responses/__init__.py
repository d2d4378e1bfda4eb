"""Codec for OpenAI's Responses API, used by its newer SDKs and by Codex.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent), `needs_store` (whether the
request needs stored responses). Upstream replies: `ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`,
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
    Loss("request", "protocol", "the original protocol is not preserved: after a round trip it is `openai_responses`"),
    Loss("request", "protocol-specific fields", "other protocols' `extra` fields, opaque parts and tools are not sent"),
    Loss("request", "routing fields", "`api_base`, `api_key` and the like stay in `options.extra` and are never sent"),
    Loss("request", "empty text", "a message that contains only empty text is decoded without parts"),
    Loss("request", "opaque part", "an opaque part is sent only if it is an item or a part of this protocol"),
    Loss("request", "order of a message", "opaque items are sent first, then results, text and calls"),
    Loss("request", "turns", "consecutive assistant messages may be decoded as one message"),
    Loss("request", "reasoning text", "reasoning is sent only as a reasoning item, which is an opaque part"),
    Loss(
        "request",
        "reasoning that is not stored",
        "for requests from other protocols, reasoning items without content are not sent",
    ),
    Loss("request", "several results", "each result becomes a separate item before the text of its message"),
    Loss("request", "tool message", "only the results and items in a tool message are sent"),
    Loss("request", "name of a message", "is not sent"),
    Loss("request", "result error", "the result's text is sent, but not its error flag"),
    Loss("request", "call notes", "are not sent"),
    Loss("request", "custom call", "only the `input` argument of a custom call is sent"),
    Loss("request", "custom tool", "the schema of a custom tool is always a single string"),
    Loss(
        "request",
        "namespace",
        "empty namespaces are not sent; adjacent ones with equal names and descriptions are merged",
    ),
    Loss("request", "side effects", "the side-effects flag of a tool is not sent"),
    Loss("request", "strict", "`strict` defaults to false for tools from other protocols"),
    Loss("request", "store", "`store` defaults to false for requests from other protocols"),
    Loss("request", "tool_choice without tools", "is not sent"),
    Loss("request", "allowed tools under none", "are not sent"),
    Loss("request", "stream_options", "`stream_options` are sent only when streaming"),
    Loss("request", "stop, seed and n", "are not sent"),
    Loss("request", "sound and film", "are not sent"),
    Loss("request", "pictures of an assistant", "images are sent only if they came over this protocol"),
    Loss(
        "request",
        "format without a name",
        "a schema without a name is sent as `reply`; without a schema, name and strictness are not sent",
    ),
    Loss("request", "grammar", "after a round trip, a grammar is part of `options.extra`"),
    Loss("request", "input as a text", "a plain string is sent as a user message"),
    Loss("request", "instructions", "the first system message from another protocol is sent as `instructions`"),
    Loss("request", "several texts of a result", "are joined"),
    Loss("request", "several texts of an answer", "texts from other protocols without extra fields are joined"),
    Loss("request", "types of text", "`text` is sent as `input_text` or, in assistant messages, as `output_text`"),
    Loss("reply", "refusal", "a refusal is decoded as text, and a note reports it"),
    Loss("reply", "notes and candidates", "notes and candidates are sent only in the extension field `toolspeak`"),
    Loss("reply", "invalid calls", "an invalid call is dropped or, if already streamed, marked as incomplete"),
    Loss("reply", "cut calls", "a truncated call appears in the stream but not in the final response"),
    Loss("reply", "opaque parts", "opaque parts of other protocols and unknown message parts are not sent"),
    Loss("reply", "order", "the order is kept for upstreams of this protocol; otherwise reasoning, text, calls"),
    Loss("reply", "custom input", "the input of a custom tool is not streamed but sent when it is complete"),
    Loss("reply", "logprobs", "are not read"),
    Loss("reply", "ids", "new ids replace those of responses, messages and call items; `call_id` is preserved"),
    Loss("reply", "status of a custom call", "is not sent"),
    Loss("reply", "several texts", "message parts and consecutive messages are merged; citation offsets are adjusted"),
    Loss(
        "reply",
        "fields of a response",
        "all fields except items, status, usage and `service_tier` are copied from the request",
    ),
)
