"""Read only: `[Calling tool: name({...})]`, as models copy it from transcripts."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect

DIALECT = Dialect(
    "calling_tool",
    literals={"[Calling tool:": Opening("calling_tool", listed=True, in_prose=True)},
    examples=(
        '[Calling tool: get_weather({"city": "Paris", "days": 3})]',
        'I will look.\n[Calling tool: get_weather(city="Paris", days=3)]',
    ),
)
