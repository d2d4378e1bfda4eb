"""Llama 3.1 to 3.3: a JSON object after `<|python_tag|>`."""

from ..dialect import Dialect, tag_openings, tokens
from ..rendering import each_between, json_object

DIALECT = Dialect(
    "llama",
    style=each_between("<|python_tag|>", lambda call: json_object(call, arguments="parameters"), separator=""),
    families="Llama 3.1 to 3.3",
    rank=13,
    tags=tag_openings("llama", "|python_tag|", "|python_start|", ends=tokens("eom_id", "eot_id", "python_end")),
)
