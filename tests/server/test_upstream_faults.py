"""Every way in which an upstream misbehaves, seen by clients of all protocols, through the whole proxy.

What each fault of the upstream must come to stands in `tests.upstreams.faulty_service`: an answer that is whole, one that begins
and fails, or none. Which fault of the list is tested where stands in docs/faults.md, which is checked here too.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.asgi_client import run
from tests.server.live_proxy import proxy
from tests.server.protocol_clients import SPEAKERS, Speaker
from tests.server.scripted_peers import FACES, NEVER, Client, talker
from tests.upstreams.faulty_service import (
    BODY,
    FAULTS,
    JSON,
    TEXT,
    TYPE,
    Chaos,
    Steps,
    by_length,
    in_order,
    misbehaving,
)
from tests.upstreams.request_helpers import Instant
from toolspeak.engine.planning.strategy import Settings
from toolspeak.server.app import App
from toolspeak.upstreams.http.connection import Timeouts
from toolspeak.upstreams.http.retry import Retry
from toolspeak.upstreams.http.thin_transport import HttpUpstream

ROOT = Path(__file__).parents[2]
#: What is stalled is given up at once; nothing else takes so long.
SOON = Timeouts(connect=5, first_byte=0.3, idle=0.3, total=20)
CANARY = "sk-canary-0123456789"
WHOLE = by_length(
    b'{"choices":[{"index":0,"message":{"role":"assistant","content":"It is fine."},"finish_reason":"stop"}]}', JSON
)


@asynccontextmanager
async def behind(*answers: bytes | Steps | str, retries: int = 0) -> AsyncIterator[tuple[App, Chaos]]:
    """A proxy in front of a service that misbehaves like this."""
    async with misbehaving(in_order(*answers)) as chaos:
        upstream = HttpUpstream(chaos.url, CANARY, timeouts=SOON, retry=Retry(most=retries), world=Instant().world)
        app = proxy(upstream, "openai_chat", Settings(mode="off"), keep_alive=NEVER)
        try:
            yield app, chaos
        finally:
            await app.close()


def outcome(speaker: Speaker, client: Client, stream: bool) -> tuple[str, str]:
    """What a client makes of it, in the words of `chaos`, and the text."""
    assert CANARY.encode() not in client.body
    if client.status != 200:
        assert client.status >= 400
        assert b"error" in client.body
        return "raised", ""
    seen = speaker.read(client.body, stream)
    if seen.error or not seen.ended:
        assert seen.error and not seen.ended
        return "failed", seen.text
    return "whole", seen.text


@FACES
def test_every_fault_of_an_upstream_comes_to_what_it_must_in_a_stream(speaker: Speaker):
    async def talk() -> None:
        for name, fault in FAULTS.items():
            async with behind(name, "as it should be") as (app, _):
                client = talker(app, speaker, tools=False)
                await client.task
                found, text = outcome(speaker, client, stream=True)
                assert found == fault.outcome, name
                assert TEXT.startswith(text) and (text == TEXT) == (found == "whole"), name
                again = talker(app, speaker, tools=False)
                await again.task
                assert outcome(speaker, again, stream=True) == ("whole", TEXT), name

    _run(talk())


@FACES
def test_every_fault_of_an_upstream_is_a_status_where_the_answer_is_one_piece(speaker: Speaker):
    async def talk() -> None:
        for name, fault in FAULTS.items():
            async with behind(name) as (app, _):
                client = talker(app, speaker, stream=False, tools=False)
                await client.task
                if fault.outcome == "whole":
                    assert (client.status, speaker.read(client.body, False).text) == (200, TEXT), name
                else:
                    assert client.status >= 400, name
                    assert CANARY.encode() not in client.body

    _run(talk())


def _run(work: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await work

    asyncio.run(bounded())


@pytest.mark.requirement("R-F1", "R-F2", "R-F3")
@FACES
@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Unavailable", "502 Bad", "529 Overloaded"])
def test_a_busy_upstream_is_asked_again_and_the_client_sees_only_the_answer(speaker: Speaker, status: str):
    async def talk() -> int:
        refused = by_length(b'{"error":{"message":"not now"}}', JSON, status=status)
        async with behind(refused, refused, "as it should be", retries=2) as (app, chaos):
            client = talker(app, speaker, tools=False)
            await client.task
            assert outcome(speaker, client, stream=True) == ("whole", TEXT)
            return chaos.requests

    assert run(talk()) == 3


@pytest.mark.requirement("R-F46")
@FACES
@pytest.mark.parametrize("stream", [True, False])
def test_an_upstream_that_streams_when_not_asked_or_does_not_when_asked_is_understood(speaker: Speaker, stream: bool):
    async def talk() -> None:
        answer = WHOLE if stream else by_length(BODY, TYPE)
        async with behind(answer) as (app, _):
            client = talker(app, speaker, stream, tools=False)
            await client.task
            seen = speaker.read(client.body, stream)
            assert (client.status, seen.text) == (200, "It is fine." if stream else TEXT)

    run(talk())


@pytest.mark.requirement("R-F47")
@FACES
def test_an_upstream_that_refuses_tools_is_asked_without_them(speaker: Speaker):
    async def talk() -> None:
        said = b'{"error":{"message":"this model does not support tools","type":"invalid_request_error"}}'
        refused = by_length(said, JSON, status="400 Bad Request")
        async with misbehaving(in_order(refused, WHOLE)) as chaos:
            upstream = HttpUpstream(chaos.url, timeouts=SOON, world=Instant().world)
            app = proxy(upstream, "openai_chat", Settings(mode="fallback"), keep_alive=NEVER)
            client = talker(app, speaker, stream=False)
            await client.task
            assert client.status == 200, client.body
            assert speaker.read(client.body, False).text == "It is fine."
            await app.close()

    run(talk())


def test_faults_leave_neither_connections_nor_requests_behind():
    async def talk() -> None:
        names = sorted(FAULTS)
        random.Random(5).shuffle(names)
        async with behind(*names, "as it should be") as (app, chaos):
            for number in range(len(names)):
                await talker(app, SPEAKERS[number % len(SPEAKERS)], stream=number % 3 > 0, tools=False).task
            assert app.lifecycle.own_counters().gauges["toolspeak_requests_in_flight"] == 0
            await app.close()
            for _ in range(1000):
                if not chaos.open:
                    break
                await asyncio.sleep(0.01)
            assert chaos.open == 0

    _run(talk())


# ---- the table


def _tests_of(file: Path) -> set[str]:
    return set(re.findall(r"^(?:async )?def (test_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_fault_of_the_list_is_in_the_table_with_tests_that_exist():
    table = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (F\d+) \|.*\| ([^|]*) \|$", table, re.MULTILINE))
    wanted = {f"F{number}" for number in (*range(1, 32), *range(44, 48))}
    assert wanted <= rows.keys()
    for fault, tests in rows.items():
        named = re.findall(r"`([\w/]+)\.py::(\w+)`", tests)
        assert named, fault
        for file, test in named:
            assert test in _tests_of(ROOT / "tests" / f"{file}.py"), (fault, file, test)
