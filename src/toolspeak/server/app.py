"""The ASGI application: guard, routes, and what happens when the server starts and ends.

Plain ASGI on the hot path: a model request goes from here straight to its `Exchange`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, MutableMapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..config import Secret
from ..core.types import JSONObject, JSONValue
from ..errors import ToolspeakError, UsageError
from .access.auth import Caller
from .access.limits import Limits
from .access.origin_guard import Guard
from .asgi import Headers, Receive, Scope, Send, error_headers, header, respond
from .observe.request_context import CURRENT, GONE, Trip
from .process.lifecycle import PAGES, Ending, Operation
from .process.worker_rpc import Neighbours
from .proxy.client_protocols import face
from .proxy.exchange import KEEP_ALIVE_SECONDS, Exchange
from .proxy.idempotency import Repeats
from .proxy.upstream_router import Gateway
from .recording.entries import entry_of
from .recording.minute_series import Series
from .recording.recorder import Recorder
from .routes import Route, find

if TYPE_CHECKING:
    from .web.api import PageApi
    from .web.pages import Pages

#: The shape of an error on a path that belongs to no protocol.
_NO_FACE = "openai_chat"
#: Who is told to speak another protocol is told which.
_UPGRADES: dict[int, Headers] = {426: [(b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade")]}


#: Whoever counts sees the names of all models.
_EVERYBODY = Caller(admin=True)


class NoWebSocket(UsageError):
    """A model request that wants to be a WebSocket: clients that hear this use HTTP."""

    status = 426


class App:
    """The proxy as an ASGI application.

    Args:
        keep_alive: seconds after which a silent stream says something.
        operation: what counts the requests and decides when they must end.
        recorder: what keeps the last requests; None: nothing does.
        secrets: what must not be shown with them.
        store: where the sessions are that the page lists.
    """

    def __init__(
        self,
        gateway: Gateway,
        guard: Guard | None = None,
        limits: Limits | None = None,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        operation: Operation | None = None,
        recorder: Recorder | Literal["usual"] | None = "usual",
        secrets: Callable[[], Iterable[Secret]] = tuple,
        store: str = "",
    ) -> None:
        self._gateway = gateway
        self.operation = operation or Operation()
        self.operation.metrics.names = self._model_names
        self._keep_alive = keep_alive
        self._looking: asyncio.Future[None] | None = None
        self._guard = guard or Guard()
        self._limits = limits or Limits()
        self._repeats = Repeats()
        self._recorder = Recorder() if recorder == "usual" else recorder
        self._series = Series(lambda: self.operation.metrics.numbers)
        self._secrets = secrets
        self._store = store
        self._api: PageApi | None = None
        self._neighbours: Neighbours | None = None

    @cached_property
    def _pages(self) -> Pages:
        """What answers whatever is no model request. Imported here: many servers are never asked for it."""
        from .web.pages import Pages

        return Pages(lambda: self._gateway, self._page_api(), self._guard.access)

    def _page_api(self) -> PageApi:
        if self._api is None:
            from .web.api import PageApi
            from .web.requests import alone

            others = self._neighbours.ask if self._neighbours is not None else alone
            self._api = PageApi(lambda: self._gateway, self._recorder, self._series, self._secrets, self._store, others)
        return self._api

    async def meet(self, folder: Path, place: int) -> None:
        """Be one of several workers, which tell each other of requests and numbers when somebody looks."""

        async def answers(what: str, about: JSONObject) -> JSONValue:
            return await self._page_api().answers(what, about)

        self._neighbours = Neighbours(folder, place, answers)
        await self._neighbours.listen()

    async def replace(self, gateway: Gateway) -> None:
        """From now on, requests go through another gateway; those under way end where they began."""
        old, self._gateway = self._gateway, gateway
        self.operation.metrics.forget_names()
        await old.retire()

    def _look_up_names(self) -> None:
        """So that models have names the next time that somebody looks; who looks now does not wait for upstreams."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._gateway.refresh())

    def _model_names(self) -> frozenset[str]:
        return frozenset(self._gateway.models(_EVERYBODY))

    async def close(self) -> None:
        """Free what is held; for whoever runs it without a server that does."""
        if self._neighbours is not None:
            await self._neighbours.close()
        if self._api is not None:
            await self._api.close()
        await self._gateway.close()
        if self._recorder is not None:  # in a thread: it may wait for a database
            await asyncio.to_thread(self._recorder.close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        else:  # clients that try a WebSocket first fall back when it is refused
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        trip = Trip(scope, send)
        CURRENT.set(trip)
        route = find(scope["method"], scope["path"])
        try:
            await self._routed(route, trip, scope, receive)
        finally:
            self.operation.answered(trip, route)

    async def _routed(self, route: Route | None, trip: Trip, scope: Scope, receive: Receive) -> None:
        send: Send = trip.send
        spoken = route.shape if route is not None else _NO_FACE
        if scope["method"] == "HEAD":
            send = _without_body(send)
        try:
            caller = self._guard.check(scope, route)
            if route is None:
                _refuse_websocket(scope)
                await self._pages.missing(scope, send)
            elif route.face:
                await self._answer(route, caller, trip, receive, send)
            elif route.page in PAGES:
                await self.operation.show(route.page, send)
                self._look_up_names()
            else:
                await self._pages.show(route, caller, scope, receive, send)
        except ToolspeakError as error:
            status, body = face(spoken).error(error)
            await respond(send, status, body, headers=[*error_headers(error), *_UPGRADES.get(status, ())])

    async def _answer(self, route: Route, caller: Caller, trip: Trip, receive: Receive, send: Send) -> None:
        gateway, scope, began = self._gateway, trip.scope, time.time()
        self._series.tick(began)
        spoken = face(route.face, scope["query_string"])
        exchange = Exchange(gateway, spoken, scope, receive, send, self._repeats, self._keep_alive)
        trip.named(exchange.id)
        if self._recorder is not None:
            self._recorder.begin(exchange, began)
        try:
            with self._limits.counted(caller.key), gateway.lease(), self.operation.running():
                await exchange.answer(route.fields, caller)
        except asyncio.CancelledError:
            if not self.operation.breaks_off():
                raise
            await exchange.end(Ending("the server ends", hint="ask again: another one may answer"))
        finally:
            if exchange.left:  # whatever was begun
                trip.status = GONE
            # Tools that ran here are no time of ours either.
            times = trip.times(exchange.waited + exchange.tooled)
            if self._recorder is not None:
                self._recorder.add(entry_of(exchange, trip, times, began, self._recorder.number()))
            if exchange.record is not None:
                self.operation.requested(trip, exchange.record, times, exchange.provider)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            try:
                message = await receive()
            except asyncio.CancelledError:  # the server ends at once and waits for nobody; that is no failure to log
                return
            if message["type"] == "lifespan.startup":
                self._gateway.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _refuse_websocket(scope: Scope) -> None:
    """Refuse to upgrade on a path where a model is asked."""
    route = find("POST", scope["path"]) if header(scope, b"upgrade").lower() == "websocket" else None
    if route is not None and route.face:
        raise NoWebSocket("this is not served over a WebSocket", hint="POST the request")


def _without_body(send: Send) -> Send:
    """Sends everything but the body."""

    async def bodiless(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return bodiless
