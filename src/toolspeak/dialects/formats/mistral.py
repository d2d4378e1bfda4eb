"""Mistral: a JSON array after `[TOOL_CALLS]`."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..rendering import json_list

_OPENING = Opening("mistral", stops=("[/TOOL_CALLS]",), ends=("[TOOL_CALLS]", "</s>"), open_ended=True)

DIALECT = Dialect(
    "mistral",
    style=json_list,
    before="[TOOL_CALLS]",
    result=("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
    families="Mistral",
    rank=17,
    literals={"[TOOL_CALLS]": _OPENING},
    lines={"TOOL_CALLS[": Opening("mistral", "weak", open_ended=True, overlap=1)},
)
