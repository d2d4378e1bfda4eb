"""`Agent` and `AsyncAgent`: give a model a task and tools, and let it work.

    agent = Agent(client, tools=[read_page], store="sqlite:///work.db")
    result = agent.run("What does the page say about prices?")
    result.content, result.rounds, result.status

Each task gets its own session in the store. Pass the session id to continue or resume it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeAlias

from ..client import AsyncClient, Client
from ..core.types import JSONValue, Message, TextPart
from ..engine.rounds.loop import MAX_ROUNDS, RoundLimits
from ..engine.rounds.transcript import Answer, Entry, results_of
from ..errors import UsageError
from ..runtime.model_resolution import Model
from ..runtime.sync_bridge import SyncBridge
from ..store.session_interface import MemorySessions, SessionJournal, SessionStore
from ..tools.approval import Approval
from ..tools.base import Executable
from ..tools.file_changes import UndoResult, undo_changes
from ..tools.wrappers import MAX_OUTPUT_CHARS
from .calls import Approve, Toolboxes, approval_of
from .events import AgentEvent, AgentResult, WorkFinished
from .run import AgentOptions, EmitEvent, TaskRun

__all__ = ["Agent", "AsyncAgent"]

#: A call runs only after validation. With tool results in the conversation, one with side effects needs consent unless
#: it carries the nonce, which no document can know.
_REQUEST_DEFAULTS: dict[str, JSONValue] = {"stream_calls": "checked", "marks": "confirm"}
#: Default timeout per call in seconds: long enough for a build, short enough to stop a tool that hangs.
TOOL_SECONDS = 600.0
#: Seconds for which `close` waits for cancelled tasks.
_CLOSE_TIMEOUT = 30.0
#: Prompt that resumes an interrupted answer.
_CONTINUE = "Your last answer was interrupted. Go on with the task where it stopped."

Task: TypeAlias = str | Message
Tools: TypeAlias = Iterable[Executable | Callable[..., Any]]


class AsyncAgent:
    """An agent with an asyncio interface.

    Args:
        client: an `AsyncClient`, or the model to create one for: `provider:model`, a function or an upstream.
        tools: Python functions, or tools from `toolspeak.tools`.
        store: the session store: a URL such as `sqlite:///work.db`, a store object, or None to use memory.
        max_rounds: maximum number of rounds. The model is then asked for a summary, which becomes the answer.
        max_tokens: maximum number of tokens for all requests, with the same effect.
        max_seconds: maximum duration of a task, with the same effect.
        instructions: system instructions.
        parallel: whether to run the read-only calls of one round in parallel. All other calls run one after the other,
            in the model's order. The default is the client's setting, which is True unless configured otherwise.
        approve: decides whether a call with side effects may run. Either a function that takes a `Question` and returns
            a boolean, or an `Approval` with rules. If omitted, all calls may run, except those that may already have
            run before an interruption.
        on_event: called with each event.
        tool_timeout: timeout per call in seconds.
        max_output: maximum number of characters of a result that the model sees. Longer results are truncated in the
            middle, and the `read_more` tool returns the rest. None means no limit.
        options: settings and request fields, such as `mode` or `temperature`.
    """

    def __init__(
        self,
        client: AsyncClient | Model,
        tools: Tools = (),
        *,
        store: str | SessionStore | None = None,
        max_rounds: int = MAX_ROUNDS,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        instructions: str = "",
        parallel: bool | None = None,
        approve: Approve | Approval | None = None,
        on_event: EmitEvent | None = None,
        tool_timeout: float | None = TOOL_SECONDS,
        max_output: int | None = MAX_OUTPUT_CHARS,
        **options: JSONValue,
    ) -> None:
        if isinstance(client, Client):
            raise UsageError("an `AsyncAgent` needs an `AsyncClient`", hint="use `Agent`, or create an `AsyncClient`")
        limits = RoundLimits(_whole_number(max_rounds, "max_rounds") or MAX_ROUNDS, max_tokens, max_seconds)
        _whole_number(max_tokens, "max_tokens")
        _positive(max_seconds, "max_seconds")
        _positive(tool_timeout, "tool_timeout")
        _whole_number(max_output, "max_output")
        _check_store(store)
        self._toolboxes = Toolboxes(tools, max_output)
        self._own_client = not isinstance(client, AsyncClient)
        self._client = client if isinstance(client, AsyncClient) else AsyncClient(client)
        self._options = AgentOptions(
            instructions,
            limits,
            parallel,
            approval_of(approve),
            tool_timeout,
            {**_request_defaults(self._client), **options},
        )
        self._on_event = on_event
        self._store = MemorySessions() if store is None else store
        self._close_store: Callable[[], None] | None = None
        self._opening = asyncio.Lock()
        self._active: set[TaskRun] = set()
        self._finished_events: set[asyncio.Event] = set()  # one per task, set when the task ends

    async def run(self, task: Task, session: str | None = None) -> AgentResult:
        """Work on a task until it ends. With a session, continue its conversation.

        A cancelled or failed task also returns a result; check its `status`.

        Raises:
            NoSessionError: the session does not exist.
            SessionBusyError: another process is using the session.
        """
        return await self._work_on(_message(task), session or "", self._emit)

    async def resume(self, session: str) -> AgentResult:
        """Continue an interrupted session. If it is already complete, return its result."""
        return await self._work_on(None, session, self._emit)

    async def stream(self, task: Task | None, session: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        """Yield events as they happen. The last event contains the result. Without a task, resume the session.

        Closing the generator cancels the task.
        """
        events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()

        def emit(event: AgentEvent) -> None:
            self._emit(event)
            events.put_nowait(event)

        message = None if task is None else _message(task)
        working = asyncio.ensure_future(self._work_on(message, session or "", emit))
        working.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        working.result()

    async def undo(self, session: str, *, dry_run: bool = False) -> UndoResult:
        """Restore the files that the file tools changed in a session. Files that others changed since are refused.

        Raises:
            NoSessionError: the session does not exist.
            SessionBusyError: the session is in use.
        """
        if not session:
            raise UsageError("cannot undo without a session", hint="pass the session id")
        journal = await (await self._sessions()).journal(session)
        try:
            return await undo_changes(journal, dry_run=dry_run)
        finally:
            await journal.close()

    def cancel(self) -> None:
        """Cancel all running tasks. Can be called from any thread. The session keeps all finished steps."""
        for work in tuple(self._active):
            work.cancel()

    async def close(self) -> None:
        """Cancel running tasks, and close the client and the store if the agent created them."""
        self.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                for finished in tuple(self._finished_events):
                    await finished.wait()
        if self._own_client:
            await self._client.close()
        if self._close_store is not None:
            await asyncio.to_thread(self._close_store)
            self._close_store = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ---- one task

    def _emit(self, event: AgentEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)

    async def _work_on(self, message: Message | None, session: str, emit: EmitEvent) -> AgentResult:
        if message is None and not session:
            raise UsageError("cannot resume without a session", hint="pass the session id")
        journal = await (await self._sessions()).journal(session)
        finished = asyncio.Event()
        self._finished_events.add(finished)
        try:
            result = await self._answer(journal, message, emit)
        finally:
            await journal.close()
            self._finished_events.discard(finished)
            finished.set()
        emit(WorkFinished(result))
        return result

    async def _answer(self, journal: SessionJournal, message: Message | None, emit: EmitEvent) -> AgentResult:
        entries = await journal.entries()
        if message is None:
            if _is_over(entries):
                return _result(entries[-1], journal.session)
            message = _continuation(entries)
        if message is not None:
            await journal.say(message)
            entries = (*entries, message)
        toolbox = self._toolboxes.of(journal.session, results_of(entries))
        work = TaskRun(self._client, toolbox, journal, self._options, emit)
        self._active.add(work)
        try:
            return _result(await work.carry_out(entries), journal.session)
        finally:
            self._active.discard(work)

    async def _sessions(self) -> SessionStore:
        async with self._opening:
            if isinstance(self._store, str):
                from ..store import open_store

                store = await asyncio.to_thread(open_store, self._store)
                self._store, self._close_store = store, store.close
            return self._store


def _request_defaults(client: AsyncClient) -> dict[str, JSONValue]:
    """Return the settings of an agent's requests. A long task outgrows the context window unless it is compacted."""
    return _REQUEST_DEFAULTS if client.settings.compact else {**_REQUEST_DEFAULTS, "compact": "summary"}


