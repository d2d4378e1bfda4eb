"""Devstral, Ministral: `[TOOL_CALLS]name[ARGS]{...}`."""

from ...core.parsing.arguments import to_json
from ..dialect import Dialect
from ..rendering import each_between

DIALECT = Dialect(
    "devstral",
    accepts=frozenset({"mistral"}),
    style=each_between("[TOOL_CALLS]", lambda call: f"{call.name}[ARGS]{to_json(call.arguments)}", separator=""),
    result=("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
    families="Devstral, Ministral",
    rank=18,
)
