"""Codec for Gemini's generateContent API."""

# pyright: reportUnusedImport=false
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, decode_error, encode_error, encode_reply
from .request import decode_body, decode_request, encode_request, path, request_notes
from .wire import PROTOCOL
