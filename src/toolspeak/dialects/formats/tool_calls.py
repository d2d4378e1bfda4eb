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
)
