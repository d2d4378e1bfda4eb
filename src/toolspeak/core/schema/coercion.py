"""Coercion: the smallest changes that make almost valid arguments match their schema.

Every change applies one row of `RULES`, renames a key or drops one, and leaves a note. A valid value is never changed.
A second coercion changes nothing more. Nothing raises, and the work is bounded. JSON schema keywords are not read here.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..types import JSONObject, JSONValue, Note, is_array, is_object
from .json_values import ParseText, Path, fold, fold_key, has_type, json_text, path_text, unusable_reason, weight
from .subschema import Subschema, ValuePosition
from .work_limit import WorkLimit

#: Number of schemas that one pass may try: `MAX_TRIES`, plus `MAX_TRIES_PER_VALUE` for each value. A try takes about 30
#: microseconds. Only nested alternatives that all fail come near the limit.
MAX_TRIES = 5_000
MAX_TRIES_PER_VALUE = 32
#: Number of checks of the validator that cost as much as one try.
CHECKS_PER_TRY = 640
#: Maximum number of passes until nothing changes. Two usually suffice; arguments that need more are not almost valid.
MAX_PASSES = 4

#: Longest text that is read as a number. A double needs at most 24 characters, a UUID as an integer 39.
MAX_NUMBER_CHARS = 64
#: Limit up to which a double represents every integer exactly (RFC 8259, section 6).
MAX_EXACT = 2**53

_NUMERIC = frozenset({"integer", "number"})
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False}
#: Names of XML-style elements that wrap a single item.
_WRAPPERS = frozenset({"item", "element", "value", "entry"})
_NULL = frozenset({"null"})


class Mismatch(NamedTuple):
    """A value that does not match its schema."""

    value: JSONValue
    node: Subschema
    #: The JSON types that the schema allows; never empty.
    types: frozenset[str]
    path: Path
    parse: ParseText

    @property
    def text(self) -> str | None:
        """The value, if it is a string although the schema allows no string."""
        return self.value if isinstance(self.value, str) and "string" not in self.types else None


def _null_arguments(case: Mismatch) -> Iterator[JSONValue]:
    missing = case.value in (None, []) or (isinstance(case.value, str) and not case.value.strip())
    if not case.path and missing and "object" in case.types:
        yield {}


def _string_to_null(case: Mismatch) -> Iterator[JSONValue]:
    if case.text is not None and "null" in case.types and case.text.strip() in ("null", "None"):
        yield None


def _string_to_boolean(case: Mismatch) -> Iterator[JSONValue]:
    if case.text is not None and "boolean" in case.types:
        word = case.text.strip().casefold()
        yield from (_BOOLEANS[word],) if word in _BOOLEANS else ()


def _string_to_number(case: Mismatch) -> Iterator[JSONValue]:
    if case.text is not None and case.types & _NUMERIC:
        number = _number(case.text, whole="number" not in case.types)
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


def _integral_float(case: Mismatch) -> Iterator[JSONValue]:
    whole = isinstance(case.value, float) and case.value.is_integer() and abs(case.value) <= MAX_EXACT
    if whole and "integer" in case.types and "number" not in case.types:
        yield int(case.value)


def _json_in_string(case: Mismatch) -> Iterator[JSONValue]:
    if case.text is None or not case.types & {"object", "array"} or case.text.lstrip()[:1] not in ("{", "[", '"'):
        return
    try:
        parsed = case.parse(case.text)
    except ValueError:
        return
    if isinstance(parsed, dict | list | str) and parsed != case.text and not unusable_reason(parsed):
        yield parsed


def _enum_case(case: Mismatch) -> Iterator[JSONValue]:
    if isinstance(case.value, str):
        options = case.node.choices.get(fold(case.value), [])
        yield from options if len(options) == 1 and options[0] != case.value else ()


def _number_to_string(case: Mismatch) -> Iterator[JSONValue]:
    if isinstance(case.value, int | float) and "string" in case.types and not has_type(case.value, case.types):
        yield json_text(case.value)


def _array_of_one(case: Mismatch) -> Iterator[JSONValue]:
    if is_array(case.value) and len(case.value) == 1 and "array" not in case.types:
        yield case.value[0]


def _indexed_object(case: Mismatch) -> Iterator[JSONValue]:
    if not is_object(case.value) or not case.value or "object" in case.types:
        return
    key, inner = next(iter(case.value.items()))
    alone = len(case.value) == 1
    if "array" not in case.types:
        yield from (inner,) if alone and key in _WRAPPERS else ()
        return
    indices = [str(index) for index in range(len(case.value))]
    if case.value.keys() == set(indices):
        yield [case.value[index] for index in indices]
    if alone and is_array(inner):
        yield inner
    if alone and key in _WRAPPERS:
        yield [inner]


def _object_to_string(case: Mismatch) -> Iterator[JSONValue]:
    is_property = bool(case.path) and isinstance(case.path[-1], str)
    if is_property and is_object(case.value) and case.value and case.types.isdisjoint(("object", "array")):
        yield from (json_text(case.value),) if "string" in case.types else ()


def _text_to_array(case: Mismatch) -> Iterator[JSONValue]:
    if case.text is None or "array" not in case.types:
        return
    lines = [line.strip() for line in case.text.splitlines() if line.strip()]
    if not lines:
        yield []
        return
    item = case.node.item(0)
    kinds = item.allowed_types if item else frozenset[str]()
    if kinds and "string" not in kinds:
        parts = case.text.split(",")
        if len(lines) > 1:
            yield lines
        elif kinds & _NUMERIC and len(parts) > 1 and all(_number(part, whole=False) is not None for part in parts):
            yield parts
    yield [case.text]


def _single_to_array(case: Mismatch) -> Iterator[JSONValue]:
    if "array" in case.types and not isinstance(case.value, str | None) and not has_type(case.value, case.types):
        yield [case.value]


class CoercionRule(NamedTuple):
    """One way to coerce a value. A `sure` rule is used even if the result still violates another keyword."""

    code: str
    what: str
    propose: Callable[[Mismatch], Iterator[JSONValue]]
    sure: bool = False


#: Rules in the order in which they are tried. The first proposal that makes the value valid wins.
RULES = (
    CoercionRule("null_arguments", "null or an empty value was treated as empty arguments", _null_arguments),
    CoercionRule("string_to_null", "a string was converted to null", _string_to_null, sure=True),
    CoercionRule("string_to_boolean", "a string was converted to a boolean", _string_to_boolean, sure=True),
    CoercionRule("string_to_number", "a string was converted to a number", _string_to_number, sure=True),
    CoercionRule("integral_float", "a whole-number float was converted to an integer", _integral_float, sure=True),
    CoercionRule("json_in_string", "JSON inside a string was parsed", _json_in_string, sure=True),
    CoercionRule("enum_case", "the spelling of an option was corrected", _enum_case),
    CoercionRule("number_to_string", "a number or boolean was converted to a string", _number_to_string, sure=True),
    CoercionRule("array_of_one", "an array with one item was replaced by the item", _array_of_one),
    CoercionRule("indexed_object", "an object around items was replaced by the items", _indexed_object),
    CoercionRule("object_to_string", "an object was written as JSON text", _object_to_string),
    CoercionRule("text_to_array", "a text was converted to an array", _text_to_array),
    CoercionRule("single_to_array", "a single value was wrapped in an array", _single_to_array),
)


def coerce(
    nodes: Sequence[Subschema],
    value: JSONValue,
    parse: ParseText,
    path: Path,
    tries: int = MAX_TRIES,
    work: WorkLimit | None = None,
) -> tuple[JSONValue, tuple[Note, ...]]:
    """Coerce a value to all schemas and return it with notes. It stays unchanged if the passes do not converge.

    `tries` replaces `MAX_TRIES`.
    """
    current, notes = value, list[Note]()
    for _ in range(MAX_PASSES):
        if unusable_reason(current):
            break
        coercer = _Coercer(current, parse, tries, work)
        try:
            for node in nodes:
                current = coercer.fit(node, current, ValuePosition(path, node, 0, frozenset()))
        except (_TooMuchWork, RecursionError):
            break
        if not coercer.notes:
            return current, tuple(notes)
        notes += coercer.notes
    return value, ()


class _TooMuchWork(Exception):
    """Raised when nested alternatives take too many tries. The arguments then stay unchanged."""


class _Coercer:
    """One coercion pass over the arguments."""

    def __init__(self, value: JSONValue, parse: ParseText, tries: int, work: WorkLimit | None) -> None:
        self.notes: list[Note] = []
        self._parse = parse
        self._work = work
        self._tries_left = tries + MAX_TRIES_PER_VALUE * weight(value)

    def fit(self, node: Subschema, value: JSONValue, at: ValuePosition) -> JSONValue:
        """Coerce the value to a schema as far as possible."""
        if node.accepts(value) or at.blocks(node):
            return value
        cost = 1 + weight(value) * node.effort // CHECKS_PER_TRY
        self._tries_left -= cost
        if self._tries_left < 0 or (self._work is not None and not self._work.spend(cost)):
            raise _TooMuchWork
        at = at.entering(node)
        for stage in (self._members, self._rewrite, self._contents, self._branches):
            fitted = stage(node, value, at)
            if fitted is not value and node.accepts(fitted):
                return fitted
            value = fitted
        return value

    def _note(self, code: str, path: Path, what: str) -> None:
        self.notes.append(Note(code, f"{path_text(path)}: {what}"))

    def _members(self, node: Subschema, value: JSONValue, at: ValuePosition) -> JSONValue:
        for member in node.members:
            value = self.fit(member, value, at)
        return value

    def _rewrite(self, node: Subschema, value: JSONValue, at: ValuePosition) -> JSONValue:
        """Return the first valid proposal, otherwise the first proposal of a sure rule, otherwise the value."""
        if not node.own_types:
            return value
        case = Mismatch(value, node, node.own_types, at.path, self._parse)
        second_best: tuple[JSONValue, list[Note]] = (value, [])
        mark = len(self.notes)
        for rule in RULES:
            for proposal in rule.propose(case):
                self._note(rule.code, at.path, rule.what)
                fitted = self.fit(node, proposal, at._replace(trying=frozenset()))
                if node.accepts(fitted):
                    return fitted
                tail, self.notes[mark:] = self.notes[mark:], []
                if rule.sure and not second_best[1] and has_type(fitted, case.types):
                    second_best = fitted, tail
        self.notes += second_best[1]
        return second_best[0]

    def _branches(self, node: Subschema, value: JSONValue, at: ValuePosition) -> JSONValue:
        """Coerce the value to the first alternative that makes it valid, those with its own type first.

        Keys that another alternative declares are dropped only if that leaves exactly one alternative. If nothing
        makes the value valid, it is partially coerced, provided that there is only one alternative other than null.
        """
        mark = len(self.notes)
        for branch in sorted(node.branches, key=lambda branch: not has_type(value, branch.allowed_types)):
            fitted = self.fit(branch, value, at)
            if node.accepts(fitted):
                return fitted
            del self.notes[mark:]
        fitting: list[Subschema] = []
        for branch in node.branches:
            if node.accepts(self.fit(branch, value, at._replace(entry=branch))):
                fitting.append(branch)
            del self.notes[mark:]
        chosen = fitting or [branch for branch in node.branches if branch.allowed_types != _NULL]
        return self.fit(chosen[0], value, at._replace(entry=chosen[0])) if len(chosen) == 1 else value

    def _contents(self, node: Subschema, value: JSONValue, at: ValuePosition) -> JSONValue:
        if is_object(value):
            return self._object(node, value, at)
        if not is_array(value):
            return value
        result: list[JSONValue] = []
        for index, each in enumerate(value):
            item = node.item(index)
            result.append(each if item is None else self.fit(item, each, at.inside(index, item)))
        return result

    def _object(self, node: Subschema, value: JSONObject, at: ValuePosition) -> JSONObject:
        names = _intended_names(node, value, at.entry)
        result: JSONObject = {}
        for key, item in value.items():
            if name := names.get(key):
                self._note("key_spelling", (*at.path, key), f"the key was renamed to {path_text((name,))}")
                key = name
            elif key not in names and node.forbids(key) and not at.entry.declares(key):
                self._note("unknown_dropped", (*at.path, key), "dropped, because the schema does not allow this key")
                continue
            if item is None and node.bars_null(key) and not at.entry.requires(key):
                self.notes.append(null_dropped((*at.path, key)))
                continue
            for slot in node.slots(key):
                item = self.fit(slot, item, at.inside(key, slot))
            result[key] = item
        return result


def null_dropped(path: Path) -> Note:
    """Return the note for an optional property that was dropped because it was null."""
    return Note("null_dropped", f"{path_text(path)}: the optional key was dropped because it must not be null")


def _intended_names(node: Subschema, value: JSONObject, entry: Subschema) -> dict[str, str]:
    """Map unknown keys to the missing properties that they probably mean; to an empty string if that is ambiguous."""
    missing: dict[str, list[str]] = {}
    claims: dict[str, list[str]] = {}
    for key in value:
        names = [name for name in node.spellings.get(fold_key(key), ()) if name not in value]
        missing[fold_key(key)] = names
        if names and not entry.declares(key) and (node.forbids(key) or not node.required.isdisjoint(names)):
            claims.setdefault(fold_key(key), []).append(key)
    return {
        key: missing[folded][0] if len(keys) == len(missing[folded]) == 1 else ""
        for folded, keys in claims.items()
        for key in keys
    }
