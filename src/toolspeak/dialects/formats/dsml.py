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
)
