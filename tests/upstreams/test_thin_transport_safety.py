"""The everyday transport: the key is told to nobody, and TLS is verified."""

from __future__ import annotations

import asyncio
import logging
import ssl
import traceback
from pathlib import Path

import msgspec
import pytest

from tests.upstreams.loopback_server import always, chunked, cut, head, serving
from tests.upstreams.request_helpers import Instant, loops, reply, request, run
from tests.upstreams.test_thin_transport import ANSWERS, DONE, HELLO, KEY, SSE, STOP, STREAM, TEXT, _stalls_after
from toolspeak.core.events import Reply, TextDelta
from toolspeak.errors import ConfigError, UpstreamError
from toolspeak.upstreams.http import thin_transport as http
from toolspeak.upstreams.http.thin_transport import HttpUpstream

# ------------------------------------------------------------------------------------------------ secrets


ECHO = f"Incorrect API key provided: {KEY}. See Bearer {KEY}"
TELLING = {
    "an error": head("Content-Type: application/json", status="401 Unauthorized")
    + msgspec.json.encode({"error": {"message": ECHO}}),
    "plain words": head(status="401 Unauthorized") + ECHO.encode(),
    "a key that is cut off": head(status="401 Unauthorized") + b"x" * 190 + KEY.encode() * 9,
    "a web page": head("Content-Type: text/html") + ECHO.encode(),
    "an event": SSE + chunked([b"data: " + msgspec.json.encode({"error": {"message": ECHO}}) + b"\n\n"]),
    "an event after text": SSE
    + chunked([HELLO, b"data: " + msgspec.json.encode({"error": {"message": ECHO}}) + b"\n\n"]),
    "an event that cannot be read": SSE + chunked([b"data: {" + b"x" * 185 + KEY.encode() + b"\n\n"]),
    "an event that cannot be read, before an answer": SSE + chunked([b"data: {" + ECHO.encode() + b"\n\n", STREAM]),
    "an event that cannot be read, in an answer": SSE
    + chunked([HELLO, b"data: {" + ECHO.encode() + b"\n\n", STOP, DONE]),
    "an error with escapes": head("Content-Type: application/json", status="401 Unauthorized")
    + b'{"error":{"message":"'
    + ECHO.replace("sk-", "\\u0073k\\u002d").encode()
    + b'"}}',
    "not HTTP": ECHO.encode(),
    "a header of an error": head(f"X-Request-Id: {KEY}", "Content-Length: 0", status="500 Internal Server Error"),
    "a header": head(f"Content-Encoding: {KEY}", "Content-Length: 0"),
}


@pytest.mark.requirement("R-T2")
@pytest.mark.parametrize("data", TELLING.values(), ids=TELLING.keys())
def test_the_key_is_in_no_error_however_the_service_tells_it(data: bytes, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)

    async def talk() -> str:
        async with serving(always(data)) as server:
            upstream = HttpUpstream(server.url, KEY, world=Instant().world)
            try:
                answer = await reply(upstream)
            except UpstreamError as error:
                return "".join([*traceback.format_exception(error), error.body, repr(error), repr(upstream)])
            return repr(answer)

    shown = run(talk()) + caplog.text
    assert KEY not in shown
    assert KEY[:8] not in shown
    assert KEY[3:] not in shown


def test_other_headers_are_secret_too():
    async def talk() -> None:
        async with serving(always(head(status="403 Forbidden") + b"your token tok-987654321 is stale")) as server:
            with pytest.raises(UpstreamError) as found:
                await reply(HttpUpstream(server.url, headers=[("X-Token", "tok-987654321")]))
            assert found.value.body == "your token *** is stale"

    run(talk())


def test_a_key_that_no_header_can_carry_is_refused_and_not_shown():
    with pytest.raises(ConfigError) as found:
        HttpUpstream("http://127.0.0.1", f"{KEY}\r\nX-Evil: 1")
    assert KEY not in str(found.value)


