"""Runs one turn: the engine decides what to do, and this module sends its requests to the upstream."""

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from ..core.events import CallArgs, Event, Failure, Noted, TextDelta, fold
from ..core.types import Request, TextPart
from ..engine.turn.actions import Action, AskUpstream, Done, Emit, StopAttempt, TurnOutcome
from ..engine.turn.passthrough_turn import PassthroughTurn
from ..engine.turn.trace import AttemptTrace, TracedReply
from ..errors import FormatError, ModelError, ToolChoiceError, ToolspeakError, UpstreamError
from ..protocols.shared.passthrough_bytes import RawBatch
from ..upstreams.base import DEADLINE, Batches, Upstream, error_of, failure_of, open_upstream, shorten
from ..upstreams.http.service import Posted
from ..upstreams.http.thin_transport import HttpUpstream

if TYPE_CHECKING:
    from ..engine.turn.engine import Engine

#: Number of characters that are parsed at a time. Parsing more of an expensive text could block the event loop.
SLICE_CHARS = 16 * 1024
#: Number of characters after which an answer is parsed in a worker thread, because the end of a long call takes long.
LONG_ANSWER_CHARS = 64 * 1024
#: CPU seconds of parsing one batch after which the rest of an answer is parsed in a worker thread.
SLOW_SECONDS = 0.005
#: Number of characters in the messages of a request above which calls in the answer are parsed in a worker thread,
#: because they are compared with these messages.
LONG_REQUEST_CHARS = 128 * 1024
#: Time limit in seconds for the interpreter, including its start. It takes at most half of the time left for the turn.
INTERPRETER_SECONDS = 60.0

_END_SECONDS = 0.25  # seconds after a finish reason within which nearly every answer ends

_ONLY_EMIT = frozenset({Emit})
#: A character that may begin a call in an answer.
_CALL_CHAR = re.compile(r"[<{\[(]").search
_CHOICE_HINT = "offer a suitable tool, or set `tool_choice` to `auto`"
_FORMAT_HINT = "relax the schema, or use a stronger model"


class AnyTurn(Protocol):
    """Interface of a turn, or of a series of turns that looks like one."""

    provider: str
    outcome: TurnOutcome | None
    tool_seconds: float  # seconds spent running tools

    @property
    def requests_sent(self) -> int:
        """Number of requests sent so far, which is also the number of the last request."""
        ...

    @property
    def upstream_seconds(self) -> float:
        """Seconds spent waiting for the upstream."""
        ...

    @property
    def first_token_seconds(self) -> float:
        """Seconds until the first output of the upstream."""
        ...

    @property
    def held_seconds(self) -> float:
        """Seconds for which output was held back from the client."""
        ...

    @property
    def answered(self) -> tuple[AttemptTrace, ...]:
        """The requests that were answered completely, even if the turn has not ended."""
        ...

    def batches(self, *, passthrough_bytes: bool = False) -> AsyncGenerator[list[Event], None]:
        """Yield events as they become final. `outcome` is set with the last batch."""
        ...


class Receiver(Protocol):
    """Receives the events of a turn that was started without a task."""

    @property
    def is_paused(self) -> bool:
        """Whether no more events can be received at the moment. Call `read_now` afterwards."""
        ...

    def receive(self, events: list[Event], /) -> None:
        """Receive events that have become final. `outcome` is set with the last ones."""

    def turn_ended(self) -> None:
        """The turn has ended."""

    def turn_broke(self) -> None:
        """An unexpected exception, the current one, has ended the turn."""

    def must_wait(self) -> None:
        """The rest of the turn has to wait for something, so it needs a task."""


