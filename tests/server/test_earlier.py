"""Parts of earlier answers that a client names instead of sending them again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.asgi import Parrot, Team, ask, bearer, line, run
from tests.server.live import QUESTION, RESULTS, Two, live

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
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("named", [{"type": "item_reference"}, {}], ids=["typed", "bare"])
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
@pytest.mark.parametrize("case", ["never given out", "somebody else's", "not to be kept", "no name"])
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
    assert "not kept here" in message


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
