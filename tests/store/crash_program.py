"""A program that is killed at the commits of a three-round task and then resumes it.

    python -m tests.store.crash_program agent|journal|files FOLDER URL STEP

At every STEPth kill point a child works until it kills itself with SIGKILL, before or after its n-th commit; the next
child opens the session and finishes the task. Prints JSON lines: the content of the store, and what was carried out.
`agent` is the real agent with a scripted model; `journal` writes the steps itself; `files` is the agent with the file
tools, and every change is undone in the end.
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
from toolspeak.tools.file_changes import undo_changes
from toolspeak.tools.files import file_tools
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


#: Paid by editing a file, for the first two bills, and by making one, for the last.
OPEN_BILLS = "1 open\n2 open\n"


def file_script(request: Any) -> Any:
    """A model that pays the same bills in files."""
    asked = sum(len(message.calls) for message in request.messages)
    if asked >= ROUNDS:
        return "All is paid."
    bill = asked + 1
    edit = {"path": "bills.txt", "old": f"{bill} open", "new": f"{bill} paid"}
    write = {"path": "receipts/new/3.txt", "content": "3 paid\n"}
    name, arguments = ("edit_file", edit) if bill < ROUNDS else ("write_file", write)
    return calls(ToolCall(name, arguments, f"call_{bill}"))


def work_folder(log: Path) -> Path:
    """The folder with the bills, made when it is first asked for."""
    folder = log.with_suffix(".files")
    if not folder.exists():
        folder.mkdir()
        (folder / "bills.txt").write_text(OPEN_BILLS)
    return folder


def _texts(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() if each.is_file() else "" for each in folder.rglob("*")}


async def undone(store: Store, log: Path, *, dry_run: bool) -> bool:
    """Undo what the session did to files. Whether everything could be, and was, put back."""
    journal = await store.journal(store.sessions()[0].id)
    result = await undo_changes(journal, dry_run=dry_run)
    await journal.close()
    return result.complete and (dry_run or _texts(work_folder(log)) == {"bills.txt": OPEN_BILLS})


async def with_files(store: Store, log: Path) -> None:
    await _with_tools(store, file_script, file_tools(work_folder(log)))


async def with_agent(store: Store, log: Path) -> None:
    await _with_tools(store, script, [pay_into(log)])


async def _with_tools(store: Store, script: Any, tools: list[Any]) -> None:
    upstream = Scripted(script, again=True, provider="openai")
    agent = AsyncAgent(AsyncClient(upstream, state=MemoryState()), tools, store=store, approve=careful)
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


WAYS = {"agent": with_agent, "journal": with_journal, "files": with_files}


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


def _outcome(way: str, url: str, owner: str, log: Path) -> dict[str, Any]:
    with Store(url, owner) as store:
        sessions = store.sessions()
        entries = [entry for info in sessions for entry in store.entries(info.id)]
    answers = [entry for entry in entries if isinstance(entry, Answer)]
    records = [record for answer in answers for made in answer.rounds for record in made.calls]
    return {
        "sessions": len(sessions),
        "status": [answer.status for answer in answers],
        "last": answers[-1].content if answers else "",
        "calls": [[int(record.call.id[-1]), record.state, record.result is not None] for record in records],
        "done": _paid_in_files(log) if way == "files" else [int(line) for line in _lines(log)],
    }


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def _paid_in_files(log: Path) -> list[int]:
    lines = [line for name in ("bills.txt", "receipts/new/3.txt") for line in _lines(work_folder(log) / name)]
    return [int(line.split()[0]) for line in lines if line.endswith("paid")]


def _undo(url: str, owner: str, log: Path, *, dry_run: bool) -> bool:
    with Store(url, owner) as store:
        return not store.sessions() or asyncio.run(undone(store, log, dry_run=dry_run))


def main(way: str, folder: str, url: str, step: str) -> None:
    """Until a child gets to its end before it is killed."""
    index, killed = 0, -1
    while killed != 0:
        number, when = 1 + index // 2, ("before", "after")[index % 2]
        owner, log = f"point-{index}", Path(folder) / f"done-{index}"
        killed = _child(way, url, owner, log, number, when)
        middle = _outcome(way, url, owner, log) | {"undo": _undo(url, owner, log, dry_run=True)}
        resumed = _child(way, url, owner, log, 0, "never")
        told = {"point": [number, when], "killed": killed, "resumed": resumed}
        end = _outcome(way, url, owner, log) | {"undo": _undo(url, owner, log, dry_run=way != "files")}
        print(json.dumps({**told, "middle": middle, "end": end}), flush=True)  # noqa: T201 - what the test reads
        index += int(step)


if __name__ == "__main__":
    main(*sys.argv[1:])
