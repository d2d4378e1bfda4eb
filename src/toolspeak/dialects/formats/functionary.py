"""Functionary 3.1: JSON arguments inside `<function=name>`."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import function_element


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<function=name>{...}</function>`."""
    return "\n".join(function_element(call, nonce) for call in calls)


DIALECT = Dialect(
    "functionary",
    accepts=frozenset({"tags"}),
    style=render,
    families="Functionary 3.1",
    rank=24,
    examples=(
        '<function=get_weather>{"city": "Paris", "days": 3}</function>',
        'I will look.\n<function=get_weather>{"city": "Paris", "days": 3}</function><|eom_id|>',
    ),
)
