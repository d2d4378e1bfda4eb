"""Codec for Anthropic's Messages API."""

# pyright: reportUnusedImport=false
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