def _positive(value: float | None, name: str) -> Any:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"`{name}` must be greater than 0, not {value!r}")
    return value


def _whole_number(value: int | None, name: str) -> Any:
    if isinstance(value, float):
        raise UsageError(f"`{name}` must be a whole number, not {value!r}")
    return _positive(value, name)


def _check_store(store: object) -> None:
    if store is not None and not isinstance(store, str) and not callable(getattr(store, "journal", None)):
        kind = type(store).__name__
        raise UsageError(f"`store` must be a URL or a store, not a `{kind}`", hint='for example "sqlite:///work.db"')


def _message(task: Task) -> Message:
    if isinstance(task, Message):
        return task
    if not isinstance(task, str) or not task.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError("the task must be a non-empty string", hint='describe the task: agent.run("...")')
    return Message("user", (TextPart(task),))


def _is_over(entries: tuple[Entry, ...]) -> bool:
    if not entries:
        raise UsageError("cannot resume an empty session", hint="pass a task")
    last = entries[-1]
    return isinstance(last, Answer) and last.status == "complete"


def _continuation(entries: tuple[Entry, ...]) -> Message | None:
    """Return the prompt that resumes an interrupted answer; None if the session ends with tool results or a task."""
    last = entries[-1]
    return Message("user", (TextPart(_CONTINUE),)) if isinstance(last, Answer) and last.content else None


