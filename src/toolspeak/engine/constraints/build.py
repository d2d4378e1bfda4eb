"""Tools as something that an upstream can enforce: a JSON schema or a grammar for the whole answer.

Three documents can be asked for: the decision of the two-phase plan, the envelope of the constrained plan, and a
reply in a format that the caller wants. Each is one shape, written in the flavour that the upstream takes. The fourth
form is that of the one-pass plan: prose, or calls in the marks of a dialect. What a flavour cannot say is loosened and
noted; answers are validated afterwards in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from ...core.types import JSONObject, JSONValue, Note, Tool, ToolChoice, is_array, is_object, tools_from
from ...errors import UsageError
from .gbnf import gbnf, lark
from .nonce_grammar import division, marked_gbnf
from .shapes import MAX_STRING, NULL, TEXT, AnyValue, Array, Fixed, Ledger, Member, Object, Shape, Text, Union, shape_of
from .strict import plain, strict

Flavour = Literal["openai_strict", "json_schema", "gbnf", "lark"]

#: Calls of one turn. Models that call in parallel make two to eight; one that does not stop is stopped here.
MAX_CALLS = 16
#: Characters of text beside calls, where that can be told from a reply.
MAX_BESIDE = 240
#: Compiled constraints kept, and the longest request for one that is kept. The results stay below 32 MiB in all.
CACHED_CONSTRAINTS = 32
CACHED_SOURCE_BYTES = 128 * 1024


_NO_TEXT, _SOME_TEXT = Fixed(("",)), Text(low=1)


class Constraint(msgspec.Struct, frozen=True):
    """What the upstream shall enforce."""

    flavour: Flavour
    #: For the two schema flavours.
    schema: JSONValue = None
    #: For the two grammars.
    grammar: str = ""
    #: What could not be expressed and was loosened.
    notes: tuple[Note, ...] = ()
    #: What the answer is: `decision`, `envelope`, `inline` or `response`.
    name: str = "response"


class _Wanted(msgspec.Struct, frozen=True):
    """A request for a constraint; encoded, it is the key under which the constraint is kept."""

    name: str
    flavour: Flavour
    tools: tuple[tuple[str, JSONValue], ...] = ()
    low: int = 0
    high: int = 0
    nonce: str | None = None
    #: In a list of one, since `null` would be no schema.
    reply: tuple[JSONValue, ...] = ()
    #: Whose marks are around the calls, where they stand among prose.
    dialect: str = ""


def decision_constraint(
    tools: Iterable[Tool | Mapping[str, JSONValue]], choice: ToolChoice, flavour: Flavour, nonce: str | None = None
) -> Constraint:
    """`{"tools": [{"name": N, "arguments": {...}}]}`, with the calls that `choice` allows.

    Raises `UsageError` if it demands a call that no tool can make, `SchemaError` for an unusable schema.
    """
    named, low, high = _calls(tools, choice)
    return _kept(_Wanted("decision", flavour, named, low, high, nonce))


def envelope_constraint(
    tools: Iterable[Tool | Mapping[str, JSONValue]],
    choice: ToolChoice,
    flavour: Flavour,
    reply_schema: JSONValue = None,
    nonce: str | None = None,
) -> Constraint:
    """`{"calls": [{"name": N, "arguments": {...}}], "reply": "..."}`, in this order of keys.

    With a `reply_schema`, `reply` is a value of that schema if there are no calls, and null if there are some.
    Raises `UsageError` if `choice` demands a call that no tool can make, `SchemaError` for an unusable schema.
    """
    named, low, high = _calls(tools, choice)
    reply = () if reply_schema is None else (reply_schema,)
    return _kept(_Wanted("envelope", flavour, named, low, high, nonce, reply))


def inline_constraint(
    tools: Iterable[Tool | Mapping[str, JSONValue]],
    choice: ToolChoice,
    flavour: Flavour,
    dialect: str,
    nonce: str | None = None,
) -> Constraint | None:
    """Prose, then calls in the marks of the dialect, or either alone; no prose where `choice` demands a call.

    None where that cannot be enforced: only GBNF tells prose from a mark, and only dialects with JSON between marks
    that prose does not need are known to it. Raises `UsageError` if `choice` demands a call that no tool can make,
    `SchemaError` for an unusable schema.
    """
    named, low, high = _calls(tools, choice)
    if flavour != "gbnf" or not high:
        return None
    made = _kept(_Wanted("inline", flavour, named, low, high, nonce, dialect=dialect))
    return made if made.grammar else None


def response_constraint(schema: JSONValue, flavour: Flavour) -> Constraint:
    """A document of this schema; `None` asks for any object."""
    return _kept(_Wanted("response", flavour, reply=(schema,)))


def reached_bound(value: JSONValue) -> bool:
    """Whether a string in the value is as long as grammars allow: then it was probably cut, and is not complete."""
    stack: list[JSONValue] = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str) and len(part) >= MAX_STRING:
            return True
        if is_object(part):
            stack += part.values()
        elif is_array(part):
            stack += part
    return False


def _calls(
    tools: Iterable[Tool | Mapping[str, JSONValue]], choice: ToolChoice
) -> tuple[tuple[tuple[str, JSONValue], ...], int, int]:
    """The tools that may be called, and how many calls there are at least and at most."""
    known = tools_from(tools) or ()
    named = {tool.name: tool.parameters for tool in known if choice.permits(tool.name)}
    if choice.demands and not named:
        wanted = ", ".join(f"`{name}`" for name in choice.allowed) or "a call"
        raise UsageError(f"`tool_choice` demands {wanted}, but no such tool is given")
    high = 0 if not named else 1 if choice.single else MAX_CALLS
    return tuple(named.items()), int(choice.demands), high


# ---- compiling


def _kept(wanted: _Wanted) -> Constraint:
    try:
        source = msgspec.json.encode(wanted)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _compiled(wanted)  # not JSON: compiling says which schema it is
    return _cached(source) if len(source) <= CACHED_SOURCE_BYTES else _compiled(wanted)


@lru_cache(CACHED_CONSTRAINTS)
def _cached(source: bytes) -> Constraint:
    return _compiled(msgspec.json.decode(source, type=_Wanted))


def _compiled(wanted: _Wanted) -> Constraint:
    ledger = Ledger()
    if wanted.dialect:
        return Constraint("gbnf", grammar=_inline(wanted, ledger), notes=ledger.all(), name=wanted.name)
    shape = _DOCUMENTS[wanted.name](wanted, ledger)
    if wanted.flavour in _GRAMMARS:
        text = _GRAMMARS[wanted.flavour](shape, ledger)
        return Constraint(wanted.flavour, grammar=text, notes=ledger.all(), name=wanted.name)
    flavour: Flavour = "json_schema"
    schema = None
    if wanted.flavour == "openai_strict":
        schema = strict(shape, "answer", ledger, _FRAME_LEVELS[wanted.name])
        flavour = "json_schema" if schema is None else "openai_strict"
    schema = schema or plain(shape, "answer", ledger)
    return Constraint(flavour, schema=schema, notes=ledger.all(), name=wanted.name)


def _shape(wanted: _Wanted, schema: JSONValue, where: str, ledger: Ledger) -> Shape:
    return shape_of(schema, where, ledger, exact=wanted.flavour in _GRAMMARS)


def _array_of_calls(wanted: _Wanted, ledger: Ledger, low: int, high: int) -> Array:
    options: list[Shape] = []
    for name, parameters in wanted.tools:
        arguments = Member("arguments", _shape(wanted, parameters, name, ledger), label=name)
        options.append(Object((Member("name", Fixed((name,))), arguments)))
    items = Union(tuple(options)) if len(options) > 1 else options[0] if options else TEXT
    return Array(items, low, high)


def _signed(wanted: _Wanted, *members: Member) -> Object:
    mark = () if wanted.nonce is None else (Member("nonce", Fixed((wanted.nonce,))),)
    return Object((*mark, *members))


def _decision(wanted: _Wanted, ledger: Ledger) -> Shape:
    return _signed(wanted, Member("tools", _array_of_calls(wanted, ledger, wanted.low, wanted.high)))


def _envelope(wanted: _Wanted, ledger: Ledger) -> Shape:
    """Calls and a reply; where alternatives can be told, calls with little beside them, or a reply."""
    if wanted.reply:
        reply, beside = _shape(wanted, wanted.reply[0], "reply", ledger), NULL
    else:
        # Who must call has nothing else to say; who may, says little beside it. A small model would not end.
        reply, beside = TEXT, _NO_TEXT if wanted.low else Text(high=MAX_BESIDE)

    def document(low: int, high: int, said: Shape) -> Shape:
        calls = _array_of_calls(wanted, ledger, low, high) if high else Array(AnyValue(), 0, 0)
        return _signed(wanted, Member("calls", calls), Member("reply", said))

    if wanted.low or not wanted.high:
        return document(wanted.low, wanted.high, beside if wanted.low else reply)
    if wanted.flavour == "openai_strict" or (wanted.flavour == "json_schema" and not wanted.reply):
        # Strict mode takes no alternatives at the root, so that calls and reply are not tied to each other.
        return document(0, wanted.high, Union((NULL, reply)) if wanted.reply else TEXT)
    # Who does not call says something.
    return Union((document(1, wanted.high, beside), document(0, 0, reply if wanted.reply else _SOME_TEXT)))


def _inline(wanted: _Wanted, ledger: Ledger) -> str:
    divided = division(wanted.dialect, [name for name, _ in wanted.tools], wanted.nonce)
    if divided is None:
        return ""
    shapes = [(name, _shape(wanted, parameters, name, ledger)) for name, parameters in wanted.tools]
    return marked_gbnf(divided, shapes, wanted.low, wanted.high, ledger)


def _response(wanted: _Wanted, ledger: Ledger) -> Shape:
    return _shape(wanted, wanted.reply[0], "reply", ledger)


_GRAMMARS: dict[str, Callable[[Shape, Ledger], str]] = {"gbnf": gbnf, "lark": lark}
#: Objects of each document that are ours: the root, and each call.
_FRAME_LEVELS = {"decision": 2, "envelope": 2, "response": 1}
_DOCUMENTS: dict[str, Callable[[_Wanted, Ledger], Shape]] = {
    "decision": _decision,
    "envelope": _envelope,
    "response": _response,
}


# ---- on the wire

#: How llama.cpp and SGLang tell a Lark grammar from one of their own.
_LARK_MARK = "%llguidance {}\n"


def _json_schema(constraint: Constraint) -> JSONObject:
    """The description of a schema in OpenAI's words."""
    return {"name": constraint.name, "schema": constraint.schema, "strict": constraint.flavour == "openai_strict"}


