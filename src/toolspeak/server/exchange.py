"""One model request through the proxy: decoded, carried out, encoded, whatever happens in between.

Nothing leaves before the first events are there, so that an upstream that fails at once is answered with its
real status. A client that goes away cancels everything upstream. Above: `app`. Below: `faces`, `gateway`, `turn`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import msgspec

from ..core.events import CallStart, Event, Noted, fold
from ..core.model import JSONValue, Note, Request
from ..core.trace import Trace
from ..errors import ToolspeakError
from ..turn import error_after
from ..turn_maker import MadeTurn
from .asgi import ClientGone, Headers, Receive, Scope, Send, error_headers, read_body, respond
from .auth import NOBODY, Caller
from .faces import Face
from .gateway import Gateway, Target
from .limits import check_request, ignored_routing, read_object

__all__ = ["Exchange", "Record"]

#: An idle stream says something this often, so that no proxy in between takes it for dead.
KEEP_ALIVE_SECONDS = 15.0
#: The header that says what was done fits every server's limits.
_MAX_EXTENSION = 2048


class Record(msgspec.Struct, frozen=True):
    """What happened to one request, for those who ask later."""

    id: str
    face: str
    model: str
    plan: str
    requests: int
    warnings: tuple[str, ...]
    error: str
    trace: Trace
    notes: tuple[Note, ...] = ()


class Exchange:
    """One request and its answer."""

    def __init__(self, gateway: Gateway, face: Face, scope: Scope, receive: Receive, send: Send) -> None:
        #: 128 random bits: nobody finds another's by guessing.
        self.id = secrets.token_hex(16)
        #: Whose request it is, once that is known.
        self.tenant = ""
        self._gateway = gateway
        self._face = face
        self._scope = scope
        self._receive = receive
        self._send = send
        self._started = False  # something has been sent
        self._last_write = 0.0
        self._notes: list[Note] = []
        self.record: Record | None = None

    async def answer(self, fields: Mapping[str, JSONValue], caller: Caller = NOBODY) -> None:
        """Answer the request. `fields` are what the path says about it."""
        try:
            body = await read_body(self._scope, self._receive)
            request = self._face.decode(read_object(body), **fields)
            check_request(request)
            target = self._gateway.target(request, caller)
            self.tenant = target.tenant
            asked = msgspec.structs.replace(request, model=target.maker.reached.model)
            made = target.maker.make(asked, target.settings, target.tenant, ignored_routing(request))
            await self._watched(made, target, request)
        except ToolspeakError as error:
            await self._refuse(error)

    async def _watched(self, made: MadeTurn, target: Target, request: Request) -> None:
        """Carry the turn out while somebody listens."""
        work = asyncio.ensure_future(self._carry_out(made, target, request))
        watch = asyncio.ensure_future(self._watch(work))
        try:
            await work
        except asyncio.CancelledError:
            if not watch.done():  # it is we who are cancelled, not the client who left
                work.cancel()
                raise
        finally:
            watch.cancel()

    async def _watch(self, work: asyncio.Future[None]) -> None:
        """Wait for the client to go away; keep its connection alive until then."""
        while True:
            try:
                message = await asyncio.wait_for(self._receive(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                await self._keep_alive()
                continue
            if message["type"] == "http.disconnect":
                work.cancel()
                return

    async def _keep_alive(self) -> None:
        idle = time.monotonic() - self._last_write
        if self._started and self._face.keep_alive and idle >= KEEP_ALIVE_SECONDS / 2:
            await self._write(self._face.keep_alive)

    # ---- the two shapes of an answer

    async def _carry_out(self, made: MadeTurn, target: Target, request: Request) -> None:
        naming = {"id": self._face.id_prefix + self.id, "created": int(time.time()), "model": request.model}
        async with aclosing(made.turn.batches()) as batches:
            if request.stream:
                ids = await self._stream(batches, made, request, naming)
            else:
                ids = await self._whole(batches, made, request, naming)
        target.maker.conversation.remember(target.tenant, made.request, ids)

    async def _whole(
        self, batches: AsyncGenerator[list[Event], None], made: MadeTurn, request: Request, naming: dict[str, JSONValue]
    ) -> list[str]:
        events = [event async for batch in batches for event in batch]
        self._notes += [event.note for event in events if type(event) is Noted]
        self._keep(made, request)
        outcome = made.turn.outcome
        assert outcome is not None
        error = error_after(outcome)
        if error is not None:
            raise error
        reply = msgspec.structs.replace(fold(events), requests=outcome.requests, warnings=outcome.warnings)
        body = self._face.reply(reply, request, **naming)
        self._started = True
        await respond(self._send, 200, body, headers=self._extension(made))
        return [call.id for call in reply.calls]

    async def _stream(
        self, batches: AsyncGenerator[list[Event], None], made: MadeTurn, request: Request, naming: dict[str, JSONValue]
    ) -> list[str]:
        encoder = self._face.encoder(request, **naming)
        ids: list[str] = []
        async for batch in batches:
            ids += [event.id for event in batch if type(event) is CallStart]
            self._notes += [event.note for event in batch if type(event) is Noted]
            if made.turn.outcome is None or self._started:
                await self._say(encoder.encode(batch), made)
        outcome = made.turn.outcome
        assert outcome is not None
        self._keep(made, request)
        error = error_after(outcome)
        if error is not None and not self._started:
            raise error
        await self._say(encoder.close(self._told(made)), made, last=True)
        return ids

    async def _say(self, data: bytes, made: MadeTurn, *, last: bool = False) -> None:
        if not self._started and (data or last):
            self._started = True
            headers = [
                (b"content-type", self._face.stream_type),
                (b"cache-control", b"no-store"),
                *self._extension(made),
            ]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if data or last:
            await self._write(data, more=not last)

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        self._last_write = time.monotonic()
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    # ---- what is told beside the answer

    def _told(self, made: MadeTurn) -> dict[str, JSONValue]:
        told: dict[str, JSONValue] = {"id": self.id, "plan": made.plan.kind}
        if made.turn.outcome is not None:
            told |= {"requests": made.turn.outcome.requests, "warnings": list(made.turn.outcome.warnings)}
        return told

    def _extension(self, made: MadeTurn) -> Headers:
        """The header that says what was done, in ASCII and short."""
        told = self._told(made)
        text = msgspec.json.encode(told)
        if len(text) > _MAX_EXTENSION or not text.isascii():
            text = msgspec.json.encode({"id": self.id, "plan": made.plan.kind})
        return [(b"x-toolspeak", text)]

    def _keep(self, made: MadeTurn, request: Request) -> None:
        outcome = made.turn.outcome
        assert outcome is not None
        failure = outcome.failure.message if outcome.failure is not None else ""
        self.record = Record(
            self.id,
            self._face.name,
            request.model,
            made.plan.kind,
            outcome.requests,
            outcome.warnings,
            failure,
            outcome.trace,
            tuple(self._notes),
        )

    async def _refuse(self, error: ToolspeakError) -> None:
        if isinstance(error, ClientGone) or self._started:
            return
        status, body = self._face.error(error)
        self._started = True
        told = (b"x-toolspeak", msgspec.json.encode({"id": self.id}))
        await respond(self._send, status, body, headers=[told, *error_headers(error)])
