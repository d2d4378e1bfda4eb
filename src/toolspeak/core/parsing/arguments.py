"""The arguments of one call, from tokens to strict JSON fragments.

The commit rule: what has been streamed cannot be taken back. A string that the schema plainly wants as a
string flows as it comes. Every other value is held to its end, aligned to its schema, then sent. What the
schema forbids or does not know how to place waits for the end of the object. Where the schema judges the
object as a whole, the whole object is held.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..json_repair.containers import Allowance
from ..json_repair.literals import escape_text
from ..json_repair.tokens import (
    ARRAY,
    END_ARRAY,
    END_OBJECT,
    END_STRING,
    KEY,
    OBJECT,
    PART,
    PLACE,
    SCALAR,
    STRING,
    Token,
    Writer,
)
from ..json_repair.whole_text import read_value
from ..schema.arguments import ArgumentSchema
from ..schema.coercion import null_dropped
from ..types import JSONObject, JSONValue, Note, is_object

_NESTING = {OBJECT: 1, ARRAY: 1, STRING: 1, END_OBJECT: -1, END_ARRAY: -1, END_STRING: -1}

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def to_json(value: JSONValue) -> str:
    """Strict JSON text of a value."""
    return _encode(value).decode()


def fits_as_it_is(schema: ArgumentSchema, value: JSONObject) -> bool:
    """Whether nothing would be done to these arguments: neither changed, nor dropped, nor moved, nor judged wrong."""
    if schema.parameters is not None:
        for key, each in value.items():
            if each is None or not schema.knows(key):
                return False
    return schema.accepts(value)


class Settled(msgspec.Struct, frozen=True):
    """The finished arguments: the object, what was done to it, and what is still wrong with it."""

    value: JSONValue
    notes: tuple[Note, ...]
    problems: tuple[str, ...]


class Arguments:
    """Collects the tokens of one argument value. `take()` gives the fragments that are ready."""

    def __init__(self, schema: ArgumentSchema, allowance: Allowance | None = None) -> None:
        self._schema = schema
        self._allowance = allowance
        self._ready: list[str] = []  # fragments that nobody has taken yet
        self._all: list[str] = []  # fragments that have been taken
        self._in_object = False  # the root is an object, whose properties are taken one by one
        self._key = ""
        self._unnamed = False  # the value that comes has no key, only a place
        self._live = False  # inside a string that flows
        self._held: list[str] | None = None  # the value being held, as strict JSON pieces
        self._held_depth = 0
        self._writer = Writer()
        self._sent: set[str] = set()
        self._later: JSONObject = {}
        self._places: JSONObject = {}  # values without a key
        self._notes: list[Note] = []
        self._root = ""  # JSON text of a root that was held
        self._whole: JSONObject | None = None  # all of them, when they came at once

    @property
    def live(self) -> bool:
        """Whether text that comes now flows straight into the fragments."""
        return self._live

    @property
    def begun(self) -> bool:
        """Whether anything of the arguments has come."""
        return self._in_object or self._held is not None

    @property
    def record(self) -> Callable[[str], None]:
        """Keeps a piece of the live string, in strict form, that a caller has sent past us."""
        return self._all.append

    @property
    def keep(self) -> Callable[[str], None] | None:
        """Takes a piece of the string that comes, in strict form, for later; None where no string is kept."""
        if self._live:
            return self._ready.append
        return None if self._held is None else self._held.append

    def take(self) -> str:
        """What became certain since the last call."""
        if not self._ready:
            return ""
        ready = "".join(self._ready)
        self._ready = []
        self._all.append(ready)
        return ready

    def take_whole(self, value: JSONObject, text: str) -> None:
        """The whole value at once, which fits as it is, and its strict text; no token has come, and none comes."""
        self._ready.append(text)
        self._whole = value

    def token(self, token: Token) -> None:
        """One token of the value."""
        kind, text = token
        if self._live:
            self._ready.append(text if kind == PART else '"')
            self._live = kind == PART
        elif self._held is not None:
            self._hold(self._held, token)
        elif not self._in_object:
            self._open(token)
        elif kind in (KEY, PLACE):
            self._key = text
            self._unnamed = kind == PLACE
        elif kind != END_OBJECT:
            self._start_value(token)

    def _open(self, token: Token) -> None:
        if token[0] == OBJECT:
            self._in_object = True
        else:
            self._begin_hold(token)

    def _start_value(self, token: Token) -> None:
        strings = self._schema.live_strings
        flows = token[0] == STRING and (strings is None or self._key in strings)
        if flows and not self._waits():
            self._begin_property()
            self._ready.append('"')
            self._live = True
        elif token[0] == SCALAR:
            self._end_value(token[1])  # complete as it is
        else:
            self._begin_hold(token)

    def _begin_property(self) -> None:
        comma = "," if self._sent else "{"
        self._sent.add(self._key)
        self._ready.append(f'{comma}"{escape_text(self._key)}":')

    def _begin_hold(self, token: Token) -> None:
        self._held = []
        self._held_depth = 0
        self._writer = Writer()
        self._hold(self._held, token)

    def _hold(self, held: list[str], token: Token) -> None:
        """Keep a value until it is complete."""
        kind = token[0]
        held.append(self._writer.write(token))
        self._held_depth += _NESTING.get(kind, 0)
        if self._held_depth == 0:
            self._held = None
            self._end_value("".join(held))

    def _end_value(self, text: str) -> None:
        if not self._in_object:
            self._root = text
            return
        value = _decode(text)
        if self._waits():
            (self._places if self._unnamed else self._later)[self._key] = value
            return
        if value is None and self._schema.drops_null(self._key):
            self._notes.append(null_dropped((self._key,)))
            return
        aligned = self._schema.align_property(self._key, value)
        self._notes.extend(aligned.notes)
        self._begin_property()
        self._ready.append(to_json(aligned.value))

    def _waits(self) -> bool:
        """Whether a property can only be placed when the whole object is known."""
        schema = self._schema
        return self._unnamed or not schema.piecewise or self._key in self._sent or schema.forbids(self._key)

    def abandon(self) -> None:
        """The value cannot be finished: close what has been sent, so that the fragments are still one object."""
        if self._live:
            self._ready.append('"')
        self._ready.append("}" if self._sent else "{}")

    def settle(self) -> Settled:
        """The value has ended: align what was held and judge the whole."""
        if self._whole is not None:
            return Settled(self._whole, (), ())
        if not self._in_object:
            return self._settle_root()
        later = self._placed()
        if not self._schema.piecewise:
            return self._settle_whole(later)
        sent: JSONObject = _decode("".join([*self._all, *self._ready, "}"])) if self._sent else {}
        problems = self._send_rest(sent, later) if later or not self._sent else self._schema.problems(sent)
        self._ready.append("}")
        return Settled(sent, tuple(self._notes), problems)

    def _send_rest(self, sent: JSONObject, later: JSONObject) -> tuple[str, ...]:
        """Align the whole and add to `sent` what has not gone out; what is wrong with the result."""
        aligned = self._schema.align({**sent, **later})
        self._notes.extend(aligned.notes)
        whole = aligned.value if is_object(aligned.value) else {}
        if not self._sent:
            self._ready.append("{")
        for key, value in whole.items():
            if key in sent:
                continue
            comma = "," if sent else ""
            sent[key] = value
            self._ready.append(f'{comma}"{escape_text(key)}":{to_json(value)}')
        judged = not self._sent and whole is aligned.value  # then what was aligned is what is sent
        return aligned.problems if judged else self._schema.problems(sent)

    def _placed(self) -> JSONObject:
        """What waited, with the values that have no key under the names of the schema."""
        only = self._places.get("#0")
        if is_object(only) and len(self._places) == 1 and not self._later:
            return only
        later = self._later
        names = (name for name in self._schema.names if name not in self._sent and name not in later)
        for place, value in self._places.items():
            name = next(names, "")
            self._notes.append(Note("positional_argument", name))
            later.setdefault(name or place, value)
        return later

    def _settle_root(self) -> Settled:
        value: JSONValue = _decode(self._root) if self._root else {}
        if isinstance(value, str):
            read = read_value(value, allowance=self._allowance)
            if is_object(read.value) and read.status == "complete":
                self._notes.append(Note("string_arguments"))
                self._notes.extend(read.notes)
                value = read.value
            elif self._schema.parameters is None:
                self._notes.append(Note("text_arguments"))
                value = {"input": value}
        return self._settle_whole(value)

    def _settle_whole(self, value: JSONValue) -> Settled:
        """Nothing has been sent: align the value as one and send it."""
        aligned = self._schema.align(value)
        self._notes.extend(aligned.notes)
        problems = aligned.problems
        if not is_object(aligned.value):
            problems = problems or ("the arguments are not an object",)
            self._ready.append("{}")
        else:
            self._ready.append(to_json(aligned.value))
        return Settled(aligned.value, tuple(self._notes), problems)