class EngineTurn:
    """Runs one turn. Iterate over `batches()`; `outcome` is set with the last batch.

    Closing the iterator cancels the request in progress. `ended` is called with the outcome after the caller has
    received the last event.
    """

    tool_seconds = 0.0
    outcome: TurnOutcome | None = None
    requests_sent = 0
    #: Index of the first event of the last answer. Set by `collect`.
    last_answer_start = 0
    upstream_seconds = 0.0
    first_token_seconds = 0.0
    held_seconds = 0.0
    _started = _over = _interprets = False
    _exchange: Batches | None = None
    _passthrough_bytes = False
    _chars = 0  # characters of text that the engine has parsed
    _is_slow = False  # parsing some of the text took long, or is going to
    _request: Request | None = None  # the current request, until its answer may contain a call
    # Only for a turn that was started without a task.
    _posted: Posted | None = None
    _receiver: Receiver | None = None
    _streams = False
    _waiting_since = 0.0
    _held_since = 0.0  # `upstream_seconds` when the first held-back output arrived; 0 if none is held back

    def __init__(
        self,
        engine: "Engine | PassthroughTurn",
        upstream: Upstream,
        ended: Callable[[TurnOutcome], None] | None = None,
        interpreter: Upstream | None = None,
    ) -> None:
        self._engine = engine
        self.upstream = upstream  # may be replaced before the turn starts
        self._interpreter = interpreter
        self._ended = ended
        self._relays = type(engine) is PassthroughTurn  # so it parses nothing
        self.provider = upstream.provider
        self._actions: deque[Action] = deque()
        self._slices: deque[list[Event]] = deque()  # the rest of a large batch

    @property
    def answered(self) -> tuple[AttemptTrace, ...]:
        return self._engine.completed_attempts

    async def batches(self, *, passthrough_bytes: bool = False) -> AsyncGenerator[list[Event], None]:
        """Yield events in batches. A batch contains everything that became final with one read."""
        self._passthrough_bytes = passthrough_bytes
        self._start()
        try:
            while not self._over:
                batch = await (self._act() if self._actions else self._read_upstream())
                if batch:
                    yield batch
        finally:
            if self._exchange is not None:
                await self._close_exchange()

    async def collect(self, earlier: list[Event] | None = None) -> list[Event]:
        """Return all events at the end, for callers that do not stream. `earlier` events have been received before."""
        events = earlier or []
        self._start()
        try:
            while not self._over:
                request_number = self.requests_sent
                events += await (self._act() if self._actions else self._read_upstream())
                if self.requests_sent != request_number:
                    self.last_answer_start = len(events)
            return events
        finally:
            if self._exchange is not None:
                await self._close_exchange()

    def prepare(self) -> Request:
        """Start the engine and return its first request, without sending it."""
        self._start()
        return next(action.request for action in self._actions if isinstance(action, AskUpstream))

    async def read_ahead(self) -> None:
        """Let the embedded model start to read the first request, without answering it. Other models do nothing."""
        read_ahead = getattr(self.upstream, "read_ahead", None)
        if read_ahead is not None:
            with suppress(ToolspeakError):  # the first question says what is wrong
                await read_ahead(self.prepare())

    def start_now(self, receiver: Receiver, *, passthrough_bytes: bool = False, streams: bool = False) -> bool:
        """Send the first request at once, if that needs no waiting, and pass its events to `receiver`.

        `streams`: whether the receiver needs the events as they arrive. If this returns False, or calls `must_wait`,
        iterate over `batches` or call `collect` for the rest.
        """
        self._start()
        upstream, ask = self.upstream, self._actions[-1]
        if not isinstance(upstream, HttpUpstream) or type(ask) is not AskUpstream:
            return False
        posted = upstream.post_now(ask.request, self._on_ready, passthrough_bytes=passthrough_bytes)
        if posted is None:
            return False
        self._posted, self._receiver = posted, receiver
        self._passthrough_bytes, self._streams = passthrough_bytes, streams
        self._waiting_since = time.perf_counter()
        self._actions.pop()
        self.requests_sent = ask.attempt
        self._request = ask.request
        return True

    def read_now(self) -> None:
        """Process what has arrived while the receiver could not take any."""
        self._on_ready()

    def abort(self) -> None:
        """Close the connection of a turn that was started without a task."""
        posted, self._posted = self._posted, None
        if posted is not None and posted.connection is not None and not posted.over:
            posted.connection.on_ready = None
            posted.connection.abort()

    def _on_ready(self) -> None:
        receiver = self._receiver
        assert receiver is not None
        if receiver.is_paused:
            return
        try:
            self._process_arrived(receiver)
        except Exception:  # a bug; nobody else would notice it
            self.abort()
            receiver.turn_broke()

    def _process_arrived(self, receiver: Receiver) -> None:
        posted, upstream = self._posted, self.upstream
        assert posted is not None and isinstance(upstream, HttpUpstream)
        batch = upstream.poll(posted)
        if batch is not None and not batch:
            return
        self.upstream_seconds += time.perf_counter() - self._waiting_since
        if batch is None or (not self._relays and self._takes_long(batch)):
            if batch:
                upstream.unread(posted, batch)
            self._hand_over(receiver)
            return
        over = posted.over
        if over and not posted.request.stream and not self._streams:
            self.first_token_seconds = self.first_token_seconds or self.upstream_seconds
            self._actions.extend(self._engine.read_whole(self.requests_sent, batch))
            self._act_now(receiver)
            return
        began = time.thread_time()
        self._actions.extend(self._actions_for(batch))
        if self._act_now(receiver) and over and not self._over:
            self._actions.extend(self._feed(None))
            self._act_now(receiver)
        self._waiting_since = time.perf_counter()
        self._is_slow = self._is_slow or time.thread_time() - began > SLOW_SECONDS
        if posted.ends and self._receiver is not None:
            self._on_ready()
        elif not over and posted.answer is not None and posted.answer.finished:
            asyncio.get_running_loop().call_later(_END_SECONDS, self._end_late, receiver)

    def _end_late(self, receiver: Receiver) -> None:
        """Wait in a task for the end of an answer whose finish reason has arrived."""
        if self._receiver is not None and self._posted is not None:
            self._hand_over(receiver)

    def _takes_long(self, batch: list[Event]) -> bool:
        """Whether parsing a batch may take so long that it needs a worker thread."""
        size = _text_size(batch)
        self._chars += size
        if self._request is not None and any(map(_may_begin_call, batch)):
            assert self._posted is not None
            may_be_long = len(self._posted.payload) > LONG_REQUEST_CHARS  # in bytes, with all that is sent
            self._is_slow = self._is_slow or (may_be_long and is_long(self._request))
            self._request = None
        return self._is_slow or size > SLICE_CHARS or self._chars > LONG_ANSWER_CHARS

    def _actions_for(self, batch: list[Event]) -> list[Action]:
        actions = self._feed(batch)
        if not actions or self._held_since or not self.first_token_seconds:
            self._track_timing(batch, actions)
        if type(batch) is not RawBatch or not _ONLY_EMIT.issuperset(map(type, actions)):
            return actions
        if len(actions) == 1:
            return [Emit(batch.after(cast("Emit", actions[0]).events))]
        events = [event for action in actions for event in cast("Emit", action).events]
        return [Emit(batch.after(events))] if events else []

    def _act_now(self, receiver: Receiver) -> bool:
        """Execute all actions. Returns False if one of them has to wait, after handing over to a task."""
        actions = self._actions
        while actions:
            action = actions.popleft()
            if type(action) is Emit:
                receiver.receive(self._with_following(action))
            elif type(action) is Done:
                self._finish(action)
                self._receiver = None  # without a cycle, everything is freed at once
                receiver.turn_ended()
            elif type(action) is StopAttempt:
                self.abort()
            else:
                actions.appendleft(action)
                self._hand_over(receiver)
                return False
        return True

    def _hand_over(self, receiver: Receiver) -> None:
        posted, upstream = self._posted, self.upstream
        if posted is not None and isinstance(upstream, HttpUpstream):
            assert posted.connection is not None
            posted.connection.on_ready = None
            if not posted.over or (posted.answer is not None and posted.answer.has_unread):
                self._exchange = upstream.resume(posted)
        self._receiver = None
        receiver.must_wait()

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._actions.extend(self._engine.start())

    async def _act(self) -> list[Event]:
        """Execute the engine's next action. Returns the events for the caller."""
        action = self._actions.popleft()
        if isinstance(action, Emit):
            return self._with_following(action)
        if not isinstance(action, Done):
            await self._execute(action)
            return []
        self._finish(action)
        return []

    def _finish(self, action: Done) -> None:
        self._over = True
        self.outcome = action.outcome
        if self._ended is not None:
            self._ended(action.outcome)

    def _with_following(self, action: Emit) -> list[Event]:
        events = action.events
        if self._actions and type(self._actions[0]) is Emit:
            events = list(events)
        # A batch with the upstream's own bytes stays as it is.
        while self._actions and type(following := self._actions[0]) is Emit and type(following.events) is not RawBatch:
            events += following.events
            self._actions.popleft()
        if self._actions and isinstance(last := self._actions[0], Done):
            self.outcome = last.outcome
        return events

    async def _execute(self, action: AskUpstream | StopAttempt) -> None:
        if self._exchange is not None:
            await self._close_exchange()
        if isinstance(action, AskUpstream):
            self.requests_sent = action.attempt
            self._request = action.request
            self._interprets = action.interpreter
            if action.interpreter:
                assert self._interpreter is not None
                self._exchange = _ask_interpreter(self._interpreter, action.request)
                return
            passthrough = self._passthrough_bytes
            self._exchange = open_upstream(self.upstream, action.request, passthrough_bytes=passthrough)

    async def _read_upstream(self) -> list[Event]:
        """Read one batch and feed it to the engine. Returns its events, or queues its actions if it does more."""
        batch = self._slices.popleft() if self._slices else await self._next_batch()
        actions = await self._parse(batch)
        if not actions or self._held_since or not self.first_token_seconds:
            self._track_timing(batch, actions)
        if len(actions) == 1 and type(only := actions[0]) is Emit:
            # The common case. Events that the engine leaves unchanged keep their original bytes.
            return batch.after(only.events) if type(batch) is RawBatch else only.events
        if type(batch) is RawBatch and all(type(action) is Emit for action in actions):
            return batch.after([event for action in actions if type(action) is Emit for event in action.events])
        self._actions.extend(actions)
        return []

    async def _next_batch(self) -> list[Event] | None:
        """Wait for a batch of the upstream; None at the end. A large batch is returned slice by slice."""
        assert self._exchange is not None
        began = time.perf_counter()
        batch: list[Event] | None
        try:
            batch = await anext(self._exchange)
        except StopAsyncIteration:
            self._exchange, batch = None, None
        except UpstreamError as error:
            batch = [failure_of(error)]
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The turn itself was not cancelled, but a task inside the upstream was.
            batch = [Failure("the upstream cancelled the request")]
        finally:
            if not self._interprets:
                self.upstream_seconds += time.perf_counter() - began
        size = 0 if batch is None or self._relays else _text_size(batch)
        self._chars += size
        if batch is None or size <= SLICE_CHARS or type(batch) is RawBatch:
            return batch
        self._slices.extend([piece] for event in batch for piece in _sliced(event))
        return self._slices.popleft()

    async def _parse(self, batch: Sequence[Event] | None) -> list[Action]:
        """Feed a batch to the engine, in a worker thread if that may take long."""
        if self._request is not None and batch and any(map(_may_begin_call, batch)):
            self._is_slow = self._is_slow or is_long(self._request)
            self._request = None
        if self._is_slow or self._chars > LONG_ANSWER_CHARS:
            return await asyncio.to_thread(self._feed, batch)
        began = time.thread_time()
        actions = self._feed(batch)
        self._is_slow = time.thread_time() - began > SLOW_SECONDS
        return actions

    def _feed(self, batch: Sequence[Event] | None) -> list[Action]:
        if batch is None:
            return self._engine.end(self.requests_sent)
        if len(batch) == 1:
            return self._engine.feed(self.requests_sent, batch[0])
        return [action for event in batch for action in self._engine.feed(self.requests_sent, event)]

    def _track_timing(self, batch: Sequence[Event] | None, actions: list[Action]) -> None:
        """Update the time to the first token and the time for which output was held back."""
        if batch and not self.first_token_seconds:
            self.first_token_seconds = self.upstream_seconds
        if self._held_since:
            if any(map(_reaches_client, actions)):
                self.held_seconds += self.upstream_seconds - self._held_since
                self._held_since = 0.0
        elif batch and not actions:
            self._held_since = self.upstream_seconds

    async def _close_exchange(self) -> None:
        exchange, self._exchange = self._exchange, None
        self._slices.clear()
        if exchange is not None:
            await exchange.aclose()
            self.abort()  # nothing was read from the exchange yet


