"""Random schemas of what a grammar expresses exactly: the table of `docs/constraints.md`, kind by kind.

Imports nothing of toolspeak, so no schema is drawn only because the code knows it. The same count draws the same
schemas. At the root the kinds take turns, so `FEW` schemas show all of them; deeper ones are random. The arguments stay
small, because a small model writes them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import jsonschema_rs

__all__ = ["FEW", "KINDS", "Schema", "drawn", "may_fail", "misfits", "words"]

Schema: TypeAlias = dict[str, Any]

#: So many schemas give each kind its turn.
FEW = 16
_SEED = 20261115
#: The members of the arguments stand at depth 1. From this depth on there are only scalars.
_SCALARS_FROM = 3
#: How often a member of a member is more than a scalar.
_NESTED_SHARE = 0.3
_FORMATS = ("date", "time", "date-time", "uuid")
_OUTER = ("city", "user", "amount", "tags", "options", "flag")
_INNER = ("size", "kind", "note", "where", "a b", "größe", 'quo"ted')
_VALUES = ("red", "green", "deep blue", "", 'quo"ted', "ü", 7, -3, 2.5, True, False, None, [], [1, "x"], {"k": None})
_MOST = 10**19 - 1


class Pen:
    """What one schema is drawn with: chance, whose turn it is, and the definitions that its references lead to."""

    def __init__(self, chance: random.Random, turns: Iterator[str]) -> None:
        self.chance = chance
        self.definitions: dict[str, Schema] = {}
        self._turns = turns

    def value(self, depth: int) -> Schema:
        if depth == 1:
            return KINDS[next(self._turns)](self, depth)
        nested = depth < _SCALARS_FROM and self.chance.random() < _NESTED_SHARE
        return self.one_of(_NESTED if nested else _SCALARS)(self, depth)

    def scalar(self) -> Schema:
        return self.one_of(_SCALARS)(self, 0)

    def between(self, low: int, high: int) -> int:
        return self.chance.randint(low, high)

    def one_of(self, drawers: dict[str, Drawer]) -> Drawer:
        return self.chance.choice([*drawers.values()])

    def members(self, depth: int) -> Schema:
        """An object's properties, and which of them are required."""
        names = self.chance.sample(_INNER if depth else _OUTER, self.between(1 if depth else 2, 3))
        # Of the arguments hardly one is left out: what is not demanded is not tried.
        required = names[self.between(0, len(names) if depth else 1) :]
        properties = {name: self.value(depth + 1) for name in names}
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def refer(self, schema: Schema) -> Schema:
        name = f"part/{len(self.definitions)}"
        self.definitions[name] = schema
        return {"$ref": "#/$defs/" + name.replace("/", "~1")}


#: Draws one kind of schema at a depth.
Drawer: TypeAlias = Callable[[Pen, int], Schema]


# ---- scalars


def _measured(pen: Pen, _: int) -> Schema:
    low = pen.between(0, 30)
    return {"type": "string", "minLength": low, "maxLength": low + pen.between(0, 12)}


def _bounded(pen: Pen, _: int) -> Schema:
    low = pen.between(-120, 120)
    return {"type": "integer", "minimum": low, "maximum": low + pen.between(0, 400)}


