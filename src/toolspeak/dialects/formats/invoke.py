"""Claude-like models: `<invoke name="...">` with `<parameter name="...">` elements."""

from ..dialect import Dialect
from ..rendering import invoke

DIALECT = Dialect(
    "invoke",
    accepts=frozenset({"tool_calls", "tags"}),
    style=invoke(),
    before="<function_calls>\n",
    after="\n</function_calls>",
    families="Claude-like",
    rank=4,
)
