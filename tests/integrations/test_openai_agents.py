"""Agents of the OpenAI Agents SDK over a model that only writes text."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pydantic
import pytest

import toolspeak as ts
from tests.integrations.plain_model import ANSWER, CALLS, QUESTION, PlainModel, add, failing, temperature

agents = pytest.importorskip("agents", reason="`openai-agents` is missing; runs in `make test-all`")
openai = pytest.importorskip("openai")

from toolspeak.integrations.openai_agents import ToolspeakModel  # noqa: E402

agents.set_tracing_disabled(True)
TOOLS = [agents.function_tool(temperature), agents.function_tool(add)]


def agent(model: Any, **options: Any) -> Any:
    return agents.Agent(name="Assistant", model=ToolspeakModel(model), **options)


def run(*arguments: Any) -> Any:
    return asyncio.run(agents.Runner.run(*arguments))


def calls_of(result: Any) -> list[tuple[str, Any]]:
    items = [item.raw_item for item in result.new_items if item.type == "tool_call_item"]
    return [(item.name, json.loads(item.arguments)) for item in items]


def test_two_rounds_with_two_tools():
    result = run(agent(PlainModel(), tools=TOOLS), QUESTION)
    assert (calls_of(result), result.final_output) == (CALLS, ANSWER)


def test_two_rounds_with_two_tools_streamed():
    async def ask() -> Any:
        result = agents.Runner.run_streamed(agent(PlainModel(), tools=TOOLS), QUESTION)
        raw = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
        return result, [event.delta for event in raw if event.type == "response.output_text.delta"]

    result, texts = asyncio.run(ask())
    assert (calls_of(result), result.final_output) == (CALLS, ANSWER)
    assert len(texts) > 3 and "".join(texts).endswith(ANSWER)


def test_structured_output():
    class City(pydantic.BaseModel):
        name: str

    result = run(agent(PlainModel('{"name": "Oslo"}'), output_type=City), "Which city?")
    assert result.final_output == City(name="Oslo")


def test_usage_is_that_of_the_model():
    result = run(agent(ts.Scripted("Hello.")), "Hi")
    usage = result.context_wrapper.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (1, 10, 5)


def test_settings_reach_the_model():
    upstream = ts.Scripted("Hello.")
    settings = agents.ModelSettings(temperature=0.25)
    run(agent(ts.Client(upstream), model_settings=settings), "Hi")
    assert upstream.requests[0].options.temperature == 0.25


def test_a_model_that_fails_is_an_error_of_the_library():
    with pytest.raises(openai.InternalServerError, match="out of memory"):
        run(agent(failing), "Hi")
