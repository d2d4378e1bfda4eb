"""OpenAI's chat completions, the protocol that most clients and most servers speak: the four halves of its codec.

Requests: `decode_request`, `encode_request`. Replies of an upstream: `ReplyDecoder`, `decode_error`. Replies to a
client: `ReplyEncoder`, `encode_reply`, `encode_error`. What cannot be carried is listed in `LOSSES`.
Above: `upstreams`, `client`, the server. Below: the modules `openai_chat_*`.
"""

from __future__ import annotations

from .openai_chat_face import ReplyEncoder, decode_error, encode_error, encode_reply
from .openai_chat_fields import PROTOCOL
from .openai_chat_reply import ReplyDecoder
from .openai_chat_request import LEGACY, ROUTING_FIELDS, decode_request, encode_request

__all__ = [
    "LEGACY",
    "LOSSES",
    "PROTOCOL",
    "ROUTING_FIELDS",
    "ReplyDecoder",
    "ReplyEncoder",
    "decode_error",
    "decode_request",
    "encode_error",
    "encode_reply",
    "encode_request",
]

#: What does not come back as it went: name -> what becomes of it.
LOSSES: dict[str, str] = {}
