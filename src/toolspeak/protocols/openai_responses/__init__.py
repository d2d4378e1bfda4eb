"""Codec for OpenAI's Responses API, used by its newer SDKs and by Codex.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent), `needs_store` (whether the
request needs stored responses). Upstream replies: `ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`,
`encode_reply`, `encode_error`. docs/protocols.md lists what the protocol cannot carry.
"""

from ..shared.openai_errors import decode_error, encode_error
from .parts import PROTOCOL
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, encode_reply
from .request import decode_body, decode_request, encode_request, needs_store, request_notes

__all__ = [
    "PROTOCOL",
    "ReplyDecoder",
    "ReplyEncoder",
    "decode_body",
    "decode_error",
    "decode_request",
    "encode_error",
    "encode_reply",
    "encode_request",
    "needs_store",
    "request_notes",
]
