"""OLMo 3: Python calls on separate lines inside `<function_calls>`."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import python_call


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render each call as `name(key=value)` on a separate line."""
    return "\n".join(map(python_call, calls))


DIALECT = Dialect(
    "olmo",
    accepts=frozenset({"tool_calls"}),
    style=render,
    before="<function_calls>",
    after="</function_calls>",
    families="OLMo 3",
    rank=16,
    examples=(
        '<function_calls>get_weather(city="Paris", days=3)</function_calls>',
        "<function_calls>\nget_weather(city='Paris', days=3)\n</function_calls><|im_end|>",
    ),
)
