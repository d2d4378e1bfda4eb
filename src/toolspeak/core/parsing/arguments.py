"""Arguments of one call: turns tokens into fragments of strict JSON.

Streamed text cannot be taken back. So a string is streamed as soon as coercion can no longer change it, and an array or
object part by part if its parts are coerced on their own. Every other value is held until it is complete, then coerced
to its schema and emitted. Properties that the schema forbids or cannot place wait for the end of their object. If the
schema constrains an object as a whole, the whole object is held.
"""

from collections.abc import Callable

import msgspec

from ..json_repair import tokens
from ..json_repair.containers import Allowance
from ..json_repair.literals import escape_text
from ..json_repair.whole_text import parse_value
from ..schema.argument_schema import ArgumentSchema, ValueSchema
from ..schema.coercion import null_dropped
from ..schema.json_values import Path, has_respelled_float, json_text, strict_json
from ..schema.work_limit import WorkLimit
from ..types import JSONObject, JSONValue, Note, is_object

_NESTING = {
    tokens.OBJECT: 1,
    tokens.ARRAY: 1,
    tokens.STRING: 1,
    tokens.END_OBJECT: -1,
    tokens.END_ARRAY: -1,
    tokens.END_STRING: -1,
}
_ARRAY: tokens.Token = (tokens.ARRAY, "")
_NULL: tokens.Token = (tokens.SCALAR, "null")
_TO_STRING = "number_to_string"
#: Notes on JSON that is written as Python writes its values.
_PYTHON_NOTES = frozenset({"single_quotes", "python_literal"})
#: Maximum number of containers, one inside the other, that are streamed part by part. Lists of objects that contain
#: lists of objects are common, deeper nesting is not, and each level may cost another pass over the text.
MAX_STREAMED_DEPTH = 6

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


class _Container(msgspec.Struct, eq=False):
    """An array or object that is being streamed part by part. The outermost one is the object of all arguments."""

    schema: ValueSchema
    is_list: bool = False
    path: Path = ()
    raw_start: int = 0  # where the container begins in the raw text
    notes_start: int = 0  # number of notes before the container
    key: str = ""  # the key of the current property
    size: int = 0  # number of parts that have been emitted
    sent: set[str] = set()  # keys of the properties that have been emitted
    changed: JSONObject = {}  # properties that were coerced, with their new values
    waits: bool = False  # a property waits for the end of the object

    @property
    def part_path(self) -> Path:
        """The path of the current part, until it is counted."""
        return (*self.path, self.size if self.is_list else self.key)

    @property
    def part(self) -> ValueSchema:
        """The schema of the current part, until it is counted."""
        return self.schema.item(self.size) if self.is_list else self.schema.member(self.key)

    def begin_part(self) -> str:
        """Count a part and return the text before it."""
        comma = "," if self.size else ""
        self.size += 1
        if self.is_list:
            return comma
        self.sent.add(self.key)
        return f'{comma}"{escape_text(self.key)}":'