def _response_format(constraint: Constraint) -> JSONObject:
    return {"response_format": {"type": "json_schema", "json_schema": _json_schema(constraint)}}


def _text_format(constraint: Constraint) -> JSONObject:
    return {"text": {"format": {"type": "json_schema", **_json_schema(constraint)}}}


def _grammar_as(field: str) -> _Write:
    return lambda constraint: {field: (_LARK_MARK if constraint.flavour == "lark" else "") + constraint.grammar}


def _structured(field: str) -> _Write:
    return lambda constraint: {"structured_outputs": {field: constraint.schema or constraint.grammar}}


def _output_config(constraint: Constraint) -> JSONObject:
    return {"output_config": {"format": {"type": "json_schema", "schema": _without_bounds(constraint.schema)}}}


def _generation_config(constraint: Constraint) -> JSONObject:
    config = {"responseMimeType": "application/json", "responseJsonSchema": constraint.schema}
    return {"generationConfig": config}


_Write = Callable[[Constraint], JSONObject]
#: By protocol or server: how a schema is sent, and how a grammar is, if it takes one. OpenAI itself takes none, so
#: that a grammar sent by its protocol is meant for a server like llama.cpp.
_WIRE: dict[str, tuple[_Write, _Write | None]] = {
    "openai": (_response_format, _grammar_as("grammar")),
    "openai_chat": (_response_format, _grammar_as("grammar")),
    "openai_responses": (_text_format, None),
    "llama.cpp": (_response_format, _grammar_as("grammar")),
    "sglang": (_response_format, _grammar_as("ebnf")),
    "vllm": (_structured("json"), _structured("grammar")),
    "ollama": (lambda constraint: {"format": constraint.schema}, None),
    "anthropic": (_output_config, None),
    "gemini": (_generation_config, None),
}
#: Keywords that Anthropic's structured outputs refuse; of `minItems` they take the value 1.
_BOUNDS = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems".split()
)


