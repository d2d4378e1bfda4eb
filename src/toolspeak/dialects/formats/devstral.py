"""Devstral, Ministral: `[TOOL_CALLS]name[ARGS]{...}`."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.arguments import to_json
from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import with_nonce


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `[TOOL_CALLS]name[ARGS]{...}`."""
    mark = with_nonce("[TOOL_CALLS]", nonce)
    return "".join(f"{mark}{call.name}[ARGS]{to_json(call.arguments)}" for call in calls)


DIALECT = Dialect(
    "devstral",
    accepts=frozenset({"mistral"}),
    style=render,
    result=("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
    families="Devstral, Ministral",
    rank=18,
    examples=(
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 3}',
        '[THINK]The user wants a forecast.[/THINK][TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 3}</s>',
    ),
)
