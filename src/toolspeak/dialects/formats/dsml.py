"""DeepSeek V3.2 and V4: like `invoke`, with the prefix `｜DSML｜` and an attribute for the type."""

from ..dialect import Dialect
from ..rendering import invoke

DIALECT = Dialect(
    "dsml",
    accepts=frozenset({"tool_calls", "tags"}),
    style=invoke("｜DSML｜", lambda value: ' string="true"' if isinstance(value, str) else ' string="false"'),
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
