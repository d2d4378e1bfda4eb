"""What the server's tools found belongs to one conversation, whatever ids an upstream gives to its calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.server.asgi_client import Answer, ask, bearer, run
from tests.server.test_tool_loop import Hanging, Place, client_tool, clock_call, message, result_of, said
from toolspeak.agent.calls import seconds_for
from toolspeak.core.types import JSONObject, Message, Opaque, Request
from toolspeak.engine.rounds.loop import RoundLimits
from toolspeak.upstreams.scripted import calls

SCHEMA: JSONObject = {"type": "object", "properties": {}}


def both(zone: str = "UTC") -> list[ts.Event]:
    """Calls of an upstream that numbers them anew in every answer."""
    return [
        ts.TextDelta("Both."),
        *calls(ts.ToolCall("clock", {"zone": zone}, "call_0"), ts.ToolCall("mine", {}, "call_1")),
    ]


class Face(NamedTuple):
    """How a client of one protocol asks and comes back."""

    path: str
    body: Callable[[list[Any]], JSONObject]
    #: What is said first, and the answer of the server followed by the result of the client's tool.
    first: JSONObject
    back: Callable[[JSONObject], list[Any]]


def chat_back(body: JSONObject) -> list[Any]:
    told = body["choices"][0]["message"]
    return [told, {"role": "tool", "tool_call_id": told["tool_calls"][0]["id"], "content": "mine says"}]


def responses_back(body: JSONObject) -> list[Any]:
    (call,) = [item for item in body["output"] if item["type"] == "function_call"]
    return [*body["output"], {"type": "function_call_output", "call_id": call["call_id"], "output": "mine says"}]


def anthropic_back(body: JSONObject) -> list[Any]:
    (call,) = [block for block in body["content"] if block["type"] == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "mine says"}
    return [{"role": "assistant", "content": body["content"]}, {"role": "user", "content": [result]}]


def gemini_back(body: JSONObject) -> list[Any]:
    content = body["candidates"][0]["content"]
    (call,) = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
    result = {"functionResponse": {"id": call["id"], "name": "mine", "response": {"result": "mine says"}}}
    return [content, {"role": "user", "parts": [result]}]


def ollama_back(body: JSONObject) -> list[Any]:
    told = body["message"]
    result = {"role": "tool", "tool_call_id": told["tool_calls"][0]["id"], "tool_name": "mine", "content": "mine says"}
    return [told, result]


FACES = {
    "openai_chat": Face(
        "/v1/chat/completions",
        lambda talk: {"model": "m", "messages": talk, "tools": [client_tool("mine")]},
        said()[0],
        chat_back,
    ),
    "openai_responses": Face(
        "/v1/responses",
        lambda talk: {
            "model": "m",
            "input": talk,
            "tools": [{"type": "function", "name": "mine", "parameters": SCHEMA}],
        },
        said()[0],
        responses_back,
    ),
    "anthropic": Face(
        "/v1/messages",
        lambda talk: {
            "model": "m",
            "max_tokens": 99,
            "messages": talk,
            "tools": [{"name": "mine", "input_schema": SCHEMA}],
        },
        said()[0],
        anthropic_back,
    ),
    "gemini": Face(
        "/v1beta/models/m:generateContent",
        lambda talk: {"contents": talk, "tools": [{"functionDeclarations": [{"name": "mine"}]}]},
        {"role": "user", "parts": [{"text": "What time is it?"}]},
        gemini_back,
    ),
    "ollama": Face(
        "/api/chat",
        lambda talk: {"model": "m", "messages": talk, "tools": [client_tool("mine")], "stream": False},
        said()[0],
        ollama_back,
    ),
}


class Listener:
    """A script that keeps what it is asked."""

    def __init__(self) -> None:
        self.heard: list[tuple[Message, ...]] = []

    def __call__(self, request: Request) -> str:
        self.heard.append(request.messages)
        return "Done."


def steps(messages: tuple[Message, ...]) -> list[Any]:
    """A conversation as the upstream sees it: what is said, or the calls, or the results."""
    return [
        [(call.id, call.name) for call in each.calls] or [(one.id, one.content) for one in each.results] or each.text
        for each in messages
    ]


def put_back_with(found: str) -> list[Any]:
    """The conversation with what the server's tool has found, the ids those that the upstream gave."""
    return [
        "What time is it?",
        [("call_0", "clock"), ("call_1", "mine")],
        [("call_0", found)],
        [("call_1", "mine says")],
    ]


