"""Read only: a tool name at the start of a line, followed by arguments, possibly what is left of another format."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect

DIALECT = Dialect(
    "name",
    lines={"Calling tool:": Opening("name", "bare", one_call=True)},
    forms={
        "named_call": Opening("name", "bare", at_mark=True, one_call=True),
        "message": Opening("name", "bare", one_call=True),
    },
)
