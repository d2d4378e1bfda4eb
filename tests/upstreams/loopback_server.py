"""A loopback server that answers as a test says and records the requests it receives."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import msgspec


class Heard:
    """One request, and the connection it came by."""

    def __init__(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.headers = [tuple(line.split(": ", 1)) for line in lines[1:] if line]
        self.body = body
        self.writer = writer
        #: The client has closed its side.
        self.gone = asyncio.Event()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def length(self) -> int:
        """How long the body is; a GET has none."""
        return next((int(value) for name, value in self.headers if name.lower() == "content-length"), 0)

    def header(self, name: str) -> str:
        (value,) = [value for found, value in self.headers if found.lower() == name]
        return value

    async def send(self, *pieces: bytes) -> None:
        """Send pieces, with a chance for the client to read each on its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    def reset(self) -> None:
        """Drop the connection without a word."""
        self.writer.transport.abort()


Answer = Callable[[Heard], Awaitable[None]]


class Server:
    """Where it listens and what it heard."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.port = 0
        self.heard: list[Heard] = []
        self.handling: set[asyncio.Task[None] | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.handling.add(asyncio.current_task())
        # uvloop raises a RuntimeError for a connection that the client has closed.
        with suppress(ConnectionError, asyncio.IncompleteReadError, RuntimeError):
            head = await reader.readuntil(b"\r\n\r\n")
            heard = Heard(head, b"", writer)
            heard.body = await reader.readexactly(heard.length)
            self.heard.append(heard)
            watch = asyncio.create_task(self._watch(heard, reader))
            try:
                await self._answer(heard)
            finally:
                if not writer.is_closing():
                    with suppress(OSError, RuntimeError):
                        writer.write_eof()
                await watch
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()

    async def _watch(self, heard: Heard, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while await reader.read(65536):
                pass
        heard.gone.set()


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        # Every connection must have been closed by its client by now, or this waits and the test fails.
        await asyncio.gather(*(task for task in server.handling if task is not None))
        await listening.wait_closed()


@contextmanager
def serving_in_a_thread(answer: Answer) -> Iterator[Server]:
    """The same for callers that run a loop of their own."""
    ready, ended = threading.Event(), threading.Event()
    found: list[Server] = []

    async def serve() -> None:
        async with serving(answer) as server:
            found.append(server)
            ready.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)
    try:
        yield found[0]
    finally:
        ended.set()
        thread.join(10)


def head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1")


def chunked(pieces: Iterable[bytes], *, last: bool = True) -> bytes:
    frames = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
    return frames + (b"0\r\n\r\n" if last else b"")


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def always(*pieces: bytes) -> Answer:
    """The same answer to everybody."""

    async def answer(heard: Heard) -> None:
        await heard.send(*pieces)

    return answer
