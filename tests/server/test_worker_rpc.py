"""Workers that ask each other, and requests that are one list whoever is asked."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.server.asgi_client import HELLO, Parrot, ask, gateway, line, run
from tests.server.test_web_api import ASKED, CANARY, FIXED
from tests.server.test_workers import CHAT, Fleet, Story, fleet
from tests.server.test_workers import run as run_bounded
from tests.upstreams.loopback_server import serving
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.process import worker_rpc as neighbours
from toolspeak.server.process.worker_rpc import WorkerRpc
from toolspeak.server.web import requests as page_requests
from toolspeak.server.web.models import latest

SHOWN = {"Authorization": f"Bearer {CANARY}"}


class Pair:
    """Two workers of one server, in one process: both know the same sessions."""

    def __init__(self, folder: Path, auth: str = "replace", **fields: Any) -> None:
        guard = OriginGuard()
        sessions = guard.access.sessions
        self.folder = folder
        self.parrot = Parrot("Hello.")
        one = line("one", self.parrot, settings=lambda model: FIXED, auth=auth)
        self.apps = [App(gateway(one), guard, **fields) for _ in range(2)]
        self.cookie = {"Cookie": f"toolspeak_session={sessions.exchange(sessions.new_code())}"}

    async def __aenter__(self) -> Pair:
        for place, app in enumerate(self.apps):
            await app.join_workers(self.folder, place)
        return self

    async def __aexit__(self, *exc: object) -> None:
        for app in self.apps:
            await app.close()

    async def ask(self, worker: int, method: str, path: str, body: Any = b"", **headers: str) -> Any:
        return await ask(self.apps[worker], method, path, {**self.cookie, **headers}, body)

    async def asked(self, worker: int, body: Any = ASKED, **headers: str) -> str:
        answer = await self.ask(worker, "POST", "/v1/chat/completions", body, **headers)
        return json.loads(answer.header("x-toolspeak"))["id"]


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look is that of another process, as far as marks tell: workers are told apart by their numbers."""
    numbers = iter(range(1000, 100_000))
    known: dict[int, int] = {}

    def told(self: Any, after: Any, query: str) -> Any:
        me = known.setdefault(id(self), next(numbers))
        monkeypatch.setattr(page_requests.os, "getpid", lambda: me)
        return real(self, after, query)

    real = page_requests.RequestsApi._own_requests  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(page_requests.RequestsApi, "_own_requests", told)


@pytest.mark.requirement("H3")
@pytest.mark.usefixtures("two_processes")
def test_every_worker_lists_and_shows_the_requests_of_all(tmp_path: Path):
    async def work() -> None:
        async with Pair(tmp_path) as pair:
            ids = [await pair.asked(number % 2) for number in range(5)]
            for worker in range(2):
                listed = (await pair.ask(worker, "GET", "/toolspeak/requests")).json
                assert [each["id"] for each in listed["requests"]] == ids[::-1]
                assert listed["late"] == 0
                for each in ids:
                    assert (await pair.ask(worker, "GET", f"/toolspeak/requests/{each}")).json["id"] == each
                assert (await pair.ask(worker, "GET", "/toolspeak/requests/nothing")).status == 404

    run(work())


@pytest.mark.requirement("H3")
@pytest.mark.usefixtures("two_processes")
def test_a_mark_holds_whichever_worker_is_asked_next(tmp_path: Path):
    async def work() -> None:
        async with Pair(tmp_path) as pair:
            for worker in range(2):
                await pair.asked(worker)
            mark = (await pair.ask(0, "GET", "/toolspeak/requests")).json["next"]
            for worker in range(2):
                assert (await pair.ask(worker, "GET", f"/toolspeak/requests?after={mark}")).json["requests"] == []
            newer = await pair.asked(1)
            told = (await pair.ask(0, "GET", f"/toolspeak/requests?after={mark}")).json
            assert [each["id"] for each in told["requests"]] == [newer]
            assert (await pair.ask(1, "GET", f"/toolspeak/requests?after={told['next']}")).json["requests"] == []

    run(work())


@pytest.mark.requirement("H3")
def test_a_request_of_another_worker_is_replayed_by_the_one_that_is_asked(tmp_path: Path):
    async def work() -> None:
        async with Pair(tmp_path) as pair:
            first = await pair.asked(1, {**ASKED, "user": CANARY}, **SHOWN)
            again = (await pair.ask(0, "POST", f"/toolspeak/requests/{first}/replay", {"plan": "decision"})).json
            assert (again["replay_of"], again["plan"], again["changed"]) == (first, "decision", {"plan": "decision"})
            assert again["client"]["body"]["tools"] == ASKED["tools"]
            assert CANARY not in json.dumps(again)  # what its client showed stays hidden here too
            assert (await pair.ask(1, "GET", f"/toolspeak/requests/{again['id']}")).json["id"] == again["id"]
            assert (await pair.ask(0, "POST", "/toolspeak/requests/nothing/replay", {})).status == 404

    run(work())


def test_a_client_sees_its_own_requests_at_every_worker_and_no_others(tmp_path: Path):
    async def work() -> None:
        async with Pair(tmp_path, auth="forward") as pair:
            answer = await ask(pair.apps[1], "POST", "/v1/chat/completions", SHOWN, HELLO)
            path = f"/toolspeak/requests/{json.loads(answer.header('x-toolspeak'))['id']}"
            assert (await ask(pair.apps[0], "GET", path, SHOWN)).status == 200
            assert (await ask(pair.apps[0], "GET", path, {"Authorization": "Bearer sk-another"})).status == 404

    run(work())


