"""What plugins may import. docs/plugins.md describes these names, and the promise to keep them.

Names are loaded on first use, so a dialect does not import what only upstreams need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core.parsing.arguments import to_json as to_json
    from .core.parsing.dialect_interface import Opening as Opening
    from .core.types import JSONObject as JSONObject
    from .core.types import JSONValue as JSONValue
    from .dialects.dialect import Dialect as Dialect
    from .dialects.rendering import between as between
    from .dialects.rendering import fence as fence
    from .dialects.rendering import json_object as json_object
    from .dialects.rendering import with_nonce as with_nonce
    from .protocols.shared.reply_decoder import BaseReplyDecoder as BaseReplyDecoder
    from .upstreams.function import FunctionUpstream as FunctionUpstream

_HOMES = {
    "core.parsing.arguments": ("to_json",),
    "core.parsing.dialect_interface": ("Opening",),
    "core.types": ("JSONObject", "JSONValue"),
    "dialects.dialect": ("Dialect",),
    "dialects.rendering": ("between", "fence", "json_object", "with_nonce"),
    "protocols.shared.reply_decoder": ("BaseReplyDecoder",),
    "upstreams.function": ("FunctionUpstream",),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __package__), name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
