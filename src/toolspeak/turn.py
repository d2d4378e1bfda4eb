"""One turn carried out: an engine that decides, an upstream that answers.

The only place where the two meet. Above: client, agent, probe, server. Below: `core.engine`, `upstreams.seam`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

import msgspec

from .core.engine import Action, Ask, Done, Emit, Engine, Outcome, Stop
from .core.events import Event, Failure, fold
from .core.passage import Passage
from .core.trace import TracedReply
from .errors import FormatError, ModelError, ToolChoiceError, UpstreamError
from .protocols.said import message_of
from .upstreams.seam import Batches, Upstream, error_of, failure_of

__all__ = ["AnyTurn", "Told", "Turn", "error_after"]

_SEE = "`error.reply.trace()` shows every request"
_CHOICE_HINT = f"offer the tool that is needed, or allow `auto`; {_SEE}"
_FORMAT_HINT = f"loosen the schema, or ask a stronger model; {_SEE}"


class AnyTurn(Protocol):
    """What can be carried out like a turn: a turn, or a row of them that looks like one."""

    provider: str
    #: The number of the request that was sent last.
    asked: int
    outcome: Outcome | None
    waited: float

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
        self._exchange: Batches | None = None
        #: The number of the request that was sent last.
        self.asked = 0
        self.outcome: Outcome | None = None
        #: Seconds spent waiting for the upstream so far.
        self.waited = 0.0

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events of the turn: what one read made certain comes together, as soon as it is certain."""
        self._actions.extend(self._engine.start())
        try:
            while True:
                while self._actions:
                    action = self._actions.popleft()
                    if isinstance(action, Emit):
                        yield self._with_following(action)
                    elif isinstance(action, Done):
                        self.outcome = action.outcome
                        if self._ended is not None:
                            self._ended(action.outcome)
                        return
                    else:
                        await self._carry_out(action)
                actions = await self._listen()
                if len(actions) == 1 and type(only := actions[0]) is Emit:
                    yield only.events  # nearly every read of a stream
                else:
                    self._actions.extend(actions)
        finally:
            if self._exchange is not None:
                await self._hang_up()

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

    async def _listen(self) -> list[Action]:
        """One read, and what the engine makes of it."""
        assert self._exchange is not None
        began = time.perf_counter()
        try:
            batch = await anext(self._exchange)
        except StopAsyncIteration:
            self._exchange = None
            return self._engine.end(self.asked)
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
        if len(batch) == 1:
            return self._engine.feed(self.asked, batch[0])
        return [action for event in batch for action in self._engine.feed(self.asked, event)]

    async def _hang_up(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.aclose()


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
