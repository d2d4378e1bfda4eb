"""Transform the schemas of native tools for hosts that do not support all of JSON Schema.

The model's profile names the transform. A schema that the host supports stays unchanged.
Unsupported keywords are removed with a note; toolspeak checks them itself when it validates a call.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from ...core.bounded_cache import bounded_cache
from ...core.schema.json_values import encode_json
from ...core.types import JSONObject, JSONValue, Note, Tool, is_array, is_object
from ...errors import SchemaError
from .schema_writer import PlainSchemaWriter, strict_schema
from .shapes import MAX_ITEMS, Array, Fixed, Ledger, Shape, shape_of

#: A transformed schema, with notes on keywords that were lost.
Transformed: TypeAlias = tuple[JSONValue, tuple[Note, ...]]
Transform: TypeAlias = Callable[[JSONValue], Transformed]

#: Maximum size of a schema that is cached, and of all of them.
_CACHED_BYTES, _CACHED_TOTAL = 64 * 1024, 1024 * 1024
#: Keywords whose value is a schema, a list of schemas, or an object with schemas as values.
_ONE = frozenset({"items", "additionalProperties"})
_LISTS = frozenset({"anyOf", "oneOf", "prefixItems"})
_TABLES = frozenset({"properties", "$defs"})
#: JSON Schema keywords that Gemini's documentation lists. Its `enum` supports only strings and numbers.
_GEMINI = (
    frozenset("$id $anchor $ref type format title description enum required minItems maxItems minimum maximum".split())
    | {"propertyOrdering"}
    | _ONE
    | _LISTS
    | _TABLES
)
#: Keywords that a schema must not contain if the host does not support references.
_NO_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


class _NativeSchemaWriter(PlainSchemaWriter):
    """Schema writer that omits the bounds that only constrained decoding needs."""

    def anything(self, where: str, level: int) -> JSONObject:
        return {}

    def _array(self, shape: Array, where: str, level: int) -> JSONObject:
        schema = super()._array(shape, where, level)
        if shape.high == MAX_ITEMS:
            del schema["maxItems"]
        return schema


class _GeminiSchemaWriter(_NativeSchemaWriter):
    """Schema writer that uses only the keywords that Gemini supports."""

    def _write(self, shape: Shape, where: str, level: int) -> JSONObject:
        schema = super()._write(shape, where, level)
        for word in schema.keys() - _GEMINI:
            self.ledger.loosen(word, where)
        if isinstance(shape, Fixed) and len({value for value in shape.values if isinstance(value, bool)}) == 1:
            self.ledger.loosen("enum", where)  # allows true or false, but not both; Gemini cannot express that
        return {word: value for word, value in schema.items() if word in _GEMINI}

    def fixed(self, shape: Fixed) -> JSONObject:
        schema = super().fixed(shape)
        counted = tuple(value for value in shape.values if _can_enumerate(value))
        if "enum" not in schema or len(counted) == len(shape.values):
            return schema
        options = [super().fixed(Fixed(counted))] if counted else []
        options += [
            {"type": name} for name, kind in _NOT_ENUMERABLE if any(isinstance(each, kind) for each in shape.values)
        ]
        return {"anyOf": options} if len(options) > 1 else options[0]


#: Types whose values Gemini does not allow in an `enum`.
_NOT_ENUMERABLE = (("boolean", bool), ("null", type(None)))


def _can_enumerate(value: JSONValue) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _rewrite(schema: JSONValue, writer: type[PlainSchemaWriter]) -> Transformed:
    ledger = Ledger()
    shape = shape_of(schema, "arguments", ledger)
    return writer(ledger).write(shape, "arguments"), ledger.all()


def _gemini(schema: JSONValue) -> Transformed:
    supported = all(
        key in _GEMINI and (key != "enum" or (is_array(value) and all(map(_can_enumerate, value))))
        for key, value in _keywords(schema)
    )
    return (schema, ()) if supported else _rewrite(schema, _GeminiSchemaWriter)


def _plain(schema: JSONValue) -> Transformed:
    supported = not any(key in _NO_REFERENCES for key, _ in _keywords(schema))
    return (schema, ()) if supported else _rewrite(schema, _NativeSchemaWriter)


def _keywords(schema: JSONValue) -> Iterable[tuple[str, JSONValue]]:
    """Yield the keywords of a schema and its subschemas, with their values, but not the names of properties."""
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


#: Built-in transforms by name.
TRANSFORMS: Mapping[str, Transform] = MappingProxyType(
    {"openai_strict": strict_schema, "gemini": _gemini, "plain": _plain}
)


def transform_tools(tools: Iterable[Tool], name: str) -> tuple[tuple[Tool, ...], tuple[Note, ...]]:
    """Apply the named transform to the tools' schemas; return the tools and notes. An empty name changes nothing."""
    tools = tuple(tools)
    if not name:
        return tools, ()
    transform = TRANSFORMS.get(name)
    if transform is None:
        return tools, (Note("unknown_transform", f"unknown transform `{name}`; tools are sent unchanged"),)
    notes: dict[Note, None] = {}
    results = tuple(_tool(tool, name, transform, notes) for tool in tools)
    return results, tuple(notes)


def _tool(tool: Tool, name: str, transform: Transform, notes: dict[Note, None]) -> Tool:
    """Return the tool with a transformed schema, or the same tool if it has no usable schema."""
    if tool.kind != "function" or tool.parameters is None:
        return tool
    try:
        parameters, lost = _transform_cached(tool.parameters, transform)
    except SchemaError as error:
        notes[Note("not_transformed", f"`{tool.name}`: {error}")] = None
        return tool
    notes.update(dict.fromkeys(Note(note.code, f"`{tool.name}`: {note.detail}") for note in lost))
    extra = tool.extra
    if name == "openai_strict" and not any(note.code == "not_strict" for note in lost):
        extra = {**extra, "strict": True}  # this field has the same name in all OpenAI protocols
    if parameters == tool.parameters and extra is tool.extra:
        return tool
    return msgspec.structs.replace(tool, parameters=parameters, extra=extra)


def _transform_cached(schema: JSONValue, transform: Transform) -> Transformed:
    source = encode_json(schema)  # if the schema is not valid JSON, the transform raises the error
    if source is None or len(source) > _CACHED_BYTES:
        return transform(schema)
    return _transform_encoded(source, transform)


@bounded_cache(_CACHED_TOTAL)
def _transform_encoded(source: bytes, transform: Transform) -> Transformed:
    return transform(msgspec.json.decode(source))
