"""Arguments that a model wrote almost right, changed so that they fit; and what is wrong with those that do not.

Every change is one row of `RULES`, or the renaming and dropping of a key, and leaves a note. The laws: a value
that is valid is never touched; aligning twice changes nothing more; nothing raises; the work is bounded. Above
sits `schema`, whose `Subschema` (imported for its type only) answers every question about the schema; below is
only the model. Nothing here reads JSON schema keywords.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeGuard

import msgspec

from .model import JSONObject, JSONValue, Note

if TYPE_CHECKING:
    from .schema import Subschema

__all__ = ["ParseText", "align", "explain", "fault", "strict_json"]

#: Reads the JSON in a string: a value, or `ValueError`.
ParseText: TypeAlias = Callable[[str], JSONValue]
Path: TypeAlias = tuple[str | int, ...]

#: Deepest nesting of arguments and of schemas, so that recursion stays far from Python's own limit.
MAX_DEPTH = 64
#: Most values in one set of arguments: what 1 MiB of JSON can hold.
MAX_VALUES = 600_000
#: Largest integer, in bits: about what a double can reach, and far below what makes decimal conversion slow.
MAX_INTEGER_BITS = 1024
#: Longest text read as a number; a double needs at most 24 characters, a UUID as an integer 39.
MAX_NUMBER_CHARS = 64
#: Largest integer that a double holds exactly (RFC 8259, section 6).
MAX_EXACT = 2**53
#: Most schemas entered on the way to one value: a reference, an alternative and its target on each level.
MAX_STEPS = 4 * MAX_DEPTH
#: Most schemas tried one inside the other on the same value. A reference to an alternative takes three.
MAX_CHAIN = 32
#: Schemas that one pass may try: so many in all, and so many for each value. A try takes about 30 microseconds.
#: Only alternatives that nest and all fail come near.
MAX_TRIES = 5_000
MAX_TRIES_PER_VALUE = 32
#: Looking at so many values costs as much as one try.
VALUES_PER_TRY = 64
#: A text of this many characters counts as one value more.
CHARS_PER_VALUE = 1024
#: Passes until nothing changes any more. Two are the rule; what needs more is not a small mistake.
MAX_PASSES = 4
#: Longest path and longest list of options in a sentence.
MAX_PATH_CHARS = 120
MAX_OPTIONS_CHARS = 200

_KINDS: tuple[tuple[type, str], ...] = (
    (type(None), "null"),
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
_NULL = frozenset({"null"})
_NUMERIC = frozenset({"integer", "number"})
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
#: Names by which XML and its imitations wrap a single item.
_WRAPPERS = frozenset({"item", "element", "value", "entry"})
_IGNORED_IN_OPTIONS = str.maketrans("", "", " \t\r\n_-")
_IGNORED_IN_KEYS = str.maketrans("", "", "_-")


# ------------------------------------------------------------------------------------------------ values


def is_object(value: JSONValue) -> TypeGuard[JSONObject]:
    return isinstance(value, dict)


def is_array(value: JSONValue) -> TypeGuard[list[JSONValue]]:
    return isinstance(value, list)


def type_name(value: JSONValue) -> str:
    """The JSON type of a value that `fault` found nothing wrong with."""
    return next(name for kind, name in _KINDS if isinstance(value, kind))


def fold(text: str) -> str:
    """A text without what people vary in the spelling of an option. A leading sign is not spelling."""
    text = text.strip().casefold()
    return text[:1] + text[1:].translate(_IGNORED_IN_OPTIONS)


def fold_key(key: str) -> str:
    """A key without what people vary in its spelling."""
    return key.casefold().translate(_IGNORED_IN_KEYS)


def json_text(value: JSONValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def strict_json(text: str) -> JSONValue:
    """The value of a JSON text; raises `ValueError` for anything else."""
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def fault(value: JSONValue) -> str:
    """Why a value cannot be judged at all: not JSON, too deep, too much. Empty: it can."""
    stack: list[tuple[JSONValue, int]] = [(value, 1)]
    count = 0
    while stack:
        item, depth = stack.pop()
        count += 1
        if count > MAX_VALUES:
            return f"`arguments` hold more than {MAX_VALUES} values"
        if type(item) is str and item.isascii():  # most values are
            continue
        if depth > MAX_DEPTH and isinstance(item, dict | list):
            return f"`arguments` are nested deeper than {MAX_DEPTH} levels"
        if is_object(item):
            keys: list[JSONValue] = [*item]
            if not all(isinstance(key, str) for key in keys):
                return "`arguments` hold a key that is not a string"
            stack += [(each, depth + 1) for each in (*keys, *item.values())]
        elif is_array(item):
            stack += [(each, depth + 1) for each in item]
        elif trouble := _scalar_fault(item):
            return f"`arguments` hold {trouble}"
    return ""


def _scalar_fault(value: JSONValue) -> str:
    match value:
        case str():
            return "" if _is_unicode(value) else "half of a surrogate pair"
        case bool() | None:
            return ""
        case int():
            return "a number that is too large" if value.bit_length() > MAX_INTEGER_BITS else ""
        case float():
            return "" if math.isfinite(value) else "a number that is not finite"
        case _:
            return f"a `{type(value).__name__}`, which is not JSON"


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _weight(value: JSONValue) -> int:
    """How much work a look at the whole value is."""
    total = 0
    stack = [value]
    while stack:
        item = stack.pop()
        total += 1
        if is_object(item):
            stack += item.values()
        elif is_array(item):
            stack += item
        elif isinstance(item, str):
            total += len(item) // CHARS_PER_VALUE
    return total


def _suits(value: JSONValue, wanted: frozenset[str]) -> bool:
    name = type_name(value)
    return name in wanted or (name == "integer" and "number" in wanted)


def _named(path: Path) -> str:
    """A path in backticks, such as `a.b[0]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    text = text.replace("`", "'") or "arguments"
    return f"`{text}`" if len(text) <= MAX_PATH_CHARS else f"`{text[:MAX_PATH_CHARS]}…`"


