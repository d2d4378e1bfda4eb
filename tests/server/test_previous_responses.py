"""Parts of earlier answers that a client names instead of sending them again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import Parrot, Team, ask, bearer, line, run
from tests.server.live_proxy import QUESTION, RESULTS, Two, live

SAID = "A text that the model wrote before."
USER = {"role": "user", "content": "Hello?"}


def _app(parrot: Parrot) -> Team:
    return Team(line("one", parrot), required=True)


async def _first(team: Team, key: str, **fields: Any) -> dict[str, Any]:
    """The item of an answer, whole or at the end of a stream."""
    answer = await ask(team.app, "POST", "/v1/responses", bearer(key), {"model": "m", "input": [USER], **fields})
    assert answer.status == 200
    if not fields.get("stream"):
        return answer.json["output"][0]
    last = [each for each in answer.body.decode().split("\n\n") if "response.completed" in each][-1]
    return json.loads(last.partition("data: ")[2])["response"]["output"][0]


@pytest.mark.requirement("G5")
@check_each("stream", [True, False])
@check_each("named", [{"type": "item_reference"}, {}], ids=["typed", "bare"])
def test_an_item_of_an_earlier_answer_can_be_named(stream: bool, named: dict[str, str]):
    parrot = Parrot(SAID)
    team = _app(parrot)
    key = team.key("anna")

    async def converse() -> None:
        item = await _first(team, key, stream=stream)
        body = {"model": "m", "input": [USER, {**named, "id": item["id"]}, USER]}
        answer = await ask(team.app, "POST", "/v1/responses", bearer(key), body)
        assert answer.status == 200

    run(converse())
    assert [(message.role, message.text) for message in parrot.asked[1].messages] == [
        ("user", "Hello?"),
        ("assistant", SAID),
        ("user", "Hello?"),
    ]


@pytest.mark.requirement("G5", "R-T8")
@check_each("case", ["never given out", "somebody else's", "not to be kept", "no name"])
def test_a_name_that_means_nothing_to_the_caller_is_an_error(case: str):
    team = _app(Parrot(SAID))
    anna, berta = team.key("anna"), team.key("berta")

    async def converse() -> tuple[int, str]:
        item = await _first(team, anna, **({"store": False} if case == "not to be kept" else {}))
        name = {"never given out": "msg_1", "no name": 7}.get(case, item["id"])
        body = {"model": "m", "input": [{"type": "item_reference", "id": name}, USER]}
        answer = await ask(team.app, "POST", "/v1/responses", bearer(berta if "else" in case else anna), body)
        return answer.status, answer.message

    status, message = run(converse())
    assert status == 400
    assert "not stored here" in message


@pytest.mark.requirement("G4", "G5")
def test_anthropic_s_tool_runner_finds_out_that_threads_are_not_kept():
    anthropic = pytest.importorskip("anthropic")
    called: list[tuple[str, str]] = []

    @anthropic.beta_tool
    def get_weather(city: str, days: int) -> str:
        """The weather of the next days."""
        called.append(("get_weather", city))
        return RESULTS["get_weather"]

    @anthropic.beta_tool
    def get_time(city: str) -> str:
        """What time it is in a city."""
        called.append(("get_time", city))
        return RESULTS["get_time"]

    model = Two()
    with live(model) as place, anthropic.Anthropic(base_url=place.url, api_key="none", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": QUESTION}]
        tools: Any = [get_weather, get_time]
        runner = client.beta.messages.tool_runner(model="m", max_tokens=500, messages=messages, tools=tools)
        last = runner.until_done()
    assert sorted(called) == [("get_time", "Oslo"), ("get_weather", "Oslo")]
    assert "windy" in last.content[0].text
    assert len(model.asked) == 2


# ---- whole responses


def _texts(parrot: Parrot, at: int) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in parrot.asked[at].messages]


def _id_of(answer: Any, stream: bool) -> str:
    if not stream:
        return answer.json["id"]
    last = [each for each in answer.body.decode().split("\n\n") if "response.completed" in each][-1]
    return json.loads(last.partition("data: ")[2])["response"]["id"]


@pytest.mark.requirement("G5")
@check_each("stream", [True, False])
def test_a_conversation_goes_on_from_an_earlier_response(stream: bool):
    parrot = Parrot(SAID)
    team = _app(parrot)
    key = team.key("anna")

    async def converse() -> None:
        previous = None
        for number, text in enumerate(["One?", [{"role": "user", "content": "Two?"}], "Three?"]):
            body = {"model": "m", "input": text, "stream": stream, "instructions": f"Rule {number}."}
            if previous is not None:
                body["previous_response_id"] = previous
            answer = await ask(team.app, "POST", "/v1/responses", bearer(key), body)
            assert answer.status == 200, answer.message
            if previous is not None and not stream:
                assert answer.json["previous_response_id"] == previous
            previous = _id_of(answer, stream)

    run(converse())
    said = ("assistant", SAID)
    # Instructions are those of the request itself; everything else is there.
    assert _texts(parrot, 2) == [
        ("system", "Rule 2."),
        ("user", "One?"),
        said,
        ("user", "Two?"),
        said,
        ("user", "Three?"),
    ]
    assert all("previous_response_id" not in request.options.extra for request in parrot.asked)


@pytest.mark.requirement("G5")
def test_a_conversation_can_branch():
    parrot = Parrot(SAID)
    team = _app(parrot)
    key = team.key("anna")

    async def one(text: str, previous: str = "") -> str:
        body = {"model": "m", "input": text, **({"previous_response_id": previous} if previous else {})}
        answer = await ask(team.app, "POST", "/v1/responses", bearer(key), body)
        assert answer.status == 200, answer.message
        return answer.json["id"]

    async def converse() -> None:
        root = await one("root")
        await one("left", root)
        await one("right", root)

    run(converse())
    assert [text for role, text in _texts(parrot, 2) if role == "user"] == ["root", "right"]


@pytest.mark.requirement("G5", "R-T8")
@check_each("case", ["never given out", "somebody else's", "not to be kept", "in the background", "an item"])
def test_a_response_that_means_nothing_to_the_caller_is_an_error(case: str):
    team = _app(Parrot(SAID))
    anna, berta = team.key("anna"), team.key("berta")

    async def converse() -> tuple[int, str]:
        first: dict[str, Any] = {"model": "m", "input": "Hello?"}
        if case == "not to be kept":
            first["store"] = False
        answer = await ask(team.app, "POST", "/v1/responses", bearer(anna), first)
        name = {"never given out": "resp_1", "an item": answer.json["output"][0]["id"]}.get(case, answer.json["id"])
        body: dict[str, Any] = {"model": "m", "input": "And?", "previous_response_id": name}
        if case == "in the background":
            body["background"] = True
        answer = await ask(team.app, "POST", "/v1/responses", bearer(berta if "else" in case else anna), body)
        return answer.status, answer.message

    status, message = run(converse())
    assert status == 400
    assert "not stored here" in message


@pytest.mark.requirement("G5", "C3")
def test_a_tool_s_result_can_be_sent_behind_the_response_that_asked_for_it():
    openai = pytest.importorskip("openai")
    model = Two()
    tools: Any = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in RESULTS]
    with live(model) as place, openai.OpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0) as client:
        first = client.responses.create(model="m", input=QUESTION, tools=tools)
        calls = [item for item in first.output if item.type == "function_call"]
        assert len(calls) == 2
        results: Any = [
            {"type": "function_call_output", "call_id": call.call_id, "output": RESULTS[call.name]} for call in calls
        ]
        second = client.responses.create(model="m", input=results, tools=tools, previous_response_id=first.id)
    assert "windy" in second.output_text
    assert second.previous_response_id == first.id


def test_what_is_too_large_to_be_kept_is_answered_all_the_same(caplog: pytest.LogCaptureFixture):
    team = _app(Parrot(SAID))
    key = team.key("anna")

    async def converse() -> tuple[int, int]:
        body = {"model": "m", "input": "x" * (5 * 1024 * 1024)}
        first = await ask(team.app, "POST", "/v1/responses", bearer(key), body)
        body = {"model": "m", "input": "And?", "previous_response_id": first.json["id"]}
        second = await ask(team.app, "POST", "/v1/responses", bearer(key), body)
        return first.status, second.status

    assert run(converse()) == (200, 400)
    assert "cannot store a response" in caplog.text
