"""Relaxation of schemas that are not valid in draft 2020-12, so that a tool with such a schema can still be used.

Older drafts, OpenAPI and common misspellings are translated. What cannot be understood is removed, so it constrains
nothing. This module never raises and fetches nothing. The caller has limited the depth of the schema.
"""

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache

import jsonschema_rs

from ..types import JSONObject, JSONValue, is_array, is_object
from .json_values import Path

#: Keywords whose value is a table of schemas, a list of schemas, or one schema.
_TABLES = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = (
    "items additionalProperties unevaluatedProperties propertyNames unevaluatedItems contains not if then else"
).split()
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
#: Keywords that identify a schema or its draft. Without them, every reference starts at the root.
_IDENTIFIERS = ("$schema", "$id", "id", "$vocabulary", "$recursiveAnchor")

_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
#: Names of types in programming languages, with the JSON type that they mean.
_ALIASES = {
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("int", "long"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("list", "tuple"), "array"),
    **dict.fromkeys(("dict", "map"), "object"),
    "bool": "boolean",
    "none": "null",
}
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
_META_SCHEMA = "https://json-schema.org/draft/2020-12/schema"


@cache
def _meta_validator() -> jsonschema_rs.Validator:
    """Return the validator for schemas. It is part of jsonschema-rs, so nothing is fetched."""
    return jsonschema_rs.validator_for({"$ref": _META_SCHEMA})


def needs_translation(schema: JSONValue) -> bool:
    """Whether a schema that may be valid uses keywords that draft 2020-12 ignores: `nullable`, `dependencies`."""
    declared = is_object(schema) and "$schema" in schema
    stack = [schema]
    while stack:
        part = stack.pop()
        if is_object(part):
            if part.get("nullable") is True or ("dependencies" in part and not declared):
                return True
            stack += part.values()
        elif is_array(part):
            stack += part
    return False


def relax(schema: JSONObject) -> tuple[JSONObject, tuple[Path, ...]]:
    """Translate what is understood into draft 2020-12 and remove the rest. Return the places of the changes as well."""
    changes: dict[Path, None] = {}
    copy = deepcopy(schema)
    copy.pop("nullable", None)  # arguments are always an object
    body: JSONObject = _translate(copy, (), changes)
    for error in list(_meta_validator().iter_errors(body)):
        _remove(body, tuple(error.instance_path), changes)
    _remove_references(body, changes)
    return body, tuple(changes)


def names_only(schema: JSONObject) -> JSONObject:
    """Return a schema that keeps only the names of the properties, for a schema that cannot be used otherwise."""
    table = schema.get("properties")
    return {"type": "object", "properties": {name: {} for name in table} if is_object(table) else {}}


def _translate(schema: JSONValue, path: Path, changes: dict[Path, None]) -> JSONValue:
    """Return a translated schema. The tables and lists of schemas inside it are changed in place."""
    if isinstance(schema, bool):
        return schema
    if not is_object(schema):
        changes[path] = None
        return {}
    body: JSONObject = {
        key: value for key, value in schema.items() if key not in _IDENTIFIERS or not isinstance(value, str)
    }
    for keyword, rule in _RULES:
        if keyword in body and rule(body):
            changes[(*path, keyword)] = None
    for inner, part, key in list(_slots(body)):
        part[key] = _translate(part[key], (*path, *inner), changes)
    return _nullable(body)


def _slots(body: JSONObject) -> Iterator[tuple[Path, JSONValue, str | int]]:
    """Yield where the schemas inside this schema are: the path, and the table or list with the key or index in it."""
    for keyword, value in body.items():
        if keyword in _TABLES and is_object(value):
            yield from (((keyword, name), value, name) for name in value)
        elif keyword in _LISTS and is_array(value):
            yield from (((keyword, index), value, index) for index in range(len(value)))
        elif keyword in _SINGLE and is_object(value):
            yield (keyword,), body, keyword


def _type(body: JSONObject) -> bool:
    """Read types in any case and under the names of programming languages. An unknown type allows everything."""
    types = body["type"]
    words = [each.strip().lower() if isinstance(each, str) else "" for each in (types if is_array(types) else [types])]
    words = list(dict.fromkeys(_ALIASES.get(word, word) for word in words))
    if words and _TYPES.issuperset(words):
        body["type"] = words if is_array(types) else words[0]
    else:
        del body["type"]
    return body.get("type") != types


def _required_property(body: JSONObject) -> bool:
    """Move `required: true` of a property to the list of its object."""
    table = body["properties"]
    if not is_object(table):
        return False
    names = [name for name, each in table.items() if is_object(each) and isinstance(each.get("required"), bool)]
    if names:
        listed: list[JSONValue] = body["required"] if is_array(body.get("required")) else []
        body["required"] = [*listed, *(name for name in names if table[name]["required"])]
        plain = {name: {k: v for k, v in table[name].items() if k != "required"} for name in names}
        body["properties"] = {**table, **plain}
    return bool(names)


