"""LlamaIndex's LLMs and agents over a model that only writes text."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
import pytest

import toolspeak as ts
from tests.integrations.plain_model import ANSWER, CALLS, QUESTION, PlainModel, add, failing, temperature

REASON = "`llama-index-llms-openai` is missing; runs in `make test-all`"
agents = pytest.importorskip("llama_index.core.agent.workflow", reason=REASON)
tools = pytest.importorskip("llama_index.core.tools", reason=REASON)
llms = pytest.importorskip("llama_index.core.llms", reason=REASON)
openai = pytest.importorskip("openai", reason=REASON)
pytest.importorskip("llama_index.llms.openai", reason=REASON)

from toolspeak.integrations.llama_index import ToolspeakLLM  # noqa: E402

# LlamaIndex uses what newer versions of pydantic warn about.
pytestmark = pytest.mark.filterwarnings("ignore")
TOOLS = [tools.FunctionTool.from_defaults(temperature), tools.FunctionTool.from_defaults(add)]


@pytest.mark.parametrize("streamed", [False, True])
def test_two_rounds_with_two_tools(streamed: bool):
    async def ask() -> tuple[Any, list[str]]:
        agent = agents.FunctionAgent(tools=TOOLS, llm=ToolspeakLLM(PlainModel()), streaming=streamed)
        handler = agent.run(QUESTION)
        texts = [event.delta async for event in handler.stream_events() if isinstance(event, agents.AgentStream)]
        return await handler, texts

    output, texts = asyncio.run(ask())
    assert str(output) == ANSWER
    assert [(call.tool_name, call.tool_kwargs) for call in output.tool_calls] == CALLS
    assert "".join(texts) == (f"Let me look.\n{ANSWER}" if streamed else "")


def test_calls_without_an_agent():
    llm = ToolspeakLLM(PlainModel())
    answer = llm.chat_with_tools(TOOLS, QUESTION, allow_parallel_tool_calls=True)
    calls = [(call.tool_name, call.tool_kwargs) for call in llm.get_tool_calls_from_response(answer)]
    assert calls == CALLS[:2]
    *_, last = llm.stream_chat_with_tools(TOOLS, QUESTION, allow_parallel_tool_calls=True)
    assert len(llm.get_tool_calls_from_response(last)) == 2
    with pytest.raises(ValueError, match="at least one tool call"):
        llm.get_tool_calls_from_response(llm.chat([llms.ChatMessage(content="Hello")]))


def test_a_single_call_can_be_demanded():
    llm = ToolspeakLLM(lambda messages: "No.")
    with pytest.raises(openai.APIStatusError, match="after 3 requests"):
        llm.chat_with_tools(TOOLS, QUESTION, tool_required=True)


def test_texts_are_completed_and_streamed():
    llm = ToolspeakLLM(PlainModel())
    assert llm.complete("Hello").text == "Hello there."
    assert "".join(each.delta for each in llm.stream_complete("Hello")) == "Hello there."

    async def ask() -> list[str]:
        whole = await llm.acomplete("Hello")
        return [whole.text, "".join([each.delta async for each in await llm.astream_complete("Hello")])]

    assert asyncio.run(ask()) == ["Hello there."] * 2


def test_structured_output():
    class City(pydantic.BaseModel):
        """A city."""

        name: str

    def model(messages: list[dict[str, Any]]) -> str:
        return '<tool_call>{"name": "City", "arguments": {"name": "Oslo"}}</tool_call>'

    answer = ToolspeakLLM(model).as_structured_llm(City).chat([llms.ChatMessage(content="Which city?")])
    assert answer.raw == City(name="Oslo")


def test_usage_name_and_fields_are_those_of_the_model():
    upstream = ts.Scripted("Hello.")
    llm = ToolspeakLLM(ts.Client(upstream), temperature=0.5)
    usage = llm.chat([llms.ChatMessage(content="Hi")]).additional_kwargs
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (10, 5, 15)
    assert llm.metadata.model_name == "scripted" and llm.metadata.is_function_calling_model
    assert upstream.requests[0].options.temperature == 0.5


def test_a_model_that_fails_is_an_error_of_openai():
    with pytest.raises(openai.InternalServerError, match="out of memory"):
        ToolspeakLLM(failing).complete("Hi")
