"""Reduce a JSON schema to shapes, from which constraints are built.

References are resolved, `allOf` is merged and alternatives are expanded, within limits on depth, recursion and size. A
keyword that shapes cannot express is dropped with a note; arguments are later validated against the original schema.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import TypeAlias

import msgspec

from ...core.schema.argument_schema import ArgumentSchema
from ...core.schema.json_values import json_text, type_name
from ...core.types import JSONObject, JSONValue, Note, is_array, is_object

#: Longest string that a grammar allows. Models do not write that much in one answer (about 16,000 tokens), so the limit
#: only stops endless repetition. One less than 256 blocks of 256 characters; see `grammars.BLOCK`.
MAX_STRING = 65_535
#: Maximum number of array items, and of keys in an object without declared properties. Each one costs memory in the
#: inference engine. Lists in real calls have fewer than a hundred items.
MAX_ITEMS = 256
#: How often a recursive reference is expanded, in a schema and in a grammar. In a schema, deeper levels accept any
#: value. A grammar must leave them out, because small models nest endlessly, so it expands more levels. If the grammar
#: grows too large, it is built again with the lower limit.
MAX_RECURSION = 3
MAX_EXACT_RECURSION = 6
#: Maximum nesting depth of shapes. Real tools have five or six levels; each adds a stack frame in the engine.
MAX_NESTING = 24
#: Maximum size of one expanded schema, in characters. The largest tools of coding agents need about 20,000.
MAX_SCHEMA_CHARS = 128 * 1024
#: Maximum total size of the schemas in one constraint. Tools beyond this limit accept any object as arguments.
MAX_TOTAL_CHARS = 512 * 1024
#: Size of a shape in addition to its names and literals, and of a value without a schema, which expands to many shapes.
_SHAPE_CHARS = 40
_ANY_CHARS = 1_600
#: Maximum number of notes per constraint.
MAX_NOTES = 32

ANNOTATIONS = frozenset("$schema $id $comment $defs definitions title description default examples".split())
#: Keywords that no constraint flavour can express.
_LOOSENED = (
    "not if then else dependentRequired dependentSchemas dependencies uniqueItems contains minContains maxContains "
    "patternProperties propertyNames unevaluatedProperties unevaluatedItems $dynamicRef $recursiveRef"
).split()
#: Keywords that imply the type of a schema without `type`.
_HINTS = (
    ("object", ("properties", "required", "additionalProperties", "patternProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems")),
    ("string", ("pattern", "minLength", "maxLength")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
#: Keywords that enumerated values are checked against, because they never refer to other parts of the schema.
_CHECKED_KEYWORDS = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern "
    "minItems maxItems minProperties maxProperties required".split()
)
#: Keywords that may contain references, so enumerated values are not checked against them.
_UNCHECKED_KEYWORDS = "anyOf oneOf properties additionalProperties items prefixItems".split()
_FIXED_TYPES: dict[str, tuple[JSONValue, ...]] = {"boolean": (True, False), "null": (None,)}


class AnyValue(msgspec.Struct, frozen=True, tag=True):
    about: str = ""


class Fixed(msgspec.Struct, frozen=True, tag=True):
    """One of several scalars."""

    values: tuple[str | int | float | bool | None, ...]
    about: str = ""


class Text(msgspec.Struct, frozen=True, tag=True):
    """A string whose length is from `low` to `high`."""

    low: int = 0
    high: int | None = None
    pattern: str = ""
    format: str = ""
    about: str = ""


class Number(msgspec.Struct, frozen=True, tag=True):
    """A number. `low` and `high` are inclusive bounds, `above` and `below` exclusive ones."""

    integer: bool = False
    low: int | float | None = None
    high: int | float | None = None
    above: int | float | None = None
    below: int | float | None = None
    step: int | float | None = None
    about: str = ""


class Array(msgspec.Struct, frozen=True, tag=True):
    """An array: the items of `prefix`, then further `items`; `low` and `high` bound the total length."""

    items: Shape
    low: int = 0
    high: int = MAX_ITEMS
    prefix: tuple[Shape, ...] = ()
    about: str = ""


class Member(msgspec.Struct, frozen=True):
    """One property of an object."""

    name: str
    shape: Shape
    required: bool = True
    #: Name of the value in notes; if empty, its path is used.
    label: str = ""


class Object(msgspec.Struct, frozen=True, tag=True):
    """An object: the members in order, then other keys with values of shape `extra`, unless that is None."""

    members: tuple[Member, ...] = ()
    extra: Shape | None = None
    about: str = ""


class Union(msgspec.Struct, frozen=True, tag=True):
    options: tuple[Shape, ...]
    about: str = ""


Shape: TypeAlias = AnyValue | Fixed | Text | Number | Array | Object | Union

_KINDS: dict[type, str] = {Text: "string", Number: "number", Array: "array", Object: "object"}
TEXT = Text()
NULL = Fixed((None,))


class Ledger:
    """The remaining size budget of a constraint, and up to `MAX_NOTES` distinct notes."""

    def __init__(self) -> None:
        self.remaining_chars = MAX_TOTAL_CHARS
        self._notes: dict[Note, None] = {}

    def add(self, code: str, detail: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes[Note(code, detail)] = None

    def loosen(self, what: str, where: str) -> None:
        """Add a note that a keyword is not enforced by the constraint, only by validation."""
        self.add("constraint_loosened", f"`{what}` of `{where}` is only validated afterwards")

    def all(self) -> tuple[Note, ...]:
        return tuple(self._notes)

    def copy(self) -> Ledger:
        clone = Ledger()
        clone.adopt(self)
        return clone

    def adopt(self, other: Ledger) -> None:
        """Copy the state of another ledger."""
        self.remaining_chars, self._notes = other.remaining_chars, dict(other._notes)


def shape_of(schema: JSONValue, where: str, ledger: Ledger, exact: bool = False) -> Shape:
    """Return the shape of a schema; the schema `None` means any object. `where` names the value in notes.

    Recursive references are expanded a few times. Deeper levels accept any value or, with `exact`, are left out if
    possible. A schema that grows too large becomes any object. Raises `SchemaError` for an unusable schema.
    """
    schema = ArgumentSchema.of(schema).schema
    free = Object(extra=AnyValue())
    if schema is None:
        return free
    for levels in (MAX_EXACT_RECURSION, MAX_RECURSION) if exact else (MAX_RECURSION,):
        attempt = ledger.copy()
        try:
            shape = _SchemaReader(schema, attempt, levels, exact).read(schema, where, ())
        except _TooLarge:
            continue
        ledger.adopt(attempt)
        return shape
    ledger.remaining_chars -= min(ledger.remaining_chars, MAX_SCHEMA_CHARS)
    ledger.add("schema_too_large", f"`{where}` accepts any object, because its schema is too large")
    return free


def fixed(values: Iterable[JSONValue], about: str = "") -> Shape:
    """Return the shape of an enumeration, whose values may include objects and arrays."""
    scalars: list[str | int | float | bool | None] = []
    options: list[Shape] = []
    for value in values:
        if is_object(value):
            options.append(Object(tuple(Member(name, fixed((each,))) for name, each in value.items())))
        elif is_array(value):
            prefix = tuple(fixed((each,)) for each in value)
            options.append(Array(AnyValue(), len(prefix), len(prefix), prefix))
        else:
            scalars.append(value)
    if scalars:
        options.insert(0, Fixed(tuple(scalars), about))
    return options[0] if len(options) == 1 else Union(tuple(options), about)


class _TooLarge(Exception):
    """The expanded schema exceeds its size limit."""


class _SchemaReader:
    def __init__(self, document: JSONValue, ledger: Ledger, levels: int, exact: bool) -> None:
        self._document = document
        self._ledger = ledger
        self._levels = levels
        self._exact = exact
        self._floor = max(ledger.remaining_chars - MAX_SCHEMA_CHARS, 0)

    def read(self, schema: JSONValue, where: str, trail: tuple[str, ...], depth: int = 0) -> Shape:
        """Return the shape of a required value. `trail` contains the references followed on the way to it."""
        shape = self._shape(schema, _SchemaPosition(where, trail, depth, firm=True))
        if shape is None:
            self._spend(_ANY_CHARS)
            self._ledger.add("impossible", f"no value is valid for `{where}`, so any value is accepted")
            return AnyValue()
        return shape

    def _fitting(self, schema: JSONValue, where: str, trail: tuple[str, ...], depth: int) -> Shape | None:
        """Return the shape of an optional value, or None if no value is valid."""
        return self._shape(schema, _SchemaPosition(where, trail, depth))

    def _shape(self, schema: JSONValue, place: _SchemaPosition) -> Shape | None:
        self._spend(_SHAPE_CHARS)
        if schema is False:
            return None
        if not is_object(schema):
            self._spend(_ANY_CHARS)
            return AnyValue()
        body, trail = self._flat(schema, place.where, place.trail)
        about = body.get("description")
        about = about if isinstance(about, str) else ""
        place = _SchemaPosition(place.where, trail, place.depth, about, place.firm)
        again = max(map(trail.count, trail), default=0)
        deep = again > self._levels or place.depth > MAX_NESTING
        if deep and self._exact and again > 1:
            self._ledger.add("recursion_narrowed", f"`{place.where}` is nested too deeply and is left out")
            return None
        if deep:
            self._ledger.add("recursion_loosened", f"`{place.where}` is nested too deeply and accepts any value")
            return AnyValue(place.about)
        return self._plain(body, place)

    def _plain(self, body: JSONObject, place: _SchemaPosition) -> Shape | None:
        """Return the shape of a schema that contains no references or `allOf` at its top level."""
        self._spend(len(place.about))
        for keyword in _LOOSENED:
            if keyword in body:
                self._ledger.loosen(keyword, place.where)
        if body.get("type") == []:  # the result of merging schemas without a common type
            return None
        if "const" in body or "enum" in body:
            return self._enumeration(body, place)
        for keyword in ("anyOf", "oneOf"):
            if keyword in body:
                return self._alternatives(body, keyword, place)
        return self._typed(body, place)

    def _spend(self, chars: int) -> None:
        self._ledger.remaining_chars -= chars
        if self._ledger.remaining_chars < self._floor:
            raise _TooLarge

    # ---- references and conjunctions

    def _flat(self, schema: JSONObject, where: str, trail: tuple[str, ...]) -> tuple[JSONObject, tuple[str, ...]]:
        """Merge a schema's references and `allOf` into it; return it with the extended trail."""
        body: JSONObject = {}
        followed: dict[str, None] = {}
        stack: list[JSONValue] = [schema]
        while stack:
            part = stack.pop()
            self._spend(_SHAPE_CHARS)
            if not is_object(part):
                continue  # `true` has no effect; `false` is left to validation
            own = {key: value for key, value in part.items() if key not in ("$ref", "allOf")}
            body = self._merge(body, own, where)
            stack += reversed(part.get("allOf", ()))
            reference = part.get("$ref")
            if isinstance(reference, str) and reference not in followed:
                followed[reference] = None
                stack.append(self._resolve(reference, where))
        return body, (*trail, *followed)

    def _resolve(self, reference: str, where: str) -> JSONValue:
        target = self._document
        for token in reference.removeprefix("#").split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            if is_array(target) and key.isdigit() and int(key) < len(target):
                target = target[int(key)]
            elif is_object(target) and key in target:
                target = target[key]
            else:
                target = None
        if target is None or (len(reference) > 1 and reference[1] != "/"):
            self._ledger.add("reference_loosened", f"`{reference}` in `{where}` is only validated afterwards")
            return True
        return target

    def _merge(self, one: JSONObject, other: JSONObject, where: str) -> JSONObject:
        return merged(one, other, lambda key: self._ledger.loosen(f"allOf {key}", where))

    # ---- kinds of schemas

    def _enumeration(self, body: JSONObject, place: _SchemaPosition) -> Shape | None:
        values: list[JSONValue] = [body["const"]] if "const" in body else body["enum"]
        kinds = types_of(body)
        values = [value for value in values if not kinds or _is_of(value, kinds)]
        for keyword in _UNCHECKED_KEYWORDS:
            if keyword in body:
                self._ledger.loosen(keyword, place.where)
        values = self._accepted(body, values)
        self._spend(sum(len(json_text(value)) for value in values))
        return fixed(values, place.about) if values else None

    def _accepted(self, body: JSONObject, values: list[JSONValue]) -> list[JSONValue]:
        """Return the enumerated values that satisfy the schema's other keywords."""
        rules = {keyword: value for keyword, value in body.items() if keyword in _CHECKED_KEYWORDS}
        if not rules:
            return values
        draft = {key: value for key, value in self._document.items() if key == "$schema"}
        judge = ArgumentSchema.of({**draft, "properties": {"value": rules}})
        return [value for value in values if judge.accepts({"value": value})]

    def _alternatives(self, body: JSONObject, keyword: str, place: _SchemaPosition) -> Shape | None:
        base = {key: value for key, value in body.items() if key != keyword}
        branches: Sequence[JSONValue] = body[keyword]
        both = (self._both(base, branch, place) for branch in branches)
        options = [self._fitting(schema, place.where, trail, place.depth + 1) for schema, trail in both]
        if keyword == "oneOf" and not _disjoint([option for option in options if option is not None]):
            self._ledger.add("one_of_loosened", f"`oneOf` of `{place.where}` is enforced as `anyOf`")
        return _one_of(options, place.about)

    def _both(self, base: JSONObject, branch: JSONValue, place: _SchemaPosition) -> tuple[JSONValue, tuple[str, ...]]:
        """Merge a branch of `anyOf` or `oneOf` with the keywords beside it; return it with its trail of references."""
        rest = {key: value for key, value in base.items() if key not in ANNOTATIONS}
        if not rest or not is_object(branch):
            return rest if rest and branch is True else branch, place.trail
        flat, trail = self._flat(branch, place.where, place.trail)
        return self._merge(rest, flat, place.where), trail

    def _typed(self, body: JSONObject, place: _SchemaPosition) -> Shape | None:
        kinds = types_of(body) or [name for name, hints in _HINTS if any(hint in body for hint in hints)][:1]
        if not kinds:
            self._spend(_ANY_CHARS)
            return AnyValue(place.about)
        return _one_of([self._of_type(kind, body, place) for kind in kinds], place.about)

    def _of_type(self, kind: str, body: JSONObject, place: _SchemaPosition) -> Shape | None:
        match kind:
            case "object":
                return self._object(body, place)
            case "array":
                return self._array(body, place)
            case "string":
                low, high = int(body.get("minLength", 0)), body.get("maxLength")
                high = None if high is None else self._at_least(low, int(high), place)
                pattern: str = body.get("pattern", "")
                return Text(low, high, pattern, str(body.get("format", "")), place.about)
            case "number" | "integer":
                return _number(kind == "integer", body, place.about)
            case _:
                return Fixed(_FIXED_TYPES[kind], place.about)

    def _object(self, body: JSONObject, place: _SchemaPosition) -> Shape | None:
        table: JSONObject = body.get("properties", {})
        required: list[str] = body.get("required", [])
        members: list[Member] = []
        for name, schema in {**table, **{name: True for name in required if name not in table}}.items():
            self._spend(len(name))
            read = self.read if place.firm and name in required else self._fitting
            shape = read(schema, f"{place.where}.{name}", place.trail, place.depth + 1)
            if shape is not None:
                members.append(Member(name, shape, name in required))
            elif name in required:
                return None
        # By default only declared keys are allowed, because that is how models and servers interpret a schema.
        more = body.get("additionalProperties", "patternProperties" in body or not (members or "properties" in body))
        extra = self._fitting(more, f"{place.where}.*", place.trail, place.depth + 1)
        for keyword in ("minProperties", "maxProperties"):
            if keyword in body:
                self._ledger.loosen(keyword, place.where)
        return Object(tuple(members), extra, place.about)

    def _array(self, body: JSONObject, place: _SchemaPosition) -> Shape:
        items = body.get("items", True)
        first: list[JSONValue] = items if is_array(items) else body.get("prefixItems", [])
        rest = body.get("additionalItems", True) if is_array(items) else items
        prefix: list[Shape] = []
        for index, each in enumerate(first):
            shape = self._fitting(each, f"{place.where}[{index}]", place.trail, place.depth + 1)
            if shape is None:
                rest = False  # the array ends before this item
                break
            prefix.append(shape)
        more = self._fitting(rest, f"{place.where}[]", place.trail, place.depth + 1)
        low, high = int(body.get("minItems", 0)), int(body.get("maxItems", MAX_ITEMS))
        if more is None:
            high = min(high, len(prefix))
        if low > MAX_ITEMS:
            self._ledger.loosen("minItems", place.where)
            low = MAX_ITEMS
        high = min(self._at_least(low, high, place), MAX_ITEMS)
        return Array(AnyValue() if more is None else more, low, high, tuple(prefix[:high]), place.about)

    def _at_least(self, low: int, high: int, place: _SchemaPosition) -> int:
        if high < low:
            self._ledger.add("impossible", f"`{place.where}`: the upper bound is below the lower and is ignored")
        return max(low, high)


