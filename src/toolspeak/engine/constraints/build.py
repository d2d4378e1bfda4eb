"""Build constraints for constrained decoding: a JSON schema or a grammar for the whole answer.

A constraint describes a JSON document (a decision, an envelope or a reply in a response format) or, for inline calls,
prose with calls in a dialect. It is written in the flavour that the upstream supports. A schema keyword that the
flavour cannot express is dropped with a note, because answers are always validated afterwards.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from ...core.bounded_cache import bounded_cache
from ...core.schema.json_values import encode_json, json_text
from ...core.types import AnswerFrame, JSONObject, JSONValue, Note, Tool, ToolChoice, is_array, is_object, tools_from
from ...errors import UsageError
from .dialect_grammar import call_template, marked_gbnf
from .grammars import framed_gbnf, gbnf, lark
from .schema_writer import plain, strict
from .shapes import NULL, TEXT, AnyValue, Array, Fixed, Ledger, Member, Object, Shape, Text, Union, shape_of

Flavour = Literal["openai_strict", "json_schema", "gbnf", "lark"]

#: Maximum calls per turn. Models make two to eight parallel calls in practice; the limit stops endless repetition.
MAX_CALLS = 16
#: Maximum length of the text that accompanies calls, in flavours that can limit it separately from a reply.
MAX_TEXT_WITH_CALLS = 240
#: Maximum size of a specification whose constraint is cached, and of all of them. The cache stays below 32 MiB.
CACHED_SOURCE_BYTES, CACHED_TOTAL_BYTES = 128 * 1024, 1024 * 1024


_NO_TEXT, _SOME_TEXT = Fixed(("",)), Text(low=1)


class Constraint(msgspec.Struct, frozen=True):
    """A constraint on the model's answer, enforced by the upstream."""

    flavour: Flavour
    #: Set for the flavours `openai_strict` and `json_schema`.
    schema: JSONValue = None
    #: Set for the flavours `gbnf` and `lark`.
    grammar: str = ""
    #: Notes on schema keywords that are not enforced.
    notes: tuple[Note, ...] = ()
    #: `decision`, `envelope`, `inline` or `response`.
    name: str = "response"
    #: The parts of the answer that the grammar leaves out.
    frame: AnswerFrame | None = None


class _ConstraintSpec(msgspec.Struct, frozen=True):
    """The specification of a constraint; its JSON encoding is the cache key."""

    name: str
    flavour: Flavour
    tools: tuple[tuple[str, JSONValue], ...] = ()
    low: int = 0
    high: int = 0
    nonce: str | None = None
    #: A tuple with the reply schema, or an empty one; `(None,)` means any object.
    reply: tuple[JSONValue, ...] = ()
    #: The dialect of inline calls.
    dialect: str = ""
    #: Whether the upstream adds the parts of an envelope that are known beforehand.
    framed: bool = False


def decision_constraint(
    tools: Iterable[Tool | Mapping[str, JSONValue]], choice: ToolChoice, flavour: Flavour, nonce: str | None = None
) -> Constraint:
    """Build a constraint for `{"tools": [{"name": N, "arguments": {...}}]}` with the calls that `choice` allows.

    Raises `UsageError` if `choice` demands a call that no tool can make, `SchemaError` for an unusable schema.
    """
    schemas, low, high = _callable_tools(tools, choice)
    return _compile_cached(_ConstraintSpec("decision", flavour, schemas, low, high, nonce))


def envelope_constraint(
    tools: Iterable[Tool | Mapping[str, JSONValue]],
    choice: ToolChoice,
    flavour: Flavour,
    reply_schema: JSONValue = None,
    nonce: str | None = None,
    framed: bool = False,
) -> Constraint:
    """Build a constraint for `{"calls": [{"name": N, "arguments": {...}}], "reply": "..."}`, with keys in this order.

    With a `reply_schema`, `reply` matches that schema if there are no calls, and is null otherwise. If it is `framed`,
    a GBNF grammar leaves out the text before the first call, and what follows the last call if there is one.
    Raises `UsageError` if `choice` demands a call that no tool can make, `SchemaError` for an unusable schema.
    """
    schemas, low, high = _callable_tools(tools, choice)
    reply = () if reply_schema is None else (reply_schema,)
    framed = framed and flavour == "gbnf" and high > 0
    return _compile_cached(_ConstraintSpec("envelope", flavour, schemas, low, high, nonce, reply, framed=framed))


def inline_constraint(
    tools: Iterable[Tool | Mapping[str, JSONValue]],
    choice: ToolChoice,
    flavour: Flavour,
    dialect: str,
    nonce: str | None = None,
) -> Constraint | None:
    """Build a constraint for prose, calls in the dialect, or both; no prose is allowed if `choice` demands a call.

    Returns None if the dialect cannot be enforced: this requires GBNF and a dialect that writes JSON after a
    distinctive opening mark. Raises `UsageError` if `choice` demands a call that no tool can make, `SchemaError` for
    an unusable schema.
    """
    schemas, low, high = _callable_tools(tools, choice)
    if flavour != "gbnf" or not high:
        return None
    constraint = _compile_cached(_ConstraintSpec("inline", flavour, schemas, low, high, nonce, dialect=dialect))
    return constraint if constraint.grammar else None


