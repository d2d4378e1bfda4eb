"""xLAM: a JSON array without marks."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.arguments import to_json
from ...core.types import ToolCall
from ..dialect import Dialect


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a JSON array without marks."""
    signature = {} if nonce is None else {"nonce": nonce}
    return to_json([{**signature, "name": call.name, "arguments": call.arguments} for call in calls])


DIALECT = Dialect(
    "xlam",
    accepts=frozenset({"json"}),
    style=render,
    families="xLAM",
    rank=31,
    examples=(
        '[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]',
        '<think>The user wants a forecast.</think>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]',
    ),
)
