"""Granite 3: a JSON array after `<|tool_call|>`. The 20B model writes `<function_call>` before each object."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect, tag_openings
from ..rendering import json_list

DIALECT = Dialect(
    "granite",
    style=json_list,
    before="<|tool_call|>",
    families="Granite 3",
    rank=22,
    tags={
        **tag_openings("granite", "|tool_call|"),
        "function_call": Opening("granite", stops=("</function_call>",), open_ended=True),
    },
)