# ------------------------------------------------------------------------------------------------- rules


class Case(NamedTuple):
    """A value that does not fit, and what is wanted in its place."""

    value: JSONValue
    node: Subschema
    #: The types wanted, at least one.
    wanted: frozenset[str]
    root: bool
    parse: ParseText

    @property
    def text(self) -> str | None:
        """The value if it is a string where no string is wanted."""
        return self.value if isinstance(self.value, str) and "string" not in self.wanted else None


def _null_arguments(case: Case) -> Iterator[JSONValue]:
    missing = case.value is None or (isinstance(case.value, str) and not case.value.strip())
    if case.root and missing and "object" in case.wanted:
        yield {}


def _string_to_null(case: Case) -> Iterator[JSONValue]:
    if case.text is not None and "null" in case.wanted and case.text.strip() in ("null", "None"):
        yield None


def _string_to_boolean(case: Case) -> Iterator[JSONValue]:
    if case.text is not None and "boolean" in case.wanted:
        word = case.text.strip().casefold()
        yield from (_BOOLEANS[word],) if word in _BOOLEANS else ()


def _string_to_number(case: Case) -> Iterator[JSONValue]:
    if case.text is not None and case.wanted & _NUMERIC:
        number = _number(case.text, whole="number" not in case.wanted)
        yield from () if number is None else (number,)


def _number(text: str, *, whole: bool) -> int | float | None:
    text = text.strip()
    if len(text) > MAX_NUMBER_CHARS or not _NUMBER.fullmatch(text):
        return None
    if text.lstrip("+-").isdecimal():
        return int(text)
    number = float(text)
    if not whole:
        return number if math.isfinite(number) else None
    return int(number) if number.is_integer() and abs(number) <= MAX_EXACT else None


def _integral_float(case: Case) -> Iterator[JSONValue]:
    whole = isinstance(case.value, float) and case.value.is_integer() and abs(case.value) <= MAX_EXACT
    if whole and "integer" in case.wanted and "number" not in case.wanted:
        yield int(case.value)


def _json_in_string(case: Case) -> Iterator[JSONValue]:
    if case.text is None or not case.wanted & {"object", "array"} or case.text.lstrip()[:1] not in ("{", "[", '"'):
        return
    try:
        parsed = case.parse(case.text)
    except ValueError:
        return
    if isinstance(parsed, dict | list | str) and parsed != case.text and not fault(parsed):
        yield parsed


def _enum_case(case: Case) -> Iterator[JSONValue]:
    if isinstance(case.value, str):
        meant = case.node.choices.get(fold(case.value), [])
        yield from meant if len(meant) == 1 and meant[0] != case.value else ()


