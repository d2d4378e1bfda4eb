"""The way to a service: which proxy the environment names for it, which transport then serves, what is told of it."""

from __future__ import annotations

import sys

import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.upstreams.faulty_service import GOOD, TEXT
from tests.upstreams.loopback_server import always, serving
from tests.upstreams.request_helpers import reply, run
from toolspeak.config import Secret, TransportRoute, load
from toolspeak.config.proxies import route_for
from toolspeak.errors import ConfigError
from toolspeak.plugins import Plugins
from toolspeak.runtime.model_resolution import resolve_model
from toolspeak.upstreams.http.thin_transport import HttpUpstream, open_service

HTTPS, HTTP = "https://api.example.com/v1", "http://model.example.org:8000/v1"
PROXY = "http://proxy.test:3128"
THIN = TransportRoute()


def through(variable: str, proxy: str = PROXY) -> TransportRoute:
    return TransportRoute("httpx2", Secret(proxy), variable)


@check_each(
    ("url", "environment", "expected"),
    [
        (HTTPS, {}, THIN),
        (HTTPS, {"HTTPS_PROXY": PROXY}, through("HTTPS_PROXY")),
        (HTTPS, {"HTTP_PROXY": PROXY}, THIN),
        (HTTP, {"HTTP_PROXY": PROXY}, through("HTTP_PROXY")),
        (HTTP, {"HTTPS_PROXY": PROXY}, THIN),
        (HTTP, {"HTTP_PROXY": "http://other.test", "http_proxy": PROXY}, through("http_proxy")),
        (HTTPS, {"ALL_PROXY": PROXY}, through("ALL_PROXY")),
        (HTTPS, {"all_proxy": PROXY, "https_proxy": " "}, through("all_proxy")),
        (HTTPS, {"HTTPS_PROXY": "proxy.test:3128"}, through("HTTPS_PROXY")),
        (HTTPS, {"HTTPS_PROXY": ""}, THIN),
        # A program that a web server starts gets the headers of the client as variables.
        (HTTP, {"HTTP_PROXY": PROXY, "REQUEST_METHOD": "POST"}, THIN),
        (HTTP, {"http_proxy": PROXY, "REQUEST_METHOD": "POST"}, through("http_proxy")),
        ("http://[::1", {"HTTP_PROXY": PROXY}, THIN),
        ("http:///v1", {"HTTP_PROXY": PROXY}, THIN),
        ("", {"ALL_PROXY": PROXY}, THIN),
    ],
)
def test_the_environment_names_a_proxy_by_the_variables_that_everybody_knows(
    url: str, environment: dict[str, str], expected: TransportRoute
):
    assert route_for(url, "auto", environment) == expected


@check_each(
    "url",
    ["http://localhost:9000", "http://127.0.0.1:9000/v1", "http://127.8.8.8", "http://[::1]:9", "http://a.localhost."],
)
def test_nothing_on_this_machine_is_reached_through_a_proxy(url: str):
    assert route_for(url, "auto", {"HTTP_PROXY": PROXY}) == THIN


@check_each(
    ("listed", "url", "excepted"),
    [
        ("*", HTTPS, True),
        ("api.example.com", HTTPS, True),
        ("API.Example.com.", HTTPS, True),
        ("example.com", HTTPS, True),
        (".example.com", HTTPS, True),
        ("*.example.com", HTTPS, True),
        ("ample.com", HTTPS, False),
        ("example.org , example.com", HTTPS, True),
        ("example.com:443", HTTPS, True),
        ("example.com:8443", HTTPS, False),
        (",, .", HTTPS, False),
        ("10.0.0.0/8", "https://10.1.2.3/v1", True),
        ("10.0.0.0/8", "https://11.1.2.3/v1", False),
        ("10.1.2.3", "https://10.1.2.3/v1", True),
        ("10.1.2.3:443", "https://10.1.2.3/v1", True),
        ("fd00::/8", "https://[fd00::1]/v1", True),
        ("[fd00::1]", "https://[fd00::1]/v1", True),
        ("10.0.0.0/8", HTTPS, False),
    ],
)
@check_each("variable", ["NO_PROXY", "no_proxy"])
def test_hosts_that_no_proxy_lists_are_reached_without_one(listed: str, url: str, excepted: bool, variable: str):
    found = route_for(url, "auto", {"HTTPS_PROXY": PROXY, variable: listed})
    assert found == (THIN if excepted else through("HTTPS_PROXY"))


@check_each(
    ("transport", "environment", "expected"),
    [
        ("thin", {"HTTPS_PROXY": PROXY}, THIN),
        ("httpx2", {}, TransportRoute("httpx2")),
        ("httpx2", {"HTTPS_PROXY": PROXY}, through("HTTPS_PROXY")),
        ("httpx2", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, TransportRoute("httpx2")),
        ("auto", {}, THIN),
    ],
)
def test_the_transport_can_be_set_by_argument_setting_flag_and_variable(
    transport: str, environment: dict[str, str], expected: TransportRoute
):
    assert load({}, env=environment).route(HTTPS, transport) == expected
    assert load({"transport": transport}, env=environment).route(HTTPS) == expected
    assert load({}, env={**environment, "TOOLSPEAK_TRANSPORT": transport}).route(HTTPS) == expected


def test_the_proxys_password_is_shown_nowhere():
    route = route_for(HTTPS, "auto", {"HTTPS_PROXY": "http://me:hunter2222@proxy.test"})
    assert "hunter2222" not in repr(route)
    assert route.proxy.reveal() == "http://me:hunter2222@proxy.test"


def test_without_a_proxy_the_thin_transport_serves():
    assert isinstance(open_service(THIN, HTTPS), HttpUpstream)


def test_a_model_is_asked_through_the_proxy_and_every_answer_says_so():
    pytest.importorskip("httpx2")

    async def talk() -> None:
        async with serving(always(GOOD)) as server:
            config = load({}, env={"http_proxy": f"http://me:hunter2222@127.0.0.1:{server.port}"})
            upstream = resolve_model("openai:m", HTTP, "k" * 20, config, Plugins("none")).upstream
            for _ in range(2):
                found = await reply(upstream)
                assert (found.text, [note.code for note in found.notes]) == (TEXT, ["proxy_used"])
                assert "http_proxy" in found.notes[0].detail
                assert "hunter2222" not in repr(found)
            assert server.heard[0].line == f"POST {HTTP}/chat/completions HTTP/1.1"
            await upstream.close()

    run(talk())


def test_the_other_transport_without_a_proxy_needs_no_note():
    pytest.importorskip("httpx2")

    async def talk() -> None:
        async with serving(always(GOOD)) as server:
            upstream = resolve_model(
                "openai:m", server.url, "", load({}, env={}), Plugins("none"), transport="httpx2"
            ).upstream
            found = await reply(upstream)
            assert (type(upstream).__name__, found.text, found.notes) == ("Httpx2Upstream", TEXT, ())
            await upstream.close()

    run(talk())


@pytest.mark.parametrize(
    ("route", "hint"), [(through("HTTPS_PROXY"), 'transport = "thin"'), (TransportRoute("httpx2"), "http2")]
)
def test_a_transport_that_is_not_installed_says_what_to_do(
    route: TransportRoute, hint: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ConfigError, match="httpx2") as caught:
        open_service(route, HTTPS)
    assert hint in str(caught.value)


@check_each("transport", ["fat", "Thin"])
def test_a_transport_that_there_is_not_is_the_callers_mistake(transport: str):
    with pytest.raises(ts.UsageError, match=f"unknown transport `{transport}`"):
        ts.Client("openai:m", base_url=HTTP, transport=transport, config=load({}, env={}))
