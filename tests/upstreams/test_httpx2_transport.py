"""The transport for proxies and HTTP/2: the same behaviour behind the same seam."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.cases import check_each, every
from tests.upstreams.faulty_service import (
    BODY,
    CHUNKED,
    EVENTS,
    EVIL,
    FAULTS,
    GOOD,
    TEXT,
    TYPE,
    Do,
    in_order,
    misbehaving,
)
from tests.upstreams.loopback_server import always, chunked, head, serving
from tests.upstreams.request_helpers import Instant, batches, reply, request, run
from tests.upstreams.test_each_fault import refused
from toolspeak.core.events import fold
from toolspeak.errors import ConfigError, UpstreamError, UpstreamTimeout, UsageError
from toolspeak.upstreams.base import Batches
from toolspeak.upstreams.http.connection import Timeouts
from toolspeak.upstreams.http.httpx2_transport import Httpx2Upstream
from toolspeak.upstreams.http.retry import Retry

pytest.importorskip("httpx2")

KEY = "sk-canary-0123456789"
#: Where nothing may come too late; and where a service stalls and is waited for, on a machine that may be busy.
PATIENT, STALLED = Timeouts(connect=15, first_byte=15, idle=15, total=20), Timeouts(first_byte=0.5, idle=0.5, total=20)
#: What this transport's own reader of HTTP takes for an end, though it is none, or the other way round.
OTHERWISE: dict[str, str] = {}


@check_each("name", every(3, FAULTS))
def test_every_fault_ends_as_it_must(name: str):
    async def talk() -> None:
        async with misbehaving(in_order(name)) as chaos:
            waits = name.startswith("stalled") or FAULTS[name].outcome == "raised"
            timeouts = STALLED if waits else PATIENT
            upstream = Httpx2Upstream(chaos.url, KEY, timeouts=timeouts, http2=False, world=Instant().world)
            try:
                answer = fold(event for batch in await batches(upstream, request()) for event in batch)
            except UpstreamError as error:
                assert KEY not in str(error)
                outcome, text = "raised", ""
            else:
                outcome, text = "whole" if answer.failure is None else "failed", answer.text
            assert outcome == OTHERWISE.get(name, FAULTS[name].outcome)
            assert TEXT.startswith(text)
            assert outcome != "whole" or text == TEXT
            await upstream.close()
            assert not upstream._ending

    run(talk())


def test_a_request_looks_the_same():
    async def talk() -> None:
        async with serving(always(GOOD)) as server:
            upstream = Httpx2Upstream(server.url, KEY, headers={"X-Trace": "t1"}, http2=False)
            assert (upstream.base_url, upstream.provider) == (server.url, "openai")
            assert (await reply(upstream)).text == TEXT
            (heard,) = server.heard
            assert heard.line == "POST /v1/chat/completions HTTP/1.1"
            assert heard.header("authorization") == f"Bearer {KEY}"
            assert heard.header("content-type") == "application/json"
            assert heard.header("accept-encoding") == "identity"
            assert (heard.header("user-agent"), heard.header("x-trace")) == ("toolspeak", "t1")
            await upstream.close()

    run(talk())


def test_a_proxy_is_used_and_its_password_is_told_to_nobody_else():
    async def talk() -> None:
        async with serving(always(GOOD)) as server:
            proxy = f"http://me:hunter2222@127.0.0.1:{server.port}"
            upstream = Httpx2Upstream("http://model.example/v1", KEY, proxy=proxy)
            assert (await reply(upstream)).text == TEXT
            (heard,) = server.heard
            assert heard.line == "POST http://model.example/v1/chat/completions HTTP/1.1"
            assert heard.header("proxy-authorization").startswith("Basic ")
            assert "hunter2222" not in repr(upstream)
            await upstream.close()

    run(talk())


@check_each("proxy", ["morse://127.0.0.1", "http://[::1"])
def test_a_proxy_that_cannot_be_one_is_refused_and_not_shown(proxy: str):
    async def talk() -> None:
        upstream = Httpx2Upstream("http://model.example/v1", proxy=proxy)
        with pytest.raises(ConfigError) as found:
            await reply(upstream)
        assert proxy not in str(found.value)

    run(talk())


def test_a_service_is_asked_again_where_that_helps():
    async def talk() -> None:
        async with misbehaving(in_order(refused(503, "Retry-After: 3"), GOOD)) as chaos:
            instant = Instant()
            upstream = Httpx2Upstream(chaos.url, world=instant.world, http2=False)
            answer = await reply(upstream)
            assert (answer.text, instant.waits, chaos.requests) == (TEXT, [3.0], 2)
            await upstream.close()

    run(talk())


def test_every_request_of_http_1_has_a_connection_of_its_own():
    async def talk() -> None:
        async with misbehaving(in_order(GOOD)) as chaos:
            upstream = Httpx2Upstream(chaos.url, http2=False)
            for _ in range(3):
                await reply(upstream)
            assert (chaos.requests, chaos.connections) == (3, 3)
            await upstream.close()
            with pytest.raises(UsageError):
                await reply(upstream)

    run(talk())


@check_each("http2", [True, False])
@check_each("answers", [(GOOD + EVIL,), (GOOD + EVIL, GOOD)], ids=["always", "once"])
def test_a_response_that_nobody_asked_for_answers_nothing(answers: tuple[bytes, ...], http2: bool):
    async def talk() -> None:
        async with misbehaving(in_order(*answers)) as chaos:
            upstream = Httpx2Upstream(chaos.url, http2=http2)
            assert [(await reply(upstream)).text for _ in range(3)] == [TEXT] * 3
            both = await asyncio.gather(reply(upstream), reply(upstream))
            assert [answer.text for answer in both] == [TEXT] * 2
            await upstream.close()

    run(talk())


REFUSED = {
    "framed in two ways": head(TYPE, f"Content-Length: {len(BODY)}", "Transfer-Encoding: chunked") + chunked(EVENTS),
    "no status": head(TYPE, "Content-Length: 0", status="099 Early"),
}


@check_each("data", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_one_response_is_refused(data: bytes):
    async def talk() -> None:
        async with misbehaving(in_order([data, Do.STALL])) as chaos:
            upstream = Httpx2Upstream(chaos.url, http2=False, retry=Retry(most=0))
            with pytest.raises(UpstreamError):
                await reply(upstream)
            async with asyncio.timeout(1):
                await asyncio.gather(*chaos.tasks)
            await upstream.close()

    run(talk())


def test_nobody_there_is_an_error_after_three_tries():
    instant = Instant()
    with pytest.raises(UpstreamError, match="cannot connect"):
        run(reply(Httpx2Upstream("http://127.0.0.1:1", world=instant.world)))
    assert instant.waits == [0.5, 1.0]


@pytest.mark.parametrize("trusted", [True, False])
def test_certificates_are_trusted_as_openssl_is_told_and_a_refused_one_is_met_once(
    certificate: Path, trusted: bool, monkeypatch: pytest.MonkeyPatch
):
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    offered = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    offered.load_cert_chain(certificate)

    async def talk() -> str:
        async with serving(always(GOOD), offered) as server:
            upstream = Httpx2Upstream(f"https://localhost:{server.port}/v1", KEY, http2=False, world=world.world)
            try:
                return (await reply(upstream)).text
            finally:
                await upstream.close()

    world = Instant()
    if trusted:
        assert run(talk()) == TEXT
    else:
        with pytest.raises(UpstreamError, match="cannot connect") as found:
            run(talk())
        assert found.value.should_retry is False
    assert not world.waits


def test_time_for_everything_is_bounded():
    async def talk() -> None:
        async with misbehaving(in_order([CHUNKED, Do.STALL])) as chaos:
            upstream = Httpx2Upstream(chaos.url, timeouts=Timeouts(total=0.1), http2=False)
            with pytest.raises(UpstreamTimeout, match="longer than 0"):
                await reply(upstream)
            await upstream.close()

    run(talk())


def test_closing_the_answer_closes_the_connection():
    async def talk() -> None:
        async with misbehaving(in_order([CHUNKED + chunked(EVENTS[:1], last=False), Do.STALL])) as chaos:
            upstream = Httpx2Upstream(chaos.url, http2=False)
            opened = upstream.open(request())
            await anext(opened)
            await opened.aclose()
            async with asyncio.timeout(1):
                await asyncio.gather(*chaos.tasks)
            await upstream.close()

    run(talk())


def test_closing_the_upstream_ends_what_is_under_way():
    async def talk() -> None:
        async with misbehaving(in_order([CHUNKED + chunked(EVENTS[:1], last=False), Do.STALL])) as chaos:
            upstream = Httpx2Upstream(chaos.url, http2=False)
            opened = upstream.open(request())
            await anext(opened)
            rest = asyncio.create_task(_rest(opened))
            await asyncio.sleep(0.02)
            await upstream.close()
            assert (await rest)[-1] == "Failure"

    run(talk())


async def _rest(opened: Batches) -> list[str]:
    return [type(event).__name__ async for batch in opened for event in batch]


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ConfigError, match="http2"):
        Httpx2Upstream("http://127.0.0.1:1")


class _Http2(asyncio.Protocol):
    """A service that speaks HTTP/2 from the first byte, and drops connections where `dropped` says so."""

    def __init__(self, met: _Met) -> None:
        self._met = met

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        h2 = pytest.importorskip("h2.connection")
        config = pytest.importorskip("h2.config").H2Configuration(client_side=False)
        self._met.connections += 1
        self._transport = cast("asyncio.Transport", transport)
        self._h2 = h2.H2Connection(config=config)
        self._h2.initiate_connection()
        self._write()

    def data_received(self, data: bytes) -> None:
        events = pytest.importorskip("h2.events")
        for event in self._h2.receive_data(data):
            if isinstance(event, events.RequestReceived):
                self._met.headers += [name for name, _ in event.headers]
            if isinstance(event, events.StreamEnded):
                self._met.streams += 1
                if self._met.streams in self._met.dropped:
                    self._transport.abort()
                    return
                headers = [(":status", "200"), ("content-type", "text/event-stream")]
                self._h2.send_headers(event.stream_id, headers)
                self._h2.send_data(event.stream_id, BODY, end_stream=True)
        self._write()

    def _write(self) -> None:
        self._transport.write(self._h2.data_to_send())


class _Met:
    """What a service that speaks HTTP/2 has met; it drops the connection at the streams of these numbers."""

    def __init__(self, *dropped: int) -> None:
        self.dropped = dropped
        self.connections = self.streams = 0
        self.headers: list[bytes] = []


@asynccontextmanager
async def _speaking_http_2(met: _Met) -> AsyncIterator[Httpx2Upstream]:
    pytest.importorskip("h2")
    server = await asyncio.get_running_loop().create_server(lambda: _Http2(met), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    upstream = Httpx2Upstream(f"http://127.0.0.1:{port}/v1", http1=False, retry=Retry(most=0))
    try:
        yield upstream
    finally:
        await upstream.close()
        server.close()
        await server.wait_closed()


def test_http_2_is_spoken_over_one_connection_that_is_kept():
    async def talk() -> None:
        met = _Met()
        async with _speaking_http_2(met) as upstream:
            answers = [await reply(upstream)]
            answers += await asyncio.gather(*(reply(upstream) for _ in range(4)))
            assert [answer.text for answer in answers] == [TEXT] * 5
            assert (met.streams, met.connections) == (5, 1)
            assert b"connection" not in met.headers

    run(talk())


@pytest.mark.requirement("R-F45")
def test_a_kept_connection_that_is_gone_is_replaced_once():
    async def talk() -> None:
        met = _Met(2, 4, 5)
        async with _speaking_http_2(met) as upstream:
            await reply(upstream)
            answer = await reply(upstream)
            assert (answer.text, [note.code for note in answer.notes]) == (TEXT, ["upstream_retry"])
            with pytest.raises(UpstreamError):
                await reply(upstream)
            assert met.streams == 5

    run(talk())
