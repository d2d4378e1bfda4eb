"""GigaChat 3: a JSON object after `<|function_call|>`."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect, tag_openings
from ..rendering import json_object, with_nonce


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<|function_call|>` before each JSON object."""
    mark = with_nonce("<|function_call|>", nonce)
    return "".join(mark + json_object(call) for call in calls)


DIALECT = Dialect(
    "gigachat",
    accepts=frozenset({"gigachat"}),
    style=render,
    families="GigaChat 3",
    rank=30,
    tags=tag_openings("gigachat", "|function_call|", "|message_sep|", preamble="function call"),
    lines={"function call{": Opening("gigachat", "weak", one_call=True, overlap=1)},
    separators=frozenset({"|message|", "|role_sep|"}),
    examples=(
        'I will look.<|function_call|>{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}',
        "<|message_sep|>\n\nfunction call<|role_sep|>\n"
        '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}',
    ),
)