@pytest.mark.requirement("A15")
@check_each("elsewhere", [False, True], ids=["the same process", "another process"])
@check_each("name", FACES)
def test_conversations_whose_calls_have_the_same_ids_keep_what_was_found_apart(name: str, elsewhere: bool) -> None:
    face, listener = FACES[name], Listener()
    place = Place(both(), both(), listener, listener)

    async def asked(talk: list[Any], app: Any = None) -> JSONObject:
        headers = bearer(place.key) | {"content-type": "application/json"}
        answer = await ask(app or place.app, "POST", face.path, headers, face.body(talk))
        assert answer.status == 200, answer.body
        return answer.json

    async def talks() -> None:
        begun: list[JSONObject] = []
        for place.clock.answer in ("found for anna", "found for berta"):  # who say the same words
            begun.append(await asked([face.first]))
        for each in begun:
            await asked([face.first, *face.back(each)], place.proxy() if elsewhere else None)

    run(talks())

    assert [steps(messages) for messages in listener.heard] == [
        put_back_with("found for anna"),
        put_back_with("found for berta"),
    ]


def record_of(place: Place, answer: Answer) -> str:
    path = f"/toolspeak/requests/{json.loads(answer.header('x-toolspeak'))['id']}"
    return run(ask(place.app, "GET", path, bearer(place.key))).body.decode()


def test_what_is_kept_no_more_is_not_made_up_and_noted() -> None:
    listener = Listener()
    place = Place(both(), listener)

    async def talk() -> Answer:
        first = message(await place.ask({"messages": said(), "tools": [client_tool("mine")]}))
        for key in place.state.keys("items/"):
            place.state.delete(key)
        return await place.ask({"messages": [*said(), first, result_of(first)], "tools": [client_tool("mine")]})

    answer = run(talk())

    assert [[call.name for call in each.calls] for each in listener.heard[0] if each.calls] == [["mine"]]
    assert "server_rounds_lost" in record_of(place, answer)


def test_a_call_behind_which_nothing_is_hidden_keeps_its_id() -> None:
    place = Place(calls(ts.ToolCall("mine", {}, "call_1")))

    answer = run(place.ask({"messages": said(), "tools": [client_tool("mine")]}))

    assert [call["id"] for call in message(answer)["tool_calls"]] == ["call_1"]


@check_each("kept", ["call_1", "call_9"])
def test_an_id_that_another_call_has_by_now_is_not_given_back(kept: str) -> None:
    listener = Listener()
    place = Place(both(), listener)
    mine = {"type": "function", "function": {"name": "mine", "arguments": "{}"}}

    async def talk() -> None:
        first = message(await place.ask({"messages": said(), "tools": [client_tool("mine")]}))
        before = [  # a client that put another conversation before this one
            {"role": "assistant", "tool_calls": [{**mine, "id": kept}]},
            {"role": "tool", "tool_call_id": kept, "content": "before"},
        ]
        await place.ask({"messages": [*said(), *before, first, result_of(first)], "tools": [client_tool("mine")]})

    run(talk())

    ids = [call.id for each in listener.heard[0] for call in each.calls]
    results = [one.id for each in listener.heard[0] for one in each.results]
    assert len(set(ids)) == len(ids) == 3
    assert sorted(ids) == sorted(results)
    assert (kept == "call_1") != (ids[-1] == "call_1")


def test_what_is_said_about_a_call_follows_it_to_its_new_id() -> None:
    about = ts.OpaqueSeen(Opaque("openai_call", {"id": "call_1", "extra_content": {"signature": "abc"}}))
    other = ts.OpaqueSeen(Opaque("openai_call", {"id": "call_0", "extra_content": {"signature": "def"}}))
    place = Place([other, about, *both()])

    answer = run(place.ask({"messages": said(), "tools": [client_tool("mine")]}))

    (call,) = message(answer)["tool_calls"]
    assert call["extra_content"] == {"signature": "abc"}
    assert call["id"] != "call_1"


# ---- time


@pytest.mark.requirement("A15")
def test_a_tool_ends_when_the_time_of_the_answer_is_over() -> None:
    async def talk() -> tuple[Answer, bool]:
        tool, listener = Hanging(), Listener()
        place = Place(clock_call(), listener, tools=[tool], limits=RoundLimits(seconds=0.05))
        place.loop.tool_seconds = 30.0
        async with asyncio.timeout(5):
            answer = await place.ask({"messages": said()})
        assert "was stopped" in str(listener.heard[0][-2].results)
        return answer, tool.cancelled.is_set()

    answer, cancelled = run(talk())

    assert message(answer)["content"] == "Done."
    assert cancelled


@check_each(
    ("tool", "answer", "left"),
    [(None, None, None), (3.0, None, 3.0), (3.0, 9.0, 3.0), (9.0, 3.0, 3.0), (None, 3.0, 3.0)],
)
def test_a_call_may_take_as_long_as_both_limits_allow(tool: float | None, answer: float | None, left: float) -> None:
    assert seconds_for(tool, answer, now=0.0) == left


def test_when_no_time_is_left_a_call_has_next_to_none() -> None:
    assert 0.0 < (seconds_for(9.0, 1.0, now=2.0) or 9.0) < 0.01
