"""One turn carried out: an engine that decides, an upstream that answers.

The only place where the two meet.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from ..core.events import Event, Failure, Noted, fold
from ..engine.turn.actions import Action, Ask, Done, Emit, Outcome, Stop
from ..engine.turn.passthrough import Passage
from ..engine.turn.trace import AttemptTrace, TracedReply
from ..errors import FormatError, ModelError, ToolChoiceError, UpstreamError
from ..protocols.shared.passthrough_bytes import Quoted
from ..upstreams.base import Batches, Upstream, error_of, failure_of

if TYPE_CHECKING:
    from ..engine.turn.engine import Engine

_SEE = "`error.reply.trace()` shows every request"
_CHOICE_HINT = f"offer the tool that is needed, or allow `auto`; {_SEE}"
_FORMAT_HINT = f"loosen the schema, or ask a stronger model; {_SEE}"


class AnyTurn(Protocol):
    """What can be carried out like a turn: a turn, or a row of them that looks like one."""

    provider: str
    #: The number of the request that was sent last.
    asked: int
    outcome: Outcome | None
    #: Seconds: spent waiting for the upstream; of these, those until its first token, and those in which it wrote and
    #: nothing of it could go on yet; and those in which tools ran.
    waited: float
    first_token: float
    held: float
    tooled: float

    @property
    def answered(self) -> tuple[AttemptTrace, ...]:
        """The requests whose answers are over, also of a turn that has no outcome."""
        ...

    def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events, as they become certain; `outcome` is there with the last of them."""
        ...


