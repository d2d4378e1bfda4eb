"""The SDKs' own ways to ask for JSON, through the real proxy with default settings.

Behind it is a model that takes no notice of a response format and writes prose around its JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

import toolspeak as ts
from tests.cases import check_each
from tests.server.asgi_client import ask, run
from tests.server.live_proxy import Live, between, live, read_request, service
from tests.server.protocol_clients import SPEAKERS, Speaker
from tests.upstreams.loopback_server import Heard, head, serving
from toolspeak.core.events import Event, Finish, TextDelta, UsageSeen
from toolspeak.core.types import Request, Usage
from toolspeak.engine.planning.strategy import Settings

pytestmark = pytest.mark.requirement("C8")

QUESTION = "Where is the opera house in the water?"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
PROSE = 'Sure! Here is what you asked for:\n\n```json\n{"city": "Oslo", "days": 2,}\n```\n\nAnything else?'


class Trip(BaseModel):
    """A trip."""

    city: str
    days: int


OSLO = Trip(city="Oslo", days=2)


class Prosaic:
    """A model that gives these answers in turn; the last one again and again."""

    def __init__(self, *answers: str) -> None:
        self._answers = answers or (PROSE,)
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> list[Event]:
        text = self._answers[min(len(self.asked), len(self._answers) - 1)]
        self.asked.append(request)
        pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
        return [*map(TextDelta, pieces), UsageSeen(Usage(20, 10)), Finish("stop")]


@pytest.fixture
def place() -> Iterator[Live]:
    model = Prosaic()
    with live(model, settings=Settings()) as place:
        yield place
    assert len(model.asked) == 1  # repaired, not asked for again
    assert "JSON" in model.asked[0].messages[0].text


# ---- openai


def _openai(place: Live) -> Any:
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0)


@check_each("stream", [False, True])
def test_openai_parses_chat_completions(stream: bool):
    with live(Prosaic(), settings=Settings()) as place, _openai(place) as client:
        asked: Any = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "response_format": Trip}
        if stream:
            with client.chat.completions.stream(**asked) as events:
                reply = events.get_final_completion()
        else:
            reply = client.chat.completions.parse(**asked)
    assert reply.choices[0].message.parsed == OSLO


@check_each("stream", [False, True])
def test_openai_gets_a_refusal_after_one_request(stream: bool):
    model = Prosaic("I'm sorry, but I can't help with that.")
    with live(model, settings=Settings()) as place, _openai(place) as client:
        asked: Any = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "response_format": Trip}
        if stream:
            with client.chat.completions.stream(**asked) as events:
                reply = events.get_final_completion()
        else:
            reply = client.chat.completions.parse(**asked)
    message = reply.choices[0].message
    assert (message.refusal, message.parsed, len(model.asked)) == ("I'm sorry, but I can't help with that.", None, 1)


@check_each("stream", [False, True])
def test_openai_parses_responses(stream: bool):
    with live(Prosaic(), settings=Settings()) as place, _openai(place) as client:
        if stream:
            with client.responses.stream(model="m", input=QUESTION, text_format=Trip) as events:
                reply = events.get_final_response()
        else:
            reply = client.responses.parse(model="m", input=QUESTION, text_format=Trip)
    assert reply.output_parsed == OSLO


def test_openai_gets_any_object(place: Live):
    with _openai(place) as client:
        messages: Any = [{"role": "user", "content": QUESTION}]
        reply = client.chat.completions.create(model="m", messages=messages, response_format={"type": "json_object"})
    assert json.loads(reply.choices[0].message.content) == OSLO.model_dump()


# ---- the other vendors' SDKs


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_anthropic_parses_messages(place: Live):
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=place.url, api_key="none", max_retries=0) as client:
        asked: Any = [{"role": "user", "content": QUESTION}]
        reply = client.messages.parse(model="m", max_tokens=99, messages=asked, output_format=Trip)
    assert reply.parsed_output == OSLO


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@check_each("config", [{"response_schema": Trip}, {"response_json_schema": SCHEMA}, {}])
def test_google_genai_gets_json(config: dict[str, Any]):
    genai = pytest.importorskip("google.genai")
    with live(Prosaic(), settings=Settings()) as place:
        client = genai.Client(api_key="none", http_options={"base_url": place.url})
        wanted = {"response_mime_type": "application/json", **config}
        reply = client.models.generate_content(model="m", contents=QUESTION, config=wanted)
    assert json.loads(reply.text) == OSLO.model_dump()
    if "response_schema" in config:
        assert reply.parsed == OSLO


@check_each("form", [SCHEMA, "json"])
def test_ollama_gets_json(form: Any):
    ollama = pytest.importorskip("ollama")
    with live(Prosaic(), settings=Settings()) as place:
        reply = ollama.Client(host=place.url).chat("m", messages=[{"role": "user", "content": QUESTION}], format=form)
    assert Trip.model_validate_json(reply.message.content) == OSLO


# ---- pydantic-ai and openai-agents


@pytest.mark.parametrize("output", ["NativeOutput", "PromptedOutput"])
@pytest.mark.parametrize("kind", ["openai-chat", "openai"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_pydantic_ai_gets_its_output(place: Live, kind: str, output: str):
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel if kind == "openai-chat" else OpenAIResponsesModel

    async def talk() -> Any:
        made = model("m", provider=OpenAIProvider(base_url=f"{place.url}/v1", api_key="none"))
        agent = pydantic_ai.Agent(made, output_type=getattr(pydantic_ai, output)(Trip), retries=0)
        return (await agent.run(QUESTION)).output

    assert asyncio.run(talk()) == OSLO


@pytest.mark.parametrize("kind", ["responses", "chat"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_openai_agents_get_their_output(place: Live, kind: str):
    agents = pytest.importorskip("agents")
    openai = pytest.importorskip("openai")

    async def talk() -> Any:
        client = openai.AsyncOpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0)
        made = agents.OpenAIResponsesModel if kind == "responses" else agents.OpenAIChatCompletionsModel
        agent = agents.Agent(name="a", model=made(model="m", openai_client=client), output_type=Trip)
        async with client:
            result = await agents.Runner.run(agent, QUESTION, run_config=agents.RunConfig(tracing_disabled=True))
        return result.final_output

    assert asyncio.run(talk()) == OSLO


# ---- between all protocols


def _formats() -> dict[str, dict[str, Any]]:
    trip = {"name": "trip", "description": "A trip.", "schema": SCHEMA}
    own = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}, "days": {"type": "INTEGER"}}}
    own["required"] = ["city", "days"]
    return {
        "openai_chat": {"response_format": {"type": "json_schema", "json_schema": trip}},
        "openai_responses": {"text": {"format": {"type": "json_schema", **trip}}},
        "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        "gemini": {"generationConfig": {"responseMimeType": "application/json", "responseSchema": own}},
        "ollama": {"format": SCHEMA},
    }


async def _asked(
    speaker: Speaker, upstream: str, model: Any, stream: bool, settings: Settings | None = None
) -> tuple[int, Any]:
    body = {**speaker.ask(stream, False), **_formats()[speaker.name]}
    async with between(model, upstream, settings or Settings()) as (app, _):
        answer = await ask(app, "POST", speaker.path(stream), body=body)
        return answer.status, answer.message if answer.status != 200 else speaker.read(answer.body, stream)


@check_each("stream", [False, True])
@check_each("upstream", ["openai_chat", "openai_responses", "anthropic", "gemini", "ollama"])
@check_each("speaker", [pytest.param(speaker, id=speaker.name) for speaker in SPEAKERS])
def test_every_protocol_is_served_on_every_upstream(speaker: Speaker, upstream: str, stream: bool):
    model = Prosaic("I cannot say.", PROSE)
    status, seen = run(_asked(speaker, upstream, model, stream))
    assert (status, json.loads(seen.text), seen.ended) == (200, OSLO.model_dump(), True)
    assert [request.options.response_format is not None for request in model.asked] == [True, True]


@check_each("stream", [False, True])
@check_each("speaker", [pytest.param(speaker, id=speaker.name) for speaker in SPEAKERS])
def test_an_answer_that_never_fits_is_an_error_in_the_clients_protocol(speaker: Speaker, stream: bool):
    status, message = run(_asked(speaker, "openai_chat", Prosaic("It is Oslo."), stream))
    assert status == 502
    assert "no answer in the requested format after 3 requests" in message


@check_each("upstream", ["openai_chat", "openai_responses", "anthropic", "gemini", "ollama"])
def test_an_upstream_that_rejects_the_field_is_asked_without_it(upstream: str):
    """Whatever belongs to the format is left out, extra fields as well."""
    heard: list[dict[str, Any]] = []
    fields = {"openai_chat": "response_format", "openai_responses": "text", "anthropic": "output_config"}
    field = (fields | {"gemini": "generationConfig", "ollama": "format"})[upstream]

    async def strict(each: Heard) -> None:
        heard.append(json.loads(each.body))
        if read_request(upstream, each).options.response_format is None:
            await service(upstream, Prosaic())(each)
            return
        body = json.dumps({"error": {"message": f"unknown field in `{field}`: json_schema"}}).encode()
        await each.send(head(f"content-length: {len(body)}", status="400 Bad Request"), body)

    (speaker,) = [speaker for speaker in SPEAKERS if speaker.name == upstream]
    status, seen = run(_asked(speaker, upstream, strict, False))
    assert (status, json.loads(seen.text)) == (200, OSLO.model_dump())
    assert [field in body for body in heard] == [True, False]


def test_a_valid_answer_is_not_changed_and_mode_off_changes_nothing():
    (chat,) = [speaker for speaker in SPEAKERS if speaker.name == "openai_chat"]
    valid = '{ "city" : "Oslo",\n "days": 2 }\n'
    _, seen = run(_asked(chat, "openai_chat", Prosaic(valid), True))
    assert seen.text == valid
    model = Prosaic()
    _, seen = run(_asked(chat, "openai_chat", model, True, Settings(mode="off")))
    assert (seen.text, len(model.asked), len(model.asked[0].messages)) == (PROSE, 1, 1)


@check_each("schema", ["a string", {"type": "nonsense"}])
def test_an_unusable_schema_is_refused_before_anything_is_asked(schema: Any):
    model = Prosaic()

    async def talk() -> Any:
        body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        async with between(model, "openai_chat", Settings()) as (app, _):
            return await ask(app, "POST", "/v1/chat/completions", body={**body, "response_format": form})

    answer = run(talk())
    assert (answer.status, model.asked) == (400, [])
    assert "the response format cannot be used" in answer.message


def test_an_upstream_that_rejected_the_field_once_is_not_sent_it_again():
    asked: list[bool] = []

    async def strict(each: Heard) -> None:
        asked.append(read_request("openai_chat", each).options.response_format is not None)
        if not asked[-1]:
            await service("openai_chat", Prosaic())(each)
            return
        body = b'{"error": {"message": "response_format is not supported"}}'
        await each.send(head(f"content-length: {len(body)}", status="400 Bad Request"), body)

    async def talk() -> list[int]:
        form = {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA}}
        async with serving(strict) as server:
            url = f"http://127.0.0.1:{server.port}/v1"
            async with ts.AsyncClient("openai:m", base_url=url, api_key="none") as client:
                return [(await client.chat(QUESTION, response_format=form)).requests for _ in range(2)]

    assert run(talk()) == [2, 1]
    assert asked == [True, False, False]