async def _ask_interpreter(upstream: Upstream, request: Request) -> Batches:
    """Yield the whole answer, or a failure that says why there is none: the turn goes on without it."""
    events: list[Event]
    seconds = min(INTERPRETER_SECONDS, (DEADLINE.get() - asyncio.get_running_loop().time()) / 2)
    try:
        async with asyncio.timeout(seconds):
            batches = open_upstream(upstream, request, passthrough_bytes=False)
            events = [event async for batch in batches for event in batch]
    except TimeoutError:
        events = [Failure(f"the interpreter took longer than {seconds:.3g} seconds", "timeout")]
    except (ToolspeakError, OSError) as error:
        events = [Failure(f"the interpreter failed: {shorten(str(error))}")]
    yield events


def _text_size(batch: Sequence[Event]) -> int:
    """Return the number of characters in a batch that the engine may have to parse."""
    size = 0
    for event in batch:
        if type(event) is TextDelta:
            size += len(event.text)
        elif type(event) is CallArgs:
            size += len(event.fragment)
    return size


def _may_begin_call(event: Event) -> bool:
    return type(event) is TextDelta and _CALL_CHAR(event.text) is not None


def is_long(request: Request) -> bool:
    """Whether the messages of a request contain so much text that comparing a call with them takes long."""
    size = 0
    for message in request.messages:
        for part in message.parts:
            if type(part) is TextPart:
                size += len(part.text)
        for result in message.results:
            size += len(result.content)
    return size > LONG_REQUEST_CHARS