class Turn:
    """Iterate over `batches()` for the events; `outcome` is there with the last of them.

    Closing the iterator cancels whatever is under way upstream. `ended` is told the outcome once the caller has taken
    the last event.
    """

    def __init__(
        self, engine: Engine | Passage, upstream: Upstream, ended: Callable[[Outcome], None] | None = None
    ) -> None:
        self._engine = engine
        self._upstream = upstream
        self._ended = ended
        self.provider = upstream.provider
        self._actions: deque[Action] = deque()
        self._over = False
        self._exchange: Batches | None = None
        #: The number of the request that was sent last.
        self.asked = 0
        self.outcome: Outcome | None = None
        #: Of `whole`: where the events of the last answer begin.
        self.since = 0
        #: Seconds, as `AnyTurn` tells them, so far.
        self.waited = 0.0
        self.first_token = 0.0
        self.held = 0.0
        self.tooled = 0.0
        #: How long was waited when the first of what is held back was read.
        self._held_since = 0.0

    @property
    def answered(self) -> tuple[AttemptTrace, ...]:
        """The requests whose answers are over."""
        return self._engine.answered

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events of the turn: what one read made certain comes together, as soon as it is certain."""
        self._actions.extend(self._engine.start())
        try:
            while not self._over:
                batch = await (self._act() if self._actions else self._listen())
                if batch:
                    yield batch
        finally:
            if self._exchange is not None:
                await self._hang_up()

    async def whole(self) -> list[Event]:
        """All events at once, for who passes none of them on before the last."""
        events: list[Event] = []
        self._actions.extend(self._engine.start())
        try:
            while not self._over:
                asked = self.asked
                events += await (self._act() if self._actions else self._listen())
                if self.asked != asked:
                    self.since = len(events)
            return events
        finally:
            if self._exchange is not None:
                await self._hang_up()

    async def _act(self) -> list[Event]:
        """Do what the engine wants next; gives what leaves by it."""
        action = self._actions.popleft()
        if isinstance(action, Emit):
            return self._with_following(action)
        if not isinstance(action, Done):
            await self._carry_out(action)
            return []
        self._over = True
        self.outcome = action.outcome
        if self._ended is not None:
            self._ended(action.outcome)
        return []

    def _with_following(self, action: Emit) -> list[Event]:
        events = list(action.events)
        while self._actions and isinstance(following := self._actions[0], Emit):
            events += following.events
            self._actions.popleft()
        if self._actions and isinstance(last := self._actions[0], Done):
            self.outcome = last.outcome
        return events

    async def _carry_out(self, action: Ask | Stop) -> None:
        if self._exchange is not None:
            await self._hang_up()
        if isinstance(action, Ask):
            self.asked = action.attempt
            self._exchange = self._upstream.open(action.request)

    async def _listen(self) -> list[Event]:
        """One read, and what leaves by it at once, if that is all there is to do."""
        assert self._exchange is not None
        began = time.perf_counter()
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
            # Nobody cancels the turn: something upstream was, and that ended the answer.
            batch = [Failure("the answer was cancelled by the upstream itself")]
        finally:
            self.waited += time.perf_counter() - began
        if batch is None:
            actions = self._engine.end(self.asked)
        elif len(batch) == 1:
            actions = self._engine.feed(self.asked, batch[0])
        else:
            actions = [action for event in batch for action in self._engine.feed(self.asked, event)]
        if not actions or self._held_since or not self.first_token:
            self._time(batch, actions)
        if len(actions) == 1 and type(only := actions[0]) is Emit:
            # Nearly every read of a stream. What the engine leaves as it was goes on with the bytes that said it.
            return batch.after(only.events) if type(batch) is Quoted else only.events
        if type(batch) is Quoted and all(type(action) is Emit for action in actions):
            return batch.after([event for action in actions if type(action) is Emit for event in action.events])
        self._actions.extend(actions)
        return []

    def _time(self, batch: Sequence[Event] | None, actions: list[Action]) -> None:
        """A read that was the first, or of which nothing went on, or behind one like that."""
        if batch and not self.first_token:
            self.first_token = self.waited
        if self._held_since:
            if any(map(_goes_on, actions)):
                self.held += self.waited - self._held_since
                self._held_since = 0.0
        elif batch and not actions:
            self._held_since = self.waited

    async def _hang_up(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.aclose()


def _goes_on(action: Action) -> bool:
    """Whether something reaches whoever reads the answer, or ends it. Notes are told beside it."""
    if isinstance(action, Emit):
        return not all(isinstance(event, Noted) for event in action.events)
    return isinstance(action, Done)


async def all_events(turn: AnyTurn) -> tuple[list[Event], int]:
    """The events of a turn, once all are there, and where those of its last answer begin; of a row of turns, all do."""
    if isinstance(turn, Turn):
        return await turn.whole(), turn.since
    return [event async for batch in turn.batches() for event in batch], 0


class Told:
    """What a turn has told so far, and the reply that it makes. `protocol` is what its upstream speaks."""

    def __init__(self, turn: AnyTurn, protocol: str) -> None:
        self._turn = turn
        self._protocol = protocol
        self._asked = 0  # the request whose answer is read, and where that begins
        self._since = 0
        self._events: list[Event] = []

    def add(self, batch: list[Event]) -> None:
        """A batch came."""
        if self._asked != self._turn.asked:
            self._asked, self._since = self._turn.asked, len(self._events)
        self._events += batch

    def reply(self) -> TracedReply:
        """All of it, with what only its upstream can read as that wants it back."""
        reply = fold(self._events)
        fields = msgspec.structs.asdict(reply)
        if reply.opaque:
            from ..protocols.assistant_message import message_of  # it knows all protocols

            fields["own"] = message_of(reply, self._events, self._since, self._protocol)
        outcome = self._turn.outcome
        if outcome is not None:
            fields |= {"requests": outcome.requests, "warnings": outcome.warnings, "record": outcome.trace}
        return TracedReply(**fields)


def error_after(outcome: Outcome) -> ModelError | None:
    """The error that a turn ended with, if it did."""
    failure = outcome.failure
    match failure:
        case None:
            return None
        case Failure(kind="tool_choice"):
            return ToolChoiceError(failure.message, hint=_CHOICE_HINT)
        case Failure(kind="format"):
            return FormatError(failure.message, hint=_FORMAT_HINT)
        case _:
            return error_of(failure)
