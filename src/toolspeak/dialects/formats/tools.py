"""Read only: a JSON object inside `<tools>`, a tag that usually lists the tools on offer."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect

DIALECT = Dialect(
    "tools",
    tags={"tools": Opening("tools", "weak", ("</tools>", "</tool_call>"), single=True)},
)
