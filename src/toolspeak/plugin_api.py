"""What plugins may import. docs/plugins.md describes these names, and the promise to keep them.

Names are loaded on first use, so a dialect does not import what only upstreams need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_HOMES = {
    "core.parsing.arguments": "to_json",
    "core.parsing.dialect_interface": "Opening",
    "core.types": "JSONObject JSONValue",
    "dialects.dialect": "Dialect",
    "dialects.rendering": "between fence json_object with_nonce",
    "protocols.shared.reply_decoder": "BaseReplyDecoder",
    "upstreams.function": "FunctionUpstream",
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f".{home}", __package__), name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
