"""What callers give becomes a request, or an error that says what is wrong with it."""

from __future__ import annotations

import enum
import json
import math
from typing import Any

import pydantic
import pytest

import toolspeak as ts
from tests.cases import check_each
from toolspeak.config import load
from toolspeak.core.types import Message, TextPart, Tool, ToolCall, ToolResult
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import SchemaError
from toolspeak.key_value import MemoryState
from toolspeak.runtime.tool_memory import ToolMemory, build_request
from toolspeak.upstreams.codecs import codec

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
QUESTION = [{"role": "user", "content": "Hi"}]


class Name(enum.StrEnum):
    WEATHER = "get_weather"


class Text(str):
    """As template engines and translators give."""

    __slots__ = ()


class Weather(pydantic.BaseModel):
    """The weather of a city.

    Today and later.
    """

    city: str = pydantic.Field(description="its name")
    days: int = 1


class Silent(pydantic.BaseModel):
    a: int


def tool(name: str = "get_weather", description: str = "", parameters: Any = PARAMETERS) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def asked(tools: Any = (), messages: Any = QUESTION, **fields: Any) -> ts.Request:
    return build_request("m", messages, tools, None, False, fields)


# ---- tools


def test_a_class_of_pydantics_is_a_tool():
    request = asked([Weather])
    (found,) = request.tools
    assert (found.name, found.description) == ("Weather", "The weather of a city.\n\nToday and later.")
    assert found.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "title": "City", "description": "its name"},
            "days": {"type": "integer", "title": "Days", "default": 1},
        },
        "required": ["city"],
    }
    assert asked([Weather]).tools[0] is found


def test_what_a_class_inherits_does_not_describe_it():
    assert asked([Silent, tool()]).tools[0].description == ""


def test_the_arguments_of_a_call_make_an_instance():
    call = '<tool_call>{"name": "Weather", "arguments": {"city": "Paris", "days": "2"}}</tool_call>'
    client = ts.Client(ts.Scripted(call), config=load({}, env={}), marks="fixed", dialect="hermes")
    (made,) = client.chat(QUESTION, tools=[Weather]).tool_calls
    assert Weather(**made.arguments) == Weather(city="Paris", days=2)


class Odd:
    @staticmethod
    def model_json_schema() -> Any:
        return "odd"


class Broken:
    @staticmethod
    def model_json_schema() -> Any:
        raise ValueError("no schema for a socket")


@check_each(
    ("given", "words"),
    [(int, "`int` is not a tool"), (Odd, "must be an object"), (Broken, "no schema for a socket")],
)
def test_a_class_that_tells_no_schema_is_an_error(given: type, words: str):
    with pytest.raises(ts.UsageError, match=words):
        asked([given])


def test_the_same_declarations_give_the_same_tools():
    assert asked([tool()]).tools is asked([tool()]).tools
    assert asked([tool("other")]).tools is not asked([tool()]).tools
    given = (ts.Tool("f"),)
    assert asked(given).tools is given
    assert asked(None).tools == asked([]).tools == ()


def test_texts_of_any_class_are_texts():
    odd = {"type": Text("object"), "properties": {Text("city"): {"type": Text("string")}}, "required": [Text("city")]}
    plain = asked([tool()])
    for given in (tool(Name.WEATHER), tool(Text("get_weather")), tool(parameters=odd)):
        (found,) = asked([given]).tools
        assert found == plain.tools[0]
        assert type(found.name) is str
    (found,) = asked([ts.Tool(Text("f"))]).tools
    assert type(found.name) is str
    (message,) = asked(messages=[{"role": Text("user"), "content": Text("Hi")}]).messages
    assert type(message.role) is str
    for protocol in ("openai_chat", "anthropic", "gemini", "ollama", "openai_responses"):
        written = codec(protocol).encode(asked([tool(Name.WEATHER)], [ts.Message("user", (ts.TextPart(Text("Hi")),))]))
        assert json.loads(written) == json.loads(codec(protocol).encode(asked([tool()])))


@check_each("protocol", ["openai_chat", "anthropic", "gemini", "ollama", "openai_responses"])
def test_half_a_surrogate_pair_is_replaced_and_what_is_no_json_is_an_error(protocol: str):
    halved = [{"role": "user", "content": "a\ud800b"}]
    assert "a\ufffdb" in codec(protocol).encode(asked(messages=halved)).decode()
    call = ts.ToolCall("f", {"when": object()}, "c")
    with pytest.raises(ts.UsageError, match="not JSON"):
        codec(protocol).encode(asked(messages=[*QUESTION, ts.Message("assistant", calls=(call,))]))


@check_each("value", [math.nan, math.inf, -math.inf])
@check_each("field", ["temperature", "top_p", "frequency_penalty"])
def test_a_number_that_json_cannot_write_is_an_error(field: str, value: float):
    with pytest.raises(ts.UsageError, match=f"`{field}` must be a finite number"):
        asked(**{field: value})


# ---- what is wrong with tools is told before anybody is asked


def _client(**settings: Any) -> tuple[ts.Client, ts.Scripted]:
    upstream = ts.Scripted("Hello.", again=True)
    return ts.Client(upstream, config=load({}, env={}), **settings), upstream


