"""Codec for Anthropic's Messages API.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent) and `needs_store` (whether the
request needs stored replies). Upstream replies: `ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`,
`encode_reply`, `encode_error`. docs/protocols.md lists what the protocol cannot carry.
"""

from ..shared.fields import ROUTING_FIELDS
from .encoding_state import CACHE_CONTROL, PROTOCOL
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, decode_error, encode_error, encode_reply
from .request import (
    DEFAULT_MAX_TOKENS,
    MAX_CACHE_MARKS,
    decode_body,
    decode_request,
    encode_request,
    needs_store,
    request_notes,
)

__all__ = [
    "CACHE_CONTROL",
    "DEFAULT_MAX_TOKENS",
    "MAX_CACHE_MARKS",
    "PROTOCOL",
    "ROUTING_FIELDS",
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
