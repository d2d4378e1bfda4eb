"""Goose, forge: a line of JSON."""

from ..dialect import Dialect
from ..rendering import each_call, signed_json

DIALECT = Dialect(
    "tool_line",
    accepts=frozenset({"json"}),
    style=each_call(lambda call, nonce: signed_json({"tool": call.name, "args": call.arguments}, nonce)),
    result=("```json result\n", "\n```"),
    families="goose, forge",
    rank=1,
)
