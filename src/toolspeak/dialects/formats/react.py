"""ReAct agents: the lines `Action:` and `Action Input:`. Qwen-Agent and others use other words."""

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..line_calls import ReactReader
from ..rendering import each_call

_ACTION = Opening("react")

DIALECT = Dialect(
    "react",
    style=each_call(
        lambda call, nonce: (
            f"Action{'' if nonce is None else f' {nonce}'}: {call.name}\nAction Input: {to_json(call.arguments)}"
        )
    ),
    result=("Observation: ", ""),
    families="ReAct agents",
    rank=10,
    literals={"✿FUNCTION✿": _ACTION},
    lines=dict.fromkeys(("Call:", "Action:", "**Action:**", "**Action**:"), _ACTION),
    # Unless the word after `Action` is the nonce, it is a wrong one.
    forms={"signed_action": Opening("react", wrong_nonce=True)},
    reader=ReactReader,
)
