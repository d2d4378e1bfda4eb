"""The transport against a service that misbehaves: every fault by itself, then many of them in a row."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import tracemalloc

import pytest

from tests.cases import check_each, size
from tests.upstreams.faulty_service import FAULTS, TEXT, Chaos, in_order, misbehaving, seeded
from tests.upstreams.request_helpers import Instant, batches, loops, request
from toolspeak.core.events import fold
from toolspeak.errors import UpstreamError
from toolspeak.upstreams.http.connection import ConnectionPool, HttpConnection, Timeouts
from toolspeak.upstreams.http.retry import Retry
from toolspeak.upstreams.http.thin_transport import HttpUpstream

EXCHANGES = size(24, 2000)
#: Nothing may grow by more than this over a whole row: a leak of 100 bytes for each exchange would show.
MOST_GROWTH = 100 * 1024 + 50 * EXCHANGES
SOON = Timeouts(connect=5, first_byte=0.05, idle=0.05, total=20)
#: Where nothing may come too late. A service that stalls is waited for, so it has less time: enough for a busy machine.
PATIENT, STALLED = Timeouts(connect=15, first_byte=15, idle=15, total=20), Timeouts(first_byte=1, idle=1, total=20)


def _upstream(chaos: Chaos, timeouts: Timeouts = SOON) -> HttpUpstream:
    return HttpUpstream(
        chaos.url, "sk-canary-0123456789", timeouts=timeouts, retry=Retry(most=0), world=Instant().world
    )


async def _outcome(upstream: HttpUpstream) -> tuple[str, str]:
    """What came of one exchange, and the text."""
    try:
        reply = fold(event for batch in await batches(upstream, request()) for event in batch)
    except UpstreamError as error:
        assert "sk-canary" not in str(error)
        return "raised", ""
    if reply.failure is not None:
        assert reply.finish_reason == "unknown"
        return "failed", reply.text
    assert reply.finish_reason == "stop"
    return "whole", reply.text


def _is_right(outcome: str, text: str, wanted: str) -> bool:
    match outcome:
        case "whole":
            return wanted == "whole" and text == TEXT
        case "failed":
            return wanted == "failed" and text != "" and TEXT.startswith(text)
        case _:
            return wanted == "raised"


@check_each("name", FAULTS)
def test_every_fault_ends_as_it_must_and_the_next_request_is_answered(name: str):
    async def talk() -> None:
        async with asyncio.timeout(20), misbehaving(in_order(name, "as it should be")) as chaos:
            upstream = _upstream(chaos, STALLED if name.startswith("stalled") else PATIENT)
            for wanted in (FAULTS[name].outcome, "whole", "whole"):
                outcome, text = await _outcome(upstream)
                assert _is_right(outcome, text, wanted), (outcome, text)
            await upstream.close()

    asyncio.run(talk())


async def _row(chaos: Chaos, upstream: HttpUpstream, count: int, together: int) -> list[str]:
    """Exchanges at the same time, some of them left early; gives what came out."""
    found: list[str] = []
    dice = random.Random(7)

    async def work(share: int) -> None:
        for _ in range(share):
            if dice.random() < 0.1:
                await _left_early(upstream, dice)
            else:
                outcome, text = await _outcome(upstream)
                assert outcome != "whole" or text == TEXT
                assert TEXT.startswith(text)
                found.append(outcome)

    await asyncio.gather(*(work(count // together) for _ in range(together)))
    return found


async def _left_early(upstream: HttpUpstream, dice: random.Random) -> None:
    """Cancelled, or closed after the first events."""
    if dice.random() < 0.5:
        task = asyncio.create_task(_outcome(upstream))
        for _ in range(dice.randrange(6)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return
    opened = upstream.open(request())
    try:
        await anext(opened, None)
    except UpstreamError:
        return
    await opened.aclose()


def _files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


def _alive() -> int:
    gc.collect()
    return sum(isinstance(found, HttpConnection | ConnectionPool) for found in gc.get_objects())


@pytest.mark.requirement("R-LEAKS")
@pytest.mark.parametrize("kind", size(["asyncio"], ["asyncio", "uvloop"]))
def test_nothing_leaks_over_many_faulty_exchanges(kind: str):
    """No connection, no task, no memory, no file."""

    async def talk() -> None:
        choose, _ = seeded(1)
        async with asyncio.timeout(20 + EXCHANGES), misbehaving(choose) as chaos:
            files = _files()
            upstream = _upstream(chaos)
            await _row(chaos, upstream, size(24, 80), 8)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            found = await _row(chaos, upstream, EXCHANGES, 8)
            # Every kind of end was among them.
            assert {"whole", "failed", "raised"} <= set(found)
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] - before < MOST_GROWTH
            await upstream.close()
            # The other side needs a moment to notice.
            for _ in range(200):
                if not chaos.open and _files() <= files:
                    break
                await asyncio.sleep(0.01)
            assert (chaos.open, _files() <= files) == (0, True)
            assert len(asyncio.all_tasks()) == 1

    alive = _alive()
    tracemalloc.start()
    try:
        with asyncio.Runner(loop_factory=loops(kind)) as runner:
            runner.run(talk())
    finally:
        tracemalloc.stop()
    assert _alive() == alive
