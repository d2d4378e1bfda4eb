"""Response formats: check and repair an answer that must be JSON."""

from __future__ import annotations

import msgspec

from ...core.json_repair.whole_text import loads
from ...core.schema.argument_schema import ArgumentSchema
from ...core.schema.work_limit import WorkLimit
from ...core.types import JSONValue, Note, ResponseFormat, is_object


class FormattedAnswer(msgspec.Struct, frozen=True):
    """A checked JSON answer: the text to emit, notes on repairs, and the problem if the answer is unusable."""

    text: str
    notes: tuple[Note, ...] = ()
    problem: str = ""


def check_format(text: str, response_format: ResponseFormat) -> FormattedAnswer:
    """Check an answer against the requested format and repair it if needed. A correct answer stays unchanged."""
    try:
        value, notes = _parse_json(text)
    except ValueError:
        return FormattedAnswer(text, problem="the answer is not JSON")
    if response_format.schema is None:
        problem = "" if is_object(value) else "the answer is not a JSON object"
    else:
        aligned = ArgumentSchema.of(response_format.schema).coerce(value, work=WorkLimit())
        value, notes, problem = aligned.value, (*notes, *aligned.notes), "; ".join(aligned.problems)
    if problem:
        return FormattedAnswer(text, problem=problem)
    return FormattedAnswer(msgspec.json.encode(value).decode(), notes) if notes else FormattedAnswer(text)


def _parse_json(text: str) -> tuple[JSONValue, tuple[Note, ...]]:
    try:
        return msgspec.json.decode(text), ()
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # The text is not strict JSON, has a lone surrogate or is too deeply nested: try the lenient parser.
        return loads(text), (Note("format_repaired", "the answer was not strict JSON"),)
