"""Scripted peers of the proxy: clients that read, stall or disconnect, and upstreams that play a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.live_proxy import proxy
from tests.server.protocol_clients import SPEAKERS, Speaker
from toolspeak.core.events import Event, Finish, TextDelta
from toolspeak.core.types import Request
from toolspeak.engine.planning.strategy import Settings
from toolspeak.server.app import App
from toolspeak.upstreams.base import Batches, normalize_failures

FACES = pytest.mark.parametrize("speaker", [pytest.param(speaker, id=speaker.name) for speaker in SPEAKERS])
#: How soon the upstream must hear that nobody listens any more.
AT_ONCE = 1.0
#: Keep-alives as often as can be, and never.
OFTEN, NEVER = 0.002, 1e6


class Client:
    """Somebody who asks and reads, until they stall or leave."""

    def __init__(self, app: App, path: str, body: dict[str, Any], method: str = "POST") -> None:
        path, _, query = path.partition("?")
        self._scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(b"host", b"127.0.0.1:8788")],
        }
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": json.dumps(body).encode(), "more_body": False})
        #: How often the server looked whether the client is still there.
        self.looks = 0
        self.sent: list[Any] = []
        self.news = asyncio.Event()
        self.reading = asyncio.Event()
        self.reading.set()
        #: What a server raises for a client that is gone.
        self.broken: OSError | None = None
        self.refused = asyncio.Event()
        self.task = asyncio.ensure_future(app(self._scope, self._receive, self._send))

    async def _receive(self) -> Any:
        self.looks += 1
        self.news.set()
        return await self._incoming.get()

    async def _send(self, message: Any) -> None:
        if self.broken is not None:
            self.refused.set()
            raise self.broken
        self.sent.append(message)
        self.news.set()
        await self.reading.wait()

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def hears(self, enough: Callable[[bytes], bool]) -> None:
        """Wait until what came is enough."""
        await self._until(lambda: enough(self.body))

    async def looked_at(self, times: int) -> None:
        """Wait until the server has looked so often."""
        await self._until(lambda: self.looks >= times)

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self.news.clear()
            await self.news.wait()

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def writes(self) -> list[bytes]:
        return [message["body"] for message in self.sent if message["type"] == "http.response.body"]

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)


def talker(app: App, speaker: Speaker, stream: bool = True, tools: bool = True) -> Client:
    return Client(app, speaker.path(stream), speaker.ask(stream, tools))


class Script:
    """An upstream that plays batches. An `Event` among them is waited for; an error is raised."""

    provider = "script"
    base_url = "http://script.test/v1"

    def __init__(self, *steps: list[Event] | asyncio.Event | Exception) -> None:
        self._steps = steps
        self.asked: list[Request] = []
        self.pulled = 0
        self.reached = asyncio.Event()
        self.left = asyncio.Event()

    def open(self, request: Request) -> Batches:
        self.asked.append(request)
        return normalize_failures(self._batches())

    async def _batches(self) -> Batches:
        self.reached.set()
        try:
            for step in self._steps:
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, Exception):
                    raise step
                else:
                    self.pulled += 1
                    yield step
        finally:
            self.left.set()

    async def close(self) -> None:
        pass


def scripted(script: Script, **fields: Any) -> App:
    return proxy(script, "openai_chat", Settings(mode="force"), **{"keep_alive": NEVER, **fields})


def words(text: str) -> list[Event]:
    return [TextDelta(text)]


END: list[Event] = [Finish("stop")]
