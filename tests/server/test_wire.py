"""Clients that never come to the point."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tests.server.asgi import Parrot, gateway, line, run
from tests.server.players import AT_ONCE, Script, words
from tests.server.test_run import CHAT, Running, raw, request_bytes, up
from toolspeak.server.app import App
from toolspeak.server.wire import CarefulProtocol

BODY = b'{"model":"m","messages":[{"role":"user","content":"Hello?"}]}'


class Hasty(CarefulProtocol):
    head_seconds = 0.05
    body_seconds = 0.05


def on_the_wire(data: bytes, protocol: Any = Hasty) -> bytes:
    async def scenario() -> bytes:
        async with up(Running(App(gateway()), protocol=protocol)) as server:
            return await raw(server.port, data)

    return run(scenario())


def waiting_for(server: Running) -> list[Any]:
    """What each connection is waiting for."""
    return [getattr(connection, "_timer", None) for connection in server.server_state.connections]


@pytest.mark.requirement("R-T11")
@pytest.mark.parametrize("data", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nx-slow: "])
def test_a_head_that_does_not_come_is_not_waited_for(data: bytes):
    assert on_the_wire(data) == b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@pytest.mark.requirement("R-T11")
def test_a_head_that_comes_byte_by_byte_has_as_long_as_any_other():
    async def scenario() -> None:
        async with up(Running(App(gateway()), protocol=Hasty)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET / HTTP/1.1\r\nx-slow: ")
            answer = asyncio.ensure_future(reader.read())
            while not answer.done():
                writer.write(b"x")
                await asyncio.wait([answer], timeout=0.005)
            assert (await answer).startswith(b"HTTP/1.1 408")
            writer.close()

    run(scenario())


@pytest.mark.requirement("R-T11")
def test_a_head_without_end_is_not_read():
    flood = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"x-flood: 0123456789\r\n" * 5000
    assert b" 431 " in on_the_wire(flood, CarefulProtocol)


@pytest.mark.requirement("R-T11")
def test_a_body_that_does_not_come_is_not_waited_for():
    data = request_bytes("POST", CHAT, "Host: localhost", body=BODY)
    answer = on_the_wire(data[:-5])
    assert b"200 OK" not in answer


def test_a_whole_request_has_all_the_time_it_needs():
    async def scenario() -> None:
        parrot = Parrot()
        parrot.held = asyncio.Event()
        async with up(Running(App(gateway(line("one", parrot))), protocol=Hasty)) as server:
            data = request_bytes("POST", CHAT, "Host: localhost", body=BODY)
            answer = asyncio.ensure_future(raw(server.port, data))
            await parrot.reached.wait()
            assert waiting_for(server) == [None]
            parrot.held.set()
            assert b"200 OK" in await answer

    run(scenario())


def test_requests_follow_each_other_on_one_connection():
    async def scenario() -> None:
        async with up(Running(App(gateway()), protocol=Hasty)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            for _ in range(3):
                writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(len(b'{"status":"ok"}'))
                # Between two requests a connection is kept, which is uvicorn's to limit.
                assert waiting_for(server) == [None]
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b"200 OK" in await reader.read()
            writer.close()

    run(scenario())


# ---- several requests at once, and half a goodbye


def chat(stream: bool) -> bytes:
    body = BODY.replace(b"{", b'{"stream":%b,' % (b"true" if stream else b"false"), 1)
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body)


@pytest.mark.requirement("R-F28")
def test_requests_that_come_together_are_answered_one_after_the_other():
    async def scenario() -> None:
        async with up(Running(App(gateway()))) as server:
            last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            answers = await raw(server.port, chat(False) + chat(True) + last)
            assert answers.count(b"HTTP/1.1 200 OK") == 3
            assert answers.index(b'"chat.completion"') < answers.index(b"[DONE]") < answers.index(b'{"status":"ok"}')

    run(scenario())


@pytest.mark.requirement("R-F28", "R-F27")
@pytest.mark.parametrize("goodbye", ["closed", "half-closed"])
@pytest.mark.parametrize("more", [b"", chat(False), chat(False) * 3, b"POST /half-a-head HTTP/1.1\r\nHost: lo"])
def test_who_leaves_takes_the_first_request_along_whatever_it_sent_behind(goodbye: str, more: bytes):
    async def scenario() -> None:
        script = Script(words("The weather is fine. " * 20), asyncio.Event())
        async with up(Running(App(gateway(line("one", script))))) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(chat(True) + more)
            await reader.readuntil(b"fine")
            if goodbye == "closed":
                writer.transport.abort()
            else:
                writer.write_eof()
            async with asyncio.timeout(AT_ONCE):
                await script.left.wait()
            # Nothing that waited behind it has been asked.
            assert len(script.asked) == 1
            writer.close()

    run(scenario())


@pytest.mark.requirement("R-F28")
def test_only_so_many_requests_wait_behind_one():
    async def scenario() -> None:
        script = Script(words("The weather is fine. " * 20), asyncio.Event())
        async with up(Running(App(gateway(line("one", script))))) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(chat(True) + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            await script.left.wait()
            writer.close()

    run(scenario())


@pytest.mark.requirement("R-F28")
def test_nonsense_behind_a_request_is_not_answered_in_the_middle_of_its_answer():
    async def scenario() -> None:
        script = Script(words("The weather is fine. " * 20), asyncio.Event())
        async with up(Running(App(gateway(line("one", script))))) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(chat(True))
            await reader.readuntil(b"fine")
            writer.write(b"\x00nonsense\r\n\r\n")
            rest = b""
            with contextlib.suppress(ConnectionError):
                rest = await reader.read()
            assert b"HTTP/1.1" not in rest
            await script.left.wait()
            writer.close()

    run(scenario())
