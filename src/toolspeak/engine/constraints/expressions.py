"""Grammar expressions and rules, independent of any grammar language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec


class Literally(msgspec.Struct, frozen=True, tag=True):
    """Literal text."""

    text: str


class Chars(msgspec.Struct, frozen=True, tag=True):
    """A character class, negated if `outside` is set. Each range is a string of two characters: first and last."""

    ranges: tuple[str, ...]
    outside: bool = False


class Ref(msgspec.Struct, frozen=True, tag=True):
    """A reference to a rule. A token rule may only refer to tokens."""

    name: str
    token: bool = False


class Seq(msgspec.Struct, frozen=True, tag=True):
    """Expressions that follow one another."""

    parts: tuple[Expr, ...]


class Alt(msgspec.Struct, frozen=True, tag=True):
    """A choice between alternative expressions."""

    options: tuple[Expr, ...]


class Repeat(msgspec.Struct, frozen=True, tag=True):
    """A bounded repetition. Unless it is just optional, the part must be a character or a rule: llama.cpp copies it."""

    part: Expr
    low: int
    high: int


Expr: TypeAlias = Literally | Chars | Ref | Seq | Alt | Repeat


class GrammarRule(msgspec.Struct, frozen=True):
    """A named expression."""

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
