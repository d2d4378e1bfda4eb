"""pydantic-ai's agents over a model that only writes text."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
import pytest

import toolspeak as ts
from tests.integrations.plain_model import ANSWER, CALLS, QUESTION, PlainModel, add, failing, temperature

pydantic_ai = pytest.importorskip("pydantic_ai", reason="`pydantic-ai` is missing; runs in `make test-all`")

from toolspeak.integrations.pydantic_ai import ToolspeakModel  # noqa: E402


def agent(model: Any, **options: Any) -> Any:
    return pydantic_ai.Agent(ToolspeakModel(model), **options)


def calls_of(result: Any) -> list[tuple[str, Any]]:
    parts = [part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-call"]
    return [(part.tool_name, part.args_as_dict()) for part in parts]


def test_two_rounds_with_two_tools():
    result = agent(PlainModel(), tools=[temperature, add]).run_sync(QUESTION)
    assert (calls_of(result), result.output) == (CALLS, ANSWER)


def test_two_rounds_with_two_tools_streamed():
    kinds: list[str] = []

    async def handle(context: Any, events: Any) -> None:
        kinds.extend([event.event_kind async for event in events])

    result = asyncio.run(agent(PlainModel(), tools=[temperature, add]).run(QUESTION, event_stream_handler=handle))
    assert (calls_of(result), result.output) == (CALLS, ANSWER)
    assert kinds.count("part_delta") > 5


def test_a_model_answers_in_several_event_loops():
    hello = agent(PlainModel())
    assert [asyncio.run(hello.run("Hello")).output for _ in range(2)] == ["Hello there."] * 2


class City(pydantic.BaseModel):
    name: str


@pytest.mark.parametrize(
    "output_type", [pydantic_ai.NativeOutput(City), pydantic_ai.PromptedOutput(City)], ids=["native", "prompted"]
)
def test_structured_output(output_type: Any):
    assert agent(PlainModel('{"name": "Oslo"}'), output_type=output_type).run_sync("Which city?").output == City(
        name="Oslo"
    )


def test_structured_output_by_a_tool():
    def model(messages: list[dict[str, Any]]) -> str:
        return '<tool_call>{"name": "final_result", "arguments": {"name": "Oslo"}}</tool_call>'

    assert agent(model, output_type=City).run_sync("Which city?").output == City(name="Oslo")


def test_usage_is_that_of_the_model():
    usage = agent(ts.Scripted("Hello.")).run_sync("Hi").usage
    assert (usage.input_tokens, usage.output_tokens) == (10, 5)


def test_settings_reach_the_model():
    upstream = ts.Scripted("Hello.")
    agent(ts.Client(upstream)).run_sync("Hi", model_settings={"temperature": 0.25})
    assert upstream.requests[0].options.temperature == 0.25


def test_a_model_that_fails_is_an_error_of_the_library():
    with pytest.raises(pydantic_ai.exceptions.ModelHTTPError, match="out of memory"):
        agent(failing).run_sync("Hi")
