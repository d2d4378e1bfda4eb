"""Open containers, tokens, notes and limits of the tolerant JSON parser. Nothing here reads text.

What a bracket means is sometimes decided later: a brace may open an object or a Python set, a parenthesis a tuple or
one grouped value. So a brace is emitted together with its first key, and the tokens inside parentheses are deferred
until the first comma or the closing parenthesis.
"""

from __future__ import annotations

from typing import Literal

from ..types import Note
from .tokens import ARRAY, END_ARRAY, END_OBJECT, END_STRING, KEY, OBJECT, POSITIONAL, SCALAR, Status, Token

#: The limit of llama.cpp and most JSON parsers; real arguments are never nested deeper.
MAX_DEPTH = 64
#: Arguments larger than a mebibyte are rejected.
MAX_SIZE = 1 << 20
#: A text that needs more repairs than this is not JSON. A page of HTML with unescaped quotes needs fewer.
MAX_REPAIRS = 10_000
#: Values and repairs of one answer, all its JSON together. Each is a parser step of its own, so a text that consists
#: of nothing else is several times as expensive. Numbers alone would take some 65,000 tokens to reach the limit.
MAX_VALUES = 1 << 15

#: Repairs that cost nothing and that a long string may need on every line.
_UNCOUNTED = frozenset({"raw_control", "bad_escape"})

#: Kinds of open containers. A `brace` is an object or a set, not yet decided; a `group` is a tuple or one value in
#: parentheses; a `wrap` is a brace around another brace and means nothing.
Kind = Literal["object", "array", "call", "brace", "group", "wrap", "root"]

State = Literal[
    "value", "key", "colon", "after", "word", "string", "triple", "marked", "escaped", "line_comment", "block_comment"
]


class Allowance:
    """How many more values and repairs may be parsed; shared by all values of one answer."""

    __slots__ = ("remaining",)

    def __init__(self) -> None:
        self.remaining = MAX_VALUES

    @property
    def exhausted(self) -> bool:
        """Whether no further value may be parsed."""
        return self.remaining <= 0

    @property
    def exceeded(self) -> bool:
        """Whether something was not parsed because it went over the limit."""
        return self.remaining < 0


class Output:
    """Tokens, notes and status of one value; gives up when a limit is exceeded."""

    def __init__(self, allowance: Allowance) -> None:
        self.tokens: list[Token] = []
        self.status: Status = "open"
        self._allowance = allowance
        self._notes: dict[str, str] = {}
        self._repairs = 0
        self._deferred: list[Token | None] = []  # tokens inside parentheses that are still ambiguous
        self._groups: list[int] = []  # where in `_deferred` the open parentheses begin

    @property
    def notes(self) -> tuple[Note, ...]:
        """The repairs so far, one note per code."""
        return tuple(Note(code, detail) for code, detail in self._notes.items())

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(self._notes)

    @property
    def defers(self) -> bool:
        """Whether tokens are deferred because a parenthesis is still ambiguous."""
        return bool(self._groups)

    def emit(self, kind: int, text: str = "") -> None:
        if self._groups:
            self._deferred.append((kind, text))
        else:
            self.tokens.append((kind, text))

    def note(self, code: str, detail: str = "") -> None:
        """Record a repair."""
        self._notes.setdefault(code, detail)
        if code not in _UNCOUNTED:
            self._repairs += 1
            if self._repairs > MAX_REPAIRS:
                self.give_up("too_many_repairs")
            self.spend()

    def spend(self) -> None:
        """Deduct one value, or a comparable amount of work, from the allowance."""
        self._allowance.remaining -= 1
        if self._allowance.remaining < 0:
            self.give_up("too_many_values")

    def give_up(self, code: str) -> None:
        self._notes.setdefault(code, "")
        self.status = "hopeless"

    def open_group(self) -> None:
        """Start to defer tokens: an opening parenthesis may begin a tuple or one grouped value."""
        self._groups.append(len(self._deferred))
        self._deferred.append((ARRAY, ""))

    def resolve_group(self, is_tuple: bool) -> None:
        """Decide what the innermost parentheses are; emit the deferred tokens if they are also the outermost."""
        start = self._groups.pop()
        if not is_tuple:
            self._deferred[start] = None
        if not self._groups:
            self.tokens.extend(token for token in self._deferred if token is not None)
            self._deferred.clear()


