"""Functionary 3.1: JSON arguments inside `<function=name>`."""

from ..dialect import Dialect
from ..rendering import each_call, function_element

DIALECT = Dialect(
    "functionary",
    accepts=frozenset({"tags"}),
    style=each_call(function_element),
    families="Functionary 3.1",
    rank=24,
)
