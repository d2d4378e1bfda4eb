"""The JSON document of the `envelope` plan."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import signed_json


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render the JSON document of the `envelope` plan."""
    rows = [{"name": call.name, "arguments": call.arguments} for call in calls]
    return signed_json({"calls": rows, "reply": ""}, nonce)


DIALECT = Dialect(
    "envelope",
    accepts=frozenset({"json"}),
    style=render,
    families="constrained emulation",
    rank=12,
    examples=(
        '{"calls": [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}], "reply": ""}',
        '{"calls":[{"name":"get_weather","arguments":{"city":"Paris","days":3}}]}',
    ),
)
