"""The JSON document of the `envelope` plan."""

from ..dialect import Dialect
from ..rendering import call_rows, signed_json

DIALECT = Dialect(
    "envelope",
    accepts=frozenset({"json"}),
    style=lambda calls, nonce: signed_json({"calls": call_rows(calls), "reply": ""}, nonce),
    families="constrained emulation",
    rank=12,
)
