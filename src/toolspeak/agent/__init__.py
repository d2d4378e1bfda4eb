"""`Agent` and `AsyncAgent`: give a model a task and tools, and let it work.

    agent = Agent("openai:my-model", [read_page], store="sqlite:///work.db")
    result = agent.run("What does the page say about prices?")
    result.text, result.rounds, result.status

Each task gets its own session in the store. Pass the session id to continue or resume it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial, wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeAlias, Unpack

import msgspec

from ..client import AsyncClient, Client
from ..config.values import ApprovalMode
from ..core.types import JSONValue, Message, TextPart
from ..engine.rounds.call_checks import is_read_only
from ..engine.rounds.loop import MAX_ROUNDS, RoundLimits
from ..engine.rounds.transcript import Answer, Entry, results_of
from ..errors import UsageError
from ..runtime.model_resolution import Model
from ..runtime.options import AgentTurnOptions, list_options
from ..runtime.sync_bridge import SyncBridge
from ..store.session_interface import MemorySessions, SessionJournal, SessionStore
from ..tools.approval import Approval, Ask
from ..tools.base import Executable
from ..tools.file_changes import UndoResult, undo_changes
from ..tools.threads import in_thread
from ..tools.wrappers import MAX_OUTPUT_CHARS
from .arguments import check_approval, check_limits, check_options, check_types
from .calls import Toolbox, Toolboxes, approval_of
from .events import AgentEvent, AgentResult, WorkFinished
from .inputs import Task, task_messages
from .output_types import OutputType, ParsedOutput
from .run import AgentOptions, EmitEvent, TaskRun

if TYPE_CHECKING:
    from .mcp_tools import McpSource, McpTools

__all__ = ["Agent", "AsyncAgent"]

#: A call runs only after validation. With tool results in the conversation, one with side effects needs consent unless
#: it carries the nonce, which no document can know.
_REQUEST_DEFAULTS: dict[str, JSONValue] = {"stream_calls": "checked", "marks": "confirm"}
#: Default timeout per call in seconds: long enough for a build, short enough to stop a tool that hangs.
TOOL_SECONDS = 600.0
_CLOSE_TIMEOUT = 30.0  # seconds for which `close` waits for cancelled tasks
_CONTINUE = "Your last answer was interrupted. Go on with the task where it stopped."

Tools: TypeAlias = Iterable[Executable | Callable[..., Any]]
P = ParamSpec("P")


class AsyncAgent:
    """An agent with an asyncio interface.

    Args:
        client: an `AsyncClient`, or the model to create one for: `provider:model`, a function or an upstream.
        tools: Python functions, or tools from `toolspeak.tools`.
        instructions: system instructions.
        output_type: the type of the final answer: a dataclass, a `TypedDict`, a msgspec struct, a pydantic model, an
            annotation such as `list[int]`, or a JSON schema. `result.output` is then a value of this type.
        approve: decides whether a call with side effects may run. Either a function that takes a `Question` and returns
            a boolean, or an `Approval` with rules. If omitted, all calls may run, except those that may already have
            run before an interruption.
        approval: `ask` requires `approve`; `auto` is the same as no `approve`; `read-only` offers the model only tools
            without side effects.
        mcp: MCP servers whose tools the model may use: a file such as `mcp.json`, its content as a dict, or `McpServer`
            objects. They are started by the first task, and stopped by `close`.
        store: the session store: a URL such as `sqlite:///work.db`, a store object, or None to use memory.
        max_rounds: maximum number of rounds. The model is then asked for a summary, which becomes the answer.
        max_tokens: maximum number of tokens for all requests, with the same effect.
        max_seconds: maximum duration of a task, with the same effect.
        parallel: whether to run the read-only calls of one round in parallel. All other calls run one after the other,
            in the model's order. The default is the client's setting, which is True unless configured otherwise.
        context: an object for the tools, which they receive as `CallContext.deps`. `run` can pass another one.
        on_event: called with each event.
        tool_timeout: timeout per call in seconds.
        max_output: maximum number of characters of a result that the model sees. Longer results are truncated in the
            middle, and the `read_more` tool returns the rest. None means no limit.
        options: settings and request fields, such as `mode` or `temperature`.
    """

    @list_options(AgentTurnOptions)
    def __init__(
        self,
        client: AsyncClient | Model,
        tools: Tools = (),
        *,
        instructions: str = "",
        output_type: Any = None,
        approve: Ask | Approval | None = None,
        approval: ApprovalMode | None = None,
        mcp: McpSource | None = None,
        store: str | SessionStore | None = None,
        max_rounds: int = MAX_ROUNDS,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        parallel: bool | None = None,
        context: Any = None,
        on_event: EmitEvent | None = None,
        tool_timeout: float | None = TOOL_SECONDS,
        max_output: int | None = MAX_OUTPUT_CHARS,
        **options: Unpack[AgentTurnOptions],
    ) -> None:
        if isinstance(client, Client):
            raise UsageError("an `AsyncAgent` needs an `AsyncClient`", hint="use `Agent`, or create an `AsyncClient`")
        check_limits(max_rounds, max_tokens, max_output, max_seconds, tool_timeout)
        check_types(instructions, parallel, on_event, store)
        check_approval(approval, approve)
        check_options(options, KEYWORDS, typed=output_type is not None)
        self._read_only, self._max_output = approval == "read-only", max_output
        self._tools = self._offered(tools)
        self._toolboxes = Toolboxes(self._tools, max_output)
        self._mcp = None if mcp is None else _mcp_tools(mcp)
        self._own_client = not isinstance(client, AsyncClient)
        self._client = client if isinstance(client, AsyncClient) else AsyncClient(client)
        limits = RoundLimits(max_rounds or MAX_ROUNDS, max_tokens, max_seconds)
        consent = (approval_of(approve), approval == "auto")
        # A long task outgrows the context window unless it is compacted.
        compaction = {} if self._client.settings.compact else {"compact": "summary"}
        fields = {**_REQUEST_DEFAULTS, **compaction, **options}
        output = None if output_type is None else OutputType(output_type)
        self._options = AgentOptions(instructions, limits, parallel, *consent, tool_timeout, fields, output, context)
        self._on_event, self._opening = on_event, asyncio.Lock()
        self._store = MemorySessions() if store is None else store
        self._close_store: Callable[[], None] | None = None
        self._active: set[TaskRun] = set()
        self._finished_events: set[asyncio.Event] = set()  # one per task, set when the task ends
        self._cancellations = 0  # how often `cancel` was called, for tasks that are still starting

    async def run(self, task: Task, session: str | None = None, *, context: Any = None) -> AgentResult:
        """Work on a task until it ends. With a session, continue its conversation.

        A cancelled or failed task also returns a result; check its `status`.

        Raises UsageError if the task is empty or has the wrong type, NoSessionError if the session does not exist,
        SessionBusyError if another process is using it, and ToolError if an MCP server cannot be started.
        """
        return await self._work_on(await _messages(task), session or "", self._emit, context)

    async def resume(self, session: str, *, context: Any = None) -> AgentResult:
        """Continue an interrupted session. If it is already complete, return its result."""
        return await self._work_on((), session, self._emit, context)

    async def stream(
        self, task: Task | None, session: str | None = None, *, context: Any = None
    ) -> AsyncGenerator[AgentEvent, None]:
        """Yield events as they happen. The last event contains the result. Without a task, resume the session.

        Closing the generator cancels the task.
        """
        events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()

        def emit(event: AgentEvent) -> None:
            self._emit(event)
            events.put_nowait(event)

        messages = () if task is None else await _messages(task)
        working = asyncio.ensure_future(self._work_on(messages, session or "", emit, context))
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

        Raises NoSessionError if the session does not exist, and SessionBusyError if the session is in use.
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
        self._cancellations += 1
        for work in tuple(self._active):
            work.cancel()

    async def close(self) -> None:
        """Cancel running tasks, stop MCP servers, and close the client and the store if the agent created them."""
        self.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                for finished in tuple(self._finished_events):
                    await finished.wait()
        if self._mcp is not None:
            await self._mcp.close()
        if self._own_client:
            await self._client.close()
        if self._close_store is not None:
            await in_thread(self._close_store)
            self._close_store = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _emit(self, event: AgentEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)

    async def _work_on(self, messages: tuple[Message, ...], session: str, emit: EmitEvent, context: Any) -> AgentResult:
        if not messages and not session:
            raise UsageError("cannot resume without a session", hint="pass the session id")
        cancellations, finished = self._cancellations, asyncio.Event()
        self._finished_events.add(finished)
        try:
            async with self._opening:
                if self._mcp is not None and not self._mcp.started:
                    tools = self._offered(await self._mcp.start())
                    self._toolboxes = Toolboxes([*self._tools, *tools], self._max_output)
            journal = await (await self._sessions()).journal(session)
            try:
                result = await self._answer(journal, messages, emit, context, cancellations)
            finally:
                await journal.close()
        finally:
            self._finished_events.discard(finished)
            finished.set()
        emit(WorkFinished(result))
        return result

    async def _answer(
        self, journal: SessionJournal, messages: tuple[Message, ...], emit: EmitEvent, context: Any, cancellations: int
    ) -> AgentResult:
        entries = await journal.entries()
        if not messages:
            if _is_over(entries):
                return await self._stored_result(entries, journal.session)
            last = entries[-1]  # a session that ends with tool results or a task needs no prompt to go on
            if isinstance(last, Answer) and last.content:
                messages = (Message("user", (TextPart(_CONTINUE),)),)
        if messages:
            await journal.say(*messages)
            entries = (*entries, *messages)
        options = self._options if context is None else msgspec.structs.replace(self._options, deps=context)
        work = TaskRun(self._client, self._toolboxes.of(journal.session, results_of(entries)), journal, options, emit)
        self._active.add(work)
        if self._cancellations != cancellations:
            work.cancel()
        try:
            answer = await work.carry_out(entries)
        finally:
            self._active.discard(work)
        return self._result(answer, journal.session, _last_messages(entries), work.parsed)

    async def _stored_result(self, entries: tuple[Entry, ...], session: str) -> AgentResult:
        """Return the result of a session that ends with a complete answer."""
        answer, output = entries[-1], self._options.output
        assert isinstance(answer, Answer)
        parsed = ParsedOutput() if output is None else await in_thread(partial(output.parse, answer.content))
        return self._result(answer, session, _last_messages(entries[:-1]), parsed)

    def _result(self, answer: Answer, session: str, task: tuple[Message, ...], parsed: ParsedOutput) -> AgentResult:
        notes = (*answer.notes, *parsed.notes, *(() if self._mcp is None else self._mcp.notes))
        work = (answer.content, answer.rounds, answer.status, answer.usage, notes)
        return AgentResult(*work, session, answer.requests, parsed.value, task, answer.reasoning, answer.said)

    def _offered(self, tools: Tools) -> list[Executable]:
        box = Toolbox(tools)
        return [box[tool.name] for tool in box.tools if not self._read_only or is_read_only(tool)]

    async def _sessions(self) -> SessionStore:
        async with self._opening:
            if isinstance(self._store, str):
                from ..store import open_store

                store = await in_thread(partial(open_store, self._store))
                self._store, self._close_store = store, store.close
            return self._store


#: Names of the keyword arguments of an agent, for the search for misspelt ones.
KEYWORDS = tuple(
    name
    for name, parameter in signature(AsyncAgent.__init__).parameters.items()
    if parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY) and name != "self"
)


def _mcp_tools(source: McpSource) -> McpTools:
    from .mcp_tools import McpTools  # imported only if needed, because it is slow

    return McpTools(source)


async def _messages(task: Task) -> tuple[Message, ...]:
    """Convert a task to messages, in a thread if files may have to be read."""
    return task_messages(task) if isinstance(task, str | Message) else await in_thread(partial(task_messages, task))


def _last_messages(entries: tuple[Entry, ...]) -> tuple[Message, ...]:
    """Return the messages after the last answer."""
    start = max((at + 1 for at, entry in enumerate(entries) if isinstance(entry, Answer)), default=0)
    return tuple(entry for entry in entries[start:] if isinstance(entry, Message))


def _is_over(entries: tuple[Entry, ...]) -> bool:
    if not entries:
        raise UsageError("cannot resume an empty session", hint="pass a task")
    last = entries[-1]
    return isinstance(last, Answer) and last.status == "complete"


async def _next(events: AsyncIterator[AgentEvent]) -> AgentEvent | None:
    return await anext(events, None)


def _with_arguments_of(
    constructor: Callable[Concatenate[AsyncAgent, AsyncClient | Model, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, Client | Model, P], None]]:
    """Give a constructor the arguments of another one, for type checkers and `inspect`. Only the client differs."""
    return wraps(constructor, assigned=())


class Agent:
    """An agent with a synchronous interface. Takes the arguments of `AsyncAgent`, with a `Client` as the client."""

    @_with_arguments_of(AsyncAgent.__init__)
    def __init__(self, client: Client | Model, *tools: Tools, **options: Any) -> None:
        if isinstance(client, AsyncClient):
            raise UsageError("an `Agent` needs a `Client`", hint="use `AsyncAgent`, or create a `Client`")
        # The reference keeps the client open, because the agent runs on the client's event loop.
        self._owner = client if isinstance(client, Client) else None
        inner, self._bridge = client.inside if isinstance(client, Client) else (client, SyncBridge())
        self._agent = AsyncAgent(inner, *tools, **options)
        if self._owner is None:
            self._bridge.close_with(self, self._agent.close)

    def run(self, task: Task, session: str | None = None, *, context: Any = None) -> AgentResult:
        """Work on a task until it ends. With a session, continue its conversation. Ctrl-C cancels the task."""
        return self._bridge.run(self._agent.run(task, session, context=context))

    def resume(self, session: str, *, context: Any = None) -> AgentResult:
        """Continue an interrupted session. If it is already complete, return its result."""
        return self._bridge.run(self._agent.resume(session, context=context))

    def stream(self, task: Task | None, session: str | None = None, *, context: Any = None) -> Iterator[AgentEvent]:
        """Yield events as they happen. The last event contains the result. Without a task, resume the session."""
        events = self._agent.stream(task, session, context=context)
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
        """Cancel running tasks, stop MCP servers, and close the client and the store if the agent created them."""
        if self._owner is None:
            self._bridge.close(self._agent.close)
        elif not self._bridge.closed:
            self._bridge.run(self._agent.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