def _number_to_string(case: Case) -> Iterator[JSONValue]:
    if isinstance(case.value, int | float) and "string" in case.wanted and not _suits(case.value, case.wanted):
        yield json_text(case.value)


def _array_of_one(case: Case) -> Iterator[JSONValue]:
    if is_array(case.value) and len(case.value) == 1 and "array" not in case.wanted:
        yield case.value[0]


def _indexed_object(case: Case) -> Iterator[JSONValue]:
    if not is_object(case.value) or not case.value or "object" in case.wanted:
        return
    key, inner = next(iter(case.value.items()))
    alone = len(case.value) == 1
    if "array" not in case.wanted:
        yield from (inner,) if alone and key in _WRAPPERS else ()
        return
    indices = [str(index) for index in range(len(case.value))]
    if case.value.keys() == set(indices):
        yield [case.value[index] for index in indices]
    if alone and is_array(inner):
        yield inner
    if alone and key in _WRAPPERS:
        yield [inner]


def _text_to_array(case: Case) -> Iterator[JSONValue]:
    if case.text is None or "array" not in case.wanted:
        return
    lines = [line.strip() for line in case.text.splitlines() if line.strip()]
    if not lines:
        yield []
        return
    item = case.node.item(0)
    kinds = item.wanted if item else frozenset[str]()
    if kinds and "string" not in kinds:
        parts = case.text.split(",")
        if len(lines) > 1:
            yield lines
        elif kinds & _NUMERIC and len(parts) > 1 and all(_number(part, whole=False) is not None for part in parts):
            yield parts
    yield [case.text]


def _single_to_array(case: Case) -> Iterator[JSONValue]:
    if "array" in case.wanted and not isinstance(case.value, str | None) and not _suits(case.value, case.wanted):
        yield [case.value]


class Rule(NamedTuple):
    """One way to read a value. A `sure` one stands even where the value then breaks some other keyword."""

    code: str
    what: str
    propose: Callable[[Case], Iterator[JSONValue]]
    sure: bool = False


#: In the order they are tried: the first proposal that makes the value valid wins.
RULES = (
    Rule("null_arguments", "nothing was read as no arguments", _null_arguments),
    Rule("string_to_null", "a string was read as null", _string_to_null, sure=True),
    Rule("string_to_boolean", "a string was read as a boolean", _string_to_boolean, sure=True),
    Rule("string_to_number", "a string was read as a number", _string_to_number, sure=True),
    Rule("integral_float", "a whole number lost its fraction", _integral_float, sure=True),
    Rule("json_in_string", "JSON in a string was read", _json_in_string, sure=True),
    Rule("enum_case", "an option was spelled as the schema has it", _enum_case),
    Rule("number_to_string", "a number or boolean was read as a string", _number_to_string, sure=True),
    Rule("array_of_one", "the only item stands for its array", _array_of_one),
    Rule("indexed_object", "an object that wraps items was read as the items", _indexed_object),
    Rule("text_to_array", "a text was read as an array", _text_to_array),
    Rule("single_to_array", "a single value was put into an array", _single_to_array),
)


# ------------------------------------------------------------------------------------------------ aligning


def align(
    nodes: Sequence[Subschema], value: JSONValue, parse: ParseText, path: Path
) -> tuple[JSONValue, tuple[Note, ...]]:
    """The value as it fits all schemas best, with what was done. One that finds no rest comes back as it was."""
    current, notes = value, list[Note]()
    for _ in range(MAX_PASSES):
        if fault(current):
            break
        aligner = _Aligner(current, parse)
        try:
            for node in nodes:
                current = aligner.fit(node, current, _At(path, node, 0, frozenset()))
        except (_TooMuchWork, RecursionError):
            break
        if not aligner.notes:
            return current, tuple(notes)
        notes += aligner.notes
    return value, ()


class _TooMuchWork(Exception):
    """Alternatives inside alternatives: the arguments are left alone."""


class _At(NamedTuple):
    """Where a value stands."""

    path: Path
    #: The first schema for this value: a key that it declares anywhere is not dropped by one of its parts.
    entry: Subschema
    steps: int
    #: Pointers of the schemas being tried on this very value, so that a cycle of references ends.
    trying: frozenset[str]

    def blocks(self, node: Subschema) -> bool:
        return node.pointer in self.trying or len(self.trying) > MAX_CHAIN or self.steps > MAX_STEPS

    def trying_too(self, node: Subschema) -> _At:
        return self._replace(steps=self.steps + 1, trying=self.trying | {node.pointer})

    def inside(self, step: str | int, node: Subschema) -> _At:
        return _At((*self.path, step), node, self.steps, frozenset())


