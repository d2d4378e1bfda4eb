"""Read only: a tool name at the start of a line, followed by arguments."""

from __future__ import annotations

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect

DIALECT = Dialect(
    "name",
    forms={"named_call": Opening("name", "bare", at_mark=True, one_call=True)},
    examples=(
        'get_weather[ARGS]{"city": "Paris", "days": 3}',
        'get_weather\n{"city": "Paris", "days": 3}',
        'call:get_weather{city: "Paris", days: 3}',
    ),
)
