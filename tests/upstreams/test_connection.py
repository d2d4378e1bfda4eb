"""Connections and the pool they wait in: kept, paused, dropped, and freed when their user goes."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import aclosing, suppress

import pytest

from tests.cases import check_each
from tests.upstreams.faulty_service import (
    BODY,
    CHUNKED,
    EVENTS,
    EVIL,
    GOOD,
    TEXT,
    TYPE,
    Chaos,
    Do,
    by_length,
    chunk,
    error_event,
    in_order,
    misbehaving,
)
from tests.upstreams.loopback_server import Heard, chunked, head, serving
from tests.upstreams.request_helpers import PATIENCE, Instant, batches, loops, reply, request, run
from toolspeak.core.events import TextDelta, fold
from toolspeak.core.types import Message, Request, TextPart
from toolspeak.errors import UpstreamError, UsageError
from toolspeak.upstreams.http import connection as module
from toolspeak.upstreams.http.connection import MAX_BUFFERED_BYTES, ConnectionPool, Timeouts
from toolspeak.upstreams.http.retry import Retry
from toolspeak.upstreams.http.thin_transport import HttpUpstream


def pool_of(upstream: HttpUpstream) -> ConnectionPool:
    (pool,) = upstream._pools.values()
    return pool


async def until(condition: object) -> None:
    """Wait for what happens on the other side of a connection."""
    for _ in range(500):
        if condition():  # type: ignore[operator]
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass")


# --------------------------------------------------------------------------------------------------------- keeping


@check_each("stream", [True, False])
def test_a_connection_serves_one_request_after_the_other(stream: bool):
    async def talk() -> None:
        async with misbehaving(in_order(GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url)
            for _ in range(5):
                assert (await reply(upstream, request(stream=stream))).text == TEXT
            assert (chaos.requests, chaos.connections) == (5, 1)
            await upstream.close()
            await until(lambda: not chaos.open)

    run(talk())


def test_a_connection_is_free_before_its_last_events_are_seen():
    async def talk() -> None:
        async with misbehaving(in_order(GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url)
            async with aclosing(upstream.open(request())) as opened:
                async for batch in opened:
                    if any(not isinstance(event, TextDelta) for event in batch):
                        assert (await reply(upstream)).text == TEXT
            assert chaos.connections == 1
            await upstream.close()

    run(talk())


def test_requests_at_the_same_time_have_connections_of_their_own_and_leave_them_to_others():
    async def talk() -> None:
        async with misbehaving(in_order(GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url)
            for _ in range(3):
                await asyncio.gather(*(reply(upstream) for _ in range(8)))
            assert (chaos.requests, chaos.connections, pool_of(upstream).idle) == (24, 8, 8)
            await upstream.close()
            assert chaos.requests == 24

    run(talk())


def test_an_end_that_comes_behind_the_last_word_leaves_the_connection_usable():
    async def talk() -> None:
        late = [CHUNKED + chunked(EVENTS, last=False), Do.WAIT, Do.WAIT, b"0\r\n\r\n"]
        async with misbehaving(in_order(late)) as chaos:
            upstream = HttpUpstream(chaos.url)
            for _ in range(3):
                assert (await reply(upstream)).text == TEXT
                await until(lambda: pool_of(upstream).idle == 1)
            assert chaos.connections == 1
            await upstream.close()

    run(talk())


def test_a_service_that_talks_on_behind_the_last_word_loses_its_connection():
    async def talk() -> None:
        endless = [CHUNKED + chunked(EVENTS, last=False), *[chunked([b": ping\n\n" * 200], last=False), Do.WAIT] * 40]
        async with misbehaving(in_order(endless)) as chaos:
            upstream = HttpUpstream(chaos.url)
            assert (await reply(upstream)).text == TEXT
            await until(lambda: len(pool_of(upstream)) == 0)
            await upstream.close()

    run(talk())


@check_each("answer", [by_length(b"{}", status="503 Busy"), by_length(error_event())])
def test_an_error_leaves_the_connection_usable(answer: bytes):
    async def talk() -> None:
        async with misbehaving(in_order(answer, GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url, world=Instant().world)
            assert (await reply(upstream)).text == TEXT
            assert (chaos.requests, chaos.connections) == (2, 1)
            await upstream.close()

    run(talk())


def test_an_answer_that_nobody_asked_for_is_never_given_to_anybody():
    async def talk() -> None:
        async with misbehaving(in_order([GOOD, Do.WAIT, EVIL], GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url)
            assert (await reply(upstream)).text == TEXT
            await until(lambda: len(pool_of(upstream)) == 0)
            assert (await reply(upstream)).text == TEXT
            assert chaos.connections == 2
            await upstream.close()

    run(talk())


def test_an_unused_connection_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "KEEP_ALIVE_SECONDS", 0.05)

    async def talk() -> None:
        async with misbehaving(in_order(GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url)
            await reply(upstream)
            await until(lambda: len(pool_of(upstream)) == 0 and chaos.open == 0)

    run(talk())


def test_only_so_many_unused_connections_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_IDLE_CONNECTIONS", 2)

    async def talk() -> None:
        async with misbehaving(in_order(GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url)
            await asyncio.gather(*(reply(upstream) for _ in range(6)))
            await until(lambda: (pool_of(upstream).idle, chaos.open) == (2, 2))
            await upstream.close()

    run(talk())


def test_a_service_that_closes_its_side_is_forgotten_before_the_next_request():
    async def talk() -> None:
        async with misbehaving(in_order("closed behind the end", GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url)
            await reply(upstream)
            await until(lambda: len(pool_of(upstream)) == 0)
            answer = await reply(upstream)
            assert (answer.text, answer.notes) == (TEXT, ())
            await upstream.close()

    run(talk())


# ------------------------------------------------------------------------------------------------- loops and closing


def test_each_event_loop_has_connections_of_its_own():
    with_upstream: list[HttpUpstream] = []

    async def talk() -> None:
        async with misbehaving(in_order("close announced")) as chaos:
            # The same upstream in one loop after the other, as a program with several `asyncio.run` has it.
            upstream = with_upstream[0] if with_upstream else HttpUpstream(chaos.url)
            with_upstream[:] = [upstream]
            upstream._address = HttpUpstream(chaos.url)._address
            assert (await reply(upstream)).text == TEXT
            assert len(upstream._pools) == 1

    for _ in range(3):
        run(talk())


def test_closing_reaches_the_connections_of_another_loop():
    begun, done = threading.Event(), threading.Event()
    found: list[str] = []

    async def there(upstream: HttpUpstream) -> None:
        opened = upstream.open(request())
        await anext(opened)
        begun.set()
        found.extend(type(event).__name__ for batch in [batch async for batch in opened] for event in batch)
        done.set()

    async def talk() -> None:
        async with misbehaving(in_order([CHUNKED + chunked(EVENTS[:1], last=False), Do.STALL])) as chaos:
            upstream = HttpUpstream(chaos.url)
            thread = threading.Thread(target=lambda: asyncio.run(there(upstream)))
            thread.start()
            await asyncio.to_thread(begun.wait, PATIENCE)
            await upstream.close()
            await asyncio.to_thread(done.wait, PATIENCE)
            await asyncio.to_thread(thread.join)
            assert found == ["Failure"]

    run(talk())


@check_each("kind", ["asyncio", "uvloop"])
def test_connections_end_with_their_loop_though_nobody_closes_the_upstream(kind: str):
    begun, done = threading.Event(), threading.Event()
    served: list[Chaos] = []

    async def serve() -> None:
        async with misbehaving(in_order(GOOD)) as chaos:
            served.append(chaos)
            begun.set()
            await asyncio.to_thread(done.wait, PATIENCE)
            await until(lambda: not chaos.open)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert begun.wait(PATIENCE)
    upstream = HttpUpstream(served[0].url)
    for _ in range(2):
        with asyncio.Runner(loop_factory=loops(kind)) as runner:
            assert [runner.run(reply(upstream)).text for _ in range(2)] == [TEXT, TEXT]
            pool = pool_of(upstream)
            assert pool.idle == 1
        assert len(pool) == 0
    done.set()
    thread.join()
    assert (served[0].connections, served[0].open) == (2, 0)


def test_a_closed_upstream_asks_nothing():
    async def talk() -> None:
        async with misbehaving(in_order(GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url)
            await upstream.close()
            with pytest.raises(UsageError):
                await reply(upstream)
            assert chaos.connections == 0

    run(talk())


# ---------------------------------------------------------------------------------------------------------- pressure


@pytest.mark.requirement("R-BACKPRESSURE")
def test_a_slow_reader_makes_the_service_wait_and_misses_nothing():
    event = chunk({"content": "x" * 10_000})
    count = 2000

    async def talk() -> None:
        sent = 0

        async def answer(heard: Heard) -> None:
            nonlocal sent
            await heard.send(CHUNKED)
            for _ in range(count):
                heard.writer.write(chunked([event], last=False))
                await heard.writer.drain()
                sent += 1
            await heard.send(chunked(EVENTS[-2:]))

        async with serving(answer) as server:
            upstream = HttpUpstream(server.url, timeouts=Timeouts(idle=0.2))
            opened = upstream.open(request())
            events = [*await anext(opened)]
            # The reader rests, for longer than the service may be silent: the service gets no further than the
            # buffers of both sides reach.
            await asyncio.sleep(0.5)
            assert sent < count // 2
            (connection,) = pool_of(upstream)._all
            assert connection._size <= MAX_BUFFERED_BYTES + 256 * 1024
            async for batch in opened:
                events += batch
            answered = fold(events)
            assert (len(answered.text), answered.finish_reason) == (count * 10_000, "stop")
            await upstream.close()

    run(talk())


def _large(size: int) -> Request:
    return Request("m", (Message("user", (TextPart("x" * size),)),), stream=True)


def test_a_large_request_arrives_whole():
    async def talk() -> None:
        async def answer(heard: Heard) -> None:
            assert len(heard.json["messages"][0]["content"]) == 5_000_000
            await heard.send(GOOD)

        async with serving(answer) as server:
            upstream = HttpUpstream(server.url)
            assert (await reply(upstream, _large(5_000_000))).text == TEXT
            await upstream.close()

    run(talk())


@check_each("said", ["100 Continue", "103 Early Hints"])
def test_a_word_before_the_answer_does_not_stop_a_large_request(said: str):
    async def talk() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked = Heard(await reader.readuntil(b"\r\n\r\n"), b"", writer)
            # Wherever the request is then: little of it fits into what the network holds.
            await asked.send(f"HTTP/1.1 {said}\r\n\r\n".encode())
            asked.body = await reader.readexactly(asked.length)
            assert len(asked.json["messages"][0]["content"]) == 20_000_000
            await asked.send(GOOD)
            await reader.read()
            writer.transport.abort()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=4096)
        upstream = HttpUpstream(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        assert (await reply(upstream, _large(20_000_000))).text == TEXT
        await upstream.close()
        server.close()
        await server.wait_closed()

    run(talk())


def test_a_service_that_refuses_a_large_request_is_heard_before_it_has_been_sent():
    async def talk() -> None:
        heard = 0
        over = asyncio.Event()

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal heard
            heard = len(await reader.readuntil(b"\r\n\r\n"))
            writer.write(by_length(b"too large", status="413 Content Too Large"))
            await writer.drain()
            with suppress(OSError):
                while data := await reader.read(65536):
                    heard += len(data)
            writer.transport.abort()
            over.set()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=4096)
        port = server.sockets[0].getsockname()[1]
        upstream = HttpUpstream(f"http://127.0.0.1:{port}/v1")
        with pytest.raises(UpstreamError) as found:
            await reply(upstream, _large(40_000_000))
        assert (found.value.upstream_status, found.value.body) == (413, "too large")
        # A connection with half a request on it is of no use to anybody.
        await until(lambda: len(pool_of(upstream)) == 0)
        await over.wait()
        assert heard < 40_000_000
        server.close()
        await server.wait_closed()

    run(talk())


# -------------------------------------------------------------------------------------------------------- cancelling


async def _gone_within_a_second(chaos: Chaos) -> None:
    begun = time.monotonic()
    await until(lambda: not chaos.open)
    assert time.monotonic() - begun < 1


@pytest.mark.requirement("R-CANCEL")
@check_each(
    "sent",
    [[], [CHUNKED], [CHUNKED + chunked(EVENTS[:1], last=False)], [head(TYPE, "Content-Length: 9") + b"{"]],
    ids=["before the head", "before the first event", "in the stream", "in a body"],
)
@check_each("how", ["cancelled", "timed out"])
def test_who_leaves_takes_the_connection_along_at_once(sent: list[bytes], how: str):
    async def talk() -> None:
        async with misbehaving(in_order([*sent, Do.STALL])) as chaos:
            upstream = HttpUpstream(chaos.url)
            task = asyncio.create_task(batches(upstream))
            await until(lambda: chaos.requests == 1)
            await asyncio.sleep(0.02)
            if how == "cancelled":
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(task, 0.01)
            assert len(pool_of(upstream)) == 0
            await _gone_within_a_second(chaos)
            await upstream.close()

    run(talk())


@pytest.mark.requirement("R-CANCEL")
def test_who_leaves_while_waiting_for_a_retry_asks_no_more():
    async def talk() -> None:
        async with misbehaving(in_order(by_length(b"", status="503 Busy"))) as chaos:
            upstream = HttpUpstream(chaos.url, retry=Retry(first=30, longest=30))
            task = asyncio.create_task(batches(upstream))
            await until(lambda: chaos.requests == 1)
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert chaos.requests == 1
            await upstream.close()

    run(talk())


def test_time_for_everything_includes_the_waits_between_tries():
    async def talk() -> None:
        async with misbehaving(in_order(by_length(b"", status="503 Busy"))) as chaos:
            upstream = HttpUpstream(chaos.url, timeouts=Timeouts(total=0.3), retry=Retry(first=0.2, jitter=0))
            with pytest.raises(UpstreamError) as found:
                await reply(upstream)
            assert (found.value.upstream_status, chaos.requests) == (503, 2)
            await upstream.close()

    run(talk())


def test_a_stream_by_length_is_kept_as_well():
    async def talk() -> None:
        async with misbehaving(in_order(by_length(BODY))) as chaos:
            upstream = HttpUpstream(chaos.url)
            assert [(await reply(upstream)).text for _ in range(2)] == [TEXT, TEXT]
            assert chaos.connections == 1
            await upstream.close()

    run(talk())


def test_a_path_that_could_say_more_than_a_path_is_refused():
    upstream = HttpUpstream("http://127.0.0.1:1/v1")
    for path in ("/a b", "/a\r\nX-Evil: 1", "/ä"):
        with pytest.raises(UpstreamError, match="path"):
            upstream._head(path)
