"""Cherry Studio: the name and the JSON arguments in separate tags inside `<tool_use>`. Cline: `<use_mcp_tool>`."""

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect, tag_openings
from ..rendering import each_between


def _parts(call: ToolCall) -> str:
    """Render the name and JSON arguments in a tag whose name is not an argument's, or without a tag if none is free."""
    tag = next((name for name in ("arguments", "parameters", "tool_input") if name not in call.arguments), "")
    json = to_json(call.arguments)
    return f"\n<name>{call.name}</name>\n{f'<{tag}>{json}</{tag}>' if tag else json}\n"


DIALECT = Dialect(
    "tool_use",
    style=each_between("<tool_use>", _parts, "</tool_use>"),
    result=("<tool_use_result>\n", "\n</tool_use_result>"),
    families="Cherry Studio",
    rank=39,
    tags={
        **tag_openings("tool_use", "tool_use", "tool-use"),
        "use_mcp_tool": Opening("tool_use", stops=("</use_mcp_tool>",), tool_first=True),
    },
)
