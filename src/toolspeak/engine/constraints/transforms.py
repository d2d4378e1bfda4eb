"""Schemas of native tools, as a host wants them that takes less than its protocol allows.

A profile names the transform. A schema that the host takes already stays as it came, to the letter; what a host cannot
be told is left out with a note and checked when the call is read, like everything else. A plugin may bring its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from ...core.types import JSONObject, JSONValue, Note, Tool, is_array, is_object
from ...errors import SchemaError
from .shapes import MAX_ITEMS, Array, Fixed, Ledger, Shape, shape_of
from .strict import Plain, strict_schema

#: A schema in another form, and what was lost on the way.
Transformed: TypeAlias = tuple[JSONValue, tuple[Note, ...]]
Transform: TypeAlias = Callable[[JSONValue], Transformed]

#: Transformed schemas kept, and the longest source that is.
_CACHED, _CACHED_BYTES = 256, 64 * 1024
#: Keywords that hold schemas: one, a list of them, or a table by names.
_ONE = frozenset({"items", "additionalProperties"})
_LISTS = frozenset({"anyOf", "oneOf", "prefixItems"})
_TABLES = frozenset({"properties", "$defs"})
#: What Gemini documents of JSON schema; enumerated are only texts and numbers.
_GEMINI = (
    frozenset("$id $anchor $ref type format title description enum required minItems maxItems minimum maximum".split())
    | {"propertyOrdering"}
    | _ONE
    | _LISTS
    | _TABLES
)
#: What a host does not know that follows no references.
_NO_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


class _Native(Plain):
    """Writes a shape with nothing in it that only a grammar needs."""

    def anything(self, where: str, level: int) -> JSONObject:
        return {}

    def _array(self, shape: Array, where: str, level: int) -> JSONObject:
        schema = super()._array(shape, where, level)
        if shape.high == MAX_ITEMS:
            del schema["maxItems"]
        return schema


class _Gemini(_Native):
    """Writes a shape in the keywords that Gemini knows."""

    def _write(self, shape: Shape, where: str, level: int) -> JSONObject:
        schema = super()._write(shape, where, level)
        for word in schema.keys() - _GEMINI:
            self.ledger.loosen(word, where)
        if isinstance(shape, Fixed) and len({value for value in shape.values if isinstance(value, bool)}) == 1:
            self.ledger.loosen("enum", where)  # only one of the two was meant
        return {word: value for word, value in schema.items() if word in _GEMINI}

    def fixed(self, shape: Fixed) -> JSONObject:
        schema = super().fixed(shape)
        counted = tuple(value for value in shape.values if _countable(value))
        if "enum" not in schema or len(counted) == len(shape.values):
            return schema
        options = [super().fixed(Fixed(counted))] if counted else []
        options += [{"type": name} for name, kind in _UNCOUNTED if any(isinstance(each, kind) for each in shape.values)]
        return {"anyOf": options} if len(options) > 1 else options[0]


#: Values that Gemini does not enumerate, and their types.
_UNCOUNTED = (("boolean", bool), ("null", type(None)))


def _countable(value: JSONValue) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _written(schema: JSONValue, writer: type[Plain]) -> Transformed:
    ledger = Ledger()
    shape = shape_of(schema, "arguments", ledger)
    return writer(ledger).write(shape, "arguments"), ledger.all()


def _gemini(schema: JSONValue) -> Transformed:
    taken = all(
        key in _GEMINI and (key != "enum" or (is_array(value) and all(map(_countable, value))))
        for key, value in _keywords(schema)
    )
    return (schema, ()) if taken else _written(schema, _Gemini)


def _plain(schema: JSONValue) -> Transformed:
    taken = not any(key in _NO_REFERENCES for key, _ in _keywords(schema))
    return (schema, ()) if taken else _written(schema, _Native)


def _keywords(schema: JSONValue) -> Iterable[tuple[str, JSONValue]]:
    """Every keyword of a schema with its value, those of inner schemas too. Names of properties are no keywords."""
    stack = [schema]
    while stack:
        part = stack.pop()
        if not is_object(part):
            continue
        for key, value in part.items():
            yield key, value
            if key in _TABLES and is_object(value):
                stack += value.values()
            elif key not in _LISTS and is_object(value):
                stack.append(value)
            elif is_array(value):
                stack += value if key not in ("enum", "required") else ()


#: By the name that profiles use.
TRANSFORMS: Mapping[str, Transform] = MappingProxyType(
    {"openai_strict": strict_schema, "gemini": _gemini, "plain": _plain}
)


def transformed(
    tools: Iterable[Tool], name: str, more: Mapping[str, Transform] = MappingProxyType({})
) -> tuple[tuple[Tool, ...], tuple[Note, ...]]:
    """The tools with their schemas as this transform writes them, and what was lost; without a name, as they are.

    `more`: transforms beside ours, which come first.
    """
    tools = tuple(tools)
    if not name:
        return tools, ()
    transform = more.get(name) or TRANSFORMS.get(name)
    if transform is None:
        return tools, (Note("unknown_transform", f"there is no transform `{name}`; the tools go as they are"),)
    notes: dict[Note, None] = {}
    found = tuple(_tool(tool, name, transform, notes) for tool in tools)
    return found, tuple(notes)


def _tool(tool: Tool, name: str, transform: Transform, notes: dict[Note, None]) -> Tool:
    """The tool in its new form; one that has no schema, or one that nobody could use, stays as it is."""
    if tool.kind != "function" or tool.parameters is None:
        return tool
    try:
        parameters, lost = _kept(tool.parameters, transform)
    except SchemaError as error:
        notes[Note("not_transformed", f"`{tool.name}`: {error}")] = None
        return tool
    notes.update(dict.fromkeys(Note(note.code, f"`{tool.name}`: {note.detail}") for note in lost))
    extra = tool.extra
    if name == "openai_strict" and not any(note.code == "not_strict" for note in lost):
        extra = {**extra, "strict": True}  # the same word in every protocol of OpenAI's
    if parameters == tool.parameters and extra is tool.extra:
        return tool
    return msgspec.structs.replace(tool, parameters=parameters, extra=extra)


def _kept(schema: JSONValue, transform: Transform) -> Transformed:
    try:
        source = msgspec.json.encode(schema)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return transform(schema)  # not JSON: the transform says what is wrong
    return _cached(source, transform) if len(source) <= _CACHED_BYTES else transform(schema)


@lru_cache(_CACHED)
def _cached(source: bytes, transform: Transform) -> Transformed:
    return transform(msgspec.json.decode(source))
