"""How a server is run: what it counts, whether it still takes requests, and how it ends those under way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from ...errors import ToolspeakError
from ..asgi import Send, respond
from ..observe.counters import Numbers, total
from ..observe.metrics import CONTENT_TYPE, Metrics, exposition, gauges_of_this_process
from ..observe.request_context import Times, Trip
from ..observe.worker_counters import Board
from ..proxy.exchange import Record
from ..routes import Route, shown

#: The pages that are answered here.
PAGES = frozenset({"metrics", "ready"})
_access = logging.getLogger("toolspeak.access")
#: Once the time for answers under way is over, they have this long to say so to their clients.
LAST_WORDS_SECONDS = 2.0


class Ending(ToolspeakError):
    """The server ends before an answer could."""

    status = 503
    retry_after = 1.0


class Tracer(Protocol):
    """Tells somebody else what happened."""

    def told(self, record: Record, trip: Trip, provider: str) -> None:
        """A model request has ended."""
        ...


def _alone() -> tuple[Numbers, ...]:
    return ()


class _Running:
    """Puts the current task among those that run, for a while."""

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


class Operation:
    """The running of one process.

    Args:
        others: the numbers of the workers beside this one.
        tracer: is told of every model request.
        access_log: whether every request has a line in the log.
    """

    def __init__(
        self,
        metrics: Metrics | None = None,
        others: Callable[[], tuple[Numbers, ...]] = _alone,
        tracer: Tracer | None = None,
        access_log: bool = False,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.draining = False
        self._others = others
        self._tracer = tracer
        self._access_log = access_log
        self._running: set[asyncio.Task[object]] = set()
        self._broken: set[asyncio.Task[object]] = set()

    def join(self, board: Board) -> None:
        """Be one of several workers: go on from the numbers of the one before, and tell those of all."""
        self.metrics.go_on_from(board.before())
        self._others = board.others

    # ---- requests

    def running(self) -> _Running:
        """While the current task answers a model request, inside `with`."""
        return _Running(self._running)

    def answered(self, trip: Trip, route: Route | None) -> None:
        """Something was answered."""
        name = (route.face or route.page) if route is not None else "none"
        self.metrics.responded(name, trip.status)
        if self._access_log and not trip.logged:  # a page, or a model request that was refused before it was one
            self._line(trip, {"route": name})

    def requested(self, trip: Trip, record: Record, times: Times, provider: str) -> None:
        """A model request was answered."""
        whole, first, added = times
        self.metrics.requested(record, trip.status, whole, first, added)
        if self._tracer is not None:
            self._tracer.told(record, trip, provider)
        if self._access_log:
            fields: dict[str, object] = {"route": record.face, "model": record.model, "plan": record.plan}
            fields |= {"requests": record.requests, "added_ms": round(added * 1000, 3), "record": record.id}
            if record.trace.why_no_call:
                fields["no_call"] = record.trace.why_no_call
            if record.error:
                fields["error"] = record.error
            self._line(trip, fields)

    def _line(self, trip: Trip, fields: dict[str, object]) -> None:
        """Without the query, which may hold a key."""
        trip.logged = True
        scope = trip.scope
        told = {"status": trip.status, "ms": round(trip.seconds() * 1000, 3), **fields}
        _access.info("%s %s", scope["method"], shown(scope["path"]), extra={"fields": told})

    # ---- pages

    async def show(self, page: str, send: Send) -> None:
        """A page about how it goes."""
        if page == "metrics":
            from ... import __version__

            await respond(send, 200, exposition(self.all_numbers(), __version__), CONTENT_TYPE)
            return
        status, word = (503, "draining") if self.draining else (200, "ready")
        await respond(send, status, msgspec.json.encode({"status": word}))

    def all_numbers(self) -> Numbers:
        """What all workers have counted."""
        return total((self.own_numbers(), *self._others()))

    def own_numbers(self, *, ended: bool = False) -> Numbers:
        """What this one has; once it has `ended`, nothing holds any more."""
        numbers = self.metrics.numbers
        numbers.gauges = (
            {}
            if ended
            else {
                "toolspeak_requests_in_flight": float(len(self._running)),
                "toolspeak_draining": float(self.draining),
                "toolspeak_workers": 1.0,
                **gauges_of_this_process(),
            }
        )
        return numbers

    # ---- the end

    def break_off(self) -> None:
        """End every answer under way, each with an error in the words of its protocol."""
        self._broken = set(self._running)
        for task in self._broken:
            task.cancel("the server ends")

    def breaks_off(self) -> bool:
        """Whether the current task was cancelled by `break_off`; if so, it goes on once, to say so."""
        task = asyncio.current_task()
        if task is None or task not in self._broken:
            return False
        self._broken.discard(task)
        task.uncancel()
        return True
