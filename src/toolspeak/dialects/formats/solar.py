"""Read only: Solar Open's calls between tokens, and Sarashina's list."""

from ..dialect import Dialect, tag_openings, tokens

DIALECT = Dialect(
    "solar",
    families="Solar Open, Sarashina",
    tags=tag_openings("solar", "|tool_calls|", "|tool_call:begin|", ends=tokens("tool_call:end", "calls")),
    separators=frozenset({"|tool_call:begin|", "|tool_call:end|"}),
)
