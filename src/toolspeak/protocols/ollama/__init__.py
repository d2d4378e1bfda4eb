"""Codec for Ollama's chat API (`/api/chat`)."""

# pyright: reportUnusedImport=false
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, decode_error, encode_error, encode_reply
from .request import PROTOCOL, decode_body, decode_request, encode_request, request_notes
