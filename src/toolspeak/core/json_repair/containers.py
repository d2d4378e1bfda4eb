"""Open containers, tokens, notes and limits of the tolerant JSON parser. This module reads no text.

The meaning of a bracket may become clear later: a brace opens an object or a Python set, a parenthesis opens a tuple or
encloses one value. So a brace is emitted together with its first key, and tokens inside parentheses are deferred until
the first comma or the closing parenthesis.
"""

from typing import Literal

from ..types import Note
from .tokens import ARRAY, END_ARRAY, END_OBJECT, END_STRING, KEY, OBJECT, POSITIONAL, SCALAR, Status, Token

#: Nesting limit, as in llama.cpp and most JSON parsers. Real arguments are never nested deeper.
MAX_DEPTH = 64
#: Arguments larger than one mebibyte are rejected.
MAX_SIZE = 1 << 20
#: Text that needs more repairs than this is not JSON. Even a page of HTML with unescaped quotes needs fewer.
MAX_REPAIRS = 10_000
#: Limit on values and repairs in all JSON of one answer. Each takes a parser step, so a text that consists of nothing
#: else is several times as expensive. An answer made of numbers reaches the limit after about 65,000 tokens.
MAX_VALUES = 1 << 15

#: Repairs that are not counted: they are cheap, and a long string may need them on every line.
_UNCOUNTED = frozenset({"raw_control", "bad_escape"})

#: Kinds of open containers. A `brace` may still become an object or a set; a `group` may become a tuple or one value in
#: parentheses; a `wrap` is a redundant brace around another brace.
Kind = Literal["object", "array", "call", "brace", "group", "wrap", "root"]

State = Literal[
    "value", "key", "colon", "after", "word", "string", "triple", "marked", "escaped", "line_comment", "block_comment"
]


class Allowance:
    """Number of values and repairs that may still be parsed; shared by all JSON of one answer."""

    __slots__ = ("remaining",)

    def __init__(self) -> None:
        self.remaining = MAX_VALUES

    @property
    def exhausted(self) -> bool:
        """Whether no more values may be parsed."""
        return self.remaining <= 0

    @property
    def exceeded(self) -> bool:
        """Whether parsing stopped because the limit was exceeded."""
        return self.remaining < 0


class Output:
    """Tokens, notes and status of one value. Parsing gives up when a limit is exceeded."""

    def __init__(self, allowance: Allowance) -> None:
        self.tokens: list[Token] = []
        self.status: Status = "open"
        self._allowance = allowance
        self._notes: dict[str, str] = {}
        self._repairs = 0
        self._deferred: list[Token | None] = []  # tokens inside parentheses whose meaning is undecided
        self._groups: list[int] = []  # index in `_deferred` of each open parenthesis

    @property
    def notes(self) -> tuple[Note, ...]:
        """The repairs so far, one note per code."""
        return tuple(Note(code, detail) for code, detail in self._notes.items())

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(self._notes)

    @property
    def defers(self) -> bool:
        """Whether tokens are deferred because the meaning of a parenthesis is undecided."""
        return bool(self._groups)

    def emit(self, kind: int, text: str = "") -> None:
        if self._groups:
            self._deferred.append((kind, text))
        else:
            self.tokens.append((kind, text))

    def note(self, code: str, detail: str = "") -> None:
        self._notes.setdefault(code, detail)
        if code not in _UNCOUNTED:
            self._repairs += 1
            if self._repairs > MAX_REPAIRS:
                self.give_up("too_many_repairs")
            self.spend()

    def spend(self) -> None:
        """Deduct one value, or work of a similar cost, from the allowance."""
        self._allowance.remaining -= 1
        if self._allowance.remaining < 0:
            self.give_up("too_many_values")

    def give_up(self, code: str) -> None:
        self._notes.setdefault(code, "")
        self.status = "hopeless"

    def open_group(self) -> None:
        """Start deferring tokens: an opening parenthesis may begin a tuple or enclose one value."""
        self._groups.append(len(self._deferred))
        self._deferred.append((ARRAY, ""))

    def resolve_group(self, is_tuple: bool) -> None:
        """Resolve the innermost parentheses. Emit the deferred tokens if no other parentheses are open."""
        start = self._groups.pop()
        if not is_tuple:
            self._deferred[start] = None
        if not self._groups:
            self.tokens.extend(token for token in self._deferred if token is not None)
            self._deferred.clear()


class Containers:
    """The stack of open containers, and the parser state that results from it."""

    def __init__(self, output: Output, missing: str) -> None:
        self.state: State = "value"
        self.closers = ""  # the expected closing brackets, innermost last
        self.kinds: list[Kind] = ["root"]
        self.missing = missing  # JSON text that replaces a missing value
        self.is_positional = False  # the next value is an argument without a name
        self.last_comma = False  # the last token read was a comma
        self.previous = ARRAY  # the token that ended the last value; ARRAY if the container is empty
        self._output = output
        self._keys: list[set[str]] = []
        self._positional = 0

    def push(self, kind: Kind, closer: str) -> None:
        """Open a container. Emit its token unless its kind is still undecided."""
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
        """Set the kind of the innermost brace, which was undecided so far."""
        self.kinds[-1] = kind
        if kind != "wrap":
            self._output.emit(ARRAY if kind == "array" else OBJECT)

    def resolve_group(self, is_tuple: bool) -> None:
        """Set whether the innermost parentheses are a tuple or enclose one value."""
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
        """Update the state after a value that ended with a token of this kind."""
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
            # The model reads this text when it is asked to correct its call.
            self._output.note("duplicate_key", f"`{key[:64]}` occurs twice")
        keys.add(key)
        if self.kinds[-1] == "call":
            self._output.spend()  # the fast path does not cover argument lists
        self.is_positional = False
        self._begin_member(KEY, key)

    def emit_positional(self) -> None:
        """Emit a placeholder key for an argument without a name."""
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
