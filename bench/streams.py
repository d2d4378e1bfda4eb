"""Many streams at a time through one proxy process: is any lost, how late is a piece, what does a stream cost.

    python bench/streams.py                            1000 streams, a piece each 100 ms, for 60 s
    python bench/streams.py --streams 200 --seconds 5  a short look

Three processes on the loopback: a service that writes pieces, the proxy as users start it, and a client with all the
streams. Service and client are bare protocols of asyncio, so that neither is what limits. Each piece carries the time at
which it was written. Ends with status 1 if any stream is not complete.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from toolspeak.server.process.server import raise_file_limit

ROOT = Path(__file__).parents[1]
#: The streams take turns, so that not all of them write at the same moment.
SLOTS = 20
#: Streams that begin in a second.
RAMP = 250
#: Everything beyond the streams themselves: starting, ramping, ending.
PATIENCE = 60.0
STAMP = re.compile(rb"t(\d+) ")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
NOTHING = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def piece(text: bytes) -> bytes:
    return chunk(b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % text)


END = chunk(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n') + b"0\r\n\r\n"


# ---- the service


class Service(asyncio.Protocol):
    """One connection of the proxy."""

    def __init__(self, slots: list[dict[Service, int]], pieces: int) -> None:
        self._slots = slots
        self._pieces = pieces
        self._heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.WriteTransport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        for slot in self._slots:
            slot.pop(self, None)

    def data_received(self, data: bytes) -> None:
        self._heard += data
        head, found, body = self._heard.partition(b"\r\n\r\n")
        if head.startswith(b"GET"):  # what it can do, or which models it has
            self.transport.write(NOTHING)
            self.transport.close()
            return
        if found and len(body) >= int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            self._heard = b""
            self.transport.write(HEAD)
            min(self._slots, key=len)[self] = self._pieces


async def serve(pieces: int, every: float) -> None:
    slots: list[dict[Service, int]] = [{} for _ in range(SLOTS)]
    server = await asyncio.get_running_loop().create_server(
        lambda: Service(slots, pieces), "127.0.0.1", 0, backlog=4096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    due = time.monotonic()
    while True:
        for slot in slots:
            text = piece(b"t%d " % time.monotonic_ns())
            for service, left in list(slot.items()):
                service.transport.write(text if left else END)
                if left:
                    slot[service] = left - 1
                else:
                    del slot[service]
            due += every / SLOTS
            await asyncio.sleep(max(0.0, due - time.monotonic()))


# ---- the client


class Stream(asyncio.Protocol):
    """One stream: counts its pieces and how late each was."""

    def __init__(self, request: bytes, ages: list[int]) -> None:
        self._request = request
        self._ages = ages
        self._rest = b""
        self.pieces = 0
        self.status = b""
        self.done = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self.status:
            self.status = data[9:12]
        data = self._rest + data
        last = 0
        for found in STAMP.finditer(data):
            self.pieces += 1
            self._ages.append(now - int(found[1]))
            last = found.end()
        self._rest = data[max(last, len(data) - 64) :]
        if b"[DONE]" in self._rest and self._rest.endswith(b"0\r\n\r\n"):
            self.done = True
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def ask(port: int, streams: int, pieces: int, longest: float) -> None:
    said = {
        "model": "m",
        "stream": True,
        "messages": [{"role": "user", "content": "Tell me a story."}],
        "tools": [TOOL],
    }
    body = json.dumps(said).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
    loop = asyncio.get_running_loop()
    ages: list[int] = []
    begun: list[Stream] = []
    failed = 0
    for number in range(streams):
        try:
            _, stream = await loop.create_connection(lambda: Stream(request, ages), "127.0.0.1", port)
            begun.append(stream)
        except OSError:
            failed += 1
        await asyncio.sleep(1 / RAMP if number % 5 == 0 else 0)
    print("begun", flush=True)
    await asyncio.wait([stream.ended for stream in begun], timeout=longest)
    ages.sort()
    complete = sum(stream.done and stream.pieces == pieces and stream.status == b"200" for stream in begun)
    told = {"streams": streams, "refused": failed, "complete": complete, "pieces": len(ages)}
    wanted = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    told |= {name: round(ages[int(len(ages) * part)] / 1e6, 2) for name, part in wanted.items()} if ages else {}
    print(json.dumps(told), flush=True)


# ---- the whole


def memory(process: int) -> float:
    """Resident MB."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def processor(process: int) -> float:
    """Seconds of CPU so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started(*command: str, **more: str) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], **more}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def measure(streams: int, seconds: float, every: float) -> bool:
    pieces = round(seconds / every)
    here = [sys.executable, __file__, "--streams", str(streams), "--seconds", str(seconds), "--every", str(every)]
    running: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory() as home:
        try:
            running.append(started(*here, "--role", "service", HOME=home))
            upstream = f"http://127.0.0.1:{line(running[0]).strip()}/v1"
            proxy = started(
                sys.executable, "-m", "toolspeak", "serve", "--port", "0", "--upstream", upstream, HOME=home
            )
            running.append(proxy)
            port = line(proxy).partition("127.0.0.1:")[2].split()[0]
            time.sleep(2)  # to settle
            idle, before, began = memory(proxy.pid), processor(proxy.pid), time.monotonic()
            client = started(*here, "--role", "client", "--port", port, HOME=home)
            running.append(client)
            peak = idle
            while client.poll() is None and time.monotonic() - began < seconds + 2 * PATIENCE:
                peak = max(peak, memory(proxy.pid))
                with suppress(subprocess.TimeoutExpired):
                    client.wait(0.5)
            line(client)
            told = json.loads(line(client) or "{}")
            busy = (processor(proxy.pid) - before) / (time.monotonic() - began)
        finally:
            for process in reversed(running):
                process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                process.kill()
                process.wait()
    expected = streams * pieces
    print(
        f"{streams} streams, a piece each {every * 1000:.0f} ms for {seconds:.0f} s, one proxy process, tools emulated"
    )
    print(f"  complete {told.get('complete', 0)} of {streams}, refused {told.get('refused', streams)}")
    print(f"  pieces {told.get('pieces', 0)} of {expected}")
    print(f"  age of a piece: p50 {told.get('p50_ms')} ms, p99 {told.get('p99_ms')} ms, p99.9 {told.get('p999_ms')} ms")
    print(f"  proxy: {idle:.0f} MB idle, {peak:.0f} MB at most, {(peak - idle) * 1024 / streams:.1f} kB a stream")
    print(f"  proxy: {busy * 100:.0f} % of a core")
    return told.get("complete") == streams and told.get("pieces") == expected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=0.1)
    parser.add_argument("--role", choices=["service", "client"], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    streams, seconds = min(given.streams, 20_000), min(given.seconds, 600.0)
    if given.role is None:
        sys.exit(0 if measure(streams, seconds, given.every) else 1)
    raise_file_limit()
    try:
        import uvloop

        loop = uvloop.new_event_loop
    except ImportError:
        loop = asyncio.new_event_loop
    pieces = round(seconds / given.every)
    longest = seconds + PATIENCE
    with asyncio.Runner(loop_factory=loop) as runner, suppress(KeyboardInterrupt):
        work = serve(pieces, given.every) if given.role == "service" else ask(given.port, streams, pieces, longest)
        runner.run(work)


if __name__ == "__main__":
    main()
