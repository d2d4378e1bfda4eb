"""A turn that keeps its requests within the model's context window. To its caller it looks like any other turn.

A request that is too long by estimate is compacted before it is sent. If the upstream still says that it is too long,
the turn learns the size of the window, compacts the request further and repeats it, as long as nothing was emitted.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from itertools import count
from typing import Literal, TypeVar

import msgspec

from ..core.events import Event, Failure, Finish, Noted, UsageSeen, fold
from ..core.text import counted
from ..core.types import Message, Note, Options, Request, ToolChoice, Usage
from ..engine.context.compaction import (
    Shortened,
    last_rounds,
    removable,
    shorten_results,
    summary_ends,
    summary_keys,
    task_of,
    with_summary,
)
from ..engine.context.complaints import ContextComplaint, context_complaint
from ..engine.context.shortening import is_read_more
from ..engine.context.sizes import messages_tokens, prompt_limit, request_tokens, text_tokens
from ..engine.context.summaries import excerpt, fit_text, summary_prompt, take_lines, transcript
from ..engine.turn.actions import TurnOutcome
from ..engine.turn.trace import AttemptTrace, Trace
from .turn import EngineTurn, is_long

#: How often a request is compacted further and repeated after the upstream found it too long.
MAX_REPEATS = 3
_HARDER = 0.85  # how much less a repeated request may take each time
#: Attempts to compact a request until it fits as the upstream will see it, with its tool prompt.
_PASSES = 3
_MAX_SUMMARY_REQUESTS = 8  # maximum number of requests for one summary
#: Share and maximum of a summary in the tokens of a prompt.
_SUMMARY_SHARE, _MAX_SUMMARY_TOKENS = 5, 1500
_INSTRUCTIONS = 150  # tokens of the instructions in a request for a summary
#: How far above the window an estimate must be for a request that cannot be compacted to fail unsent: with an estimate
#: that is not calibrated, and with one that is.
_HOPELESS, _HOPELESS_CALIBRATED = 2.0, 1.25
#: Requests below this size say little about the ratio between real and estimated tokens.
_MIN_CALIBRATION = 200
#: Bounds of that ratio. Estimates are hardly ever much too high, but some services do not count cached tokens.
_MIN_RATIO, _MAX_RATIO = 0.7, 4.0
#: If an upstream does not say how large its window is, assume this share of the request that it found too long.
_GUESS = 0.6
_MAX_SUMMARIES = 512  # maximum number of stored summaries per model
#: An answer of at most this many tokens that ends at the length limit had no room: the prompt filled the window.
_NO_ROOM_TOKENS, _MIN_ANSWER_TOKENS = 1, 16

_METADATA = (Noted, UsageSeen, Finish, Failure)

Compact = Literal["results", "summary"]
T = TypeVar("T")


class ContextMemory:
    """What is known about the context window of one model, and summaries of conversations with it."""

    def __init__(self) -> None:
        #: The window by the upstream's own words, or a guess; 0 if it never complained.
        self.window = 0
        #: Real tokens per estimated token.
        self.ratio = 1.0
        self.calibrated = False
        self._summaries: OrderedDict[tuple[str, bytes], str] = OrderedDict()

    def calibrate(self, estimated: int, real: int) -> None:
        """Compare an estimate with the upstream's own count. A higher ratio counts at once, a lower one gradually."""
        if estimated < _MIN_CALIBRATION or real <= 0:
            return
        ratio = min(max(real / estimated, _MIN_RATIO), _MAX_RATIO)
        self.ratio = ratio if ratio > self.ratio or not self.calibrated else (3 * self.ratio + ratio) / 4
        self.calibrated = True
        if real > self.window:  # the window has become larger
            self.window = 0

    def learn(self, complaint: ContextComplaint, estimated: int) -> None:
        """Learn from the upstream's complaint about a request of this estimated size."""
        used = complaint.used
        # A window that is much larger than the request cannot be the reason.
        stated = complaint.window if used or complaint.window <= estimated * _MAX_RATIO else 0
        window = stated or int(_GUESS * (used or estimated * self.ratio))
        # If the upstream does not say how long the prompt was, it was longer than the window.
        self.calibrate(estimated, used or int(stated * 1.1))
        self.window = window

    def summary(self, tenant: str, key: bytes) -> str:
        return self._summaries.get((tenant, key), "")

    def store_summary(self, tenant: str, key: bytes, text: str) -> None:
        self._summaries[tenant, key] = text
        if len(self._summaries) > _MAX_SUMMARIES:
            self._summaries.popitem(last=False)


