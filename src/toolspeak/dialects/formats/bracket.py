"""MiniMax, agents: a JSON object inside `[TOOL_CALL]`."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..rendering import between

DIALECT = Dialect(
    "bracket",
    style=between("[TOOL_CALL]", "[/TOOL_CALL]"),
    families="MiniMax, agents",
    rank=38,
    literals={
        f"[{name}]": Opening("bracket", stops=(f"[/{name}]",))
        for name in ("TOOL_CALL", "tool_call", "FUNCTION_CALL", "function_call")
    },
    lines={"TOOL_CALL\n": Opening("bracket", stops=("/TOOL_CALL",))},
)
