"""The same request again: with the same `Idempotency-Key` it is answered from memory, and nobody else can tell."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.cases import check_each
from tests.server.asgi_client import HELLO, Answer, Parrot, Team, ask, bearer, line, run
from tests.server.live_proxy import QUESTION, Two, live
from toolspeak.core.events import Event, Failure, TextDelta
from toolspeak.core.types import Request
from toolspeak.runtime.tool_memory import ToolMemory
from toolspeak.server.proxy import idempotency as again
from toolspeak.store.cached_key_value import WriteBehindKeyValue
from toolspeak.store.database import Database
from toolspeak.store.sql_key_value import SqlKeyValue
from toolspeak.upstreams.base import Batches

pytestmark = pytest.mark.requirement("R-F37")
CHAT = "/v1/chat/completions"


class Place:
    """A server, and what its holders of keys do there."""

    def __init__(self, parrot: Parrot | None = None) -> None:
        self.parrot = parrot or Parrot()
        self.team = Team(line("one", self.parrot), required=True)
        self.anna, self.berta = self.team.key("anna"), self.team.key("berta")

    async def asks(self, key: str, who: str = "", path: str = CHAT, **fields: Any) -> Answer:
        headers = {**bearer(who or self.anna), "Idempotency-Key": key}
        return await ask(self.team.app, "POST", path, headers, {**HELLO, **fields})


@check_each("stream", [False, True])
def test_the_same_request_with_the_same_key_gets_the_same_answer_and_asks_nobody(stream: bool):
    async def scenario() -> None:
        place = Place()
        first = await place.asks("k1", stream=stream)
        second = await place.asks("k1", stream=stream)
        assert (first.status, second.status) == (200, 200)
        assert second.body == first.body
        assert second.header("content-type") == first.header("content-type")
        assert second.header("x-toolspeak") == first.header("x-toolspeak")
        assert (first.header("idempotent-replayed"), second.header("idempotent-replayed")) == ("", "true")
        assert len(place.parrot.asked) == 1
        assert (await place.asks("k2", stream=stream)).body != first.body
        assert len(place.parrot.asked) == 2

    run(scenario())


def test_a_key_is_its_tenants_own():
    async def scenario() -> None:
        place = Place()
        await place.asks("k")
        theirs = await place.asks("k", place.berta, messages=[{"role": "user", "content": "Something else."}])
        assert (theirs.status, theirs.header("idempotent-replayed")) == (200, "")
        assert len(place.parrot.asked) == 2

    run(scenario())


@check_each("other", [{"messages": [{"role": "user", "content": "Bye."}]}, {"stream": True}, {"path": "/v1/messages"}])
def test_a_key_stands_for_one_request(other: dict[str, Any]):
    async def scenario() -> None:
        place = Place()
        await place.asks("k", max_tokens=9)
        refused = await place.asks("k", **{"max_tokens": 9, **other})
        assert (refused.status, "a different request" in refused.message) == (422, True)
        assert len(place.parrot.asked) == 1

    run(scenario())


def test_who_asks_again_before_the_answer_is_there_is_told_to_wait():
    async def scenario() -> None:
        place = Place()
        place.parrot.held = asyncio.Event()
        first = asyncio.create_task(place.asks("k"))
        await place.parrot.reached.wait()
        refused = await place.asks("k")
        assert (refused.status, refused.header("retry-after")) == (409, "1")
        place.parrot.held.set()
        assert (await place.asks("other")).status == 200
        assert (await first).status == 200
        assert (await place.asks("k")).body == (await first).body

    run(scenario())


class Fails(Parrot):
    """Fails once, at the start or in the middle."""

    def __init__(self, *events: Event) -> None:
        super().__init__()
        self.events = [*events]

    async def _batches(self, request: Request) -> Batches:
        self.asked.append(request)
        events, self.events = self.events, []
        for event in events or [TextDelta("Hello.")]:
            yield [event]


@check_each("begun", [(), (TextDelta("Hel"),)])
@check_each("stream", [False, True])
def test_a_failure_is_not_kept_so_the_next_try_may_succeed(begun: tuple[Event, ...], stream: bool):
    async def scenario() -> None:
        place = Place(Fails(*begun, Failure("no", status=500)))
        await place.asks("k", stream=stream)
        answer = await place.asks("k", stream=stream)
        assert (answer.status, answer.header("idempotent-replayed")) == (200, "")
        assert b"Hello." in answer.body
        assert len(place.parrot.asked) == 2

    run(scenario())


@check_each("key", ["x" * 256, "a\tb", "caf\xe9"])
def test_what_is_no_key_is_refused(key: str):
    async def scenario() -> None:
        place = Place()
        refused = await place.asks(key)
        assert (refused.status, "Idempotency-Key" in refused.message) == (400, True)
        assert place.parrot.asked == []

    run(scenario())


def test_an_answer_that_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(again, "_MAX_BYTES", 50)

    async def scenario() -> None:
        place = Place()
        await place.asks("k", stream=True)
        assert (await place.asks("k", stream=True)).header("idempotent-replayed") == ""
        assert len(place.parrot.asked) == 2

    run(scenario())


def test_the_sdk_that_asks_again_gets_calls_under_the_same_ids():
    two = Two()
    with live(two) as place:
        client = openai.OpenAI(base_url=f"{place.url}/v1", api_key="none")
        tools: Any = [{"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}]
        asked: Any = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "tools": tools}
        first, second = (
            client.chat.completions.create(**asked, extra_headers={"Idempotency-Key": "once"}) for _ in range(2)
        )
    assert first.choices[0].message.tool_calls
    assert second == first
    assert len(two.asked) == 1


# ---- what was deleted

SAID = "Something that nobody else should read."


def response_of(answer: Answer) -> str:
    found = re.search(rb'"id":\s*"(resp_[^"]+)"', answer.body)
    assert found is not None
    return found[1].decode()


@check_each("stream", [False, True])
def test_a_response_that_was_deleted_comes_back_by_no_key(stream: bool):
    async def scenario() -> None:
        place = Place(Parrot(SAID))
        asked: dict[str, Any] = {"path": "/v1/responses", "input": "Hello?", "stream": stream, "messages": None}
        first = await place.asks("k", **asked)
        assert SAID in first.body.decode()
        path = f"/v1/responses/{response_of(first)}"
        assert (await ask(place.team.app, "DELETE", path, bearer(place.berta))).status == 404
        assert (await place.asks("k", **asked)).body == first.body
        assert (await ask(place.team.app, "DELETE", path, bearer(place.anna))).status == 200
        for _ in range(2):
            again = await place.asks("k", **asked)
            assert (again.status, "was deleted" in again.message) == (409, True)
            assert again.header("x-should-retry") == "false"
        assert len(place.parrot.asked) == 1
        state = place.team.app._gateway.conversation._state  # type: ignore[attr-defined]  # pyright: ignore
        assert not [key for key in state.keys() if SAID in str(state.get(key))]  # noqa: SIM118 - no dict
        assert (await place.asks("other", **asked)).status == 200

    run(scenario())


def request_at(conversation: ToolMemory) -> again.IdempotentRequest:
    """The same request with the same key, at one of several servers."""
    scope: Any = {"path": "/v1/responses", "headers": [(b"idempotency-key", b"k")]}
    made = again.IdempotencyKeys().of(scope, conversation, "anna", b"{}")
    assert made is not None
    return made


@pytest.mark.requirement("R-F37")
@pytest.mark.parametrize("early", [False, True])
def test_what_another_server_deletes_is_deleted_whenever_it_does_so(tmp_path: Path, early: bool):
    async def ignored(_: Any) -> None:
        pass

    async def scenario() -> None:
        far = SqlKeyValue(Database(f"sqlite:///{tmp_path}/store.db"))
        here, there = ToolMemory(WriteBehindKeyValue(far)), ToolMemory(WriteBehindKeyValue(far))
        first = request_at(here)
        assert not await first.replay(ignored)
        listen = first.recording(ignored)
        await listen({"type": "http.response.start", "status": 200, "headers": []})
        await listen({"type": "http.response.body", "body": SAID.encode()})
        if early:  # who deletes is quicker than who keeps
            await again.delete_stored_answer(there, "anna", "resp_1")
        first.store(succeeded=True, tools_ran=False, response="resp_1")
        await here.settle()
        if not early:
            await again.delete_stored_answer(there, "anna", "resp_1")
            assert not [key for key in far.keys() if SAID in str(far.get(key))]  # noqa: SIM118 - no dict
        for conversation in (here, there, ToolMemory(WriteBehindKeyValue(far))):
            with pytest.raises(again.IdempotencyKeyConsumed, match="was deleted"):
                await request_at(conversation).replay(ignored)

    run(scenario())
