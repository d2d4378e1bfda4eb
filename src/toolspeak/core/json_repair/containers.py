"""The containers of tolerant JSON, the output, the notes and the limits.

`Frames` is the part of the transducer that knows what is open and what has been said; it reads no text.
What an opening bracket means is sometimes known only later: a brace may open an object or a Python set, a
parenthesis a tuple or nothing but a grouped value. A brace is therefore announced with its first key, and
what stands in a parenthesis is held until a comma or its end.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from ..types import Note
from .lookahead import Answer, begins
from .tokens import ARRAY, END_ARRAY, END_OBJECT, END_STRING, KEY, OBJECT, PLACE, SCALAR, Status, Token

#: llama.cpp and most JSON readers stop here; nobody nests arguments deeper on purpose.
MAX_DEPTH = 64
#: Arguments beyond a mebibyte are refused, whoever wrote them.
MAX_SIZE = 1 << 20
#: A text that needs more repairs than this is not JSON. A page of HTML with unescaped quotes stays below.
MAX_REPAIRS = 10_000
#: Each value and each repair is a step of its own, so that a text of nothing else costs several times what others do.
#: All values of an answer together have so many; numbers alone would take some 65,000 tokens to write them.
MAX_VALUES = 1 << 15

#: Repairs that cost nothing and that a long text in a string may need on every line.
_UNCOUNTED = frozenset({"raw_control", "bad_escape"})

#: What is open. A `brace` is an object or a set, nobody knows yet; a `group` is a tuple or one value in
#: parentheses; a `wrap` is a brace around another brace and means nothing.
Kind = Literal["object", "array", "call", "brace", "group", "wrap", "root"]

State = Literal[
    "value", "key", "colon", "after", "word", "string", "triple", "marked", "escaped", "line_comment", "block_comment"
]


class Allowance:
    """How many values and repairs may still be read; all values of an answer share one."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_VALUES

    @property
    def spent(self) -> bool:
        """Whether no value may be read any more."""
        return self.left <= 0

    @property
    def overdrawn(self) -> bool:
        """Whether something was more than could be read, and so was not."""
        return self.left < 0


