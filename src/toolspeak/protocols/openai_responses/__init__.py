"""Codec for OpenAI's Responses API, used by its newer SDKs and by Codex."""

# pyright: reportUnusedImport=false
from ..shared.openai_errors import decode_error, encode_error
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, encode_reply
from .request import decode_body, decode_request, encode_request, needs_store, request_notes
from .tools import PROTOCOL
