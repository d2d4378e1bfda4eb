"""A Python function as a model: every kind of function, what it is given, how it fails, how it is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from tests.cases import check_each
from tests.upstreams.request_helpers import PATIENCE, batches, reply, request, run, texts
from toolspeak.core.events import Event, Failure, Finish, TextDelta, UsageSeen
from toolspeak.core.types import Message, Request, TextPart, ToolCall, ToolResult, Usage
from toolspeak.errors import UpstreamError, UpstreamTimeout, UsageError
from toolspeak.upstreams.function import MAX_QUEUED_ITEMS, FunctionUpstream, ModelFunction
from toolspeak.upstreams.scripted import calls

Messages = list[dict[str, Any]]


def plain(messages: Messages) -> str:
    return f"you said {messages[-1]['content']}"


async def waiting(messages: Messages) -> str:
    await asyncio.sleep(0)
    return plain(messages)


def pieces(messages: Messages) -> Iterator[str]:
    yield "you said "
    yield ""
    yield messages[-1]["content"]


async def waiting_pieces(messages: Messages) -> AsyncIterator[str]:
    for piece in pieces(messages):
        await asyncio.sleep(0)
        yield piece


async def source_later(messages: Messages) -> AsyncIterator[str]:
    return waiting_pieces(messages)


class Model:
    def __call__(self, messages: Messages) -> str:
        return plain(messages)

    def method(self, messages: Messages) -> str:
        return plain(messages)


class WaitingModel:
    async def __call__(self, messages: Messages) -> str:
        return await waiting(messages)


def with_options(greeting: str, messages: Messages) -> str:
    return plain(messages)


def decorated(function: ModelFunction) -> ModelFunction:
    """A plain function that returns something to wait for."""

    def outer(messages: Messages) -> Any:
        return function(messages)

    return outer


@pytest.mark.requirement("G2")
@check_each(
    "function",
    [
        plain,
        waiting,
        pieces,
        waiting_pieces,
        source_later,
        Model(),
        Model().method,
        WaitingModel(),
        partial(with_options, "hi"),
        partial(waiting),
        decorated(waiting),
        decorated(waiting_pieces),
        lambda messages: iter(["you said ", "hello"]),
    ],
    ids=lambda function: getattr(function, "__name__", type(function).__name__),
)
def test_any_kind_of_function_is_a_model(function: ModelFunction):
    upstream = FunctionUpstream(function)
    answer = run(reply(upstream))
    assert (answer.text, answer.finish_reason, answer.failure) == ("you said hello", "stop", None)
    assert (upstream.provider, upstream.base_url) == ("callable", "")


def test_a_function_is_given_messages_in_openai_shape():
    given: list[Messages] = []

    def model(messages: Messages) -> str:
        given.append(messages)
        return "ok"

    asked = Request(
        "m",
        (
            Message("system", (TextPart("Be brief."),)),
            Message("user", (TextPart("Weather?"),)),
            Message("assistant", calls=(ToolCall("get_weather", {"city": "Paris"}, "c1"),)),
            Message("tool", results=(ToolResult("c1", "rain"),)),
        ),
    )
    run(reply(FunctionUpstream(model), asked))
    system, user, assistant, tool = given[0]
    assert system == {"role": "system", "content": "Be brief."}
    assert user == {"role": "user", "content": "Weather?"}
    (call,) = assistant["tool_calls"]
    assert (assistant["role"], call["id"], call["function"]["name"]) == ("assistant", "c1", "get_weather")
    assert (tool["role"], tool["tool_call_id"], tool["content"]) == ("tool", "c1", "rain")


def only_request(request: Request) -> str:
    return f"{request.model}: {request.messages[0].text}"


def only_request_by_position(request: Request, /) -> str:
    return only_request(request)


def both(messages: Messages, *, request: Request, temperature: float = 0.5) -> str:
    return f"{request.model}: {messages[0]['content']}"


async def waits_for_request(request: Request) -> str:
    return only_request(request)


@check_each("function", [only_request, only_request_by_position, both, waits_for_request])
def test_a_function_that_asks_for_the_request_is_given_it(function: ModelFunction):
    assert run(reply(FunctionUpstream(function))).text == "m: hello"


def test_a_function_may_give_events_where_it_knows_more_than_text():
    def model(request: Request) -> Iterator[str | Event]:
        yield "Let me see."
        yield from calls(ToolCall("now", {}))
        yield UsageSeen(Usage(1, 2))

    answer = run(reply(FunctionUpstream(model)))
    assert (answer.text, [call.name for call in answer.calls]) == ("Let me see.", ["now"])
    assert (answer.finish_reason, answer.usage) == ("tool_calls", Usage(1, 2))


def test_a_function_may_say_itself_why_it_ended():
    found = run(batches(FunctionUpstream(lambda request: iter(["a", Finish("length")]))))
    assert [event for batch in found for event in batch] == [TextDelta("a"), Finish("length")]


def test_a_blocking_function_blocks_nobody_else():
    go = threading.Event()

    async def talk() -> None:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def model(messages: Messages) -> str:
            loop.call_soon_threadsafe(begun.set)
            assert go.wait(PATIENCE)
            return threading.current_thread().name

        answer = asyncio.create_task(reply(FunctionUpstream(model)))
        await begun.wait()
        # The loop runs although the model does not return: this very task lets it go on.
        go.set()
        assert (await answer).text == "toolspeak-model"

    run(talk())


def test_a_blocking_generator_streams():
    may_go_on = threading.Event()

    def model(messages: Messages) -> Iterator[str]:
        yield "first"
        assert may_go_on.wait(PATIENCE)
        yield "second"

    async def talk() -> None:
        opened = FunctionUpstream(model).open(request())
        assert await anext(opened) == [TextDelta("first")]
        may_go_on.set()
        assert texts([batch async for batch in opened]) == ["second"]

    run(talk())


def test_a_fast_generator_waits_for_a_slow_reader():
    made: list[int] = []
    total = MAX_QUEUED_ITEMS * 3

    def model(messages: Messages) -> Iterator[str]:
        for number in range(total):
            made.append(number)
            yield "x"

    async def talk() -> None:
        opened = FunctionUpstream(model).open(request())
        size = len(await anext(opened))
        # The thread can be ahead by what may wait, and by the one piece it holds in its hand.
        assert len(made) <= size + MAX_QUEUED_ITEMS + 1
        async for batch in opened:
            size += sum(isinstance(event, TextDelta) for event in batch)
        assert size == total

    run(talk())


def test_a_function_sees_the_context_of_its_caller():
    tenant: ContextVar[str] = ContextVar("tenant")

    async def talk() -> str:
        tenant.set("blue")
        return (await reply(FunctionUpstream(lambda messages: tenant.get()))).text

    assert run(talk()) == "blue"


def raises(messages: Messages) -> str:
    raise ValueError("no such model")


async def raises_later(messages: Messages) -> str:
    raise ValueError("no such model")


def raises_in_pieces(messages: Messages) -> Iterator[str]:
    raise ValueError("no such model")
    yield ""


@check_each("function", [raises, raises_later, raises_in_pieces])
def test_what_a_function_raises_is_an_upstream_error_with_its_cause(function: ModelFunction):
    with pytest.raises(UpstreamError, match="raised ValueError: no such model") as caught:
        run(batches(FunctionUpstream(function)))
    assert f"`{getattr(function, '__name__', '')}`" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def breaks_off(messages: Messages) -> Iterator[str]:
    yield "so far"
    raise ValueError("gone")


async def breaks_off_later(messages: Messages) -> AsyncIterator[str]:
    yield "so far"
    raise ValueError("gone")


@check_each("function", [breaks_off, breaks_off_later])
def test_a_function_that_breaks_off_ends_with_a_failure(function: ModelFunction):
    answer = run(reply(FunctionUpstream(function)))
    assert (answer.text, answer.finish_reason) == ("so far", "unknown")
    assert isinstance(answer.failure, Failure)
    assert "ValueError: gone" in answer.failure.message


def _raising(error: BaseException) -> Callable[[Messages], str]:
    def model(messages: Messages) -> str:
        raise error

    return model


@check_each(
    ("error", "kind"),
    [
        (TimeoutError("slow"), UpstreamTimeout),
        (UpstreamTimeout("late"), UpstreamTimeout),
        (UsageError("odd"), UpstreamError),
        (StopIteration(), UpstreamError),
        (SystemExit(3), UpstreamError),
    ],
)
def test_errors_of_a_function_have_the_type_that_fits(error: BaseException, kind: type[UpstreamError]):
    with pytest.raises(UpstreamError) as caught:
        run(batches(FunctionUpstream(_raising(error))))
    assert type(caught.value) is kind


@check_each("given", [None, 5, b"bytes", ["a list"], {"a": 1}])
def test_a_function_that_gives_something_else_is_told_so(given: object):
    with pytest.raises(UpstreamError, match=f"not a `{type(given).__name__}`"):
        run(batches(FunctionUpstream(lambda messages: given)))  # pyright: ignore[reportArgumentType]


def test_an_async_function_is_cancelled_where_it_waits():
    seen: list[str] = []

    async def talk() -> None:
        begun = asyncio.Event()

        async def model(messages: Messages) -> str:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            return "never"

        task = asyncio.create_task(batches(FunctionUpstream(model)))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["cancelled"]

    run(talk())


def test_closing_an_answer_closes_an_async_generator():
    seen: list[str] = []

    async def model(messages: Messages) -> AsyncIterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            seen.append("closed")

    async def talk() -> None:
        opened = FunctionUpstream(model).open(request())
        await anext(opened)
        await opened.aclose()
        assert seen == ["closed"]

    run(talk())


def test_closing_an_answer_closes_a_blocking_generator_at_its_next_piece():
    closed, go = threading.Event(), threading.Event()

    def model(messages: Messages) -> Iterator[str]:
        try:
            yield "a"
            assert go.wait(PATIENCE)
            yield "b"
            raise AssertionError("nobody asked for this")
        finally:
            closed.set()

    async def talk() -> None:
        opened = FunctionUpstream(model).open(request())
        await anext(opened)
        await opened.aclose()

    run(talk())
    go.set()
    assert closed.wait(PATIENCE)


def test_a_blocking_function_that_is_cancelled_holds_up_nothing():
    go, ended = threading.Event(), threading.Event()

    async def talk() -> None:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def model(messages: Messages) -> str:
            loop.call_soon_threadsafe(begun.set)
            assert go.wait(PATIENCE)
            ended.set()
            return "too late"

        task = asyncio.create_task(batches(FunctionUpstream(model)))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    # The loop is closed while the function still runs; then what it returns is dropped.
    run(talk())
    go.set()
    assert ended.wait(PATIENCE)


def test_something_that_cannot_be_called_is_refused():
    with pytest.raises(UsageError, match="`str`"):
        FunctionUpstream("model")  # pyright: ignore[reportArgumentType]


def test_a_builtin_without_a_signature_is_given_the_messages():
    assert run(reply(FunctionUpstream(str))).text == "[{'role': 'user', 'content': 'hello'}]"


def test_the_name_of_the_function_is_shown():
    upstream = FunctionUpstream(plain)
    assert repr(upstream) == "FunctionUpstream(plain)"
    run(upstream.close())
