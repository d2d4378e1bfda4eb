"""LFM2: a Python list of calls between tokens."""

from ..dialect import Dialect, tag_openings, tokens
from ..rendering import python_list

DIALECT = Dialect(
    "lfm2",
    style=python_list,
    before="<|tool_call_start|>",
    after="<|tool_call_end|>",
    families="LFM2",
    rank=15,
    tags=tag_openings("lfm2", "|tool_call_start|", ends=tokens("tool_call_end")),
)
