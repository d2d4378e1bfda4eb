"""Tools of other libraries and vendors, and functions, are tools of a client; those that can run, of an agent as well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

import toolspeak as ts
from tests.cases import check_each
from toolspeak.core.types import tools_from
from toolspeak.tools.base import CallContext
from toolspeak.tools.other_forms import declarations, executable

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def get_weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    return f"sunny in {city} for {days} days"


async def fetch(city: str) -> str:
    """Fetch a city."""
    return f"fetched {city}"


class Weather(pydantic.BaseModel):
    """The weather of a city."""

    city: str


def library(module: str) -> Any:
    return pytest.importorskip(module, reason=f"`{module}` is missing; runs in `make test-all`")


def langchain(function: Callable[..., Any]) -> Any:
    return library("langchain_core.tools").tool(function)


def llama_index(function: Callable[..., Any]) -> Any:
    return library("llama_index.core.tools").FunctionTool.from_defaults(function)


def pydantic_ai(function: Callable[..., Any]) -> Any:
    return library("pydantic_ai").Tool(function)


def smolagents(function: Callable[..., Any]) -> Any:
    def get_weather(city: str, days: int = 1) -> str:
        """The weather of a city.

        Args:
            city: its name
            days: how many
        """
        return f"sunny in {city} for {days} days"

    return library("smolagents").tool(get_weather)


LIBRARIES = {
    "function": lambda function: function,
    "toolspeak": ts.tool,
    "langchain": langchain,
    "llama_index": llama_index,
    "pydantic_ai": pydantic_ai,
    "smolagents": smolagents,
}
DICTS = {
    "openai chat": {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}},
    "openai responses": {"type": "function", "name": "get_weather", "parameters": PARAMETERS},
    "anthropic": {"name": "get_weather", "input_schema": PARAMETERS},
    "anthropic custom": {"type": "custom", "name": "get_weather", "input_schema": PARAMETERS},
    "mcp": {"name": "get_weather", "inputSchema": PARAMETERS},
    "gemini": {"functionDeclarations": [{"name": "get_weather", "parameters": PARAMETERS}]},
    "gemini, JSON schema": {"function_declarations": [{"name": "get_weather", "parametersJsonSchema": PARAMETERS}]},
    "bedrock": {"toolSpec": {"name": "get_weather", "inputSchema": {"json": PARAMETERS}}},
}


def declared(*tools: Any) -> tuple[ts.Tool, ...]:
    return tools_from(declarations(tools=list(tools))) or ()


@pytest.mark.requirement("K1")
@pytest.mark.parametrize("made_by", LIBRARIES)
def test_a_tool_of_any_library_describes_itself_and_runs(made_by: str):
    source = LIBRARIES[made_by](get_weather)
    (tool,) = declared(source)
    assert tool.name == "get_weather" and "The weather of a city." in tool.description
    parameters = tool.parameters
    assert isinstance(parameters, dict)
    assert parameters["properties"]["city"]["type"] == "string" and parameters["required"] == ["city"]
    output = asyncio.run(executable(source).run({"city": "Oslo"}, CallContext()))
    assert output.content == "sunny in Oslo for 1 days"


@pytest.mark.requirement("K1")
@pytest.mark.parametrize("made_by", ["function", "langchain", "llama_index", "pydantic_ai"])
def test_coroutines_run_as_well(made_by: str):
    output = asyncio.run(executable(LIBRARIES[made_by](fetch)).run({"city": "Oslo"}, CallContext()))
    assert output.content == "fetched Oslo"


@pytest.mark.requirement("K1")
@check_each("vendor", DICTS)
def test_the_dicts_of_all_vendors_are_tools(vendor: str):
    (tool,) = declared(DICTS[vendor])
    assert (tool.name, tool.parameters) == ("get_weather", PARAMETERS)


def test_a_list_may_hold_tools_of_all_kinds():
    names = [tool.name for tool in declared(fetch, Weather, DICTS["gemini"], ts.Tool("look"), ts.tool(asyncio.sleep))]
    assert names == ["fetch", "Weather", "get_weather", "look", "sleep"]


def test_a_tool_of_an_mcp_server_is_offered_and_says_how_to_run_it():
    types = library("mcp.types")
    annotations = types.ToolAnnotations(readOnlyHint=True)
    source = types.Tool(name="get_weather", inputSchema=PARAMETERS, annotations=annotations)
    (tool,) = declared(source)
    assert (tool.name, tool.parameters, tool.read_only) == ("get_weather", PARAMETERS, True)
    with pytest.raises(ts.UsageError, match=r"cannot be run outside its library .*Agent\(mcp=...\)"):
        executable(source)


def with_context() -> Any:
    package = library("pydantic_ai")

    def get_weather(context: Any, city: str) -> str:
        """The weather of a city."""
        return city

    get_weather.__annotations__["context"] = package.RunContext[None]
    return package.Tool(get_weather)


@pytest.mark.parametrize("make", [with_context, lambda: library("agents").function_tool(get_weather)])
def test_a_tool_that_needs_its_library_is_offered_but_not_run(make: Callable[[], Any]):
    source = make()
    (tool,) = declared(source)
    assert "city" in str(tool.parameters)
    with pytest.raises(ts.UsageError, match="cannot be run outside its library"):
        executable(source)


def test_functions_are_read_once():
    first, second = (declarations([get_weather, Weather]) for _ in range(2))
    assert first is second


@check_each("source", [5, None, object(), 2.5, "get_weather", {"city"}])
def test_what_is_no_tool_is_named(source: Any):
    with pytest.raises(ts.UsageError, match=r"is not a tool|must be an object"):
        declared(source)


def test_a_client_takes_functions_and_returns_their_calls():
    def model(messages: list[dict[str, Any]]) -> str:
        return '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo", "days": "2"}}</tool_call>'

    (call,) = ts.Client(model).chat("How is Oslo?", tools=[get_weather]).tool_calls
    assert get_weather(**call.arguments) == "sunny in Oslo for 2 days"
