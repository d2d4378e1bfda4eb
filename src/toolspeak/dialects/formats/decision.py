"""The JSON document of the `decision` plan."""

from ..dialect import Dialect
from ..rendering import call_rows, signed_json

DIALECT = Dialect(
    "decision",
    accepts=frozenset({"json"}),
    style=lambda calls, nonce: signed_json({"tools": call_rows(calls)}, nonce),
    families="two-phase emulation",
    rank=11,
)
