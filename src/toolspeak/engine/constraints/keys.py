"""Keys that are none of those which an object declares, as rules: what an object may hold besides its properties.

One rule for each beginning of a declared name says how a key may go on that has begun so. Until a key differs from all
names, a character has one spelling only, so that no escape spells a name in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.schema.json_values import json_text
from .expressions import Alt, Chars, Expr, Literally, Ref, Repeat, Seq

#: Characters of the names of one object, each of which becomes a rule. The largest tools have some forty properties.
MAX_NAMED_CHARS = 2048
#: The short escapes, without that of the slash: a slash is written as it is.
_ESCAPES = '"\\bfnrt'
_NOT_PLAIN = ('""', "\\\\", "\x00\x1f")


def other_than(names: Sequence[str], rest: Expr, rule: Callable[[Expr], Ref]) -> Expr:
    """The inside of a string that is none of the names.

    Args:
        rest: how it goes on once it differs from all of them.
        rule: makes a rule of an expression.
    """
    written = [name for name in names if all(map(_is_written, name))]
    ends = frozenset(written)
    following: dict[str, dict[str, None]] = {name: {} for name in written}
    for name in written:
        for at, char in enumerate(name):
            following.setdefault(name[:at], {})[char] = None
    made: dict[str, Expr] = {"": rest}
    for begun in sorted(following, key=len, reverse=True):
        chars = following[begun]
        same = (Seq((Literally(_spelt(char)), made[begun + char])) for char in chars)
        body = Alt((*same, *_differs(chars, rest)))
        made[begun] = rule(body if begun in ends else Repeat(body, 0, 1))
    return made[""]


def _spelt(char: str) -> str:
    return json_text(char)[1:-1]


def _is_written(char: str) -> bool:
    """Whether a key may have this character before it differs from all names: not the control characters."""
    spelt = _spelt(char)
    return len(spelt) == 1 or spelt[1] in _ESCAPES


def _differs(chars: dict[str, None], rest: Expr) -> list[Expr]:
    """One character that is none of these, and the rest."""
    spelt = [_spelt(char) for char in chars]
    plain = Chars((*_NOT_PLAIN, *(each * 2 for each in spelt if len(each) == 1)), True)
    escapes = [escape for escape in _ESCAPES if f"\\{escape}" not in spelt]
    escaped = Seq((Literally("\\"), Chars(tuple(escape * 2 for escape in escapes)), rest))
    return [Seq((plain, rest)), *([escaped] if escapes else [])]
