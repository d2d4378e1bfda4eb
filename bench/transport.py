"""CPU time of the HTTP transport against aiohttp and httpx2: `python bench/transport.py`.

A server in a process of its own answers with fixed bytes over the loopback; CPU time is that of the asking process
alone. Every client posts the same JSON and reads the answer to its end, over kept connections, on uvloop. The clients
take turns within one run; the best round of each counts. `--seconds` bounds the whole run.

Rows marked "events" do more than the others: they encode a request and decode the answer into events.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from typing import cast

import aiohttp
import httptools
import httpx2
import msgspec
import uvloop

from toolspeak.core.types import Message, Request, TextPart
from toolspeak.upstreams.http.service import Posted
from toolspeak.upstreams.http.thin_transport import HttpUpstream

#: Events of one stream, in bursts or one by one, and the text of each.
CHUNKS, PACED = 512, 100
TEXT = "word 000000 and a few "
ROUNDS = 5
GOALS = {"aiohttp": 2.0, "httpx2": 10.0}

_CHUNK = (
    '{"id":"chatcmpl-9f2c7a1b3d5e","object":"chat.completion.chunk","created":1790000000,"model":"some-model-7b",'
    '"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]}'
)
_WHOLE = (
    b'{"id":"chatcmpl-9f2c7a1b3d5e","object":"chat.completion","created":1790000000,"model":"some-model-7b","choices":'
    b'[{"index":0,"message":{"role":"assistant","content":"It rains in Paris."},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":30,"completion_tokens":6,"total_tokens":36}}'
)
_HEADERS = (
    b"HTTP/1.1 200 OK\r\ndate: Sun, 15 Nov 2026 05:00:00 GMT\r\nserver: uvicorn\r\nx-request-id: 0123456789abcdef\r\n"
)


def _event(delta: str, reason: str = "null") -> bytes:
    data = f"data: {_CHUNK % (delta, reason)}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


WHOLE = _HEADERS + b"content-length: %d\r\ncontent-type: application/json\r\n\r\n%b" % (len(_WHOLE), _WHOLE)
STREAM_HEAD = _HEADERS + b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = _event(f'{{"content":"{TEXT}"}}')
STREAM_TAIL = _event("{}", '"stop"') + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"

REQUEST = Request("m", (Message("user", (TextPart("What is the weather in Paris, and what should I wear?"),)),))
PAYLOAD = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "x" * 200}]})


# ------------------------------------------------------------------------------------------------ server


class _Server(asyncio.Protocol):
    """Answers every request with the same bytes; streams are written event by event."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._streaming: asyncio.Task[None] | None = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_message_complete(self) -> None:
        if b"stream" in self._path:
            self._streaming = asyncio.get_running_loop().create_task(self._stream(b"slow" in self._path))
        else:
            self._transport.write(WHOLE)

    async def _stream(self, slow: bool) -> None:
        write = self._transport.write
        write(STREAM_HEAD)
        for number in range(PACED if slow else CHUNKS):
            write(EVENT)
            if slow:
                # The client gets a read for each event, as from a model.
                await asyncio.sleep(0.002)
            elif number % 16 == 15:
                await asyncio.sleep(0)
        write(STREAM_TAIL)


def _serve(pipe: Pipe) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Server, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with suppress(KeyboardInterrupt):
        uvloop.run(main())


# ----------------------------------------------------------------------------------------------- clients

Ask = Callable[[], Awaitable[int]]


