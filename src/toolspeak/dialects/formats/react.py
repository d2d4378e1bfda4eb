"""ReAct agents: the lines `Action:` and `Action Input:`. Qwen-Agent and others use other words."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect
from ..line_calls import ReactReader


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render ReAct's `Action:` and `Action Input:` lines."""
    mark = f" {nonce}" if nonce is not None else ""
    return "\n".join(f"Action{mark}: {call.name}\nAction Input: {to_json(call.arguments)}" for call in calls)


_ACTION = Opening("react")

DIALECT = Dialect(
    "react",
    accepts=frozenset({"react"}),
    style=render,
    result=("Observation: ", ""),
    families="ReAct agents",
    rank=10,
    literals={"✿FUNCTION✿": _ACTION},
    lines=dict.fromkeys(("Call:", "Action:", "**Action:**", "**Action**:"), _ACTION),
    # Unless the word after `Action` is the nonce, it is a wrong one.
    forms={"signed_action": Opening("react", wrong_nonce=True)},
    reader=ReactReader,
    examples=(
        'Thought: I need the forecast.\nAction: get_weather\nAction Input: {"city": "Paris", "days": 3}\n',
        '✿FUNCTION✿: get_weather\n✿ARGS✿: {"city": "Paris", "days": 3}\n✿RESULT✿',
        'Action: get_weather(city="Paris", days=3)',
    ),
)