def _required(body: JSONObject) -> bool:
    """Keep the names in the list of required properties, each once."""
    names = body["required"]
    if is_array(names):
        body["required"] = list(dict.fromkeys(name for name in names if isinstance(name, str)))
    return body["required"] != names


def _exclusive(keyword: str, limit: str) -> Callable[[JSONObject], bool]:
    def rule(body: JSONObject) -> bool:
        """Read draft 4, where the keyword says whether the limit itself is excluded."""
        if not isinstance(body[keyword], bool):
            return False
        if body.pop(keyword) and limit in body:
            body[keyword] = body.pop(limit)
        return True

    return rule


def _tuple(body: JSONObject) -> bool:
    """Read drafts before 2020-12, where `items` may be a list of schemas."""
    if not is_array(body["items"]):
        return False
    body["prefixItems"] = body.pop("items")
    if "additionalItems" in body:
        body["items"] = body.pop("additionalItems")
    return True


def _dependencies(body: JSONObject) -> bool:
    """Read drafts before 2019-09, where `dependencies` holds lists of names and schemas."""
    table = body.pop("dependencies")
    for name, each in table.items() if is_object(table) else ():
        keyword = "dependentRequired" if is_array(each) else "dependentSchemas"
        body[keyword] = {**body.get(keyword, {}), name: each}
    return True


_RULES: tuple[tuple[str, Callable[[JSONObject], bool]], ...] = (
    ("type", _type),
    ("properties", _required_property),
    ("required", _required),
    ("exclusiveMinimum", _exclusive("exclusiveMinimum", "minimum")),
    ("exclusiveMaximum", _exclusive("exclusiveMaximum", "maximum")),
    ("items", _tuple),
    ("dependencies", _dependencies),
)


def _nullable(body: JSONObject) -> JSONObject:
    """Read OpenAPI's `nullable: true`, which is fully understood and so is no change worth a note."""
    if body.get("nullable") is not True:
        return body
    del body["nullable"]
    types = body.get("type")
    if isinstance(types, str) and "enum" not in body and "const" not in body:
        return {**body, "type": list(dict.fromkeys([types, "null"]))}
    return {"anyOf": [body, {"type": "null"}]} if body else {}


def _remove(body: JSONObject, path: Path, changes: dict[Path, None]) -> None:
    """Remove the keyword at `path`, or the keyword whose list or table contains it."""
    part: JSONValue = body
    owner, name, length = body, "", 0
    for depth, step in enumerate(path):
        if is_object(part) and isinstance(step, str) and step in part:
            owner, name, length = part, step, depth + 1
            part = part[step]
        elif is_array(part) and isinstance(step, int):
            part = part[step]
        else:  # removed because of another error
            return
    del owner[name]
    changes[path[:length]] = None


def _remove_references(root: JSONObject, changes: dict[Path, None]) -> None:
    """Remove the references that do not lead to a schema in this document, and patterns that cannot be compiled."""
    schemas = list(_schemas(root))
    anchors = {body[word] for _, body in schemas for word in _ANCHORS if word in body}
    for path, body in schemas:
        for keyword in _REFERENCES:
            if keyword in body and not _resolves(root, body[keyword], anchors):
                del body[keyword]
                changes[(*path, keyword)] = None
        if "pattern" in body and not _compiles(body["pattern"]):
            del body["pattern"]
            changes[(*path, "pattern")] = None
        for pattern in [*body.get("patternProperties", ())]:
            if not _compiles(pattern):
                del body["patternProperties"][pattern]
                changes[(*path, "patternProperties", pattern)] = None


def _schemas(root: JSONObject) -> list[tuple[Path, JSONObject]]:
    found: list[tuple[Path, JSONObject]] = [((), root)]
    for path, body in found:
        found += [((*path, *inner), part[key]) for inner, part, key in _slots(body) if is_object(part[key])]
    return found


def _resolves(root: JSONObject, reference: str, anchors: set[str]) -> bool:
    if not reference.startswith("#"):
        return False
    fragment = _PERCENT.sub(lambda match: chr(int(match[1], 16)), reference[1:])
    part: JSONValue = root
    for token in fragment.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if is_array(part):
            part = dict(zip(map(str, range(len(part))), part, strict=True))
        if not is_object(part) or key not in part:
            return False
        part = part[key]
    return is_object(part) if fragment[:1] in ("", "/") else fragment in anchors


def _compiles(pattern: str) -> bool:
    try:
        jsonschema_rs.validator_for({"pattern": pattern})
    except ValueError:
        return False
    return True


def describe(changes: tuple[Path, ...], limit: int) -> str:
    """Name the places of the changes."""
    places = [".".join(map(str, path)) or "parameters" for path in changes[:limit]]
    more = f" and {len(changes) - limit} more" if len(changes) > limit else ""
    return ", ".join(f"`{place}`" for place in places) + more