def response_constraint(schema: JSONValue, flavour: Flavour) -> Constraint:
    """Build a constraint for a JSON document that matches the schema; `None` allows any object."""
    return _compile_cached(_ConstraintSpec("response", flavour, reply=(schema,)))


def _callable_tools(
    tools: Iterable[Tool | Mapping[str, JSONValue]], choice: ToolChoice
) -> tuple[tuple[tuple[str, JSONValue], ...], int, int]:
    """Return the schemas of the allowed tools, and the minimum and maximum number of calls."""
    tool_list = tools_from(tools) or ()
    schemas = {tool.name: tool.parameters for tool in tool_list if choice.permits(tool.name)}
    if choice.demands and not schemas:
        demanded_names = ", ".join(f"`{name}`" for name in choice.allowed) or "a call"
        raise UsageError(f"`tool_choice` demands {demanded_names}, but the request has no such tool")
    high = 0 if not schemas else 1 if choice.single else MAX_CALLS
    return tuple(schemas.items()), int(choice.demands), high


def _compile_cached(spec: _ConstraintSpec) -> Constraint:
    source = encode_json(spec)  # if a schema is not valid JSON, compiling it raises the error
    return _compile(spec) if source is None or len(source) > CACHED_SOURCE_BYTES else _compile_encoded(source)


@bounded_cache(CACHED_TOTAL_BYTES)
def _compile_encoded(source: bytes) -> Constraint:
    return _compile(msgspec.json.decode(source, type=_ConstraintSpec))


def _compile(spec: _ConstraintSpec) -> Constraint:
    ledger = Ledger()
    if spec.dialect:
        return Constraint("gbnf", grammar=_inline(spec, ledger), notes=ledger.all(), name=spec.name)
    if spec.framed:
        return _framed_envelope(spec, ledger)
    shape = _DOCUMENTS[spec.name](spec, ledger)
    if spec.flavour in _GRAMMARS:
        text = _GRAMMARS[spec.flavour](shape, ledger)
        return Constraint(spec.flavour, grammar=text, notes=ledger.all(), name=spec.name)
    flavour: Flavour = "json_schema"
    schema = None
    if spec.flavour == "openai_strict":
        schema = strict(shape, "answer", ledger, _FRAME_LEVELS[spec.name])
        flavour = "json_schema" if schema is None else "openai_strict"
    schema = schema or plain(shape, "answer", ledger)
    return Constraint(flavour, schema=schema, notes=ledger.all(), name=spec.name)


def _shape(spec: _ConstraintSpec, schema: JSONValue, where: str, ledger: Ledger) -> Shape:
    return shape_of(schema, where, ledger, exact=spec.flavour in _GRAMMARS)


def _array_of_calls(spec: _ConstraintSpec, ledger: Ledger, low: int, high: int) -> Array:
    options: list[Shape] = []
    for name, parameters in spec.tools:
        arguments = Member("arguments", _shape(spec, parameters, name, ledger), label=name)
        options.append(Object((Member("name", Fixed((name,))), arguments)))
    items = Union(tuple(options)) if len(options) > 1 else options[0] if options else TEXT
    return Array(items, low, high)


def _with_nonce(spec: _ConstraintSpec, *members: Member) -> Object:
    mark = () if spec.nonce is None else (Member("nonce", Fixed((spec.nonce,))),)
    return Object((*mark, *members))


def _envelope(spec: _ConstraintSpec, ledger: Ledger) -> Shape:
    """Return the shape of an envelope: calls and a reply or, if the flavour allows alternatives, one or the other."""
    if spec.reply:
        reply, text_with_calls = _shape(spec, spec.reply[0], "reply", ledger), NULL
    else:
        # Limit the text beside calls, because small models would not stop. A required call gets no text at all.
        reply, text_with_calls = TEXT, _NO_TEXT if spec.low else Text(high=MAX_TEXT_WITH_CALLS)

    def document(low: int, high: int, reply_shape: Shape) -> Shape:
        calls = _array_of_calls(spec, ledger, low, high) if high else Array(AnyValue(), 0, 0)
        return _with_nonce(spec, Member("calls", calls), Member("reply", reply_shape))

    if spec.low or not spec.high:
        return document(spec.low, spec.high, text_with_calls if spec.low else reply)
    if spec.flavour == "openai_strict" or (spec.flavour == "json_schema" and not spec.reply):
        # Strict mode does not allow alternatives at the root, so calls and reply are independent.
        return document(0, spec.high, Union((NULL, reply)) if spec.reply else TEXT)
    # If there are no calls, the reply must not be empty.
    return Union((document(1, spec.high, text_with_calls), document(0, 0, reply if spec.reply else _SOME_TEXT)))