class Frames:
    """What is open, what came out, what was repaired."""

    #: What stands in for a value that is missing.
    missing: ClassVar[str] = "null"

    def __init__(self, *, stops: tuple[str, ...] = (), call: bool = False, allowance: Allowance | None = None) -> None:
        self.tokens: list[Token] = []
        self._allowance = allowance or Allowance()
        self.status: Status = "open"
        self._stops = stops
        self._stop_starts = "".join(stop[0] for stop in stops)
        self._call = call
        self._state: State = "value"
        self._notes: dict[str, str] = {}
        self._repairs = 0
        self._size = 0
        self._closers = ""  # what the open containers wait for, innermost last
        self._kinds: list[Kind] = ["root"]
        self._keys: list[set[str]] = []
        self._positional = 0
        self._argument = False  # what is read next is an argument without a name
        self._last_comma = False
        self._previous = ARRAY  # with which token the last value ended, or ARRAY when there was none
        self._held: list[Token | None] = []  # tokens behind a parenthesis that is not understood yet
        self._marks: list[int] = []  # where in there the parentheses stand

    @property
    def notes(self) -> tuple[Note, ...]:
        """The repairs so far, each once."""
        return tuple(Note(code, detail) for code, detail in self._notes.items())

    @property
    def codes(self) -> frozenset[str]:
        """The codes of the notes."""
        return frozenset(self._notes)

    @property
    def closers(self) -> str:
        """What the open containers wait for, innermost last."""
        return self._closers

    @property
    def room(self) -> int:
        """How many characters may still come."""
        return MAX_SIZE - self._size

    def grow(self, count: int) -> None:
        """Count characters that were read, or that a caller took past `feed`."""
        self._size += count
        if self._size > MAX_SIZE:
            self._give_up("too_large")

    def _stop_at(self, buf: str, pos: int) -> Answer:
        """Whether a mark stands at `pos` that ends the whole value."""
        return buf[pos] in self._stop_starts and begins(buf, pos, self._stops)

    def _emit(self, kind: int, text: str = "") -> None:
        if self._marks:
            self._held.append((kind, text))
        else:
            self.tokens.append((kind, text))

    def _note(self, code: str, detail: str = "") -> None:
        self._notes.setdefault(code, detail)
        if code not in _UNCOUNTED:
            self._repairs += 1
            if self._repairs > MAX_REPAIRS:
                self._give_up("too_many_repairs")
            self._spend()

    def _spend(self) -> None:
        """One more value, or something that is as much work."""
        self._allowance.left -= 1
        if self._allowance.left < 0:
            self._give_up("too_many_values")

    def _give_up(self, code: str) -> None:
        self._notes.setdefault(code, "")
        self.status = "hopeless"

    # ---- containers

    def _push(self, kind: Kind, closer: str) -> None:
        """A container begins. What it is gets said at once, unless it may be two things."""
        if len(self._closers) >= MAX_DEPTH:
            self._give_up("too_deep")
            return
        self._closers += closer
        self._kinds.append(kind)
        self._keys.append(set())
        self._last_comma = False
        self._previous = ARRAY
        self._state = "value" if kind in ("array", "group") else "key"
        if kind == "group":
            self._marks.append(len(self._held))
            self._held.append((ARRAY, ""))
        elif kind != "brace":
            self._emit(ARRAY if kind == "array" else OBJECT)
        self._spend()

    def _become(self, kind: Kind) -> None:
        """The innermost container turns out to be this."""
        self._kinds[-1] = kind
        if kind != "wrap":
            self._emit(ARRAY if kind == "array" else OBJECT)

    def _settle_group(self, is_tuple: bool) -> None:
        """The innermost container is a group: it turns out to be a tuple, or one value in parentheses."""
        mark = self._marks.pop()
        if is_tuple:
            self._kinds[-1] = "array"
            self._note("python_literal")
        else:
            self._held[mark] = None
        if not self._marks:
            self.tokens.extend(token for token in self._held if token is not None)
            self._held.clear()

    def _pop(self) -> None:
        """The innermost container ends."""
        if self._kinds[-1] == "group":
            self._settle_group(is_tuple=self._state == "value")  # nothing in it: an empty tuple
        elif self._kinds[-1] == "brace":
            self._become("object")
        kind = self._kinds.pop()
        self._closers = self._closers[:-1]
        self._keys.pop()
        end = END_ARRAY if kind == "array" else END_OBJECT
        if kind in ("array", "object", "call"):
            self._emit(end)
        self._ended(end)

    def _ended(self, kind: int) -> None:
        """A value has just ended, with a token of this kind."""
        self._previous = kind
        if self._closers:
            self._state = "after"
        else:
            self.status = "complete"
        if kind in (SCALAR, END_STRING):  # containers are counted where they begin
            self._spend()

    # ---- keys and values

    def _emit_key(self, key: str) -> None:
        if self._kinds[-1] == "brace":
            self._become("object")
        keys = self._keys[-1]
        if key in keys:
            self._note("duplicate_key", f"`{key[:64]}` stands twice")
        keys.add(key)
        if self._kinds[-1] == "call":
            self._spend()  # neither of the two is read the short way there
        self._argument = False
        self._begin_member(KEY, key)

    def _emit_place(self) -> None:
        """What stands for the key of an argument without a name."""
        self._argument = True
        self._begin_member(PLACE, f"#{self._positional}")
        self._positional += 1

    def _begin_member(self, kind: int, name: str) -> None:
        self._last_comma = False
        self._emit(kind, name)
        self._state = "value"

    def _missing_value(self) -> None:
        self._note("missing_value")
        self._emit(SCALAR, self.missing)
        self._ended(SCALAR)
