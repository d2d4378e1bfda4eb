"""Models behind LM Studio: a JSON object inside `[TOOL_REQUEST]`, or after `[name]`."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..rendering import between

_STOPS = ("[END_TOOL_REQUEST]",)

DIALECT = Dialect(
    "lmstudio",
    style=between("[TOOL_REQUEST]", "[END_TOOL_REQUEST]"),
    families="models behind LM Studio",
    rank=35,
    literals={"[TOOL_REQUEST]": Opening("lmstudio", stops=_STOPS)},
    forms={"named_request": Opening("lmstudio", "weak", stops=_STOPS)},
)
