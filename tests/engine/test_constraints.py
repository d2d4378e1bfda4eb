"""Constraints: the documents that an upstream is made to write, and how it is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import check_each, size
from tests.engine.enforced_schemas import PARAMETERS, admits, compiles, values, without_lengths, without_nulls
from tests.engine.gbnf_matcher import Gbnf
from toolspeak import parse
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.types import JSONValue, Tool, ToolCall, ToolChoice
from toolspeak.dialects.registry import render_calls
from toolspeak.engine.constraints import build as module
from toolspeak.engine.constraints.build import (
    MAX_CALLS,
    MAX_TEXT_WITH_CALLS,
    Constraint,
    Flavour,
    decision_constraint,
    envelope_constraint,
    response_constraint,
    wire_options,
)
from toolspeak.engine.constraints.schema_writer import strict_schema
from toolspeak.errors import SchemaError, UsageError

FLAVOURS: tuple[Flavour, ...] = get_args(Flavour)
WEATHER = Tool(
    "get_weather",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
        "required": ["city"],
    },
)
PING = Tool("ping", parameters={"type": "object", "properties": {}})
TOOLS = (WEATHER, PING)
RAIN = ToolCall("get_weather", {"city": "Paris", "days": 3})
PONG = ToolCall("ping", {})


def decision(calls: Sequence[ToolCall], nonce: str | None = None) -> str:
    return render_calls("decision", calls, nonce)


CHOICES: list[tuple[str, ToolChoice, list[list[ToolCall]], list[list[ToolCall]]]] = [
    ("auto", ToolChoice(), [[], [RAIN], [RAIN, PONG, RAIN]], [[RAIN] * (MAX_CALLS + 1)]),
    ("none", ToolChoice("none"), [[]], [[RAIN]]),
    ("required", ToolChoice("required"), [[RAIN], [PONG, PONG]], [[]]),
    ("named", ToolChoice("named", ("ping",)), [[PONG]], [[], [RAIN], [PONG, PONG]]),
    ("at most one", ToolChoice(parallel=False), [[], [RAIN]], [[PONG, PONG]]),
    ("exactly one", ToolChoice("required", parallel=False), [[RAIN]], [[], [PONG, PONG]]),
    ("one of a subset", ToolChoice("required", ("ping",)), [[PONG], [PONG, PONG]], [[], [RAIN], [PONG, RAIN]]),
]


@pytest.mark.requirement("A7")
@check_each("flavour", FLAVOURS)
@check_each(("choice", "allowed", "refused"), [row[1:] for row in CHOICES], ids=[row[0] for row in CHOICES])
def test_the_decision_holds_the_calls_that_the_choice_allows(
    flavour: Flavour, choice: ToolChoice, allowed: list[list[ToolCall]], refused: list[list[ToolCall]]
):
    found = decision_constraint(TOOLS, choice, flavour)
    compiles(found)
    for calls in allowed:
        assert admits(found, decision(calls)), calls
    for calls in refused:
        assert not admits(found, decision(calls)), calls


@pytest.mark.requirement("A7")
@check_each("flavour", FLAVOURS)
def test_each_tool_takes_its_own_arguments_only(flavour: Flavour):
    found = decision_constraint(TOOLS, ToolChoice(), flavour)
    for wrong in (ToolCall("ping", RAIN.arguments), ToolCall("get_weather", {}), ToolCall("shell", {})):
        assert not admits(found, decision([wrong]))


@pytest.mark.requirement("A7", "B1")
@check_each("flavour", FLAVOURS)
def test_the_envelope_holds_calls_and_then_a_reply(flavour: Flavour):
    found = envelope_constraint(TOOLS, ToolChoice(), flavour)
    compiles(found)
    assert admits(found, '{"calls": [], "reply": "Hello \\"you\\"\\n"}')
    assert admits(found, '{"calls": [{"name": "ping", "arguments": {}}], "reply": ""}')
    assert not admits(found, '{"calls": []}')
    assert not admits(found, '{"calls": [], "reply": 5}')
    if found.grammar:
        assert not admits(found, '{"reply": "", "calls": []}')
    else:
        assert list(found.schema["properties"]) == ["calls", "reply"]


@pytest.mark.requirement("B1", "R-E2")
@check_each("flavour", FLAVOURS)
def test_a_nonce_is_forced_as_the_first_key(flavour: Flavour):
    found = decision_constraint(TOOLS, ToolChoice(), flavour, nonce="k7q2xm")
    assert admits(found, decision([RAIN], "k7q2xm"))
    assert not admits(found, decision([RAIN], "zzzzzz"))
    assert not admits(found, decision([RAIN]))
    if found.schema:
        assert list(found.schema["properties"]) == ["nonce", "tools"]
    both = envelope_constraint(TOOLS, ToolChoice(), flavour, nonce="k7q2xm")
    assert admits(both, '{"nonce": "k7q2xm", "calls": [], "reply": "no"}')
    assert parse(decision([RAIN], "k7q2xm"), TOOLS, dialect="decision", nonce="k7q2xm").calls == (RAIN,)


@pytest.mark.requirement("A7", "B1")
@check_each(
    ("choice", "reply", "rest", "allowed"),
    [
        (ToolChoice(), None, '{"name":"ping","arguments":{}}]', True),
        (ToolChoice(), None, '{"name":"ping","arguments":{}}, {"name":"ping","arguments":{}}]', True),
        (ToolChoice(), None, '],"reply":"Hello"}', True),
        (ToolChoice(), None, "]", False),
        (ToolChoice(), None, '],"reply":""}', False),
        (ToolChoice(), None, '{"name":"ping","arguments":{}}],"reply":""}', False),
        (ToolChoice("required"), None, '{"name":"ping","arguments":{}}]', True),
        (ToolChoice("required"), None, '],"reply":"Hello"}', False),
        (ToolChoice(), {"type": "integer"}, '],"reply":7}', True),
        (ToolChoice(), {"type": "integer"}, '],"reply":"7"}', False),
    ],
)
def test_a_framed_envelope_leaves_out_what_is_known(choice: ToolChoice, reply: JSONValue, rest: str, allowed: bool):
    found = envelope_constraint(TOOLS, choice, "gbnf", reply, nonce="k7q2xm", framed=True)
    assert admits(found, rest) is allowed
    assert found.frame is not None
    assert found.frame.begin == '{"nonce":"k7q2xm","calls":['
    if allowed:
        whole = found.frame.begin + rest + found.frame.end * rest.endswith("]")
        assert admits(envelope_constraint(TOOLS, choice, "gbnf", reply, nonce="k7q2xm"), whole)


@check_each(("tools", "flavour"), [((), "gbnf"), (TOOLS, "json_schema"), (TOOLS, "lark")])
def test_only_gbnf_with_tools_is_framed(tools: tuple[Tool, ...], flavour: Flavour):
    assert envelope_constraint(tools, ToolChoice(), flavour, framed=True).frame is None


REPLY = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
CALLS = '"calls": [{"name": "ping", "arguments": {}}]'


@pytest.mark.requirement("C6")
@check_each("flavour", FLAVOURS)
def test_the_format_of_the_response_is_the_schema_of_the_reply(flavour: Flavour):
    found = envelope_constraint(TOOLS, ToolChoice(), flavour, reply_schema=REPLY)
    compiles(found)
    assert admits(found, '{"calls": [], "reply": {"n": 1}}')
    assert admits(found, f'{{{CALLS}, "reply": null}}')
    assert not admits(found, '{"calls": [], "reply": "text"}')
    # Strict mode takes no alternatives at the root, so that there the two are independent.
    for document in ('{"calls": [], "reply": null}', f'{{{CALLS}, "reply": {{"n": 1}}}}'):
        assert admits(found, document) is (flavour == "openai_strict")


@pytest.mark.requirement("C6")
@check_each("flavour", FLAVOURS)
def test_with_demanded_calls_there_is_no_reply_and_without_tools_there_is_one(flavour: Flavour):
    some = envelope_constraint(TOOLS, ToolChoice("required"), flavour, reply_schema=REPLY)
    assert admits(some, f'{{{CALLS}, "reply": null}}')
    assert not admits(some, '{"calls": [], "reply": {"n": 1}}')
    none = envelope_constraint((), ToolChoice(), flavour, reply_schema=REPLY)
    assert admits(none, '{"calls": [], "reply": {"n": 1}}')
    assert not admits(none, '{"calls": [], "reply": null}')


@pytest.mark.requirement("C6")
@check_each("flavour", FLAVOURS)
def test_a_response_alone_can_be_constrained(flavour: Flavour):
    found = response_constraint(REPLY, flavour)
    compiles(found)
    assert admits(found, '{"n": 1}')
    assert not admits(found, '{"n": "x"}')


@check_each("schema", [None, {"type": "array", "items": {"type": "integer"}}])
def test_a_response_that_cannot_be_strict_is_asked_for_plainly(schema: Any):
    found = response_constraint(schema, "openai_strict")
    assert found.flavour == "json_schema"
    assert found.notes[0].code == "not_strict"
    assert admits(found, "{}") is (schema is None)
    assert wire_options(found, "openai")["response_format"]["json_schema"]["strict"] is False


def test_notes_name_the_tool():
    tool = Tool("mail", parameters={"type": "object", "properties": {"to": {"type": "string", "pattern": "@(?=x)"}}})
    for flavour in FLAVOURS:
        details = [note.detail for note in decision_constraint([tool], ToolChoice(), flavour).notes]
        assert details == ["`pattern` of `mail.to` is only validated afterwards"]


TREE = Tool(
    "plant",
    parameters={
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {"type": "object", "properties": {"in": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
        },
    },
)


@check_each("flavour", FLAVOURS)
def test_what_leads_back_to_itself_ends_in_grammars_and_is_free_in_schemas(flavour: Flavour):
    found = decision_constraint([TREE], ToolChoice("required"), flavour)
    compiles(found)
    grammar = flavour in ("gbnf", "lark")
    assert ("recursion_narrowed" if grammar else "recursion_loosened") in {note.code for note in found.notes}
    six = '{"in":[' * 5 + "{}" + "]}" * 5
    if grammar:
        for arguments, fits in [(six, True), (f'{{"in":[{six}]}}', False), ('{"in":[{"in":[{"in":[7]}]}]}', False)]:
            assert admits(found, f'{{"tools":[{{"name":"plant","arguments":{arguments}}}]}}') is fits


def test_free_arguments_are_text_under_strict_mode_and_are_read_again():
    tools = (Tool("note"),)
    found = decision_constraint(tools, ToolChoice(), "openai_strict")
    document = '{"tools": [{"name": "note", "arguments": "{\\"k\\": 1}"}]}'
    assert admits(found, document)
    assert [call.arguments for call in parse(document, tools, dialect="decision").calls] == [{"k": 1}]


@check_each("choice", [ToolChoice("required"), ToolChoice("named", ("nope",))])
def test_a_call_that_no_tool_can_make_is_the_callers_mistake(choice: ToolChoice):
    tools = TOOLS if choice.allowed else ()
    with pytest.raises(UsageError, match=r"nope|a call"):
        decision_constraint(tools, choice, "gbnf")


@check_each(
    "parameters",
    ["object", {"type": "object", "default": object()}],
    ids=["a text", "not JSON"],
)
def test_unusable_schemas_are_refused(parameters: Any):
    with pytest.raises(SchemaError):
        envelope_constraint([Tool("x", parameters=parameters)], ToolChoice(), "gbnf")


def test_plain_dicts_are_tools_too():
    tools = [{"type": "function", "function": {"name": "ping", "parameters": PING.parameters}}]
    assert decision_constraint(tools, ToolChoice(), "gbnf") == decision_constraint([PING], ToolChoice(), "gbnf")


def test_equal_requests_are_compiled_once_and_large_ones_are_not_kept():
    one = decision_constraint(TOOLS, ToolChoice(), "lark")
    assert decision_constraint(list(TOOLS), ToolChoice(), "lark") is one
    assert decision_constraint(TOOLS, ToolChoice(), "lark", nonce="k7q2xm") is not one
    large = [Tool("x", parameters={**PING.parameters, "description": "x" * module.CACHED_SOURCE_BYTES})]
    assert decision_constraint(large, ToolChoice(), "lark") is not decision_constraint(large, ToolChoice(), "lark")


def test_many_large_tools_do_not_blow_the_constraint_up():
    properties = {f"p{n}": {"type": "string", "description": "x" * 100} for n in range(500)}
    tools = [Tool(f"t{n}", parameters={"type": "object", "properties": properties}) for n in range(100)]
    for flavour in FLAVOURS:
        found = decision_constraint(tools, ToolChoice(), flavour)
        assert len(found.grammar or json.dumps(found.schema)) < 2 * 1024 * 1024
        assert "schema_too_large" in {note.code for note in found.notes}


# ---- on the wire

PLAIN = Constraint("json_schema", schema={"type": "object"}, name="envelope")
STRICT = Constraint("openai_strict", schema={"type": "object"}, name="decision")
GBNF = Constraint("gbnf", grammar='root ::= "x"\n')
LARK = Constraint("lark", grammar='start: "x"\n')
FORMAT = {"type": "json_schema", "json_schema": {"name": "envelope", "schema": {"type": "object"}, "strict": False}}
WIRE: list[tuple[Constraint, str, Any]] = [
    (PLAIN, "openai", {"response_format": FORMAT}),
    (PLAIN, "openai_chat", {"response_format": FORMAT}),
    (PLAIN, "llama.cpp", {"response_format": FORMAT}),
    (PLAIN, "sglang", {"response_format": FORMAT}),
    (STRICT, "openai_responses", {"text": {"format": {"type": "json_schema", "name": "decision", "schema": {"type": "object"}, "strict": True}}}),
    (PLAIN, "vllm", {"structured_outputs": {"json": {"type": "object"}}}),
    (PLAIN, "ollama", {"format": {"type": "object"}}),
    (PLAIN, "anthropic", {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}),
    (PLAIN, "gemini", {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}}),
    (GBNF, "openai_chat", {"grammar": 'root ::= "x"\n'}),
    (GBNF, "llama.cpp", {"grammar": 'root ::= "x"\n'}),
    (GBNF, "sglang", {"ebnf": 'root ::= "x"\n'}),
    (GBNF, "vllm", {"structured_outputs": {"grammar": 'root ::= "x"\n'}}),
    (LARK, "llama.cpp", {"grammar": '%llguidance {}\nstart: "x"\n'}),
    (LARK, "sglang", {"ebnf": '%llguidance {}\nstart: "x"\n'}),
    (LARK, "vllm", {"structured_outputs": {"grammar": 'start: "x"\n'}}),
]  # fmt: skip


@pytest.mark.requirement("A7")
@check_each(("constraint", "protocol", "fields"), WIRE)
def test_each_server_is_told_in_its_own_words(constraint: Constraint, protocol: str, fields: Any):
    assert wire_options(constraint, protocol) == fields


@check_each(("constraint", "protocol"), [(GBNF, "openai_responses"), (LARK, "ollama"), (PLAIN, "smtp")])
def test_what_a_server_cannot_be_told_is_an_error(constraint: Constraint, protocol: str):
    with pytest.raises(UsageError):
        wire_options(constraint, protocol)


def test_anthropic_gets_no_bounds():
    tool = Tool(
        "f",
        parameters={
            "type": "object",
            "properties": {"minimum": {"type": "integer", "minimum": 1}},
            "required": ["minimum"],
        },
    )
    found = decision_constraint([tool], ToolChoice("required"), "openai_strict")
    calls = wire_options(found, "anthropic")["output_config"]["format"]["schema"]["properties"]["tools"]
    assert set(calls) == {"type", "items", "minItems"}
    assert calls["items"]["properties"]["arguments"]["properties"] == {"minimum": {"type": "integer"}}
    several = decision_constraint(TOOLS, ToolChoice(), "openai_strict")
    assert "maximum" not in json.dumps(wire_options(several, "anthropic"))


# ---- properties


@st.composite
def toolboxes(draw: st.DrawFn) -> tuple[Tool, ...]:
    schemas = draw(st.lists(PARAMETERS, min_size=1, max_size=3))
    return tuple(Tool(f"tool_{index}", parameters=schema) for index, schema in enumerate(schemas))


@pytest.mark.requirement("A7")
@pytest.mark.parametrize("flavour", FLAVOURS)
@settings(max_examples=size(10, 40), deadline=None)
@given(data=st.data())
def test_every_admitted_document_is_read_as_the_calls_it_holds(flavour: Flavour, data: st.DataObject):
    tools = data.draw(toolboxes())
    if flavour == "openai_strict":  # which does not know the length of a string
        tools = tuple(Tool(tool.name, parameters=without_lengths(tool.parameters)) for tool in tools)
    dialect, key = data.draw(st.sampled_from([("decision", "tools"), ("envelope", "calls")]))
    make = decision_constraint if dialect == "decision" else envelope_constraint
    found = make(tools, ToolChoice(), flavour)
    if found.grammar:
        # Both grammars hold the same rules; only GBNF has a producer.
        rules = Gbnf(make(tools, ToolChoice(), "gbnf").grammar)
        text = rules.produce(lambda low, high: data.draw(st.integers(low, high)))
    else:
        text = json.dumps(data.draw(values(found.schema)), ensure_ascii=False)
    assert admits(found, text)
    schemas = {tool.name: ArgumentSchema.of(tool.parameters) for tool in tools}
    calls = parse(text, tools, dialect=dialect).calls
    like = without_nulls if flavour == "openai_strict" else _as_it_is
    expected = [(call["name"], like(call["arguments"])) for call in json.loads(text)[key]]
    assert [(call.name, like(call.arguments)) for call in calls] == expected
    assert not any(schemas[call.name].problems(call.arguments) for call in calls)


def _as_it_is(value: Any) -> Any:
    return value


@pytest.mark.requirement("A7")
@pytest.mark.parametrize("flavour", FLAVOURS)
@settings(max_examples=size(10, 40), deadline=None)
@given(data=st.data())
def test_every_valid_set_of_calls_is_admitted(flavour: Flavour, data: st.DataObject):
    tools = data.draw(toolboxes())
    written = strict_schema if flavour == "openai_strict" else lambda parameters: (parameters, ())
    schemas = {tool.name: written(tool.parameters)[0] for tool in tools}
    names = data.draw(st.lists(st.sampled_from(sorted(schemas)), max_size=3))
    calls = [ToolCall(name, data.draw(values(schemas[name]))) for name in names]
    found = decision_constraint(tools, ToolChoice(), flavour)
    compiles(found)
    assert admits(found, decision(calls))


# ---- text beside calls


@pytest.mark.requirement("A7", "A10")
@check_each("flavour", get_args(Flavour))
def test_who_must_call_has_nothing_else_to_say(flavour: Flavour):
    constraint = envelope_constraint(TOOLS, ToolChoice("required"), flavour)
    assert admits(constraint, f'{{{CALLS}, "reply": ""}}')
    assert not admits(constraint, f'{{{CALLS}, "reply": "Hello"}}')


@pytest.mark.requirement("A7")
@check_each("flavour", ["gbnf", "lark"])
def test_who_may_call_says_little_beside_a_call_and_much_without_one(flavour: Flavour):
    constraint = envelope_constraint(TOOLS, ToolChoice(), flavour)
    long = json.dumps("x" * 2 * MAX_TEXT_WITH_CALLS)
    assert admits(constraint, f'{{{CALLS}, "reply": "I will look."}}')
    assert admits(constraint, f'{{"calls": [], "reply": {long}}}')
    assert not admits(constraint, f'{{{CALLS}, "reply": {long}}}')
