"""Read only: JSON or tags inside `<dots_function_call>`."""

from ..dialect import Dialect, tag_openings

DIALECT = Dialect(
    "dots",
    families="dots",
    tags=tag_openings("dots", "dots_function_call"),
)
