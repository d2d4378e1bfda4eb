"""The default contract: JSON in a code fence with the info string `json action`."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..rendering import each_call, fence, json_object

_FENCE = Opening("action")

DIALECT = Dialect(
    "action",
    style=each_call(lambda call, nonce: fence(json_object(call, "tool", "parameters"), "json action", nonce)),
    result=("```json result\n", "\n```"),
    families="the default contract",
    rank=0,
    fences={
        **dict.fromkeys(("json action", "action", "tool", "tool_call", "tool-call", "tool_calls"), _FENCE),
        **dict.fromkeys(("json tool_call", "function_call", "function-call", "functioncall", "invoke"), _FENCE),
        "function": _FENCE,
        "tool_code": Opening("action", call_prefix="print("),
    },
    forms={"named_fence": _FENCE},
)
