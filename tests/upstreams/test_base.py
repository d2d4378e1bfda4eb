"""The seam: how failures are told, what an answer's end says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tests.cases import check_each
from toolspeak.core.events import CallStart, Event, Failure, Finish, Noted, TextDelta, UsageSeen
from toolspeak.core.types import Note, Usage
from toolspeak.errors import UpstreamError, UpstreamTimeout
from toolspeak.upstreams.base import (
    MAX_ERROR_CHARS,
    ReplyCompleter,
    Upstream,
    error_of,
    failure_of,
    normalize_failures,
    shorten,
)
from toolspeak.upstreams.scripted import Scripted

A, B = TextDelta("a"), TextDelta("b")
BROKEN = Failure("it broke", "truncated", 200, "what it said")
NOTED = Noted(Note("odd", "something odd"))
COST = UsageSeen(Usage(1, 2))


async def _source(*items: list[Event] | Exception) -> AsyncGenerator[list[Event], None]:
    for item in items:
        if isinstance(item, Exception):
            raise item
        yield item


def _settled(*items: list[Event] | Exception) -> list[list[Event]]:
    async def run() -> list[list[Event]]:
        return [batch async for batch in normalize_failures(_source(*items))]

    return asyncio.run(run())


def test_batches_pass_as_they_are_and_empty_ones_are_left_out():
    assert _settled([A], [], [B, Finish("stop")]) == [[A], [B, Finish("stop")]]


@check_each("first", [[BROKEN], [NOTED, BROKEN], [COST, BROKEN, A]])
def test_a_failure_before_the_first_event_is_raised(first: list[Event]):
    with pytest.raises(UpstreamError) as caught:
        _settled(first, [A])
    assert (str(caught.value), caught.value.upstream_status, caught.value.body) == ("it broke", 200, "what it said")


def test_an_error_before_the_first_event_stays_that_error():
    error = UpstreamTimeout("too late")
    with pytest.raises(UpstreamTimeout) as caught:
        _settled(error)
    assert caught.value is error


@check_each(
    ("items", "expected"),
    [
        ([[A], [BROKEN], [B]], [[A], [BROKEN]]),
        ([[A, BROKEN, B], [B]], [[A, BROKEN]]),
        ([[A], UpstreamError("gone", upstream_status=502, body="x")], [[A], [Failure("gone", "upstream", 502, "x")]]),
        ([[A], UpstreamTimeout("late", hint="wait")], [[A], [Failure("late (wait)", "timeout")]]),
    ],
)
def test_a_failure_after_the_first_event_is_the_last_event(
    items: list[list[Event] | Exception], expected: list[list[Event]]
):
    assert _settled(*items) == expected


def test_an_error_that_is_no_failure_of_the_upstream_passes():
    with pytest.raises(ZeroDivisionError):
        _settled([A], ZeroDivisionError())


def test_what_nobody_may_see_is_taken_out_of_a_failure():
    async def run() -> list[list[Event]]:
        batches = normalize_failures(
            _source([A], [Failure("bad key s3cret", "upstream", 401, "s3cret")]),
            lambda text: text.replace("s3cret", "***"),
        )
        return [batch async for batch in batches]

    assert asyncio.run(run())[1] == [Failure("bad key ***", "upstream", 401, "***")]


def test_closing_the_batches_closes_their_source():
    closed: list[str] = []

    async def source() -> AsyncGenerator[list[Event], None]:
        try:
            yield [A]
            yield [B]
        finally:
            closed.append("source")

    async def run() -> None:
        batches = normalize_failures(source())
        assert await anext(batches) == [A]
        await batches.aclose()
        assert closed == ["source"]

    asyncio.run(run())


@check_each("error", [UpstreamError("a", upstream_status=500, body="b"), UpstreamTimeout("a", body="b")])
def test_an_error_and_its_event_say_the_same(error: UpstreamError):
    again = error_of(failure_of(error))
    assert (type(again), str(again), again.upstream_status, again.body) == (
        type(error),
        str(error),
        error.upstream_status,
        error.body,
    )


@check_each(
    ("ending", "seen", "missing"),
    [
        (ReplyCompleter(), [A], [Finish("stop")]),
        (ReplyCompleter(), [CallStart(0, "f")], [Finish("tool_calls")]),
        (ReplyCompleter("length"), [CallStart(0, "f")], [Finish("length")]),
        (ReplyCompleter(usage=Usage(1, 2)), [], [COST, Finish("stop")]),
        (ReplyCompleter("length", Usage(9, 9)), [COST, Finish("stop")], []),
        (ReplyCompleter("stop", Usage(9, 9)), [A, BROKEN], []),
    ],
)
def test_an_ending_adds_what_was_not_said(ending: ReplyCompleter, seen: list[Event], missing: list[Event]):
    ending.see(seen)
    assert ending.missing() == missing


@check_each(
    ("text", "short"),
    [
        ("", ""),
        ("one\r\n two", "one two"),
        ("\x1b[2Já\u202e", r"\x1b[2Já\u202e"),
        ("x" * MAX_ERROR_CHARS, "x" * MAX_ERROR_CHARS),
        ("x" * 9999, "x" * MAX_ERROR_CHARS + "…"),
    ],
)
def test_a_long_text_is_cut_to_one_short_line(text: str, short: str):
    assert shorten(text) == short


def test_the_double_satisfies_the_seam():
    upstream: Upstream = Scripted()
    assert (upstream.provider, upstream.base_url) == ("scripted", "")