class _Aligner:
    """One pass over the arguments."""

    def __init__(self, value: JSONValue, parse: ParseText) -> None:
        self.notes: list[Note] = []
        self._parse = parse
        self._tries_left = MAX_TRIES + MAX_TRIES_PER_VALUE * _weight(value)

    def fit(self, node: Subschema, value: JSONValue, at: _At) -> JSONValue:
        """The value, aligned to a schema as far as possible."""
        if node.accepts(value) or at.blocks(node):
            return value
        self._tries_left -= 1 + _weight(value) // VALUES_PER_TRY
        if self._tries_left < 0:
            raise _TooMuchWork
        at = at.trying_too(node)
        for stage in (self._members, self._rewrite, self._contents, self._branches):
            fitted = stage(node, value, at)
            if fitted is not value and node.accepts(fitted):
                return fitted
            value = fitted
        return value

    def _note(self, code: str, path: Path, what: str) -> None:
        self.notes.append(Note(code, f"{_named(path)}: {what}"))

    def _members(self, node: Subschema, value: JSONValue, at: _At) -> JSONValue:
        for member in node.members:
            value = self.fit(member, value, at)
        return value

    def _rewrite(self, node: Subschema, value: JSONValue, at: _At) -> JSONValue:
        """The first proposal that is valid, else the first sure one, else the value."""
        if not node.types:
            return value
        case = Case(value, node, node.types, not at.path, self._parse)
        second_best: tuple[JSONValue, list[Note]] = (value, [])
        mark = len(self.notes)
        for rule in RULES:
            for proposal in rule.propose(case):
                self._note(rule.code, at.path, rule.what)
                fitted = self.fit(node, proposal, at._replace(trying=frozenset()))
                if node.accepts(fitted):
                    return fitted
                tail, self.notes[mark:] = self.notes[mark:], []
                if rule.sure and not second_best[1] and _suits(fitted, case.wanted):
                    second_best = fitted, tail
        self.notes += second_best[1]
        return second_best[0]

    def _branches(self, node: Subschema, value: JSONValue, at: _At) -> JSONValue:
        """The value as the first alternative that makes it valid has it.

        Keys that another alternative declares are dropped only where that leaves exactly one alternative. A
        lone alternative beside null is aligned in part where nothing makes it valid.
        """
        mark = len(self.notes)
        for branch in node.branches:
            fitted = self.fit(branch, value, at)
            if node.accepts(fitted):
                return fitted
            del self.notes[mark:]
        fitting: list[Subschema] = []
        for branch in node.branches:
            if node.accepts(self.fit(branch, value, at._replace(entry=branch))):
                fitting.append(branch)
            del self.notes[mark:]
        chosen = fitting or [branch for branch in node.branches if branch.wanted != _NULL]
        return self.fit(chosen[0], value, at._replace(entry=chosen[0])) if len(chosen) == 1 else value

    def _contents(self, node: Subschema, value: JSONValue, at: _At) -> JSONValue:
        if is_object(value):
            return self._object(node, value, at)
        if not is_array(value):
            return value
        result: list[JSONValue] = []
        for index, each in enumerate(value):
            item = node.item(index)
            result.append(each if item is None else self.fit(item, each, at.inside(index, item)))
        return result

    def _object(self, node: Subschema, value: JSONObject, at: _At) -> JSONObject:
        meant = _meant_keys(node, value, at.entry)
        result: JSONObject = {}
        for key, item in value.items():
            if name := meant.get(key):
                self._note("key_spelling", (*at.path, key), f"the key was read as {_named((name,))}")
                key = name
            elif key not in meant and node.forbids(key) and not at.entry.declares(key):
                self._note("unknown_dropped", (*at.path, key), "the schema does not allow this key, it was dropped")
                continue
            for slot in node.slots(key):
                item = self.fit(slot, item, at.inside(key, slot))
            result[key] = item
        return result


