"""Response formats: ask for an answer in JSON, check it and repair it."""

import msgspec

from ...core.json_repair.parser import UNSAFE_NOTES, value_changes
from ...core.json_repair.whole_text import ParseResult, complete_documents
from ...core.schema.argument_schema import ArgumentSchema
from ...core.schema.json_values import fold_key, has_respelled_float
from ...core.schema.work_limit import WorkLimit
from ...core.types import JSONValue, Note, ResponseFormat, is_object
from ...errors import SchemaError
from ..prompting.escaping import json_text
from ..refusals.classifier import classify

#: Added to the end of long conversations.
FORMAT_REMINDER = "Answer with JSON only, as described at the beginning."
_REPAIRED = Note("format_repaired", "the answer was not strict JSON")
#: The code of a note on text that an upstream has marked as a refusal, or that is recognised as one.
REFUSAL = "refusal"
_UNWRAPPED = Note("format_unwrapped", "the value was wrapped in an object with the name of the schema")


class FormattedAnswer(msgspec.Struct, frozen=True):
    """A checked JSON answer: the text to emit, notes on repairs, and the problem if the answer is unusable."""

    text: str
    notes: tuple[Note, ...] = ()
    problem: str = ""


def format_rule(response_format: ResponseFormat, start: str = "The") -> str:
    """Return the sentences that ask a model for a response format.

    >>> format_rule(ResponseFormat())
    'The whole answer must be one JSON object and nothing else.'
    """
    schema = response_format.schema
    kind = "object" if schema is None else "value"
    rule = f"{start} whole answer must be one JSON {kind} and nothing else."
    return rule if schema is None else f"{rule} It must fit this JSON schema:\n{json_text(schema)}"


def compile_format(response_format: ResponseFormat) -> ArgumentSchema:
    """Return the compiled schema of a response format.

    Raises:
        SchemaError: the format has no usable schema.
    """
    try:
        compiled = ArgumentSchema.of(response_format.schema, any_value=True)
        given, used = compiled.parameters, compiled.schema
        if is_object(given) and "type" in given and is_object(used) and "type" not in used:
            raise SchemaError(f"the schema has the unknown type {given['type']!r:.80}")
    except SchemaError as error:
        reason = str(error.args[0]).replace("`parameters`", "the schema")
        hint = "simplify the schema, or ask for any JSON object"
        raise SchemaError(f"the response format cannot be used: {reason}", hint=hint) from error
    return compiled


def is_refusal(text: str) -> bool:
    """Whether an answer without JSON declines the request for reasons of safety. Asking again would not help."""
    return classify(text).category == "safety" and not _documents(text)


def check_format(text: str, response_format: ResponseFormat) -> FormattedAnswer:
    """Check an answer against the requested format and repair it if needed. A correct answer stays unchanged.

    A repair never changes a value: JSON that is cut off or ambiguous is a problem, not a guess. If the text contains
    several JSON values, exactly one of them must fit.
    """
    work = WorkLimit()  # for all values together
    documents = [_checked(each, response_format, work) for each in _documents(text)]
    fitting = [each for each in documents if not each[2]]
    if not fitting:
        return FormattedAnswer(text, problem=documents[-1][2] if documents else "the answer is not JSON")
    value, notes, _ = fitting[0]
    if any(other != value for other, *_ in fitting):
        return FormattedAnswer(text, problem="the answer contains several different JSON values")
    return FormattedAnswer(msgspec.json.encode(value).decode(), notes) if notes else FormattedAnswer(text)


def _documents(text: str) -> list[ParseResult]:
    """Return the JSON values of an answer: the whole text, or else the objects and arrays in it."""
    try:
        return [ParseResult(msgspec.json.decode(text), "complete", (), len(text), text)]
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # The text is not strict JSON, has a lone surrogate or is too deeply nested: try the lenient parser.
        found = complete_documents(text)
        return [msgspec.structs.replace(each, notes=(_REPAIRED, *each.notes)) for each in found]


def _doubt(document: ParseResult, notes: tuple[Note, ...] = ()) -> str:
    """Return the problem if one of the repairs, or of the changes in `notes`, may have changed a value."""
    codes = {note.code for note in (*document.notes, *notes)}
    doubtful = (codes & UNSAFE_NOTES) | value_changes(codes)
    if "number_to_string" in codes and ("number_format" in codes or has_respelled_float(document.text)):
        doubtful |= {"spelling_lost"}
    code = min(doubtful, default="")
    return f"the JSON is malformed ({code.replace('_', ' ')})" if code else ""


def _checked(
    document: ParseResult, response_format: ResponseFormat, work: WorkLimit
) -> tuple[JSONValue, tuple[Note, ...], str]:
    """Align a value with the schema of the format, if it has one. Return it with notes, and the problem if any."""
    value, notes = document.value, document.notes[:1]
    if problem := _doubt(document):
        return value, (), problem
    if response_format.schema is None:
        return value, notes, "" if is_object(value) else "the answer is not a JSON object"
    schema = compile_format(response_format)
    aligned = schema.coerce(value, work=work)
    if (aligned.problems or aligned.notes) and _is_wrapped(value, response_format):
        inner = schema.coerce(*value.values(), work=work)
        if not inner.problems:
            aligned, notes = inner, (*notes, _UNWRAPPED)
    problem = "; ".join(aligned.problems) or _doubt(document, aligned.notes)
    for words, own in (("`arguments` are", "the answer is"), ("`arguments`", "the answer")):
        problem = problem.replace(words, own)
    return aligned.value, (*notes, *aligned.notes), problem


def _is_wrapped(value: JSONValue, response_format: ResponseFormat) -> bool:
    """Whether a value has one member, with the name of the schema as its key."""
    title = response_format.schema.get("title") if is_object(response_format.schema) else None
    names = [fold_key(name) for name in (response_format.name, title) if name and isinstance(name, str)]
    return is_object(value) and len(value) == 1 and fold_key(next(iter(value))) in names
