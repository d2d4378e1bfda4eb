"""One model request through the proxy: decoded, carried out, encoded, whatever happens in between.

Nothing leaves before the first events are there, so that an upstream that fails at once is answered with its
real status; whoever has waited long for them gets a stream that has begun and says nothing yet. A client that goes
away cancels everything upstream. What one read of the upstream brings is one write, and the next read waits until the
client takes it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

import msgspec

from ...config import Secret
from ...core.events import CallStart, Event, Failure, Noted, Reply, fold, lasting
from ...core.types import JSONValue, Note, Request, Tool
from ...engine.planning.strategy import Settings
from ...engine.turn.trace import Trace
from ...errors import ToolspeakError
from ...protocols.shared.passthrough_bytes import QuotingEncoder
from ...runtime.turn import all_events, error_after
from ...runtime.turn_factory import MadeTurn
from ...upstreams.base import QUOTES
from ..access.auth import NOBODY, Caller
from ..access.limits import check_request, ignored_routing, read_object
from ..asgi import ClientGone, Headers, Receive, Scope, Send, error_headers, read_body, respond
from ..observe.ids import new_id
from .client_protocols import Encoder, Face
from .idempotency import Repeats
from .previous_responses import Earlier
from .request_settings import with_settings
from .tool_loop.progress_events import telling
from .upstream_address import Way
from .upstream_router import Gateway, Target

_log = logging.getLogger("toolspeak.server")
#: A silent stream says something this often, so that no proxy in between takes it for dead.
KEEP_ALIVE_SECONDS = 15.0
#: Looks at a stream in each such time: one that was silent from one look to the next is silent.
_LOOKS = 2
#: Seconds in which nobody looks whether the client is still there: most answers in one piece are whole by then.
_UNWATCHED = 0.05
#: Looks without a word after which a stream begins, though nobody knows yet how it goes on. Proxies wait 60 s.
_LOOKS_BEFORE_START = 4
#: The one protocol whose services load models when they are told to.
_LOADING = "ollama"
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
    """One request and its answer.

    Args:
        repeats: who is being answered already, of those who may ask twice.
        keep_alive: seconds after which a silent stream says something.
    """

    def __init__(
        self,
        gateway: Gateway,
        face: Face,
        scope: Scope,
        receive: Receive,
        send: Send,
        repeats: Repeats,
        keep_alive: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        #: 128 random bits: nobody finds another's by guessing.
        self.id = new_id()
        #: Whose request it is, once that is known.
        self.tenant = ""
        self.record: Record | None = None
        #: What was sent, and what it means, once that is known; what the client showed that nobody else may see.
        self.body = b""
        self.fields: Mapping[str, JSONValue] = {}
        self.asked: Request | None = None
        self.secrets: tuple[Secret, ...] = ()
        #: Why it was refused, if it was.
        self.refusal = ""
        #: Who was asked, and for how many seconds they were waited for.
        self.provider = ""
        self.protocol = ""
        self.way: Way | None = None
        self.settings: Settings | None = None
        self.waited = 0.0
        #: Seconds until the upstream's first token, those in which something was held back, and those of tools here.
        self.first_token = self.held = self.tooled = 0.0
        #: Tools of the server's own that were offered.
        self.served: tuple[Tool, ...] = ()
        self._gateway = gateway
        self._face = face
        self._scope = scope
        self._receive = receive
        self._send = send
        self._repeats = repeats
        self._look = keep_alive / _LOOKS
        self._started = self._gone = False  # something has been sent; the client is gone
        self._notes: list[Note] = []
        self._writes = 0
        self._writing = False
        #: Writes the answer, if it is a stream.
        self._encoder: Encoder | None = None
        #: While somebody else than the turn itself writes: set when that is over.
        self._floor: asyncio.Event | None = None
        self._watcher: asyncio.Task[None] | None = None
        #: What the request means of earlier answers.
        self._earlier: Earlier | None = None

    async def answer(self, fields: Mapping[str, JSONValue], caller: Caller = NOBODY) -> None:
        """Answer the request. `fields` are what the path says about it."""
        self.fields = fields
        if caller.own:
            self.secrets = tuple(credential.secret for credential in caller.own)
        try:
            self.body = await read_body(self._scope, self._receive)
            said = read_object(self.body)
            self.asked = request = self._face.decode(said, **fields)
            check_request(request, len(self.body))
            target = self._gateway.target(request, caller)
            if caller.admin:
                target = with_settings(target, self._scope)
            self.tenant = target.tenant
            self.way, self.settings = target.way, target.settings
            again = self._repeats.of(self._scope, target.maker.conversation, self.tenant, self.body)
            if again is None:
                await self._understood(said, request, target, caller)
                return
            with again:
                if not await again.replayed(self._send):
                    self._send = again.listening(self._send)
                    try:
                        await self._understood(said, request, target, caller)
                    finally:
                        good = self.record is not None and not self.record.error
                        again.keep(good=good, ran=self.tooled > 0, response=self._kept_as)
                    await target.maker.conversation.settle()
        except ToolspeakError as error:
            await self._refuse(error)
        except Exception:  # a mistake of ours: the client hears of it in its own protocol, we read it in the log
            _log.exception("the request %s failed", self.id)
            await self._refuse(ToolspeakError(f"an error inside toolspeak; its log tells more about {self.id}"))

    async def _understood(
        self, said: Mapping[str, JSONValue], request: Request, target: Target, caller: Caller
    ) -> None:
        """Answer a request of which we know what it means, and who is to answer it."""
        self._earlier = earlier = Earlier(target.maker.conversation, self.tenant, self._face.name, said)
        if self._face.needs_store(request):
            request = self._face.decode(await earlier.expanded(), **self.fields)
            check_request(request, len(self.body))
        if earlier.matters:
            await earlier.warm(request)
        reached = target.maker.reached
        if self._face.loads and not request.messages and reached.protocol != _LOADING:
            await self._loaded(request)
            return
        asked = msgspec.structs.replace(request, model=reached.model) if request.model != reached.model else request
        seen = (*ignored_routing(request), *self._face.seen(said))
        made = await self._gateway.make(target, asked, caller, seen)
        self.asked, self.protocol, self.served = made.request, reached.protocol, made.served
        self._face.check(request, made.plan.kind, self.protocol)
        await self._watched(made, target, _going_on(request, earlier.previous))

    async def _loaded(self, request: Request) -> None:
        """A model was to be loaded, by somebody who takes this for Ollama: no other service needs that."""
        naming = {"id": self._face.id_prefix + self.id, "created": int(time.time()), "model": request.model}
        self._started = True
        await respond(self._send, 200, self._face.reply(Reply(), request, **naming))

    @property
    def face(self) -> str:
        """The protocol that the client speaks."""
        return self._face.name

    @property
    def _kept_as(self) -> str:
        """The id under which the answer can be deleted; empty: it has none."""
        return self._earlier.kept_as if self._earlier is not None else ""

    @property
    def left(self) -> bool:
        """Whether the client went away before the end."""
        return self._gone

    async def end(self, error: ToolspeakError) -> None:
        """End an answer that was broken off from outside."""
        await self._refuse(error)

    # ---- somebody listens, or nobody

    async def _watched(self, made: MadeTurn, target: Target, request: Request) -> None:
        """Carry the turn out while somebody listens."""
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        soon = loop.call_later(min(_UNWATCHED, self._look), self._watch_over, loop, task, made)
        try:
            await self._carry_out(made, target, request)
        except asyncio.CancelledError:
            if not self._gone or task.uncancel():  # it is we who are to end, not the client who left
                raise
        finally:
            soon.cancel()
            # Not kept: how it was ended leads back here, and a ring of a large answer would stay for long.
            watcher, self._watcher = self._watcher, None
            if watcher is not None:
                watcher.cancel()
            self._keep(made, request)

    def _watch_over(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[None], made: MadeTurn) -> None:
        self._watcher = loop.create_task(self._watch(task, made))

    async def _watch(self, task: asyncio.Task[None], made: MadeTurn) -> None:
        """Wait for the client to go away; until then, look after its stream."""
        silent = 0
        writes = self._writes
        while True:
            try:
                async with asyncio.timeout(self._look):
                    message = await self._receive()
            except TimeoutError:
                silent = silent + 1 if self._writes == writes and not self._writing else 0
                if silent >= (1 if self._started else _LOOKS_BEFORE_START):
                    await self._stay_alive(made)
                writes = self._writes
                continue
            if message["type"] == "http.disconnect":
                self._gone = True
                task.cancel()
                return

    async def _stay_alive(self, made: MadeTurn) -> None:
        """Say something that means nothing."""
        if self._encoder is None:  # an answer in one piece has no place for it
            return
        self._floor = asyncio.Event()
        try:
            filler = self._face.keep_alive if self._started else self._face.filler
            await self._begin(made)
            await self._send({"type": "http.response.body", "body": filler, "more_body": True})
        except OSError:  # the client is gone, as will be told in a moment
            pass
        finally:
            self._floor.set()
            self._floor = None

    # ---- the two shapes of an answer

    async def _carry_out(self, made: MadeTurn, target: Target, request: Request) -> None:
        naming = {"id": self._face.id_prefix + self.id, "created": int(time.time()), "model": request.model}
        if request.stream:
            encoder = self._face.encoder(request, **naming)
            # Only who names the server's tools is told of their calls, beside the answer.
            encoder = telling(encoder, made.turn, self._face.name) if target.server_tools else encoder
            await self._stream(made, target, request, encoder)
        else:
            await self._whole(made, target, request, naming)

    async def _whole(self, made: MadeTurn, target: Target, request: Request, naming: dict[str, JSONValue]) -> None:
        # Nothing can go wrong between two batches, so whatever ends the turn ends inside it, where it hangs up.
        events, since = await all_events(made.turn)
        self._notes += [event.note for event in events if type(event) is Noted]
        outcome = made.turn.outcome
        assert outcome is not None
        error = error_after(outcome)
        if error is not None:
            raise error
        reply = msgspec.structs.replace(fold(events), requests=outcome.requests, warnings=outcome.warnings)
        target.maker.conversation.remember(target.tenant, made.request, [call.id for call in reply.calls])
        ours = self._face.ordered and self._face.name == self.protocol
        if ours and reply.opaque and made.plan.kind != made.plan.emulation:
            # Its own client sends all of it back, and the service wants it in the order in which it came.
            body = self._face.reply(reply, request, events=lasting(events, reply, since), **naming)
        else:
            body = self._face.reply(reply, request, **naming)
        await self._keep_for_later(made.request, body)
        self._started = True
        await respond(self._send, 200, body, headers=self._extension(made))

    async def _stream(self, made: MadeTurn, target: Target, request: Request, encoder: Encoder) -> None:
        self._encoder = encoder
        turn = made.turn
        relay = encoder.relay if isinstance(encoder, QuotingEncoder) and self._passes(made, target, request) else None
        QUOTES.set(relay is not None)
        write = relay or encoder.encode
        ids: list[str] = []
        last: list[Event] = []
        batches = turn.batches()
        try:
            async for batch in batches:
                for event in batch:
                    if type(event) is CallStart:
                        ids.append(event.id)
                    elif type(event) is Noted:
                        self._notes.append(event.note)
                if turn.outcome is not None:
                    last = batch
                elif data := write(batch):
                    if not self._started:
                        await self._begin(made)
                    await self._write(data)
        finally:
            await batches.aclose()
        assert turn.outcome is not None
        error = error_after(turn.outcome)
        if error is not None and not self._started:
            raise error
        # Before the client can ask about them.
        target.maker.conversation.remember(target.tenant, made.request, ids)
        end = encoder.encode(last) + encoder.close(self._told(made))
        await self._keep_for_later(made.request, end)
        await self._begin(made)
        await self._write(end, more=False)

    def _passes(self, made: MadeTurn, target: Target, request: Request) -> bool:
        """Whether the client may read what the upstream wrote: its own protocol, and the model as it calls it."""
        own = self._face.takes_untouched(made.plan.kind, self.protocol)
        return own and request.model == target.maker.reached.model

    async def _keep_for_later(self, request: Request, answer: bytes) -> None:
        assert self._earlier is not None
        if self._earlier.matters:
            await self._earlier.keep(request, answer)

    # ---- writing

    async def _begin(self, made: MadeTurn) -> None:
        """The head of a stream, once."""
        if self._started:
            return
        self._started = True
        kind = (b"content-type", self._face.stream_type)
        headers = [kind, (b"cache-control", b"no-store"), *self._extension(made)]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        if self._floor is not None:
            await self._floor.wait()
        self._writes += 1
        self._writing = True
        try:
            await self._send({"type": "http.response.body", "body": data, "more_body": more})
        except OSError as error:
            raise ClientGone("the client closed its connection") from error
        self._writing = False

    async def _refuse(self, error: ToolspeakError) -> None:
        self.refusal = str(error)
        self._gone = self._gone or isinstance(error, ClientGone)
        if self._gone:
            return
        if self._started:
            if self._encoder is not None:  # it ends with the error, and without the mark of a good end
                await self._write(self._encoder.encode([Failure(str(error))]), more=False)
            return
        status, body = self._face.error(error)
        self._started = True
        told = (b"x-toolspeak", msgspec.json.encode({"id": self.id}))
        await respond(self._send, status, body, headers=[told, *error_headers(error, final=self.tooled > 0)])

    # ---- what is told beside the answer

    def _told(self, made: MadeTurn) -> dict[str, JSONValue]:
        told: dict[str, JSONValue] = {"id": self.id, "plan": made.plan.kind}
        if made.turn.outcome is not None:
            told |= {"requests": made.turn.outcome.requests, "warnings": list(made.turn.outcome.warnings)}
        return told

    def _extension(self, made: MadeTurn) -> Headers:
        """The header that says what was done, in ASCII and short."""
        text = msgspec.json.encode(self._told(made))
        if len(text) > _MAX_EXTENSION or not text.isascii():
            text = msgspec.json.encode({"id": self.id, "plan": made.plan.kind})
        return [(b"x-toolspeak", text)]

    def _keep(self, made: MadeTurn, request: Request) -> None:
        plan, outcome = made.plan, made.turn.outcome
        turn = made.turn
        self.provider, self.waited, self.tooled = turn.provider, turn.waited, turn.tooled
        self.first_token, self.held = turn.first_token, turn.held
        about = (self.id, self._face.name, request.model, plan.kind)
        if outcome is None:
            error = "the client went away" if self._gone else "it was broken off"
            trace = Trace(plan.kind, plan.rule, plan.why, turn.answered)
            self.record = Record(*about, turn.asked, (), error, trace, tuple(self._notes))
            return
        failure = outcome.failure.message if outcome.failure is not None else ""
        self.record = Record(*about, outcome.requests, outcome.warnings, failure, outcome.trace, tuple(self._notes))


def _going_on(request: Request, previous: str) -> Request:
    """The request as its answer repeats it: with the name of the response that it goes on from."""
    if not previous:
        return request
    extra = {**request.options.extra, "previous_response_id": previous}
    return msgspec.structs.replace(request, options=msgspec.structs.replace(request.options, extra=extra))
