"""The process that serves: how it begins, how it ends, and what happens to whoever is being answered then."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.server.asgi_client import gateway, run
from tests.server.live_proxy import uvicorn_config
from tests.server.protocol_clients import SPEAKERS, Speaker
from tests.server.scripted_peers import END, FACES, Script, scripted, words
from tests.server.test_openapi_schemas import flaw
from toolspeak.errors import UsageError
from toolspeak.server.app import App
from toolspeak.server.openapi import PROTOCOLS
from toolspeak.server.process import server as process
from toolspeak.server.process.server import ServerOptions, ToolspeakServer, bind_sockets, raise_file_limit

SPEAKER = SPEAKERS[0]


class Serving:
    """A server in this event loop, and who talks to it."""

    def __init__(self, app: App, manner: ServerOptions, port: int, limit: int | None = None) -> None:
        config = uvicorn_config(app)
        config.limit_concurrency = limit
        config.timeout_graceful_shutdown = 10
        self.server = ToolspeakServer(config, app, gateway, manner)
        self.port = port
        self.done: asyncio.Future[None] = asyncio.Future()

    async def ask(self, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        return reader, writer

    async def status(self, path: str) -> int:
        reader, writer = await self.ask(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        try:
            return int((await reader.read()).split()[1])
        finally:
            writer.close()


@asynccontextmanager
async def serving(app: App, manner: ServerOptions | None = None, limit: int | None = None) -> AsyncIterator[Serving]:
    (listener,) = bind_sockets("127.0.0.1", 0)
    serving = Serving(app, manner or ServerOptions(), listener.getsockname()[1], limit)
    # Not `serve`, which would raise the signals again once they are dealt with.
    serving.done = asyncio.ensure_future(serving.server._serve([listener]))  # pyright: ignore[reportPrivateUsage]
    try:
        await until(lambda: serving.server.started)
        yield serving
    finally:
        serving.server.should_exit = True
        await serving.done
        listener.close()


def posted(speaker: Speaker, stream: bool = True) -> bytes:
    body = json.dumps(speaker.ask(stream)).encode()
    lines = [f"POST {speaker.path(stream)} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def body_of(answer: bytes) -> bytes:
    """The body of an answer in chunks."""
    rest, body = answer.partition(b"\r\n\r\n")[2], b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return body


async def until(done: Callable[[], bool]) -> None:
    """Let others run until something is so."""
    for pause in itertools.repeat(0.001):
        if done():
            return
        await asyncio.sleep(pause)


async def closed(port: int) -> None:
    """Wait until nobody is let in any more."""
    for pause in itertools.repeat(0.001):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            return
        writer.transport.abort()
        await asyncio.sleep(pause)


# ---- the end


@pytest.mark.requirement("R-F29")
@FACES
def test_streams_under_way_end_well_and_nobody_new_is_let_in(speaker: Speaker):
    async def talk() -> None:
        go = asyncio.Event()
        script = Script(words("The weather is fine. " * 20), go, words(" And warm. " * 20), END)
        async with serving(scripted(script)) as one:
            reader, writer = await one.ask(posted(speaker))
            first = await reader.readuntil(b"fine")
            assert await one.status("/ready") == 200
            one.server.wind_down()
            await closed(one.port)
            assert not one.done.done()
            go.set()
            rest = await reader.read()
            seen = speaker.read(body_of(first + rest), stream=True)
            assert seen.ended and "warm" in seen.text and not seen.error
            await one.done
            writer.close()

    run(talk())


@pytest.mark.requirement("R-F29")
def test_an_idle_connection_is_closed_and_the_last_answer_says_that_it_is_the_last():
    async def talk() -> None:
        go = asyncio.Event()
        script = Script(go, words("fine"), END)
        async with serving(scripted(script)) as one:
            idle, idle_writer = await one.ask(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await idle.readuntil(b'{"status":"ok"}')
            reader, writer = await one.ask(posted(SPEAKER, stream=False))
            await script.reached.wait()
            one.server.wind_down()
            assert await idle.read() == b""
            go.set()
            assert b"connection: close" in await reader.read()
            await one.done
            for each in (writer, idle_writer):
                each.close()

    run(talk())


@pytest.mark.requirement("R-F29")
@FACES
@pytest.mark.parametrize("begun", [True, False])
def test_what_takes_longer_than_that_ends_with_an_error_of_its_protocol(speaker: Speaker, begun: bool):
    async def talk() -> bytes:
        steps: list[Any] = [words("The weather is fine. " * 20)] if begun else []
        script = Script(*steps, asyncio.Event())
        async with serving(scripted(script), ServerOptions(drain=0.01)) as one:
            reader, writer = await one.ask(posted(speaker))
            await script.reached.wait()
            first = await reader.readuntil(b"fine") if begun else b""
            one.server.wind_down()
            rest = await reader.read()
            await one.done
            assert script.left.is_set()
            writer.close()
            return first + rest

    said = run(talk())
    assert b"the server is shutting down" in said
    if begun:
        seen = speaker.read(body_of(said), stream=True)
        assert seen.error and not seen.ended
    else:
        assert b" 503 " in said.splitlines()[0]
        assert b"retry-after: 1" in said.lower()


@pytest.mark.requirement("R-F29")
def test_whoever_watches_is_told_before_nobody_is_let_in():
    async def talk() -> None:
        async with serving(App(gateway()), ServerOptions(linger=3600.0)) as one:
            assert await one.status("/ready") == 200
            one.server.wind_down()
            assert await one.status("/ready") == 503
            assert await one.status("/health") == 200
            assert await one.status("/v1/models") == 200
            one.server._linger_until = 0.0  # the hour has passed
            await one.done

    run(talk())


@pytest.mark.requirement("R-F29")
@check_each("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals):
    """In this process, whose test would end with it if the signal were raised again."""

    async def talk() -> None:
        (listener,) = bind_sockets("127.0.0.1", 0)
        heard: list[bool] = []
        app = App(gateway())
        server = ToolspeakServer(uvicorn_config(app), app, gateway, on_ready=lambda: heard.append(True))
        serving = asyncio.ensure_future(server.serve([listener]))
        await until(lambda: bool(heard))
        signal.raise_signal(number)
        await serving
        assert app.lifecycle.draining

    run(talk())


@pytest.mark.requirement("R-F30")
def test_told_twice_it_ends_at_once(caplog: pytest.LogCaptureFixture):
    async def talk() -> None:
        script = Script(words("The weather is fine. " * 20), asyncio.Event())
        async with serving(scripted(script), ServerOptions(drain=3600.0)) as one:
            reader, writer = await one.ask(posted(SPEAKER))
            await reader.readuntil(b"fine")
            one.server.wind_down()
            await closed(one.port)
            one.server.wind_down()
            await one.done
            await script.left.wait()
            writer.close()

    run(talk())
    # That nobody waited for the application is no failure of its own.
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


# ---- how much there can be


@pytest.mark.requirement("R-F44")
def test_one_client_too_many_is_told_to_come_back_and_the_next_one_is_served():
    async def talk() -> None:
        async with serving(App(gateway()), limit=3) as one:
            connections = [await one.ask(b"") for _ in range(2)]
            await until(lambda: len(one.server.server_state.connections) == 2)
            assert await one.status("/health") == 503
            connections.pop()[1].close()
            await until(lambda: len(one.server.server_state.connections) == 1)
            assert await one.status("/health") == 200
            for _, writer in connections:
                writer.close()

    run(talk())


#: A path -> in whose words a client there is told that it is one too many.
TURNED_AWAY = {
    "POST /v1/chat/completions": "openai_chat",
    "POST /v1/responses": "openai_responses",
    "POST /v1/messages": "anthropic",
    "POST /v1/messages/count_tokens": "anthropic",
    "POST /v1beta/models/m:generateContent": "gemini",
    "POST /v1beta/files": "gemini",
    "POST /api/chat": "ollama",
    "POST /api/generate": "ollama_generate",
    "POST /api/pull": "ollama",
    "GET /health": "openai_chat",
    "GET /nowhere": "openai_chat",
}


@pytest.mark.requirement("R-F44", "G3")
@check_each("asked", TURNED_AWAY)
def test_who_is_one_too_many_hears_so_in_its_own_protocol(asked: str):
    async def talk(size: int) -> bytes:
        async with serving(App(gateway()), limit=1) as one:
            head = f"{asked} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\n\r\n".encode()
            reader, writer = await one.ask(head)
            writer.write(b" " * size)
            said = await reader.read()  # to the end: the connection is closed
            writer.close()
            return said

    for size in (0, 200_000):
        head, _, body = run(talk(size)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in head and b"\r\nconnection: close" in head
        assert not flaw(msgspec.json.decode(body), PROTOCOLS[TURNED_AWAY[asked]].error)
        assert b"too many connections" in body


@pytest.mark.requirement("R-F44")
def test_as_many_files_may_be_open_as_the_system_allows():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 256), before[1]))
        assert raise_file_limit() == min(before[1], 1 << 18)
        assert raise_file_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_clients_are_so_many_that_files_never_run_out():
    assert process._max_connections(1024) == 448  # pyright: ignore[reportPrivateUsage]
    assert process._max_connections(64) == 1  # pyright: ignore[reportPrivateUsage]
    assert process._max_connections(0) is None  # pyright: ignore[reportPrivateUsage]


# ---- where


def test_every_address_of_a_name_is_listened_at_with_one_port():
    listeners = bind_sockets("localhost", 0)
    assert len({each.getsockname()[1] for each in listeners}) == 1
    for each in listeners:
        each.close()


def test_an_address_that_is_taken_or_not_ours_is_an_error_for_people():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="cannot listen on"):
        bind_sockets("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(UsageError, match="cannot listen on"):
        bind_sockets("192.0.2.1", 0)
    with pytest.raises(UsageError, match="cannot listen on"):
        bind_sockets("no.such.name.invalid", 0)
    with pytest.raises(UsageError, match="cannot listen on"):
        bind_sockets("127.0.0.1", 99_999)
    with pytest.raises(UsageError, match="cannot listen on"):
        bind_sockets("a" * 70 + ".invalid", 0)
