"""Codec for Anthropic's Messages API."""

# pyright: reportUnusedImport=false
from .encoding_state import PROTOCOL
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, decode_error, encode_error, encode_reply
from .request import decode_body, decode_request, encode_request, needs_store, request_notes
