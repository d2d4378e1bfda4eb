"""Two schemas that hold at once, as one: how the keywords of `allOf` come together.

What one schema says of keys and items that it does not name counts for those that only the other names. A pair of values that no single keyword can say is
reported, and keeps the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import TypeAlias

from ...core.types import JSONObject, JSONValue, is_array

ANNOTATIONS = frozenset("$schema $id $comment $defs definitions title description default examples".split())


def types_of(body: JSONObject) -> list[str]:
    """The types that a schema names."""
    named = body.get("type", [])
    return [named] if isinstance(named, str) else list(named)


def merged(one: JSONObject, other: JSONObject, loosen: Callable[[str], None]) -> JSONObject:
    """Both schemas at once, as far as single keywords can say it; `loosen` is told of a keyword that cannot."""
    if not one:
        return other
    one, other = {**one, **_told(one, other)}, {**other, **_told(other, one)}
    made = dict(one)
    for key, value in other.items():
        if key not in made or key in ANNOTATIONS:
            made.setdefault(key, value)
        elif made[key] != value:
            merge = _MERGES.get(key)
            if merge is None:
                loosen(key)
            else:
                made[key] = merge(made[key], value)
    return made


def _told(one: JSONObject, other: JSONObject) -> JSONObject:
    """What becomes of keys and of first items that only `one` names by what `other` says of the rest."""
    told: JSONObject = {}
    rest = other.get("additionalProperties", True)
    if "properties" in one and rest is not True and "patternProperties" not in other:
        known: JSONObject = other.get("properties", {})
        table: JSONObject = one["properties"]
        told["properties"] = {key: each if key in known else _both(each, rest) for key, each in table.items()}
    items = other.get("items", True)
    if "prefixItems" in one and items is not True and not is_array(items):
        count = len(other.get("prefixItems", []))
        told["prefixItems"] = [
            each if index < count else _both(each, items) for index, each in enumerate(one["prefixItems"])
        ]
    return told


def _common(one: list[JSONValue], other: list[JSONValue]) -> list[JSONValue]:
    return [value for value in one if value in other]


def _both_types(one: JSONValue, other: JSONValue) -> list[str]:
    """The types that both name; an empty list, which no schema has of itself, if there is none."""
    first, second = types_of({"type": one}), types_of({"type": other})
    wide = [kind for kind in first if kind in second or (kind == "integer" and "number" in second)]
    wide += [kind for kind in second if kind == "integer" and "number" in first and kind not in wide]
    return wide


def _both_tables(one: JSONObject, other: JSONObject) -> JSONObject:
    shared = {name: {"allOf": [one[name], other[name]]} for name in one if name in other and one[name] != other[name]}
    return {**other, **one, **shared} if shared else {**one, **other}


def _both(one: JSONValue, other: JSONValue) -> JSONValue:
    return False if one is False or other is False else {"allOf": [one, other]}


def _both_lists(one: list[JSONValue], other: list[JSONValue]) -> JSONValue:
    return [_both(*pair) for pair in zip_longest(one, other, fillvalue=True)]


_Merge: TypeAlias = Callable[[JSONValue, JSONValue], JSONValue]
#: How two values of one keyword become one. What is not here keeps its first value, with a note.
_MERGES: dict[str, _Merge] = {
    "type": _both_types,
    "enum": _common,
    "properties": _both_tables,
    "required": lambda one, other: [*one, *(name for name in other if name not in one)],
    "additionalProperties": _both,
    "items": _both,
    "prefixItems": _both_lists,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), min),
}
