"""An answer that must be JSON: is it, and if not quite, what does it mean?

Only for plans in which the upstream cannot be told the form, since a call would not fit it.
"""

from __future__ import annotations

import msgspec

from ...core.json_repair.whole_text import loads
from ...core.schema.arguments import ArgumentSchema
from ...core.types import JSONValue, Note, ResponseFormat, is_object


class Formatted(msgspec.Struct, frozen=True):
    """The text to give out, what was repaired, and what is still wrong."""

    text: str
    notes: tuple[Note, ...] = ()
    problem: str = ""


def checked_format(text: str, wanted: ResponseFormat) -> Formatted:
    """The answer as strict JSON that fits what was asked for; one that is and does already stays as it is."""
    try:
        value, notes = _read(text)
    except ValueError:
        return Formatted(text, problem="the answer is not JSON")
    if wanted.schema is None:
        problem = "" if is_object(value) else "the answer is not a JSON object"
    else:
        aligned = ArgumentSchema.of(wanted.schema).align(value)
        value, notes, problem = aligned.value, (*notes, *aligned.notes), "; ".join(aligned.problems)
    if problem:
        return Formatted(text, problem=problem)
    return Formatted(msgspec.json.encode(value).decode(), notes) if notes else Formatted(text)


def _read(text: str) -> tuple[JSONValue, tuple[Note, ...]]:
    """The value in the text, and what had to be done to find it."""
    try:
        return msgspec.json.decode(text), ()
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # Not JSON, half of a surrogate pair, too deep: what the lenient reader makes of it counts.
        return loads(text), (Note("format_repaired", "the answer was not strict JSON"),)