class Arguments:
    """Collector for the argument tokens of one call. `take()` returns the fragments that are ready."""

    def __init__(
        self, schema: ArgumentSchema, allowance: Allowance | None = None, work: WorkLimit | None = None
    ) -> None:
        self._schema = schema
        self._work = work or WorkLimit()
        self._charged = 0  # number of checks that were charged for parts
        self._allowance = allowance
        self._ready: list[str] = []  # fragments that the caller has not taken yet
        self._all: list[str] = []  # fragments that the caller has taken
        self._root = _Container(schema.value)
        self._open: list[_Container] = []  # the containers being streamed; the first is the root
        self._unnamed = False  # the next value is positional
        self._live = False  # inside a string that is being streamed
        self._raw: list[str] = []  # what the model wrote for the property that contains the current part
        self._raw_writer = tokens.Writer()
        self._pieces: list[str] | None = None  # the value being held, as pieces of strict JSON
        self._held_depth = 0
        self._array_ahead = False  # an array begins, but its first token is not known yet
        self._delay: int | None = None  # number of characters after which the held string can no longer change
        self._writer = tokens.Writer()
        self._written: JSONObject = {}  # values before they were coerced
        self._later: JSONObject = {}
        self._places: JSONObject = {}  # positional values by placeholder key
        self._surplus = 0  # number of positional values that have no parameter
        self._notes: list[Note] = []
        self._respelled = False  # a number among the values that were held was not written as strict JSON
        self._whole_text = ""  # JSON text of arguments that are not an object
        self._whole: JSONObject | None = None  # all arguments, if they arrived in one piece

    @property
    def live(self) -> bool:
        """Whether a string is being streamed at the moment."""
        return self._live

    @property
    def started(self) -> bool:
        return bool(self._open) or self._pieces is not None or self._whole is not None

    @property
    def between_properties(self) -> bool:
        """Whether the next token may be the key of an argument."""
        return len(self._open) == 1 and not (self._live or self._array_ahead) and self._pieces is None

    @property
    def record(self) -> Callable[[str], None]:
        """Function that records a piece of the streamed string, as strict JSON, that the caller itself has emitted."""
        return self._and_raw(self._all.append)

    @property
    def keep(self) -> Callable[[str], None] | None:
        """Function that stores a piece of the current string, as strict JSON. None: pass the tokens instead."""
        if self._live:
            return self._and_raw(self._ready.append)
        return None if self._pieces is None or self._delay is not None else self._pieces.append

    def _and_raw(self, store: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that stores a piece, in the raw text as well if a part is being streamed."""
        if len(self._open) == 1:
            return store
        store_raw = self._raw.append

        def store_both(piece: str) -> None:
            store(piece)
            store_raw(piece)

        return store_both

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

    def token(self, token: tokens.Token) -> None:
        kind, text = token
        if self._live:
            self._continue_string(token)
        elif self._pieces is not None:
            self._hold(self._pieces, token)
        elif self._array_ahead:
            self._start_array(token)
        elif not self._open:
            self._begin(token)
        elif kind in (tokens.KEY, tokens.POSITIONAL):
            self._open[-1].key = text
            self._unnamed = kind == tokens.POSITIONAL
            self._write_raw(token)
        elif kind in (tokens.END_OBJECT, tokens.END_ARRAY):
            self._end_container(token)
        else:
            self._start_value(token)

    def _begin(self, token: tokens.Token) -> None:
        if token[0] == tokens.OBJECT:
            self._open.append(self._root)
        else:
            self._begin_hold(token)

    def _write_raw(self, token: tokens.Token) -> None:
        if len(self._open) > 1:
            self._raw.append(self._raw_writer.write(token))

    def _start_value(self, token: tokens.Token) -> None:
        kind = token[0]
        if kind == tokens.SCALAR:
            self._end_value(token[1])  # a scalar is complete at once
        elif self._waits():
            self._begin_hold(token)
        elif kind == tokens.STRING:
            delay = self._open[-1].part.text_delay
            self._begin_string("") if delay == 0 else self._begin_hold(token, delay)
        elif not self._streams(kind == tokens.ARRAY):
            self._begin_hold(token)
        elif kind == tokens.ARRAY:
            self._array_ahead = True
        else:
            self._start_container(token)

    def _begin_string(self, text: str) -> None:
        """Begin to stream a string with its first characters."""
        self._write_raw((tokens.STRING, ""))
        self._write_raw((tokens.PART, text))
        self._ready.append(f'{self._begin_part()}"{text}')
        self._live = True

    def _continue_string(self, token: tokens.Token) -> None:
        kind, text = token
        self._write_raw(token)
        self._ready.append(text if kind == tokens.PART else '"')
        self._live = kind == tokens.PART

    def _begin_part(self) -> str:
        """Count a part and return the text before it."""
        container = self._open[-1]
        opener = "{" if container is self._root and not container.size else ""
        return opener + container.begin_part()

    def _begin_hold(self, token: tokens.Token, delay: int | None = None) -> None:
        self._pieces = []
        self._held_depth = 0
        self._delay = delay
        self._writer = tokens.Writer()
        self._hold(self._pieces, token)

    def _hold(self, pieces: list[str], token: tokens.Token) -> None:
        """Add a token to the held value, and end the value once it is complete or can no longer change."""
        kind = token[0]
        self._respelled = self._respelled or isinstance(token[1], tokens.WrittenNumber)
        pieces.append(self._writer.write(token))
        self._held_depth += _NESTING.get(kind, 0)
        if self._held_depth == 0:
            self._pieces = self._delay = None
            self._end_value("".join(pieces))
        elif self._delay is not None and kind == tokens.PART:
            self._delay -= len(token[1])
            if self._delay < 0:
                self._pieces = self._delay = None
                self._begin_string("".join(pieces)[1:])

    def _end_value(self, text: str) -> None:
        if not self._open:
            self._whole_text = text
            return
        container = self._open[-1]
        written = text
        if isinstance(text, tokens.WrittenNumber):
            written, text = text.written, str(text)
            self._respelled = True
        self._write_raw((tokens.SCALAR, text))
        value = _decode(text)
        if self._waits():
            self._keep_for_later(container, value)
            self._respelled = self._respelled or (type(value) is not str and has_respelled_float(text))
            return
        if value is None and not container.is_list and container.schema.drops_null(container.key):
            self._notes.append(null_dropped(container.part_path))
            return
        coerced, notes = self._coerce_part(container.part, value, container.part_path)
        if notes:
            if notes[0].code == _TO_STRING and coerced == json_text(value):
                coerced = written
            else:
                notes = self._with_lost_spelling(notes, text)
            self._written.setdefault(self._root.key, value)
            container.changed[container.key] = coerced
            self._notes.extend(notes)
        self._ready.append(self._begin_part() + to_json(coerced))

    def _coerce_part(self, schema: ValueSchema, value: JSONValue, path: Path) -> tuple[JSONValue, tuple[Note, ...]]:
        coerced = schema.coerce(value, path, self._parse_text, self._work)
        self._charged += self._schema.charge(value, self._work)
        return coerced

    def _with_lost_spelling(self, notes: tuple[Note, ...], text: str = "0") -> tuple[Note, ...]:
        """Add a note if one of the numbers that were converted to strings may have been written differently."""
        lost = any(note.code == _TO_STRING for note in notes) and (self._respelled or has_respelled_float(text))
        return (*notes, Note("spelling_lost", "a number was converted to a string")) if lost else notes

    def _parse_text(self, text: str) -> JSONValue:
        """Parse JSON inside a string, possibly with the quotes and words of Python. Raises `ValueError`."""
        try:
            return strict_json(text)
        except ValueError:
            parsed = parse_value(text, allowance=self._allowance)
            is_python = parsed.status == "complete" and not text[parsed.end :].strip()
            if not is_python or not _PYTHON_NOTES.issuperset(note.code for note in parsed.notes):
                raise
            return parsed.value

    def _keep_for_later(self, container: _Container, value: JSONValue) -> None:
        if container is self._root:
            (self._places if self._unnamed else self._later)[container.key] = value
        else:
            container.waits = True  # the raw text contains the value

    def _waits(self) -> bool:
        """Whether the current value must wait for the end of its object."""
        container = self._open[-1]
        if container.is_list:
            return False
        if container is self._root and (self._unnamed or not self._schema.piecewise):
            return True
        return container.key in container.sent or container.schema.forbids(container.key)

    def _streams(self, is_list: bool) -> bool:
        """Whether the array or object that begins now can be streamed part by part."""
        schema = self._open[-1].part
        return len(self._open) <= MAX_STREAMED_DEPTH and (schema.streams_items if is_list else schema.streams_members)

    def _start_array(self, token: tokens.Token) -> None:
        """Begin an array with its first token. `[null]` may mean null, so an array that begins with null is held."""
        self._array_ahead = False
        if token == _NULL:
            self._begin_hold(_ARRAY)
        else:
            self._start_container(_ARRAY)
        self.token(token)

    def _start_container(self, token: tokens.Token) -> None:
        parent, is_list = self._open[-1], token[0] == tokens.ARRAY
        if len(self._open) == 1:
            self._raw = []
            self._raw_writer = tokens.Writer()
        container = _Container(parent.part, is_list, parent.part_path, len(self._raw), len(self._notes))
        self._ready.append(self._begin_part() + ("[" if is_list else "{"))
        self._open.append(container)
        self._write_raw(token)

    def _end_container(self, token: tokens.Token) -> None:
        if len(self._open) == 1:
            return  # the arguments are complete; `settle` closes them
        container = self._open[-1]
        if container.waits:
            self._send_waiting(container)
        self._write_raw(token)
        self._ready.append("]" if container.is_list else "}")
        self._open.pop()
        if len(self._open) == 1 and self._root.key in self._written:
            self._written[self._root.key] = _decode("".join(self._raw))

    def _send_waiting(self, container: _Container) -> None:
        """Coerce an object inside the arguments as a whole, and emit the properties that had to wait."""
        raw = "".join(self._raw[container.raw_start :])
        value: JSONObject = {**_decode(raw.removeprefix(",") + "}"), **container.changed}
        whole: JSONObject  # it stays an object, or it would not be streamed
        whole, notes = self._coerce_part(container.schema, value, container.path)
        known = set(self._notes[container.notes_start :])
        self._notes += [note for note in self._with_lost_spelling(notes) if note not in known]
        self._written.setdefault(self._root.key, value)
        for key, each in whole.items():
            if key not in container.sent:
                container.key = key
                self._ready.append(self._begin_part() + to_json(each))

    def abandon(self) -> None:
        """Give up on the arguments. Close what has been emitted, so that the fragments still form one object."""
        if self._live:
            self._ready.append('"')
        self._ready += ["]" if container.is_list else "}" for container in self._open[:0:-1]]
        self._ready.append("}" if self._root.size else "{}")

    def settle(self) -> FinalArguments:
        """Complete the arguments: coerce what was held and validate the result."""
        self._work.refund(self._charged)  # only the whole counts in the end
        settled = self._settle()
        if self._surplus and not settled.problems:
            settled = msgspec.structs.replace(settled, problems=(f"{self._surplus} positional arguments too many",))
        self._schema.charge(settled.value, self._work)
        if settled.problems:
            self._work.count_problem()
        return settled

    def _settle(self) -> FinalArguments:
        if self._whole is not None:
            return FinalArguments(self._whole, (), ())
        if not self._open:
            return self._settle_root()
        later = self._resolve_positions()
        if not self._schema.piecewise:
            return self._settle_whole(later)
        sent: JSONObject = _decode("".join([*self._all, *self._ready, "}"])) if self._root.size else {}
        written = {**sent, **self._written, **later} if self._written or later else None
        problems = self._send_rest(sent, later) if later or not sent else self._problems(sent)
        self._ready.append("}")
        return FinalArguments(sent, tuple(self._notes), problems, written)

    def _problems(self, value: JSONObject) -> tuple[str, ...]:
        return self._schema.problems(value, work=self._work)

    def _send_rest(self, sent: JSONObject, later: JSONObject) -> tuple[str, ...]:
        """Coerce all arguments, emit the remaining ones, add them to `sent`, and return the problems of the result."""
        coerced = self._schema.coerce({**sent, **later}, self._parse_text, self._work)
        self._notes.extend(self._with_lost_spelling(coerced.notes, self._whole_text or "0"))
        whole = coerced.value if is_object(coerced.value) else {}
        if not sent:
            self._ready.append("{")
        for key, value in whole.items():
            if key in sent:
                continue
            comma = "," if sent else ""
            sent[key] = value
            self._ready.append(f'{comma}"{escape_text(key)}":{to_json(value)}')
        is_final = not self._root.size and whole is coerced.value  # exactly the coerced value is emitted
        return coerced.problems if is_final else self._problems(sent)

    def _resolve_positions(self) -> JSONObject:
        """Return the properties that had to wait, with positional values under their names in the schema."""
        only = self._places.get("#0")
        if is_object(only) and len(self._places) == 1 and not self._later:
            return only
        later = self._later
        names = [name for name in self._schema.names if name not in self._root.sent and name not in later]
        for name, value in zip(names, self._places.values(), strict=False):
            self._notes.append(Note("positional_argument", name))
            later[name] = value
        self._surplus = max(0, len(self._places) - len(names))
        return later

    def _settle_root(self) -> FinalArguments:
        value: JSONValue = _decode(self._whole_text) if self._whole_text else {}
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
        coerced = self._schema.coerce(value, self._parse_text, self._work)
        self._notes.extend(self._with_lost_spelling(coerced.notes, self._whole_text or "0"))
        problems = coerced.problems
        if not is_object(coerced.value):
            problems = problems or ("the arguments are not an object",)
            self._ready.append("{}")
        else:
            self._ready.append(to_json(coerced.value))
        return FinalArguments(coerced.value, tuple(self._notes), problems, value if coerced.notes else None)
