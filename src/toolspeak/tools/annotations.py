"""From annotations to JSON schema, and from JSON back to what the annotations name.

msgspec knows plain types, literals, enums, collections, unions, dataclasses, typed dicts and structs; pydantic's
models are asked themselves, if that package is there, and are never a reason to import it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, cast, get_args, get_origin

import msgspec

from ..core.types import JSONObject, JSONValue
from ..errors import UsageError

#: Where the parts of a schema that are used by name stand.
_REFERENCE = "#/$defs/{name}"


def schemas_of(types: Mapping[str, Any], where: str) -> tuple[dict[str, JSONObject], JSONObject]:
    """The schema of each type, and the definitions that they share.

    Raises:
        UsageError: a type that JSON cannot carry.
    """
    definitions: JSONObject = {}
    found: dict[str, JSONObject] = {}
    for name, kind in types.items():
        schema, shared = _schema(kind, f"the parameter `{name}` of {where}")
        for key, definition in shared.items():
            if definitions.setdefault(key, definition) != definition:
                raise UsageError(
                    f"two different types called `{key}` are used by {where}", hint="give one of them another name"
                )
        found[name] = schema
    return found, definitions


def _schema(kind: Any, where: str) -> tuple[JSONObject, JSONObject]:
    nested: JSONObject = {}

    def hook(custom: type) -> JSONObject:
        if not _is_model(custom):
            raise NotImplementedError
        schema = cast("JSONObject", cast("Any", custom).model_json_schema(ref_template="#/$defs/{model}"))
        nested.update(schema.pop("$defs", {}))
        return schema

    try:
        (schema,), shared = msgspec.json.schema_components((kind,), schema_hook=hook, ref_template=_REFERENCE)
    except (TypeError, NotImplementedError, msgspec.ValidationError) as error:
        reason = str(error).splitlines()[0] if str(error) else "no JSON schema describes it"
        hint = "use plain types, collections of them, dataclasses, typed dicts or models"
        raise UsageError(f"{where} has a type that cannot be used: {reason}", hint=hint) from None
    return schema, {**shared, **nested}


def converted(value: JSONValue, kind: Any) -> Any:
    """A JSON value as the type that is wanted. Raises msgspec.ValidationError where it is none."""
    return msgspec.convert(value, kind, dec_hook=_from_json)


def _from_json(kind: type, value: JSONValue) -> Any:
    if _is_model(kind):
        try:
            return cast("Any", kind).model_validate(value)
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from None
    return value


def plain(value: object) -> JSONValue:
    """A Python value as JSON. Raises TypeError where there is no way."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_to_json)


def _to_json(value: object) -> JSONValue:
    if _is_model(type(value)):
        return cast("Any", value).model_dump(mode="json")
    return str(value)


def _is_model(kind: Any) -> bool:
    """Whether a class is a model of pydantic; where nobody has imported that package, there can be none."""
    package = sys.modules.get("pydantic")
    return package is not None and isinstance(kind, type) and issubclass(kind, package.BaseModel)


def described(kind: Any) -> str:
    """What `Annotated[..., "text"]` says, also by `Doc`, `Field` or `Meta`."""
    if get_origin(kind) is not Annotated:
        return ""
    for extra in get_args(kind)[1:]:
        if isinstance(extra, str):
            return extra
        for attribute in ("documentation", "description"):
            text = getattr(extra, attribute, None)
            if isinstance(text, str) and text:
                return text
    return ""
