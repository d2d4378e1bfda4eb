"""Several answers to one request: one turn for each, and one reply that contains them all.

If the request needs no changes, one request to the upstream asks for all answers. Otherwise each turn sends its own
requests, because an answer may have to be asked for again, whatever the others are like.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from time import monotonic
from typing import Final, TypeAlias

import msgspec

from ...core.events import Event, Failure, Finish, Noted, Reply, UsageSeen, fold
from ...core.types import JSONValue, Note, Request, Usage
from ...engine.turn.actions import TurnOutcome
from ...engine.turn.trace import AttemptTrace
from ...errors import UpstreamError, UsageError
from ...protocols.openai_chat.reply_encoder import ChoicesEncoder
from ...protocols.shared.fields import to_wire
from ...runtime.turn import AnyTurn, EngineTurn
from ...runtime.turn_factory import PlannedTurn, TurnFactory
from ...upstreams.base import OTHER_ANSWERS, Batches, WrappedUpstream
from ...upstreams.codecs import codec
from ...upstreams.http.service import UNKNOWN_FIELD

CHAT: Final = "openai_chat"  # the only protocol in which several answers can be streamed
MAX_ANSWERS = 128  # maximum number of answers to one request, as in OpenAI's API
MAX_CONCURRENT = 4  # maximum number of turns of one request that run at the same time
#: Statuses with which an upstream may refuse a request for several answers.
_REFUSALS = frozenset({400, 422})
#: Matches a refusal by an upstream that does not know `n`. Others may concern this one request.
_UNKNOWN_N = re.compile(r"(?<![\w\\])n(?!\w)").search
#: Seconds until an upstream is asked for several answers again, and the maximum number of tenants to remember.
_SECONDS_SINGLE = 3600.0
_MAX_TENANTS = 256
_SEPARATE = Note("answers_requested_separately", "the upstream does not give several answers to one request")
#: Batches of turns, by number. An error ends all turns, and None the one turn.
_Queue: TypeAlias = asyncio.Queue[tuple[int, list[Event] | Exception | None]]


def single_requests(request: Request, *, streams: bool) -> list[Request]:
    """Return one request per answer. With a seed, each gets its own, because equal seeds give equal answers.

    Raises:
        UsageError: there are too many answers, or they cannot be streamed.
    """
    options = request.options
    if options.n <= 1:
        return [request]
    if options.n > MAX_ANSWERS:
        raise UsageError(f"a request can have at most {MAX_ANSWERS} answers", hint="send several requests")
    if request.stream and not streams:
        raise UsageError("several answers cannot be streamed in this protocol", hint="send one request per answer")
    seeds = [None if options.seed is None else options.seed + at for at in range(options.n)]
    each_options = [msgspec.structs.replace(options, n=1, seed=seed) for seed in seeds]
    return [msgspec.structs.replace(request, options=each) for each in each_options]


def join_turns(planned: Sequence[PlannedTurn], maker: TurnFactory, tenant: str) -> PlannedTurn:
    """Return the turns of several answers as one. Raises UsageError if they would run server tools several times."""
    if any(each.served for each in planned):
        raise UsageError("several answers are not possible with tools that the server runs", hint="set `n` to 1")
    turns = [each.turn for each in planned]
    plain = [turn for turn in turns if isinstance(turn, EngineTurn)] if planned[0].plan.kind == "pass" else []
    singly = monotonic() < maker.single_answers.get(tenant, 0.0)
    if len(plain) < len(turns) or singly or not codec(maker.resolved.protocol).several_answers:
        return planned[0]._replace(turn=SeveralTurns(turns))
    shared = SharedRequest(maker, tenant, len(turns))
    for turn in plain:
        turn.upstream = shared
    return planned[0]._replace(turn=SeveralTurns(turns, shared))


class SharedRequest(WrappedUpstream):
    """The upstream of turns that share one request for `n` answers.

    The first turn sends the request. Each of the others gets one of the answers; if none is left for it, it sends a
    request of its own.
    """

    def __init__(self, maker: TurnFactory, tenant: str, n: int) -> None:
        super().__init__(maker.resolved.upstream)
        self._single_answers = maker.single_answers
        self._tenant = tenant
        self._n = n
        self._opened = 0
        #: The batches for the other turns. None ends an answer.
        self._queues = {at: asyncio.Queue[list[Event] | None]() for at in range(1, n)}
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        #: The numbers of the answers that needed no request of their own.
        self.delivered: set[int] = set()

    async def _batches(self, request: Request, *, passthrough_bytes: bool) -> Batches:
        at, self._opened = self._opened, self._opened + 1
        requests = [request]
        if at:
            while batch := await self._queues[at].get():
                yield batch
            if at in self.delivered:
                return
            yield [Noted(_SEPARATE)]
        else:
            OTHER_ANSWERS.set(self._deliver)
            options = msgspec.structs.replace(request.options, n=self._n)
            requests.insert(0, msgspec.structs.replace(request, options=options))
        for each in requests:
            try:
                async with self._slots, aclosing(self._upstream.open(each)) as batches:
                    async for batch in batches:
                        yield batch
                self._note_answers(each)
                break
            except UpstreamError as error:  # raised before the first batch
                if each is request or error.upstream_status not in _REFUSALS:
                    raise  # the other turns need not be told, because a failure ends all turns
                self._note_answers(each, error)
        if not at:
            for queue in self._queues.values():
                queue.put_nowait(None)

    def _note_answers(self, request: Request, refusal: UpstreamError | None = None) -> None:
        """Remember for a while if this tenant gets one answer only, or the upstream does not know `n`."""
        text = f"{refusal} {refusal.body}" if refusal is not None else ""
        if request.options.n == 1 or self.delivered or (text and not (_UNKNOWN_N(text) and UNKNOWN_FIELD(text))):
            return
        if len(self._single_answers) >= _MAX_TENANTS:
            self._single_answers.clear()
        self._single_answers[self._tenant] = monotonic() + _SECONDS_SINGLE

    def _deliver(self, at: int, events: list[Event]) -> None:
        self.delivered.add(at)
        self._queues[at].put_nowait(events)


class SeveralTurns:
    """Runs the turns of several answers, some of them at the same time. Looks like one turn.

    The events of a batch belong to the answer with the number `current`. The first failure ends all turns.
    """

    tool_seconds = 0.0

    def __init__(self, turns: Sequence[AnyTurn], shared: SharedRequest | None = None) -> None:
        self._turns = turns
        self._shared = shared
        self._answers: list[list[Event]] = [[] for _ in turns]
        self._usage = Usage()
        self.provider = turns[0].provider
        self.outcome: TurnOutcome | None = None
        self.current = 0

    @property
    def requests_sent(self) -> int:
        saved = len(self._shared.delivered) if self._shared is not None else 0
        return sum(turn.requests_sent for turn in self._turns) - saved

    @property
    def upstream_seconds(self) -> float:
        return max(turn.upstream_seconds for turn in self._turns)

    @property
    def first_token_seconds(self) -> float:
        return min((turn.first_token_seconds for turn in self._turns if turn.first_token_seconds), default=0.0)

    @property
    def held_seconds(self) -> float:
        return max(turn.held_seconds for turn in self._turns)

    @property
    def answered(self) -> tuple[AttemptTrace, ...]:
        return tuple(attempt for turn in self._turns for attempt in turn.answered)

    async def batches(self, *, passthrough_bytes: bool = False) -> AsyncGenerator[list[Event], None]:
        """Yield the events of all turns in batches. The original bytes are never kept."""
        queue: _Queue = asyncio.Queue(1)
        slots = asyncio.Semaphore(MAX_CONCURRENT if self._shared is None else len(self._turns))
        tasks = [asyncio.create_task(self._run(at, slots, queue)) for at in range(len(self._turns))]
        failure: Failure | None = None
        ended = 0
        try:
            while ended < len(tasks) and failure is None:
                self.current, item = await queue.get()
                if item is None:
                    ended += 1
                elif isinstance(item, Exception):
                    raise item
                else:
                    failure = next((event for event in item if isinstance(event, Failure)), None)
                    if failure is None and (batch := self._record(item)):
                        yield batch
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        yield self._end(failure)

    async def _run(self, at: int, slots: asyncio.Semaphore, queue: _Queue) -> None:
        try:
            async with slots, aclosing(self._turns[at].batches()) as batches:
                async for batch in batches:
                    await queue.put((at, batch))
            await queue.put((at, None))
        except Exception as error:  # raised by the consumer, which would wait for ever
            await queue.put((at, error))

    def _record(self, batch: list[Event]) -> list[Event]:
        """Record the events of a batch. Returns them without the usage, which is sent once for all answers."""
        self._usage = sum((event.usage for event in batch if isinstance(event, UsageSeen)), self._usage)
        events: list[Event] = [event for event in batch if not isinstance(event, UsageSeen)]
        self._answers[self.current] += events
        return events

    def _end(self, failure: Failure | None) -> list[Event]:
        """Set the outcome of all turns. Returns the last batch."""
        outcomes = [turn.outcome for turn in self._turns if turn.outcome is not None]
        trace = msgspec.structs.replace(outcomes[0].trace, attempts=self.answered)
        warnings = dict.fromkeys(warning for outcome in outcomes for warning in outcome.warnings)
        self.outcome = TurnOutcome(self.requests_sent, tuple(warnings), failure, trace)
        if failure is not None:
            return [UsageSeen(self._usage), failure, Finish("error")]
        self.current = len(self._turns) - 1
        return [UsageSeen(self._usage)]

    def replies(self) -> list[Reply]:
        """Return the replies. The first one has the usage of all of them."""
        replies = [fold(events) for events in self._answers]
        return [msgspec.structs.replace(replies[0], usage=self._usage), *replies[1:]]

    def encoder(self, request: Request, *, id: str, created: int, model: str) -> ChoicesEncoder:
        return ChoicesEncoder(request, lambda: self.current, id=id, created=created, model=model)


def join_replies(bodies: Sequence[bytes], field: str) -> bytes:
    first, *others = (msgspec.json.decode(body) for body in bodies)
    answers: list[dict[str, JSONValue]] = [each for body in (first, *others) for each in body.get(field, ())]
    return to_wire({**first, field: [{**answer, "index": at} for at, answer in enumerate(answers)]})
