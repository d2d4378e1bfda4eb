"""Which calls a person has allowed beforehand: `shell(git status*)`, `read_file`, `github__*`.

`*` stands for any text and is the only special character, so that a comparison takes time linear in the text. It never
stands for text that could make the call another one: a second command, a way out of a folder. Above: `approval`,
`wrappers`. Below: `core.model`, `errors`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..core.model import JSONObject, Tool, is_object
from ..errors import UsageError

__all__ = ["Pattern", "matches", "pattern", "patterns"]

#: Longest pattern; a person writes them.
_LONGEST = 1000
#: What ends one command and begins another, or puts something else in its place.
_SHELL_SPECIAL = frozenset(";|&$`<>\n\r(){}\\!\x00")


class Pattern(msgspec.Struct, frozen=True):
    """A name, and what the first argument looks like; None: whatever the arguments are."""

    name: str
    argument: str | None = None

    def covers(self, tool: Tool, arguments: JSONObject) -> bool:
        """Whether a call is one of those that are meant."""
        if not matches(self.name, tool.name):
            return False
        if self.argument is None:
            return True
        value = _first(tool, arguments)
        if value is None:
            return False
        return value == self.argument or (_is_harmless(value) and matches(self.argument, value))

    def __str__(self) -> str:
        return self.name if self.argument is None else f"{self.name}({self.argument})"


def pattern(text: str) -> Pattern:
    """Read one pattern.

    Raises:
        UsageError: it is none.
    """
    if len(text) > _LONGEST:
        raise UsageError(f"the pattern `{text[:40]}…` is longer than {_LONGEST} characters")
    name, bracket, rest = text.strip().partition("(")
    if not name or (bracket and not rest.endswith(")")) or any(char.isspace() for char in name):
        raise UsageError(f"`{text}` is no pattern for calls", hint="write `name` or `name(first argument*)`")
    return Pattern(name, rest[:-1] if bracket else None)


def patterns(texts: Iterable[str | Pattern]) -> tuple[Pattern, ...]:
    """Read patterns."""
    if isinstance(texts, str):
        raise UsageError("patterns must be a list of texts", hint="wrap a single pattern in a list")
    return tuple(each if isinstance(each, Pattern) else pattern(each) for each in texts)


def matches(glob: str, text: str) -> bool:
    """Whether a text looks like this; each piece between stars is searched once, from where the last one ended."""
    head, *rest = glob.split("*")
    if not rest:
        return glob == text
    tail = rest.pop()
    if len(head) + len(tail) > len(text) or not text.startswith(head) or not text.endswith(tail):
        return False
    at, end = len(head), len(text) - len(tail)
    for piece in rest:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _first(tool: Tool, arguments: JSONObject) -> str | None:
    """The first argument in the order of the schema, where it is a text."""
    properties = tool.parameters.get("properties") if is_object(tool.parameters) else None
    names = list(properties) if is_object(properties) else list(arguments)
    value = arguments.get(names[0]) if names else None
    return value if isinstance(value, str) else None


def _is_harmless(value: str) -> bool:
    """Whether a star may stand for a part of this: no second command, no step out of a folder."""
    return _SHELL_SPECIAL.isdisjoint(value) and ".." not in value.replace("\\", "/").split("/")