class _SchemaPosition(msgspec.Struct, frozen=True):
    where: str
    #: The references followed on the way to the subschema.
    trail: tuple[str, ...]
    depth: int
    about: str = ""
    #: Whether the value is required. If so, a part for which no value is valid accepts any value.
    firm: bool = False


def _one_of(shapes: Iterable[Shape | None], about: str) -> Shape | None:
    options = [option for option in shapes if option is not None]
    if not options:
        return None
    return options[0] if len(options) == 1 else Union(tuple(options), about)


def _is_of(value: JSONValue, kinds: Sequence[str]) -> bool:
    kind = type_name(value)
    whole = isinstance(value, float) and value.is_integer()
    return kind in kinds or (kind == "integer" and "number" in kinds) or (whole and "integer" in kinds)


def _number(integer: bool, body: JSONObject, about: str) -> Number:
    low, high, above, below, step = (
        None if isinstance(body.get(key), bool) else body.get(key)  # in draft 4, exclusive bounds are booleans
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    )
    if not integer:
        return Number(False, low, high, above, below, step, about)
    lows = [math.ceil(low)] if low is not None else []
    lows += [math.floor(above) + 1] if above is not None else []
    highs = [math.floor(high)] if high is not None else []
    highs += [math.ceil(below) - 1] if below is not None else []
    return Number(True, max(lows, default=None), min(highs, default=None), step=step, about=about)


