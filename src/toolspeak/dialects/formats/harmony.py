"""gpt-oss: a harmony message to the function."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect
from ..line_calls import ChannelReader


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a harmony message to the function, on the commentary channel."""
    mark = f" {nonce}" if nonce is not None else ""
    return "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{call.name}{mark} <|constrain|>json<|message|>"
        f"{to_json(call.arguments)}<|call|>"
        for call in calls
    )


_HEADER = Opening("harmony", at_mark=True)

DIALECT = Dialect(
    "harmony",
    accepts=frozenset({"harmony"}),
    style=render,
    families="gpt-oss",
    rank=28,
    tags=dict.fromkeys(("|channel|", "|start|", "|begin|"), _HEADER),
    lines=dict.fromkeys(("to=functions.", "to="), _HEADER),
    reader=ChannelReader,
    examples=(
        "<|channel|>analysis<|message|>The user wants a forecast.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris", "days": 3}<|call|>',
        "<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>"
        '{"city":"Paris","days":3}<|call|>',
        ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Paris", "days": 3}',
    ),
)
