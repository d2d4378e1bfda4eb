"""Unmodified clients, pointed at the proxy by their base URL only: two tools, two rounds, streaming and not.

The real server runs on the loopback; behind it is a model that has never heard of tools (emulation is forced). Where a
client runs the loop of rounds itself, it is let do so, with real functions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.live_proxy import ANSWER, CALLS, QUESTION, RESULTS, Live, Two, live
from tests.server.protocol_clients import Chat, Messages, Responses

STREAM = pytest.mark.parametrize("stream", [pytest.param(True, id="stream"), pytest.param(False, id="whole")])
CONVERSATION = list(CALLS.items())


@pytest.fixture
def place() -> Iterator[Live]:
    model = Two()
    with live(model) as place:
        yield place
    assert len(model.asked) == 2  # two rounds, nothing asked again
    assert not any(request.tools for request in model.asked)


class Functions:
    """The tools, and how they were called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def get_weather(self, city: str, days: int) -> str:
        """The weather of the next days."""
        self.calls.append(("get_weather", {"city": city, "days": days}))
        return RESULTS["get_weather"]

    def get_time(self, city: str) -> str:
        """What time it is in a city."""
        self.calls.append(("get_time", {"city": city}))
        return RESULTS["get_time"]

    def called(self) -> list[tuple[str, dict[str, Any]]]:
        """In the order of the conversation: some clients run them side by side."""
        return sorted(self.calls, key=lambda call: list(CALLS).index(call[0]))


# ---- openai


@pytest.mark.requirement("G4")
@STREAM
def test_openai_with_chat_completions(place: Live, stream: bool):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tools = Chat().ask(False)["tools"]

    def complete() -> Any:
        if not stream:
            return client.chat.completions.create(model="m", messages=messages, tools=tools)
        with client.chat.completions.stream(model="m", messages=messages, tools=tools) as events:
            for _ in events:
                pass
            return events.get_final_completion()

    with client:
        first = complete().choices[0]
        assert first.finish_reason == "tool_calls"
        called = [(call.function.name, json.loads(call.function.arguments)) for call in first.message.tool_calls]
        assert called == CONVERSATION
        messages.append(first.message)
        for call in first.message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.function.name]})
        second = complete().choices[0]
    assert (second.message.content, second.finish_reason) == (ANSWER, "stop")


@pytest.mark.requirement("G4")
@STREAM
def test_openai_with_responses(place: Live, stream: bool):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0)
    said: list[Any] = [{"role": "user", "content": QUESTION}]
    tools = Responses().ask(False)["tools"]

    def respond() -> Any:
        if not stream:
            return client.responses.create(model="m", input=said, tools=tools, store=False)
        with client.responses.stream(model="m", input=said, tools=tools, store=False) as events:
            for _ in events:
                pass
            return events.get_final_response()

    with client:
        first = respond()
        calls = [item for item in first.output if item.type == "function_call"]
        assert [(call.name, json.loads(call.arguments)) for call in calls] == CONVERSATION
        said += first.output
        for call in calls:
            said.append({"type": "function_call_output", "call_id": call.call_id, "output": RESULTS[call.name]})
        second = respond()
    assert (second.output_text, second.status) == (ANSWER, "completed")


# ---- anthropic


@pytest.mark.requirement("G4")
@STREAM
def test_anthropic(place: Live, stream: bool):
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.Anthropic(base_url=place.url, api_key="none", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tools = Messages().ask(False)["tools"]

    def message() -> Any:
        if not stream:
            return client.messages.create(model="m", max_tokens=500, messages=messages, tools=tools)
        with client.messages.stream(model="m", max_tokens=500, messages=messages, tools=tools) as events:
            for _ in events:
                pass
            return events.get_final_message()

    with client:
        first = message()
        calls = [block for block in first.content if block.type == "tool_use"]
        assert [(call.name, call.input) for call in calls] == CONVERSATION
        assert first.stop_reason == "tool_use"
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULTS[call.name]} for call in calls]
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        second = message()
    assert ([block.text for block in second.content], second.stop_reason) == ([ANSWER], "end_turn")


# ---- google-genai, which runs the rounds itself


@pytest.mark.requirement("G4")
@STREAM
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_google_genai(place: Live, stream: bool):
    genai = pytest.importorskip("google.genai")
    functions = Functions()
    client = genai.Client(api_key="none", http_options={"base_url": place.url})
    config = {"tools": [functions.get_weather, functions.get_time]}
    if stream:
        pieces = list(client.models.generate_content_stream(model="m", contents=QUESTION, config=config))
        text = "".join(piece.text or "" for piece in pieces)
        assert text.endswith(ANSWER)
    else:
        assert client.models.generate_content(model="m", contents=QUESTION, config=config).text == ANSWER
    client.close()
    assert functions.calls == CONVERSATION


