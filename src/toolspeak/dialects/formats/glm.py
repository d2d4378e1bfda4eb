"""GLM 4.5 and later, Poolside: the name, then `<arg_key>` and `<arg_value>` pairs inside `<tool_call>`."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.arguments import to_json
from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import fits_tags, tag_text, with_nonce


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render the name, then `<arg_key>` and `<arg_value>` pairs."""
    opener = with_nonce("<tool_call>", nonce)
    return "\n".join(f"{opener}{call.name}\n{_pairs(call)}</tool_call>" for call in calls)


def _pairs(call: ToolCall) -> str:
    if not fits_tags(call):
        return to_json(call.arguments) + "\n"
    return "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{tag_text(value)}</arg_value>\n" for key, value in call.arguments.items()
    )


DIALECT = Dialect(
    "glm",
    accepts=frozenset({"hermes"}),
    style=render,
    families="GLM 4.5 and later, Poolside",
    rank=8,
    examples=(
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days</arg_key>"
        "<arg_value>3</arg_value></tool_call>",
    ),
)
