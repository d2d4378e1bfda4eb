"""Dialect registry: collects the modules in `formats`, and renders calls and results."""

import pkgutil
from collections.abc import Iterator, Sequence
from importlib import import_module

from ..core.types import ToolCall
from ..errors import UnknownDialectError
from . import formats
from .dialect import Dialect
from .rendering import with_nonce


def _load() -> Iterator[Dialect]:
    for module in pkgutil.iter_modules(formats.__path__):
        yield import_module(f"{formats.__name__}.{module.name}").DIALECT


#: All formats, including those that are only read.
FORMATS: dict[str, Dialect] = {row.name: row for row in sorted(_load(), key=lambda row: (row.rank, row.name))}
#: The selectable dialects. The parser accepts many more variants.
DIALECTS: dict[str, Dialect] = {name: row for name, row in FORMATS.items() if row.style is not None}


def dialect(name: str) -> Dialect:
    """Return the dialect with this name."""
    row = DIALECTS.get(name)
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
