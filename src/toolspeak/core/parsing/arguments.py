"""Arguments of one call: turns tokens into fragments of strict JSON.

Streamed text cannot be taken back. So only strings that the schema clearly declares as strings are streamed. Every
other value is held until it is complete, then coerced to its schema and emitted. Properties that the schema forbids or
cannot place wait for the end of the object. If the schema constrains the object as a whole, the whole object is held.
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
    POSITIONAL,
    SCALAR,
    STRING,
    Token,
    Writer,
)
from ..json_repair.whole_text import parse_value
from ..schema.argument_schema import ArgumentSchema
from ..schema.coercion import null_dropped
from ..schema.work_limit import WorkLimit
from ..types import JSONObject, JSONValue, Note, is_object

_NESTING = {OBJECT: 1, ARRAY: 1, STRING: 1, END_OBJECT: -1, END_ARRAY: -1, END_STRING: -1}

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def to_json(value: JSONValue) -> str:
    """Return a value as strict JSON text."""
    return _encode(value).decode()


def fits_as_it_is(schema: ArgumentSchema, value: JSONObject, work: WorkLimit | None = None) -> bool:
    """Whether the arguments are valid without any coercion. `work` limits the work for all arguments of an answer."""
    if schema.parameters is not None:
        for key, each in value.items():
            if each is None or not schema.declares(key):
                return False
    return schema.accepts(value, work)


class FinalArguments(msgspec.Struct, frozen=True):
    """Complete arguments: the value, notes on the changes made to it, and the remaining problems."""

    value: JSONValue
    notes: tuple[Note, ...]
    problems: tuple[str, ...]
    #: The value before it was coerced, if that changed it.
    written: JSONValue = None


class Arguments:
    """Collector for the argument tokens of one call. `take()` returns the fragments that are ready."""

    def __init__(
        self, schema: ArgumentSchema, allowance: Allowance | None = None, work: WorkLimit | None = None
    ) -> None:
        self._schema = schema
        self._work = work or WorkLimit()
        self._allowance = allowance
        self._ready: list[str] = []  # fragments that the caller has not taken yet
        self._all: list[str] = []  # fragments that the caller has taken
        self._in_object = False  # the arguments are an object, which is read property by property
        self._key = ""
        self._unnamed = False  # the next value is positional
        self._live = False  # inside a string that is being streamed
        self._pieces: list[str] | None = None  # the value being held, as pieces of strict JSON
        self._held_depth = 0
        self._writer = Writer()
        self._sent: set[str] = set()
        self._written: JSONObject = {}  # values before they were coerced
        self._later: JSONObject = {}
        self._places: JSONObject = {}  # positional values by placeholder key
        self._notes: list[Note] = []
        self._root = ""  # JSON text of arguments that are not an object
        self._whole: JSONObject | None = None  # all arguments, if they arrived in one piece

    @property
    def live(self) -> bool:
        """Whether a string is being streamed at the moment."""
        return self._live

    @property
    def started(self) -> bool:
        """Whether the arguments have begun."""
        return self._in_object or self._pieces is not None

    @property
    def record(self) -> Callable[[str], None]:
        """Function that records a piece of the streamed string, as strict JSON, that the caller itself has emitted."""
        return self._all.append

    @property
    def keep(self) -> Callable[[str], None] | None:
        """Function that stores a piece of the current string, as strict JSON; None if no string is being read."""
        if self._live:
            return self._ready.append
        return None if self._pieces is None else self._pieces.append

    def take(self) -> str:
        """Return the text that became certain since the last call."""
        if not self._ready:
            return ""
        ready = "".join(self._ready)
        self._ready = []
        self._all.append(ready)
        return ready

    def take_whole(self, value: JSONObject, text: str) -> None:
        """Set the whole value at once, with its strict JSON text. It must be valid, and no tokens may be added."""
        self._ready.append(text)
        self._whole = value

    def token(self, token: Token) -> None:
        """Add one token of the arguments."""
        kind, text = token
        if self._live:
            self._ready.append(text if kind == PART else '"')
            self._live = kind == PART
        elif self._pieces is not None:
            self._hold(self._pieces, token)
        elif not self._in_object:
            self._open(token)
        elif kind in (KEY, POSITIONAL):
            self._key = text
            self._unnamed = kind == POSITIONAL
        elif kind != END_OBJECT:
            self._start_value(token)

    def _open(self, token: Token) -> None:
        if token[0] == OBJECT:
            self._in_object = True
        else:
            self._begin_hold(token)

    def _start_value(self, token: Token) -> None:
        strings = self._schema.streamable_strings
        streams = token[0] == STRING and (strings is None or self._key in strings)
        if streams and not self._waits():
            self._begin_property()
            self._ready.append('"')
            self._live = True
        elif token[0] == SCALAR:
            self._end_value(token[1])  # a scalar is complete at once
        else:
            self._begin_hold(token)

    def _begin_property(self) -> None:
        comma = "," if self._sent else "{"
        self._sent.add(self._key)
        self._ready.append(f'{comma}"{escape_text(self._key)}":')

    def _begin_hold(self, token: Token) -> None:
        self._pieces = []
        self._held_depth = 0
        self._writer = Writer()
        self._hold(self._pieces, token)

    def _hold(self, pieces: list[str], token: Token) -> None:
        """Add a token to the held value, and end the value once it is complete."""
        kind = token[0]
        pieces.append(self._writer.write(token))
        self._held_depth += _NESTING.get(kind, 0)
        if self._held_depth == 0:
            self._pieces = None
            self._end_value("".join(pieces))

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
        coerced, notes = self._schema.coerce_property(self._key, value, work=self._work)
        if notes:
            self._written[self._key] = value
        self._notes.extend(notes)
        self._begin_property()
        self._ready.append(to_json(coerced))

    def _waits(self) -> bool:
        """Whether the current property must wait for the end of the object."""
        schema = self._schema
        return self._unnamed or not schema.piecewise or self._key in self._sent or schema.forbids(self._key)

    def abandon(self) -> None:
        """Give up on the arguments. Close what has been emitted, so that the fragments still form one object."""
        if self._live:
            self._ready.append('"')
        self._ready.append("}" if self._sent else "{}")

    def settle(self) -> FinalArguments:
        """Complete the arguments: coerce what was held and validate the result."""
        settled = self._settle()
        self._schema.charge(settled.value, self._work)
        if settled.problems:
            self._work.count_problem()
        return settled

    def _settle(self) -> FinalArguments:
        if self._whole is not None:
            return FinalArguments(self._whole, (), ())
        if not self._in_object:
            return self._settle_root()
        later = self._resolve_positions()
        if not self._schema.piecewise:
            return self._settle_whole(later)
        sent: JSONObject = _decode("".join([*self._all, *self._ready, "}"])) if self._sent else {}
        written = {**sent, **self._written, **later} if self._written or later else None
        problems = self._send_rest(sent, later) if later or not self._sent else self._problems(sent)
        self._ready.append("}")
        return FinalArguments(sent, tuple(self._notes), problems, written)

    def _problems(self, value: JSONObject) -> tuple[str, ...]:
        return self._schema.problems(value, work=self._work)

    def _send_rest(self, sent: JSONObject, later: JSONObject) -> tuple[str, ...]:
        """Coerce all arguments, emit the remaining ones, add them to `sent`, and return the problems of the result."""
        coerced = self._schema.coerce({**sent, **later}, work=self._work)
        self._notes.extend(coerced.notes)
        whole = coerced.value if is_object(coerced.value) else {}
        if not self._sent:
            self._ready.append("{")
        for key, value in whole.items():
            if key in sent:
                continue
            comma = "," if sent else ""
            sent[key] = value
            self._ready.append(f'{comma}"{escape_text(key)}":{to_json(value)}')
        is_final = not self._sent and whole is coerced.value  # exactly the coerced value is emitted
        return coerced.problems if is_final else self._problems(sent)

    def _resolve_positions(self) -> JSONObject:
        """Return the properties that had to wait, with positional values under their names in the schema."""
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

    def _settle_root(self) -> FinalArguments:
        value: JSONValue = _decode(self._root) if self._root else {}
        if isinstance(value, str):
            parsed = parse_value(value, allowance=self._allowance)
            if is_object(parsed.value) and parsed.status == "complete":
                self._notes.append(Note("string_arguments"))
                self._notes.extend(parsed.notes)
                value = parsed.value
            elif self._schema.parameters is None:
                self._notes.append(Note("text_arguments"))
                value = {"input": value}
        return self._settle_whole(value)

    def _settle_whole(self, value: JSONValue) -> FinalArguments:
        """Coerce and emit a value of which nothing has been emitted yet."""
        coerced = self._schema.coerce(value, work=self._work)
        self._notes.extend(coerced.notes)
        problems = coerced.problems
        if not is_object(coerced.value):
            problems = problems or ("the arguments are not an object",)
            self._ready.append("{}")
        else:
            self._ready.append(to_json(coerced.value))
        return FinalArguments(coerced.value, tuple(self._notes), problems, value if coerced.notes else None)
