"""The JSON document of the `decision` plan."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import signed_json


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render the JSON document of the `decision` plan."""
    return signed_json({"tools": [{"name": call.name, "arguments": call.arguments} for call in calls]}, nonce)


DIALECT = Dialect(
    "decision",
    accepts=frozenset({"json"}),
    style=render,
    families="two-phase emulation",
    rank=11,
    examples=(
        '{"tools": [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]}',
        '{\n  "tools": [\n    {\n      "name": "get_weather",\n      "arguments": {\n        "city": "Paris",\n'
        '        "days": 3\n      }\n    }\n  ]\n}',
    ),
)
