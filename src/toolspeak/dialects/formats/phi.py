"""Phi-4-mini, Firefunction: a JSON array after `functools`."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import fence, json_list


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `functools[...]`, or a code fence if there is a nonce."""
    body = json_list(calls, None)
    return f"functools{body}" if nonce is None else fence(body, "tool_call", nonce)


DIALECT = Dialect(
    "phi",
    accepts=frozenset({"phi", "action"}),
    style=render,
    families="Phi-4-mini, Firefunction",
    rank=25,
    lines={"functools[": Opening("phi", overlap=1)},
    examples=(
        'functools[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]',
        ' functools[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]',
    ),
)
