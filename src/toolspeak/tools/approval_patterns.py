"""Which calls a person has allowed beforehand: `shell(git status*)`, `read_file`, `github__*`.

`*` stands for any text and is the only special character, so that a comparison takes time linear in the text. In a rule
that allows, it never stands for text that could make the call another one: a second command, a way out of a folder. A
rule that forbids errs on the other side: it holds if any reading of the call is meant. For a shell that is a
convenience, not a boundary: a command can be written in more ways than are looked at here.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from ..core.types import JSONObject, JSONValue, Tool, is_array, is_object
from ..errors import UsageError

#: Longest pattern; a person writes them.
_LONGEST = 1000
#: What ends one command and begins another, puts something else in its place, or writes a step out of a folder in
#: other signs: quotes, and what a shell fills in with names of files.
_SHELL_SPECIAL = frozenset(";|&$`<>\n\r(){}\\!\x00\"'*?[]~")
#: Two points in a row, each time that there are; those of a piece of a pattern and of what stands after it, too.
_STEP = re.compile(r"\.(?=\.)")
_BLANK = re.compile(r"\s")
#: Where a rule that forbids sees a command begin: after another one, or also inside one.
_AFTER = re.compile(r"[;|&\n\r]")
_INSIDE = re.compile(r"([;|&\n\r`(){}<>])")
#: What opens something that will be put in its place: the command before goes on.
_OPENS = frozenset("`({<>")
#: Ways to write the same word.
_QUOTES = str.maketrans("", "", "\"'\\")
#: Words that a command may stand behind.
_BEFORE = frozenset(
    "! bash builtin busybox command dash do doas elif else env eval exec if nice nohup setsid sh sudo then time until "
    "while xargs zsh".split()
)


class Pattern(msgspec.Struct, frozen=True):
    """A name, and what the first argument looks like; None: whatever the arguments are."""

    name: str
    argument: str | None = None

    def covers(self, tool: Tool, arguments: JSONObject) -> bool:
        """Whether a call is surely one of those that are meant; for rules that allow."""
        if not matches(self.name, tool.name):
            return False
        if self.argument is None:
            return True
        value = _first(tool, arguments)
        if not isinstance(value, str):
            return False
        return value == self.argument or (matches(self.argument, value) and _is_harmless(self.argument, value))

    def touches(self, tool: Tool, arguments: JSONObject) -> bool:
        """Whether a call may be one of those that are meant; for rules that forbid."""
        if not matches(self.name, tool.name):
            return False
        if self.argument is None:
            return True
        value = _first(tool, arguments)
        return value is not None and any(_is_meant(self.argument, text) for text in _readings(value))

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


def _first(tool: Tool, arguments: JSONObject) -> JSONValue:
    """The first argument in the order of the schema."""
    properties = tool.parameters.get("properties") if is_object(tool.parameters) else None
    names = list(properties) if is_object(properties) else list(arguments)
    return arguments.get(names[0]) if names else None


def _is_harmless(glob: str, value: str) -> bool:
    """Whether stars may stand for what they stand for here: no second command, no step out of a folder, no other file.

    The value looks like the pattern. So what is special in it is either written out in the pattern, or there is more
    of it than there.
    """
    pieces = glob.split("*")
    written = Counter(char for piece in pieces for char in piece if char in _SHELL_SPECIAL)
    if Counter(char for char in value if char in _SHELL_SPECIAL) != written:
        return False
    if len(_STEP.findall(value)) != sum(len(_STEP.findall(piece)) for piece in pieces):
        return False
    return not any(_is_path(piece) and _BLANK.search(star) for piece, star in _stars(pieces, value))


def _is_path(piece: str) -> bool:
    """Whether a star after this is the rest of a path, which ends where the word does."""
    return "/" in _BLANK.split(piece)[-1]


def _stars(pieces: list[str], text: str) -> Iterator[tuple[str, str]]:
    """What each star stands for, after the piece before it; as `matches` finds it."""
    end = len(text) - len(pieces[-1])
    at = len(pieces[0])
    for number, piece in enumerate(pieces[1:], 1):
        found = end if number == len(pieces) - 1 else text.find(piece, at, end)
        yield pieces[number - 1], text[at:found]
        at = found + len(piece)


def _readings(value: JSONValue) -> Iterator[str]:
    """All that a first argument may mean: as it is, as a path, and each command that a shell may find in it.

    The texts together are a fixed number of times as long as the value.
    """
    if is_array(value):
        # The words of a command.
        value = " ".join(each if isinstance(each, str) else _as_text(each) for each in value)
    text = value if isinstance(value, str) else _as_text(value)
    yield text
    yield posixpath.normpath(text)
    for written in (text, text.replace("\\\n", "").translate(_QUOTES)):
        yield written
        for part in _parts(written):
            yield part.strip()
            words = part.split()
            yield " ".join(words)
            yield " ".join(_bare(words))


def _parts(text: str) -> Iterator[str]:
    """The commands of a text: with what is put into them, and those that are put into others."""
    yield from _AFTER.split(text)
    pieces = _INSIDE.split(text)
    for part, sign in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        yield part
        if sign in _OPENS:
            yield f"{part} {sign}"


def _bare(words: list[str]) -> list[str]:
    """A command without what only says how it is run: `A=b sudo -n rm x`."""
    for at, word in enumerate(words):
        if not (word.startswith("-") or "=" in word or posixpath.basename(word) in _BEFORE):
            return words[at:]
    return []


def _is_meant(glob: str, text: str) -> bool:
    """Whether a reading looks like this; one from the root of the system also by the end of its path."""
    return matches(glob, text) or (text.startswith("/") and matches(f"*/{glob}", text))


def _as_text(value: JSONValue) -> str:
    return msgspec.json.encode(value).decode()
