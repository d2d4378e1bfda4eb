"""Inkling: a JSON object after `<|content_invoke_tool_json|>`."""

from ..dialect import Dialect, tag_openings
from ..rendering import between

DIALECT = Dialect(
    "inkling",
    style=between("<|content_invoke_tool_json|>", "<|end_message|>", arguments="args"),
    families="Inkling",
    rank=34,
    tags=tag_openings("inkling", "|content_invoke_tool_json|"),
)
