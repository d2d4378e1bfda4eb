"""Codec for OpenAI's Chat Completions API, the most widely supported protocol.

Requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent). Upstream replies:
`ReplyDecoder`, `decode_error`. Client replies: `ReplyEncoder`, `encode_reply`, `encode_error`. docs/protocols.md lists
what the protocol cannot carry.
"""

from ..shared.fields import ROUTING_FIELDS
from ..shared.openai_errors import decode_error, encode_error
from .messages import PROTOCOL
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, encode_reply
from .request import LEGACY, decode_request, request_notes
from .resent import decode_body
from .resent import encode_body as encode_request
from .whole_reply import decode_reply

__all__ = [
    "LEGACY",
    "PROTOCOL",
    "ROUTING_FIELDS",
    "ReplyDecoder",
    "ReplyEncoder",
    "decode_body",
    "decode_error",
    "decode_reply",
    "decode_request",
    "encode_error",
    "encode_reply",
    "encode_request",
    "request_notes",
]
