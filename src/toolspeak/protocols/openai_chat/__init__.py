"""Codec for OpenAI's Chat Completions API, the most widely supported protocol."""

# pyright: reportUnusedImport=false
from ..shared.openai_errors import decode_error, encode_error
from .messages import PROTOCOL
from .reply_decoder import ReplyDecoder
from .reply_encoder import ReplyEncoder, encode_reply
from .request import decode_request, request_notes
from .resent import decode_body
from .resent import encode_body as encode_request
from .whole_reply import decode_reply
