"""Who holds a lease: a process that has ended is known to be gone, any other is not; and journals whose database fails."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import sqlalchemy as sa

from tests.store.test_journal import ASKED, run, until
from toolspeak.engine.rounds.transcript import Answer
from toolspeak.errors import SessionBusyError, StoreDamagedError, StoreError
from toolspeak.store import leases
from toolspeak.store.schema import entries
from toolspeak.store.sessions import Store

_TOKEN = "from toolspeak.store import leases; print(leases.new_token(), flush=True); input()"


@pytest.mark.skipif(not os.path.isdir("/proc/self/ns"), reason="only where processes can be looked at")
def test_a_process_that_has_ended_is_gone_and_one_that_lives_is_not():
    process = subprocess.Popen([sys.executable, "-c", _TOKEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    token = process.stdout.readline().decode().strip()
    assert not leases.has_exited(token)
    process.kill()
    process.communicate()
    assert leases.has_exited(token)
    # The same number, begun at another time, is another process.
    random, machine, _, started = token.split(".")
    assert leases.has_exited(f"{random}.{machine}.{os.getpid()}.{started}0")


_HOLDER = """
import asyncio, sys
from toolspeak.store.sessions import Store
journal = asyncio.run(Store(sys.argv[1]).journal(""))
print(journal.session, flush=True)
input()
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/ns"), reason="only where processes can be looked at")
@pytest.mark.requirement("R-F35")
def test_a_session_whose_writer_was_killed_is_listed_as_free_and_can_be_removed(url: str):
    process = subprocess.Popen([sys.executable, "-c", _HOLDER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    session = process.stdout.readline().decode().strip()
    with Store(url) as store:
        assert store.info(session).holder.startswith(f"process {process.pid} on ")
        with pytest.raises(SessionBusyError):
            store.remove(session)
        process.kill()
        process.communicate()
        assert [info.holder for info in store.sessions()] == [""]
        store.remove(session)
        assert store.sessions() == []


def test_a_process_elsewhere_is_never_taken_for_gone():
    random, machine, process, started = leases.new_token().split(".")
    for other in (
        f"{random}.{machine[::-1]}x.{process}.{started}0",
        f"{random}..{process}.{started}",
        f"{random}.{machine}.{process}.",
        f"{random}.{machine}.x.{started}",
        random,
        "",
    ):
        assert not leases.has_exited(other)


class _Failing:
    """Lets writes of a store fail for a while."""

    def __init__(self, store: Store) -> None:
        self.on = False
        self.count = 0
        real = store.database.write

        def write(work: Any) -> Any:
            if self.on:
                self.count += 1
                raise StoreError("the disk fails")
            return real(work)

        store.database.write = write  # type: ignore[method-assign]


@pytest.mark.requirement("R-F38")
def test_text_that_could_not_be_written_is_written_later(store: Store):
    failing = _Failing(store)

    async def converse() -> str:
        journal = await store.journal(lease_seconds=0.06)
        await journal.say(ASKED)
        await journal.begin()
        failing.on = True
        with pytest.raises(StoreError, match="the disk fails"):
            await journal.stream("x" * 5000)
        before = failing.count
        await until(lambda: failing.count > before)  # the lease could not be renewed either
        failing.on = False
        assert journal._lost is None
        await journal.stream("y")
        await journal.close()
        return journal.session

    session = run(converse())
    [_, answer] = store.entries(session)
    assert isinstance(answer, Answer)
    assert answer.content == "x" * 5000 + "y"


@pytest.mark.requirement("R-F38")
def test_a_session_that_could_not_be_given_back_can_be_opened_again_here(store: Store):
    failing = _Failing(store)

    async def converse() -> None:
        journal = await store.journal()
        await journal.begin()
        await journal.stream("half")
        failing.on = True
        await journal.close()
        failing.on = False
        again = await store.journal(journal.session)
        await again.close()

    run(converse())


@pytest.mark.requirement("R-F42")
def test_a_damaged_answer_that_was_running_is_a_typed_error_when_it_is_opened(store: Store):
    async def converse() -> None:
        journal = await store.journal()
        await journal.begin()
        await journal.close()
        broken = sa.update(entries).values(body="?")
        store.database.write(lambda connection: connection.execute(broken))
        with pytest.raises(StoreDamagedError, match=journal.session):
            await store.journal(journal.session)
        # And nobody holds it now.
        store.remove(journal.session)

    run(converse())
