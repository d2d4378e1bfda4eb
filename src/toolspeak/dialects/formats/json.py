"""Read only, and part of other dialects: a JSON object or array without marks."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect

DIALECT = Dialect(
    "json",
    forms={
        "object": Opening("json", "bare", at_mark=True, one_call=True),
        "keyed_object": Opening("json", "weak", at_mark=True, one_call=True, keyed=True),
    },
    examples=(
        '{"name": "get_weather", "parameters": {"city": "Paris", "days": 3}}',
        '{"get_weather": {"city": "Paris", "days": 3}}',
        '{"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '
        '"{\\"city\\": \\"Paris\\", \\"days\\": 3}"}}]}',
    ),
)