def _without_bounds(schema: JSONValue) -> JSONValue:
    """A schema that this module wrote, without bounds. Names of properties are no keywords."""
    if not is_object(schema):
        return schema
    kept: JSONObject = {}
    for key, value in schema.items():
        match key:
            case "properties":
                table: JSONObject = value
                kept[key] = {name: _without_bounds(each) for name, each in table.items()}
            case "anyOf":
                options: list[JSONValue] = value
                kept[key] = [_without_bounds(each) for each in options]
            case "items" | "additionalProperties":
                kept[key] = _without_bounds(value)
            case _ if key not in _BOUNDS or (key == "minItems" and value == 1):
                kept[key] = value
            case _:
                pass
    return kept


def wire_options(constraint: Constraint, protocol: str) -> JSONObject:
    """The fields of a request that make this protocol, or this server, enforce the constraint.

    Raises `UsageError` for a protocol that is not known, or that takes no grammar.
    """
    if protocol not in _WIRE:
        raise UsageError(f"unknown protocol `{protocol}`", hint=f"use one of {', '.join(_WIRE)}")
    schema, grammar = _WIRE[protocol]
    write = grammar if constraint.grammar else schema
    if write is None:
        raise UsageError(f"`{protocol}` takes no grammar", hint="use the flavour `json_schema` or `openai_strict`")
    return write(constraint)