def _meant_keys(node: Subschema, value: JSONObject, entry: Subschema) -> dict[str, str]:
    """Unknown keys and the missing property that each means; empty text where that is not clear."""
    missing: dict[str, list[str]] = {}
    for name in node.table("properties"):
        if name not in value and name in node.names:
            missing.setdefault(fold_key(name), []).append(name)
    claims: dict[str, list[str]] = {}
    for key in value:
        names = missing.get(fold_key(key), ())
        if names and not entry.declares(key) and (node.forbids(key) or not node.required.isdisjoint(names)):
            claims.setdefault(fold_key(key), []).append(key)
    return {
        key: missing[folded][0] if len(keys) == len(missing[folded]) == 1 else ""
        for folded, keys in claims.items()
        for key in keys
    }


# ---------------------------------------------------------------------------------------------- explaining


def explain(nodes: Sequence[Subschema], value: JSONValue, path: Path) -> Iterator[str]:
    """What is wrong, one sentence at a time; nothing if the value is valid by all schemas."""
    explainer = _Explainer()
    starts = ((node, _At(path, node, 0, frozenset())) for node in nodes)
    reasons = chain.from_iterable(explainer.explain(node, value, at) for node, at in starts)
    first = next(reasons, None)
    if first is not None or not all(node.accepts(value) for node in nodes):
        yield first or _no_fit(path)
    yield from reasons


class _Explainer:
    """Goes down to where a value stops fitting. Looks at no value twice by the same schema, so it is linear."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, Path]] = set()
        self._repeats = 0

    def explain(self, node: Subschema, value: JSONValue, at: _At) -> Iterator[str]:
        if node.accepts(value):
            return
        if (node.pointer, at.path) in self._seen:
            self._repeats += 1
        elif not at.blocks(node):
            self._seen.add((node.pointer, at.path))
            yield from self._reasons(node, value, at.trying_too(node))

    def _reasons(self, node: Subschema, value: JSONValue, at: _At) -> Iterator[str]:
        repeats = self._repeats
        inner = self._object(node, value, at) if is_object(value) else self._array(node, value, at)
        reasons = chain(_own_reasons(node, value, at.path), self._in_place(node, value, at), inner)
        first = next(reasons, None)
        if first is not None or self._repeats == repeats:  # else it has been said elsewhere
            yield first or _no_fit(at.path)
        yield from reasons

    def _in_place(self, node: Subschema, value: JSONValue, at: _At) -> Iterator[str]:
        for member in node.members:
            yield from self.explain(member, value, at)
        if node.branches and not any(branch.accepts(value) for branch in node.branches):
            likely = [branch for branch in node.branches if _suits(value, branch.wanted)]
            if len(likely) == 1:
                yield from self.explain(likely[0], value, at)
            elif node.wanted and not likely:
                yield _wrong_type(node.wanted, value, at.path)
            else:
                yield f"{_named(at.path)} fits none of the {len(node.branches)} allowed forms"

    def _object(self, node: Subschema, value: JSONObject, at: _At) -> Iterator[str]:
        for name in sorted(node.required - value.keys()):
            yield f"{_named((*at.path, name))} is required"
        for key, item in value.items():
            if node.forbids(key):
                yield f"{_named((*at.path, key))} is not allowed"
                continue
            for slot in node.slots(key):
                yield from self.explain(slot, item, at.inside(key, slot))

    def _array(self, node: Subschema, value: JSONValue, at: _At) -> Iterator[str]:
        for index, each in enumerate(value if is_array(value) else ()):
            item = node.item(index)
            if item is not None:
                yield from self.explain(item, each, at.inside(index, item))


def _own_reasons(node: Subschema, value: JSONValue, path: Path) -> Iterator[str]:
    """What the schema's own simple keywords say against the value."""
    if node.options:
        options = ", ".join(json_text(option) for option in node.options[:MAX_OPTIONS_CHARS])
        options = options if len(options) <= MAX_OPTIONS_CHARS else f"{options[:MAX_OPTIONS_CHARS]}…"
        if value not in node.options:
            yield f"{_named(path)} must be {'one of ' if len(node.options) > 1 else ''}{options}"
    elif node.types and not _suits(value, node.types):
        yield _wrong_type(node.types, value, path)
    for keyword in node.broken(value):
        yield f"{_named(path)} breaks {keyword}"


def _wrong_type(wanted: frozenset[str], value: JSONValue, path: Path) -> str:
    return f"{_named(path)} must be {' or '.join(sorted(wanted))}, not {type_name(value)}"


def _no_fit(path: Path) -> str:
    return f"{_named(path)} does not fit its schema"
