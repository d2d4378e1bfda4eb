"""Dialect registry: collects the dialects in `formats.toml` and in `formats`, and renders calls and results."""

import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec

from ..core.parsing.dialect_interface import Opening
from ..core.plugin_hook import dialects_changed, load_plugins
from ..core.types import JSONObject, ToolCall, is_object
from ..errors import UnknownDialectError
from . import formats
from .dialect import Dialect
from .line_calls import ChannelReader, ReactReader
from .rendering import STYLES, between, with_nonce

#: The readers that tables can name.
_READERS = {"channels": ChannelReader, "react": ReactReader}


def _load() -> Iterator[Dialect]:
    for module in pkgutil.iter_modules(formats.__path__):
        yield import_module(f"{formats.__name__}.{module.name}").DIALECT
    tables: dict[str, JSONObject] = msgspec.toml.decode(pkgutil.get_data(__package__ or "", "formats.toml") or b"")
    yield from (_from_table(name, fields) for name, fields in tables.items())


def _from_table(name: str, fields: JSONObject) -> Dialect:
    tags = fields.get("tags", {}).items()
    fields["tags"] = {tag: {"stops": [] if tag[0] == "|" else [f"</{tag}>"], **each} for tag, each in tags}
    for place in ("tags", "literals", "lines", "fences", "forms"):
        marks = fields.get(place, {}).items()
        fields[place] = {mark: msgspec.convert({"dialect": name, **each}, Opening) for mark, each in marks}
    fields["reader"] = _READERS.get(fields.get("reader", ""))
    style: Any = fields.pop("style", None)
    fields["style"] = between(**style) if is_object(style) else STYLES[style] if style else None
    for each, kind in (("accepts", frozenset[str]), ("separators", frozenset[str]), ("result", tuple[str, str])):
        if each in fields:
            fields[each] = kind(fields[each])
    return Dialect(name, **fields)


#: All formats, including those that are only read. Use `all_formats`, unless plugins do not matter.
FORMATS: dict[str, Dialect] = {row.name: row for row in sorted(_load(), key=lambda row: (row.rank, row.name))}
#: The selectable dialects. The parser accepts many more variants. Use `dialects`, unless plugins do not matter.
DIALECTS: dict[str, Dialect] = {name: row for name, row in FORMATS.items() if row.style is not None}


def all_formats() -> Mapping[str, Dialect]:
    """Return all formats, including those of plugins."""
    load_plugins()
    return FORMATS


def dialects() -> Mapping[str, Dialect]:
    """Return the selectable dialects, including those of plugins."""
    load_plugins()
    return DIALECTS


#: The dialects that plugins have added.
_ADDED: dict[str, Dialect] = {}


def added_dialects() -> tuple[Dialect, ...]:
    """Return the dialects of plugins."""
    return tuple(_ADDED.values())


def add(row: Dialect) -> None:
    """Add the dialect of a plugin. Its name must be new."""
    FORMATS[row.name] = DIALECTS[row.name] = _ADDED[row.name] = row
    dialects_changed()


def remove(name: str) -> None:
    """Remove the dialect of a plugin."""
    del FORMATS[name], DIALECTS[name], _ADDED[name]
    dialects_changed()


def dialect(name: str) -> Dialect:
    row = DIALECTS.get(name) or dialects().get(name)
    if row is None:
        raise UnknownDialectError(f"unknown dialect `{name}`", hint=f"use auto or one of {', '.join(DIALECTS)}")
    return row


def marks_of(name: str) -> frozenset[str] | None:
    """Return the openings that a dialect accepts; None for `auto`, which accepts all of them."""
    return None if name == "auto" else dialect(name).accepts


def render_calls(name: str, calls: Sequence[ToolCall], nonce: str | None = None) -> str:
    """Render calls in the form in which the model should write them."""
    row = dialect(name)
    assert row.style is not None, f"dialect `{name}` has no style"
    body = row.style(calls, nonce)
    return with_nonce(row.before, nonce) + body + row.after
