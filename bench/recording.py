"""What keeping requests costs the proxy: CPU time of the real server, on a socket, with `record` off, memory and store.

The upstream answers inside the process: a real one costs a connection more, so the share that is measured here is the
most that it can be. What counts is what the server takes, and the thread that hands requests over; what the process
beside it takes that writes them to the store is told too, and takes no time from clients where there is a core for it.
Runs alternate, and each number is the median over series of nine neighbouring runs, so that a busy machine slows all of
them; beside it stands where the middle half of the series lies. Exit status 1 if keeping costs more than the goal.
"""

from __future__ import annotations

import gc
import http.client
import json
import resource
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

import uvicorn

from toolspeak.core.events import Event, Finish, TextDelta, UsageSeen
from toolspeak.core.types import Request, Usage
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.server.app import App
from toolspeak.server.http.client_connection import ClientConnection
from toolspeak.server.observe.counters import Statistics
from toolspeak.server.proxy.upstream_router import Gateway, UpstreamConfig
from toolspeak.server.recording.recorder import MAX_ENTRIES, Recorder
from toolspeak.server.recording.store_writer import StoreWriter, WriterProcess

REQUESTS, SERIES, GOAL = 300, 8, 0.05
#: Runs before the first that counts: until as many requests are kept as ever will be, there is none to let go of.
WARM = MAX_ENTRIES // REQUESTS + 1
#: What one run leaves behind (caches, a clock that has slowed down while it was waited) is some percent of the next: in
#: a series each way comes once behind each, also behind itself.
ORDER = ("off", "off", "memory", "memory", "store", "store", "off", "store", "memory")
TOOL = {
    "name": "tool",
    "description": "Does a thing.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
}
TOOLS = [{"type": "function", "function": {**TOOL, "name": f"tool_{number}"}} for number in range(20)]
ASKED = {"model": "m", "messages": [{"role": "user", "content": "What now?"}]}
KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "no tools, whole": (ASKED, 1),
    "20 tools, whole": ({**ASKED, "tools": TOOLS}, 1),
    "20 tools, 200 pieces streamed": ({**ASKED, "tools": TOOLS, "stream": True}, 200),
}


class Upstream:
    """Answers at once."""

    provider = "bench"
    base_url = "http://127.0.0.1:9/v1"

    def __init__(self, pieces: int) -> None:
        self._batches: list[list[Event]] = [[TextDelta("the weather is fine, so ")] for _ in range(pieces)]
        self._batches.append([UsageSeen(Usage(100, 20)), Finish("stop")])

    async def open(self, request: Request) -> AsyncGenerator[list[Event], None]:
        for batch in self._batches:
            yield batch

    async def close(self) -> None:
        """Nothing is held."""


def made(pieces: int, recorder: Recorder | None, statistics: Statistics | None = None) -> App:
    upstream = Upstream(pieces)
    line = UpstreamConfig(
        "one",
        "bench",
        upstream.base_url,
        "openai_chat",
        connect=lambda own: upstream,
        settings=lambda model: Settings(mode="force"),
    )
    app = App(Gateway([line], Capabilities(), MemoryState(), b"secret"), recorder=recorder)
    app.statistics = statistics or app.statistics
    return app


def _cpu(*threads: threading.Thread) -> float:
    """Seconds of CPU that threads have taken."""
    return sum(time.clock_gettime(time.pthread_getcpuclockid(each.ident)) for each in threads if each.ident)


def _handing_over() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "toolspeak-recording"]


class Serving:
    """The real server in a thread of its own, and one client that keeps its connection."""

    def __init__(self, app: App, keeper: StoreWriter | None = None) -> None:
        self._keeper = keeper
        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="on",
            http=ClientConnection,
            ws="none",
            server_header=False,
            timeout_keep_alive=75,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()
        self._client = http.client.HTTPConnection(*listening.getsockname())

    def seconds(self, body: bytes) -> float:
        """The CPU time of the server for a round of requests, and of the thread that hands them over to be written."""
        gc.collect()
        began = _cpu(self._thread)
        before = _cpu(*_handing_over())
        for _ in range(REQUESTS):
            self._client.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
            self._client.getresponse().read()
        taken = _cpu(self._thread) - began
        if self._keeper is not None:
            self._keeper.flush()
        return taken + _cpu(*_handing_over()) - before

    def end(self) -> None:
        self._client.close()
        self._server.should_exit = True
        self._thread.join()


def servers(pieces: int, folder: str) -> dict[str, Serving]:
    """One server for each way to keep requests."""
    scribe = WriterProcess(f"sqlite:///{folder}/store.db")
    keeper = StoreWriter(scribe.write, tuple, scribe.end)
    return {
        "off": Serving(made(pieces, None)),
        "memory": Serving(made(pieces, Recorder())),
        "store": Serving(
            made(pieces, Recorder(sink=keeper), Statistics(keeper.add_statistics, close=keeper.close)), keeper
        ),
    }


def measured(name: str, fields: dict[str, Any], pieces: int) -> bool:
    """Tell what keeping costs for one kind of request; whether that is within the goal."""
    body = json.dumps(fields).encode()
    with tempfile.TemporaryDirectory() as folder:
        running = servers(pieces, folder)
        for each in running.values():
            for _ in range(WARM):
                each.seconds(body)
        series = [_one_of_each(running, body) for _ in range(SERIES)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for each in running.values():
            each.end()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    off = statistics.median(each["off"] for each in series)
    print(f"{name:<32} off {off * 1e6:6.0f} us a request")
    good = True
    for way in ("memory", "store"):
        low, cost, high = statistics.quantiles((each[way] / each["off"] - 1 for each in series), n=4)
        more = statistics.median(each[way] - each["off"] for each in series)
        good = good and cost <= GOAL
        print(f"{'':<32} {way:<6} {more * 1e6:+7.1f} us, {cost:+.1%} ({low:+.1%} to {high:+.1%}, goal {GOAL:.0%})")
    beside = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    written = REQUESTS * (WARM + SERIES * ORDER.count("store"))
    print(f"{'':<32} the process beside it: {beside / written * 1e6:.0f} us a request")
    return good


def _one_of_each(running: dict[str, Serving], body: bytes) -> dict[str, float]:
    """One series: seconds of a request, for each way to keep it."""
    taken = dict.fromkeys(running, 0.0)
    for way in ORDER:
        taken[way] += running[way].seconds(body)
    return {way: seconds / ORDER.count(way) / REQUESTS for way, seconds in taken.items()}


def main() -> int:
    gc.freeze()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])  # as `serve` does
    results = [measured(name, fields, pieces) for name, (fields, pieces) in KINDS.items()]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
