"""Typed output: the JSON schema of a type, and the conversion of a model's answer to a value of that type.

A type is a dataclass, a `TypedDict`, a msgspec struct, a pydantic model, a plain annotation such as `list[int]`, or a
JSON schema. This module never imports pydantic.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import isroutine
from typing import Any, cast, get_args

import msgspec

from ..core.json_repair.whole_text import complete_documents
from ..core.schema.argument_schema import ArgumentSchema
from ..core.schema.work_limit import WorkLimit
from ..core.types import JSONObject, JSONValue, Note
from ..errors import UsageError
from ..parsing import parse
from ..tools.function_schemas import convert_argument, type_schemas

_MAX_PROBLEM_CHARS = 500
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_FENCE = "```"
_REASONING_END = "</think>"

_RULE = (
    "When the task is done, your final answer must be one JSON value that fits this JSON schema, and nothing else:\n{}"
)
_REPAIR = (
    "Your answer cannot be used: {}. Answer again with one JSON value that fits this JSON schema, without any other "
    "text:\n{}"
)


class ParsedOutput(msgspec.Struct, frozen=True):
    """The value in an answer, or the problem if there is none."""

    value: Any = None
    notes: tuple[Note, ...] = ()
    problem: str = ""


class OutputType:
    def __init__(self, kind: Any) -> None:
        name = "output" if isinstance(kind, Mapping) else getattr(kind, "__name__", "") or "output"
        self._name = _NOT_IN_NAMES.sub("_", name)[:64]
        self._is_text = kind is str
        schema, self._convert = _schema_and_converter(kind)
        self._aligner = ArgumentSchema.of(schema, any_value=True)
        self._schema_text = msgspec.json.encode(schema).decode()
        self._is_object = schema.get("type") == "object" or "properties" in schema
        self._schema = schema
        #: Whether to ask the upstream to enforce the schema. Turned off if it rejects the request.
        self.enforce = True

    @property
    def rule(self) -> str:
        return "" if self._is_text else _RULE.format(self._schema_text)

    def repair_prompt(self, problem: str) -> str:
        return _REPAIR.format(problem, self._schema_text)

    @property
    def request_fields(self) -> JSONObject:
        """The request fields that make an upstream enforce the schema. Upstreams require an object."""
        if not self.enforce or not self._is_object:
            return {}
        return {"response_format": {"type": "json_schema", "json_schema": {"name": self._name, "schema": self._schema}}}

    def parse(self, text: str) -> ParsedOutput:
        """Find the last JSON value in an answer that fits the type.

        There may be other text, or a code fence, around it. The model's reasoning is not searched.
        """
        if self._is_text:
            text = _without_reasoning(text)
            return ParsedOutput(text) if text.strip() else ParsedOutput(problem="it is empty")
        problem = ""
        for value, notes in reversed(list(_values(text))):
            parsed = self._fit(value, notes)
            if not parsed.problem:
                return parsed
            problem = problem or parsed.problem
        return ParsedOutput(problem=problem or "it contains no complete JSON value")

    def _fit(self, value: JSONValue, notes: tuple[Note, ...]) -> ParsedOutput:
        aligned = self._aligner.coerce(value, work=WorkLimit())
        if aligned.problems:
            return ParsedOutput(problem="; ".join(aligned.problems)[:_MAX_PROBLEM_CHARS])
        try:
            converted = self._convert(aligned.value)
        except Exception as error:  # a validator of the caller may raise anything
            detail = " ".join(str(error).split())[:_MAX_PROBLEM_CHARS]
            return ParsedOutput(problem=detail or type(error).__name__)
        return ParsedOutput(converted, (*notes, *aligned.notes))


def _values(text: str) -> Iterator[tuple[JSONValue, tuple[Note, ...]]]:
    """Yield the JSON values in an answer: the whole text if it is JSON, else each object and array in it."""
    text = text.strip()
    is_fenced = text.startswith(_FENCE) and text.endswith(_FENCE)
    for whole in (text, text.removesuffix(_FENCE).partition("\n")[2]) if is_fenced else (text,):
        try:
            yield msgspec.json.decode(whole), ()
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            continue
        return
    note = Note("output_extracted", "the answer was not only JSON; the last value in it that fits was used")
    for document in complete_documents(_without_reasoning(text)):
        yield document.value, (note, *document.notes)


def _without_reasoning(text: str) -> str:
    # The opening tag may be missing, because some chat templates put it into the prompt.
    return parse(text.rpartition(_REASONING_END)[2], ()).text


def _schema_and_converter(kind: Any) -> tuple[JSONObject, Callable[[JSONValue], Any]]:
    if isinstance(kind, Mapping):
        return _checked(dict(cast("Mapping[str, JSONValue]", kind))), lambda value: value
    if kind is None or isinstance(kind, str | int | float | list | tuple) or isroutine(kind):
        hint = "pass a dataclass, a TypedDict, a pydantic model, an annotation such as list[int], or a JSON schema"
        raise UsageError(f"`output_type` must be a type, not {kind!r:.80}", hint=hint)
    if _uses_pydantic(kind):
        return _with_pydantic(kind)
    try:
        schemas, definitions = type_schemas({"output_type": kind}, "the agent")
    except UsageError:
        if "pydantic" not in sys.modules:
            raise
        return _with_pydantic(kind)
    schema = schemas["output_type"]
    root = schema.get("$ref", "")
    if root:  # upstreams that enforce a schema require an object at its root
        schema = cast("JSONObject", definitions[root.rpartition("/")[2]])
    refers = b'"$ref"' in msgspec.json.encode(schema)
    return {**schema, "$defs": definitions} if refers else schema, lambda value: convert_argument(value, kind)


def _checked(schema: JSONObject) -> JSONObject:
    """Check a schema of the caller. In schemas of tools, by contrast, what is wrong is ignored."""
    for note in ArgumentSchema.of(schema).notes:
        wrong = note.detail.rpartition(": ")[2]
        raise UsageError(f"`output_type` is not a JSON schema of draft 2020-12: {wrong} is wrong")
    return schema


def _uses_pydantic(kind: Any) -> bool:
    """Whether a type is a pydantic model, dataclass or adapter, or contains one."""
    if hasattr(kind, "__pydantic_core_schema__") or type(kind).__name__ == "TypeAdapter":
        return True
    return any(map(_uses_pydantic, get_args(kind)))


def _with_pydantic(kind: Any) -> tuple[JSONObject, Callable[[JSONValue], Any]]:
    adapter: Any = kind
    try:
        if type(kind).__name__ != "TypeAdapter":
            adapter = cast("Any", sys.modules["pydantic"]).TypeAdapter(kind)
        schema = cast("JSONObject", adapter.json_schema())
    except Exception as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"`output_type` has no JSON schema: {detail}") from None
    return schema, lambda value: adapter.validate_json(msgspec.json.encode(value))
