"""A turn carried out: the engine's requests go upstream, answers come back, and nothing is left open."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

import pytest

from tests.cases import check_each
from toolspeak.core.events import CallStart, Event, Failure, Finish, Reply, TextDelta, UsageSeen, fold
from toolspeak.core.types import Message, Request, TextPart, Tool, ToolCall, ToolChoice, Usage
from toolspeak.engine.planning.capabilities import Profile, ProfileMatch
from toolspeak.engine.planning.strategy import Mode, Settings, plan
from toolspeak.engine.turn.actions import TurnOutcome
from toolspeak.engine.turn.engine import Engine
from toolspeak.engine.turn.trace import Trace
from toolspeak.errors import (
    FormatError,
    ToolChoiceError,
    ToolspeakError,
    UpstreamError,
    UpstreamTimeout,
    UsageError,
)
from toolspeak.runtime.turn import LONG_ANSWER_CHARS, LONG_REQUEST_CHARS, SLICE_CHARS, EngineTurn, error_after
from toolspeak.upstreams.scripted import Scripted, calls
from toolspeak.upstreams.scripted import Turn as Played

WEATHER = Tool(
    "weather",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>'
T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(coroutine, 10)

    return asyncio.run(bounded())


def turn(
    upstream: Scripted,
    *,
    tools: tuple[Tool, ...] = (WEATHER,),
    choice: ToolChoice | None = None,
    mode: Mode = "force",
    stream: bool = True,
    text: str = "How is the weather in Paris?",
) -> EngineTurn:
    messages = (Message("user", (TextPart(text),)),)
    request = Request("m", messages, tools, choice or ToolChoice(), stream)
    settings = Settings(mode=mode, marks="fixed")
    planned = plan(request, ProfileMatch(Profile(), "test", "a test"), settings)
    return EngineTurn(Engine(request, planned, settings, stamp=7, nonces=str), upstream)


def played(made: EngineTurn) -> list[list[Event]]:
    async def all_of_it() -> list[list[Event]]:
        return [batch async for batch in made.batches()]

    return run(all_of_it())


def reply_of(batches: Iterable[list[Event]]) -> Reply:
    return fold(event for batch in batches for event in batch)


def ended(made: EngineTurn) -> TurnOutcome:
    assert made.outcome is not None
    return made.outcome


# ---- one answer


def test_an_answer_flows_and_the_outcome_is_there_at_its_end():
    upstream = Scripted("It is sunny in Paris today.", chunk=5)
    made = turn(upstream)
    assert made.outcome is None
    batches = played(made)
    assert len(batches) > 3
    assert reply_of(batches).text == "It is sunny in Paris today."
    assert (ended(made).requests, ended(made).failure) == (1, None)
    assert ended(made).warnings == ("tool calls emulated",)
    assert upstream.cancelled == []


def test_no_batch_is_empty_and_one_read_is_one_batch():
    async def reads() -> AsyncGenerator[list[Event], None]:
        yield [TextDelta("It "), TextDelta("is "), TextDelta("sunny ")]
        yield [TextDelta("in "), TextDelta("Paris.")]

    batches = played(turn(Scripted(reads()), tools=()))
    texts = [fold(batch).text for batch in batches]
    assert texts == ["It is sunny ", "in Paris.", ""]
    assert all(batches)


@pytest.mark.requirement("A9")
def test_usage_and_finish_come_once_and_last():
    batches = played(turn(Scripted(Played("I have no tools.", usage=Usage(1, 2)), Played(CALL, usage=Usage(3, 4)))))
    events = [event for batch in batches for event in batch]
    assert events[-2:] == [UsageSeen(Usage(4, 6)), Finish("tool_calls")]
    assert len([event for event in events if isinstance(event, UsageSeen | Finish)]) == 2


# ---- several requests


@pytest.mark.requirement("E2")
def test_a_refusal_is_asked_again_and_only_the_second_answer_is_seen():
    upstream = Scripted("I'm sorry, but I don't have any tools.", CALL, chunk=3)
    made = turn(upstream)
    reply = reply_of(played(made))
    assert ([call.name for call in reply.calls], reply.text) == (["weather"], "")
    assert (ended(made).requests, len(upstream.requests)) == (2, 2)


@pytest.mark.requirement("A3", "A9")
def test_a_fallback_goes_on_to_the_decision_and_the_final_answer():
    upstream = Scripted("Native text.", json.dumps({"tools": []}), "Final text.")
    made = turn(upstream, mode="fallback")
    assert reply_of(played(made)).text == "Final text."
    assert ended(made).requests == 3


def test_each_exchange_is_closed_before_the_next_begins():
    told: list[str] = []

    def answer(name: str, text: str) -> AsyncGenerator[list[Event], None]:
        async def reads() -> AsyncGenerator[list[Event], None]:
            told.append(f"{name} begins")
            try:
                yield [TextDelta(text)]
            finally:
                told.append(f"{name} ends")

        return reads()

    upstream = Scripted(answer("first", "I have no tools."), answer("second", CALL))
    played(turn(upstream))
    assert told == ["first begins", "first ends", "second begins", "second ends"]


@pytest.mark.requirement("B9")
def test_a_model_that_invents_a_result_is_stopped():
    invented = f'{CALL}\n<tool_response>{{"sunny": true}}</tool_response>\nIt is sunny, '
    upstream = Scripted(invented + "it is sunny. " * 100, chunk=10)
    reply = reply_of(played(turn(upstream)))
    assert [call.name for call in reply.calls] == ["weather"]
    assert "sunny" not in reply.text
    assert upstream.cancelled == [0]


def test_what_stands_behind_the_end_in_the_same_read_is_ignored():
    async def reads() -> AsyncGenerator[list[Event], None]:
        yield [Failure("broken", "upstream", 500), TextDelta("late"), *calls(ToolCall("weather", {"city": "x"}))]

    made = turn(Scripted([TextDelta("Hello"), Failure("broken"), TextDelta("late")], reads()), tools=())
    reply = reply_of(played(made))
    assert (reply.text, reply.calls, reply.finish_reason) == ("Hello", (), "error")


# ---- failures


@check_each(
    ("error", "kind"),
    [
        (UpstreamError("no", upstream_status=503, body="busy"), "upstream"),
        (UpstreamTimeout("slow", upstream_status=0), "timeout"),
    ],
)
def test_an_upstream_that_fails_before_it_answers_ends_the_turn(error: UpstreamError, kind: str):
    made = turn(Scripted(error))
    reply = reply_of(played(made))
    assert reply.failure == Failure(str(error), kind, error.upstream_status, error.body)
    assert reply.finish_reason == "error"
    assert ended(made).failure == reply.failure
    raised = error_after(ended(made))
    assert type(raised) is type(error)
    assert str(raised) == str(error)


def test_an_upstream_that_breaks_off_keeps_what_it_said():
    made = turn(Scripted([TextDelta("It is "), Failure("cut", "truncated")]), tools=())
    reply = reply_of(played(made))
    assert (reply.text, reply.failure, reply.finish_reason) == ("It is ", Failure("cut", "truncated"), "error")
    assert isinstance(error_after(ended(made)), UpstreamError)


def test_a_mistake_of_the_caller_is_raised_and_nothing_stays_open():
    made = turn(Scripted())
    with pytest.raises(UsageError, match="the script has 0 turns"):
        played(made)
    assert made.outcome is None


# ---- the end before the end


def test_closing_the_iterator_cancels_the_exchange():
    upstream = Scripted("It is sunny. " * 100, chunk=5)
    made = turn(upstream)

    async def first() -> list[Event]:
        async with aclosing(made.batches()) as batches:
            return await anext(batches)

    assert run(first())
    assert upstream.cancelled == [0]
    assert made.outcome is None


def test_cancelling_the_task_cancels_the_exchange():
    waiting = asyncio.Event()

    async def never() -> AsyncGenerator[list[Event], None]:
        waiting.set()
        await asyncio.Event().wait()
        yield []

    upstream = Scripted(never())

    async def consume() -> None:
        async for _ in turn(upstream).batches():
            pass

    async def cancelled() -> None:

        task = asyncio.create_task(consume())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())
    assert upstream.cancelled == [0]


# ---- errors


@pytest.mark.requirement("E3")
@check_each("choice", [ToolChoice("required"), ToolChoice("named", ("weather",))])
def test_what_tool_choice_demands_and_nobody_gives_is_an_error(choice: ToolChoice):
    made = turn(Scripted("It is sunny.", again=True), choice=choice)
    reply = reply_of(played(made))
    assert (reply.text, reply.finish_reason) == ("", "error")
    raised = error_after(ended(made))
    assert isinstance(raised, ToolChoiceError)
    assert raised.hint


@check_each(
    ("failure", "error"),
    [
        (None, None),
        (Failure("x", "tool_choice"), ToolChoiceError),
        (Failure("x", "format"), FormatError),
        (Failure("x", "upstream", 429, "slow down"), UpstreamError),
        (Failure("x", "truncated"), UpstreamError),
        (Failure("x", "timeout"), UpstreamTimeout),
    ],
)
def test_a_failure_is_the_error_that_its_kind_says(failure: Failure | None, error: type[ToolspeakError] | None):
    raised = error_after(TurnOutcome(1, (), failure, Trace("", "", "")))
    assert type(raised) is (error or type(None))
    if isinstance(raised, UpstreamError) and failure is not None:
        assert (raised.upstream_status, raised.body) == (failure.status, failure.body)


def test_a_native_call_reaches_the_caller_as_it_was_made():
    upstream = Scripted(calls(ToolCall("weather", {"city": "Paris"}, "own")), provider="openai")
    reply = reply_of(batches := played(turn(upstream, mode="off")))
    assert [(call.name, call.arguments, call.id) for call in reply.calls] == [("weather", {"city": "Paris"}, "own")]
    assert any(isinstance(event, CallStart) for batch in batches for event in batch)
    assert upstream.requests[0].tools == (WEATHER,)


# ---- where the time goes


class Timed:
    """An upstream whose reads each take some seconds, by a clock that only it moves."""

    provider, base_url = "timed", "http://timed.test"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *reads: tuple[float, list[Event]]) -> None:
        self._now = 0.0
        self._reads = reads
        monkeypatch.setattr("toolspeak.runtime.turn.time.perf_counter", lambda: self._now)

    async def open(self, request: Request) -> AsyncGenerator[list[Event], None]:
        for seconds, batch in self._reads:
            self._now += seconds
            yield batch

    async def close(self) -> None:
        """Nothing is held."""


@pytest.mark.requirement("H3")
def test_first_token_and_hold_back_are_parts_of_what_was_waited(monkeypatch: pytest.MonkeyPatch):
    upstream = Timed(
        monkeypatch,
        (1.0, []),  # something without content
        (2.0, [TextDelta("Paris is sunny. ")]),
        (4.0, [TextDelta("<tool_")]),  # this may become a call: nothing of it goes on
        (8.0, [TextDelta("king> is no mark.")]),
        (16.0, [Finish("stop")]),
    )
    made = turn(upstream)  # type: ignore[arg-type]
    reply = reply_of(played(made))
    assert reply.text == "Paris is sunny. <tool_king> is no mark."
    assert (made.upstream_seconds, made.first_token_seconds, made.held_seconds, made.tool_seconds) == (
        31.0,
        3.0,
        8.0,
        0.0,
    )


def test_what_is_held_to_the_end_is_held_until_then(monkeypatch: pytest.MonkeyPatch):
    upstream = Timed(monkeypatch, (1.0, [TextDelta("<tool_")]), (2.0, [TextDelta("call")]), (4.0, [Finish("stop")]))
    made = turn(upstream)  # type: ignore[arg-type]
    played(made)
    assert (made.first_token_seconds, made.held_seconds) == (1.0, 6.0)


# ---- long answers


class Watched:
    """Notes on which thread an engine parses texts of which lengths, and waits for the event loop at each long one."""

    def __init__(self, made: EngineTurn) -> None:
        self.engine = made._engine
        made._engine = self  # type: ignore[assignment]
        self.lengths: list[int] = []
        self.in_workers: list[bool] = []
        self.loop_runs = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def feed(self, attempt: int, event: Event) -> Any:
        if type(event) is TextDelta:
            self.lengths.append(len(event.text))
            self.in_workers.append(threading.current_thread() is not threading.main_thread())
            if self.in_workers[-1]:
                assert self.loop_runs.wait(10)  # set by a task of the event loop
        return self.engine.feed(attempt, event)


async def beside(watched: Watched, made: EngineTurn) -> list[Event]:
    """All events of a turn, while another task of the event loop runs."""

    async def other() -> None:
        watched.loop_runs.set()

    task = asyncio.ensure_future(other())
    events = await made.collect()
    await task
    return events


@pytest.mark.requirement("R-T12")
@check_each("stream", [False, True])
def test_a_long_answer_is_parsed_in_slices_beside_the_event_loop(stream: bool):
    text = "Sunny. " * (LONG_ANSWER_CHARS // 4) + CALL
    made = turn(Scripted(text), stream=stream)
    watched = Watched(made)
    reply = fold(run(beside(watched, made)))
    assert ([call.name for call in reply.calls], reply.text) == (["weather"], text.removesuffix(CALL))
    assert (sum(watched.lengths), max(watched.lengths)) == (len(text), SLICE_CHARS)
    assert all(watched.in_workers)


def test_an_answer_of_ordinary_length_is_parsed_in_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.runtime.turn.SLOW_SECONDS", 1000.0)
    made = turn(Scripted("Sunny. " * (SLICE_CHARS // 4)))
    watched = Watched(made)
    run(beside(watched, made))
    assert len(watched.lengths) == 2
    assert not any(watched.in_workers)


def test_an_answer_that_takes_long_to_parse_goes_on_in_a_worker_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.runtime.turn.SLOW_SECONDS", -1.0)
    made = turn(Scripted("It is sunny in Paris.", chunk=6))
    watched = Watched(made)
    run(beside(watched, made))
    assert watched.in_workers == [False, True, True, True]


@pytest.mark.requirement("R-T12")
@check_each(("size", "in_worker"), [(10, False), (LONG_REQUEST_CHARS, True)])
def test_a_call_that_is_compared_with_long_messages_is_parsed_in_a_worker_thread(
    size: int, in_worker: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("toolspeak.runtime.turn.SLOW_SECONDS", 1000.0)
    made = turn(Scripted("It is sunny. " * 3 + CALL, chunk=13), text="x" * size)
    watched = Watched(made)
    assert [call.name for call in fold(run(beside(watched, made))).calls] == ["weather"]
    assert watched.in_workers[:3] == [False] * 3
    assert set(watched.in_workers[3:]) == {in_worker}


def test_the_rest_of_a_long_answer_is_dropped_when_the_answer_is_stopped():
    invented = f"{CALL}\n<tool_response>Sunny.</tool_response>\n" + "And so on. " * LONG_ANSWER_CHARS
    made = turn(Scripted(invented))
    watched = Watched(made)
    reply = fold(run(beside(watched, made)))
    assert [call.name for call in reply.calls] == ["weather"]
    assert len(watched.lengths) == 1


def test_a_long_native_call_stays_in_one_piece():
    call = ToolCall("weather", {"city": "Paris" * SLICE_CHARS}, "call_0")
    made = turn(Scripted([TextDelta("Yes."), *calls(call)]), mode="off")
    reply = fold(run(made.collect()))
    assert (reply.text, reply.calls[0].arguments) == ("Yes.", call.arguments)
