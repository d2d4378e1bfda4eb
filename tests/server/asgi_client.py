"""A client that calls the ASGI application without a network, and small servers for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

import toolspeak as ts
from toolspeak.core.types import Request
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access, Credential
from toolspeak.server.access.limits import KeyLimits
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.proxy.upstream_router import Gateway, UpstreamConfig
from toolspeak.upstreams.base import Batches, Upstream

HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}


class Answer:
    """What came back."""

    def __init__(self, sent: list[Any]) -> None:
        self.status: int = sent[0]["status"]
        self.headers: list[tuple[str, str]] = [(k.decode(), v.decode()) for k, v in sent[0]["headers"]]
        self.body: bytes = b"".join(message.get("body", b"") for message in sent[1:])

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def message(self) -> str:
        """What an error says, in whichever protocol's shape."""
        error = self.json["error"]
        return error if isinstance(error, str) else error["message"]


async def ask(
    app: App,
    method: str,
    target: str,
    headers: dict[str, str] | Sequence[tuple[str, str]] = (),
    body: bytes | Mapping[str, Any] = b"",
    host: str = "127.0.0.1:8788",
    client: str = "127.0.0.1",
) -> Answer:
    """One request, as a server would hand it on."""
    path, _, query = target.partition("?")
    given = headers.items() if isinstance(headers, dict) else headers
    lines = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in given]
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "scheme": "http",
        "client": (client, 50_000) if client else None,
        "server": ("127.0.0.1", 8788),
        "headers": [(b"host", host.encode("latin-1")), *lines] if host else lines,
    }
    data = msgspec.json.encode(body) if isinstance(body, Mapping) else body
    incoming = [{"type": "http.request", "body": data, "more_body": False}]
    sent: list[Any] = []
    stays = asyncio.Event()

    async def receive() -> Any:
        if incoming:
            return incoming.pop()
        await stays.wait()  # the client stays until it is answered

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return Answer(sent)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end, not for ever."""

    async def bounded() -> Any:
        async with asyncio.timeout(20):
            return await work

    return asyncio.run(bounded())


class Parrot:
    """An upstream that says who it is, and remembers what it was asked."""

    provider = "parrot"

    def __init__(self, text: str = "Hello.", base_url: str = "http://parrot.test/v1") -> None:
        self.text = text
        self.base_url = base_url
        self.asked: list[Request] = []
        self.closed = asyncio.Event()
        self.held: asyncio.Event | None = None
        self.reached = asyncio.Event()

    def open(self, request: Request) -> Batches:
        return self._batches(request)

    async def _batches(self, request: Request) -> Batches:
        self.asked.append(request)
        self.reached.set()
        yield [ts.TextDelta(self.text)]
        if self.held is not None:
            await self.held.wait()
        yield [ts.Finish("stop")]

    async def close(self) -> None:
        self.closed.set()


def line(name: str, upstream: Upstream, **fields: Any) -> UpstreamConfig:
    """An upstream of a gateway, under a name."""

    def connect(own: Credential | None) -> Upstream:
        return upstream

    fields = {"protocol": "openai_chat", "connect": connect, "settings": lambda model: Settings(), **fields}
    return UpstreamConfig(name=name, provider=name, base_url=upstream.base_url, **fields)


def gateway(*lines: UpstreamConfig, aliases: Mapping[str, str] | None = None) -> Gateway:
    return Gateway(lines or [line("one", Parrot())], Capabilities(), MemoryState(), b"secret", aliases)


class Team:
    """A server with keys, and whom they were given to."""

    def __init__(self, *lines: UpstreamConfig, required: bool = True, aliases: Mapping[str, str] | None = None) -> None:
        self.keys = ApiKeys(MemoryState())
        self.clock = 0.0
        self.access = Access(self.keys, required=required)
        guard = OriginGuard(self.access, frozenset({"*"}) if required else frozenset())
        self.app = App(gateway(*lines, aliases=aliases), guard, KeyLimits(lambda: self.clock))

    def key(self, name: str, *models: str, **limits: Any) -> str:
        return self.keys.new(name, models, **limits)[1]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
