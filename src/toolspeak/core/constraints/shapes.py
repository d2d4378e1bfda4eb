"""What a JSON schema allows, reduced to the few shapes that a constraint can be built from.

References are followed, `allOf` is merged, alternatives are spread out, everything is bounded: in depth, in the
number of steps through a reference that leads back to itself, and in size. Whatever cannot be said in shapes is
loosened and noted; the arguments are validated against the real schema afterwards. Above: `grammars`, `strict`
and `constraint`, which write shapes down. Below: `schema`, which has refused what is no schema or not local.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from ..model import JSONObject, JSONValue, Note, is_array, is_object
from ..schema import ArgumentSchema
from ..schemas.json_values import json_text, type_name

__all__ = [
    "MAX_ITEMS",
    "MAX_STRING",
    "NULL",
    "TEXT",
    "AnyValue",
    "Array",
    "Fixed",
    "Ledger",
    "Member",
    "Number",
    "Object",
    "Shape",
    "Text",
    "Union",
    "fixed",
    "shape_of",
]

#: Longest string that a grammar lets through: more than models write in one answer (some 16,000 tokens), so that
#: only a model that repeats itself for ever meets it. 256 blocks of 256 characters, less one: see `grammars`.
MAX_STRING = 65_535
#: Most items of an array, and most keys of a free object. Engines spend memory for each; lists of edits, files and
#: tasks in real calls stay below a hundred.
MAX_ITEMS = 256
#: How often one reference may stand on the way to a value: a tree of this many levels is described exactly.
MAX_RECURSION = 3
#: How deep shapes nest. Tools nest five or six levels; each costs an engine a level of its stack.
MAX_NESTING = 24
#: How much one schema may grow to, in characters: shared references multiply. The largest tools of coding agents
#: take 20,000.
MAX_SCHEMA_CHARS = 128 * 1024
#: How much all schemas of one constraint may grow to. A tool that comes after that takes any object.
MAX_TOTAL_CHARS = 512 * 1024
#: What every shape costs besides its names and literals; a value without a schema is written as a nest of shapes.
_SHAPE_CHARS = 40
_ANY_CHARS = 1_600
#: Ledger kept for one constraint: the first ones say what kind of schema it is.
MAX_NOTES = 32

#: Constraints that no flavour expresses.
_LOOSENED = (
    "not if then else dependentRequired dependentSchemas dependencies uniqueItems contains minContains maxContains "
    "patternProperties propertyNames unevaluatedProperties unevaluatedItems $dynamicRef $recursiveRef"
).split()
#: What an untyped schema most likely speaks of.
_HINTS = (
    ("object", ("properties", "required", "additionalProperties", "patternProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems")),
    ("string", ("pattern", "minLength", "maxLength")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
_FIXED_TYPES: dict[str, tuple[JSONValue, ...]] = {"boolean": (True, False), "null": (None,)}


class AnyValue(msgspec.Struct, frozen=True, tag=True):
    """Any JSON value."""

    about: str = ""


class Fixed(msgspec.Struct, frozen=True, tag=True):
    """One of some scalars."""

    values: tuple[str | int | float | bool | None, ...]
    about: str = ""


class Text(msgspec.Struct, frozen=True, tag=True):
    """A string, by the number of its characters."""

    low: int = 0
    high: int | None = None
    pattern: str = ""
    format: str = ""
    about: str = ""


class Number(msgspec.Struct, frozen=True, tag=True):
    """A number. The bounds of an integer are inclusive."""

    integer: bool = False
    low: int | float | None = None
    high: int | float | None = None
    above: int | float | None = None
    below: int | float | None = None
    step: int | float | None = None
    about: str = ""


class Array(msgspec.Struct, frozen=True, tag=True):
    """A list: first the items of `prefix`, then any number of `items`; as many of both as `low` and `high` say."""

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
    #: What notes call it, if not by the way that leads to it.
    label: str = ""


class Object(msgspec.Struct, frozen=True, tag=True):
    """An object: the members in their order, then, if `extra` is given, other keys."""

    members: tuple[Member, ...] = ()
    extra: Shape | None = None
    about: str = ""


class Union(msgspec.Struct, frozen=True, tag=True):
    """One of several shapes."""

    options: tuple[Shape, ...]
    about: str = ""


Shape: TypeAlias = AnyValue | Fixed | Text | Number | Array | Object | Union

_KINDS: dict[type, str] = {Text: "string", Number: "number", Array: "array", Object: "object"}
TEXT = Text()
NULL = Fixed((None,))


class Ledger:
    """What a constraint may still grow by, and what was loosened: each thing once, `MAX_NOTES` of them at most."""

    def __init__(self) -> None:
        self.left = MAX_TOTAL_CHARS
        self._found: dict[Note, None] = {}

    def add(self, code: str, detail: str) -> None:
        if len(self._found) < MAX_NOTES:
            self._found[Note(code, detail)] = None

    def loosen(self, what: str, where: str) -> None:
        """Note that a keyword is left to validation."""
        self.add("constraint_loosened", f"`{what}` of `{where}` is checked afterwards")

    def all(self) -> tuple[Note, ...]:
        return tuple(self._found)


def shape_of(schema: JSONValue, where: str, ledger: Ledger) -> Shape:
    """The shape of a schema; `None` stands for any object. `where` names it in notes.

    Raises `SchemaError` for what is no usable schema. One that grows too large is loosened to any object.
    """
    ArgumentSchema.of(schema)
    free = Object(extra=AnyValue())
    if schema is None:
        return free
    try:
        return _Reader(schema, ledger).read(schema, where, ())
    except _TooLarge:
        ledger.add("schema_too_large", f"`{where}` is taken as any object: its schema grows too large")
        return free


def fixed(values: Iterable[JSONValue], about: str = "") -> Shape:
    """The shape of an enumeration; objects and arrays in it become shapes of their own."""
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
    """The schema has grown beyond its bound."""


class _Reader:
    """Reads one schema document."""

    def __init__(self, document: JSONValue, ledger: Ledger) -> None:
        self._document = document
        self._ledger = ledger
        self._floor = max(ledger.left - MAX_SCHEMA_CHARS, 0)

    def read(self, schema: JSONValue, where: str, trail: tuple[str, ...], depth: int = 0) -> Shape:
        """`trail` holds the references on the way here."""
        self._spend(_SHAPE_CHARS)
        if not is_object(schema):
            self._spend(_ANY_CHARS)
            if schema is False:
                self._ledger.add("impossible", f"nothing fits `{where}`; it is taken as anything")
            return AnyValue()
        body, trail = self._flat(schema, where, trail)
        about = body.get("description")
        about = about if isinstance(about, str) else ""
        if depth > MAX_NESTING or any(trail.count(each) > MAX_RECURSION for each in frozenset(trail)):
            self._ledger.add("recursion_loosened", f"`{where}` is nested too deep; it is taken as anything")
            return AnyValue(about)
        self._spend(len(about))
        for keyword in _LOOSENED:
            if keyword in body:
                self._ledger.loosen(keyword, where)
        place = _Place(where, trail, depth, about)
        if "const" in body or "enum" in body:
            return self._enumeration(body, place)
        for keyword in ("anyOf", "oneOf"):
            if keyword in body:
                return self._alternatives(body, keyword, place)
        return self._typed(body, place)

    def _spend(self, chars: int) -> None:
        self._ledger.left -= chars
        if self._ledger.left < self._floor:
            raise _TooLarge

    # ---- references and conjunctions

    def _flat(self, schema: JSONObject, where: str, trail: tuple[str, ...]) -> tuple[JSONObject, tuple[str, ...]]:
        """The schema with what it refers to and its `allOf` merged into it."""
        body: JSONObject = {}
        followed: dict[str, None] = {}
        stack: list[JSONValue] = [schema]
        while stack:
            part = stack.pop()
            self._spend(_SHAPE_CHARS)
            if not is_object(part):
                continue  # `true` adds nothing; `false` among others is left to validation
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
            self._ledger.add("reference_loosened", f"`{reference}` in `{where}` is checked afterwards")
            return True
        return target

    def _merge(self, one: JSONObject, other: JSONObject, where: str) -> JSONObject:
        """Both schemas at once, as far as single keywords can say it."""
        merged = dict(one)
        for key, value in other.items():
            if key not in merged or key in _ANNOTATIONS:
                merged.setdefault(key, value)
            elif merged[key] != value:
                merge = _MERGES.get(key)
                if merge is None:
                    self._ledger.loosen(f"allOf {key}", where)
                else:
                    merged[key] = merge(merged[key], value)
        return merged

    # ---- kinds of schemas

    def _enumeration(self, body: JSONObject, place: _Place) -> Shape:
        values: list[JSONValue] = [body["const"]] if "const" in body else body["enum"]
        kinds = _types(body)
        values = [value for value in values if not kinds or _is_of(value, kinds)]
        self._spend(sum(len(json_text(value)) for value in values))
        if not values:
            self._ledger.add("impossible", f"nothing fits `{place.where}`; it is taken as anything")
            return AnyValue(place.about)
        return fixed(values, place.about)

    def _alternatives(self, body: JSONObject, keyword: str, place: _Place) -> Shape:
        base = {key: value for key, value in body.items() if key != keyword}
        branches: Sequence[JSONValue] = body[keyword]
        both = (self._both(base, branch, place) for branch in branches if branch is not False)
        options = [self.read(schema, place.where, trail, place.depth + 1) for schema, trail in both]
        if keyword == "oneOf" and not _disjoint(options):
            self._ledger.add("one_of_loosened", f"`oneOf` of `{place.where}` is enforced as `anyOf`")
        return options[0] if len(options) == 1 else Union(tuple(options), place.about)

    def _both(self, base: JSONObject, branch: JSONValue, place: _Place) -> tuple[JSONValue, tuple[str, ...]]:
        """A branch together with what stands beside the alternatives, and the references on the way to it."""
        rest = {key: value for key, value in base.items() if key not in _ANNOTATIONS}
        if not rest or not is_object(branch):
            return rest or branch, place.trail
        flat, trail = self._flat(branch, place.where, place.trail)
        return self._merge(rest, flat, place.where), trail

    def _typed(self, body: JSONObject, place: _Place) -> Shape:
        kinds = _types(body) or [name for name, hints in _HINTS if any(hint in body for hint in hints)][:1]
        options = [self._of_type(kind, body, place) for kind in kinds]
        if not options:
            self._spend(_ANY_CHARS)
            return AnyValue(place.about)
        return options[0] if len(options) == 1 else Union(tuple(options), place.about)

    def _of_type(self, kind: str, body: JSONObject, place: _Place) -> Shape:
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

    def _object(self, body: JSONObject, place: _Place) -> Shape:
        table: JSONObject = body.get("properties", {})
        required: list[str] = body.get("required", [])
        members: list[Member] = []
        for name, schema in {**table, **{name: True for name in required if name not in table}}.items():
            self._spend(len(name))
            if schema is not False:
                shape = self.read(schema, f"{place.where}.{name}", place.trail, place.depth + 1)
                members.append(Member(name, shape, name in required))
        # Without a word about further keys, declared ones are all: that is how models and servers read it.
        more = body.get("additionalProperties", "patternProperties" in body or not (members or "properties" in body))
        extra = None if more is False else self.read(more, f"{place.where}.*", place.trail, place.depth + 1)
        for keyword in ("minProperties", "maxProperties"):
            if keyword in body:
                self._ledger.loosen(keyword, place.where)
        return Object(tuple(members), extra, place.about)

    def _array(self, body: JSONObject, place: _Place) -> Shape:
        items = body.get("items", True)
        first: JSONValue = items if is_array(items) else body.get("prefixItems", [])
        rest = body.get("additionalItems", True) if is_array(items) else items
        prefix = tuple(
            self.read(each, f"{place.where}[{index}]", place.trail, place.depth + 1) for index, each in enumerate(first)
        )
        low, high = int(body.get("minItems", 0)), int(body.get("maxItems", MAX_ITEMS))
        if rest is False:
            high = min(high, len(prefix))
        if low > MAX_ITEMS:
            self._ledger.loosen("minItems", place.where)
            low = MAX_ITEMS
        high = min(self._at_least(low, high, place), MAX_ITEMS)
        shape = AnyValue() if rest is False else self.read(rest, f"{place.where}[]", place.trail, place.depth + 1)
        return Array(shape, low, high, prefix[:high], place.about)

    def _at_least(self, low: int, high: int, place: _Place) -> int:
        if high < low:
            self._ledger.add("impossible", f"the bounds of `{place.where}` exclude everything; the lower one counts")
        return max(low, high)


class _Place(msgspec.Struct, frozen=True):
    """Where a schema stands."""

    where: str
    trail: tuple[str, ...]
    depth: int
    about: str


def _types(body: JSONObject) -> list[str]:
    named = body.get("type", [])
    return [named] if isinstance(named, str) else list(named)


def _is_of(value: JSONValue, kinds: Sequence[str]) -> bool:
    kind = type_name(value)
    whole = isinstance(value, float) and value.is_integer()
    return kind in kinds or (kind == "integer" and "number" in kinds) or (whole and "integer" in kinds)


def _number(integer: bool, body: JSONObject, about: str) -> Number:
    low, high, above, below, step = (
        None if isinstance(body.get(key), bool) else body.get(key)  # draft 4 has booleans here
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
    """Whether plainly no value fits two of the shapes: other kinds, or other fixed values."""
    return any(
        all(sets) and sum(map(len, sets)) == len(frozenset[str]().union(*sets))
        for sets in ([_kinds(option) for option in options], [_marks(option) for option in options])
    )


def _kinds(shape: Shape) -> frozenset[str]:
    """The JSON types of its values; empty: unknown."""
    match shape:
        case Fixed(values):
            return frozenset("number" if type_name(value) == "integer" else type_name(value) for value in values)
        case AnyValue() | Union():
            return frozenset()
        case _:
            return frozenset({_KINDS[type(shape)]})


def _marks(shape: Shape) -> frozenset[str]:
    """What tells a value of this shape from others that have such marks; empty: nothing."""
    match shape:
        case Fixed(values):
            return frozenset(map(json_text, values))
        case Object(members):
            named = (member for member in members if member.required and isinstance(member.shape, Fixed))
            sets = [frozenset(f"{each.name} {mark}" for mark in _marks(each.shape)) for each in named]
            return sets[0] if sets else frozenset()
        case _:
            return frozenset()


def _common(one: list[JSONValue], other: list[JSONValue]) -> list[JSONValue]:
    return [value for value in one if value in other]


def _both_types(one: JSONValue, other: JSONValue) -> JSONValue:
    first, second = _types({"type": one}), _types({"type": other})
    wide = [kind for kind in first if kind in second or (kind == "integer" and "number" in second)]
    wide += [kind for kind in second if kind == "integer" and "number" in first and kind not in wide]
    return wide or first


def _both_tables(one: JSONObject, other: JSONObject) -> JSONObject:
    shared = {name: {"allOf": [one[name], other[name]]} for name in one if name in other and one[name] != other[name]}
    return {**other, **one, **shared} if shared else {**one, **other}


def _both_schemas(one: JSONValue, other: JSONValue) -> JSONValue:
    return False if one is False or other is False else {"allOf": [one, other]}


_ANNOTATIONS = frozenset("$schema $id $comment $defs definitions title description default examples".split())
_Merge: TypeAlias = Callable[[JSONValue, JSONValue], JSONValue]
#: How two values of one keyword become one. What is not here keeps its first value, with a note.
_MERGES: dict[str, _Merge] = {
    "type": _both_types,
    "enum": _common,
    "properties": _both_tables,
    "required": lambda one, other: [*one, *(name for name in other if name not in one)],
    "additionalProperties": _both_schemas,
    "items": _both_schemas,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), min),
}
