"""xLAM: a JSON array without marks."""

from ..dialect import Dialect
from ..rendering import signed_json

DIALECT = Dialect(
    "xlam",
    accepts=frozenset({"json"}),
    style=lambda calls, nonce: (
        "[" + ",".join(signed_json({"name": call.name, "arguments": call.arguments}, nonce) for call in calls) + "]"
    ),
    families="xLAM",
    rank=31,
)
