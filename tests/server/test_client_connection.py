"""Clients that never come to the point."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import Parrot, gateway, line, run
from tests.server.scripted_peers import AT_ONCE, Script, words
from tests.server.test_from_config import CHAT, Running, raw, request_bytes, up
from toolspeak.key_value import MemoryState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.http.client_connection import ClientConnection

BODY = b'{"model":"m","messages":[{"role":"user","content":"Hello?"}]}'


class Hasty(ClientConnection):
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
@check_each("data", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nx-slow: "])
def test_a_head_that_does_not_come_is_not_waited_for(data: bytes):
    assert on_the_wire(data) == b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Wire(asyncio.Transport):
    """A connection without a network: what is said comes in as many pieces, whenever it is said."""

    def __init__(self, server: Running) -> None:
        super().__init__()
        self.said = b""
        self.closed = False
        self.protocol = ClientConnection(server.config, server.server_state, {})
        self.protocol.connection_made(self)

    def write(self, data: Any) -> None:
        self.said += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    @property
    def timer(self) -> asyncio.TimerHandle | None:
        return self.protocol._timer  # pyright: ignore[reportPrivateUsage]

    def hears(self, piece: bytes, most: int = 1) -> int:
        """How many bytes of these pieces it takes until it closes."""
        taken = 0
        while taken < most and not self.closed:
            self.protocol.data_received(piece)
            taken += len(piece)
        return taken

    async def answered(self, count: int = 1) -> bytes:
        while self.said.count(b"HTTP/1.1") < count or self.protocol.answering:  # noqa: ASYNC110
            await asyncio.sleep(0)
        return self.said


HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (
    len(BODY),
    BODY,
)
#: Whatever came before, what follows is no body: a head, the head behind a request, trailers, an extension of a chunk.
BEGINNINGS = {
    "a head": b"GET / HTTP/1.1\r\nx-slow: ",
    "a head behind a request": HEALTH + b"GET / HTTP/1.1\r\nx-slow: ",
    "a head behind a body": CHUNKED + b"0\r\n\r\nGET / HTTP/1.1\r\nx-slow: ",
    "trailers": CHUNKED + b"0\r\nx-slow: ",
    "an extension of a chunk": CHUNKED + b"5;slow=",
}
NOBODY_MAY = OriginGuard(Access(ApiKeys(MemoryState()), required=True))
A_MEGABYTE = 1024 * 1024


def wired(scenario: Callable[[Wire], Awaitable[None]], guard: OriginGuard | None = None) -> None:
    async def whole() -> None:
        async with up(Running(App(gateway(), guard))) as server:
            wire = Wire(server)
            try:
                await scenario(wire)
            finally:
                wire.protocol.connection_lost(None)

    run(whole())


@pytest.mark.requirement("R-T11")
@check_each("begun", BEGINNINGS.values(), ids=BEGINNINGS.keys())
def test_what_comes_byte_by_byte_has_as_long_as_what_comes_at_once(begun: bytes):
    async def scenario(wire: Wire) -> None:
        wire.hears(begun)
        timer = wire.timer
        assert timer is not None
        wire.hears(b"x", most=100)
        assert wire.timer is timer
        assert not timer.cancelled()

    wired(scenario)


@pytest.mark.requirement("R-T11")
@check_each("piece", [b"x" * 100, b"x\r\nx-flood: 0123456789"], ids=["one line", "lines"])
@check_each("begun", BEGINNINGS.values(), ids=BEGINNINGS.keys())
def test_what_has_no_end_is_not_read(begun: bytes, piece: bytes):
    async def scenario(wire: Wire) -> None:
        wire.hears(begun)
        assert wire.hears(piece, most=A_MEGABYTE) < 64 * 1024
        assert wire.closed

    wired(scenario)


@pytest.mark.requirement("R-T11")
def test_who_sends_a_head_without_end_is_told_so_behind_the_answer_before():
    async def scenario(wire: Wire) -> None:
        wire.hears(HEALTH + b"GET / HTTP/1.1\r\n")
        assert (await wire.answered()).endswith(b'{"status":"ok"}')
        wire.hears(b"x-flood: 0123456789\r\n", most=A_MEGABYTE)
        assert b" 431 " in wire.said

    wired(scenario)


@pytest.mark.requirement("R-T11")
def test_empty_lines_before_a_request_are_no_way_to_stay():
    async def scenario(wire: Wire) -> None:
        wire.hears(HEALTH)
        wire.hears(b"\r\n")  # some clients end a request so; its answer has all the time it needs
        assert wire.timer is None
        await wire.answered()
        wire.hears(b"\r\n")
        timer = wire.timer
        assert timer is not None
        wire.hears(b"\r\n", most=100)
        assert wire.timer is timer
        wire.hears(HEALTH)
        assert wire.timer is None
        assert (await wire.answered(2)).endswith(b'{"status":"ok"}')

    wired(scenario)


@pytest.mark.requirement("R-T11", "R-T7")
def test_what_stands_behind_a_body_is_no_header():
    keys = ApiKeys(MemoryState())
    anna = keys.new("anna")[1].encode()
    ends = b"0\r\nx-toolspeak-key: %b\r\nauthorization: Bearer %b\r\n\r\n" % (anna, anna)

    async def scenario(wire: Wire) -> None:
        wire.hears(CHUNKED + ends)
        assert b" 401 " in await wire.answered()
        assert wire.protocol.newest is not None
        assert b"authorization" not in dict(wire.protocol.newest.scope["headers"])
        # Nor is it one of the request that comes next.
        wire.hears(HEALTH.replace(b"/health", b"/v1/models"))
        assert (await wire.answered(2)).count(b" 401 ") == 2

    wired(scenario, OriginGuard(Access(keys, required=True)))


def test_who_asks_for_a_websocket_is_answered_without_a_line_in_the_log(caplog: pytest.LogCaptureFixture):
    wanted = b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"

    async def scenario(wire: Wire) -> None:
        wire.hears(b"GET /v1/responses HTTP/1.1\r\n" + wanted + b"\r\n")
        assert b" 426 " in await wire.answered()

    wired(scenario)
    assert [record.message for record in caplog.records if record.levelname != "INFO"] == []


@pytest.mark.requirement("R-T11")
def test_a_body_that_nobody_reads_does_not_keep_a_connection():
    async def scenario(wire: Wire) -> None:
        wire.hears(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        assert b" 401 " in await wire.answered()
        timer = wire.timer
        assert timer is not None
        wire.hears(b"x", most=999)
        assert wire.timer is timer
        # Who comes to the end in time is waited for as between any two requests.
        wire.hears(b"x")
        assert wire.timer is None
        assert wire.protocol._idle_timer is not None  # pyright: ignore[reportPrivateUsage]
        assert not wire.closed

    wired(scenario, NOBODY_MAY)


@pytest.mark.requirement("R-T11")
def test_a_body_that_nobody_reads_is_cut_off_without_another_answer():
    class HastyAtTheEnd(ClientConnection):
        rest_seconds = 0.01

    data = request_bytes("POST", CHAT, "Host: localhost", body=BODY).replace(b"Connection: close\r\n", b"")[:-5]

    async def scenario() -> None:
        app = App(gateway(), NOBODY_MAY)
        async with up(Running(app, protocol=HastyAtTheEnd)) as server:
            answer = await raw(server.port, data)
            assert answer.startswith(b"HTTP/1.1 401")
            assert answer.count(b"HTTP/1.1") == 1

    run(scenario())


@pytest.mark.requirement("R-T11")
def test_a_body_that_does_not_come_is_not_waited_for():
    data = request_bytes("POST", CHAT, "Host: localhost", body=BODY)
    assert on_the_wire(data[:-5]).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


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
@check_each("goodbye", ["closed", "half-closed"])
@check_each("more", [b"", chat(False), chat(False) * 3, b"POST /half-a-head HTTP/1.1\r\nHost: lo"])
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


CLOSING = chat(False).replace(b"Host:", b"Connection: close\r\nHost:")


@check_each("data", [CLOSING, CLOSING.replace(b"1.1", b"1.0")])
def test_a_client_that_announced_to_close_may_close_its_sending_side(data: bytes):
    async def scenario() -> bytes:
        parrot = Parrot()
        parrot.held = asyncio.Event()
        async with up(Running(App(gateway(line("one", parrot))))) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(data)
            writer.write_eof()
            await parrot.reached.wait()
            (connection,) = server.server_state.connections
            while getattr(connection, "_timer", None) is None:  # noqa: ASYNC110
                await asyncio.sleep(0)
            parrot.held.set()
            answer = await reader.read()
            writer.close()
            return answer

    assert b" 200 OK" in run(scenario())


@pytest.mark.requirement("R-F27")
def test_a_client_that_announced_to_close_and_left_is_noticed_after_a_while():
    class Brief(ClientConnection):
        half_closed_seconds = 0.01

    async def scenario() -> None:
        script = Script(words("The weather is fine. " * 20), asyncio.Event())
        async with up(Running(App(gateway(line("one", script))), protocol=Brief)) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(CLOSING)
            await script.reached.wait()
            writer.transport.abort()
            async with asyncio.timeout(AT_ONCE):
                await script.left.wait()

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