def _framed_envelope(spec: _ConstraintSpec, ledger: Ledger) -> Constraint:
    calls = _array_of_calls(spec, ledger, 1, spec.high)
    reply = None
    if not spec.low:
        reply = Member("reply", _shape(spec, spec.reply[0], "reply", ledger) if spec.reply else _SOME_TEXT)
    text = framed_gbnf(calls, reply, ledger)
    mark = "" if spec.nonce is None else f'"nonce":{json_text(spec.nonce)},'
    frame = AnswerFrame(f'{{{mark}"calls":[', f',"reply":{"null" if spec.reply else json_text("")}}}')
    return Constraint("gbnf", grammar=text, notes=ledger.all(), name=spec.name, frame=frame)


def _inline(spec: _ConstraintSpec, ledger: Ledger) -> str:
    template = call_template(spec.dialect, [name for name, _ in spec.tools], spec.nonce)
    if template is None:
        return ""
    shapes = [(name, _shape(spec, parameters, name, ledger)) for name, parameters in spec.tools]
    return marked_gbnf(template, shapes, spec.low, spec.high, ledger)


_GRAMMARS: dict[str, Callable[[Shape, Ledger], str]] = {"gbnf": gbnf, "lark": lark}
#: Levels of nested objects that belong to the document itself, not to a tool's arguments: the root and the calls.
_FRAME_LEVELS = {"decision": 2, "envelope": 2, "response": 1}
_DOCUMENTS: dict[str, Callable[[_ConstraintSpec, Ledger], Shape]] = {
    "decision": lambda spec, ledger: _with_nonce(
        spec, Member("tools", _array_of_calls(spec, ledger, spec.low, spec.high))
    ),
    "envelope": _envelope,
    "response": lambda spec, ledger: _shape(spec, spec.reply[0], "reply", ledger),
}


#: The prefix by which llama.cpp and SGLang recognise a Lark grammar.
_LARK_MARK = "%llguidance {}\n"


def _json_schema(constraint: Constraint) -> JSONObject:
    return {"name": constraint.name, "schema": constraint.schema, "strict": constraint.flavour == "openai_strict"}


def _response_format(constraint: Constraint) -> JSONObject:
    return {"response_format": {"type": "json_schema", "json_schema": _json_schema(constraint)}}


def _grammar_as(field: str) -> "_Write":
    return lambda constraint: {field: (_LARK_MARK if constraint.flavour == "lark" else "") + constraint.grammar}


def _structured(field: str) -> "_Write":
    return lambda constraint: {"structured_outputs": {field: constraint.schema or constraint.grammar}}


_Write = Callable[[Constraint], JSONObject]
#: By protocol or server: how to send a schema, and how to send a grammar if grammars are supported. OpenAI itself does
#: not support grammars, but OpenAI-compatible servers such as llama.cpp do.
_WIRE: dict[str, tuple[_Write, _Write | None]] = {
    "openai": (_response_format, _grammar_as("grammar")),
    "openai_chat": (_response_format, _grammar_as("grammar")),
    "openai_responses": (lambda each: {"text": {"format": {"type": "json_schema", **_json_schema(each)}}}, None),
    "llama.cpp": (_response_format, _grammar_as("grammar")),
    "sglang": (_response_format, _grammar_as("ebnf")),
    "vllm": (_structured("json"), _structured("grammar")),
    "ollama": (lambda each: {"format": each.schema}, None),
    "anthropic": (
        lambda each: {"output_config": {"format": {"type": "json_schema", "schema": _without_bounds(each.schema)}}},
        None,
    ),
    "gemini": (
        lambda each: {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": each.schema}},
        None,
    ),
}
#: Keywords that Anthropic's structured outputs reject, except for a `minItems` of 1.
_BOUNDS = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems".split()
)


def _without_bounds(schema: JSONValue) -> JSONValue:
    """Remove numeric and length bounds from a schema written by this package. Property names are never removed."""
    if not is_object(schema):
        return schema
    result: JSONObject = {}
    for key, value in schema.items():
        if key == "properties" and is_object(value):
            result[key] = {name: _without_bounds(each) for name, each in value.items()}
        elif key == "anyOf" and is_array(value):
            result[key] = [_without_bounds(each) for each in value]
        elif key in ("items", "additionalProperties"):
            result[key] = _without_bounds(value)
        elif key not in _BOUNDS or (key == "minItems" and value == 1):
            result[key] = value
    return result


def wire_options(constraint: Constraint, protocol: str) -> JSONObject:
    """Return the request fields that make this protocol or server enforce the constraint.

    Raises `UsageError` if the protocol is unknown or does not support grammars.
    """
    if protocol not in _WIRE:
        raise UsageError(f"unknown protocol `{protocol}`", hint=f"use one of {', '.join(_WIRE)}")
    schema, grammar = _WIRE[protocol]
    write = grammar if constraint.grammar else schema
    if write is None:
        raise UsageError(f"`{protocol}` does not accept grammars", hint="use `json_schema` or `openai_strict`")
    return write(constraint)