@check_each("settings", [{}, {"mode": "fallback"}, {"mode": "force", "plan": "decision"}], ids=str)
@check_each(
    ("parameters", "words"),
    [
        ("object", "`bad`.*must be a JSON schema"),
        (json.loads('{"not": ' * 70 + "{}" + "}" * 70), "`bad`.*nested deeper than 64 levels"),
    ],
)
def test_a_bad_schema_is_told_with_its_tool_and_place(settings: dict[str, Any], parameters: Any, words: str):
    client, upstream = _client(**settings)
    with pytest.raises(SchemaError, match=words):
        client.chat(QUESTION, tools=[tool(), tool("bad", parameters=parameters)])
    assert upstream.requests == []


@check_each(
    "settings", [{}, {"mode": "fallback"}, {"mode": "force", "plan": "decision"}, {"plan": "envelope"}], ids=str
)
@check_each(
    "schema",
    [
        {"type": "any"},
        {"type": "STRING"},
        {"type": "strin"},
        {"pattern": "("},
        {"$ref": "#/nowhere"},
        {"$ref": "http://x/y"},
        {"items": [{"type": "string"}]},
        {"minimum": 1, "exclusiveMinimum": True},
        {"required": True, "type": "string"},
        {"enum": "x"},
        {"properties": ["x"]},
        3,
    ],
    ids=str,
)
def test_what_is_not_understood_in_a_schema_is_noted_and_the_tool_is_offered(settings: dict[str, Any], schema: Any):
    client, upstream = _client(**settings)
    parameters = {"type": "object", "properties": {"a": schema}}
    reply = client.chat(QUESTION, tools=[tool(), tool("odd", parameters=parameters)])
    assert upstream.requests
    notes = [note for note in reply.notes if note.code == "schema_relaxed"]
    assert ["the tool `odd`: " in note.detail for note in notes] == [True]


def test_where_tools_go_up_as_they_are_their_schemas_are_the_upstreams_affair():
    client, upstream = _client(mode="off")
    client.chat(QUESTION, tools=[tool("bad", parameters={"type": "strin"})])
    assert len(upstream.requests) == 1


def test_two_tools_of_one_name_are_an_error_unless_they_are_one():
    client, _ = _client()
    with pytest.raises(ts.UsageError, match="two tools are named `get_weather`"):
        client.chat(QUESTION, tools=[tool(), tool(description="another")])
    reply = client.chat(QUESTION, tools=[tool(), json.loads(json.dumps(tool()))])
    assert [note.code for note in reply.notes] == ["duplicate_tool"]


# ---- time


@check_each("seconds", [1e300, 10**400, math.inf])
def test_a_timeout_that_never_comes_is_none(seconds: float):
    client, _ = _client(timeout=seconds)
    assert client.chat("Hi", timeout=seconds).text == "Hello."


# ---- tools of earlier turns


def talk(*users: str) -> tuple[Message, ...]:
    return tuple(Message("user", (TextPart(text),)) for text in users)


CALLED = (
    Message("assistant", calls=(ToolCall("look", {}, "call_0"),)),
    Message("tool", results=(ToolResult("call_0", "a bird"),)),
)


def recalled(conversation: ToolMemory, *messages: Message) -> tuple[str, list[str]]:
    request, notes = conversation.recall("anna", ts.Request("m", messages), Settings(sticky_tools="always"))
    return notes[0].code, [tool.description for tool in request.tools]


@pytest.mark.requirement("C3")
def test_tools_are_recalled_in_their_own_conversation_though_calls_have_the_same_ids():
    conversation = ToolMemory(MemoryState())
    for name in ("one", "two"):
        conversation.remember("anna", ts.Request("m", talk(name), (Tool("look", name),)), ["call_0"])

    for name in ("one", "two"):
        assert recalled(conversation, *talk(name), *CALLED) == ("tools_recalled", [name])
        assert recalled(conversation, *talk(name), *CALLED, *talk("And now?")) == ("tools_recalled", [name])
    # Where a client has changed what was said, nobody can tell whose they are.
    assert recalled(conversation, *talk("three"), *CALLED)[0] == "tools_guessed"
    assert recalled(conversation, *talk("on", "e"), *CALLED)[0] == "tools_guessed"


@pytest.mark.requirement("C3")
def test_of_calls_with_one_id_in_one_conversation_the_last_says_which_tools_there_are():
    conversation = ToolMemory(MemoryState())
    first = (*talk("one"), *CALLED)
    conversation.remember("anna", ts.Request("m", talk("one"), (Tool("look", "then"),)), ["call_0"])
    conversation.remember("anna", ts.Request("m", (*first, *talk("two")), (Tool("look", "now"),)), ["call_0"])

    assert recalled(conversation, *first, *talk("two"), *CALLED) == ("tools_recalled", ["now"])
    assert recalled(conversation, *first) == ("tools_recalled", ["then"])


@pytest.mark.requirement("C3")
def test_what_is_said_along_with_results_was_said_after_the_call():
    conversation = ToolMemory(MemoryState())
    conversation.remember("anna", ts.Request("m", talk("one"), (Tool("look", "one"),)), ["call_0"])
    result = Message("user", (TextPart("Go on."),), results=(ToolResult("call_0", "a bird"),))

    assert recalled(conversation, *talk("one"), result) == ("tools_recalled", ["one"])  # also where its call is missing
    assert recalled(conversation, *talk("one"), CALLED[0], result) == ("tools_recalled", ["one"])