class Containers:
    """The stack of open containers, and the parser state that follows from it."""

    def __init__(self, output: Output, missing: str) -> None:
        self.state: State = "value"
        self.closers = ""  # the closing brackets of the open containers, innermost last
        self.kinds: list[Kind] = ["root"]
        self.missing = missing  # JSON text that replaces a missing value
        self.is_positional = False  # the next value is an argument without a name
        self.last_comma = False  # a comma was the last thing before the current position
        self.previous = ARRAY  # the token that ended the last value, or ARRAY when the container is empty
        self._output = output
        self._keys: list[set[str]] = []
        self._positional = 0

    def push(self, kind: Kind, closer: str) -> None:
        """Open a container, and emit its token unless its kind is ambiguous."""
        if len(self.closers) >= MAX_DEPTH:
            self._output.give_up("too_deep")
            return
        self.closers += closer
        self.kinds.append(kind)
        self._keys.append(set())
        self.last_comma = False
        self.previous = ARRAY
        self.state = "value" if kind in ("array", "group") else "key"
        if kind == "group":
            self._output.open_group()
        elif kind != "brace":
            self._output.emit(ARRAY if kind == "array" else OBJECT)
        self._output.spend()

    def resolve(self, kind: Kind) -> None:
        """Decide what the innermost, ambiguous brace is."""
        self.kinds[-1] = kind
        if kind != "wrap":
            self._output.emit(ARRAY if kind == "array" else OBJECT)

    def resolve_group(self, is_tuple: bool) -> None:
        """Decide whether the innermost parentheses are a tuple or enclose one value."""
        if is_tuple:
            self.kinds[-1] = "array"
            self._output.note("python_literal")
        self._output.resolve_group(is_tuple)

    def pop(self) -> None:
        """Close the innermost container."""
        if self.kinds[-1] == "group":
            self.resolve_group(is_tuple=self.state == "value")  # empty parentheses are an empty tuple
        elif self.kinds[-1] == "brace":
            self.resolve("object")
        kind = self.kinds.pop()
        self.closers = self.closers[:-1]
        self._keys.pop()
        end = END_ARRAY if kind == "array" else END_OBJECT
        if kind in ("array", "object", "call"):
            self._output.emit(end)
        self.end_value(end)

    def end_value(self, kind: int) -> None:
        """Continue after a value whose last token is of this kind."""
        self.previous = kind
        if self.closers:
            self.state = "after"
        else:
            self._output.status = "complete"
        if kind in (SCALAR, END_STRING):  # containers are counted when they open
            self._output.spend()

    def emit_key(self, key: str) -> None:
        if self.kinds[-1] == "brace":
            self.resolve("object")
        keys = self._keys[-1]
        if key in keys:
            # This text is part of the prompt when the model is asked to correct its call.
            self._output.note("duplicate_key", f"`{key[:64]}` stands twice")
        keys.add(key)
        if self.kinds[-1] == "call":
            self._output.spend()  # the fast path does not cover argument lists
        self.is_positional = False
        self._begin_member(KEY, key)

    def emit_positional(self) -> None:
        """Emit a placeholder for the key of an argument without a name."""
        self.is_positional = True
        self._begin_member(POSITIONAL, f"#{self._positional}")
        self._positional += 1

    def _begin_member(self, kind: int, name: str) -> None:
        self.last_comma = False
        self._output.emit(kind, name)
        self.state = "value"

    def replace_missing_value(self) -> None:
        self._output.note("missing_value")
        self._output.emit(SCALAR, self.missing)
        self.end_value(SCALAR)