def _sliced(event: Event) -> list[Event]:
    """Split a long text into several events."""
    if type(event) is not TextDelta:
        return [event]
    text = event.text
    return [TextDelta(text[at : at + SLICE_CHARS]) for at in range(0, len(text), SLICE_CHARS)]


def _reaches_client(action: Action) -> bool:
    """Whether an action sends the client something other than notes, or ends the answer."""
    if isinstance(action, Emit):
        return not all(isinstance(event, Noted) for event in action.events)
    return isinstance(action, Done)


async def all_events(turn: AnyTurn, earlier: list[Event] | None = None) -> tuple[list[Event], int]:
    """Return all events of a turn, and the index where the last answer begins (0 for a series of turns).

    `earlier`: the events of the turn that have been received before.
    """
    if isinstance(turn, EngineTurn):
        return await turn.collect(earlier), turn.last_answer_start
    return [event async for batch in turn.batches() for event in batch], 0


class ReplyCollector:
    """Collects the events of a turn and builds its reply. `protocol` is the upstream's protocol."""

    def __init__(self, turn: AnyTurn, protocol: str) -> None:
        self._turn = turn
        self._protocol = protocol
        self._request_number = 0  # the request being answered
        self._since = 0  # index of the first event of its answer
        self._events: list[Event] = []

    def add(self, batch: list[Event]) -> None:
        if self._request_number != self._turn.requests_sent:
            self._request_number, self._since = self._turn.requests_sent, len(self._events)
        self._events += batch

    def reply(self) -> TracedReply:
        """Build the reply so far. Opaque parts keep the format that the upstream expects in the next request."""
        reply = fold(self._events)
        fields = msgspec.structs.asdict(reply)
        if reply.opaque:
            from ..protocols.assistant_message import assistant_message  # slow: it imports every protocol

            fields["own"] = assistant_message(reply, self._events, self._since, self._protocol)
        outcome = self._turn.outcome
        if outcome is not None:
            fields |= {"requests": outcome.requests, "warnings": outcome.warnings, "record": outcome.trace}
        return TracedReply(**fields)


def error_after(outcome: TurnOutcome, see: str = "`error.reply.trace()`") -> ModelError | None:
    """Return the error with which a turn ended, if any. `see`: where a user finds the details of the turn."""
    failure = outcome.failure
    match failure:
        case None:
            return None
        case Failure(kind="tool_choice"):
            return ToolChoiceError(failure.message, hint=f"{_CHOICE_HINT}; {see} shows every request")
        case Failure(kind="format"):
            return FormatError(failure.message, hint=f"{_FORMAT_HINT}; {see} shows every request")
        case _:
            return error_of(failure)
