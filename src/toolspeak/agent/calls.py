"""The tools of an agent, and how one call of them is carried out: with consent, within a time, whatever it raises."""

from __future__ import annotations

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias, TypeVar, cast

from ..core.types import JSONObject, Media, Opaque, Tool
from ..engine.rounds.loop import Planned
from ..errors import ToolDenied, ToolspeakError, ToolTimeout, UsageError
from ..tools.approval import Answer as Consent
from ..tools.approval import Approval, Question
from ..tools.base import CallContext, Executable, ToolOutput
from ..tools.threads import in_thread
from ..tools.wrappers import MOST_OUTPUT, ReadMore, Truncated, cut_short, is_sandboxed, is_untrusted

T = TypeVar("T")

#: How long a tool that is cancelled may take to end; one that does not is left behind.
_GRACE = 5.0
#: How much of what an exception says the model is told.
_MOST_SAID = 500
#: Seconds for a call that begins when the time is over: it is told that it was stopped.
_NO_TIME = 0.001
#: Calls of one round that run at the same time; others wait for their turn. A model may make two thousand, and each may
#: be a thread and a sandbox.
MOST_AT_ONCE = 32
#: Sessions of one agent whose long results are kept.
_MOST_SESSIONS = 16
#: Tools that were left behind: somebody has to hold them until they end.
_LEFT_BEHIND: set[asyncio.Task[Any]] = set()


#: Says whether a call may run: yes or no, or an answer that also counts for later calls. A function that is not a
#: coroutine runs in a thread, so it may ask a person.
Approve: TypeAlias = Callable[[Question], Consent | bool | Awaitable[Consent | bool]]


