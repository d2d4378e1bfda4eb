"""smolagents' agents over a model that only writes text."""

from __future__ import annotations

from typing import Any

import pytest

import toolspeak as ts
from tests.integrations.plain_model import CALLS, QUESTION, PlainModel, add, failing, temperature

smolagents = pytest.importorskip("smolagents", reason="`smolagents` is missing; runs in `make test-all`")

from toolspeak.integrations.smolagents import ToolspeakModel  # noqa: E402

MESSAGES: list[Any] = [{"role": "user", "content": "Hi"}]


class FinishingModel(PlainModel):
    """Gives its answer as smolagents wants it: by a call of `final_answer`."""

    def _text(self, messages: list[dict[str, Any]]) -> str:
        text = super()._text(messages)
        if not text.startswith("Together"):
            return text
        return f'<tool_call>{{"name": "final_answer", "arguments": {{"answer": "{text}"}}}}</tool_call>'


@pytest.mark.parametrize("streamed", [False, True])
def test_two_rounds_with_two_tools(streamed: bool):
    tools = [smolagents.tool(temperature), smolagents.tool(add)]
    model = ToolspeakModel(FinishingModel())
    agent = smolagents.ToolCallingAgent(tools, model, stream_outputs=streamed, verbosity_level=0, max_tool_threads=1)
    assert agent.run(QUESTION) == "Together it is 33 degrees."
    steps = [step for step in agent.memory.steps if getattr(step, "tool_calls", None)]
    assert [(call.name, call.arguments) for step in steps for call in step.tool_calls][:3] == CALLS


def test_usage_is_that_of_the_model():
    model = ToolspeakModel(ts.Scripted("Hello.", again=True))
    usage = model.generate(MESSAGES).token_usage
    *_, last = model.generate_stream(MESSAGES)
    for each in (usage, last.token_usage):
        assert (each.input_tokens, each.output_tokens) == (10, 5)


def test_structured_output():
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "object", "required": ["name"]}}}
    model = ToolspeakModel(PlainModel('Sure: {"name": "Oslo"}'))
    assert model.generate(MESSAGES, response_format=form).content == '{"name":"Oslo"}'


def test_a_model_that_fails_is_an_error_of_openai():
    with pytest.raises(Exception, match="out of memory") as caught:
        ToolspeakModel(failing).generate(MESSAGES)
    assert type(caught.value).__name__ == "InternalServerError"
