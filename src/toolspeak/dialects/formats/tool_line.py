"""Goose, forge: a line of JSON."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import signed_json


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render each call as a line of JSON."""
    return "\n".join(signed_json({"tool": call.name, "args": call.arguments}, nonce) for call in calls)


DIALECT = Dialect(
    "tool_line",
    accepts=frozenset({"json"}),
    style=render,
    result=("```json result\n", "\n```"),
    families="goose, forge",
    rank=1,
    examples=(
        '{"tool": "get_weather", "args": {"city": "Paris", "days": 3}}',
        'I will look at the forecast.\n{"tool": "get_weather", "args": {"city": "Paris", "days": 3}}\n',
    ),
)
