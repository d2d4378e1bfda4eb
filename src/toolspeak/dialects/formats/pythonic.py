"""Llama 3.2 and 4: a Python list of calls."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..rendering import fence, python_list

DIALECT = Dialect(
    "pythonic",
    accepts=frozenset({"pythonic", "action"}),
    style=lambda calls, nonce: (
        python_list(calls, None) if nonce is None else fence(python_list(calls, None), "tool_code", nonce)
    ),
    families="Llama 3.2 and 4",
    rank=14,
    forms={"python_list": Opening("pythonic", "bare", at_mark=True, one_call=True)},
)
