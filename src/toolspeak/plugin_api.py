"""What plugins may import. docs/plugins.md describes these names, and the promise to keep them.

Names are loaded on first use, so a dialect does not import what only upstreams need.
"""

from importlib import import_module

_HOMES = {
    "core.parsing.arguments": "to_json",
    "core.parsing.dialect_interface": "Opening",
    "core.types": "JSONObject JSONValue",
    "dialects.dialect": "Dialect",
    "dialects.rendering": "between fence json_object with_nonce",
    "protocols.shared.reply_decoder": "BaseReplyDecoder",
    "upstreams.function": "FunctionUpstream",
}
__all__ = [name for names in _HOMES.values() for name in names.split()]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f".{home}", __package__), name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