def _disjoint(options: Sequence[Shape]) -> bool:
    """Whether no value can match two of the shapes, because their types or fixed values differ."""
    return any(
        all(sets) and sum(map(len, sets)) == len(frozenset[str]().union(*sets))
        for sets in ([_kinds(option) for option in options], [_discriminators(option) for option in options])
    )


def _kinds(shape: Shape) -> frozenset[str]:
    """Return the JSON types of a shape's values, or an empty set if they are unknown."""
    match shape:
        case Fixed(values):
            return frozenset("number" if type_name(value) == "integer" else type_name(value) for value in values)
        case AnyValue() | Union():
            return frozenset()
        case _:
            return frozenset({_KINDS[type(shape)]})


def _discriminators(shape: Shape) -> frozenset[str]:
    """Return the fixed values that distinguish this shape from others; the set is empty if there are none."""
    match shape:
        case Fixed(values):
            return frozenset(map(json_text, values))
        case Object(members):
            constants = (member for member in members if member.required and isinstance(member.shape, Fixed))
            sets = [frozenset(f"{each.name} {mark}" for mark in _discriminators(each.shape)) for each in constants]
            return sets[0] if sets else frozenset()
        case _:
            return frozenset()


# ---- merging `allOf`


def types_of(body: JSONObject) -> list[str]:
    declared = body.get("type", [])
    return [declared] if isinstance(declared, str) else list(declared)


