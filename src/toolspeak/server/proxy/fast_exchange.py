"""Model requests that are answered without a task: by callbacks, from the client's bytes to the upstream's and back.

An ordinary request never has to wait for anything but its upstream. Its body has arrived, its plan is computed at once,
an idle connection to the upstream is in the pool, and each piece of the answer is processed when it arrives. As soon as
something has to wait, such as a retry or a parser that needs a worker thread, the exchange goes on in a task, as every
other exchange does from its start (`Exchange`).
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...core.events import Event, Failure, Noted
from ...core.types import JSONObject, JSONValue, Request
from ...errors import ToolspeakError
from ...runtime.turn import EngineTurn
from ...runtime.turn_factory import PlannedTurn
from ..access.auth import Caller, own_secrets
from ..access.limits import check_request, read_object, routing_notes
from ..asgi import Headers, error_headers
from ..observe.request_context import RequestContext
from .exchange import CHECKS_BEFORE_START, Exchange, for_upstream
from .previous_responses import RESPONSES, PreviousResponses
from .upstream_router import Recipe, Target

if TYPE_CHECKING:
    from ..http.http_request import HttpRequest

_log = logging.getLogger("toolspeak.server")


class FastExchange(Exchange):
    """One request and its answer. `finished` is called at the end, and `goes_on` if the rest needs a task."""

    _http: "HttpRequest"
    _context: RequestContext
    finished: Callable[[], None]
    goes_on: Callable[[], None]
    _silent = 0
    _seen_writes = 0
    _client_request: Request

    def plan_now(self, body: bytes, fields: Mapping[str, JSONValue], caller: Caller) -> bool:
        """Plan the turn. Returns False if that has to wait for something. Raises ToolspeakError."""
        self._fields = fields
        self._secrets = own_secrets(self._scope)
        self._body = body
        protocol, gateway = self._protocol, self._gateway
        values: JSONObject = {}  # needed only where there is no `decode_body`
        request = protocol.decode_body(body, **fields) if protocol.decode_body is not None else None
        if request is None:
            values = read_object(body)
            request = protocol.decode(values, **fields)
        self._request = self._client_request = request
        recipe = gateway.recipe(request, caller)
        if recipe is not None and self._plan_from(recipe, request):
            return True
        check_request(request, len(body))
        self._target = target = gateway.target(request, caller)
        memory = target.maker.tool_memory
        if memory.is_shared or gateway.runs_server_tools or request.options.n > 1 or protocol.needs_store(request):
            return False
        if protocol.loads_models and not request.messages:
            return False
        self._prepare_store(target, values or body)
        notes = (*routing_notes(request), *protocol.request_notes(values))
        planned = target.maker.make(for_upstream(request, target), target.settings, target.tenant, notes, self._see)
        self._adopt(planned, request, target)
        if not values:
            gateway.remember_recipe(request, caller, target, planned, notes)
        return isinstance(planned.turn, EngineTurn)

    def _plan_from(self, recipe: Recipe, request: Request) -> bool:
        """Plan the turn as that of an earlier request. Returns False if it may have to be planned differently."""
        target, protocol = recipe.target, self._protocol
        if protocol.needs_store(request):
            return False
        self._prepare_store(target, self._body)
        planned = target.maker.make_from(recipe.turn, for_upstream(request, target), self._see)
        if planned is None:
            return False
        self._target, self._planned, self._request = target, planned, planned.request
        return True

    def _prepare_store(self, target: Target, body: Mapping[str, JSONValue] | bytes) -> None:
        """Prepare to store the answer, if the client's protocol can refer to it later."""
        protocol = self._protocol.name
        if protocol == RESPONSES:
            self._previous = PreviousResponses(target.maker.tool_memory, target.tenant, protocol, body)

    def start_now(self, http: "HttpRequest", context: RequestContext) -> bool:
        """Send the request upstream. Returns False if there is no idle connection."""
        planned, target, request = self._known()
        turn = planned.turn
        assert isinstance(turn, EngineTurn)
        if request.stream:
            self._open_stream(planned, target, request)
        self._http, self._context = http, context
        if not turn.start_now(self, passthrough_bytes=self._passes_bytes, streams=request.stream):
            return False
        self._turn = turn
        http.on_lost, http.on_pause = self._client_lost, self._client_paused
        return True

    def give_up(self) -> None:
        """Undo `start_now`."""
        if isinstance(self._turn, EngineTurn):
            self._turn.abort()

    def _known(self) -> tuple[PlannedTurn, Target, Request]:
        assert self._planned is not None and self._target is not None
        return self._planned, self._target, self._client_request

    @property
    def is_paused(self) -> bool:
        return self._http.connection.write_paused

    def receive(self, events: list[Event], /) -> None:
        """Send the events to the client, or collect them if the answer is not streamed."""
        assert self._turn is not None
        if self._encoder is None:
            self._earlier += events
            return
        if data := self._encode_batch(self._turn, events):
            self._write_now(data)

    def turn_ended(self) -> None:
        """Send the answer, or its end."""
        planned, target, request = self._known()
        try:
            if self._encoder is not None:
                end = self._encode_end(planned, target)
                self._store_now(planned.request, end)
                self._write_now(end, more=False)
            else:
                self._answer_now(planned, target, request)
        except ToolspeakError as error:
            self._refuse_now(error)
        except Exception:
            self._fail_now()
        self._end()

    def _answer_now(self, planned: PlannedTurn, target: Target, request: Request) -> None:
        events = self._earlier
        if Noted in set(map(type, events)):
            self._notes += [event.note for event in events if type(event) is Noted]
        self._raise_failure(planned.turn)
        ids, body = self._encode_reply(planned, target, request, events, 0, self._naming(request))
        target.maker.tool_memory.remember(target.tenant, planned.request, ids)
        self._store_now(planned.request, body)
        self._respond_now(200, body, self._extension_header(planned))

    def _store_now(self, request: Request, answer: bytes) -> None:
        if self._previous is not None:
            self._previous.store_now(request, answer)

    def must_wait(self) -> None:
        """Go on in a task."""
        self._http.on_lost = self._http.on_pause = None
        self._turn = None
        goes_on = self.goes_on
        self._forget_callbacks()
        goes_on()

    async def go_on(self) -> None:
        """Run the rest of the exchange, which has to wait for something."""
        planned, target, request = self._known()
        try:
            await self._watched(planned, target, request)
        except ToolspeakError as error:
            await self.refuse(error)
        except Exception:
            _log.exception("request %s failed", self._id)
            await self.refuse(self._internal_error())

    def _write_now(self, data: bytes, *, more: bool = True) -> None:
        if not self._started:
            assert self._planned is not None
            self._started = True
            self._start_response(200, self._stream_headers(self._planned))
        self._writes += 1
        self._http.write(data, more)

    def _respond_now(self, status: int, body: bytes, headers: Headers) -> None:
        self._started = True
        length = str(len(body)).encode()
        self._start_response(status, [(b"content-type", b"application/json"), (b"content-length", length), *headers])
        self._http.write(body, False)

    def _start_response(self, status: int, headers: Headers) -> None:
        context = self._context
        context.response_started = time.perf_counter()
        context.status = status
        self._http.start(status, [*headers, (b"x-request-id", context.id.encode())])

    def _refuse_now(self, error: ToolspeakError) -> None:
        """Send an error, either as the response or as the last event of a stream that has begun."""
        self._refusal = str(error)
        if self._started:
            if self._encoder is not None:
                self._http.write(self._encoder.encode([Failure(str(error))]), False)
            return
        status, body = self._protocol.error(error)
        self._respond_now(status, body, [self._id_header(), *error_headers(error)])

    def turn_broke(self) -> None:
        """Send an error about a bug, and log the traceback."""
        self._fail_now()
        self._end()

    def _fail_now(self) -> None:
        _log.exception("request %s failed", self._id)
        if not self._http.response_complete:
            self._refuse_now(self._internal_error())

    def _client_paused(self, paused: bool) -> None:
        if not paused and isinstance(self._turn, EngineTurn):
            self._turn.read_now()

    def _client_lost(self) -> None:
        assert isinstance(self._turn, EngineTurn)
        self._disconnected = True
        self._turn.abort()
        self._end()

    def break_off(self, error: ToolspeakError) -> None:
        """End the exchange with an error, because the server shuts down."""
        assert isinstance(self._turn, EngineTurn)
        self._turn.abort()
        self._refuse_now(error)
        self._end()

    def keep_alive_if_silent(self) -> None:
        """Send a keep-alive if nothing was written to the stream since the last call."""
        if self._encoder is None or self.is_paused:
            return
        self._silent = self._silent + 1 if self._writes == self._seen_writes else 0
        if self._silent >= (1 if self._started else CHECKS_BEFORE_START):
            self._write_now(self._protocol.keep_alive if self._started else self._protocol.filler)
        self._seen_writes = self._writes

    def _end(self) -> None:
        planned, _, request = self._known()
        self._http.on_lost = self._http.on_pause = None
        self._record = self._record_of(planned, request)
        finished = self.finished
        self._forget_callbacks()
        finished()

    def _forget_callbacks(self) -> None:
        """Break a reference cycle, so that the bytes of the request are freed as soon as it has ended."""
        del self.finished, self.goes_on
