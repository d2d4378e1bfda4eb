"""Read only: a tool name at the start of a line, followed by arguments, possibly what is left of another format."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect

DIALECT = Dialect(
    "name",
    lines={"Calling tool:": Opening("name", "bare", one_call=True)},
    forms={
        "named_call": Opening("name", "bare", at_mark=True, one_call=True),
        "message": Opening("name", "bare", one_call=True),
    },
    examples=(
        'functions.get_weather:0{"city": "Paris", "days": 3}',
        'commentary to=functions.get_weather json{"city": "Paris", "days": 3}',
        'Calling tool: get_weather({"city": "Paris", "days": 3})',
        'get_weather[ARGS]{"city": "Paris", "days": 3}',
        'get_weather\n{"city": "Paris", "days": 3}',
        'call:get_weather{city: "Paris", days: 3}',
    ),
)
