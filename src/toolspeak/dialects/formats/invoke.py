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
    examples=(
        '<function_calls>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">3</parameter>\n</invoke>\n</function_calls>',
        'I will look.\n\n<invoke name="get_weather"><parameter name="city">Paris</parameter>'
        '<parameter name="days">3</parameter></invoke>',
        '<atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter name="city">Paris</atem:parameter>\n'
        '<atem:parameter name="days">3</atem:parameter>\n</atem:invoke>\n</atem:function_calls>',
    ),
)
