"""The bridge for callers without an event loop: results, errors, interrupts and the end."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from tests.cases import check_each
from toolspeak.errors import UpstreamError, UsageError
from toolspeak.runtime.sync_bridge import LoopThread, SyncBridge

WAIT = 10  # seconds; only a test that fails takes that long


@pytest.fixture
def portal() -> Iterator[SyncBridge]:
    portal = SyncBridge(LoopThread())
    yield portal
    portal.close()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "toolspeak"]


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


def in_thread(work: Callable[[], object]) -> Future[object]:
    """What a call gives that another thread makes."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


class Sleeper:
    """A coroutine that sleeps until it is cancelled, and tells when it has begun and ended."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()

    async def sleep(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def test_it_gives_the_result_of_a_coroutine(portal: SyncBridge):
    assert [portal.run(answer(each)) for each in range(3)] == [0, 1, 2]


def test_nothing_is_started_before_it_is_needed():
    before = len(threads())
    portal = SyncBridge(LoopThread())
    assert len(threads()) == before
    portal.run(answer(1))
    portal.run(answer(2))
    assert len(threads()) == before + 1
    portal.close()
    assert len(threads()) == before


def test_it_raises_what_the_coroutine_raises(portal: SyncBridge):
    async def fail() -> None:
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):
        portal.run(fail())
    assert portal.run(answer(5)) == 5


def test_threads_share_one_loop(portal: SyncBridge):
    async def loop() -> int:
        return id(asyncio.get_running_loop())

    loops = {in_thread(lambda: portal.run(loop())).result(WAIT) for _ in range(5)}
    assert loops == {portal.run(loop())}


def test_threads_do_not_wait_for_each_other(portal: SyncBridge):
    sleeper = Sleeper()
    waiting = in_thread(lambda: portal.run(sleeper.sleep()))
    assert sleeper.begun.wait(WAIT)
    assert portal.run(answer(1)) == 1
    assert not waiting.done()
    portal.close()
    assert isinstance(waiting.exception(WAIT), UsageError)


def test_an_interrupt_cancels_the_coroutine(portal: SyncBridge, monkeypatch: pytest.MonkeyPatch):
    sleeper = Sleeper()

    def interrupted(self: Future[object], timeout: float | None = None) -> object:
        assert sleeper.begun.wait(WAIT)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            portal.run(sleeper.sleep())
    assert sleeper.ended.wait(WAIT)


# ---- the end


def test_closing_ends_what_still_runs(portal: SyncBridge):
    sleeper = Sleeper()
    waiting = in_thread(lambda: portal.run(sleeper.sleep()))
    assert sleeper.begun.wait(WAIT)
    portal.close()
    assert sleeper.ended.is_set()
    with pytest.raises(UsageError, match="closed during a request"):
        waiting.result(WAIT)


def test_generators_left_open_are_closed(portal: SyncBridge):
    ended = threading.Event()

    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            ended.set()

    left = numbers()

    async def first() -> int:
        return await anext(left)

    assert portal.run(first()) == 1
    assert not ended.is_set()
    portal.close()
    assert ended.is_set()


def test_it_may_be_closed_twice_or_unused():
    portal = SyncBridge(LoopThread())
    portal.close()
    portal.close()


def test_a_closed_portal_runs_nothing_and_leaves_no_coroutine_behind():
    portal = SyncBridge(LoopThread())
    portal.close()
    coroutine = answer(1)
    with pytest.raises(UsageError, match="closed"):
        portal.run(coroutine)
    assert coroutine.cr_frame is None  # closed: Python will not complain that it was never awaited


def test_a_coroutine_that_would_wait_for_its_own_loop_is_refused(portal: SyncBridge):
    async def inner() -> int:
        return portal.run(answer(1))

    with pytest.raises(UsageError, match="called from its own event loop"):
        portal.run(inner())
    assert portal.run(answer(2)) == 2


def test_it_may_be_closed_from_inside():
    portal = SyncBridge(LoopThread())

    async def close() -> None:
        portal.close()
        await asyncio.Event().wait()

    with pytest.raises(UsageError, match="closed during a request"):
        portal.run(close())


@check_each("attempt", range(20))
def test_closing_while_others_begin_never_leaves_anybody_waiting(attempt: int):
    portal = SyncBridge(LoopThread())
    portal.run(answer(0))
    waiting = [in_thread(lambda each=each: portal.run(answer(each))) for each in range(4)]
    portal.close()
    for each, future in enumerate(waiting):
        error = future.exception(WAIT)
        assert isinstance(error, UsageError) if error else future.result() == each


# ---- one loop for all


def test_portals_share_one_loop_which_ends_with_the_last_of_them():
    before = len(threads())
    shared = LoopThread()
    portals = [SyncBridge(shared) for _ in range(3)]
    assert [portal.run(answer(each)) for each, portal in enumerate(portals)] == [0, 1, 2]
    assert len(threads()) == before + 1
    for portal in portals[:2]:
        portal.close()
    assert portals[2].run(answer(7)) == 7
    portals[2].close()
    assert len(threads()) == before


def test_closing_one_portal_leaves_the_work_of_another_alone():
    shared = LoopThread()
    one, other = SyncBridge(shared), SyncBridge(shared)
    sleeper = Sleeper()
    waiting = in_thread(lambda: one.run(sleeper.sleep()))
    assert sleeper.begun.wait(WAIT)
    assert other.run(answer(1)) == 1
    other.close()
    assert not sleeper.ended.is_set()
    one.close()
    assert isinstance(waiting.exception(WAIT), UsageError)


def test_a_portal_is_closed_when_its_owner_is_forgotten():
    class Owner:
        pass

    ended = threading.Event()

    async def last() -> None:
        ended.set()

    portal, owner = SyncBridge(LoopThread()), Owner()
    portal.close_with(owner, last)
    portal.run(answer(1))
    del owner
    gc.collect()
    assert ended.wait(WAIT)
    assert portal.closed
    portal.close()


def test_the_end_may_have_something_to_do_first():
    done: list[str] = []

    async def last() -> None:
        done.append("freed")

    portal = SyncBridge(LoopThread())
    portal.run(answer(1))
    portal.close(last)
    portal.close(last)
    assert done == ["freed"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_would_end_a_program_reaches_the_caller_and_the_loop_goes_on(
    portal: SyncBridge, error: type[BaseException]
):
    async def fail() -> None:
        raise error

    with pytest.raises(error):
        portal.run(fail())
    assert portal.run(answer(3)) == 3


def test_a_coroutine_that_cancels_itself_does_not_pass_for_a_closed_client(portal: SyncBridge):
    async def fail() -> None:
        raise asyncio.CancelledError

    with pytest.raises(UpstreamError, match="cancelled internally"):
        portal.run(fail())


def test_work_can_be_sent_without_waiting_even_from_inside(portal: SyncBridge):
    done = threading.Event()

    async def later() -> None:
        done.set()

    async def inner() -> bool:
        portal.spawn(later())
        return portal.inside

    assert portal.run(inner())
    assert done.wait(WAIT)
    portal.close()
    unused = later()
    portal.spawn(unused)
    assert unused.cr_frame is None


_FORKS = """
import os
import toolspeak as ts

asked = ts.Client(lambda messages: "hello")
assert asked.chat("Hi").text == "hello"
child = os.fork()
if child == 0:
    os._exit(7 if asked.chat("Hi").text == "hello" else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
asked.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_starts_a_loop_of_its_own():
    subprocess.run([sys.executable, "-W", "ignore", "-c", _FORKS], check=True, timeout=60)