def _result(answer: Entry, session: str) -> AgentResult:
    assert isinstance(answer, Answer)
    return AgentResult(
        answer.content, answer.rounds, answer.status, answer.usage, answer.notes, session, answer.requests
    )


async def _next(events: AsyncIterator[AgentEvent]) -> AgentEvent | None:
    return await anext(events, None)


class Agent:
    """An agent with a synchronous interface. Takes the arguments of `AsyncAgent`, with a `Client` as the client."""

    def __init__(self, client: Client | Model, tools: Tools = (), **arguments: Any) -> None:
        if isinstance(client, AsyncClient):
            raise UsageError("an `Agent` needs a `Client`", hint="use `AsyncAgent`, or create a `Client`")
        # The reference keeps the client open, because the agent runs on the client's event loop.
        self._owner = client if isinstance(client, Client) else None
        inner, self._bridge = client.inside if isinstance(client, Client) else (client, SyncBridge())
        self._agent = AsyncAgent(inner, tools, **arguments)
        if self._owner is None:
            self._bridge.close_with(self, self._agent.close)

    def run(self, task: Task, session: str | None = None) -> AgentResult:
        """Work on a task until it ends. With a session, continue its conversation. Ctrl-C cancels the task."""
        return self._bridge.run(self._agent.run(task, session))

    def resume(self, session: str) -> AgentResult:
        """Continue an interrupted session. If it is already complete, return its result."""
        return self._bridge.run(self._agent.resume(session))

    def stream(self, task: Task | None, session: str | None = None) -> Iterator[AgentEvent]:
        """Yield events as they happen. The last event contains the result. Without a task, resume the session."""
        events = self._agent.stream(task, session)
        try:
            while (event := self._bridge.run(_next(events))) is not None:
                yield event
        finally:
            if not self._bridge.closed:
                self._bridge.run(events.aclose())

    def undo(self, session: str, *, dry_run: bool = False) -> UndoResult:
        """Restore the files that the file tools changed in a session. Files that others changed since are refused."""
        return self._bridge.run(self._agent.undo(session, dry_run=dry_run))

    def cancel(self) -> None:
        """Cancel all running tasks. Can be called from any thread. The session keeps all finished steps."""
        self._agent.cancel()

    def close(self) -> None:
        """Cancel running tasks, and close the client and the store if the agent created them."""
        if self._owner is None:
            self._bridge.close(self._agent.close)
        elif not self._bridge.closed:
            self._bridge.run(self._agent.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
