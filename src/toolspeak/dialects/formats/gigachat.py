"""GigaChat 3: a JSON object after `<|function_call|>`."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect, tag_openings
from ..rendering import each_between, json_object

DIALECT = Dialect(
    "gigachat",
    style=each_between("<|function_call|>", json_object, separator=""),
    families="GigaChat 3",
    rank=30,
    tags=tag_openings("gigachat", "|function_call|", "|message_sep|", preamble="function call"),
    lines={"function call{": Opening("gigachat", "weak", one_call=True, overlap=1)},
    separators=frozenset({"|message|", "|role_sep|"}),
)
