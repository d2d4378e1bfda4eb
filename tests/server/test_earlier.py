"""Parts of earlier answers that a client names instead of sending them again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.asgi import Parrot, Team, ask, bearer, line, run

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
