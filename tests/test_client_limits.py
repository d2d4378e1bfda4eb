"""Streams that are read in the wrong place, and turns whose time is up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.upstreams.loopback_server import Heard, head, serving
from toolspeak.config import load
from toolspeak.upstreams.scripted import Turn


def stream_of(*pieces: str) -> ts.Client:
    return ts.Client(ts.Scripted(Turn("".join(pieces), chunk=1)), config=load({}, env={}))


def in_thread(work: Any) -> Any:
    """What another thread gets, or the error that it gets."""
    got: list[Any] = []

    def run() -> None:
        try:
            got.append(work())
        except ts.ToolspeakError as error:
            got.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return got[0]


def test_a_stream_that_one_thread_reads_is_an_error_to_another_and_goes_on():
    stream = stream_of("abc").stream("Hi")
    reading = iter(stream)
    assert next(reading) == ts.TextDelta("a")
    error = in_thread(lambda: next(iter(stream)))
    assert isinstance(error, ts.UsageError)
    assert "another thread is reading the stream" in str(error)
    assert "".join(event.text for event in reading if isinstance(event, ts.TextDelta)) == "bc"
    assert stream.reply.text == "abc"


def test_two_threads_at_the_same_event_are_one_too_many():
    waits, goes_on = threading.Event(), threading.Event()

    def model(messages: list[dict[str, Any]]) -> Iterator[str]:
        waits.set()
        goes_on.wait(10)
        yield "late"

    with ts.Client(model, config=load({}, env={})) as client:
        reading = iter(client.stream("Hi"))
        errors: list[Any] = []

        def second() -> None:
            waits.wait(10)
            errors.append(in_thread(lambda: next(reading)))
            goes_on.set()

        other = threading.Thread(target=second)
        other.start()
        assert next(reading) == ts.TextDelta("late")
        other.join()
    assert isinstance(errors[0], ts.UsageError)


def test_a_reader_may_be_handed_to_another_thread_and_a_thread_may_begin_another():
    stream = stream_of("abc").stream("Hi")
    reading = iter(stream)
    assert next(reading) == ts.TextDelta("a")
    assert in_thread(lambda: next(reading)) == ts.TextDelta("b")
    stream = stream_of("abc").stream("Hi")
    first = iter(stream)
    again = iter(stream)
    assert [next(first), next(again)] == [ts.TextDelta("a"), ts.TextDelta("b")]


def test_a_stream_that_is_over_is_nobodys():
    stream = stream_of("a").stream("Hi")
    assert len(list(stream)) > 1
    assert in_thread(lambda: list(stream)) == []


@pytest.mark.requirement("R-F1")
@check_each("timeout", [5.0, None])
def test_a_wait_that_outlasts_the_timeout_is_not_begun(timeout: float | None):
    """Whoever would wait longer than the caller does is told why at once, not when the time is up."""

    async def busy(heard: Heard) -> None:
        await heard.send(head("Retry-After: 30", "Content-Length: 0", "Connection: close", status="429 Busy"))

    async def main() -> tuple[int, int]:
        async with serving(busy) as server:
            client = ts.AsyncClient("openai:m", base_url=server.url, api_key="k", config=load({}, env={}))
            async with client:
                asking = asyncio.create_task(client.chat("Hi", timeout=timeout))
                if timeout is None:  # then it waits
                    await asyncio.wait([asking], timeout=0.3)
                    asking.cancel()
                    await asyncio.wait([asking])
                    return len(server.heard), 0
                with pytest.raises(ts.UpstreamError) as raised:
                    await asking
                return len(server.heard), raised.value.upstream_status

    assert asyncio.run(main()) == (1, 429 if timeout else 0)
