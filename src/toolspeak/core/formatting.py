"""An answer that must be JSON: is it, and if not quite, what does it mean?

Only for plans in which the upstream cannot be told the form, since a call would not fit it. Above: `engine`.
Below: `lenient_text`, `schema`.
"""

from __future__ import annotations

import msgspec

from .lenient_text import loads
from .model import JSONValue, Note, ResponseFormat, is_object
from .schema import ArgumentSchema

__all__ = ["Formatted", "checked_format"]


class Formatted(msgspec.Struct, frozen=True):
    """The text to give out, what was repaired, and what is still wrong."""

    text: str
    notes: tuple[Note, ...] = ()
    problem: str = ""


def checked_format(text: str, wanted: ResponseFormat) -> Formatted:
    """The answer as strict JSON that fits the schema asked for; a strict one stays as it is."""
    value, strict = _read(text)
    if value is None and not strict:
        return Formatted(text, problem="the answer is not JSON")
    if wanted.schema is None:
        problem = "" if is_object(value) else "the answer is not a JSON object"
    else:
        problem = "; ".join(ArgumentSchema.of(wanted.schema).problems(value))
    if problem:
        return Formatted(text, problem=problem)
    if strict:
        return Formatted(text)
    return Formatted(msgspec.json.encode(value).decode(), (Note("format_repaired", "the answer was not strict JSON"),))


def _read(text: str) -> tuple[JSONValue, bool]:
    """The value in the text, and whether the text is strictly JSON."""
    try:
        return msgspec.json.decode(text), True
    except msgspec.DecodeError:
        pass
    try:
        return loads(text), False
    except ValueError:
        return None, False
