"""Read only: `[Calling tool: name({...})]`, as models copy it from transcripts."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect

DIALECT = Dialect(
    "calling_tool",
    literals={"[Calling tool:": Opening("calling_tool", listed=True, in_prose=True)},
)
