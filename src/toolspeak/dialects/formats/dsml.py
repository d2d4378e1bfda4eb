"""DeepSeek V3.2 and V4: like `invoke`, with the prefix `｜DSML｜` and an attribute for the type."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.types import JSONValue, ToolCall
from ..dialect import Dialect
from ..rendering import invoke_element, tag_text


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<invoke>` elements with DeepSeek's DSML prefix and type attributes."""

    def parameter(key: str, value: JSONValue) -> str:
        kind = "true" if isinstance(value, str) else "false"
        return f'<｜DSML｜parameter name="{key}" string="{kind}">{tag_text(value)}</｜DSML｜parameter>'

    return "\n".join(invoke_element(call, parameter, "｜DSML｜") for call in calls)


DIALECT = Dialect(
    "dsml",
    accepts=frozenset({"tool_calls", "tags"}),
    style=render,
    before="<｜DSML｜tool_calls>\n",
    after="\n</｜DSML｜tool_calls>",
    families="DeepSeek V3.2 and V4",
    rank=6,
    examples=(
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        '<｜DSML｜r:tool_calls>\n<｜DSML｜r:invoke name="get_weather">\n'
        '<｜DSML｜r:parameter name="city" string="true">Paris</｜DSML｜r:parameter>\n'
        '<｜DSML｜r:parameter name="days" string="false">3</｜DSML｜r:parameter>\n'
        "</｜DSML｜r:invoke>\n</｜DSML｜r:tool_calls>",
    ),
)
