"""Where an agent writes down what happens, before and after it happens.

`Journal` is what the agent loop speaks to; each method that changes something has committed it when it returns,
so that a process may be killed between any two of them. `Sessions` opens journals. Both have a body here that keeps
everything in memory, for agents without a store.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ..core.types import Message, ToolResult
from ..engine.rounds.transcript import Answer, CallRecord, Entry, Round, repaired
from ..errors import NoSessionError, SessionBusyError


class Journal(Protocol):
    """One session, held by one writer. Not for several tasks at once, except `start` and `finish`."""

    @property
    def session(self) -> str:
        """The id under which it can be opened again."""
        ...

    async def entries(self) -> tuple[Entry, ...]:
        """The conversation so far, repaired: every call has a result, no answer is running."""
        ...

    async def say(self, message: Message) -> None:
        """Something was said: by the user, or as the system's text."""
        ...

    async def begin(self) -> None:
        """An answer begins; until `end` it is `running`."""
        ...

    async def stream(self, text: str) -> None:
        """A piece of text came. Written each second or every 4 KB, so that a crash loses no more."""
        ...

    async def plan(self, made: Round) -> None:
        """The model asked for these calls; its text until here belongs to this round. One commit.

        Those that must not run have their result already.
        """
        ...

    async def start(self, call_id: str) -> None:
        """A call is about to run. One commit: after it, nobody runs the call again by himself."""
        ...

    async def finish(self, result: ToolResult, seconds: float) -> None:
        """A call has a result, also one that never started because nobody consented. One commit."""
        ...

    async def end(self, answer: Answer) -> None:
        """The answer is over, complete or not. Its rounds are known already; the rest is written. One commit."""
        ...

    async def close(self) -> None:
        """Give the session back."""
        ...


class Sessions(Protocol):
    """What opens journals: a store."""

    async def journal(self, session: str = "") -> Journal:
        """Hold a session; with an empty name a new one.

        Raises:
            NoSessionError: there is no session of this name.
            SessionBusyError: another writer holds it.
        """
        ...


class MemoryJournal:
    """A session that ends with the process."""

    def __init__(self, session: str = "") -> None:
        self._session = session
        self._entries: list[Entry] = []
        self._answer: Answer | None = None
        #: Somebody holds it.
        self.held = True

    @property
    def session(self) -> str:
        """The id under which it can be opened again."""
        return self._session

    async def entries(self) -> tuple[Entry, ...]:
        """The conversation so far."""
        running = () if self._answer is None else (repaired(self._answer),)
        return (*self._entries, *running)

    async def say(self, message: Message) -> None:
        """Something was said."""
        self._entries.append(message)

    async def begin(self) -> None:
        """An answer begins."""
        self._entries += () if self._answer is None else (repaired(self._answer),)
        self._answer = Answer(status="running")

    async def stream(self, text: str) -> None:
        """A piece of text came."""
        self._change(lambda answer: {"content": answer.content + text})

    async def plan(self, made: Round) -> None:
        """The model asked for these calls."""
        self._change(lambda answer: {"content": "", "rounds": (*answer.rounds, made)})

    async def start(self, call_id: str) -> None:
        """A call is about to run."""
        self._record(call_id, state="started")

    async def finish(self, result: ToolResult, seconds: float) -> None:
        """A call has a result."""
        self._record(result.id, state="finished", result=result, seconds=seconds)

    async def end(self, answer: Answer) -> None:
        """The answer is over."""
        self._entries.append(answer)
        self._answer = None

    async def close(self) -> None:
        """Give the session back."""
        self.held = False

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


class MemorySessions:
    """Sessions that end with the process."""

    def __init__(self) -> None:
        self._journals: dict[str, MemoryJournal] = {}
        self._numbers = itertools.count(1)

    async def journal(self, session: str = "") -> MemoryJournal:
        """Hold a session; with an empty name a new one."""
        if not session:
            session = f"memory-{next(self._numbers)}"
            self._journals[session] = MemoryJournal(session)
            return self._journals[session]
        if session not in self._journals:
            raise NoSessionError(f"there is no session `{session:.80}`", hint="it is kept as long as the agent lives")
        journal = self._journals[session]
        if journal.held:
            raise SessionBusyError(f"the session `{session}` is in use", hint="wait for its end, or begin another")
        journal.held = True
        return journal
