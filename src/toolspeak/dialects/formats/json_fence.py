"""Read only: JSON in a code fence that may contain anything else."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect

DIALECT = Dialect(
    "json_fence",
    fences=dict.fromkeys(("", "json", "jsonc", "json5", "JSON"), Opening("json_fence", "weak")),
)
