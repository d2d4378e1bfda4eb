"""Clients come and go: forgotten, closed twice, ended from inside."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.test_client import client
from toolspeak.config import load
from toolspeak.upstreams.scripted import Turn

#: What earlier tests of the same process have left to the collector is not this test's.
LEFT_BY_OTHERS = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@LEFT_BY_OTHERS
def test_clients_that_are_forgotten_leave_no_thread_and_no_connection_behind():
    before = threading.active_count()
    for _ in range(50):
        assert ts.Client(lambda messages: "Hello.", config=load({}, env={})).chat("Hi").text == "Hello."
    gc.collect()
    assert threading.active_count() <= before + 2


@LEFT_BY_OTHERS
def test_a_client_that_is_forgotten_leaves_an_upstream_alone_that_it_was_given():
    class Closing(ts.Scripted):
        closed = 0

        async def close(self) -> None:
            self.closed += 1

    given = Closing("One.", "Two.")
    first, second = (ts.Client(given, config=load({}, env={})) for _ in range(2))
    assert first.chat("Hi").text == "One."
    del first
    gc.collect()
    assert second.chat("Hi").text == "Two."
    assert given.closed == 0
    second.close()
    assert given.closed == 1


def test_a_client_lives_as_long_as_its_stream_is_read():
    upstream = ts.Scripted(Turn("word " * 20, chunk=5))
    stream = ts.Client(upstream, config=load({}, env={})).stream("Hi")
    gc.collect()
    assert "".join(event.text for event in stream if isinstance(event, ts.TextDelta)) == "word " * 20


def test_a_client_may_be_closed_twice_and_before_it_is_used():
    asked, _ = client("Hello.")
    asked.close()
    asked.close()


def test_a_stream_of_a_closed_client_can_be_closed():
    asked, _ = client(Turn("word " * 100, chunk=5))
    stream = asked.stream("Hi")
    next(iter(stream))
    asked.close()
    stream.close()


@check_each("error", [KeyboardInterrupt, GeneratorExit])
def test_what_would_end_a_program_leaves_the_model_and_the_client_stays(error: type[BaseException]):
    answers = iter([error, "Hello."])

    def model(messages: list[dict[str, Any]]) -> str:
        answer = next(answers)
        if isinstance(answer, str):
            return answer
        raise answer

    with ts.Client(model, config=load({}, env={})) as asked:
        with pytest.raises(error):
            asked.chat("Hi")
        assert asked.chat("Hi").text == "Hello."


def test_a_model_that_cancels_itself_has_failed():
    def model(messages: list[dict[str, Any]]) -> str:
        raise asyncio.CancelledError

    with (
        ts.Client(model, config=load({}, env={})) as asked,
        pytest.raises(ts.UpstreamError, match="cancelled the request"),
    ):
        asked.chat("Hi")
