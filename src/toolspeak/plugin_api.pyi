"""Types of the names that `plugin_api.py` loads on first use."""

from .core.parsing.arguments import to_json
from .core.parsing.dialect_interface import Opening
from .core.types import JSONObject, JSONValue
from .dialects.dialect import Dialect
from .dialects.rendering import between, fence, json_object, with_nonce
from .protocols.shared.reply_decoder import BaseReplyDecoder
from .upstreams.function import FunctionUpstream

__all__ = [
    "BaseReplyDecoder",
    "Dialect",
    "FunctionUpstream",
    "JSONObject",
    "JSONValue",
    "Opening",
    "between",
    "fence",
    "json_object",
    "to_json",
    "with_nonce",
]
