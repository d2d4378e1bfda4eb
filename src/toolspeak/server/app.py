"""The ASGI application: access checks, routing, startup and shutdown.

It uses plain ASGI without a framework: a model request goes straight to its `Exchange`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..config import Secret
from ..errors import ToolspeakError, UsageError
from .access.auth import Caller
from .access.limits import KeyLimits
from .access.origin_guard import OriginGuard
from .asgi import Headers, Receive, Scope, Send, error_headers, header, respond
from .http.known_heads import KnownHeads
from .observe.counters import Statistics
from .observe.request_context import CLIENT_CLOSED, CURRENT, RequestContext, new_id
from .process.lifecycle import PAGES, Lifecycle, shutdown_error
from .process.worker_rpc import WorkerRpc
from .proxy.client_protocols import client_protocol
from .proxy.exchange import CHECKS_PER_PERIOD, KEEP_ALIVE_SECONDS, Exchange, ExchangeResult
from .proxy.fast_exchange import FastExchange
from .proxy.idempotency import IdempotencyKeys
from .proxy.request_settings import HEADER as SETTINGS_HEADER
from .proxy.upstream_router import Gateway
from .recording.entries import build_entry, request_row
from .recording.recorder import Recorder
from .routes import Route, find_route

if TYPE_CHECKING:
    from .http.http_request import HttpRequest
    from .web.api import PageApi
    from .web.pages import Pages

_DEFAULT_ERROR_PROTOCOL = "openai_chat"  # error format for paths that belong to no protocol
#: Extra headers by status: a 426 response must name the protocol to upgrade to.
_UPGRADES: dict[int, Headers] = {426: [(b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade")]}
#: Headers of requests that need a task: they may have to wait, or are rare.
_SPECIAL_HEADERS = frozenset({b"idempotency-key", SETTINGS_HEADER, b"transfer-encoding", b"expect", b"upgrade"})
#: Largest number of digits in the size of a body that is read before its request is handled: just below a megabyte.
_MAX_LENGTH_DIGITS = 6
_ADMIN = Caller(admin=True)  # caller for listing all model names, which the metrics need


class NoWebSocket(UsageError):
    """A model request came over WebSocket. This status makes clients fall back to HTTP."""

    status = 426


class App:
    """The proxy as an ASGI application.

    Args:
        keep_alive: seconds of silence after which a stream gets a keep-alive.
        lifecycle: counts requests and cancels them at shutdown.
        recorder: stores the latest requests; None turns recording off.
        secrets: returns the secrets to redact in recorded requests.
        store: URL of the store with the page's sessions.
    """

    def __init__(
        self,
        gateway: Gateway,
        guard: OriginGuard | None = None,
        limits: KeyLimits | None = None,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        lifecycle: Lifecycle | None = None,
        recorder: Recorder | Literal["usual"] | None = "usual",
        secrets: Callable[[], Iterable[Secret]] = tuple,
        store: str = "",
    ) -> None:
        self._gateway = gateway
        self.lifecycle = lifecycle or Lifecycle()
        self.lifecycle.metrics.names = lambda: self._gateway.models(_ADMIN)
        self._keep_alive = keep_alive
        self._refreshing: asyncio.Future[None] | None = None
        self._guard = guard or OriginGuard()
        self._limits = limits or KeyLimits()
        self._idempotency_keys = IdempotencyKeys()
        self._recorder = Recorder() if recorder == "usual" else recorder
        self.statistics = Statistics()
        self._secrets = secrets
        self._store = store
        #: Adds a secret to redact.
        self.keep_secret: Callable[[Secret], None] = lambda secret: None
        self._api: PageApi | None = None
        self._worker_rpc: WorkerRpc | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self.known_heads = KnownHeads()
        self._guard.forwards_keys = gateway.forwards_keys
        self.version = self._guard.version
        self.may_remember = self._guard.may_remember

    @cached_property
    def _pages(self) -> Pages:
        """The handler for all routes other than model requests. Imported on demand: many servers never need it."""
        from .web.pages import Pages

        return Pages(lambda: self._gateway, self._page_api(), self._guard.access)

    def _page_api(self) -> PageApi:
        if self._api is None:
            from .web.api import PageApi
            from .web.requests import no_other_workers

            others = self._worker_rpc.call_others if self._worker_rpc is not None else no_other_workers
            parts = (self._recorder, self.statistics, self._secrets, self._store, others, self.keep_secret)
            self._api = PageApi(lambda: self._gateway, *parts, self._guard.access.key_names)
        return self._api

    async def join_workers(self, folder: Path, place: int) -> None:
        """Join the other workers, which query each other for recorded requests and metrics."""
        self._worker_rpc = WorkerRpc(folder, place, lambda what, about: self._page_api().answer_worker(what, about))
        await self._worker_rpc.listen()

    async def replace(self, gateway: Gateway) -> None:
        """Route new requests through another gateway; running requests finish with the old one."""
        old, self._gateway = self._gateway, gateway
        gateway.adopt(old)
        self._guard.forwards_keys = gateway.forwards_keys
        self.lifecycle.metrics.forget_names()
        await old.retire()

    async def close(self) -> None:
        """Free all resources, for use without an ASGI server."""
        if self._worker_rpc is not None:
            await self._worker_rpc.close()
        if self._api is not None:
            await self._api.close()
        await self._gateway.close()
        await asyncio.to_thread(self.statistics.close)  # in a thread, because it may wait for a database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        else:  # a WebSocket: after the rejection, clients fall back to HTTP
            await send({"type": "websocket.close", "code": 1008})

    def wants(self, http: HttpRequest) -> bool:
        """Whether a request may be answered without a task, once its body has arrived."""
        scope = http.scope
        route = find_route(scope["method"], scope["path"])
        if route is None or not route.client_protocol or not _is_ordinary(scope["headers"]):
            return False
        try:
            http.admitted = (route, self._guard.check(scope, route))
        except ToolspeakError:
            return False  # the general path reports the error
        return True

    def take(self, http: HttpRequest) -> bool:
        """Answer a request without a task, or return False if that is impossible."""
        assert http.admitted is not None
        route, caller = http.admitted
        gateway, scope, began, body = self._gateway, http.scope, time.time(), http.take_whole_body()
        identifier = new_id()
        context = RequestContext(scope, http.send, identifier)
        protocol = client_protocol(route.client_protocol, scope["query_string"])
        keys, keep_alive = self._idempotency_keys, self._keep_alive
        exchange = FastExchange(identifier, gateway, protocol, scope, http.receive, context.send, keys, keep_alive)
        counted: AbstractContextManager[object] | None = None
        try:
            if exchange.plan_now(body, route.fields, caller):
                counted = self._limits.counted(caller.key)
                if exchange.start_now(http, context):
                    self._run_now(exchange, http, context, route, began, counted)
                    return True
        except Exception:  # the general path reports the error
            exchange.give_up()
        if counted is not None:
            self._limits.refund(caller.key)
        http.put_back(body)
        return False

    def _run_now(
        self,
        exchange: FastExchange,
        http: HttpRequest,
        context: RequestContext,
        route: Route,
        began: float,
        counted: AbstractContextManager[object],
    ) -> None:
        lease, exchanges = self._gateway.lease(), self.lifecycle.exchanges
        lease.enter()
        exchanges.add(exchange)
        if self._ticker is None:
            self._ticker = asyncio.get_running_loop().call_later(self._keep_alive / CHECKS_PER_PERIOD, self._tick)
        if self._recorder is not None:
            self._recorder.begin(exchange.id, exchange.result, began)

        def finished() -> None:
            exchanges.discard(exchange)
            counted.__exit__(None, None, None)
            lease.leave()
            self._finish(exchange.result(), context, began)
            self.lifecycle.count_response(context, route)

        async def go_on(scope: Scope, receive: Receive, send: Send) -> None:
            CURRENT.set(context)
            try:
                with self.lifecycle.running():
                    await exchange.go_on()
            except asyncio.CancelledError:
                if not self.lifecycle.was_broken_off():
                    raise
                await exchange.refuse(shutdown_error())
            finally:
                finished()

        def goes_on() -> None:
            exchanges.discard(exchange)
            http.connection.start_task(http, go_on)

        exchange.finished, exchange.goes_on = finished, goes_on

    def _tick(self) -> None:
        """Keep silent streams alive. One timer serves all of them."""
        self._ticker = None
        for exchange in tuple(self.lifecycle.exchanges):
            exchange.keep_alive_if_silent()
        if self.lifecycle.exchanges:
            self._ticker = asyncio.get_running_loop().call_later(self._keep_alive / CHECKS_PER_PERIOD, self._tick)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = RequestContext(scope, send)
        CURRENT.set(context)
        route = find_route(scope["method"], scope["path"])
        try:
            await self._dispatch(route, context, scope, receive)
        finally:
            self.lifecycle.count_response(context, route)

    async def _dispatch(self, route: Route | None, context: RequestContext, scope: Scope, receive: Receive) -> None:
        send: Send = context.send
        error_protocol = route.error_protocol if route is not None else _DEFAULT_ERROR_PROTOCOL
        if scope["method"] == "HEAD":
            send = _without_body(send)
        try:
            caller = self._guard.check(scope, route)
            if route is None:
                _refuse_websocket(scope)
                await self._pages.missing(scope, send)
            elif route.client_protocol:
                await self._answer(route, caller, context, receive, send)
            elif route.page in PAGES:
                await self.lifecycle.show(route.page, send)
                # Update the list of model names in the background for the next metrics scrape.
                if route.page != "health" and (self._refreshing is None or self._refreshing.done()):
                    self._refreshing = asyncio.ensure_future(self._gateway.refresh())
            else:
                await self._pages.show(route, caller, scope, receive, send)
        except ToolspeakError as error:
            status, body = client_protocol(error_protocol).error(error)
            await respond(send, status, body, headers=[*error_headers(error), *_UPGRADES.get(status, ())])

    async def _answer(
        self, route: Route, caller: Caller, context: RequestContext, receive: Receive, send: Send
    ) -> None:
        gateway, scope, began = self._gateway, context.scope, time.time()
        identifier = new_id()
        context.set_default_id(identifier)
        protocol = client_protocol(route.client_protocol, scope["query_string"])
        keys, keep_alive = self._idempotency_keys, self._keep_alive
        exchange = Exchange(identifier, gateway, protocol, scope, receive, send, keys, keep_alive)
        if self._recorder is not None:
            self._recorder.begin(identifier, exchange.result, began)
        try:
            with self._limits.counted(caller.key), gateway.lease(), self.lifecycle.running():
                await exchange.answer(route.fields, caller)
        except asyncio.CancelledError:
            if not self.lifecycle.was_broken_off():
                raise
            await exchange.refuse(shutdown_error())
        finally:
            self._finish(exchange.result(), context, began)

    def _finish(self, result: ExchangeResult, context: RequestContext, began: float) -> None:
        if result.client_disconnected:  # overrides the status that was sent
            context.status = CLIENT_CLOSED
        # Time spent in server tools does not count as proxy overhead.
        times = context.times(result.upstream_seconds + result.tool_seconds)
        recorder, metrics = self._recorder, self.lifecycle.metrics
        entry = build_entry(result, context, times, began, recorder.number() if recorder is not None else 0)
        if recorder is not None:
            recorder.add(entry)
        if result.record is not None:
            self.lifecycle.count_request(context, result.record, times, result.provider)
        name = entry.record.model
        model = name if entry.record.trace.attempts else metrics.model(name)
        self.statistics.add(request_row(entry, model, [each.reveal() for each in self._secrets()]))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            try:
                message = await receive()
            except asyncio.CancelledError:  # an immediate stop must not be logged as an error
                return
            if message["type"] == "lifespan.startup":
                self._gateway.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _is_ordinary(headers: Headers) -> bool:
    """Whether the headers announce a body of limited size and ask for nothing special."""
    length = b""
    for name, value in headers:
        if name == b"content-length":
            length = value
        elif name in _SPECIAL_HEADERS:
            return False
    return length.isdigit() and len(length) <= _MAX_LENGTH_DIGITS


def _refuse_websocket(scope: Scope) -> None:
    """Reject a WebSocket upgrade at the path of a model request."""
    route = find_route("POST", scope["path"]) if header(scope, b"upgrade").lower() == "websocket" else None
    if route is not None and route.client_protocol:
        raise NoWebSocket("WebSocket is not supported here", hint="send the request with POST")


def _without_body(send: Send) -> Send:
    """Wrap `send` to drop the response body, for HEAD requests."""

    async def bodiless(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return bodiless
