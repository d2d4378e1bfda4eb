"""OpenAI's client library over a model that only writes text: `ts.wrap` and `openai_client`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

import toolspeak as ts
from tests.integrations.plain_model import ANSWER, CALLS, QUESTION, PlainModel, PlainService, add, failing, temperature
from toolspeak.tools.functions import tool

openai = pytest.importorskip("openai", reason="`openai` is missing; runs in `make test-all`")

from toolspeak.integrations.openai import async_openai_client, openai_client  # noqa: E402

RUN = {"temperature": temperature, "add": add}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": each.tool.name, "parameters": each.tool.parameters}}
    for each in map(tool, RUN.values())
]


@pytest.fixture
def service() -> Iterator[PlainService]:
    with PlainService(PlainModel()) as service:
        yield service


def client_of(service: PlainService, **options: Any) -> Any:
    return ts.wrap(openai.OpenAI(base_url=service.url, api_key="sk-1", **options))


def converse(client: Any, *, streamed: bool) -> tuple[list[tuple[str, Any]], str]:
    """Ask the question and run tools until there is an answer. Returns the calls and the answer."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    calls: list[tuple[str, Any]] = []
    while True:
        arguments: Any = {"model": "m", "messages": messages, "tools": TOOLS}
        if streamed:
            with client.chat.completions.stream(**arguments) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(**arguments).choices[0].message
        if not message.tool_calls:
            return calls, message.content
        messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in message.tool_calls:
            values = json.loads(call.function.arguments)
            calls.append((call.function.name, values))
            result = RUN[call.function.name](**values)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})


@pytest.mark.parametrize("streamed", [False, True])
def test_a_wrapped_client_completes_two_rounds_with_two_tools(service: PlainService, streamed: bool):
    assert converse(client_of(service), streamed=streamed) == (CALLS, ANSWER)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_for_any_model_completes_two_rounds_with_two_tools(streamed: bool):
    assert converse(openai_client(PlainModel()), streamed=streamed) == (CALLS, ANSWER)


def test_a_wrapped_async_client_streams_and_answers(service: PlainService):
    async def ask() -> tuple[Any, Any]:
        client = ts.wrap(openai.AsyncOpenAI(base_url=service.url, api_key="sk-1"))
        arguments: Any = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "tools": TOOLS}
        whole = await client.chat.completions.create(**arguments)
        stream = await client.chat.completions.create(**arguments, stream=True)
        deltas = [chunk.choices[0].delta async for chunk in stream]
        await client.close()
        return whole.choices[0].message, deltas

    message, deltas = asyncio.run(ask())
    assert [json.loads(call.function.arguments) for call in message.tool_calls] == [each for _, each in CALLS[:2]]
    assert message.content == "".join(delta.content or "" for delta in deltas) == "Let me look.\n"
    pieces = [call for delta in deltas for call in delta.tool_calls or ()]
    assert "".join(piece.function.arguments for piece in pieces) == '{"city":"Oslo"}{"city":"Paris"}'


def test_usage_is_that_of_the_service(service: PlainService):
    ask: Any = client_of(service).chat.completions.create
    messages = [{"role": "user", "content": "Hello"}]
    assert ask(model="m", messages=messages).usage.total_tokens == 15
    *_, last = ask(model="m", messages=messages, stream=True, stream_options={"include_usage": True})
    assert last.usage.total_tokens == 15


def test_a_stream_may_be_left_early(service: PlainService):
    with client_of(service).chat.completions.create(
        model="m", messages=[{"role": "user", "content": QUESTION}], tools=TOOLS, stream=True
    ) as stream:
        assert next(iter(stream)).choices[0].delta.role == "assistant"


def test_a_wrapped_async_client_passes_other_requests_on_and_may_leave_a_stream_early(service: PlainService):
    async def ask() -> tuple[Any, Any]:
        async with ts.wrap(openai.AsyncOpenAI(base_url=service.url, api_key="sk-1")) as client:
            embedding = (await client.embeddings.create(model="m", input="x", encoding_format="float")).data[0]
            arguments: Any = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "tools": TOOLS}
            async with await client.chat.completions.create(**arguments, stream=True) as stream:
                first = await anext(aiter(stream))
            return embedding.embedding, first.choices[0].delta.role

    assert asyncio.run(ask()) == ([0.5], "assistant")


def test_structured_output_is_parsed():
    class City(pydantic.BaseModel):
        name: str

    client = openai_client(PlainModel('{"name": "Oslo"}'))
    completion = client.chat.completions.parse(
        model="m", messages=[{"role": "user", "content": "Which city?"}], response_format=City
    )
    assert completion.choices[0].message.parsed == City(name="Oslo")


def test_what_belongs_to_one_call_reaches_the_service(service: PlainService):
    client_of(service).chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "Hello"}],
        temperature=0.5,
        timeout=5,
        extra_headers={"x-team": "red"},
        extra_query={"api-version": "1"},
        extra_body={"top_k": 3},
    )
    ((path, headers, body),) = service.requests
    assert path == "/v1/chat/completions?api-version=1"
    assert (headers["x-team"], headers["authorization"]) == ("red", "Bearer sk-1")
    assert (body["temperature"], body["top_k"]) == (0.5, 3)
    assert not [name for name in body if name.startswith(("toolspeak", "extra"))]


