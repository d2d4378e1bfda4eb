"""Phi-4-mini, Firefunction: a JSON array after `functools`."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..rendering import fence, json_list

DIALECT = Dialect(
    "phi",
    accepts=frozenset({"phi", "action"}),
    style=lambda calls, nonce: (
        f"functools{json_list(calls, None)}" if nonce is None else fence(json_list(calls, None), "tool_call", nonce)
    ),
    families="Phi-4-mini, Firefunction",
    rank=25,
    lines={"functools[": Opening("phi", overlap=1)},
)