def merged(one: JSONObject, other: JSONObject, loosen: Callable[[str], None]) -> JSONObject:
    """Merge two schemas into one that requires both. A keyword that cannot be merged keeps the value from `one` and is
    passed to `loosen`.
    """
    if not one:
        return other
    one, other = {**one, **_restricted_by(one, other)}, {**other, **_restricted_by(other, one)}
    result = dict(one)
    for key, value in other.items():
        if key not in result or key in ANNOTATIONS:
            result.setdefault(key, value)
        elif result[key] != value:
            merge = _MERGES.get(key)
            if merge is None:
                loosen(key)
            else:
                result[key] = merge(result[key], value)
    return result


def _restricted_by(one: JSONObject, other: JSONObject) -> JSONObject:
    """Restrict the properties and prefix items of `one` by `additionalProperties` and `items` of `other`."""
    changes: JSONObject = {}
    rest = other.get("additionalProperties", True)
    if "properties" in one and rest is not True and "patternProperties" not in other:
        declared: JSONObject = other.get("properties", {})
        table: JSONObject = one["properties"]
        changes["properties"] = {key: each if key in declared else _both(each, rest) for key, each in table.items()}
    items = other.get("items", True)
    if "prefixItems" in one and items is not True and not is_array(items):
        count = len(other.get("prefixItems", []))
        changes["prefixItems"] = [
            each if index < count else _both(each, items) for index, each in enumerate(one["prefixItems"])
        ]
    return changes


