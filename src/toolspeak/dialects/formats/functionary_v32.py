"""Functionary 3.2: the line `>>>name`, then JSON arguments."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `>>>name` on its own line, then JSON arguments. A nonce comes between `>>>` and the name."""
    mark = f">>>{nonce} " if nonce is not None else ">>>"
    return "".join(f"{mark}{call.name}\n{to_json(call.arguments)}" for call in calls)


DIALECT = Dialect(
    "functionary_v32",
    accepts=frozenset({"functionary"}),
    style=render,
    families="Functionary 3.2",
    rank=37,
    forms={"recipient": Opening("functionary", one_call=True)},
    examples=(
        '>>>get_weather\n{"city": "Paris", "days": 3}',
        '>>>all\nI will look.>>>get_weather\n{"city": "Paris", "days": 3}<|eot_id|>',
    ),
)