def test_an_unknown_protocol_is_refused():
    with pytest.raises(ConfigError, match="`morse`"):
        HttpUpstream("http://127.0.0.1", protocol="morse")


def test_what_is_shown_of_an_upstream():
    upstream = HttpUpstream("http://127.0.0.1:9/v1", KEY, provider="groq")
    assert repr(upstream) == "HttpUpstream('http://127.0.0.1:9/v1', protocol='openai_chat', provider='groq')"


# ---------------------------------------------------------------------------------------------------- TLS


def _over_tls(certificate: Path, host: str, trusted: bool) -> Reply:
    async def talk() -> Reply:
        offered = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        offered.load_cert_chain(certificate)
        async with serving(always(*cut(ANSWERS["chunks of events"], 100)), offered) as server:
            ours = ssl.create_default_context(cafile=str(certificate)) if trusted else None
            upstream = HttpUpstream(f"https://{host}:{server.port}/v1", KEY, tls=ours)
            try:
                return await reply(upstream)
            finally:
                await upstream.close()

    return run(talk())


def test_a_certificate_that_is_trusted_is_accepted(certificate: Path):
    assert _over_tls(certificate, "localhost", trusted=True).text == TEXT


@pytest.mark.parametrize(("host", "trusted"), [("localhost", False), ("127.0.0.1", True)])
def test_a_certificate_of_a_stranger_or_for_another_name_is_refused(certificate: Path, host: str, trusted: bool):
    with pytest.raises(UpstreamError, match="cannot connect") as found:
        _over_tls(certificate, host, trusted)
    assert isinstance(found.value.__cause__, ssl.SSLCertVerificationError)


def test_a_service_that_chooses_another_protocol_is_refused(certificate: Path):
    async def talk() -> None:
        offered = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        offered.load_cert_chain(certificate)
        offered.set_alpn_protocols(["h2"])
        ours = ssl.create_default_context(cafile=str(certificate))
        ours.set_alpn_protocols(["h2", "http/1.1"])
        async with serving(always(b""), offered) as server:
            with pytest.raises(UpstreamError, match="`h2`"):
                await reply(HttpUpstream(f"https://localhost:{server.port}/v1", KEY, tls=ours))
            assert server.heard == []

    run(talk())


def test_the_name_and_the_protocol_are_told_in_the_greeting(certificate: Path):
    told: list[str | None] = []

    async def talk() -> None:
        offered = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        offered.load_cert_chain(certificate)
        offered.set_alpn_protocols(["h2", "http/1.1"])
        offered.sni_callback = lambda link, name, context: told.append(name)
        async with serving(always(ANSWERS["a stream to the end"]), offered) as server:
            # The context that is used by default, but for the one authority that it cannot know.
            http._default_tls.cache_clear()
            http._default_tls().load_verify_locations(str(certificate))
            upstream = HttpUpstream(f"https://localhost:{server.port}/v1", KEY)
            opened = upstream.open(request())
            await anext(opened)
            (connection,) = next(iter(upstream._pools.values()))._all
            assert connection._transport.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
            await opened.aclose()

    try:
        run(talk())
    finally:
        http._default_tls.cache_clear()
    assert told == ["localhost"]


@pytest.mark.requirement("R-CANCEL")
@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_closing_the_answer_closes_an_encrypted_connection_too(certificate: Path, kind: str):
    async def talk() -> None:
        offered = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        offered.load_cert_chain(certificate)
        ours = ssl.create_default_context(cafile=str(certificate))
        async with asyncio.timeout(5), serving(_stalls_after(SSE + chunked([HELLO], last=False)), offered) as server:
            upstream = HttpUpstream(f"https://localhost:{server.port}/v1", tls=ours)
            for _ in range(3):
                opened = upstream.open(request())
                assert await anext(opened) == [TextDelta("Grüße")]
                await opened.aclose()
                await server.heard[-1].gone.wait()
            await asyncio.gather(upstream.close(), upstream.close())

    with asyncio.Runner(loop_factory=loops(kind)) as runner:
        runner.run(talk())