def _open_bounds(pen: Pen, _: int) -> Schema:
    low = pen.between(-30, 30)
    return {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": low + pen.between(2, 60)}


def _one_bound(pen: Pen, _: int) -> Schema:
    keyword = pen.chance.choice(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
    return {"type": "integer", keyword: pen.between(-2000, 2000)}


def _wide(pen: Pen, _: int) -> Schema:
    return {"type": "integer", "minimum": pen.between(-_MOST, 0), "maximum": pen.between(10**18, _MOST)}


def _several_types(pen: Pen, _: int) -> Schema:
    kinds = pen.chance.sample(["string", "integer", "boolean", "null"], pen.between(2, 3))
    return {"type": kinds, "maxLength": pen.between(1, 12), "minimum": pen.between(0, 9)}


def _format(name: str) -> Drawer:
    return lambda pen, depth: {"type": "string", "format": name}


_SCALARS: dict[str, Drawer] = {
    "text": lambda pen, depth: {"type": "string"},
    "short text": lambda pen, depth: {"type": "string", "maxLength": pen.between(0, 24)},
    "text of some length": lambda pen, depth: {"type": "string", "minLength": pen.between(1, 8)},
    "measured text": _measured,
    **{name: _format(name) for name in _FORMATS},
    "whole number": lambda pen, depth: {"type": "integer"},
    "bounded number": _bounded,
    "number between open bounds": _open_bounds,
    "number with one bound": _one_bound,
    "number of nineteen digits": _wide,
    "number": lambda pen, depth: {"type": "number"},
    "number that is not negative": lambda pen, depth: {"type": "number", "minimum": 0},
    "truth": lambda pen, depth: {"type": "boolean"},
    "nothing": lambda pen, depth: {"type": "null"},
    "choice": lambda pen, depth: {"enum": pen.chance.sample(_VALUES, pen.between(1, 4))},
    "constant": lambda pen, depth: {"const": pen.chance.choice(_VALUES)},
    "several types": _several_types,
}


# ---- lists and objects


def _list(pen: Pen, depth: int) -> Schema:
    low = pen.between(0, 2)
    return {"type": "array", "items": pen.value(depth + 1), "minItems": low, "maxItems": low + pen.between(0, 2)}


def _endless_list(pen: Pen, depth: int) -> Schema:
    return {"type": "array", "items": {"type": "boolean"}, "minItems": pen.between(0, 3)}


def _tuple(pen: Pen, depth: int) -> Schema:
    first = [pen.value(depth + 1) for _ in range(pen.between(1, 3))]
    low = pen.between(0, len(first))
    rest = pen.chance.choice([{"items": False}, {"items": pen.value(depth + 1), "maxItems": len(first) + 1}])
    return {"type": "array", "prefixItems": first, "minItems": low, **rest}


def _closed(pen: Pen, depth: int) -> Schema:
    return {**pen.members(depth), "additionalProperties": False}


def _with_free_keys(pen: Pen, depth: int) -> Schema:
    return {**pen.members(depth), "additionalProperties": pen.scalar()}


def _map(pen: Pen, depth: int) -> Schema:
    return {"type": "object", "additionalProperties": pen.chance.choice([True, pen.value(depth + 1)])}


# ---- schemas out of schemas


def _alternatives(pen: Pen, depth: int) -> Schema:
    return {"anyOf": [pen.value(depth + 1) for _ in range(pen.between(1, 3))]}


def _exclusive_alternatives(pen: Pen, depth: int) -> Schema:
    """Of other types, so that no value fits two."""
    return {"oneOf": [{"type": "string", "maxLength": pen.between(1, 9)}, {"type": "integer"}, {"enum": [None, True]}]}


def _alternative_members(pen: Pen, depth: int) -> Schema:
    """One of the members must be there, whichever."""
    closed = _closed(pen, depth)
    return {**closed, "anyOf": [{"required": [name]} for name in closed["properties"]]}


def _merged_text(pen: Pen, depth: int) -> Schema:
    low = pen.between(0, 9)
    return {"allOf": [{"type": "string", "minLength": low}, {"maxLength": low + pen.between(0, 9)}]}


def _merged_number(pen: Pen, depth: int) -> Schema:
    low = pen.between(-9, 9)
    return {"allOf": [{"type": ["number", "null"], "minimum": low}, {"type": "integer", "exclusiveMaximum": low + 5}]}


def _merged_choice(pen: Pen, depth: int) -> Schema:
    values = [1, 2, 3, "a", "bb", "ccc"]
    return {"allOf": [{"enum": values}, {"minimum": pen.between(1, 3), "minLength": pen.between(1, 3)}]}


def _merged_list(pen: Pen, depth: int) -> Schema:
    pair = {"type": "array", "prefixItems": [{"type": "string", "maxLength": 9}], "maxItems": pen.between(1, 3)}
    return {"allOf": [pair, {"items": {"type": ["string", "integer"], "minLength": 2}, "minItems": pen.between(0, 1)}]}


def _merged_objects(pen: Pen, depth: int) -> Schema:
    """Properties beside a definition that closes the object, but for one of them."""
    known = {"type": "object", "properties": {"id": pen.scalar(), "note": True}, "additionalProperties": False}
    more = {"id": True, "note": {"type": "string", "maxLength": 9}, "other": {"type": "string"}}
    return {"allOf": [pen.refer(known)], "properties": more, "required": ["id"]}


def _merged_free_keys(pen: Pen, depth: int) -> Schema:
    """Each part says something about the keys that only the other declares."""
    short = {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "boolean"}]}
    known = {"type": "object", "properties": {"id": pen.scalar()}, "additionalProperties": short}
    return {"allOf": [known, {"properties": {"more": {"type": "string", "minLength": 2}}, "required": ["id"]}]}


