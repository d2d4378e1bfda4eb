"""Schemas in Gemini's own form, a subset of OpenAPI 3.0's written as protocol buffers, to JSON schema.

Only this way: a schema of ours is sent as it is, under the names that take JSON schema (`parametersJsonSchema`,
`responseJsonSchema`), so nothing is lost.
"""

from __future__ import annotations

from ...core.types import JSONObject, JSONValue, is_array, is_object
from ...errors import UsageError
from .wire import proto

#: No tool's arguments are nested deeper than this, and the model would not follow.
_MAX_DEPTH = 64
#: Whole numbers of 64 bits, which protocol buffers write as text.
_COUNTS = frozenset("minItems maxItems minLength maxLength minProperties maxProperties".split())
_SCHEMAS = frozenset(("items", "additionalProperties"))
_TABLES = {"properties": "properties", "defs": "$defs", "$defs": "$defs"}
_UNSPECIFIED = "type_unspecified"


def json_schema(value: JSONValue, path: str, depth: int = _MAX_DEPTH) -> JSONValue:
    """The JSON schema that means the same; one that is JSON schema already comes out as it is.

    Raises:
        UsageError: it is nested too deeply.
    """
    if not is_object(value):
        return value
    if not depth:
        raise UsageError(f"`{path}` is nested too deeply")
    schema: JSONObject = {}
    for key, item in proto(value).items():
        schema |= _keyword(key, item, path, depth - 1)
    if schema.pop("nullable", False) is True:
        _allow_null(schema)
    return schema


def _keyword(key: str, item: JSONValue, path: str, depth: int) -> JSONObject:
    if isinstance(item, str):
        return _text_keyword(key, item)
    if key in _SCHEMAS:
        return {key: json_schema(item, path, depth)}
    if key in _TABLES and is_object(item):
        return {_TABLES[key]: {name: json_schema(each, path, depth) for name, each in item.items()}}
    if key == "anyOf" and is_array(item):
        return {key: [json_schema(each, path, depth) for each in item]}
    return {"examples": [item]} if key == "example" else {key: item}


def _text_keyword(key: str, item: str) -> JSONObject:
    match key:
        case "type":
            return {} if item.lower() == _UNSPECIFIED else {key: item.lower()}
        case "format" if item == "enum":  # says that there is an enum
            return {}
        case "ref":
            return {"$ref": item}
        case "example":
            return {"examples": [item]}
        case _:
            whole = key in _COUNTS and item.isascii() and item.isdigit()
            return {key: int(item) if whole else item}


def _allow_null(schema: JSONObject) -> None:
    """What OpenAPI calls nullable."""
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
    options = schema.get("anyOf")
    if is_array(options) and {"type": "null"} not in options:
        schema["anyOf"] = [*options, {"type": "null"}]
    values = schema.get("enum")
    if is_array(values) and None not in values:
        schema["enum"] = [*values, None]
