"""What a JSON schema allows, reduced to the few shapes that a constraint can be built from.

References are followed, `allOf` is merged, alternatives are spread out, everything is bounded: in depth, in the
number of steps through a reference that leads back to itself, and in size. Whatever cannot be said in shapes is
loosened and noted; the arguments are validated against the real schema afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from ...core.schema.arguments import ArgumentSchema
from ...core.schema.json_values import json_text, type_name
from ...core.types import JSONObject, JSONValue, Note, is_array, is_object
from .merging import ANNOTATIONS, merged, types_of

#: Longest string that a grammar lets through: more than models write in one answer (some 16,000 tokens), so that
#: only a model that repeats itself for ever meets it. 256 blocks of 256 characters, less one: see `grammars`.
MAX_STRING = 65_535
#: Most items of an array, and most keys of a free object. Engines spend memory for each; lists of edits, files and
#: tasks in real calls stay below a hundred.
MAX_ITEMS = 256
#: How often one reference may stand on the way to a value: a tree of this many levels is described exactly. Less in a
#: schema, where what is deeper may be anything: it is sent along, and read by models. More in a grammar, where it must
#: be left out: a small model nests on and on. Such a one is tried with less again, should it grow too large.
MAX_RECURSION = 3
MAX_EXACT_RECURSION = 6
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
#: What is said of the values of an enumeration besides, and can be judged without the document around it.
_JUDGED = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern "
    "minItems maxItems minProperties maxProperties required".split()
)
#: What may lead elsewhere.
_NOT_JUDGED = "anyOf oneOf properties additionalProperties items prefixItems".split()
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

    def copy(self) -> Ledger:
        made = Ledger()
        made.take(self)
        return made

    def take(self, other: Ledger) -> None:
        """Go on as the other one stands."""
        self.left, self._found = other.left, dict(other._found)


def shape_of(schema: JSONValue, where: str, ledger: Ledger, exact: bool = False) -> Shape:
    """The shape of a schema; `None` stands for any object. `where` names it in notes.

    What a reference to itself describes is followed some times. Then it may be anything; or, if all must be `exact`,
    it is left out where it can be. Raises `SchemaError` for what is no usable schema. One that grows too large is
    loosened to any object.
    """
    ArgumentSchema.of(schema)
    free = Object(extra=AnyValue())
    if schema is None:
        return free
    for levels in (MAX_EXACT_RECURSION, MAX_RECURSION) if exact else (MAX_RECURSION,):
        attempt = ledger.copy()
        try:
            shape = _Reader(schema, attempt, levels, exact).read(schema, where, ())
        except _TooLarge:
            continue
        ledger.take(attempt)
        return shape
    ledger.left -= min(ledger.left, MAX_SCHEMA_CHARS)
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

    def __init__(self, document: JSONValue, ledger: Ledger, levels: int, exact: bool) -> None:
        self._document = document
        self._ledger = ledger
        self._levels = levels
        self._exact = exact
        self._floor = max(ledger.left - MAX_SCHEMA_CHARS, 0)

    def read(self, schema: JSONValue, where: str, trail: tuple[str, ...], depth: int = 0) -> Shape:
        """What must be there. `trail` holds the references on the way here."""
        shape = self._shape(schema, _Place(where, trail, depth, firm=True))
        if shape is None:
            self._spend(_ANY_CHARS)
            self._ledger.add("impossible", f"nothing fits `{where}`; it is taken as anything")
            return AnyValue()
        return shape

    def _fitting(self, schema: JSONValue, where: str, trail: tuple[str, ...], depth: int) -> Shape | None:
        """What can be left out. None: nothing fits."""
        return self._shape(schema, _Place(where, trail, depth))

    def _shape(self, schema: JSONValue, place: _Place) -> Shape | None:
        self._spend(_SHAPE_CHARS)
        if schema is False:
            return None
        if not is_object(schema):
            self._spend(_ANY_CHARS)
            return AnyValue()
        body, trail = self._flat(schema, place.where, place.trail)
        about = body.get("description")
        about = about if isinstance(about, str) else ""
        place = _Place(place.where, trail, place.depth, about, place.firm)
        again = max(map(trail.count, trail), default=0)
        deep = again > self._levels or place.depth > MAX_NESTING
        if deep and self._exact and again > 1:
            self._ledger.add("recursion_narrowed", f"`{place.where}` is nested too deep; it is left out")
            return None
        if deep:
            self._ledger.add("recursion_loosened", f"`{place.where}` is nested too deep; it is taken as anything")
            return AnyValue(place.about)
        return self._plain(body, place)

    def _plain(self, body: JSONObject, place: _Place) -> Shape | None:
        """The shape of a schema without references and `allOf`."""
        self._spend(len(place.about))
        for keyword in _LOOSENED:
            if keyword in body:
                self._ledger.loosen(keyword, place.where)
        if body.get("type") == []:  # of two schemas that name different ones
            return None
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
        return merged(one, other, lambda key: self._ledger.loosen(f"allOf {key}", where))

    # ---- kinds of schemas

    def _enumeration(self, body: JSONObject, place: _Place) -> Shape | None:
        values: list[JSONValue] = [body["const"]] if "const" in body else body["enum"]
        kinds = types_of(body)
        values = [value for value in values if not kinds or _is_of(value, kinds)]
        for keyword in _NOT_JUDGED:
            if keyword in body:
                self._ledger.loosen(keyword, place.where)
        values = self._judged(body, values)
        self._spend(sum(len(json_text(value)) for value in values))
        return fixed(values, place.about) if values else None

    def _judged(self, body: JSONObject, values: list[JSONValue]) -> list[JSONValue]:
        """The values that fit what else is said of them."""
        rules = {keyword: value for keyword, value in body.items() if keyword in _JUDGED}
        if not rules:
            return values
        draft = {key: value for key, value in self._document.items() if key == "$schema"}
        judge = ArgumentSchema.of({**draft, "properties": {"value": rules}})
        return [value for value in values if judge.accepts({"value": value})]

    def _alternatives(self, body: JSONObject, keyword: str, place: _Place) -> Shape | None:
        base = {key: value for key, value in body.items() if key != keyword}
        branches: Sequence[JSONValue] = body[keyword]
        both = (self._both(base, branch, place) for branch in branches)
        options = [self._fitting(schema, place.where, trail, place.depth + 1) for schema, trail in both]
        if keyword == "oneOf" and not _disjoint([option for option in options if option is not None]):
            self._ledger.add("one_of_loosened", f"`oneOf` of `{place.where}` is enforced as `anyOf`")
        return _one_of(options, place.about)

    def _both(self, base: JSONObject, branch: JSONValue, place: _Place) -> tuple[JSONValue, tuple[str, ...]]:
        """A branch together with what stands beside the alternatives, and the references on the way to it."""
        rest = {key: value for key, value in base.items() if key not in ANNOTATIONS}
        if not rest or not is_object(branch):
            return rest if rest and branch is True else branch, place.trail
        flat, trail = self._flat(branch, place.where, place.trail)
        return self._merge(rest, flat, place.where), trail

    def _typed(self, body: JSONObject, place: _Place) -> Shape | None:
        kinds = types_of(body) or [name for name, hints in _HINTS if any(hint in body for hint in hints)][:1]
        if not kinds:
            self._spend(_ANY_CHARS)
            return AnyValue(place.about)
        return _one_of([self._of_type(kind, body, place) for kind in kinds], place.about)

    def _of_type(self, kind: str, body: JSONObject, place: _Place) -> Shape | None:
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

    def _object(self, body: JSONObject, place: _Place) -> Shape | None:
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
        # Without a word about further keys, declared ones are all: that is how models and servers read it.
        more = body.get("additionalProperties", "patternProperties" in body or not (members or "properties" in body))
        extra = self._fitting(more, f"{place.where}.*", place.trail, place.depth + 1)
        for keyword in ("minProperties", "maxProperties"):
            if keyword in body:
                self._ledger.loosen(keyword, place.where)
        return Object(tuple(members), extra, place.about)

    def _array(self, body: JSONObject, place: _Place) -> Shape:
        items = body.get("items", True)
        first: list[JSONValue] = items if is_array(items) else body.get("prefixItems", [])
        rest = body.get("additionalItems", True) if is_array(items) else items
        prefix: list[Shape] = []
        for index, each in enumerate(first):
            shape = self._fitting(each, f"{place.where}[{index}]", place.trail, place.depth + 1)
            if shape is None:
                rest = False  # the list ends before it
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

    def _at_least(self, low: int, high: int, place: _Place) -> int:
        if high < low:
            self._ledger.add("impossible", f"the bounds of `{place.where}` exclude everything; the lower one counts")
        return max(low, high)


class _Place(msgspec.Struct, frozen=True):
    """Where a schema stands."""

    where: str
    #: The references on the way there.
    trail: tuple[str, ...]
    depth: int
    about: str = ""
    #: Whether it must be there: then its parts are taken as anything where nothing fits them.
    firm: bool = False


def _one_of(found: Iterable[Shape | None], about: str) -> Shape | None:
    options = [option for option in found if option is not None]
    if not options:
        return None
    return options[0] if len(options) == 1 else Union(tuple(options), about)


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
