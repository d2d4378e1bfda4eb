"""Read only, and part of other dialects: a JSON object or array without marks."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect

DIALECT = Dialect(
    "json",
    forms={
        "object": Opening("json", "bare", at_mark=True, one_call=True),
        "keyed_object": Opening("json", "weak", at_mark=True, one_call=True, keyed=True),
    },
)