# ---- ollama


@pytest.mark.requirement("G4")
@STREAM
def test_ollama(place: Live, stream: bool):
    ollama = pytest.importorskip("ollama")
    functions = Functions()
    client = ollama.Client(host=place.url)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]

    def chat() -> tuple[str, list[Any]]:
        tools = [functions.get_weather, functions.get_time]
        answer = client.chat("m", messages=messages, tools=tools, stream=stream)
        parts = list(answer) if stream else [answer]
        assert parts[-1].done_reason == "stop"
        text = "".join(part.message.content or "" for part in parts)
        return text, [call for part in parts for call in part.message.tool_calls or []]

    text, calls = chat()
    assert [(call.function.name, dict(call.function.arguments)) for call in calls] == CONVERSATION
    messages.append({"role": "assistant", "content": text, "tool_calls": calls})
    for call in calls:
        result = getattr(functions, call.function.name)(**call.function.arguments)
        messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    assert chat() == (ANSWER, [])
    client._client.close()


# ---- pydantic-ai and openai-agents, which run the rounds themselves


def _pydantic_model(kind: str, url: str) -> Any:
    match kind:
        case "openai-chat" | "openai":
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            model = OpenAIChatModel if kind == "openai-chat" else OpenAIResponsesModel
            return model("m", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel("m", provider=AnthropicProvider(base_url=url, api_key="none"))
        case _:
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel("m", provider=GoogleProvider(base_url=url, api_key="none"))


@pytest.mark.requirement("G4")
@STREAM
@pytest.mark.parametrize("kind", ["openai-chat", "openai", "anthropic", "google"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_pydantic_ai(place: Live, kind: str, stream: bool):
    pydantic_ai = pytest.importorskip("pydantic_ai")
    functions = Functions()

    async def talk() -> str:
        agent = pydantic_ai.Agent(_pydantic_model(kind, place.url), tools=[functions.get_weather, functions.get_time])
        if not stream:
            return (await agent.run(QUESTION)).output
        async with agent.run_stream_events(QUESTION) as events:
            *_, last = [event async for event in events]
        return last.result.output

    assert asyncio.run(talk()) == ANSWER
    assert functions.called() == CONVERSATION


@pytest.mark.requirement("G4")
@STREAM
@pytest.mark.parametrize("kind", ["responses", "chat"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_openai_agents(place: Live, kind: str, stream: bool):
    agents = pytest.importorskip("agents")
    openai = pytest.importorskip("openai")
    functions = Functions()

    async def talk() -> str:
        client = openai.AsyncOpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0)
        made = agents.OpenAIResponsesModel if kind == "responses" else agents.OpenAIChatCompletionsModel
        tools = [agents.function_tool(functions.get_weather), agents.function_tool(functions.get_time)]
        agent = agents.Agent(name="a", model=made(model="m", openai_client=client), tools=tools)
        quiet = agents.RunConfig(tracing_disabled=True)
        async with client:
            if not stream:
                return (await agents.Runner.run(agent, QUESTION, run_config=quiet)).final_output
            running = agents.Runner.run_streamed(agent, QUESTION, run_config=quiet)
            async for _ in running.stream_events():
                pass
            return running.final_output

    assert asyncio.run(talk()) == ANSWER
    assert functions.called() == CONVERSATION


# ---- which models there are


@pytest.mark.requirement("G4")
@check_each("version", ["v1", "v1beta"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_google_genai_lists_the_models_under_either_version(version: str):
    genai = pytest.importorskip("google.genai")
    with live(Two()) as place:
        options = {"base_url": place.url, "api_version": version}
        client = genai.Client(api_key="none", http_options=options)
        names = [model.name for model in client.models.list()]
        assert names == ["models/m"]
        assert client.models.get(model="m").name == "models/m"
        with pytest.raises(genai.errors.ClientError) as caught:
            client.models.get(model="no-such-model")
        assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")
        client.close()


@pytest.mark.requirement("G4")
def test_openai_lists_the_models():
    openai = pytest.importorskip("openai")
    with live(Two()) as place:
        client = openai.OpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0)
        assert [model.id for model in client.models.list()] == ["m"]
        assert client.models.retrieve("m").id == "m"
        client.close()
