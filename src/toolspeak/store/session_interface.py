"""Interface between an agent and its session store, with an in-memory implementation.

The agent writes each step to a `SessionJournal` before and after it happens. Except for streamed text, a change is
committed when the method returns, so the process may be killed at any time. A `SessionStore` opens journals.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from ..core.types import Message, ToolResult
from ..engine.rounds.transcript import Answer, CallRecord, Entry, Round, close_open_calls
from ..errors import NoSessionError, SessionBusyError, UsageError


class FileChange(msgspec.Struct, frozen=True):
    """A change of a file by a tool: what is needed to show it and to undo it."""

    root: str
    path: str  # path from the work directory, without links
    before: str  # hash of the content before the change; empty if there was no file
    after: str
    mode: int = 0
    folders: tuple[str, ...] = ()  # the folders that were created for a new file, outermost first
    diff: str = ""  # unified diff, shortened if it is very long
    #: Content before the change. A journal keeps it only with the first change of a file, to which undo goes back.
    content: bytes | None = None


class SessionJournal(Protocol):
    """A session with a single writer. Only `start`, `change` and `finish` may be called from several tasks."""

    @property
    def session(self) -> str: ...

    async def entries(self) -> tuple[Entry, ...]:
        """Return the conversation so far, repaired: every call has a result, and no answer is running."""
        ...

    async def say(self, *messages: Message) -> None:
        """Add messages to the conversation, in one commit."""

    async def begin(self) -> None:
        """Begin an answer. Its status is `running` until `end` is called."""

    async def stream(self, text: str) -> None:
        """Add streamed text. It is written every second or every 4 KB."""

    async def plan(self, round_: Round) -> None:
        """Record the calls requested in a round and the text streamed so far, in one commit.

        Calls that must not run already have a result.
        """

    async def start(self, call_id: str, at: float = 0.0) -> None:
        """Record in one commit that a call is about to run, so it is never repeated automatically.

        `at` is the time of the start, as a Unix time.
        """

    async def change(self, call_id: str, change: FileChange) -> None:
        """Record in one commit that a running call is about to change a file.

        Raises UsageError if the call is not running, so the file must not be changed.
        """

    async def changes(self) -> tuple[FileChange, ...]:
        """Return the changes of files that have not been undone, oldest first."""
        ...

    async def mark_undone(self, root: str, path: str) -> None:
        """Record in one commit that the changes of a file have been undone."""

    async def finish(self, result: ToolResult, seconds: float) -> None:
        """Record the result of a call in one commit, even if the call was denied and never started."""

    async def end(self, answer: Answer) -> None:
        """End the answer in one commit, complete or not. Its rounds have already been stored."""

    async def close(self) -> None:
        """Release the session."""


class SessionStore(Protocol):
    async def journal(self, session: str = "") -> SessionJournal:
        """Open a session for writing; an empty id creates a new one.

        Raises NoSessionError if there is no such session, and SessionBusyError if another writer holds the session.
        """
        ...


async def copy_entries(journal: SessionJournal, entries: Iterable[Entry]) -> None:
    """Add messages and complete answers to a session."""
    for entry in entries:
        if isinstance(entry, Message):
            await journal.say(entry)
            continue
        await journal.begin()
        for round_ in entry.rounds:
            await journal.plan(round_)
        await journal.end(entry)


def not_running(call_id: str) -> UsageError:
    """Return the error for a change of a file by a call that has ended, or was never started."""
    return UsageError(f"the call `{call_id:.80}` is not running, so it must not change files")


class MemoryJournal:
    """A `SessionJournal` in memory, which is lost when the process ends."""

    def __init__(self, session: str = "") -> None:
        self._session = session
        self._entries: list[Entry] = []
        self._answer: Answer | None = None
        self._changes: list[FileChange] = []
        self.in_use = True

    @property
    def session(self) -> str:
        return self._session

    async def entries(self) -> tuple[Entry, ...]:
        running = () if self._answer is None else (close_open_calls(self._answer),)
        return (*self._entries, *running)

    async def say(self, *messages: Message) -> None:
        self._entries += messages

    async def begin(self) -> None:
        self._entries += () if self._answer is None else (close_open_calls(self._answer),)
        self._answer = Answer(status="running")

    async def stream(self, text: str) -> None:
        self._change(lambda answer: {"content": answer.content + text})

    async def plan(self, round_: Round) -> None:
        self._change(lambda answer: {"content": "", "rounds": (*answer.rounds, round_)})

    async def start(self, call_id: str, at: float = 0.0) -> None:
        self._record(call_id, state="started", started=at)

    async def change(self, call_id: str, change: FileChange) -> None:
        records = self._answer.rounds[-1].calls if self._answer is not None and self._answer.rounds else ()
        if not any(record.call.id == call_id and record.state == "started" for record in records):
            raise not_running(call_id)
        if any((each.root, each.path) == (change.root, change.path) for each in self._changes):
            change = msgspec.structs.replace(change, content=None)
        self._changes.append(change)

    async def changes(self) -> tuple[FileChange, ...]:
        return tuple(self._changes)

    async def mark_undone(self, root: str, path: str) -> None:
        self._changes = [each for each in self._changes if (each.root, each.path) != (root, path)]

    async def finish(self, result: ToolResult, seconds: float) -> None:
        self._record(result.id, state="finished", result=result, seconds=seconds)

    async def end(self, answer: Answer) -> None:
        self._entries.append(answer)
        self._answer = None

    async def close(self) -> None:
        self.in_use = False

    def _change(self, fields: Callable[[Answer], dict[str, Any]]) -> None:
        assert self._answer is not None
        self._answer = msgspec.structs.replace(self._answer, **fields(self._answer))

    def _record(self, call_id: str, **fields: Any) -> None:
        def changed(record: CallRecord) -> CallRecord:
            return msgspec.structs.replace(record, **fields) if record.call.id == call_id else record

        def rounds(answer: Answer) -> dict[str, Any]:
            *before, last = answer.rounds
            return {"rounds": (*before, msgspec.structs.replace(last, calls=tuple(map(changed, last.calls))))}

        self._change(rounds)


#: Numbers of sessions, unique in the process: tools that two agents share tell their sessions apart.
_NUMBERS = itertools.count(1)


class MemorySessions:
    """Sessions in memory, which are lost when the process ends."""

    def __init__(self) -> None:
        self._journals: dict[str, MemoryJournal] = {}

    async def journal(self, session: str = "") -> MemoryJournal:
        if not session:
            session = f"memory-{next(_NUMBERS)}"
            self._journals[session] = MemoryJournal(session)
            return self._journals[session]
        if session not in self._journals:
            hint = "sessions in memory are lost when the agent ends"
            raise NoSessionError(f"there is no session `{session:.80}`", hint=hint)
        journal = self._journals[session]
        if journal.in_use:
            hint = "wait until it is closed, or start another session"
            raise SessionBusyError(f"the session `{session}` is in use", hint=hint)
        journal.in_use = True
        return journal
