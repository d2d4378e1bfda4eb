"""Functionary 3.1: JSON arguments inside `<function=name>`."""

from ..dialect import Dialect
from ..rendering import each_call, function_element

DIALECT = Dialect(
    "functionary",
    accepts=frozenset({"tags"}),
    style=each_call(function_element),
    families="Functionary 3.1",
    rank=24,
    examples=(
        '<function=get_weather>{"city": "Paris", "days": 3}</function>',
        'I will look.\n<function=get_weather>{"city": "Paris", "days": 3}</function><|eom_id|>',
    ),
)
