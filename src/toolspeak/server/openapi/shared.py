"""Functions that build the schemas of requests and replies, and the schemas that several protocols share."""

from __future__ import annotations

from typing import NamedTuple

from ...core.types import JSONObject, JSONValue

#: All records by name, for the document.
RECORDS: dict[str, JSONObject] = {}
#: The field that tells the kinds of an object apart.
_TAG = "type"


class OptionalField(NamedTuple):
    """The schema of a field that may be absent."""

    schema: JSONObject


Field = JSONObject | OptionalField


def optional(schema: JSONObject) -> OptionalField:
    """Describe a field that may be absent, but not null unless the schema says so."""
    return OptionalField(schema)


def nullable(schema: JSONObject) -> OptionalField:
    """Describe a field that may be absent or null, with the same meaning."""
    return defaulting(None, or_null(schema))


def defaulting(value: JSONValue, schema: JSONObject) -> OptionalField:
    """Describe a field with a default."""
    return OptionalField({**schema, "default": value})


def fields(field: Field, *names: str) -> dict[str, Field]:
    """Describe several fields in the same way."""
    return dict.fromkeys(names, field)


def array(items: JSONObject, *, filled: bool = False) -> JSONObject:
    """Describe a list; with `filled`, it has at least one item."""
    return {"type": "array", "items": items, **({"minItems": 1} if filled else {})}


def enum(*values: str | int) -> JSONObject:
    """Describe one of several constants."""
    return {"enum": list(values)}


def any_of(*schemas: JSONObject) -> JSONObject:
    """Describe a value that matches one of several schemas."""
    return {"anyOf": [part for each in schemas for part in (each["anyOf"] if each.keys() == {"anyOf"} else [each])]}


def or_null(schema: JSONObject) -> JSONObject:
    """Describe a value that may also be null."""
    return any_of(schema, {"type": "null"})


def record(name: str, description: str, /, **fields: Field) -> JSONObject:
    """Describe an object under this name in the document, and return a reference to it."""
    RECORDS[name] = {
        "title": name,
        "description": description,
        "type": "object",
        "properties": {key: each.schema if isinstance(each, OptionalField) else each for key, each in fields.items()},
        "required": [key for key, each in fields.items() if not isinstance(each, OptionalField)],
    }
    return {"$ref": f"#/components/schemas/{name}"}


def tagged(name: str, tag: str, description: str, /, **fields: Field) -> JSONObject:
    """Describe an object whose `type` is `tag`."""
    return record(name, description, **{_TAG: enum(tag), **fields})


def allow_others(reference: JSONObject) -> JSONObject:
    """Let a record have fields that are not listed. Return the reference."""
    _record(reference)["additionalProperties"] = True
    return reference


def one_of(*references: JSONObject) -> JSONObject:
    """Describe one of several tagged objects."""
    mapping: JSONObject = {_tags(each)[0]: each["$ref"] for each in references}
    return {"anyOf": list(references), "discriminator": {"propertyName": _TAG, "mapping": mapping}}


def known_or_other(*references: JSONObject) -> JSONObject:
    """Describe one of these objects, or an object with any other tag."""
    other: JSONObject = {
        "type": "object",
        "description": "an object of another kind, passed through unchanged",
        "properties": {_TAG: {"type": "string", "not": {"enum": [tag for each in references for tag in _tags(each)]}}},
        "required": [_TAG],
        "additionalProperties": True,
    }
    return {"type": "object", "anyOf": [*references, other]}


def _record(reference: JSONObject) -> JSONObject:
    return RECORDS[reference["$ref"].rpartition("/")[2]]


def _tags(reference: JSONObject) -> list[str]:
    return _record(reference)["properties"].get(_TAG, {}).get("enum", [])


STRING: JSONObject = {"type": "string"}
INTEGER: JSONObject = {"type": "integer"}
NUMBER: JSONObject = {"type": "number"}
BOOLEAN: JSONObject = {"type": "boolean"}
#: Any JSON object, such as a schema or arguments.
OBJECT: JSONObject = {"type": "object"}
STRINGS, OBJECTS = array(STRING), array(OBJECT)
FRACTION: JSONObject = {"type": "number", "minimum": 0, "maximum": 1}
TEMPERATURE: JSONObject = {"type": "number", "minimum": 0, "maximum": 2}
POSITIVE: JSONObject = {"type": "integer", "minimum": 1, "maximum": 2**31}
NON_NEGATIVE: JSONObject = {"type": "integer", "minimum": 0, "maximum": 2**31}
NAME: JSONObject = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
#: Tool name in a call. Less strict than `NAME`, because the model wrote it.
CALL_NAME: JSONObject = {"type": "string", "minLength": 1}
MODEL_NAME: JSONObject = {**CALL_NAME, "maxLength": 256, "description": "a model listed by GET /v1/models"}
BASE64: JSONObject = {"type": "string", "pattern": "^[A-Za-z0-9+/]*={0,2}$"}

EXTENSION = record(
    "Extension",
    "How toolspeak handled the request; also sent in the `x-toolspeak` header.",
    id=STRING,
    plan=STRING,
    upstream=optional(STRING),
    requests=optional(INTEGER),
    warnings=optional(STRINGS),
)
