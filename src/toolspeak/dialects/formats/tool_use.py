"""Cherry Studio: the name and the JSON arguments in separate tags inside `<tool_use>`. Cline: `<use_mcp_tool>`."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect, tag_openings
from ..rendering import with_nonce

#: Tags that may contain all arguments, in order of preference.
_CONTAINERS = ("arguments", "parameters", "tool_input")


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render the name and the JSON arguments in separate tags."""
    opener = with_nonce("<tool_use>", nonce)
    return "\n".join(f"{opener}\n<name>{call.name}</name>\n{_contained(call)}\n</tool_use>" for call in calls)


def _contained(call: ToolCall) -> str:
    """Render JSON arguments in a container tag whose name is not an argument name, or without a tag if none is free."""
    tag = next((name for name in _CONTAINERS if name not in call.arguments), "")
    json = to_json(call.arguments)
    return f"<{tag}>{json}</{tag}>" if tag else json


DIALECT = Dialect(
    "tool_use",
    accepts=frozenset({"tool_use"}),
    style=render,
    result=("<tool_use_result>\n", "\n</tool_use_result>"),
    families="Cherry Studio",
    rank=39,
    tags={
        **tag_openings("tool_use", "tool_use", "tool-use"),
        "use_mcp_tool": Opening("tool_use", stops=("</use_mcp_tool>",), tool_first=True),
    },
    examples=(
        '<tool_use>\n  <name>get_weather</name>\n  <arguments>{"city": "Paris", "days": 3}</arguments>\n</tool_use>',
        "<use_mcp_tool>\n<server_name>weather</server_name>\n<tool_name>get_weather</tool_name>\n"
        '<arguments>\n{"city": "Paris", "days": 3}\n</arguments>\n</use_mcp_tool>',
    ),
)
