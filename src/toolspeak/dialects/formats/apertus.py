"""Apertus: a JSON array of objects whose only key is the tool name."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect, tokens


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a JSON array of objects whose only key is the tool name."""
    return to_json([{call.name: call.arguments} for call in calls])


DIALECT = Dialect(
    "apertus",
    accepts=frozenset({"apertus"}),
    style=render,
    before="<|tools_prefix|>",
    after="<|tools_suffix|>",
    families="Apertus",
    rank=36,
    tags={"|tools_prefix|": Opening("apertus", ends=tokens("tools_suffix"), keyed=True)},
    examples=(
        '<|tools_prefix|>[{"get_weather": {"city": "Paris", "days": 3}}]<|tools_suffix|>',
        "<|inner_prefix|>The user wants a forecast.<|inner_suffix|>"
        '<|tools_prefix|>[{"get_weather": {"city": "Paris", "days": 3}}]<|tools_suffix|>',
    ),
)
