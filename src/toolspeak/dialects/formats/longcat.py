"""LongCat: JSON or pairs inside `<longcat_tool_call>`."""

from ..dialect import Dialect, tag_openings
from ..rendering import between

DIALECT = Dialect(
    "longcat",
    style=between("<longcat_tool_call>", "</longcat_tool_call>"),
    families="LongCat",
    rank=32,
    tags=tag_openings("longcat", "longcat_tool_call"),
    examples=(
        '<longcat_tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}</longcat_tool_call>',
        "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
        "<longcat_arg_value>Paris</longcat_arg_value>\n<longcat_arg_key>days</longcat_arg_key>\n"
        "<longcat_arg_value>3</longcat_arg_value>\n</longcat_tool_call>",
    ),
)
