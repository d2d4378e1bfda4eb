"""LongCat: JSON or pairs inside `<longcat_tool_call>`."""

from ..dialect import Dialect, tag_openings
from ..rendering import between

DIALECT = Dialect(
    "longcat",
    style=between("<longcat_tool_call>", "</longcat_tool_call>"),
    families="LongCat",
    rank=32,
    tags=tag_openings("longcat", "longcat_tool_call"),
)
