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
    examples=(
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]',
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}, "id": "D681PevKs"}]</s>',
        '[TOOL_CALLS]get_weather[CALL_ID]D681PevKs[ARGS]{"city": "Paris", "days": 3}',
    ),
)
