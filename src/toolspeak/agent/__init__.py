"""Give a model a task and tools, and let it work: `Agent` and `AsyncAgent`.

    agent = Agent(client, tools=[read_page], store="sqlite:///work.db")
    result = agent.run("What does the page say about prices?")
    result.content, result.rounds, result.status

An agent owns no conversation: each task is a session of its own, in the store, and can be gone on with or resumed by
its id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeAlias

from ..client import AsyncClient, Client
from ..core.types import JSONValue, Message, TextPart
from ..engine.rounds.loop import MOST_ROUNDS, Limits
from ..engine.rounds.transcript import Answer, Entry
from ..errors import UsageError
from ..runtime.model_resolution import Model
from ..runtime.sync_bridge import Portal
from ..store.session_interface import Journal, MemorySessions, Sessions
from ..tools.approval import Approval
from ..tools.base import Executable
from ..tools.wrappers import MOST_OUTPUT
from .calls import Approve, Toolboxes, approval_of
from .events import AgentEvent, AgentResult, WorkFinished
from .run import Manner, Tell, Work

__all__ = ["Agent", "AsyncAgent"]

#: What an agent asks of its client: a call runs only once it is known to be valid, and only if it carries a mark that
#: no document knows.
_OPTIONS: dict[str, JSONValue] = {"stream_calls": "checked", "marks": "nonce"}
#: Seconds that one call may take: a long build, and not a tool that hangs.
TOOL_SECONDS = 600.0
#: Seconds that `close` waits for what it has cancelled.
_CLOSING_SECONDS = 30.0
#: What the model reads where its own words were cut off in the middle.
_GO_ON = "Your last answer was interrupted. Go on with the task where it stopped."

Task: TypeAlias = str | Message
Tools: TypeAlias = Iterable[Executable | Callable[..., Any]]


class AsyncAgent:
    """An agent, for callers who speak asyncio.

    Args:
        client: an `AsyncClient`, or whatever one is made from: `provider:model`, a function, an upstream.
        tools: what the model may call: Python functions, or whatever `toolspeak.tools` makes.
        store: where sessions are kept: a URL such as `sqlite:///work.db`, a store, or None for memory.
        max_rounds: after so many rounds the model is asked for a summary, and that is the answer.
        max_tokens: likewise for tokens of all requests together.
        max_seconds: likewise for the time that a task takes.
        instructions: what the model is told before the conversation.
        parallel: whether calls of one round run at the same time, or one after the other. Calls with side effects
            always run one after the other, in the order of the model.
        approve: is asked before a call that changes something runs: a function that takes a `Question` and says yes
            or no, or an `Approval` with rules. Without it such calls run, but not those that may have run before they
            were interrupted.
        on_event: is told what happens, as it happens.
        tool_timeout: seconds that one call may take.
        max_output: characters of a result that reach the model at once: of a longer one its head and its tail, and a
            tool `read_more` shows the rest. None: all of every result.
        options: settings and fields of every request, such as `mode` or `temperature`.
    """

    def __init__(
        self,
        client: AsyncClient | Model,
        tools: Tools = (),
        *,
        store: str | Sessions | None = None,
        max_rounds: int = MOST_ROUNDS,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        instructions: str = "",
        parallel: bool = True,
        approve: Approve | Approval | None = None,
        on_event: Tell | None = None,
        tool_timeout: float | None = TOOL_SECONDS,
        max_output: int | None = MOST_OUTPUT,
        **options: JSONValue,
    ) -> None:
        if isinstance(client, Client):
            raise UsageError("an `AsyncAgent` needs an `AsyncClient`", hint="use `Agent`, or make an `AsyncClient`")
        limits = Limits(_whole(max_rounds, "max_rounds") or MOST_ROUNDS, max_tokens, max_seconds)
        _whole(max_tokens, "max_tokens")
        _positive(max_seconds, "max_seconds")
        _positive(tool_timeout, "tool_timeout")
        _whole(max_output, "max_output")
        _check_store(store)
        self._toolboxes = Toolboxes(tools, max_output)
        self._manner = Manner(
            instructions, limits, parallel, approval_of(approve), tool_timeout, {**_OPTIONS, **options}
        )
        self._on_event = on_event
        self._own_client = not isinstance(client, AsyncClient)
        self._client = client if isinstance(client, AsyncClient) else AsyncClient(client)
        self._store = MemorySessions() if store is None else store
        self._opened: Callable[[], None] | None = None
        self._opening = asyncio.Lock()
        self._works: set[Work] = set()
        self._under_way: set[asyncio.Event] = set()  # each is set when its task is over

    async def run(self, task: Task, session: str | None = None) -> AgentResult:
        """Work on a task to its end; with a session, go on with that conversation.

        A task that is cancelled, or whose model cannot be reached, has a result as well: `status` says so.

        Raises:
            NoSessionError: there is no such session.
            SessionBusyError: somebody else works in it.
        """
        return await self._worked(_message(task), session or "", self._told)

    async def resume(self, session: str) -> AgentResult:
        """Go on where a session was interrupted. One that has come to its end stays as it is."""
        return await self._worked(None, session, self._told)

    async def stream(self, task: Task | None, session: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        """What happens, as it happens; the last event holds the result. Without a task: resume.

        Whoever stops reading cancels the work.
        """
        events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()

        def tell(event: AgentEvent) -> None:
            self._told(event)
            events.put_nowait(event)

        message = None if task is None else _message(task)
        working = asyncio.ensure_future(self._worked(message, session or "", tell))
        working.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        working.result()

    def cancel(self) -> None:
        """End everything that this agent works on, from any thread. What was finished is kept."""
        for work in tuple(self._works):
            work.cancel()

    async def close(self) -> None:
        """Cancel what is under way, and free what the agent has opened itself."""
        self.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                for over in tuple(self._under_way):
                    await over.wait()
        if self._own_client:
            await self._client.close()
        if self._opened is not None:
            await asyncio.to_thread(self._opened)
            self._opened = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ---- one task

    def _told(self, event: AgentEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)

    async def _worked(self, message: Message | None, session: str, tell: Tell) -> AgentResult:
        if message is None and not session:
            raise UsageError("nothing can be resumed without a session")
        journal = await (await self._sessions()).journal(session)
        over = asyncio.Event()
        self._under_way.add(over)
        try:
            result = await self._answered(journal, message, tell)
        finally:
            await journal.close()
            self._under_way.discard(over)
            over.set()
        tell(WorkFinished(result))
        return result

    async def _answered(self, journal: Journal, message: Message | None, tell: Tell) -> AgentResult:
        entries = await journal.entries()
        if message is None:
            if _is_over(entries):
                return _result(entries[-1], journal.session)
            message = _to_go_on(entries)
        if message is not None:
            await journal.say(message)
            entries = (*entries, message)
        work = Work(self._client, self._toolboxes.of(journal.session), journal, self._manner, tell)
        self._works.add(work)
        try:
            return _result(await work.carry_out(entries), journal.session)
        finally:
            self._works.discard(work)

    async def _sessions(self) -> Sessions:
        async with self._opening:
            if isinstance(self._store, str):
                from ..store import open_store

                store = await asyncio.to_thread(open_store, self._store)
                self._store, self._opened = store, store.close
            return self._store


def _positive(value: float | None, name: str) -> Any:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"`{name}` must be above 0, not {value!r}")
    return value


def _whole(value: int | None, name: str) -> Any:
    if isinstance(value, float):
        raise UsageError(f"`{name}` must be a whole number, not {value!r}")
    return _positive(value, name)


def _check_store(store: object) -> None:
    if store is not None and not isinstance(store, str) and not callable(getattr(store, "journal", None)):
        kind = type(store).__name__
        raise UsageError(f"`store` must be a URL or a store, not a `{kind}`", hint='such as "sqlite:///work.db"')


def _message(task: Task) -> Message:
    if isinstance(task, Message):
        return task
    if not isinstance(task, str) or not task.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError("a task is a text", hint='say what is to be done: agent.run("...")')
    return Message("user", (TextPart(task),))


def _is_over(entries: tuple[Entry, ...]) -> bool:
    if not entries:
        raise UsageError("nothing was asked in this session yet", hint="go on with it and a task")
    last = entries[-1]
    return isinstance(last, Answer) and last.status == "complete"


def _to_go_on(entries: tuple[Entry, ...]) -> Message | None:
    """What the model has to be told, if anything: where results or a question stand last, it goes on by itself."""
    last = entries[-1]
    return Message("user", (TextPart(_GO_ON),)) if isinstance(last, Answer) and last.content else None


def _result(answer: Entry, session: str) -> AgentResult:
    assert isinstance(answer, Answer)
    return AgentResult(
        answer.content, answer.rounds, answer.status, answer.usage, answer.notes, session, answer.requests
    )


async def _next(events: AsyncIterator[AgentEvent]) -> AgentEvent | None:
    return await anext(events, None)


class Agent:
    """An agent. The arguments are those of `AsyncAgent`; the client may be a `Client`."""

    def __init__(self, client: Client | Model, tools: Tools = (), **arguments: Any) -> None:
        if isinstance(client, AsyncClient):
            raise UsageError("an `Agent` needs a `Client`", hint="use `AsyncAgent`, or make a `Client`")
        # A client that is forgotten is closed: not while this works, and it works where the client does.
        self._owner = client if isinstance(client, Client) else None
        inner, self._portal = client.inside if isinstance(client, Client) else (client, Portal())
        self._agent = AsyncAgent(inner, tools, **arguments)
        if self._owner is None:
            self._portal.close_with(self, self._agent.close)

    def run(self, task: Task, session: str | None = None) -> AgentResult:
        """Work on a task to its end; with a session, go on with that conversation. Ctrl-C ends it."""
        return self._portal.run(self._agent.run(task, session))

    def resume(self, session: str) -> AgentResult:
        """Go on where a session was interrupted. One that has come to its end stays as it is."""
        return self._portal.run(self._agent.resume(session))

    def stream(self, task: Task | None, session: str | None = None) -> Iterator[AgentEvent]:
        """What happens, as it happens; the last event holds the result. Without a task: resume."""
        events = self._agent.stream(task, session)
        try:
            while (event := self._portal.run(_next(events))) is not None:
                yield event
        finally:
            if not self._portal.closed:
                self._portal.run(events.aclose())

    def cancel(self) -> None:
        """End everything that this agent works on, from any thread. What was finished is kept."""
        self._agent.cancel()

    def close(self) -> None:
        """Cancel what is under way, and free what the agent has opened itself."""
        if self._owner is None:
            self._portal.close(self._agent.close)
        elif not self._portal.closed:
            self._portal.run(self._agent.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
