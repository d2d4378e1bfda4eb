"""Two proxies on one database: a conversation begun at one goes on at the other, also when the first is killed."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.live_proxy import CALLS, DESCRIPTIONS, PATIENCE, QUESTION, RESULTS, SCHEMAS, Two, service
from tests.upstreams.loopback_server import Heard, chunked, head, serving

pytestmark = pytest.mark.system("postgresql")

TOOLS = [
    {"type": "function", "function": {"name": name, "description": DESCRIPTIONS[name], "parameters": SCHEMAS[name]}}
    for name in CALLS
]


class Upstream:
    """A service in a thread; while `slow` is set it says half a sentence and then waits."""

    def __init__(self) -> None:
        self.model = Two()
        self.slow = False
        self.port = 0
        self._answer = service("openai_chat", self.model)
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._play)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def _play(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        async with serving(self._heard) as server:
            self.port = server.port
            self._ready.set()
            await self._end.wait()

    async def _heard(self, heard: Heard) -> None:
        if not self.slow:
            await self._answer(heard)
            return
        event = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        delta = {**event, "choices": [{"index": 0, "delta": {"content": "Half a sentence that goes on and on, "}}]}
        data = chunked([b"data: " + json.dumps(delta).encode() + b"\n\n"] * 40, last=False)
        await heard.send(head("content-type: text/event-stream", "transfer-encoding: chunked"), data)
        await heard.gone.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)


class Proxy:
    """`toolspeak serve` in a process of its own."""

    def __init__(self, upstream: Upstream, store: str, home: Path, *flags: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        home.mkdir(exist_ok=True)
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "TOOLSPEAK_STORE": store, "TOOLSPEAK_PROBE": "off"}
        where = f"http://127.0.0.1:{upstream.port}/v1"
        command = [sys.executable, "-m", "toolspeak", "serve", "--upstream", where, "--mode", "force"]
        self.log = (home / "log").open("w+")
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), *flags], env=env, cwd=home, stdout=self.log, stderr=self.log
        )
        deadline = time.monotonic() + 60
        while not self._answers():
            assert self.process.poll() is None, (home / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return self.ask("GET", "/health")[0] == 200
        return False

    def ask(self, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(data) if data.startswith(b"{") else data

    def begin(self, path: str, body: Any) -> http.client.HTTPResponse:
        """A stream, with its first piece read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.read(10)
        return answer

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)
        self.log.close()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.close()


@pytest.fixture
def store() -> str:
    from tests.store import postgres

    return postgres.server().url()


@pytest.fixture
def pair(upstream: Upstream, store: str, tmp_path: Path) -> Iterator[tuple[Proxy, Proxy]]:
    one, two = Proxy(upstream, store, tmp_path / "one"), Proxy(upstream, store, tmp_path / "two")
    yield one, two
    one.close()
    two.close()


def _said_to(upstream: Upstream, at: int) -> str:
    return "\n".join(message.text for message in upstream.model.asked[at].messages)


@pytest.mark.requirement("C3", "G5", "R-F31")
def test_a_conversation_begun_at_one_goes_on_at_the_other(upstream: Upstream, pair: tuple[Proxy, Proxy]):
    one, two = pair
    # Tools that the second request does not list are recalled, since another process has kept them.
    asked = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "tools": TOOLS}
    status, first = one.ask("POST", "/v1/chat/completions", asked)
    assert status == 200
    message = first["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": RESULTS[call["function"]["name"]]}
        for call in message["tool_calls"]
    ]
    again = {"model": "m", "messages": [*asked["messages"], message, *results]}
    status, second = two.ask("POST", "/v1/chat/completions", again)
    assert status == 200
    assert "windy" in second["choices"][0]["message"]["content"]
    assert DESCRIPTIONS["get_weather"] in _said_to(upstream, -1)
    # The nonce is the same everywhere: what was written at one can be read at the other.
    marks = [text.split("json action ", 1)[1].split()[0] for text in (_said_to(upstream, 0), _said_to(upstream, -1))]
    assert marks[0] == marks[1]
    # A response is named instead of being sent again, at the other one and then at the first.
    previous = ""
    for number, proxy in enumerate((one, two, one)):
        body = {"model": "m", "input": f"Question {number}?", "store": True}
        status, answer = proxy.ask(
            "POST", "/v1/responses", body | ({"previous_response_id": previous} if previous else {})
        )
        assert status == 200, answer
        previous = answer["id"]
    users = [message.text for message in upstream.model.asked[-1].messages if message.role == "user"]
    assert [text.splitlines()[0] for text in users] == ["Question 0?", "Question 1?", "Question 2?"]


@pytest.mark.requirement("R-F31", "R-F35", "G5")
def test_one_that_is_killed_in_mid_stream_loses_nothing_that_was_recorded(
    upstream: Upstream, pair: tuple[Proxy, Proxy]
):
    one, two = pair
    status, first = one.ask("POST", "/v1/responses", {"model": "m", "input": "Remember me."})
    assert status == 200
    upstream.slow = True
    body = {"model": "m", "input": "And then?", "previous_response_id": first["id"], "stream": True}
    stream = one.begin("/v1/responses", body)
    one.kill()
    with contextlib.suppress(http.client.HTTPException, OSError):
        stream.read()
    upstream.slow = False
    status, second = two.ask("POST", "/v1/responses", {**body, "stream": False})
    assert status == 200, second
    users = [message.text for message in upstream.model.asked[-1].messages if message.role == "user"]
    assert [text.splitlines()[0] for text in users] == ["Remember me.", "And then?"]


@pytest.mark.requirement("R-T9")
def test_a_key_holds_at_both_and_is_revoked_at_both(upstream: Upstream, store: str, tmp_path: Path):
    def keys(*arguments: str) -> str:
        env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TOOLSPEAK_STORE": store}
        command = [sys.executable, "-m", "toolspeak", "keys", *arguments]
        return subprocess.run(command, env=env, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    anna = keys("new", "anna")
    pair = [Proxy(upstream, store, tmp_path / name, "--require-key") for name in ("one", "two")]
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
    try:
        for proxy in pair:
            assert proxy.ask("POST", "/v1/chat/completions", body, anna)[0] == 200
            assert proxy.ask("POST", "/v1/chat/completions", body)[0] == 401
        keys("revoke", "anna")
        deadline = time.monotonic() + PATIENCE
        for proxy in pair:
            while proxy.ask("POST", "/v1/chat/completions", body, anna)[0] == 200:
                assert time.monotonic() < deadline
    finally:
        for proxy in pair:
            proxy.close()