def _reference(pen: Pen, depth: int) -> Schema:
    return pen.refer(pen.value(depth + 1))


def _tree(pen: Pen, depth: int) -> Schema:
    """Leads back to itself."""
    node: Schema = {"type": "object", "properties": {"label": pen.scalar()}, "required": ["label"]}
    reference = pen.refer(node)
    node["properties"]["within"] = {"type": "array", "items": reference, "maxItems": 1}
    return reference


def _chain(pen: Pen, depth: int) -> Schema:
    """Leads back to itself, or ends."""
    node: Schema = {"type": "object", "properties": {"label": pen.scalar()}, "required": ["label", "next"]}
    reference = pen.refer(node)
    node["properties"]["next"] = {"anyOf": [reference, {"type": "null"}]}
    return reference


_OBJECTS: dict[str, Drawer] = {
    "closed object": _closed,
    "object": lambda pen, depth: pen.members(depth),
    "object with alternative members": _alternative_members,
}
_NESTED: dict[str, Drawer] = {
    **_OBJECTS,
    "list": _list,
    "endless list": _endless_list,
    "tuple": _tuple,
    "alternatives": _alternatives,
    "exclusive alternatives": _exclusive_alternatives,
    "merged text": _merged_text,
    "merged number": _merged_number,
    "merged choice": _merged_choice,
    "merged list": _merged_list,
    "merged objects": _merged_objects,
    "reference": _reference,
}
#: What a small model makes long. It gets its turn and does not come by chance as well.
_LONG: dict[str, Drawer] = {
    "object with free keys": _with_free_keys,
    "map": _map,
    "merged free keys": _merged_free_keys,
    "tree": _tree,
    "chain": _chain,
}
KINDS: dict[str, Drawer] = {**_SCALARS, **_NESTED, **_LONG}


def drawn(count: int) -> list[Schema]:
    """So many schemas of arguments."""
    chance = random.Random(_SEED)
    turns = _turns(chance)
    return [_arguments(Pen(chance, turns)) for _ in range(count)]


def _turns(chance: random.Random) -> Iterator[str]:
    while True:
        yield from chance.sample([*KINDS], len(KINDS))


def _arguments(pen: Pen) -> Schema:
    schema = pen.one_of(_OBJECTS)(pen, 0)
    return {**schema, "$defs": pen.definitions} if pen.definitions else schema


# ---- judging


def misfits(schema: Schema, value: Any) -> list[str]:
    """What is wrong with a value, formats included."""
    return [error.message for error in jsonschema_rs.validator_for(schema, validate_formats=True).iter_errors(value)]


def words(schema: Schema) -> set[str]:
    """The keywords in a schema, and the types and formats that it names."""
    found: set[str] = set()
    for part in _parts(schema):
        named = part.get("type", [])
        found |= {*part, *([named] if isinstance(named, str) else named)}
        found |= {part["format"]} if "format" in part else set()
    return found


def may_fail(schema: Schema) -> set[str]:
    """The codes of what no grammar prevents: that an answer without a bound is cut, and that free keys are alike."""
    found: set[str] = set()
    for part in _parts(schema):
        if _is_free(part):
            found |= {"truncated_call", "duplicate_key"}
        elif "string" in str(part.get("type")) and not part.keys() & {"maxLength", "format"}:
            found.add("truncated_call")
    return found


def _is_free(part: Schema) -> bool:
    return part.get("additionalProperties", False) is not False


def _parts(schema: Any) -> Iterator[Schema]:
    """A schema and all schemas in it."""
    if not isinstance(schema, dict):
        return
    part: Schema = schema
    yield part
    inside = [part.get(keyword) for keyword in ("items", "additionalProperties")]
    inside += [each for keyword in ("prefixItems", "anyOf", "oneOf", "allOf") for each in part.get(keyword, [])]
    inside += [each for keyword in ("properties", "$defs") for each in part.get(keyword, {}).values()]
    for each in inside:
        yield from _parts(each)
