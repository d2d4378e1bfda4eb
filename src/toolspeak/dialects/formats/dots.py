"""Read only: JSON or tags inside `<dots_function_call>`."""

from ..dialect import Dialect, tag_openings

DIALECT = Dialect(
    "dots",
    families="dots",
    tags=tag_openings("dots", "dots_function_call"),
    examples=(
        '<dots_function_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}</dots_function_call>',
        "<dots_function_call><invoke name=get_weather><parameter name=city>Paris</parameter>"
        "<parameter name=days>3</parameter></invoke></dots_function_call>",
    ),
)
