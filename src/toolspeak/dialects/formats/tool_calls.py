"""Hunyuan, Jamba, Apriel: a JSON array inside `<tool_calls>`."""

from ..dialect import Dialect, tag_openings
from ..rendering import json_list

DIALECT = Dialect(
    "tool_calls",
    style=json_list,
    before="<tool_calls>",
    after="</tool_calls>",
    families="Hunyuan, Jamba, Apriel",
    rank=3,
    tags=tag_openings("tool_calls", "tool_calls", "function_calls"),
    separators=frozenset({"tool_sep"}),
    examples=(
        '<tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]</tool_calls>',
        '<tool_calls>[\n    {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n]</tool_calls>',
        "<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n</tool_calls>",
    ),
)
