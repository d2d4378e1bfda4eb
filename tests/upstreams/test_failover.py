"""Lists of upstreams: the next is asked only while nothing has flowed."""

from __future__ import annotations

import socket
from contextlib import aclosing

import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.upstreams.faulty_service import GOOD, TEXT, Do, by_length, in_order, misbehaving
from tests.upstreams.request_helpers import Instant, batches, reply, request, run
from tests.upstreams.test_each_fault import refused
from toolspeak.config import load
from toolspeak.core.events import Failure, TextDelta
from toolspeak.errors import UpstreamError, UpstreamTimeout, UsageError
from toolspeak.upstreams.base import Upstream
from toolspeak.upstreams.failover import Failover
from toolspeak.upstreams.http.thin_transport import HttpUpstream
from toolspeak.upstreams.scripted import Scripted


def _codes(notes: object) -> list[str]:
    return [note.code for note in notes]  # type: ignore[attr-defined]


@pytest.mark.requirement("G6")
@check_each(
    "error",
    [
        UpstreamError("down", upstream_status=503),
        UpstreamError("who are you", upstream_status=401),
        UpstreamError("no such model", upstream_status=404),
        UpstreamError("cannot connect"),
        UpstreamTimeout("too late"),
    ],
)
def test_the_next_is_asked_where_one_fails_before_the_first_event(error: UpstreamError):
    first, second, third = Scripted(error), Scripted("hello"), Scripted("never")
    answer = run(reply(Failover([first, second, third])))
    assert (answer.text, _codes(answer.notes)) == ("hello", ["upstream_fallback"])
    assert str(error) in answer.notes[0].detail
    assert third.requests == []


@pytest.mark.requirement("G6")
def test_after_the_first_event_nobody_else_is_asked():
    first, second = Scripted([TextDelta("he"), Failure("it broke", "truncated")]), Scripted("hello")
    answer = run(reply(Failover([first, second])))
    assert (answer.text, answer.failure) == ("he", Failure("it broke", "truncated"))
    assert second.requests == []


@pytest.mark.requirement("G6")
@check_each("status", [400, 413, 422])
def test_what_is_wrong_with_the_request_is_told_at_once(status: int):
    second = Scripted("hello")
    with pytest.raises(UpstreamError, match="no tools"):
        run(reply(Failover([Scripted(UpstreamError("no tools", upstream_status=status)), second])))
    assert second.requests == []


@pytest.mark.requirement("G6")
def test_the_last_ones_error_is_told():
    with pytest.raises(UpstreamError, match="second"):
        run(reply(Failover([Scripted(UpstreamError("first")), Scripted(UpstreamError("second"))])))


def test_a_list_is_called_by_the_name_of_its_first_and_must_have_one():
    upstream: Upstream = Failover([HttpUpstream("http://127.0.0.1:9/v1"), Scripted("a")])
    assert (upstream.provider, upstream.base_url) == ("openai", "http://127.0.0.1:9/v1")
    assert repr(upstream).startswith("Failover([HttpUpstream('http://127.0.0.1:9/v1'")
    with pytest.raises(UsageError):
        Failover([])


@pytest.mark.requirement("G6")
def test_services_that_are_down_or_stale_are_passed_over():
    async def talk() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
        choose = [
            in_order(refused(500)),
            in_order([Do.CLOSE]),
            in_order(by_length(b"<html>", "Content-Type: text/html")),
        ]
        async with (
            misbehaving(choose[0]) as busy,
            misbehaving(choose[1]) as mute,
            misbehaving(choose[2]) as page,
            misbehaving(in_order(GOOD)) as good,
        ):
            urls = [nobody, busy.url, mute.url, page.url, good.url]
            world = Instant().world
            upstream = Failover([HttpUpstream(url, world=world) for url in urls])
            answer = await reply(upstream)
            assert (answer.text, _codes(answer.notes)) == (TEXT, ["upstream_fallback"] * 4)
            await upstream.close()
            with pytest.raises(UsageError):
                await batches(upstream)

    run(talk())


def test_closing_the_answer_closes_the_one_that_gives_it():
    async def talk() -> None:
        first, second = Scripted(UpstreamError("down")), Scripted("hello", chunk=1)
        async with aclosing(Failover([first, second]).open(request())) as opened:
            await anext(opened)
        assert second.cancelled == [0]

    run(talk())


@pytest.mark.requirement("G6")
def test_a_client_over_a_list_asks_each_for_the_model_that_it_has():
    lost = HttpUpstream("http://127.0.0.1:9/v1", protocol="anthropic", model="large", world=Instant().world)
    second = Scripted("hello")
    second.model = "small"  # type: ignore[attr-defined]
    several = Failover([lost, second])
    assert (several.model, several.protocol) == ("large", "anthropic")
    assert ts.Client(several, config=load({}, env={})).chat("Hi").text == "hello"
    assert [each.model for each in second.requests] == ["small"]
    assert (Failover([Scripted("x")]).model, Failover([Scripted("x")]).protocol) == ("scripted", "openai_chat")