class _Clients:
    """Something to call for each client: one request, one answer."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"

    async def __aenter__(self) -> _Clients:
        self._aiohttp = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        self._httpx2 = httpx2.AsyncClient(limits=limits, timeout=60, trust_env=False)
        self._own: list[HttpUpstream] = []
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._aiohttp.close()
        await self._httpx2.aclose()
        for upstream in self._own:
            await upstream.close()

    def asking(self, path: str) -> dict[str, Ask]:
        url = f"{self._base}/{path}/chat/completions"
        headers = {"authorization": "Bearer sk-0123456789", "content-type": "application/json"}
        own = HttpUpstream(f"{self._base}/{path}", "sk-0123456789")
        self._own.append(own)

        async def ours() -> int:
            end = asyncio.get_running_loop().time() + 60
            source, piece = await own._post("/chat/completions", Posted(REQUEST, PAYLOAD, end, [], None))
            size = 0
            while piece:
                size += len(piece)
                piece = await source.read()
            source.finish()
            return size

        async def ours_events() -> int:
            return sum([len(batch) async for batch in own.open(REQUEST)])

        async def by_aiohttp() -> int:
            size = 0
            async with self._aiohttp.post(url, data=PAYLOAD, headers=headers) as response:
                async for piece in response.content.iter_any():
                    size += len(piece)
            return size

        async def by_httpx2() -> int:
            size = 0
            async with self._httpx2.stream("POST", url, content=PAYLOAD, headers=headers) as response:
                async for piece in response.aiter_raw():
                    size += len(piece)
            return size

        return {"toolspeak": ours, "toolspeak, events": ours_events, "aiohttp": by_aiohttp, "httpx2": by_httpx2}


async def _round(ask: Ask, count: int, together: int) -> float:
    """CPU microseconds of one request."""
    await asyncio.gather(*(ask() for _ in range(together)))

    async def work() -> None:
        for _ in range(count // together):
            await ask()

    before = time.process_time()
    await asyncio.gather(*(work() for _ in range(together)))
    return (time.process_time() - before) * 1e6 / (count // together * together)


async def _measure(port: int, seconds: float) -> dict[str, dict[str, float]]:
    """title -> client -> microseconds."""
    cases = [
        ("one request, 1 connection", "v1", 1, 1),
        ("one request, 32 connections", "v1", 32, 1),
        ("one chunk of a burst", "stream", 1, CHUNKS),
        ("one chunk of a paced stream", "slowstream", 1, PACED),
    ]
    found: dict[str, dict[str, float]] = {}
    async with _Clients(port) as clients:
        for title, path, together, per in cases:
            asks = clients.asking(path)
            times: dict[str, list[float]] = {name: [] for name in asks}
            share = seconds / len(cases) / ROUNDS / len(asks)
            for _ in range(ROUNDS):
                for name, ask in asks.items():
                    begun = time.perf_counter()
                    await ask()
                    once = time.perf_counter() - begun
                    count = max(together * 4 if per == 1 else 1, min(4000, int(share / once)))
                    times[name].append(await _round(ask, count, together) / per)
            found[title] = {name: min(taken) for name, taken in times.items()}
            spread = statistics.median(max(taken) / min(taken) for taken in times.values())
            print(f"{title}: rounds differ by a factor of {spread:.2f}", file=sys.stderr)
    return found


def _show(found: dict[str, dict[str, float]]) -> bool:
    names = list(next(iter(found.values())))
    print(f"| CPU µs for | {' | '.join(names)} | aiohttp / toolspeak | httpx2 / toolspeak |")
    print(f"|---|{'---|' * (len(names) + 2)}")
    good = True
    for title, times in found.items():
        ratios = {peer: times[peer] / times["toolspeak"] for peer in GOALS}
        if "request" in title:
            good = good and all(ratios[peer] >= goal for peer, goal in GOALS.items())
        cells = [f"{times[name]:.1f}" for name in names] + [f"{ratio:.1f}" for ratio in ratios.values()]
        print(f"| {title} | {' | '.join(cells)} |")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    arguments = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    port = ours.recv()
    socket.create_connection(("127.0.0.1", port)).close()
    good = _show(uvloop.run(_measure(port, arguments.seconds)))
    server.terminate()
    return 0 if good or not arguments.check else 1


if __name__ == "__main__":
    sys.exit(main())
