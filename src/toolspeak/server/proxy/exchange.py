"""Handling of one model request: decode it, run the turn, encode the answer.

Nothing is sent before the first events arrive, so if the upstream fails at once, the client gets the real error status.
After a long wait the stream is started anyway and kept alive. If the client disconnects, the upstream request is
cancelled. Each upstream read becomes one write, and the next read waits until that write completes (back-pressure).
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from ...config import Secret
from ...core.events import CallStart, Event, Failure, Noted, Reply, final_events, fold
from ...core.types import JSONValue, Note, Request, Tool
from ...engine.planning.strategy import Settings
from ...engine.turn.trace import Trace
from ...errors import ToolspeakError
from ...protocols.shared.passthrough_bytes import PassthroughEncoder
from ...runtime.turn import AnyTurn, all_events, error_after
from ...runtime.turn_factory import PlannedTurn
from ..access.auth import ANONYMOUS, Caller, own_secrets
from ..access.limits import check_request, read_object, routing_notes
from ..asgi import ClientDisconnected, Headers, Receive, Scope, Send, error_headers, read_body, respond
from ..observe.request_context import CURRENT
from .answers import CHAT, SeveralTurns, join_replies, join_turns, single_requests
from .client_protocols import ClientProtocol, Encoder, with_progress_events
from .idempotency import IdempotencyKeys
from .previous_responses import PreviousResponses
from .request_settings import apply_request_settings
from .upstream_router import Gateway, Target, UpstreamAddress

_log = logging.getLogger("toolspeak.server")
#: Interval of keep-alives on a silent stream, so intermediate proxies do not close it.
KEEP_ALIVE_SECONDS = 15.0
#: Number of checks per keep-alive interval. A stream is silent if nothing was written since the previous check.
CHECKS_PER_PERIOD = 2
#: Delay before watching for disconnects. Most non-streamed answers are complete by then.
_WATCH_AFTER_SECONDS = 0.05
#: Number of silent checks after which a stream is started before the first event. Proxies time out after 60 s.
CHECKS_BEFORE_START = 4
_MANY_EVENTS = 1000  # number of events above which an answer is put together in a worker thread
_LOADING_PROTOCOL = "ollama"  # the only upstream protocol in which a request can load a model
#: Size limit for the `x-toolspeak` header, low enough for common header limits.
_MAX_EXTENSION_BYTES = 2048
_ID_BYTES = len('"id":"",') + 32  # size of the id in that header, with its name


class RequestRecord(msgspec.Struct, frozen=True, gc=False):
    """Summary of a finished request, for metrics, logs, traces and the recorder."""

    id: str
    client_protocol: str = msgspec.field(name="face")
    model: str
    plan: str
    requests: int
    warnings: tuple[str, ...]
    error: str
    trace: Trace
    notes: tuple[Note, ...] = ()
    #: Name of the upstream that answered; also of one that failed, if there was no other to choose.
    upstream_name: str = ""


class ExchangeResult(msgspec.Struct, frozen=True):
    """Everything known about an exchange: a snapshot while it runs, final once it has been answered."""

    id: str
    client_protocol: str
    #: The body as received, and additional request fields from the path.
    body: bytes
    fields: Mapping[str, JSONValue]
    #: The decoded request, later the planned one; None if the body could not be decoded.
    request: Request | None
    secrets: tuple[Secret, ...]  # the client's credentials, which must be redacted in all output
    #: The error that was sent to the client; empty if there was none.
    refusal: str
    client_disconnected: bool
    #: The summary; None if the request was rejected before its turn started.
    record: RequestRecord | None
    tenant: str = ""
    upstream_address: UpstreamAddress | None = None
    settings: Settings | None = None
    upstream_protocol: str = ""
    #: Server tools that were offered to the model.
    server_tools: tuple[Tool, ...] = ()
    provider: str = ""
    upstream_seconds: float = 0.0
    first_token_seconds: float = 0.0
    held_seconds: float = 0.0
    tool_seconds: float = 0.0
    #: The request of the client, and the turn, for showing an exchange that runs.
    scope: Scope = {}
    turn: AnyTurn | None = None


class Exchange:
    """One request and its answer. The identifier must be unguessable."""

    # Facts about the request, in the order in which they become known.
    _secrets: tuple[Secret, ...] = ()
    _fields: Mapping[str, JSONValue] = {}
    _body = b""
    _request: Request | None = None
    _target: Target | None = None
    _previous: PreviousResponses | None = None
    _planned: PlannedTurn | None = None
    _turn: AnyTurn | None = None
    _record: RequestRecord | None = None
    _refusal = ""
    # The state of the connection.
    _started = _disconnected = _writing = False
    _writes = 0
    _encoder: Encoder | None = None  # encodes the stream; None if the answer is not streamed
    _passes_bytes = False  # whether the upstream's bytes may be sent unchanged
    #: Set when the keep-alive has been written; None if no keep-alive is being written.
    _keep_alive_written: asyncio.Event | None = None
    _watcher: asyncio.Task[None] | None = None

    def __init__(
        self,
        identifier: str,
        gateway: Gateway,
        protocol: ClientProtocol,
        scope: Scope,
        receive: Receive,
        send: Send,
        idempotency_keys: IdempotencyKeys,
        keep_alive: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        self.id = self._id = identifier
        self._see = f"`toolspeak explain {identifier}`"
        self._gateway = gateway
        self._protocol = protocol
        self._scope = scope
        self._receive = receive
        self._send = send
        self._idempotency_keys = idempotency_keys
        self._check_seconds = keep_alive / CHECKS_PER_PERIOD
        self._notes: list[Note] = []
        #: Encodes a batch of events of the stream.
        self._encode: Callable[[list[Event]], bytes] = lambda events: b""
        self._call_ids: list[str] = []
        self._last_batch: list[Event] = []
        #: The first events of an answer that is not streamed, if they were received before `_complete`.
        self._earlier: list[Event] = []

    def result(self) -> ExchangeResult:
        """Return what is known about the exchange so far."""
        target, planned = self._target, self._planned
        turn = planned.turn if planned else None
        tenant, address, settings = (target.tenant, target.address, target.settings) if target else ("", None, None)
        about = (self._id, self._protocol.name, self._body, self._fields, self._request, self._secrets)
        sent = (self._refusal, self._disconnected, self._record)
        protocol = target.maker.resolved.protocol if target and planned else ""
        tools, provider = planned.served if planned else (), turn.provider if turn else ""
        times = (turn.upstream_seconds, turn.first_token_seconds, turn.held_seconds, turn.tool_seconds) if turn else ()
        upstream = (tenant, address, settings, protocol, tools, provider, *times)
        return ExchangeResult(*about, *sent, *upstream, scope=self._scope, turn=turn)

    async def answer(self, fields: Mapping[str, JSONValue], caller: Caller = ANONYMOUS) -> None:
        """Handle the request and send the answer. `fields` are request fields from the path."""
        self._fields = fields
        self._secrets = own_secrets(self._scope)
        try:
            self._body = await read_body(self._scope, self._receive)
            body = read_object(self._body)
            self._request = request = self._protocol.decode(body, **fields)
            check_request(request, len(self._body))
            target = self._gateway.target(request, caller)
            self._target = target = apply_request_settings(target, self._scope, self._gateway, caller)
            await self._answer_once(body, request, target, caller)
        except ToolspeakError as error:
            await self.refuse(error)
        except Exception:  # a bug: send an error in the client's protocol and log the traceback
            _log.exception("request %s failed", self._id)
            await self.refuse(self._internal_error())

    def _internal_error(self) -> ToolspeakError:
        return ToolspeakError(f"internal error in toolspeak; see request {self._id} in its log")

    async def _answer_once(
        self, body: Mapping[str, JSONValue], request: Request, target: Target, caller: Caller
    ) -> None:
        """Run the request, or replay the stored answer if its `Idempotency-Key` was used before."""
        memory = target.maker.tool_memory
        keyed = self._idempotency_keys.of(self._scope, memory, target.tenant, self._body)
        if keyed is None:
            await self._run(body, request, target, caller)
            return
        with keyed:
            if not await keyed.replay(self._send):
                self._send = keyed.recording(self._send)
                try:
                    await self._run(body, request, target, caller)
                finally:
                    succeeded = self._record is not None and not self._record.error
                    stored_id = self._previous.stored_id if self._previous is not None else ""
                    keyed.store(succeeded=succeeded, tools_ran=self._tools_ran, response=stored_id)
                await memory.settle()

    async def _run(self, body: Mapping[str, JSONValue], request: Request, target: Target, caller: Caller) -> None:
        protocol, resolved = self._protocol, target.maker.resolved
        self._previous = previous = PreviousResponses(target.maker.tool_memory, target.tenant, protocol.name, body)
        if protocol.needs_store(request):
            request = protocol.decode(await previous.expand(), **self._fields)
            check_request(request, len(self._body))
        if previous.in_use:
            await previous.prefetch(request)
        if protocol.loads_models and not request.messages and resolved.protocol != _LOADING_PROTOCOL:
            # An Ollama client's request to load a model. Other upstreams load models by themselves.
            self._started = True
            await respond(self._send, 200, protocol.reply(Reply(), request, **self._naming(request)))
            return
        notes = (*routing_notes(request), *protocol.request_notes(body))
        planned = await self._plan(target, for_upstream(request, target), caller, notes)
        self._adopt(planned, request, target)
        await self._watched(planned, target, _with_previous_id(request, previous.previous_id))

    def _adopt(self, planned: PlannedTurn, request: Request, target: Target) -> None:
        self._planned, self._request = planned, planned.request
        self._protocol.check(request, planned.plan.kind, target.maker.resolved.protocol)

    async def _plan(self, target: Target, request: Request, caller: Caller, notes: tuple[Note, ...]) -> PlannedTurn:
        """Return the turn that answers a request, or several turns if it asks for several answers."""
        requests = single_requests(request, streams=self._protocol.name == CHAT)
        planned = [await self._gateway.make_turn(target, each, caller, notes, self._see) for each in requests]
        return planned[0] if len(planned) == 1 else join_turns(planned, target.maker, target.tenant)

    def _naming(self, request: Request) -> dict[str, JSONValue]:
        """Return the fields that identify an answer."""
        return {"id": self._protocol.id_prefix + self._id, "created": int(time.time()), "model": request.model}

    @property
    def _tools_ran(self) -> bool:
        return self._turn is not None and self._turn.tool_seconds > 0

    # ---- client disconnects and keep-alives

    async def _watched(self, planned: PlannedTurn, target: Target, request: Request) -> None:
        """Run the turn, and cancel it if the client disconnects."""
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        delay = min(_WATCH_AFTER_SECONDS, self._check_seconds)
        timer = loop.call_later(delay, self._start_watching, loop, task, planned)
        try:
            await self._carry_out(planned, target, request)
        except asyncio.CancelledError:
            if not self._disconnected or task.uncancel():  # the server cancelled the task, not the watcher
                raise
        finally:
            timer.cancel()
            # Drop the watcher, which refers back to this object: a reference cycle would keep large answers in memory.
            watcher, self._watcher = self._watcher, None
            if watcher is not None:
                watcher.cancel()
            self._turn = planned.turn
            self._record = self._record_of(planned, request)

    def _start_watching(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[None], planned: PlannedTurn) -> None:
        self._watcher = loop.create_task(self._watch(task, planned))

    async def _watch(self, task: asyncio.Task[None], planned: PlannedTurn) -> None:
        """Cancel `task` when the client disconnects; until then, send keep-alives on a silent stream."""
        silent = 0
        writes = self._writes
        while True:
            try:
                async with asyncio.timeout(self._check_seconds):
                    message = await self._receive()
            except TimeoutError:
                silent = silent + 1 if self._writes == writes and not self._writing else 0
                if silent >= (1 if self._started else CHECKS_BEFORE_START):
                    await self._send_keep_alive(planned)
                writes = self._writes
                continue
            if message["type"] == "http.disconnect":
                self._disconnected = True
                task.cancel()
                return

    async def _send_keep_alive(self, planned: PlannedTurn) -> None:
        if self._encoder is None:  # the answer is not streamed
            return
        self._keep_alive_written = asyncio.Event()
        try:
            filler = self._protocol.keep_alive if self._started else self._protocol.filler
            await self._begin(planned)
            await self._send({"type": "http.response.body", "body": filler, "more_body": True})
        except OSError:  # the client has disconnected; the watcher will see it on its next receive
            pass
        finally:
            self._keep_alive_written.set()
            self._keep_alive_written = None

    # ---- streamed and complete answers

    async def _carry_out(self, planned: PlannedTurn, target: Target, request: Request) -> None:
        if request.stream:
            if self._encoder is None:
                self._open_stream(planned, target, request)
            await self._stream(planned, target)
        else:
            await self._complete(planned, target, request)

    async def _complete(self, planned: PlannedTurn, target: Target, request: Request) -> None:
        naming = self._naming(request)
        # Nothing can fail between two batches here, so there is no generator to close.
        events, last_answer = await all_events(planned.turn, self._earlier)
        self._notes += [event.note for event in events if type(event) is Noted]
        self._raise_failure(planned.turn)
        if isinstance(planned.turn, SeveralTurns):
            replies = await asyncio.to_thread(planned.turn.replies)
            ids = [call.id for reply in replies for call in reply.calls]
            bodies = [self._protocol.reply(reply, request, **naming) for reply in replies]
            body = join_replies(bodies, self._protocol.answers)
        elif len(events) > _MANY_EVENTS:
            ids, body = await asyncio.to_thread(
                self._encode_reply, planned, target, request, events, last_answer, naming
            )
        else:
            ids, body = self._encode_reply(planned, target, request, events, last_answer, naming)
        await self._finish(planned, target, ids, body)

    def _raise_failure(self, turn: AnyTurn) -> None:
        assert turn.outcome is not None
        error = error_after(turn.outcome, self._see)
        if error is not None:
            raise error

    def _encode_reply(
        self,
        planned: PlannedTurn,
        target: Target,
        request: Request,
        events: list[Event],
        last_answer: int,
        naming: dict[str, JSONValue],
    ) -> tuple[list[str], bytes]:
        """Return the ids of the calls in an answer, and its body."""
        outcome, protocol = planned.turn.outcome, self._protocol
        assert outcome is not None
        reply = msgspec.structs.replace(fold(events), requests=outcome.requests, warnings=outcome.warnings)
        same_protocol = protocol.ordered and protocol.name == target.maker.resolved.protocol
        if same_protocol and reply.opaque and planned.plan.kind != planned.plan.emulation:
            # The client will send all parts back, and the service requires them in their original order.
            body = protocol.reply(reply, request, events=final_events(events, reply, last_answer), **naming)
        else:
            body = protocol.reply(reply, request, **naming)
        return [call.id for call in reply.calls] if reply.calls else [], body

    async def _finish(self, planned: PlannedTurn, target: Target, ids: list[str], body: bytes) -> None:
        """Send a complete answer. `ids` are those of its calls."""
        target.maker.tool_memory.remember(target.tenant, planned.request, ids)
        await self._store_response(planned.request, body)
        self._started = True
        await respond(self._send, 200, body, headers=self._extension_header(planned))

    def _open_stream(self, planned: PlannedTurn, target: Target, request: Request) -> None:
        turn, naming = planned.turn, self._naming(request)
        make_encoder = turn.encoder if isinstance(turn, SeveralTurns) else self._protocol.encoder
        encoder: Encoder = make_encoder(request, **naming)
        # Only clients that select server tools by name get progress events.
        if target.server_tools:
            encoder = with_progress_events(encoder, turn, self._protocol.name)
        self._encoder = encoder
        resolved = target.maker.resolved
        # The upstream's bytes pass through if protocol, plan and model name are those of the client.
        same = request.model == resolved.model and self._protocol.takes_untouched(planned.plan.kind, resolved.protocol)
        if same and isinstance(encoder, PassthroughEncoder):
            self._passes_bytes = True
            self._encode = encoder.relay
        else:
            self._encode = encoder.encode

    def _encode_batch(self, turn: AnyTurn, batch: list[Event]) -> bytes:
        """Return the bytes of a batch. Those of the last batch are a part of the end."""
        for event in batch:
            if type(event) is CallStart:
                self._call_ids.append(event.id)
            elif type(event) is Noted:
                self._notes.append(event.note)
        if turn.outcome is not None:
            self._last_batch = batch
            return b""
        return self._encode(batch)

    def _encode_end(self, planned: PlannedTurn, target: Target) -> bytes:
        """Return the end of the stream. Raises the turn's error if the client can still get it as a status."""
        assert self._encoder is not None
        if not self._started:
            self._raise_failure(planned.turn)
        # Before the client sees the end of the stream, because its next request may refer to these calls.
        target.maker.tool_memory.remember(target.tenant, planned.request, self._call_ids)
        return self._encoder.encode(self._last_batch) + self._encoder.close(self._extension(planned))

    async def _stream(self, planned: PlannedTurn, target: Target) -> None:
        turn = planned.turn
        batches = turn.batches(passthrough_bytes=self._passes_bytes)
        try:
            async for batch in batches:
                if data := self._encode_batch(turn, batch):
                    if not self._started:
                        await self._begin(planned)
                    await self._write(data)
        finally:
            await batches.aclose()
        end = self._encode_end(planned, target)
        await self._store_response(planned.request, end)
        await self._begin(planned)
        await self._write(end, more=False)

    async def _store_response(self, request: Request, answer: bytes) -> None:
        if self._previous is not None and self._previous.in_use:
            await self._previous.store(request, answer)

    # ---- response

    async def _begin(self, planned: PlannedTurn) -> None:
        """Send the response head of a stream, unless it was already sent."""
        if self._started:
            return
        self._started = True
        headers = self._stream_headers(planned)
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    def _stream_headers(self, planned: PlannedTurn) -> Headers:
        content_type = (b"content-type", self._protocol.stream_type)
        return [content_type, (b"cache-control", b"no-store"), *self._extension_header(planned)]

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        if self._keep_alive_written is not None:
            await self._keep_alive_written.wait()
        self._writes += 1
        self._writing = True
        try:
            await self._send({"type": "http.response.body", "body": data, "more_body": more})
        except OSError as error:
            raise ClientDisconnected("the client closed its connection") from error
        self._writing = False

    async def refuse(self, error: ToolspeakError) -> None:
        """Send an error, either as the response or as the last event of a stream that has begun."""
        self._refusal = str(error)
        self._disconnected = self._disconnected or isinstance(error, ClientDisconnected)
        if self._disconnected:
            return
        if self._started:
            if self._encoder is not None:  # the stream ends without the protocol's normal end marker
                await self._write(self._encoder.encode([Failure(str(error))]), more=False)
            return
        status, body = self._protocol.error(error)
        self._started = True
        headers = [self._id_header(), *error_headers(error, final=self._tools_ran)]
        await respond(self._send, status, body, headers=headers)

    def _id_header(self) -> tuple[bytes, bytes]:
        return b"x-toolspeak", msgspec.json.encode({"id": self._id})

    # ---- metadata

    def _extension(self, planned: PlannedTurn) -> dict[str, JSONValue]:
        upstream, model = self._answering()
        extension: dict[str, JSONValue] = {"id": self._id, **_brief(planned.plan.kind, upstream, model)}
        outcome = planned.turn.outcome
        if outcome is not None:
            extension |= {"requests": outcome.requests, "warnings": list(outcome.warnings)}
        return extension

    def _answering(self) -> tuple[str, str]:
        """Return the upstream that answers, empty while several may still do so, and a model that replaces another."""
        context, target = CURRENT.get(), self._target
        upstream, model = (target.upstream, target.model) if target is not None else ("", "")
        return (context.upstream if context is not None else "") or upstream, model

    def _extension_header(self, planned: PlannedTurn) -> Headers:
        """Return the `x-toolspeak` header, which must be ASCII and limited in size."""
        outcome = planned.turn.outcome
        about = () if outcome is None else (outcome.requests, outcome.warnings)
        rest = _extension_rest(planned.plan.kind, *self._answering(), *about)
        return [(b"x-toolspeak", b'{"id":"%b",%b' % (self._id.encode(), rest))]

    def _record_of(self, planned: PlannedTurn, request: Request) -> RequestRecord:
        plan, turn = planned.plan, planned.turn
        about = (self._id, self._protocol.name, request.model, plan.kind)
        outcome, (upstream, _) = turn.outcome, self._answering()
        if outcome is None:
            error = "the client disconnected" if self._disconnected else "interrupted"
            trace = Trace(plan.kind, plan.rule, plan.why, turn.answered)
            return RequestRecord(*about, turn.requests_sent, (), error, trace, tuple(self._notes), upstream)
        failure = outcome.failure.message if outcome.failure is not None else ""
        warnings, trace = outcome.warnings, outcome.trace
        return RequestRecord(*about, outcome.requests, warnings, failure, trace, tuple(self._notes), upstream)


