"""Gemma 4: `call:name{key:<|"|>text<|"|>}` between tokens."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.types import ToolCall
from ..dialect import Dialect, tag_openings
from ..rendering import quoted_arguments, with_nonce


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `call:name{key:<|"|>text<|"|>}` between Gemma's tokens."""
    mark = with_nonce("<|tool_call>", nonce)
    return "".join(f"{mark}call:{call.name}{quoted_arguments(call, _QUOTE)}<tool_call|>" for call in calls)


_QUOTE = '<|"|>'

DIALECT = Dialect(
    "gemma",
    accepts=frozenset({"gemma"}),
    style=render,
    families="Gemma 4",
    rank=26,
    tags=tag_openings("gemma", "|tool_call", ends=("<tool_call|>",)),
    examples=(
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>',
        '<|channel>thought\nThe user wants a forecast.<channel|><|tool_call>call:get_weather{city: "Paris", days: 3}'
        "<tool_call|>",
    ),
)
