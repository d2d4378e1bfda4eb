"""The ASGI application: guard, routes, and what happens when the server starts and ends.

Plain ASGI on the hot path: a model request goes from here straight to its `Exchange`. Above: `run` and whoever
embeds the server. Below: `routes`, `exchange`, `pages`, `guard`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from ..errors import ToolspeakError
from .asgi import Receive, Scope, Send, error_headers, respond
from .auth import Caller
from .exchange import Exchange, Record
from .faces import face
from .gateway import Gateway
from .guard import Guard
from .limits import Limits
from .pages import Pages
from .routes import Route, find

__all__ = ["App"]

_log = logging.getLogger("toolspeak.server")
#: How many requests can be asked about afterwards.
_KEPT_RECORDS = 500
#: The shape of an error on a path that belongs to no protocol.
_NO_FACE = "openai_chat"


class App:
    """The proxy as an ASGI application."""

    def __init__(self, gateway: Gateway, guard: Guard | None = None, limits: Limits | None = None) -> None:
        self._gateway = gateway
        self._guard = guard or Guard()
        self._limits = limits or Limits()
        #: By whose they are and by their ids.
        self._records: OrderedDict[tuple[str, str], Record] = OrderedDict()
        self._pages = Pages(lambda: self._gateway, self._records, self._guard.access.sessions)

    async def replace(self, gateway: Gateway) -> None:
        """From now on, requests go through another gateway; those under way end where they began."""
        old, self._gateway = self._gateway, gateway
        await old.retire()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        else:  # clients that try a WebSocket first fall back when it is refused
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = find(scope["method"], scope["path"])
        spoken = route.shape if route is not None else _NO_FACE
        try:
            caller = self._guard.check(scope, route)
            if route is None:
                await self._pages.missing(scope, send)
            elif route.face:
                await self._answer(route, caller, scope, receive, send)
            else:
                await self._pages.show(route, caller, scope, receive, send)
        except ToolspeakError as error:
            status, body = face(spoken).error(error)
            await respond(send, status, body, headers=error_headers(error))

    async def _answer(self, route: Route, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        gateway = self._gateway
        exchange = Exchange(gateway, face(route.face), scope, receive, send)
        with self._limits.counted(caller.key), gateway.lease():
            await exchange.answer(route.fields, caller)
        if exchange.record is not None:
            self._keep(exchange.tenant, exchange.record)

    def _keep(self, tenant: str, record: Record) -> None:
        self._records[tenant, record.id] = record
        if len(self._records) > _KEPT_RECORDS:
            self._records.popitem(last=False)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._gateway.close()
                await send({"type": "lifespan.shutdown.complete"})
                return