@lru_cache(256)
def _extension_rest(plan: str, upstream: str, model: str, requests: int = 0, warnings: tuple[str, ...] = ()) -> bytes:
    """Return the `x-toolspeak` header after its id. `requests` is 0 while the turn runs."""
    brief = _brief(plan, upstream, model)
    text = msgspec.json.encode({**brief, **({"requests": requests, "warnings": warnings} if requests else {})})
    if len(text) > _MAX_EXTENSION_BYTES - _ID_BYTES or not text.isascii():
        text = json.dumps(brief).encode()
    return text[1:]


def _brief(plan: str, upstream: str, model: str) -> dict[str, str]:
    places = {"upstream": upstream, "model": model}
    return {"plan": plan, **{name: value for name, value in places.items() if value}}


def for_upstream(request: Request, target: Target) -> Request:
    """Return a request with the upstream's name of the model and the tenant."""
    model, tenant = target.maker.resolved.model, target.tenant
    if request.model == model and request.tenant == tenant:
        return request
    return msgspec.structs.replace(request, model=model, tenant=tenant)


def _with_previous_id(request: Request, previous_id: str) -> Request:
    """Add the id of the previous response to a request, because the answer repeats it."""
    if not previous_id:
        return request
    extra = {**request.options.extra, "previous_response_id": previous_id}
    return msgspec.structs.replace(request, options=msgspec.structs.replace(request.options, extra=extra))
