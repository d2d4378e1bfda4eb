"""MiniMax M2: like `invoke`, inside `<minimax:tool_call>`. M3 writes a token before every tag."""

from ..dialect import Dialect
from ..rendering import invoke

DIALECT = Dialect(
    "minimax",
    accepts=frozenset({"hermes", "tags"}),
    style=invoke(),
    before="<minimax:tool_call>\n",
    after="\n</minimax:tool_call>",
    families="MiniMax M2",
    rank=5,
)
