"""Sessions: one code, one session, each for its time."""

from __future__ import annotations

import base64
import hashlib
import re
from copy import deepcopy

import pytest

from tests.server.asgi_client import Team, ask, bearer, gateway, run
from toolspeak.server.access.login_sessions import CODE_SECONDS, SESSION_SECONDS, LoginSessions, session_in
from toolspeak.server.app import App


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_code_is_good_for_one_session():
    sessions = LoginSessions()
    code = sessions.new_code()
    session = sessions.exchange(code)
    assert session
    assert sessions.is_valid(session)
    assert sessions.exchange(code) == ""


def test_nothing_else_is_a_code_or_a_session():
    sessions = LoginSessions()
    code = sessions.new_code()
    assert sessions.exchange("") == ""
    assert sessions.exchange(code[:-1]) == ""
    assert not sessions.is_valid("")
    assert not sessions.is_valid(code)


def test_codes_and_sessions_end():
    clock = Clock()
    sessions = LoginSessions(clock)
    late, code = sessions.new_code(), sessions.new_code()
    session = sessions.exchange(code)
    clock.now += CODE_SECONDS
    assert sessions.exchange(late) == ""
    assert sessions.is_valid(session)
    clock.now += SESSION_SECONDS
    assert not sessions.is_valid(session)


def test_a_session_can_be_ended():
    sessions = LoginSessions()
    session = sessions.exchange(sessions.new_code())
    sessions.end(session)
    assert not sessions.is_valid(session)


def test_many_browsers_put_nobody_out():
    clock = Clock()
    sessions = LoginSessions(clock)
    standing = sessions.server_session()
    others = [sessions.exchange(sessions.new_code()) for _ in range(100)]
    assert all(map(sessions.is_valid, [standing, *others]))
    clock.now += SESSION_SECONDS
    assert sessions.is_valid(standing)
    assert not any(map(sessions.is_valid, others))


def test_every_worker_knows_the_sessions_of_the_others():
    parent = LoginSessions()
    code = parent.new_code()
    one, two = deepcopy(parent), deepcopy(parent)  # as a fork makes them
    assert two.is_valid(one.exchange(code))
    assert two.is_valid(one.begin("0123"))
    assert two.exchange(one.new_code())
    assert one.exchange(code) == ""


def test_what_was_signed_elsewhere_or_for_something_else_is_nothing():
    sessions, other = LoginSessions(), LoginSessions()
    session = other.begin("0123")
    head, _, rest = session.partition(".")
    forged = (
        session,
        f"inf.{rest}",
        f"{head}9.{rest}",
        other.server_session(),
        sessions.new_code(),
        "é.1.2.3",
        "x" * 5000,
    )
    assert not any(map(sessions.is_valid, forged))
    assert sessions.exchange(sessions.begin()) == ""
    sessions.end(session)
    assert other.key_id(session) == "0123"


def test_the_session_is_found_among_other_cookies():
    def named(*cookies: bytes) -> str:
        return session_in({"headers": [(b"accept", b"*/*"), *((b"cookie", cookie) for cookie in cookies)]})

    assert named(b"a=b; toolspeak_session=xyz; c=d") == "xyz"
    assert named(b"a=b", b"toolspeak_session=x=y") == "x=y"
    assert named(b"xtoolspeak_session=x") == ""
    assert named() == ""


def test_two_servers_of_one_machine_have_two_cookies():
    def named(host: bytes, cookie: bytes) -> str:
        return session_in({"headers": [(b"host", host), (b"cookie", cookie)]})

    both = b"toolspeak_session_8788=one; toolspeak_session_8789=two; toolspeak_session=plain"
    assert named(b"127.0.0.1:8788", both) == "one"
    assert named(b"[::1]:8789", both) == "two"
    assert named(b"[::1]", both) == named(b"toolspeak.example", both) == named(b"localhost:1", both) == "plain"
    team = Team()
    begun = run(ask(team.app, "POST", "/toolspeak/session", {}, {"code": team.access.sessions.new_code()}))
    assert begun.header("set-cookie").startswith("toolspeak_session_8788=")


@pytest.mark.requirement("R-T7")
def test_a_key_for_admins_becomes_a_session_until_it_is_revoked():
    team = Team()
    key = team.key("root", admin=True)
    begun = run(ask(team.app, "POST", "/toolspeak/session", {}, {"code": f" {key} "}))
    cookie = begun.header("set-cookie").split("; ")[0]
    assert begun.status == 200
    assert key not in cookie
    assert run(ask(team.app, "GET", "/toolspeak/requests", {"Cookie": cookie})).status == 200
    team.keys.revoke("root")
    assert run(ask(team.app, "GET", "/toolspeak/requests", {"Cookie": cookie})).status == 401


@pytest.mark.requirement("R-T9")
def test_no_other_key_becomes_a_session():
    team = Team()
    anna = run(ask(team.app, "POST", "/toolspeak/session", {}, {"code": team.key("anna")}))
    assert (anna.status, anna.header("set-cookie")) == (403, "")
    wrong = run(ask(team.app, "POST", "/toolspeak/session", {}, {"code": "tsk-wrong"}))
    assert (wrong.status, wrong.header("set-cookie")) == (401, "")
    assert run(ask(team.app, "POST", "/toolspeak/link", bearer(team.key("bert")))).status == 403


def test_who_has_come_in_gets_a_code_for_another_browser():
    team = Team()
    code = run(ask(team.app, "POST", "/toolspeak/link", bearer(team.key("root", admin=True)))).json["code"]
    assert run(ask(team.app, "POST", "/toolspeak/session", {}, {"code": code})).status == 200


@pytest.mark.requirement("R-T7")
def test_the_page_of_the_link_may_run_its_own_script_and_nothing_else():
    answer = run(ask(App(gateway()), "GET", "/toolspeak/session"))
    assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")
    (script,) = re.findall("<script>(.*)</script>", answer.body.decode(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = answer.header("content-security-policy")
    assert policy == f"default-src 'none'; script-src 'sha256-{digest}'; connect-src 'self'; frame-ancestors 'none'"
    assert answer.header("referrer-policy") == "no-referrer"
