"""Apertus: a JSON array of objects whose only key is the tool name."""

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect, tokens

DIALECT = Dialect(
    "apertus",
    style=lambda calls, nonce: to_json([{call.name: call.arguments} for call in calls]),
    before="<|tools_prefix|>",
    after="<|tools_suffix|>",
    families="Apertus",
    rank=36,
    tags={"|tools_prefix|": Opening("apertus", ends=tokens("tools_suffix"), keyed=True)},
)
