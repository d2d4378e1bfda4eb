"""The run: asks every case in every setting that is not finished yet, several at a time, and keeps what comes.

A case that goes wrong is told in its record and ends nothing. Only where not one of the first cases is answered at all,
the run gives up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import msgspec

from ..client import AsyncClient
from ..core.types import JSONValue, Message, TextPart, ToolCall, ToolResult, Usage
from ..engine.turn.trace import TracedReply
from ..errors import ModelError, ToolspeakError, UpstreamError
from .cases import Answer, Case, Judgement, Suite
from .journal import Journal, Record, Setting

#: Settings, each with the cases that it is asked.
Work: TypeAlias = Sequence[tuple[Setting, Sequence[Case]]]

#: Cases in a row from the start that end in an error, before it is certain that nobody is there.
GIVE_UP_AFTER = 10
#: Rounds of one case; the suites need two. A judge that never ends a case is a mistake.
_MOST_ROUNDS = 8
#: Characters of an answer and of an error that are kept.
_MOST_KEPT = 2_000


class _Tally:
    """What one case has brought so far."""

    def __init__(self) -> None:
        self.requests = self.retries = 0
        self.usage = Usage()
        self.plans: list[str] = []
        self.calls: list[list[dict[str, JSONValue]]] = []
        self.text = ""

    def add(self, reply: TracedReply) -> None:
        attempts = reply.trace().attempts
        self.requests += reply.requests
        # An attempt is a retry where the one before it, of the same phase, was found wrong.
        pairs = pairwise(attempts)
        self.retries += sum(first.fault is not None and first.phase == second.phase for first, second in pairs)
        self.usage += reply.usage
        self.plans.append(reply.trace().plan)
        self.calls.append([{"name": call.name, "arguments": call.arguments} for call in reply.calls])
        self.text = reply.text[:_MOST_KEPT]


class Run:
    """Cases in settings, asked of one client.

    Args:
        parallel: how many cases are under way at a time.
        timeout: seconds for one answer.
        heard: is told of every case that ends.
    """

    def __init__(
        self,
        client: AsyncClient,
        suite: Suite,
        journal: Journal,
        *,
        parallel: int = 4,
        timeout: float | None = None,
        heard: Callable[[Record], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._suite = suite
        self._journal = journal
        self._parallel = parallel
        self._timeout = timeout
        self._heard = heard
        self._clock = clock
        self._errors = 0
        #: Whether a case has ended without an error.
        self.answered = False

    @property
    def given_up(self) -> bool:
        """Whether nobody was there."""
        return not self.answered and self._errors >= GIVE_UP_AFTER

    async def run(self, work: Work) -> None:
        """Ask what is not finished.

        Raises:
            UsageError: a case cannot be kept.
        """
        jobs = iter(list(self.missing(work)))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._parallel):
                    group.create_task(self._work(jobs))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # what fails for one worker fails for all of them

    def missing(self, work: Work) -> Iterator[tuple[Setting, Case]]:
        """What is not finished, one case after the other: where a run is stopped, settings can be compared."""
        for number in range(max((len(cases) for _, cases in work), default=0)):
            for setting, cases in work:
                if number < len(cases) and not self._journal.finished(setting, cases[number].id):
                    yield setting, cases[number]

    async def _work(self, jobs: Iterator[tuple[Setting, Case]]) -> None:
        for setting, case in jobs:  # shared with the other workers: each takes the next one
            if self.given_up:
                return
            record = await self._ask(setting, case)
            self._journal.add(record)
            self._errors += bool(record.error)
            self.answered = self.answered or not record.error
            if self._heard is not None:
                self._heard(record)

    async def _ask(self, setting: Setting, case: Case) -> Record:
        """One case, to its end."""
        tally, start, error = _Tally(), self._clock(), ""
        try:
            found = await self._rounds(setting, case, tally)
        except ModelError as failure:
            if isinstance(failure.reply, TracedReply):
                tally.add(failure.reply)
            found = Judgement(False, "error" if isinstance(failure, UpstreamError) else "model_error", str(failure))
            error = found.detail if found.fault == "error" else ""
        except ToolspeakError as failure:
            found, error = Judgement(False, "error"), str(failure)
        except Exception as failure:
            # A bug, here or in a checker: it belongs to this case, and hours of others must not be lost to it.
            found, error = Judgement(False, "error"), f"{type(failure).__name__}: {failure}"
        return Record(
            setting=setting,
            case=case.id,
            category=case.category,
            correct=found.correct,
            fault=found.fault,
            detail="" if error else found.detail[:_MOST_KEPT],
            error=error[:_MOST_KEPT],
            plans=tally.plans,
            calls=tally.calls,
            text=tally.text,
            requests=tally.requests,
            retries=tally.retries,
            input_tokens=tally.usage.input_tokens,
            output_tokens=tally.usage.output_tokens,
            seconds=round(self._clock() - start, 3),
        )

    async def _rounds(self, setting: Setting, case: Case, tally: _Tally) -> Judgement:
        messages = list(case.messages)
        for number in range(_MOST_ROUNDS):
            reply = await self._client.chat(messages, case.tools, timeout=self._timeout, **_options(setting))
            tally.add(reply)
            found = self._suite.judge(case, number, Answer(reply.calls, reply.text))
            if not found.correct or not found.results:
                return found
            messages += _told(reply.text, reply.calls, found.results)
        return Judgement(False, "too_many_rounds", f"more than {_MOST_ROUNDS}")


def _options(setting: Setting) -> dict[str, JSONValue]:
    """The setting in the words of `chat`. A probe in the background would change the plan in the middle of a run."""
    named = ("mode", "plan", "dialect", "marks", "constrain", "retries", "temperature", "max_tokens")
    fields = msgspec.structs.asdict(setting)
    return {"probe": "off", **{name: fields[name] for name in named if fields[name] is not None}}


def _told(text: str, calls: Sequence[ToolCall], results: Sequence[str]) -> Iterator[Message]:
    """An answer and the results of its calls, as the conversation goes on with them."""
    yield Message("assistant", (TextPart(text),) if text else (), calls=tuple(calls))
    for call, result in zip(calls, results, strict=True):
        yield Message("tool", results=(ToolResult(call.id, result, call.name),))
