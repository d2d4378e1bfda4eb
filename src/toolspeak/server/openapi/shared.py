"""Types used in the requests and replies of several protocols."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...core.types import JSONObject

#: The types given to `known_or_other`. msgspec does not find them by itself.
KINDS: list[type[msgspec.Struct]] = []
#: The discriminator field.
TAG = "type"
#: Type of a field that may be absent but not null.
Absent = msgspec.UnsetType
#: Any JSON object, such as a schema or arguments.
Object = JSONObject
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
NonNegative = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Name = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
#: Tool name in a call. Less strict than `Name`, because the model wrote it.
CallName = Annotated[str, msgspec.Meta(min_length=1)]
ModelName = Annotated[str, msgspec.Meta(min_length=1, max_length=256, description="a model listed by GET /v1/models")]
Base64 = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9+/]*={0,2}$")]


class Extension(msgspec.Struct):
    """How toolspeak handled the request; also sent in the `x-toolspeak` header."""

    id: str
    plan: str
    upstream: str | Absent = msgspec.UNSET
    requests: int | Absent = msgspec.UNSET
    warnings: list[str] | Absent = msgspec.UNSET


def known_or_other(*types: type[msgspec.Struct]) -> msgspec.Meta:
    """Return a schema that accepts one of these tagged types or an object with any other tag.

    A msgspec union would reject other tags. The types are added to `KINDS`, so call this for each of them at the top
    level of a module; annotations of fields are evaluated too late.
    """
    KINDS.extend(types)
    tags = [tag for each in types if (tag := each.__struct_config__.tag) is not None]
    other = {
        "type": "object",
        "description": "an object of another kind, passed through unchanged",
        "properties": {TAG: {"type": "string", "not": {"enum": tags}}},
        "required": [TAG],
        "additionalProperties": True,
    }
    references = [{"$ref": f"#/components/schemas/{each.__name__}"} for each in types]
    return msgspec.Meta(extra_json_schema={"anyOf": [*references, other]})
