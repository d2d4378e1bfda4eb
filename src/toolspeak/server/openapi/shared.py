"""What the bodies of several protocols share, for the description of the proxy."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...core.types import JSONObject

#: The field that tells kinds apart.
TAG = "type"
#: A field that may be missing, and then is not written as null either.
Absent = msgspec.UnsetType
#: A JSON object of somebody else's making: a schema, arguments.
Object = JSONObject
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Name = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
#: The name in a call is a model's word.
Called = Annotated[str, msgspec.Meta(min_length=1)]
ModelName = Annotated[str, msgspec.Meta(min_length=1, max_length=256, description="one of GET /v1/models")]
Base64 = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9+/]*={0,2}$")]


class Extension(msgspec.Struct):
    """What toolspeak did, beside the answer; also in the header `x-toolspeak`."""

    id: str
    plan: str
    requests: int | Absent = msgspec.UNSET
    warnings: list[str] | Absent = msgspec.UNSET


def either(*known: type[msgspec.Struct]) -> msgspec.Meta:
    """One of these, told apart by their tags, or an object of another kind, which is carried as it came.

    Unions of types cannot say that: they are closed. The types must be listed among the document's own.
    """
    tags = [tag for each in known if (tag := each.__struct_config__.tag) is not None]
    other = {
        "type": "object",
        "description": "of another kind, as it came",
        "properties": {TAG: {"type": "string", "not": {"enum": tags}}},
        "required": [TAG],
        "additionalProperties": True,
    }
    references = [{"$ref": f"#/components/schemas/{each.__name__}"} for each in known]
    return msgspec.Meta(extra_json_schema={"anyOf": [*references, other]})
