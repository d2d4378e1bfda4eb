"""Hermes, Qwen 2.5 and 3, and many others: a JSON object inside `<tool_call>`."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect, tag_openings
from ..rendering import between

DIALECT = Dialect(
    "hermes",
    style=between("<tool_call>", "\n</tool_call>", after_opener="\n"),
    families="Hermes, Qwen 2.5 and 3, many others",
    rank=2,
    tags={
        **tag_openings(
            "hermes", "tool_call", "seed:tool_call", "toolcall", "tool-call", "functioncall", "tool_request"
        ),
        "tool_code": Opening("hermes", stops=("</tool_code>",), call_prefix="print("),
    },
)
