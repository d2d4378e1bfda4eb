"""An agent's tools: lookup, approval, and execution in order, with timeouts and error handling."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, TypeVar, cast

from ..core.types import JSONObject, Media, Opaque, Tool, ToolResult
from ..engine.context.shortening import READ_MORE
from ..engine.rounds.loop import PlannedCall
from ..errors import ToolDenied, ToolspeakError, ToolTimeout, UsageError
from ..tools.approval import Approval, Ask
from ..tools.base import CallContext, Executable, ToolOutput
from ..tools.other_forms import executable as executable_of
from ..tools.wrappers import MAX_OUTPUT_CHARS, ReadMore, Truncated, cut_short, is_sandboxed, is_untrusted

T = TypeVar("T")

_GRACE = 5.0
_MAX_ERROR_CHARS = 500
_MIN_SECONDS = 0.001  # timeout of a call that starts after the deadline, so it fails immediately
#: Maximum number of parallel calls. A model can make thousands of calls in one round, each with a thread and a sandbox.
MAX_PARALLEL_CALLS = 32
_MAX_SESSIONS = 16  # number of recent sessions per agent whose truncated results remain readable
#: References that keep abandoned tools from being garbage-collected while they run.
_ABANDONED: set[asyncio.Task[Any]] = set()


class Toolbox:
    def __init__(self, tools: Iterable[Executable | Callable[..., Any]]) -> None:
        if isinstance(tools, str) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError("`tools` must be a list of tools", hint="wrap a single tool in a list")
        self._by_name: dict[str, Executable] = {}
        for each in tools:
            executable = executable_of(each)
            if executable.tool.name in self._by_name:
                raise UsageError(f"duplicate tool name `{executable.tool.name}`", hint="rename one of the tools")
            self._by_name[executable.tool.name] = executable

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(each.tool for each in self._by_name.values())

    @property
    def untrusted(self) -> bool:
        return any(map(is_untrusted, self._by_name.values()))

    def __getitem__(self, name: str) -> Executable:
        return self._by_name[name]

    def get(self, name: str) -> Executable | None:
        return self._by_name.get(name)


class Toolboxes:
    """One toolbox per session, so a session can read only its own truncated results.

    `limit` is the maximum number of characters of a result that the model sees; None means no limit.
    """

    def __init__(self, tools: Iterable[Executable | Callable[..., Any]], limit: int | None) -> None:
        self._all = Toolbox(tools)
        self._limit = limit
        self._by_session: OrderedDict[str, Toolbox] = OrderedDict()

    def of(self, session: str, results: Iterable[ToolResult] = ()) -> Toolbox:
        """Return the toolbox of a session. `results`: its results so far, which `read_more` can return."""
        if self._limit is None:
            return self._all
        box = self._by_session.pop(session, None) or _with_truncation(self._all, self._limit)
        self._by_session[session] = box
        if len(self._by_session) > _MAX_SESSIONS:
            self._by_session.popitem(last=False)
        if isinstance(reader := box.get(READ_MORE), ReadMore):
            for result in results:
                reader.remainders.restore(result.id, result.content)
        return box


def _with_truncation(box: Toolbox, limit: int) -> Toolbox:
    """Truncate the results of all tools and add `read_more`, unless the caller has already done so."""
    executables = [box[tool.name] for tool in box.tools]
    cut = all(isinstance(each, Truncated | ReadMore) for each in executables)
    return box if cut else Toolbox(cut_short(executables, limit))


def approval_of(approve: Ask | Approval | None) -> Approval | None:
    if approve is None or isinstance(approve, Approval):
        return approve
    if not callable(approve):
        raise UsageError("`approve` must be a function that takes a `Question`, or an `Approval`")
    return Approval(approve)


async def require_approval(
    approval: Approval | None,
    executable: Executable,
    arguments: JSONObject,
    context: CallContext,
    why: str,
    yes_counts: bool = False,
) -> None:
    """Get approval for a call. `why` is a reason to ask even if such calls were approved before.

    With `yes_counts`, an earlier approval of all sandboxed calls is sufficient.
    Raises ToolDenied if the call is not approved.
    """
    if approval is None:
        raise ToolDenied(f"the call was not run: {why}, and no one can approve it")
    call = (executable.tool, arguments, context)
    decision = await approval.decide(*call, sandboxed=is_sandboxed(executable), why=why, yes_counts=yes_counts)
    if not decision.allowed:
        raise ToolDenied(f"the call was not allowed: {decision.reason}")


async def run_tool(
    executable: Executable, arguments: JSONObject, context: CallContext, seconds: float | None
) -> ToolOutput:
    """Run a tool and return its output. Any failure becomes an error result."""
    try:
        output: Any = await _within(lambda: executable.run(arguments, context), seconds)
    except _FatalToolError as escaped:
        return ToolOutput(_error_text(escaped.error), error=True)
    except Exception as error:
        return ToolOutput(_error_text(error), error=True)
    problem = _invalid_output(output)
    return ToolOutput(f"the tool gave a `{type(problem[0]).__name__}` {problem[1]}", error=True) if problem else output


def _invalid_output(output: Any) -> tuple[Any, str] | None:
    """Check the output of a tool. Returns the first invalid value and a description of its place, or None."""
    if not isinstance(output, ToolOutput):
        return output, "instead of its output"
    content, parts = cast("Any", output.content), cast("Any", output.parts)
    if not isinstance(content, str):
        return content, "instead of a text"
    if not isinstance(parts, tuple):
        return parts, "instead of a tuple of parts"
    odd = [part for part in cast("tuple[Any, ...]", parts) if not isinstance(part, Media | Opaque)]
    return (odd[0], "as a part of its output") if odd else None


def seconds_for(limit_seconds: float | None, deadline: float | None, now: float) -> float | None:
    """Return the timeout of a call: its own limit or the time until the deadline, whichever is shorter."""
    limits = [limit_seconds, None if deadline is None else max(deadline - now, _MIN_SECONDS)]
    return min((limit for limit in limits if limit is not None), default=None)


def barriers(calls: Iterable[PlannedCall]) -> Iterator[list[PlannedCall]]:
    """Split calls into batches: one for each run of read-only calls, and one for each other call.

    A call may depend on the side effects of an earlier one. The model sees no results within a round, so it relies on
    the order of the calls.
    """
    for read_only, neighbours in groupby(calls, key=lambda planned: planned.read_only):
        if read_only:
            yield list(neighbours)
        else:
            yield from ([planned] for planned in neighbours)


async def run_in_order(
    calls: Iterable[PlannedCall], work: Callable[[PlannedCall], Coroutine[Any, Any, T]], *, parallel: bool = True
) -> list[T]:
    """Run the calls of a round and return their results in order.

    Read-only calls run in parallel, unless `parallel` is False. Any other call waits for all earlier calls, and all
    later calls wait for it.
    """
    results: list[T] = []
    for batch in barriers(calls) if parallel else ([planned] for planned in calls):
        results += await run_in_parallel([partial(work, planned) for planned in batch])
    return results


async def run_in_parallel(works: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Run coroutines in parallel, at most `MAX_PARALLEL_CALLS` at a time, and return their results in order.

    If one raises an exception, the others are cancelled. A failing tool does not raise; it returns an error result.
    """
    turns = asyncio.Semaphore(MAX_PARALLEL_CALLS)

    async def in_turn(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with turns:
            return await work()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(in_turn(work)) for work in works]
    except BaseExceptionGroup as broken:
        raise broken.exceptions[0] from None
    return [task.result() for task in tasks]


def _error_text(error: BaseException) -> str:
    """Return an error text for the model. `str(error)` may raise, because tools define their own exceptions."""
    try:
        message = str(error)
    except Exception:
        message = ""
    if message and isinstance(error, ToolspeakError):
        return message[:MAX_OUTPUT_CHARS]
    message = " ".join(message.split())[:_MAX_ERROR_CHARS]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


class _FatalToolError(Exception):
    """A tool raised an exception that would end the program, such as the `SystemExit` of `argparse`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


async def _contain_fatal_errors(work: Callable[[], Awaitable[T]]) -> T:
    """Wrap exceptions that would stop the event loop if they escaped from a task."""
    try:
        return await work()
    except (SystemExit, KeyboardInterrupt) as error:
        raise _FatalToolError(error) from None


async def _within(work: Callable[[], Awaitable[T]], seconds: float | None) -> T:
    task = asyncio.ensure_future(_contain_fatal_errors(work))
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await cancel_and_wait(task)
        raise
    if not task.done():
        await cancel_and_wait(task)
        raise ToolTimeout(f"it took longer than {seconds:g} seconds and was stopped")
    if task.cancelled():  # by the tool itself
        raise ToolTimeout("it was cancelled from inside")
    error = task.exception()
    if error is not None and not isinstance(error, Exception):  # `GeneratorExit`, or a custom `BaseException`
        raise _FatalToolError(error)
    return task.result()


async def cancel_and_wait(task: asyncio.Task[Any], grace: float = _GRACE) -> None:
    task.cancel()
    try:
        await asyncio.wait({task}, timeout=grace)
    finally:
        _ABANDONED.add(task)
        task.add_done_callback(_on_abandoned_done)


def _on_abandoned_done(task: asyncio.Task[Any]) -> None:
    _ABANDONED.discard(task)
    if not task.cancelled():
        task.exception()  # retrieve it, so asyncio does not log it


async def run_to_completion(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to completion, even if the caller is cancelled in the meantime."""
    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise
