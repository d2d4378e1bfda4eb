"""The same with the real server: its connections, and what it keeps for a client that does not read."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import run
from tests.server.live_proxy import listening
from tests.server.protocol_clients import SPEAKERS, Speaker
from tests.server.scripted_peers import AT_ONCE, END, FACES, Script, scripted, words
from toolspeak.server.http.client_connection import ClientConnection


def _raw(speaker: Speaker, stream: bool = True) -> bytes:
    body = json.dumps(speaker.ask(stream)).encode()
    lines = [f"POST {speaker.path(stream)} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.requirement("R-F27")
@FACES
@pytest.mark.parametrize("begun", [True, False])
def test_a_connection_that_is_closed_ends_what_was_asked(speaker: Speaker, begun: bool):
    async def talk() -> None:
        steps: list[Any] = [words("The weather is fine. " * 20)] if begun else []
        script = Script(*steps, asyncio.Event())
        async with listening(scripted(script)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(_raw(speaker))
            await script.reached.wait()
            if begun:
                await reader.readuntil(b"fine")
            writer.transport.abort()
            async with asyncio.timeout(AT_ONCE):
                await script.left.wait()

    run(talk())


#: About as much as one read can bring.
PIECE = "The weather is fine. " * 3000


async def _connect_and_never_read(port: int) -> asyncio.StreamWriter:
    """A client with a small window, so that the system itself keeps little for it."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    _, writer = await asyncio.open_connection(sock=connection, limit=1024)
    writer.write(_raw(SPEAKERS[0]))
    return writer


@pytest.mark.requirement("R-F26")
def test_the_real_server_keeps_little_for_a_client_that_does_not_read():
    async def talk() -> int:
        script = Script(*(words(PIECE) for _ in range(2000)), END)
        async with listening(scripted(script)) as port:
            writer = await _connect_and_never_read(port)
            await script.reached.wait()
            pulled = -1
            while script.pulled != pulled:
                pulled = script.pulled
                for _ in range(200):  # whoever could go on would
                    await asyncio.sleep(0)
            writer.transport.abort()
            await script.left.wait()
            return pulled

    # What the system keeps for a connection is a few MB at most; 2000 pieces are 120 MB.
    assert run(talk()) < 150


@pytest.mark.requirement("R-F26")
def test_a_client_that_never_reads_is_dropped():
    class Impatient(ClientConnection):
        write_seconds = 0.2  # by then somebody looks whether the client is there

    async def talk() -> None:
        script = Script(*(words(PIECE) for _ in range(2000)), END)
        async with listening(scripted(script), Impatient) as port:
            writer = await _connect_and_never_read(port)
            await script.left.wait()
            writer.transport.abort()
            assert script.pulled < 2000

    run(talk())


@check_each(
    ("asked", "status"),
    [
        (b"HEAD / HTTP/1.1", b"200"),
        (b"HEAD /nowhere HTTP/1.1", b"404"),
        (b"GET /v1/responses HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: eA==", b"426"),
    ],
)
def test_the_real_server_answers_and_goes_on(asked: bytes, status: bytes):
    """A second request on the same connection is understood: no byte too many came with the first answer."""

    async def talk() -> tuple[bytes, bytes]:
        async with listening(scripted(Script(END))) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(asked + b"\r\nhost: 127.0.0.1\r\n\r\n")
            first = await reader.readuntil(b"\r\n\r\n")
            if not asked.startswith(b"HEAD"):
                size = int(first.lower().partition(b"content-length: ")[2].split(b"\r")[0])
                await reader.readexactly(size)
            writer.write(b"HEAD / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            second = await reader.readuntil(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()
            return first, second

    first, second = run(talk())
    assert (first.split()[1], second.split()[1]) == (status, b"200")