def test_other_requests_are_passed_on(service: PlainService):
    client = client_of(service).with_options(max_retries=0)
    assert client.embeddings.create(model="m", input="x", encoding_format="float").data[0].embedding == [0.5]


def test_other_requests_need_a_client_that_was_wrapped():
    with pytest.raises(openai.NotFoundError, match="answers chat completions only"):
        openai_client(PlainModel()).models.list()


def test_errors_of_the_service_keep_their_class_and_are_not_sent_again():
    with PlainService(PlainModel(), status=429) as service:
        client = client_of(service, max_retries=0).with_options(max_retries=2)
        with pytest.raises(openai.RateLimitError, match="too many requests") as caught:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello"}])
        assert caught.value.code == "slow_down"
        assert len(service.requests) == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_a_model_that_fails_is_an_error_of_the_library(streamed: bool):
    with pytest.raises(openai.InternalServerError, match="out of memory"):
        openai_client(failing).chat.completions.create(
            model="m", messages=[{"role": "user", "content": QUESTION}], stream=streamed
        )


def test_a_model_that_fails_later_ends_the_stream_with_an_error():
    def model(messages: list[dict[str, Any]]) -> Iterator[str]:
        yield "Hello there, "
        raise RuntimeError("out of memory")

    stream = openai_client(model).chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hello"}], stream=True
    )
    with pytest.raises(openai.APIError, match="out of memory"):
        list(stream)


@pytest.mark.parametrize("field", [{"tools": [{"type": "function"}]}, {"temperature": "hot"}, {"messages": []}])
def test_invalid_requests_are_errors_of_the_library(field: dict[str, Any]):
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], **field}
    with pytest.raises(openai.BadRequestError):
        openai_client(PlainModel()).chat.completions.create(**body)


def test_a_tool_choice_that_cannot_be_met_is_an_error():
    client = openai_client(lambda messages: "I would rather not.")
    with pytest.raises(openai.APIStatusError, match="after 3 requests"):
        client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hello"}], tools=TOOLS, tool_choice="required"
        )


class Completions:
    """Completions of a library that only resembles OpenAI's: it takes any field and returns dicts."""

    def __init__(self) -> None:
        self.model = PlainModel()
        self.fields: dict[str, Any] = {}

    def create(self, *, messages: Any, **fields: Any) -> Any:
        self.fields = fields
        text = "".join(self.model(messages))
        finish = {"index": 0, "finish_reason": "stop"}
        if fields.get("stream"):
            return iter([{"choices": [{**finish, "delta": {"content": text}}]}])
        return {"choices": [{**finish, "message": {"role": "assistant", "content": text}}]}


class Lookalike:
    def __init__(self) -> None:
        self.chat = self
        self.completions = Completions()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_of_another_library_is_wrapped_as_well(streamed: bool):
    client = Lookalike()
    assert converse(ts.wrap(client), streamed=streamed) == (CALLS, ANSWER)
    assert client.completions.fields["model"] == "m"
    assert client.completions.fields.get("stream", False) is streamed


def test_what_is_no_client_cannot_be_wrapped():
    with pytest.raises(ts.UsageError, match=r"a `int` has no `chat.completions.create`"):
        ts.wrap(5)


def test_settings_are_those_of_the_client(service: PlainService):
    client = ts.wrap(openai.OpenAI(base_url=service.url, api_key="sk-1"), chat_only=True)
    completion = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": QUESTION}], tools=TOOLS
    )
    assert (completion.choices[0].message.content, completion.choices[0].message.tool_calls) == ("Hello there.", None)


def test_an_existing_client_is_used_as_it_is():
    upstream = ts.Scripted("Hello.", again=True)
    client = openai_client(ts.Client(upstream), temperature=0.5)
    completion = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    assert (completion.choices[0].message.content, completion.model) == ("Hello.", "scripted")
    assert completion.usage is not None and completion.usage.total_tokens == 15
    assert upstream.requests[0].options.temperature == 0.5
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}], temperature=0.1)
    assert upstream.requests[1].options.temperature == 0.1
    with pytest.raises(ts.UsageError, match="`mode` cannot be changed for an existing client"):
        openai_client(ts.Client(upstream), mode="force")


def test_an_async_client_answers_no_synchronous_code():
    client = openai_client(ts.AsyncClient(ts.Scripted("Hello.")))
    with pytest.raises(openai.BadRequestError, match="cannot be called from synchronous code"):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])


def test_an_async_client_is_used_in_the_loop_of_its_caller():
    async def ask() -> Any:
        client = async_openai_client(ts.AsyncClient(ts.Scripted("Hello.")))
        return await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])

    assert asyncio.run(ask()).choices[0].message.content == "Hello."
