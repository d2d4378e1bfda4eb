"""Command R7B, A: a JSON array with its own key names between tokens."""

from ...core.parsing.arguments import to_json
from ..dialect import Dialect, tag_openings, tokens

DIALECT = Dialect(
    "command_r",
    style=lambda calls, nonce: to_json(
        [
            {"tool_call_id": str(index), "tool_name": call.name, "parameters": call.arguments}
            for index, call in enumerate(calls)
        ]
    ),
    before="<|START_ACTION|>",
    after="<|END_ACTION|>",
    families="Command R7B, A",
    rank=23,
    tags=tag_openings("command_r", "|START_ACTION|", ends=tokens("END_ACTION")),
)
