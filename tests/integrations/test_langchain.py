"""LangChain's models and agents over a model that only writes text."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
import pytest

import toolspeak as ts
from tests.integrations.plain_model import ANSWER, CALLS, QUESTION, PlainModel, add, failing, temperature

REASON = "`langchain` is missing; runs in `make test-all`"
agents = pytest.importorskip("langchain.agents", reason=REASON)
tools = pytest.importorskip("langchain_core.tools", reason=REASON)
messages = pytest.importorskip("langchain_core.messages", reason=REASON)

from toolspeak.integrations.langchain import ChatToolspeak  # noqa: E402

TOOLS = [tools.tool(temperature), tools.tool(add)]
ASKED: Any = {"messages": [{"role": "user", "content": QUESTION}]}


def agent(model: Any) -> Any:
    return agents.create_agent(ChatToolspeak(model), TOOLS)


def calls_of(listed: list[Any]) -> list[tuple[str, Any]]:
    return [(call["name"], call["args"]) for message in listed for call in getattr(message, "tool_calls", ())]


def test_two_rounds_with_two_tools():
    listed = agent(PlainModel()).invoke(ASKED)["messages"]
    assert (calls_of(listed), listed[-1].text) == (CALLS, ANSWER)


def test_two_rounds_with_two_tools_in_an_event_loop():
    listed = asyncio.run(agent(PlainModel()).ainvoke(ASKED))["messages"]
    assert (calls_of(listed), listed[-1].text) == (CALLS, ANSWER)


def test_two_rounds_with_two_tools_streamed():
    pieces = [piece for piece, _ in agent(PlainModel()).stream(ASKED, stream_mode="messages")]
    chunks = [piece for piece in pieces if isinstance(piece, messages.AIMessageChunk)]
    assert "".join(chunk.text for chunk in chunks) == f"Let me look.\n{ANSWER}"
    assert len(chunks) > 8


@pytest.mark.parametrize("is_async", [False, True])
def test_the_chunks_of_a_stream_add_up_to_the_message(is_async: bool):
    model = ChatToolspeak(PlainModel()).bind_tools(TOOLS)

    async def chunks() -> list[Any]:
        return [chunk async for chunk in model.astream(QUESTION)]

    first, *rest = asyncio.run(chunks()) if is_async else model.stream(QUESTION)
    for chunk in rest:
        first += chunk
    assert (first.content, calls_of([first])) == ("Let me look.\n", CALLS[:2])
    assert first.response_metadata == {"finish_reason": "tool_calls", "warnings": ["tool calls emulated"]}


class City(pydantic.BaseModel):
    """A city."""

    name: str


def test_structured_output():
    def model(messages: list[dict[str, Any]]) -> str:
        return '<tool_call>{"name": "City", "arguments": {"name": "Oslo"}}</tool_call>'

    assert ChatToolspeak(model).with_structured_output(City).invoke("Which city?") == City(name="Oslo")


@pytest.mark.parametrize("choice", ["any", True, "required", "temperature"])
def test_a_tool_can_be_demanded(choice: Any):
    model = ChatToolspeak(lambda messages: "No.").bind_tools(TOOLS, tool_choice=choice)
    with pytest.raises(ts.ToolChoiceError, match="after 3 requests"):
        model.invoke("Hello")


def test_usage_is_that_of_the_model():
    model = ChatToolspeak(ts.Scripted("Hello.", again=True))
    whole = model.invoke("Hi").usage_metadata
    *_, last = model.stream("Hi")
    for usage in (whole, last.usage_metadata):
        assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (10, 5, 15)


def test_arguments_are_those_of_the_client_and_of_langchain():
    upstream = ts.Scripted("Hello.", again=True)
    model = ChatToolspeak(upstream, temperature=0.5, chat_only=True, tags=["mine"])
    model.invoke("Hi", stop=["."])
    options = upstream.requests[0].options
    assert (options.temperature, list(options.stop), model.tags) == (0.5, ["."], ["mine"])
    with pytest.raises(ts.UsageError, match="unknown argument `tempreature`"):
        ChatToolspeak(upstream, tempreature=0.5)


def test_an_async_client_is_used_as_it_is():
    model = ChatToolspeak(ts.AsyncClient(ts.Scripted("Hello.")))
    assert asyncio.run(model.ainvoke("Hi")).text == "Hello."
    with pytest.raises(ts.UsageError, match="cannot be called from synchronous code"):
        model.invoke("Hi")


def test_a_model_that_fails_is_an_error():
    with pytest.raises(ts.UpstreamError, match="out of memory"):
        ChatToolspeak(failing).invoke("Hi")
    with pytest.raises(ts.UpstreamError, match="out of memory"):
        list(ChatToolspeak(failing).stream("Hi"))
