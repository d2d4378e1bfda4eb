"""Patterns in allow and deny rules for tool calls: `shell(git status*)`, `read_file`, `github__*`.

`*` matches any text and is the only wildcard, so matching takes linear time. In an allow rule, it never matches text
that could change the nature of the call, such as a second command or a path out of a folder. Deny rules err on the side
of caution: a deny rule applies if any interpretation of the call matches. For a shell, deny rules are a convenience and
not a security boundary: the same command can be written in more ways than this module checks.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from ..core.types import JSONObject, JSONValue, Tool, is_array, is_object
from ..errors import UsageError

_MAX_CHARS = 1000
#: Characters that separate or substitute commands, or can disguise a path out of a folder: quotes and shell wildcards.
_SHELL_SPECIAL = frozenset(";|&$`<>\n\r(){}\\!\x00\"'*?[]~")
_DOUBLE_DOT = re.compile(r"\.(?=\.)")  # every pair of adjacent dots, including overlapping pairs
_BLANK = re.compile(r"\s")
#: Characters after which a deny rule assumes that a command begins: separators, and also nested commands.
_SEPARATORS = re.compile(r"[;|&\n\r]")
_NESTING = re.compile(r"([;|&\n\r`(){}<>])")
#: Characters that open a substitution or redirection, after which the outer command continues.
_OPENERS = frozenset("`({<>")
#: Deletes quotes and backslashes, which do not change what a shell word means.
_QUOTES = str.maketrans("", "", "\"'\\")
#: Shell keywords and programs that run the command after them.
_LAUNCHERS = frozenset(
    "! bash builtin busybox command dash do doas elif else env eval exec if nice nohup setsid sh sudo then time until "
    "while xargs zsh".split()
)


class ApprovalPattern(msgspec.Struct, frozen=True):
    """A glob for the tool name and one for the first argument. An `argument` of None matches any arguments."""

    name: str
    argument: str | None = None

    def covers(self, tool: Tool, arguments: JSONObject) -> bool:
        """Return whether the pattern certainly covers a call. Used for allow rules."""
        if not matches(self.name, tool.name):
            return False
        if self.argument is None:
            return True
        value = _first_argument(tool, arguments)
        if not isinstance(value, str):
            return False
        return value == self.argument or (matches(self.argument, value) and _stars_are_harmless(self.argument, value))

    def touches(self, tool: Tool, arguments: JSONObject) -> bool:
        """Return whether any interpretation of a call matches the pattern. Used for deny rules."""
        if not matches(self.name, tool.name):
            return False
        if self.argument is None:
            return True
        value = _first_argument(tool, arguments)
        return value is not None and any(_matches_reading(self.argument, text) for text in _readings(value))

    def __str__(self) -> str:
        return self.name if self.argument is None else f"{self.name}({self.argument})"


def parse_pattern(text: str) -> ApprovalPattern:
    """Parse one pattern. Raises UsageError if the pattern is invalid."""
    if len(text) > _MAX_CHARS:
        raise UsageError(f"the pattern `{text[:40]}…` is longer than {_MAX_CHARS} characters")
    name, bracket, rest = text.strip().partition("(")
    if not name or (bracket and not rest.endswith(")")) or any(char.isspace() for char in name):
        raise UsageError(f"invalid call pattern `{text}`", hint="write `name` or `name(first argument*)`")
    return ApprovalPattern(name, rest[:-1] if bracket else None)


def parse_patterns(texts: Iterable[str | ApprovalPattern]) -> tuple[ApprovalPattern, ...]:
    if isinstance(texts, str):
        raise UsageError("patterns must be a list of strings", hint="wrap a single pattern in a list")
    return tuple(each if isinstance(each, ApprovalPattern) else parse_pattern(each) for each in texts)


def matches(glob: str, text: str) -> bool:
    """Return whether a text matches a glob. Each piece between stars is searched for once, after the previous piece."""
    head, *rest = glob.split("*")
    if not rest:
        return glob == text
    tail = rest.pop()
    if len(head) + len(tail) > len(text) or not text.startswith(head) or not text.endswith(tail):
        return False
    at, end = len(head), len(text) - len(tail)
    for piece in rest:
        position = text.find(piece, at, end)
        if position < 0:
            return False
        at = position + len(piece)
    return True


def _first_argument(tool: Tool, arguments: JSONObject) -> JSONValue:
    """Return the argument for the first parameter in the schema."""
    properties = tool.parameters.get("properties") if is_object(tool.parameters) else None
    names = list(properties) if is_object(properties) else list(arguments)
    return arguments.get(names[0]) if names else None


def _stars_are_harmless(glob: str, value: str) -> bool:
    """Return whether the stars match no second command, no path out of a folder and no additional file.

    The value must already match the glob. Special characters are compared by count: if the value has more of them than
    the glob, a star has matched one.
    """
    pieces = glob.split("*")
    written = Counter(char for piece in pieces for char in piece if char in _SHELL_SPECIAL)
    if Counter(char for char in value if char in _SHELL_SPECIAL) != written:
        return False
    if len(_DOUBLE_DOT.findall(value)) != sum(len(_DOUBLE_DOT.findall(piece)) for piece in pieces):
        return False
    # A star after a piece with a slash continues a path, which ends at the next blank.
    return not any("/" in _BLANK.split(piece)[-1] and _BLANK.search(star) for piece, star in _stars(pieces, value))


def _stars(pieces: list[str], text: str) -> Iterator[tuple[str, str]]:
    """Yield the piece before each star and the text that the star matches, consistent with `matches`."""
    end = len(text) - len(pieces[-1])
    at = len(pieces[0])
    for number, piece in enumerate(pieces[1:], 1):
        position = end if number == len(pieces) - 1 else text.find(piece, at, end)
        yield pieces[number - 1], text[at:position]
        at = position + len(piece)


def _readings(value: JSONValue) -> Iterator[str]:
    """Yield every interpretation of a first argument: the text itself, a normalized path, and each command inside it.

    The total length of all interpretations grows only linearly with the length of the value.
    """
    if is_array(value):
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
            yield " ".join(_without_launchers(words))


def _parts(text: str) -> Iterator[str]:
    """Yield the commands in a text, both with their substitutions and split at each nested command."""
    yield from _SEPARATORS.split(text)
    pieces = _NESTING.split(text)
    for part, sign in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        yield part
        if sign in _OPENERS:
            yield f"{part} {sign}"


def _without_launchers(words: list[str]) -> list[str]:
    """Drop leading words that only say how a command is run: `A=b sudo -n rm x` becomes `rm x`."""
    for at, word in enumerate(words):
        if not (word.startswith("-") or "=" in word or posixpath.basename(word) in _LAUNCHERS):
            return words[at:]
    return []


def _matches_reading(glob: str, text: str) -> bool:
    """Return whether an interpretation matches a glob. An absolute path also matches by its last components alone."""
    return matches(glob, text) or (text.startswith("/") and matches(f"*/{glob}", text))


def _as_text(value: JSONValue) -> str:
    return msgspec.json.encode(value).decode()
