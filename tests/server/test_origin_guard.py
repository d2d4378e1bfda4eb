"""Where a request comes from: Host, Origin, and what browsers say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import toolspeak.server.access.origin_guard as module
from tests.cases import check_each
from tests.server.asgi_client import HELLO, Team, ask, run
from toolspeak.key_value import FileState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access, Forbidden, Unauthorized
from toolspeak.server.access.origin_guard import (
    MAX_HEADER_BYTES,
    ForbiddenOrigin,
    HeadersTooLarge,
    OriginGuard,
    is_loopback,
)
from toolspeak.server.routes import all_routes, find_route

CLIENT, ADMIN = find_route("POST", "/v1/chat/completions"), find_route("GET", "/metrics")


def scope(key: str, *more: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"headers": [(b"host", b"localhost"), (b"authorization", b"Bearer " + key.encode()), *more]}


def test_a_caller_that_is_known_again_is_known_no_longer_once_its_key_is_revoked(tmp_path: Path):
    keys = ApiKeys(FileState(tmp_path / "state.json"))
    anna, bert = keys.new("anna")[1], keys.new("bert")[1]
    guard = OriginGuard(Access(keys, required=True))
    for _ in range(2):
        assert [guard.check(scope(key), CLIENT).tenant for key in (anna, bert)] == [
            next(key.id for key in keys.all() if key.name == name) for name in ("anna", "bert")
        ]
    with pytest.raises(Forbidden):
        guard.check(scope(anna), ADMIN)
    with pytest.raises(ForbiddenOrigin):
        guard.check(scope(anna, (b"origin", b"https://evil.test")), CLIENT)
    with pytest.raises(HeadersTooLarge):
        guard.check(scope(anna, (b"x-more", b"x" * MAX_HEADER_BYTES)), CLIENT)
    keys.revoke("anna")
    with pytest.raises(Unauthorized):
        guard.check(scope(anna), CLIENT)
    assert guard.check(scope(bert), CLIENT).key is not None


def test_callers_that_are_known_again_are_bounded_and_bring_no_key_of_their_own(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(module, "_MAX_CACHED", 2)
    guard = OriginGuard(Access(ApiKeys(FileState(tmp_path / "state.json")), required=False))
    (tmp_path / "state.json").write_text("{}")
    for name in (b"1", b"2", b"3", b"3"):
        guard.check({"headers": [(b"host", b"localhost:" + name)]}, CLIENT)
        assert len(guard._callers) <= 2  # pyright: ignore[reportPrivateUsage]
    guard.check(scope("sk-of-somebody-else"), CLIENT)
    assert not any(caller.own_keys for _, caller in guard._callers.values())  # pyright: ignore[reportPrivateUsage]


PLACES = [("GET", "/v1/models"), ("POST", "/v1/chat/completions"), ("GET", "/health"), ("POST", "/toolspeak/session")]


def status(headers: list[tuple[str, str]], host: str = "127.0.0.1:8788", place: tuple[str, str] = PLACES[1]) -> int:
    return run(ask(Team(required=False).app, *place, headers, HELLO, host)).status


@pytest.mark.requirement("R-T7")
@check_each("host", ["localhost", "LOCALHOST:8788", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8788", "localhost:1"])
def test_a_server_on_loopback_is_called_by_the_names_of_this_machine(host: str):
    assert status([], host) == 200


@pytest.mark.requirement("R-T7")
@check_each("place", PLACES)
@check_each(
    "host",
    [
        "evil.test",
        "evil.test:8788",
        "localhost.evil.test",
        "evil.test#localhost",
        "localhost#",
        "localhost@evil.test",
        "evil@localhost",
        "localhost:8788:evil",
        "localhost:x",
        "127.0.0.1.evil.test",
        "127.0.0.2",
        "127.1",
        "0.0.0.0",
        "2130706433",
        "localhost.",
        "localhost:٣",
        "::1",
        " localhost",
        "localhost/..",
        "",
    ],
)
def test_any_other_name_is_refused_for_every_route(host: str, place: tuple[str, str]):
    # A header holds bytes; what is not Latin-1 comes as UTF-8.
    raw = host.encode().decode("latin-1")
    assert status([], raw, place) == 403


@pytest.mark.requirement("R-T7")
def test_a_second_host_or_origin_does_not_count():
    for second in (("Host", "evil.test"), ("Host", "127.0.0.1:8788")):
        assert status([second]) == 403
    assert status([("Origin", "http://127.0.0.1:8788"), ("Origin", "http://evil.test")]) == 403
    assert status([("Origin", "")]) == 403


@pytest.mark.requirement("R-T7")
@check_each("kind", ["application/json", "text/plain", "application/x-www-form-urlencoded", ""])
@check_each(
    "origin",
    [
        "http://evil.test",
        "https://evil.test",
        "null",
        "file://",
        "http://localhost:3000",
        "http://localhost:8788",
        "http://127.0.0.1:8789",
        "http://127.0.0.1:8788.evil.test",
        "http://127.0.0.1:8788@evil.test",
        "http://evil.test/127.0.0.1:8788",
        "ftp://127.0.0.1:8788",
        "127.0.0.1:8788",
        "*",
    ],
)
def test_a_page_from_elsewhere_is_refused_whatever_it_sends(origin: str, kind: str):
    assert status([("Origin", origin), ("Content-Type", kind)]) == 403


@pytest.mark.requirement("R-T7")
def test_our_own_page_is_not_refused():
    assert status([("Origin", "http://127.0.0.1:8788"), ("Sec-Fetch-Site", "same-origin")]) == 200
    assert status([("Origin", "http://127.0.0.1")], "127.0.0.1:80") == 200
    assert status([("Origin", "https://127.0.0.1:443")], "127.0.0.1") == 200
    assert status([("Sec-Fetch-Site", "none")]) == 200


@pytest.mark.requirement("R-T7")
@check_each("site", ["cross-site", "same-site", "anything"])
@check_each("place", PLACES)
def test_what_a_browser_calls_cross_site_is_refused(site: str, place: tuple[str, str]):
    assert status([("Sec-Fetch-Site", site)], place=place) == 403


@pytest.mark.requirement("R-T7")
def test_no_other_site_is_told_that_it_may_read():
    app = Team(required=False).app
    for method, path in [*sorted(all_routes()), ("OPTIONS", "/v1/chat/completions")]:
        headers = {"Origin": "http://evil.test", "Access-Control-Request-Method": "POST"}
        answer = run(ask(app, method, path, headers))
        assert answer.status == 403
        assert not [name for name, _ in answer.headers if name.startswith("access-control")]


@pytest.mark.requirement("R-T7")
def test_a_refusal_has_the_shape_of_the_protocol():
    answer = run(ask(Team(required=False).app, "POST", "/v1/messages", {"Origin": "null"}, HELLO))
    assert answer.json["type"] == "error"
    assert answer.json["error"]["type"] == "permission_error"


def test_names_can_be_allowed():
    guard = OriginGuard(hosts=frozenset({"Gate.example"}))
    for host, allowed in ((b"gate.example:8788", True), (b"localhost", True), (b"other.example", False)):
        scope = {"headers": [(b"host", host)]}
        if allowed:
            guard.check(scope, None)
        else:
            with pytest.raises(Exception, match="Host"):
                guard.check(scope, None)


@pytest.mark.requirement("R-T11")
def test_headers_without_end_are_refused():
    assert status([("x-long", "x" * (MAX_HEADER_BYTES // 2))]) == 200
    assert status([("x-long", "x" * MAX_HEADER_BYTES)]) == 431
    assert status([(f"x-{number}", "x") for number in range(20_000)]) == 431


@check_each(
    ("host", "here"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("", False)],
)
def test_whoever_listens_elsewhere_can_be_reached_from_elsewhere(host: str, here: bool):
    assert is_loopback(host) is here
