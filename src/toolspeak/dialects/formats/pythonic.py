"""Llama 3.2 and 4: a Python list of calls."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import fence, python_list


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a Python list of calls, inside a code fence if there is a nonce."""
    body = python_list(calls, None)
    return body if nonce is None else fence(body, "tool_code", nonce)


DIALECT = Dialect(
    "pythonic",
    accepts=frozenset({"pythonic", "action"}),
    style=render,
    families="Llama 3.2 and 4",
    rank=14,
    forms={"python_list": Opening("pythonic", "bare", at_mark=True, one_call=True)},
    examples=(
        "[get_weather(city='Paris', days=3)]",
        '[get_weather(city="Paris", days=3)]<|eot_id|>',
    ),
)
