"""Functionary 3.2: the line `>>>name`, then JSON arguments."""

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..rendering import each_call

DIALECT = Dialect(
    "functionary_v32",
    accepts=frozenset({"functionary"}),
    style=each_call(
        lambda call, nonce: f">>>{'' if nonce is None else f'{nonce} '}{call.name}\n{to_json(call.arguments)}",
        separator="",
    ),
    families="Functionary 3.2",
    rank=37,
    forms={"recipient": Opening("functionary", one_call=True)},
)
