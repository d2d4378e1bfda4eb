"""Codec for Gemini's generateContent API.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent) and `path` (the URL path, which
contains the model). Upstream replies: `ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`, `encode_reply`,
`encode_error`. docs/protocols.md lists what the protocol cannot carry.
"""

from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, decode_error, encode_error, encode_reply
from .request import decode_body, decode_request, encode_request, path, request_notes
from .wire import PROTOCOL

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
    "path",
    "request_notes",
]
