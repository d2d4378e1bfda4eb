"""A program that is killed at the commits of a three-round task and then resumes it.

    python -m tests.store.crash_program agent|journal FOLDER URL STEP

At every STEPth kill point a child works until it kills itself with SIGKILL, before or after its n-th commit; the next
child opens the session and finishes the task. Prints JSON lines: the content of the store, and what was carried out.
`agent` is the real agent with a scripted model; `journal` writes the steps itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from toolspeak import AsyncAgent, AsyncClient, tool
from toolspeak.core.types import Message, TextPart, ToolCall, ToolResult
from toolspeak.engine.rounds.transcript import Answer, CallRecord, Round
from toolspeak.key_value import MemoryState
from toolspeak.store.database import Database
from toolspeak.store.journal import SqlJournal
from toolspeak.store.sessions import Store
from toolspeak.tools.approval import Question
from toolspeak.upstreams.scripted import Scripted, calls

TASK = "Pay three bills."
ROUNDS = 3


class Killed:
    """Counts commits, and kills this process before or after one of them."""

    def __init__(self, number: int, when: str) -> None:
        self.number, self.when, self.count = number, when, 0
        self._once = Database._once  # pyright: ignore[reportPrivateUsage]

    def install(self) -> None:
        def once(database: Database, work: Any, *, write: bool) -> Any:
            if not write:
                return self._once(database, work, write=write)
            self.count += 1
            killed = self.count == self.number

            def watched(connection: Any) -> Any:
                result = work(connection)
                if killed and self.when == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

            result = self._once(database, watched, write=True)
            if killed:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        Database._once = once  # type: ignore[method-assign, assignment]


def pay_into(log: Path) -> Any:
    @tool(side_effects=True)
    def pay(bill: int) -> str:
        """Pay a bill."""
        _note(log, bill)
        return f"paid {bill}"

    return pay


def _note(log: Path, bill: int) -> None:
    """What has been done to the world, whatever becomes of us."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{bill}\n".encode())
    os.close(descriptor)


def script(request: Any) -> Any:
    """A model that asks for the bills one after the other, and for none twice."""
    asked = sum(len(message.calls) for message in request.messages)
    if asked >= ROUNDS:
        return "All is paid."
    return calls(ToolCall("pay", {"bill": asked + 1}, f"call_{asked + 1}"))


def careful(question: Question) -> bool:
    """Lets every other bill be paid, but not the one that may have been paid already."""
    return "carried out before it was interrupted" not in question.reason


async def with_agent(store: Store, log: Path) -> None:
    upstream = Scripted(script, again=True, provider="openai")
    agent = AsyncAgent(AsyncClient(upstream, state=MemoryState()), [pay_into(log)], store=store, approve=careful)
    found = store.sessions()
    if not found:
        await agent.run(TASK)
    elif not store.entries(found[0].id):
        await agent.run(TASK, found[0].id)
    else:
        await agent.resume(found[0].id)


async def with_journal(store: Store, log: Path) -> None:
    found = store.sessions()
    journal = await store.journal(found[0].id if found else "")
    entries = await journal.entries()
    if not entries:
        await journal.say(Message("user", (TextPart(TASK),)))
    if any(isinstance(entry, Answer) and entry.status == "complete" for entry in entries):
        await journal.close()
        return
    asked = {
        record.call.id
        for entry in entries
        if isinstance(entry, Answer)
        for made in entry.rounds
        for record in made.calls
    }
    await journal.begin()
    for bill in range(len(asked) + 1, ROUNDS + 1):
        await _one_round(journal, bill, log)
    await journal.end(Answer("All is paid."))
    await journal.close()


async def _one_round(journal: SqlJournal, bill: int, log: Path) -> None:
    call = ToolCall("pay", {"bill": bill}, f"call_{bill}")
    await journal.stream("I pay. " * 600)  # enough to be written at once
    await journal.plan(Round("I pay.", (CallRecord(call, side_effects=True),)))
    await journal.start(call.id)
    _note(log, bill)
    await journal.finish(ToolResult(call.id, f"paid {bill}", "pay"), 0.0)


WAYS = {"agent": with_agent, "journal": with_journal}


def _work(way: str, url: str, owner: str, log: Path, number: int, when: str) -> None:
    """In a child: until the end, or until it is killed."""
    status = 1
    try:
        store = Store(url, owner)
        killer = Killed(number, when)
        killer.install()
        asyncio.run(WAYS[way](store, log))
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def _child(*arguments: Any) -> int:
    sys.stdout.flush()
    process = os.fork()
    if not process:
        _work(*arguments)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _outcome(url: str, owner: str, log: Path) -> dict[str, Any]:
    with Store(url, owner) as store:
        sessions = store.sessions()
        entries = [entry for info in sessions for entry in store.entries(info.id)]
    answers = [entry for entry in entries if isinstance(entry, Answer)]
    records = [record for answer in answers for made in answer.rounds for record in made.calls]
    return {
        "sessions": len(sessions),
        "status": [answer.status for answer in answers],
        "last": answers[-1].content if answers else "",
        "calls": [[record.call.arguments["bill"], record.state, record.result is not None] for record in records],
        "done": [int(line) for line in log.read_text().split()] if log.exists() else [],
    }


def main(way: str, folder: str, url: str, step: str) -> None:
    """Until a child gets to its end before it is killed."""
    index, killed = 0, -1
    while killed != 0:
        number, when = 1 + index // 2, ("before", "after")[index % 2]
        owner, log = f"point-{index}", Path(folder) / f"done-{index}"
        killed = _child(way, url, owner, log, number, when)
        middle = _outcome(url, owner, log)
        resumed = _child(way, url, owner, log, 0, "never")
        told = {"point": [number, when], "killed": killed, "resumed": resumed}
        print(json.dumps({**told, "middle": middle, "end": _outcome(url, owner, log)}), flush=True)  # noqa: T201 - what the test reads
        index += int(step)


if __name__ == "__main__":
    main(*sys.argv[1:])
