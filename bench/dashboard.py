"""How long the numbers of the dashboard take over 100,000 recorded requests, and what counting costs a request.

The requests are spread over two weeks, six models, seven clients and five keys, and are kept in a SQLite file as a server
keeps them. For each range of time that the page offers, the best of several answers of the server counts, as CPU time
and on the clock. Beside them stands how long the event loop waited at most meanwhile. Exit status 1 if an answer takes
longer than the goal.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.key_value import MemoryState
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.observe.counters import (
    MAX_PERIODS,
    PERIODS,
    RequestRow,
    Statistics,
    Totals,
    add_to_period,
    bucket_of,
    periods_of,
)
from toolspeak.server.proxy.upstream_router import Gateway
from toolspeak.store import open_recordings

REQUESTS, DAYS, BATCH, ROUNDS = 100_000, 14, 500, 5
#: Seconds that an answer may take, and that the event loop may wait.
GOAL, PAUSE_GOAL = 0.3, 0.02
RANGES = {
    "hour": 3600,
    "6 hours": 6 * 3600,
    "24 hours": 86_400,
    "7 days": 7 * 86_400,
    "30 days": 30 * 86_400,
    "90 days": 89 * 86_400,
}


def rows(now: float) -> Iterator[RequestRow]:
    chance = random.Random(1)
    for number in range(REQUESTS):
        seconds = chance.lognormvariate(0.5, 0.8)
        first = seconds * chance.random()
        totals = Totals(
            requests=1,
            emulated=1,
            calls=chance.randint(0, 2),
            judged=1,
            unaided=chance.randint(0, 1),
            successful=1,
            errors=int(chance.random() < 0.02),
            input_tokens=1200,
            output_tokens=80,
            added=0.001,
            total={bucket_of(seconds): 1},
            first_token={bucket_of(first): 1},
        )
        at = now - DAYS * 86_400 * (1 - number / REQUESTS)
        names = (f"model-{chance.randint(1, 6)}", f"client-{chance.randint(1, 7)}", f"key{chance.randint(1, 5)}")
        yield RequestRow(at, *names, totals)


def fill(url: str, now: float) -> float:
    """Write all requests in batches, as the writer process does; return the seconds of CPU for each of them."""
    recordings, batch, number = open_recordings(url), list[RequestRow](), 0
    made = list(rows(now))
    began = time.process_time()
    for start in range(0, REQUESTS, BATCH):
        batch, number = made[start : start + BATCH], number + 1
        update = partial(add_to_period, writer="bench", batch=number)
        for seconds in PERIODS:
            recordings.state.update(periods_of(batch, seconds), update, seconds * MAX_PERIODS)
    taken = time.process_time() - began
    recordings.state.close()
    return taken / REQUESTS


async def longest_pause(ended: asyncio.Event) -> float:
    """Return how long the event loop kept a task waiting at most."""
    longest, before = 0.0, time.perf_counter()
    while not ended.is_set():
        await asyncio.sleep(0)
        longest, before = max(longest, time.perf_counter() - before), time.perf_counter()
    return longest


async def answer(app: App, cookie: str, seconds: int, now: float) -> tuple[float, float, float, dict[str, Any]]:
    """Return the seconds of an answer, the longest pause meanwhile, the CPU time of another answer, and the answer."""
    query = f"since={now - seconds + 60:.0f}&until={now + 60:.0f}"
    scope = {"type": "http", "method": "GET", "path": "/toolspeak/statistics", "query_string": query.encode()}
    scope |= {"headers": [(b"host", b"localhost"), (b"cookie", cookie.encode())], "http_version": "1.1"}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    ended = asyncio.Event()
    pausing = asyncio.create_task(longest_pause(ended))
    began = time.perf_counter()
    await app(scope, receive, send)
    taken = time.perf_counter() - began
    ended.set()
    body = b"".join(each.get("body", b"") for each in sent)
    assert sent[0]["status"] == 200, body
    pause = await pausing  # which has kept a processor busy until now
    began = time.process_time()
    await app(scope, receive, send)
    return taken, pause, time.process_time() - began, json.loads(body)


async def measure(url: str, now: float) -> bool:
    guard = OriginGuard()
    app = App(Gateway([], Capabilities(), MemoryState(), b"secret"), guard)
    state = open_recordings(url).state
    app.statistics = Statistics(stored=state.get_many)
    sessions = guard.access.sessions
    cookie = f"toolspeak_session={sessions.exchange(sessions.new_code())}"
    good = True
    for name, seconds in RANGES.items():
        found = [await answer(app, cookie, seconds, now) for _ in range(ROUNDS)]
        taken, pause, cpu = (min(numbers) for numbers in zip(*(each[:3] for each in found), strict=True))
        counted = found[0][3]["groups"].get("", {}).get("", {}).get("requests", 0)
        good = good and taken <= GOAL and pause <= PAUSE_GOAL
        times = f"{taken * 1000:6.1f} ms, {cpu * 1000:6.1f} ms of CPU"
        print(f"{name:<10} {counted:>7} requests  {times}  longest pause of the event loop {pause * 1000:5.1f} ms")
    state.close()
    await app.close()
    return good


def main() -> int:
    now = time.time()
    sys.setswitchinterval(0.001)  # as `serve` does
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        print(f"writing: {fill(url, now) * 1e6:.0f} us of CPU a request, in the process beside the server")
        good = asyncio.run(measure(url, now))
    print(f"goal: {GOAL * 1000:.0f} ms for an answer, {PAUSE_GOAL * 1000:.0f} ms for a pause")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
