"""Evaluation runner: runs the unfinished cases of all settings concurrently and stores the results.

A case that fails is recorded and does not stop the run. The run gives up only if none of the first cases is answered.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TypeAlias, cast

import msgspec

from ..client import AsyncClient
from ..core.events import Candidate
from ..core.types import Message, TextPart, ToolCall, ToolResult
from ..engine.turn.faults import reason_text
from ..engine.turn.trace import TracedReply, of_model
from ..errors import ModelError, ToolspeakError, UpstreamError
from ..runtime.options import TurnOptions
from .cases import EvalCase, Judgement, ModelAnswer, Suite
from .results_file import CaseResult, EvalSetting, ResultsFile

Work: TypeAlias = Sequence[tuple[EvalSetting, Sequence[EvalCase]]]  # settings, each with its cases

#: Number of errors after which the upstream counts as unavailable, unless a case has been answered.
GIVE_UP_AFTER = 10
#: Maximum number of rounds per case, in case a judge never ends it. The suites need two.
_MAX_ROUNDS = 8
_MAX_REJECTED = 3  # maximum number of rejected calls to store for an answer
_MAX_TEXT_CHARS = 2_000  # maximum length of stored answers and errors


@dataclass(eq=False)
class EvalRun:
    client: AsyncClient
    suite: Suite
    journal: ResultsFile
    _: KW_ONLY
    parallel: int = 4
    timeout: float | None = None  # maximum time for one answer, in seconds
    on_result: Callable[[CaseResult], None] | None = None
    clock: Callable[[], float] = time.monotonic
    errors: int = 0
    answered: bool = False  # whether any case has ended without an error

    @property
    def given_up(self) -> bool:
        """Whether the upstream counts as unavailable."""
        return not self.answered and self.errors >= GIVE_UP_AFTER

    async def run(self, work: Work) -> None:
        """Run the unfinished cases. Raises UsageError if a result cannot be stored."""
        jobs = iter(list(self.missing(work)))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.parallel):
                    group.create_task(self._work(jobs))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # all workers fail for the same reason, so report one error

    def missing(self, work: Work) -> Iterator[tuple[EvalSetting, EvalCase]]:
        """Yield unfinished cases, alternating between settings, so an interrupted run can still compare them."""
        for number in range(max((len(cases) for _, cases in work), default=0)):
            for setting, cases in work:
                if number < len(cases) and not self.journal.finished(setting, cases[number].id):
                    yield setting, cases[number]

    async def _work(self, jobs: Iterator[tuple[EvalSetting, EvalCase]]) -> None:
        for setting, case in jobs:  # all workers share this iterator
            if self.given_up:
                return
            record = await self._ask(setting, case)
            self.journal.add(record)
            self.errors += bool(record.error)
            self.answered = self.answered or not record.error
            if self.on_result is not None:
                self.on_result(record)

    async def _ask(self, setting: EvalSetting, case: EvalCase) -> CaseResult:
        result, start = CaseResult(setting, case.id, case.category, correct=False), self.clock()
        error = ""
        try:
            judgement = await self._rounds(setting, case, result)
        except ModelError as failure:
            if isinstance(failure.reply, TracedReply):
                _add_reply(result, failure.reply)
            judgement = Judgement(False, "error" if isinstance(failure, UpstreamError) else "model_error", str(failure))
            error = judgement.detail if judgement.fault == "error" else ""
        except ToolspeakError as failure:
            judgement, error = Judgement(False, "error"), str(failure)
        except Exception as failure:
            # A bug in toolspeak or in a checker must not end a run that may take hours.
            judgement, error = Judgement(False, "error"), f"{type(failure).__name__}: {failure}"
        result.correct, result.fault, result.error = judgement.correct, judgement.fault, error[:_MAX_TEXT_CHARS]
        result.detail = "" if error else judgement.detail[:_MAX_TEXT_CHARS]
        result.seconds = round(self.clock() - start, 3)
        return result

    async def _rounds(self, setting: EvalSetting, case: EvalCase, result: CaseResult) -> Judgement:
        messages = list(case.messages)
        for number in range(_MAX_ROUNDS):
            reply = await self.client.chat(messages, case.tools, timeout=self.timeout, **_options(setting))
            _add_reply(result, reply)
            judgement = self.suite.judge(case, number, ModelAnswer(reply.calls, reply.text))
            if not judgement.correct or not judgement.results:
                return judgement
            messages += _next_messages(reply.text, reply.calls, judgement.results)
        return Judgement(False, "too_many_rounds", f"more than {_MAX_ROUNDS}")


def _add_reply(result: CaseResult, reply: TracedReply) -> None:
    """Add what a round cost, and replace the text by that of the round."""
    result.requests += reply.requests
    # An attempt is a retry if the previous attempt was in the same phase and had a fault.
    pairs = pairwise(of_model(reply.trace().attempts))
    result.retries += sum(first.fault is not None and first.phase == second.phase for first, second in pairs)
    result.input_tokens += reply.usage.input_tokens
    result.output_tokens += reply.usage.output_tokens
    result.plans.append(reply.trace().plan)
    result.calls.append([{"name": call.name, "arguments": call.arguments} for call in reply.calls])
    result.text = reply.text[:_MAX_TEXT_CHARS]
    rejected = [each for each in reply.candidates if each.verdict != "call"]
    result.rejected = [_rejected_text(each)[:_MAX_TEXT_CHARS] for each in rejected[:_MAX_REJECTED]]


def _rejected_text(candidate: Candidate) -> str:
    arguments = msgspec.json.encode(candidate.arguments).decode()
    return f"{candidate.name}({arguments}), not accepted: {reason_text(candidate.reason)}"


def _options(setting: EvalSetting) -> TurnOptions:
    """Convert a setting to options of `chat`. Probing is off, because it could change the plan during a run."""
    names = ("mode", "plan", "dialect", "marks", "constrain", "retries", "temperature", "max_tokens")
    fields = msgspec.structs.asdict(setting)
    return cast("TurnOptions", {"probe": "off", **{name: fields[name] for name in names if fields[name] is not None}})


def _next_messages(text: str, calls: Sequence[ToolCall], results: Sequence[str]) -> Iterator[Message]:
    yield Message("assistant", (TextPart(text),) if text else (), calls=tuple(calls))
    for call, result in zip(calls, results, strict=True):
        yield Message("tool", results=(ToolResult(call.id, result, call.name),))