class Toolbox:
    """What an agent can run, by name."""

    def __init__(self, tools: Iterable[Executable | Callable[..., Any]]) -> None:
        if isinstance(tools, str) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError("`tools` must be a list of tools", hint="wrap a single tool in a list")
        self._by_name: dict[str, Executable] = {}
        for each in tools:
            made = _executable(each)
            if made.tool.name in self._by_name:
                raise UsageError(f"two tools are called `{made.tool.name}`", hint="give one of them another name")
            self._by_name[made.tool.name] = made

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the model is told."""
        return tuple(each.tool for each in self._by_name.values())

    @property
    def untrusted(self) -> bool:
        """Whether some tool is described by somebody whom nobody vouches for, such as an MCP server."""
        return any(map(is_untrusted, self._by_name.values()))

    def __getitem__(self, name: str) -> Executable:
        return self._by_name[name]


class Toolboxes:
    """The tools of an agent, for each of its sessions: what was left out of a result can be read in that one only.

    `limit`: characters of a result that reach the model at once; None: all.
    """

    def __init__(self, tools: Iterable[Executable | Callable[..., Any]], limit: int | None) -> None:
        self._all = Toolbox(tools)
        self._limit = limit
        self._by_session: OrderedDict[str, Toolbox] = OrderedDict()

    def of(self, session: str) -> Toolbox:
        """The tools of a session."""
        if self._limit is None:
            return self._all
        box = self._by_session.pop(session, None) or _cut_short(self._all, self._limit)
        self._by_session[session] = box
        if len(self._by_session) > _MOST_SESSIONS:
            self._by_session.popitem(last=False)
        return box


def _cut_short(box: Toolbox, limit: int) -> Toolbox:
    """Tools whose results fit, and one that shows the rest. Whoever did this himself is left alone."""
    given = [box[tool.name] for tool in box.tools]
    cut = all(isinstance(each, Truncated | ReadMore) for each in given)
    return box if cut else Toolbox(cut_short(given, limit))


def _executable(given: Executable | Callable[..., Any]) -> Executable:
    if isinstance(getattr(given, "tool", None), Tool) and callable(getattr(given, "run", None)):
        return cast("Executable", given)
    if inspect.isroutine(given):
        from ..tools.functions import tool

        return cast("Executable", tool(given))
    raise UsageError(
        f"a tool of an agent must be able to run, and a `{type(given).__name__}` is not",
        hint="pass a Python function, or something made by `toolspeak.tools`",
    )


# ---- consent


def approval_of(approve: Approve | Approval | None) -> Approval | None:
    """What decides about calls."""
    if approve is None or isinstance(approve, Approval):
        return approve
    if not callable(approve):
        raise UsageError("`approve` must be a function that takes a question", hint="or an `Approval`")

    async def ask(question: Question) -> Consent:
        answer = approve(question) if _is_async(approve) else await in_thread(lambda: approve(question))
        said = await answer if inspect.isawaitable(answer) else answer
        if isinstance(said, bool):
            return "once" if said else "deny"
        return cast("Consent", said)

    return Approval(ask)


async def consented(
    approval: Approval | None,
    executable: Executable,
    arguments: JSONObject,
    context: CallContext,
    why: str,
    yes_counts: bool = False,
) -> None:
    """Have a call allowed. `why`: the reason why somebody has to be asked, whatever was allowed before.

    With `yes_counts`, a yes that was said beforehand to all in the sandbox is consent all the same.

    Raises:
        ToolDenied: nobody consents.
    """
    if approval is None:
        raise ToolDenied(f"the call was not run: {why}, and nobody can be asked")
    sandboxed = is_sandboxed(executable)
    decision = await approval.decide(
        executable.tool, arguments, context, sandboxed=sandboxed, why=why, yes_counts=yes_counts
    )
    if not decision.allowed:
        raise ToolDenied(f"the call was not allowed: {decision.reason}")


def _is_async(function: Approve) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


# ---- running


async def carried_out(
    executable: Executable, arguments: JSONObject, context: CallContext, seconds: float | None
) -> ToolOutput:
    """What a tool gives, or an error result that says why it gives nothing."""
    try:
        output: Any = await _within(lambda: executable.run(arguments, context), seconds)
    except _Escaped as escaped:
        return ToolOutput(_told(escaped.error), error=True)
    except Exception as error:
        return ToolOutput(_told(error), error=True)
    wrong = _wrong(output)
    return ToolOutput(f"the tool gave a `{type(wrong[0]).__name__}` {wrong[1]}", error=True) if wrong else output


def _wrong(output: Any) -> tuple[Any, str] | None:
    """What nobody could pass on, and where it stands: somebody else has written the tool."""
    if not isinstance(output, ToolOutput):
        return output, "instead of its output"
    content, parts = cast("Any", output.content), cast("Any", output.parts)
    if not isinstance(content, str):
        return content, "instead of a text"
    if not isinstance(parts, tuple):
        return parts, "instead of a tuple of parts"
    odd = [part for part in cast("tuple[Any, ...]", parts) if not isinstance(part, Media | Opaque)]
    return (odd[0], "as a part of its output") if odd else None


def seconds_for(most: float | None, deadline: float | None, now: float) -> float | None:
    """How long a call that begins now may take: `most` by itself, and no longer than to the deadline of the whole."""
    limits = [most, None if deadline is None else max(deadline - now, _NO_TIME)]
    return min((limit for limit in limits if limit is not None), default=None)


def barriers(calls: Iterable[Planned]) -> Iterator[list[Planned]]:
    """Split the calls of a round into batches, in order: each call with side effects alone, the calls between together.

    A call may depend on what one before it changes, and the model cannot see results within a round: so it relies on
    the order in which it wrote the calls.
    """
    for side_effects, neighbours in groupby(calls, key=lambda planned: planned.side_effects):
        if side_effects:
            yield from ([planned] for planned in neighbours)
        else:
            yield list(neighbours)


async def in_order(calls: Iterable[Planned], work: Callable[[Planned], Coroutine[Any, Any, T]]) -> list[T]:
    """Run the calls of a round and return their results in order.

    A call with side effects starts when all calls before it have ended, and no later call starts before it has ended.
    Other calls run in parallel.
    """
    results: list[T] = []
    for batch in barriers(calls):
        results += await together([partial(work, planned) for planned in batch])
    return results


async def together(works: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """What all of them give, in order: carried out at the same time, as far as that does no harm.

    Where one breaks, and tools do not break, the others are ended.
    """
    turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def in_turn(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with turns:
            return await work()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(in_turn(work)) for work in works]
    except BaseExceptionGroup as broken:
        raise broken.exceptions[0] from None
    return [task.result() for task in tasks]


def _told(error: BaseException) -> str:
    """What went wrong, for the model. An exception may be so broken that it cannot even say what it is."""
    try:
        said = str(error)
    except Exception:
        said = ""
    if said and isinstance(error, ToolspeakError):
        return said[:MOST_OUTPUT]
    said = " ".join(said.split())[:_MOST_SAID]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


class _Escaped(Exception):
    """A tool raised what is meant to end the program, such as the `SystemExit` of a command line parser."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


async def _contained(work: Callable[[], Awaitable[T]]) -> T:
    """These two must not leave a task: they would end the event loop, and whoever waits would wait for ever."""
    try:
        return await work()
    except (SystemExit, KeyboardInterrupt) as error:
        raise _Escaped(error) from None


async def _within(work: Callable[[], Awaitable[T]], seconds: float | None) -> T:
    task = asyncio.ensure_future(_contained(work))
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await ended(task)
        raise
    if not task.done():
        await ended(task)
        raise ToolTimeout(f"it took longer than {seconds:g} seconds and was stopped")
    if task.cancelled():  # by itself: nobody here wants it to end
        raise ToolTimeout("it was cancelled from inside")
    error = task.exception()
    if error is not None and not isinstance(error, Exception):  # `GeneratorExit`, or one of the tool's own
        raise _Escaped(error)
    return task.result()


async def ended(task: asyncio.Task[Any], grace: float = _GRACE) -> None:
    """Cancel a task and wait for its end, but not for ever."""
    task.cancel()
    try:
        await asyncio.wait({task}, timeout=grace)
    finally:
        _LEFT_BEHIND.add(task)
        task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _LEFT_BEHIND.discard(task)
    if not task.cancelled():
        task.exception()  # seen, so that nobody complains about it


async def committed(coroutine: Coroutine[Any, Any, T]) -> T:
    """Carry something out to its end, also if whoever waits is cancelled meanwhile."""
    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise
