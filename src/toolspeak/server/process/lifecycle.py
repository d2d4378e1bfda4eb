"""Lifecycle of a server process: counting requests, readiness, draining and shutdown."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ...core.text import counted
from ...engine.turn.trace import count_retries, of_model
from ...errors import ToolspeakError
from ..asgi import Send, header, respond
from ..observe.counters import Counters, WorkerCounters, sum_counters
from ..observe.metrics import CONTENT_TYPE, Metrics, exposition, gauges_of_this_process
from ..observe.request_context import RequestContext, Times
from ..proxy.exchange import RequestRecord
from ..routes import Route, display_path

if TYPE_CHECKING:
    from ..observe.spans import Spans
    from ..proxy.fast_exchange import FastExchange

PAGES = frozenset({"health", "metrics", "ready"})
_access = logging.getLogger("toolspeak.access")
_MAX_CLIENT_CHARS = 30  # maximum length of a client's name in the access log
FINAL_RESPONSE_SECONDS = 2.0  # seconds for cancelled requests to send their error responses


class ServerShuttingDown(ToolspeakError):
    """The server shut down before the answer was complete."""

    status = 503
    retry_after = 1.0


def shutdown_error() -> ServerShuttingDown:
    return ServerShuttingDown("the server is shutting down", hint="retry: another server may respond")


class _Running:
    """Context manager that registers the current task as a running request."""

    __slots__ = ("_task", "_tasks")

    def __init__(self, tasks: set[asyncio.Task[object]]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._tasks = tasks

    def __enter__(self) -> None:
        self._tasks.add(self._task)

    def __exit__(self, *exc: object) -> None:
        self._tasks.discard(self._task)


class Lifecycle:
    def __init__(self, tracer: "Spans | None" = None, access_log: bool = False) -> None:
        self.metrics = Metrics()
        self.draining = False
        self._others: Callable[[], tuple[Counters, ...]] = tuple  # returns the counters of the other workers
        self._tracer = tracer
        self._access_log = access_log
        self._running: set[asyncio.Task[object]] = set()
        self._broken: set[asyncio.Task[object]] = set()
        self.exchanges: set[FastExchange] = set()  # the requests that are answered without a task

    def join(self, board: WorkerCounters) -> None:
        """Join the other workers: continue the counters of the previous worker and report the sum of all."""
        self.metrics.resume_from(board.load_previous())
        self._others = board.others

    def running(self) -> _Running:
        """Return a context manager for the task that handles a model request."""
        return _Running(self._running)

    def count_response(self, context: RequestContext, route: Route | None) -> None:
        name = (route.client_protocol or route.page) if route is not None else "none"
        self.metrics.count_response(name, context.status)
        if self._access_log and not context.logged:  # for pages, and model requests that were rejected early
            self._line(context, {"route": name})

    def count_request(self, context: RequestContext, record: RequestRecord, times: Times, provider: str) -> None:
        total, first, added = times
        self.metrics.count_request(record, context.status, total, first, added)
        if self._tracer is not None:
            self._tracer.trace_request(record, context, provider)
        if self._access_log:
            fields: dict[str, object] = {"route": record.client_protocol, "model": record.model, "plan": record.plan}
            fields |= {"requests": record.requests, "added_ms": round(added * 1000, 3), "record": record.id}
            retries = count_retries(record.trace.attempts)
            attempts = of_model(record.trace.attempts)
            answering = attempts[-1].request.model if attempts else record.model
            names = [each.name for attempt in attempts for each in attempt.candidates if each.verdict == "call"]
            more = {"answering_model": answering if answering != record.model else ""}
            more |= {"upstream": record.upstream_name, "no_call": record.trace.why_no_call, "error": record.error}
            more |= {"client": header(context.scope, b"user-agent").partition("/")[0][:_MAX_CLIENT_CHARS]}
            more |= {"calls": ", ".join(names), "retries": counted(retries, "retry", "retries") if retries else ""}
            self._line(context, fields | {name: text for name, text in more.items() if text})

    def _line(self, context: RequestContext, fields: dict[str, object]) -> None:
        """Write an access log line. It omits the query string, which may contain a key."""
        context.logged = True
        scope = context.scope
        values = {"status": context.status, "ms": round(context.seconds() * 1000, 3), **fields}
        _access.info("%s %s", scope["method"], display_path(scope["path"]), extra={"fields": values})

    async def show(self, page: str, send: Send) -> None:
        """Respond with the metrics, or with whether the server lives or is ready."""
        if page == "metrics":
            from ... import __version__

            await respond(send, 200, exposition(self.all_counters(), __version__), CONTENT_TYPE)
            return
        status, word = 200, "ok"
        if page == "ready":
            status, word = (503, "draining") if self.draining else (200, "ready")
        await respond(send, status, msgspec.json.encode({"status": word}))

    def all_counters(self) -> Counters:
        return sum_counters((self.own_counters(), *self._others()))

    def own_counters(self, *, ended: bool = False) -> Counters:
        """Return the counters of this worker, without gauges if it has `ended`."""
        numbers = self.metrics.counters
        numbers.gauges = {}
        if not ended:
            in_flight = float(len(self._running) + len(self.exchanges))
            numbers.gauges = {"toolspeak_requests_in_flight": in_flight, "toolspeak_draining": float(self.draining)}
            numbers.gauges |= {"toolspeak_workers": 1.0, **gauges_of_this_process()}
        return numbers

    def break_off(self) -> None:
        """End every running request with an error in the client's protocol."""
        for exchange in tuple(self.exchanges):
            exchange.break_off(shutdown_error())
        self._broken = set(self._running)
        for task in self._broken:
            task.cancel("the server ends")

    def was_broken_off(self) -> bool:
        """Whether `break_off` cancelled the current task. If so, undo the cancellation so it can send its error."""
        task = asyncio.current_task()
        if task is None or task not in self._broken:
            return False
        self._broken.discard(task)
        task.uncancel()
        return True
