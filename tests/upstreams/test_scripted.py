"""The scripted model: what a turn may be, how it is cut, what it records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.upstreams.request_helpers import batches, reply, request, run, texts
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
    fold,
)
from toolspeak.core.types import Request, ToolCall, Usage
from toolspeak.errors import ConfigError, UpstreamError, UpstreamTimeout, UsageError
from toolspeak.upstreams.scripted import USAGE, Chunk, Randomly, Script, Scripted, Turn, calls

END = [UsageSeen(USAGE), Finish("stop")]


async def _later(asked: Request) -> Script:
    return f"later: {asked.messages[-1].text}"


async def _source() -> AsyncGenerator[list[Event], None]:
    yield [TextDelta("a"), TextDelta("b")]
    yield [TextDelta("c")]


@check_each(
    ("turn", "expected"),
    [
        ("hi", [[TextDelta("hi")], END]),
        ("", [END]),
        ([], [END]),
        ([TextDelta("a"), ReasoningDelta("b")], [[TextDelta("a")], [ReasoningDelta("b")], END]),
        ([Finish("length")], [[Finish("length")], [UsageSeen(USAGE)]]),
        ([UsageSeen(Usage(1, 1))], [[UsageSeen(Usage(1, 1))], [Finish("stop")]]),
        ([TextDelta("a"), Failure("broke")], [[TextDelta("a")], [Failure("broke")]]),
        (lambda asked: f"heard: {asked.messages[-1].text}", [[TextDelta("heard: hello")], END]),
        (lambda asked: [TextDelta(asked.model)], [[TextDelta("m")], END]),
        (_later, [[TextDelta("later: hello")], END]),
        (_source(), [[TextDelta("a"), TextDelta("b")], [TextDelta("c")], END]),
        (lambda asked: _source(), [[TextDelta("a"), TextDelta("b")], [TextDelta("c")], END]),
        (Turn("cut", finish="length"), [[TextDelta("cut")], [UsageSeen(USAGE), Finish("length")]]),
        (Turn("dear", usage=Usage(7, 8)), [[TextDelta("dear")], [UsageSeen(Usage(7, 8)), Finish("stop")]]),
        (Turn("ab", chunk=1), [[TextDelta("a")], [TextDelta("b")], END]),
    ],
)
def test_a_turn_may_be_written_in_many_ways(turn: Script, expected: list[list[Event]]):
    assert run(batches(Scripted(turn))) == expected


def test_turns_are_played_one_for_each_request_and_requests_are_kept():
    async def talk() -> None:
        upstream = Scripted("one", "two")
        first, second = request("a"), request("b")
        assert (await reply(upstream, first)).text == "one"
        assert (await reply(upstream, second)).text == "two"
        assert upstream.requests == [first, second]
        assert upstream.cancelled == []
        await upstream.close()

    run(talk())


def test_a_script_that_has_run_out_says_so():
    async def talk() -> None:
        upstream = Scripted("one")
        await reply(upstream)
        with pytest.raises(UsageError, match="has 1 turns, but turn 2 was requested") as caught:
            await reply(upstream)
        assert "requests" in caught.value.hint
        assert len(upstream.requests) == 2

    run(talk())


@check_each("turns", [(), ("a", "b")])
def test_the_last_turn_is_repeated_where_the_script_says_so(turns: tuple[str, ...]):
    async def talk() -> list[str]:
        upstream = Scripted(*turns, again=True)
        return [(await reply(upstream)).text for _ in range(4)]

    if turns:
        assert run(talk()) == ["a", "b", "b", "b"]
    else:
        with pytest.raises(UsageError):
            run(talk())


@check_each("error", [UpstreamError("no", upstream_status=500), UpstreamTimeout("late"), ConnectionResetError("gone")])
@check_each("by_function", [False, True])
def test_a_turn_that_goes_wrong_raises(error: Exception, by_function: bool):
    def fail(asked: Request) -> Script:
        return error

    upstream = Scripted(fail if by_function else error)
    with pytest.raises(type(error)) as caught:
        run(batches(upstream))
    assert caught.value is error
    assert upstream.cancelled == []


def test_a_failure_as_first_event_is_raised():
    with pytest.raises(UpstreamError, match="overloaded"):
        run(batches(Scripted([Failure("overloaded", status=529)])))


CHUNKS: list[tuple[Chunk, list[str]]] = [
    (None, ["abcdef"]),
    (1, ["a", "b", "c", "d", "e", "f"]),
    (4, ["abcd", "ef"]),
    (6, ["abcdef"]),
    (99, ["abcdef"]),
    ([1, 2], ["a", "bc", "def"]),
    ([3, 9, 9], ["abc", "def"]),
    ([], ["abcdef"]),
    (Randomly(1, most=1), ["a", "b", "c", "d", "e", "f"]),
]


@check_each(("chunk", "pieces"), CHUNKS)
def test_a_text_is_cut_as_asked(chunk: Chunk, pieces: list[str]):
    assert texts(run(batches(Scripted("abcdef", chunk=chunk)))) == pieces


@check_each("chunk", [0, -1, [1, 0], Randomly(1, most=0)])
def test_a_piece_of_no_size_is_refused(chunk: Chunk):
    with pytest.raises(UsageError):
        run(batches(Scripted("abc", chunk=chunk)))


def test_a_turn_is_cut_its_own_way_before_its_scripts():
    assert texts(run(batches(Scripted(Turn("abcd", chunk=3), chunk=1)))) == ["abc", "d"]


@given(st.text(max_size=40), st.integers(0, 2**32), st.integers(1, 9))
def test_random_pieces_are_the_same_for_the_same_seed_and_lose_nothing(text: str, seed: int, most: int):
    first, second = (texts(run(batches(Scripted(text, chunk=Randomly(seed, most))))) for _ in range(2))
    assert first == second
    assert "".join(first) == text
    assert all(len(piece) <= most for piece in first)


def test_native_calls_are_made_of_events_and_cut_inside_their_arguments():
    made = calls(ToolCall("get_weather", {"city": "Köln"}), ToolCall("now", {}, id="mine"))
    assert made == [
        CallStart(0, "get_weather", "call_0"),
        CallArgs(0, '{"city":"Köln"}'),
        CallEnd(0),
        CallStart(1, "now", "mine"),
        CallArgs(1, "{}"),
        CallEnd(1),
    ]
    found = run(batches(Scripted([TextDelta("Let me see."), *made], chunk=1)))
    assert all(len(batch) == 1 for batch in found[:-1])
    folded = fold(event for batch in found for event in batch)
    assert [(call.name, call.arguments, call.id) for call in folded.calls] == [
        ("get_weather", {"city": "Köln"}, "call_0"),
        ("now", {}, "mine"),
    ]
    assert (folded.text, folded.finish_reason) == ("Let me see.", "tool_calls")


def test_reasoning_is_cut_like_text():
    found = run(batches(Scripted([ReasoningDelta("abc")], chunk=2)))
    assert found[:2] == [[ReasoningDelta("ab")], [ReasoningDelta("c")]]


def test_a_turn_that_is_closed_early_is_recorded():
    async def talk() -> None:
        upstream = Scripted("one", "two", chunk=1)
        await reply(upstream)
        opened = upstream.open(request())
        assert await anext(opened) == [TextDelta("t")]
        await opened.aclose()
        assert upstream.cancelled == [1]

    run(talk())


def test_closing_a_turn_closes_its_source():
    closed: list[str] = []

    async def source() -> AsyncGenerator[list[Event], None]:
        try:
            yield [TextDelta("a")]
            yield [TextDelta("b")]
        finally:
            closed.append("source")

    async def talk() -> None:
        opened = Scripted(source()).open(request())
        await anext(opened)
        await opened.aclose()
        assert closed == ["source"]

    run(talk())


def test_a_turn_that_waits_can_be_cancelled_and_its_source_is_closed():
    closed: list[str] = []

    async def talk() -> None:
        waiting = asyncio.Event()

        async def source() -> AsyncGenerator[list[Event], None]:
            try:
                yield [TextDelta("a")]
                waiting.set()
                await asyncio.Event().wait()
            finally:
                closed.append("source")

        upstream = Scripted(source())
        task = asyncio.create_task(batches(upstream))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (closed, upstream.cancelled) == (["source"], [0])

    run(talk())


def test_something_that_is_no_turn_is_refused():
    with pytest.raises(UsageError, match="`int`"):
        run(batches(Scripted(5)))  # pyright: ignore[reportArgumentType]


def test_functions_that_only_return_functions_are_refused():
    def again(asked: Request) -> Script:
        return again

    with pytest.raises(UsageError, match="functions"):
        run(batches(Scripted(again)))


def test_a_capture_of_an_unknown_protocol_is_refused():
    with pytest.raises(ConfigError, match="`morse`"):
        run(batches(Scripted(Turn(b"...", protocol="morse"))))


STREAM = (
    'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Grüße"},"finish_reason":null}]}\n\n'
    'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" aus Köln 🌧"},"finish_reason":null}]}\n\n'
    'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}\n\n'
    "data: [DONE]\n\n"
).encode()
WHOLE = '{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Grüße aus Köln 🌧"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}'.encode()


@check_each(
    "capture",
    [STREAM, WHOLE, Turn(STREAM, stream=True), Turn(WHOLE, stream=False)],
    ids=["stream", "whole", "stream told", "whole told"],
)
@check_each("chunk", [None, 1, 7, Randomly(3)])
def test_a_capture_is_decoded_wherever_it_is_cut_and_nothing_is_added(capture: Script, chunk: Chunk):
    answer = run(reply(Scripted(capture, chunk=chunk)))
    assert (answer.text, answer.finish_reason, answer.usage) == ("Grüße aus Köln 🌧", "stop", Usage(3, 4))


def test_a_capture_that_ends_early_is_a_broken_answer():
    answer = run(reply(Scripted(STREAM[: STREAM.index(b"\n\n") + 2])))
    assert answer.text == "Grüße"
    assert answer.failure is not None