def test_what_another_worker_is_busy_with_is_told(tmp_path: Path):
    async def work() -> None:
        async with Pair(tmp_path) as pair:
            pair.parrot.held, pair.parrot.reached = asyncio.Event(), asyncio.Event()
            asking = asyncio.create_task(pair.asked(1))
            await pair.parrot.reached.wait()
            (running,) = (await pair.ask(0, "GET", "/toolspeak/requests")).json["running"]
            pair.parrot.held.set()
            assert running["id"] == await asking

    run(work())


@pytest.mark.requirement("H3")
def test_statistics_and_probes_are_those_of_all_workers(tmp_path: Path):
    async def work() -> None:
        async with Pair(tmp_path) as pair:
            await pair.ask(0, "GET", "/toolspeak/models")  # so that the model has a name
            for worker in (0, 1, 1):
                await pair.asked(worker)
            now = time.time()
            told = (await pair.ask(0, "GET", f"/toolspeak/statistics?since={now - 3600}&until={now + 60}")).json
            assert told["groups"][""][""]["requests"] == 3
            assert [bar["requests"] for bar in told["groups"]["bar"].values()] == [3]
            assert (told["late"], told["stored"]) == (0, False)
            assert (await pair.ask(0, "GET", "/toolspeak/models")).json["probe"] == {}

    run(work())


def test_of_several_probes_the_last_one_is_told():
    assert latest([{}, {"began": 2.0, "model": "b"}, {"began": 1.0, "model": "a"}])["model"] == "b"


def test_with_recording_off_nothing_is_asked_of_the_others(tmp_path: Path):
    async def work() -> None:
        async with Pair(tmp_path, recorder=None) as pair:
            identifier = await pair.asked(1)
            assert (await pair.ask(0, "GET", "/toolspeak/requests")).json["requests"] == []
            assert (await pair.ask(0, "GET", f"/toolspeak/requests/{identifier}")).status == 404
            assert (await pair.ask(0, "POST", f"/toolspeak/requests/{identifier}/replay", {})).status == 404

    run(work())


# ---- the sockets


async def echo(what: str, about: Any) -> Any:
    return {"what": what, **about}


def test_who_is_gone_is_left_out_and_who_is_late_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(neighbours, "_TIMEOUT_SECONDS", 0.05)

    async def never(what: str, about: Any) -> Any:
        await asyncio.Event().wait()

    async def work() -> None:
        here, there, slow = (WorkerRpc(tmp_path, place, way) for place, way in enumerate((echo, echo, never)))
        for each in (here, there, slow):
            await each.listen()
        assert await here.call_others("lines", {"a": 1}) == ([{"what": "lines", "a": 1}], 1)
        await slow.close()
        assert await here.call_others("lines", {}) == ([{"what": "lines"}], 0)
        (tmp_path / "7.ask").touch()  # as one that was killed leaves it
        assert await here.call_others("lines", {}) == ([{"what": "lines"}], 0)
        again = WorkerRpc(tmp_path, 1, echo)  # which takes the place of another
        await there.close()
        await again.listen()
        assert await here.call_others("lines", {}) == ([{"what": "lines"}], 0)
        for each in (here, again):
            await each.close()

    run(work())
    assert [path.name for path in tmp_path.iterdir()] == ["7.ask"]


def test_one_that_fails_is_left_out_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async def broken(what: str, about: Any) -> Any:
        raise RuntimeError("no")

    async def work() -> None:
        here, there = WorkerRpc(tmp_path, 0, echo), WorkerRpc(tmp_path, 1, broken)
        await here.listen()
        await there.listen()
        assert await here.call_others("lines", {}) == ([], 0)
        await here.close()
        await there.close()

    run(work())
    assert "a call from another worker failed" in caplog.text


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system has no short way to a folder")
def test_a_folder_with_a_long_path_will_do(tmp_path: Path):
    folder = tmp_path / ("x" * 120)
    folder.mkdir()

    async def work() -> None:
        here, there = WorkerRpc(folder, 0, echo), WorkerRpc(folder, 1, echo)
        await here.listen()
        await there.listen()
        assert await here.call_others("lines", {}) == ([{"what": "lines"}], 0)
        await here.close()
        await there.close()

    run(work())
    assert not os.listdir(folder)


def test_a_worker_that_cannot_be_asked_still_works(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async def work() -> None:
        here = WorkerRpc(tmp_path / "nowhere", 0, echo)
        await here.listen()
        assert await here.call_others("lines", {}) == ([], 0)
        await here.close()

    run(work())
    assert "cannot listen for calls" in caplog.text


# ---- as they really run


async def _json(server: Fleet, method: str, path: str, body: bytes = b"") -> Any:
    return json.loads((await server.ask(method, path, body)).partition(b"\r\n\r\n")[2])


@pytest.mark.requirement("H3")
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system tells nothing of processes")
def test_whichever_process_is_asked_all_requests_are_there(tmp_path: Path):
    async def work() -> None:
        async with serving(Story()) as upstream, fleet(tmp_path, upstream) as server:
            ids: set[str] = set()
            listed: dict[str, Any] = {"next": ""}
            for _ in range(200):  # until both have answered one
                await server.ask("POST", "/v1/chat/completions", CHAT % b"false")
                listed = await _json(server, "GET", "/toolspeak/requests")
                ids = {each["id"] for each in listed["requests"]}
                if len(ids) >= 8 and all(not each.endswith(".0") for each in listed["next"].split(",")):
                    break
            assert len({each.partition(".")[0] for each in listed["next"].split(",")}) == 2
            for each in ids:
                assert (await _json(server, "GET", f"/toolspeak/requests/{each}"))["id"] == each
                again = await _json(server, "POST", f"/toolspeak/requests/{each}/replay", b"{}")
                assert again["replay_of"] == each
            assert len((await _json(server, "GET", "/toolspeak/requests"))["requests"]) == 2 * len(ids)

    run_bounded(work())
