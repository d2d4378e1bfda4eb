"""Llama 3.1 to 3.3: a JSON object after `<|python_tag|>`."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.types import ToolCall
from ..dialect import Dialect, tag_openings, tokens
from ..rendering import json_object, with_nonce


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<|python_tag|>` before each JSON object."""
    mark = with_nonce("<|python_tag|>", nonce)
    return "".join(mark + json_object(call, arguments="parameters") for call in calls)


DIALECT = Dialect(
    "llama",
    accepts=frozenset({"llama"}),
    style=render,
    families="Llama 3.1 to 3.3",
    rank=13,
    tags=tag_openings("llama", "|python_tag|", "|python_start|", ends=tokens("eom_id", "eot_id", "python_end")),
    examples=(
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris", "days": 3}}<|eom_id|>',
        '<|python_tag|>{"type": "function", "name": "get_weather", "parameters": {"city": "Paris", "days": "3"}}',
        '<|python_start|>[get_weather(city="Paris", days=3)]<|python_end|>',
    ),
)
