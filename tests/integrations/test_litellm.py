"""LiteLLM with toolspeak as a custom provider, over a model that only writes text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

import toolspeak as ts
from tests.integrations.plain_model import ANSWER, CALLS, QUESTION, PlainModel, PlainService, add, failing, temperature
from toolspeak.tools.functions import tool

litellm = pytest.importorskip("litellm", reason="`litellm` is missing; runs in `make test-all`")

from toolspeak.integrations.litellm import register  # noqa: E402

# LiteLLM uses what newer versions of pydantic warn about.
pytestmark = pytest.mark.filterwarnings("ignore")
RUN = {"temperature": temperature, "add": add}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": each.tool.name, "parameters": each.tool.parameters}}
    for each in map(tool, RUN.values())
]
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(autouse=True)
def _providers() -> Iterator[None]:
    before = litellm.custom_provider_map
    yield
    litellm.custom_provider_map = before


@pytest.mark.parametrize("streamed", [False, True])
def test_two_rounds_with_two_tools(streamed: bool):
    register(PlainModel())
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    calls: list[tuple[str, Any]] = []
    for _ in range(3):
        answer = litellm.completion("toolspeak/plain", messages, tools=TOOLS, stream=streamed)
        if streamed:
            answer = litellm.stream_chunk_builder(list(answer), messages=messages)
        message = answer.choices[0].message
        messages.append(message.model_dump())
        for call in message.tool_calls or ():
            values = json.loads(call.function.arguments)
            calls.append((call.function.name, values))
            result = str(RUN[call.function.name](**values))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert (calls, messages[-1]["content"]) == (CALLS, ANSWER)


def test_answers_in_an_event_loop():
    register(PlainModel())

    async def ask() -> list[str]:
        whole = await litellm.acompletion("toolspeak/plain", HELLO)
        stream = await litellm.acompletion("toolspeak/plain", HELLO, stream=True)
        return [whole.choices[0].message.content, "".join([c.choices[0].delta.content or "" async for c in stream])]

    assert asyncio.run(ask()) == ["Hello there."] * 2


def test_the_name_of_the_model_is_used_if_none_is_given():
    with PlainService(PlainModel()) as service:
        register(base_url=service.url, api_key="sk-1")
        answer = litellm.completion("toolspeak/openai:my-model", HELLO)
    assert service.requests[0][2]["model"] == "my-model"
    assert answer.usage.total_tokens == 15


def test_usage_and_fields_are_those_of_the_request():
    upstream = ts.Scripted("Hello.", again=True)
    register(upstream, provider="mine")
    answer = litellm.completion("mine/any", HELLO, temperature=0.5, max_tokens=7)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (10, 5)
    options = upstream.requests[0].options
    assert (options.temperature, options.max_tokens) == (0.5, 7)


def test_structured_output():
    register(PlainModel('Sure: {"name": "Oslo"}'))
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "object", "required": ["name"]}}}
    answer = litellm.completion("toolspeak/plain", HELLO, response_format=form)
    assert answer.choices[0].message.content == '{"name":"Oslo"}'


@pytest.mark.parametrize("streamed", [False, True])
def test_a_model_that_fails_is_an_error_of_the_library(streamed: bool):
    register(failing)
    with pytest.raises(Exception, match="out of memory") as caught:
        list(litellm.completion("toolspeak/plain", HELLO, stream=streamed, num_retries=0))
    assert type(caught.value).__module__.startswith("litellm")
