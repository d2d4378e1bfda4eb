"""The ASGI application: guard, routes, and what happens when the server starts and ends.

Plain ASGI on the hot path: a model request goes from here straight to its `Exchange`. Above: `run` and whoever
embeds the server. Below: `routes`, `exchange`, `pages`, `guard`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from ..errors import ToolspeakError
from .asgi import Receive, Scope, Send, respond
from .exchange import Exchange, Record
from .faces import face
from .gateway import Gateway
from .guard import Guard
from .pages import Pages
from .routes import find

__all__ = ["App"]

_log = logging.getLogger("toolspeak.server")
#: How many requests can be asked about afterwards.
_KEPT_RECORDS = 500
#: The shape of an error on a path that belongs to no protocol.
_NO_FACE = "openai_chat"


class App:
    """The proxy as an ASGI application."""

    def __init__(self, gateway: Gateway, guard: Guard | None = None) -> None:
        self._gateway = gateway
        self._guard = guard or Guard()
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._pages = Pages(gateway, self._records)

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
        spoken = route.face if route is not None and route.face else _NO_FACE
        try:
            self._guard.check(scope)
        except ToolspeakError as error:
            status, body = face(spoken).error(error)
            await respond(send, status, body)
            return
        if route is None:
            await self._pages.missing(scope, send)
        elif route.face:
            exchange = Exchange(self._gateway, face(route.face), scope, receive, send)
            await exchange.answer(route.fields)
            if exchange.record is not None:
                self._keep(exchange.record)
        else:
            await self._pages.show(route, scope, receive, send)

    def _keep(self, record: Record) -> None:
        self._records[record.id] = record
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