def _both_types(one: JSONValue, other: JSONValue) -> list[str]:
    """Return the common types. The list is empty if there are none; no valid schema declares that."""
    first, second = types_of({"type": one}), types_of({"type": other})
    wide = [kind for kind in first if kind in second or (kind == "integer" and "number" in second)]
    wide += [kind for kind in second if kind == "integer" and "number" in first and kind not in wide]
    return wide


def _both_tables(one: JSONObject, other: JSONObject) -> JSONObject:
    shared = {name: {"allOf": [one[name], other[name]]} for name in one if name in other and one[name] != other[name]}
    return {**other, **one, **shared} if shared else {**one, **other}


def _both(one: JSONValue, other: JSONValue) -> JSONValue:
    return False if one is False or other is False else {"allOf": [one, other]}


_Merge: TypeAlias = Callable[[JSONValue, JSONValue], JSONValue]
#: Merge functions by keyword. Any other keyword keeps its first value, with a note.
_MERGES: dict[str, _Merge] = {
    "type": _both_types,
    "enum": lambda one, other: [value for value in one if value in other],
    "properties": _both_tables,
    "required": lambda one, other: [*one, *(name for name in other if name not in one)],
    "additionalProperties": _both,
    "items": _both,
    "prefixItems": lambda one, other: [_both(*pair) for pair in zip_longest(one, other, fillvalue=True)],
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), min),
}
