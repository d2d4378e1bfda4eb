"""What grammars are made of: a handful of expressions, and rules that name them. They know no language; the
printers of `grammars` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec


class Literally(msgspec.Struct, frozen=True, tag=True):
    """These characters."""

    text: str


class Chars(msgspec.Struct, frozen=True, tag=True):
    """One character of a class, given as pairs of bounds; or one outside of it."""

    ranges: tuple[str, ...]
    outside: bool = False


class Ref(msgspec.Struct, frozen=True, tag=True):
    """What another rule says. A token is read as one piece: it refers to tokens only."""

    name: str
    token: bool = False


class Seq(msgspec.Struct, frozen=True, tag=True):
    """One after the other."""

    parts: tuple[Expr, ...]


class Alt(msgspec.Struct, frozen=True, tag=True):
    """One of these."""

    options: tuple[Expr, ...]


class Repeat(msgspec.Struct, frozen=True, tag=True):
    """The same again and again. Only of single characters and rules: llama.cpp counts what it must copy."""

    part: Expr
    low: int
    high: int


Expr: TypeAlias = Literally | Chars | Ref | Seq | Alt | Repeat


class Rule(msgspec.Struct, frozen=True):
    """A name for an expression."""

    name: Ref
    body: Expr


def seq(*parts: Expr) -> Expr:
    return parts[0] if len(parts) == 1 else Seq(parts)


def alt(options: Sequence[Expr]) -> Expr:
    return options[0] if len(options) == 1 else Alt(tuple(options))


def maybe(*parts: Expr) -> Expr:
    return Repeat(seq(*parts), 0, 1)


def token(name: str) -> Ref:
    return Ref(name, True)
