"""What keeping requests costs the proxy: the CPU time of the real server, on a socket, with and without a recorder.

The upstream answers inside the process: a real one costs a connection more, so the share that is measured here is the
most that it can be. Runs alternate, and each number is the median over neighbouring runs, so that a busy machine slows
both. Exit status 1 if keeping costs more than the goal.
"""

from __future__ import annotations

import gc
import http.client
import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

import uvicorn

from toolspeak.core.capability import Capabilities
from toolspeak.core.events import Event, Finish, TextDelta, UsageSeen
from toolspeak.core.model import Request, Usage
from toolspeak.core.strategy import Settings
from toolspeak.server.app import App
from toolspeak.server.gateway import Gateway, Line
from toolspeak.server.recording.recorder import Recorder
from toolspeak.server.wire import CarefulProtocol
from toolspeak.state import MemoryState

REQUESTS, RUNS, GOAL = 300, 21, 0.05
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


def made(pieces: int, recorder: Recorder | None) -> App:
    upstream = Upstream(pieces)
    line = Line(
        "one",
        "bench",
        upstream.base_url,
        "openai_chat",
        dial=lambda own: upstream,
        settings=lambda model: Settings(mode="force"),
    )
    return App(Gateway([line], Capabilities(), MemoryState(), b"secret"), recorder=recorder)


class Serving:
    """The real server in a thread of its own, and one client that keeps its connection."""

    def __init__(self, app: App) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="on",
            http=CarefulProtocol,
            ws="none",
            server_header=False,
            timeout_keep_alive=75,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()
        self._client = http.client.HTTPConnection(*listening.getsockname())

    def seconds(self, body: bytes) -> float:
        """The CPU time of the server for a round of requests; that of the client does not count."""
        assert self._thread.ident is not None
        clock = time.pthread_getcpuclockid(self._thread.ident)
        gc.collect()
        began = time.clock_gettime(clock)
        for _ in range(REQUESTS):
            self._client.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
            self._client.getresponse().read()
        return time.clock_gettime(clock) - began

    def end(self) -> None:
        self._client.close()
        self._server.should_exit = True
        self._thread.join()


def main() -> int:
    failed = False
    gc.freeze()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])  # as `serve` does
    for name, (fields, pieces) in KINDS.items():
        body = json.dumps(fields).encode()
        without, with_it = Serving(made(pieces, None)), Serving(made(pieces, Recorder()))
        for each in (without, with_it):
            each.seconds(body)
        pairs = [(without.seconds(body), with_it.seconds(body)) for _ in range(RUNS)]
        for each in (without, with_it):
            each.end()
        cost = statistics.median(two / one for one, two in pairs) - 1
        each = min(one for one, _ in pairs) / REQUESTS
        more = statistics.median(two - one for one, two in pairs) / REQUESTS
        failed |= cost > GOAL
        print(
            f"{name:<32} {1 / each:8.0f} a second  keeping: {more * 1e6:+6.1f} us a request, {cost:+.1%} (goal {GOAL:.0%})"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
