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
    examples=(
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">3</parameter>\n</invoke>\n</minimax:tool_call>',
        ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>Paris'
        "]<]minimax[>[</city>]<]minimax[>[<days>3]<]minimax[>[</days>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    ),
)