class CompactingTurn:
    """A turn whose requests are compacted if they would not fit the context window.

    Args:
        compact: `results` shortens tool results, `summary` also replaces old rounds with a summary.
        make: makes the turn for a compacted request.
        memory: what is known about the model, shared by its turns.
        window: the size of the window in tokens; 0 if it is not known.
        tenant: whose summaries may be used.
        notes: notes made about the request so far.
    """

    def __init__(
        self,
        request: Request,
        compact: Compact,
        make: Callable[[Request], EngineTurn],
        memory: ContextMemory,
        window: int,
        tenant: str,
        notes: tuple[Note, ...] = (),
    ) -> None:
        self._request = request
        self._compact = compact
        self._make = make
        self._memory = memory
        self._known_window = window
        self._tenant = tenant
        self._notes = notes
        self._turn = make(request)
        self._is_long = is_long(request)
        self._read_more = any(map(is_read_more, request.tools))
        self._earlier: list[EngineTurn] = []  # turns for summaries, and those that the upstream found too long
        self._earlier_attempts: list[AttemptTrace] = []
        self._estimate = 0  # of the current request
        self._warnings: list[str] = []
        self.provider = self._turn.provider
        self.outcome: TurnOutcome | None = None
        self.tool_seconds = 0.0

    @property
    def requests_sent(self) -> int:
        return sum(turn.requests_sent for turn in self._turns)

    @property
    def upstream_seconds(self) -> float:
        return sum(turn.upstream_seconds for turn in self._turns)

    @property
    def first_token_seconds(self) -> float:
        return self._turn.first_token_seconds

    @property
    def held_seconds(self) -> float:
        return self._turn.held_seconds

    @property
    def answered(self) -> tuple[AttemptTrace, ...]:
        return (*self._earlier_attempts, *self._turn.answered)

    @property
    def _turns(self) -> list[EngineTurn]:
        return [*self._earlier, self._turn]

    async def batches(self, *, passthrough_bytes: bool = False) -> AsyncGenerator[list[Event], None]:
        """Yield the events of the turn that was answered. Bytes pass through only if nothing was compacted."""
        if self._notes:
            yield [Noted(note) for note in self._notes]
        for repeat in count():
            notes = await self._fit(repeat)
            if notes:
                yield [Noted(note) for note in notes]
            if (failure := self._hopeless()) is not None:
                unsent = TurnOutcome(0, (), failure, Trace("", "", "the request was not sent: it is too long"))
                yield self._end([UsageSeen(Usage()), failure, Finish("error")], unsent)
                return
            complaint: ContextComplaint | None = None
            emitted = False
            turn = self._turn
            async with aclosing(turn.batches(passthrough_bytes=passthrough_bytes and not self._warnings)) as batches:
                async for batch in batches:
                    emitted = emitted or not all(isinstance(event, _METADATA) for event in batch)
                    if turn.outcome is None:
                        yield batch
                        continue
                    complaint = None if emitted else self._complaint(turn.outcome)
                    if complaint is None or repeat == MAX_REPEATS:
                        yield self._end(batch, turn.outcome, complaint)
                    else:
                        yield [event for event in batch if isinstance(event, Noted)]
            if complaint is None or repeat == MAX_REPEATS:
                return
            yield [Noted(self._learn(complaint))]

    @property
    def _window(self) -> int:
        return self._memory.window or self._known_window

    def _limit(self, repeat: int) -> int:
        """Return how long a prompt may be, in estimated tokens."""
        limit = prompt_limit(self._window, self._request.options.max_tokens)
        return int(limit / self._memory.ratio * _HARDER**repeat)

    async def _fit(self, repeat: int) -> list[Note]:
        """Make the turn for a request that fits the window, as far as possible. Returns notes about what changed."""
        await self._use(self._turn)
        if not self._window or self._estimate <= self._limit(repeat):
            return []
        overhead, task = await self._run(self._fixed_tokens)
        if self._exceeds_by_far(overhead + task):
            return []
        budget = self._limit(repeat) - overhead
        notes: list[Note] = []
        for _ in range(_PASSES):
            messages, notes = await self._compacted(budget)
            await self._use(self._make(msgspec.structs.replace(self._request, messages=messages)))
            excess = self._estimate - self._limit(repeat)
            if excess <= 0 or budget <= 0:
                break
            budget -= excess
        self._warnings = [f"the conversation was compacted: {note.detail}" for note in notes]
        return notes

    def _fixed_tokens(self) -> tuple[int, int]:
        """Estimate what cannot be compacted: the tools, or the prompt that describes them, and the task."""
        messages = self._request.messages
        old = frozenset(removable(messages, len(messages)))
        rest = tuple(message for at, message in enumerate(messages) if at not in old) or messages
        request = self._make(msgspec.structs.replace(self._request, messages=rest)).prepare()
        task = messages_tokens(rest)
        return max(request_tokens(request) - task, 0), task

    async def _use(self, turn: EngineTurn) -> None:
        """Set the current turn, and estimate the tokens that the upstream will count, with the tool prompt."""
        self._turn = turn
        self._estimate = await self._run(lambda: request_tokens(turn.prepare()))

    async def _compacted(self, budget: int) -> tuple[tuple[Message, ...], list[Note]]:
        messages = self._request.messages
        short = await self._shortened(messages, budget)
        notes: list[Note] = []
        if self._compact == "summary" and messages_tokens(short.messages) > budget:
            messages, notes = await self._with_summary(budget)
        short = await self._shortened(messages, budget, last_resort=True)
        return short.messages, [*_shortening_notes(short, self._window), *notes]

    async def _shortened(self, messages: tuple[Message, ...], budget: int, *, last_resort: bool = False) -> Shortened:
        work = partial(shorten_results, messages, budget, read_more=self._read_more, last_resort=last_resort)
        return await self._run(work)

    async def _run(self, work: Callable[[], T]) -> T:
        """Run a computation, in a worker thread if the conversation is long."""
        return await asyncio.to_thread(work) if self._is_long else work()

    async def _with_summary(self, budget: int) -> tuple[tuple[Message, ...], list[Note]]:
        """Replace old rounds with a summary: a stored one if that is enough, otherwise a new one."""
        messages, tenant = self._request.messages, self._tenant
        last = last_rounds(messages, budget)
        keys = await self._run(partial(summary_keys, messages, last))
        stored = next((end for end in reversed(keys) if self._memory.summary(tenant, keys[end])), 0)
        text = self._memory.summary(tenant, keys[stored]) if stored else ""
        shorter = with_summary(messages, stored, text) if stored else messages
        tokens = min(max(budget, 0) // _SUMMARY_SHARE, _MAX_SUMMARY_TOKENS)
        end = await self._run(partial(self._summary_end, last, budget - tokens))
        removed = [messages[at] for at in removable(messages, end) if at >= stored]
        if not removed or await self._needs_no_summary(shorter, budget, tokens):
            return shorter, [_summary_note(messages, stored, text, 0)] if stored else []
        before = len(self._earlier)
        text = await self._summarise(removed, text, tokens)
        key = (await self._run(partial(summary_keys, messages, end)))[end]
        self._memory.store_summary(tenant, key, text)
        return with_summary(messages, end, text), [_summary_note(messages, end, text, len(self._earlier) - before)]

    def _summary_end(self, last: int, budget: int) -> int:
        """Return where a summary must end so that the rest can fit: at the last rounds, if possible."""
        messages = self._request.messages
        ends = (end for end in summary_ends(messages, last) if _can_fit(with_summary(messages, end, ""), budget))
        return next(ends, len(messages))

    async def _needs_no_summary(self, messages: tuple[Message, ...], budget: int, tokens: int) -> bool:
        """Whether shorter results are enough, or no summary could keep the last rounds whole."""
        short = (await self._shortened(messages, budget)).messages
        if messages_tokens(short) <= budget:
            return True
        last = last_rounds(messages, budget)
        too_long = messages_tokens(messages[last:]) > budget - tokens and messages_tokens(short[:last]) <= budget // 2
        return too_long and await self._run(partial(_can_fit, messages, budget))

    async def _summarise(self, removed: list[Message], summary: str, tokens: int) -> str:
        """Let the model write a summary, part by part. If it fails, an excerpt stands in for the summary."""
        messages, room = self._request.messages, max(self._limit(0) - _INSTRUCTIONS - 2 * tokens, 0)
        task = fit_text("\n".join(transcript([messages[at] for at in sorted(task_of(messages))], room)), tokens)
        lines = transcript(removed, room)
        for _ in range(_MAX_SUMMARY_REQUESTS):
            room = self._limit(0) - _INSTRUCTIONS - text_tokens(task) - text_tokens(summary)
            number = take_lines(lines, room)
            window = self._window
            written = await self._ask(summary_prompt(task, summary, lines[:number], tokens))
            if written:
                summary, lines = fit_text(written, tokens), lines[number:]
            if not lines or (not written and window == self._window):
                break
        return excerpt(summary, lines, tokens) if lines else summary

    async def _ask(self, prompt: tuple[Message, ...]) -> str:
        """Send a request without tools. Returns the text of the answer, or an empty string if the request failed."""
        request = self._request
        options = request.options
        # Ollama's options stay, because it would load the model again for another size of the window.
        extra, own = ({key: each[key] for key in each if key == "options"} for each in (options.extra, options.own))
        plain = Options(max_tokens=self._window - prompt_limit(self._window, None), extra=extra, own=own)
        request = msgspec.structs.replace(request, messages=prompt, tools=(), tool_choice=ToolChoice(), options=plain)
        turn = self._make(request)
        events: list[Event] = []
        self._earlier.append(turn)
        async with aclosing(turn.batches()) as batches:
            async for batch in batches:
                events += batch
        outcome = turn.outcome
        assert outcome is not None  # set by a complete turn
        self._earlier_attempts += [msgspec.structs.replace(each, phase="summary") for each in outcome.trace.attempts]
        if (complaint := context_complaint(outcome.failure)) is not None:
            self._memory.learn(complaint, request_tokens(request))
        return "" if outcome.failure is not None else fold(events).text.rpartition("</think>")[2].strip()

    def _complaint(self, outcome: TurnOutcome) -> ContextComplaint | None:
        """Return the upstream's complaint, or None if the turn ended for another reason."""
        last, most = outcome.trace.attempts[-1], self._request.options.max_tokens
        usage = last.usage
        if outcome.failure is not None:
            complaint = context_complaint(outcome.failure)
            # A prompt that leaves room for the answer is not too long: the client asks for too long an answer.
            if complaint is None or 0 < complaint.used <= prompt_limit(complaint.window, most):
                return None
            return complaint
        asked_for_little = most is not None and most <= _MIN_ANSWER_TOKENS
        no_room = last.finish_reason == "length" and 0 <= usage.output_tokens <= _NO_ROOM_TOKENS and not last.raw
        if asked_for_little or not no_room or not usage.input_tokens:
            return None
        return ContextComplaint(usage.input_tokens + usage.output_tokens, usage.input_tokens)

    def _learn(self, complaint: ContextComplaint) -> Note:
        self._memory.learn(complaint, self._estimate)
        outcome = self._turn.outcome
        assert outcome is not None  # the turn is over
        self._earlier.append(self._turn)
        self._earlier_attempts += outcome.trace.attempts
        self._turn = self._make(self._request)
        size = f"{complaint.used} tokens" if complaint.used else f"about {self._estimate} tokens"
        window = f"{'' if complaint.window == self._memory.window else 'assumed '}{self._memory.window} tokens"
        return Note(
            "context_exceeded", f"a request of {size} did not fit the context window ({window}) and was repeated"
        )

    def _hopeless(self) -> Failure | None:
        """Return a failure if the request is certainly too long, although it was compacted."""
        too_long = self._window and self._exceeds_by_far(self._estimate)
        return Failure(self._too_long(), status=400, code="context_length_exceeded") if too_long else None

    def _exceeds_by_far(self, estimated: int) -> bool:
        margin = _HOPELESS_CALIBRATED if self._memory.calibrated else _HOPELESS
        return estimated * self._memory.ratio > self._window * margin

    def _too_long(self) -> str:
        size = f"the conversation does not fit the context window of {self._window} tokens, even after compaction"
        return f"{size}; shorten the task, or use a model with a larger window"

    def _end(self, batch: list[Event], outcome: TurnOutcome, complaint: ContextComplaint | None = None) -> list[Event]:
        """Set the outcome of all turns. Returns the last batch, with their token usage."""
        failure = outcome.failure
        if failure is None and len(outcome.trace.attempts) == 1:
            self._memory.calibrate(self._estimate, outcome.trace.attempts[0].usage.input_tokens)
        elif failure is not None and complaint is not None:
            failure = msgspec.structs.replace(failure, message=f"{self._too_long()} ({failure.message})")
            batch = [failure if isinstance(event, Failure) else event for event in batch]
        usage = sum((attempt.usage for attempt in self._earlier_attempts), Usage())
        if usage != Usage():
            batch = [UsageSeen(event.usage + usage) if isinstance(event, UsageSeen) else event for event in batch]
        attempts = (*self._earlier_attempts, *outcome.trace.attempts)
        requests = outcome.requests + sum(turn.requests_sent for turn in self._earlier)
        trace = msgspec.structs.replace(outcome.trace, attempts=attempts)
        warnings = (*outcome.warnings, *self._warnings)
        self.outcome = TurnOutcome(requests, warnings, failure, trace, outcome.limitations)
        return batch


def _can_fit(messages: tuple[Message, ...], budget: int) -> bool:
    """Whether a conversation fits if its results are as short as possible."""
    return messages_tokens(shorten_results(messages, budget, last_resort=True).messages) <= budget


def _shortening_notes(short: Shortened, window: int) -> list[Note]:
    if not short.results and not short.media:
        return []
    results = f"{counted(short.results, 'result')} shortened by {counted(short.chars, 'character')}"
    media = f", {short.media} media left out" if short.media else ""
    return [Note("results_shortened", f"{results}{media}, to fit a context window of {window} tokens")]


def _summary_note(messages: tuple[Message, ...], end: int, text: str, requests: int) -> Note:
    replaced = counted(len(removable(messages, end)), "message")
    by = counted(requests, "request") if requests else "an earlier request"
    return Note("rounds_summarised", f"{replaced} replaced by a summary of about {text_tokens(text)} tokens from {by}")
