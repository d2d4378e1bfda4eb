"""Sessions: one code, one session, each for its time."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from tests.server.asgi import ask, gateway, run
from toolspeak.server.app import App
from toolspeak.server.sessions import CODE_SECONDS, SESSION_SECONDS, Sessions, session_in


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_code_is_good_for_one_session():
    sessions = Sessions()
    code = sessions.code()
    session = sessions.exchange(code)
    assert session
    assert sessions.holds(session)
    assert sessions.exchange(code) == ""


def test_nothing_else_is_a_code_or_a_session():
    sessions = Sessions()
    code = sessions.code()
    assert sessions.exchange("") == ""
    assert sessions.exchange(code[:-1]) == ""
    assert not sessions.holds("")
    assert not sessions.holds(code)


def test_codes_and_sessions_end():
    clock = Clock()
    sessions = Sessions(clock)
    late, code = sessions.code(), sessions.code()
    session = sessions.exchange(code)
    clock.now += CODE_SECONDS
    assert sessions.exchange(late) == ""
    assert sessions.holds(session)
    clock.now += SESSION_SECONDS
    assert not sessions.holds(session)


def test_a_session_can_be_ended():
    sessions = Sessions()
    session = sessions.exchange(sessions.code())
    sessions.end(session)
    assert not sessions.holds(session)


def test_there_are_never_many():
    clock = Clock()
    sessions = Sessions(clock)
    first = sessions.exchange(sessions.code())
    others = [sessions.exchange(sessions.code()) for _ in range(32)]
    assert not sessions.holds(first)
    assert all(map(sessions.holds, others))
    clock.now += SESSION_SECONDS
    assert sessions.holds(sessions.exchange(sessions.code()))


def test_the_session_is_found_among_other_cookies():
    def named(*cookies: bytes) -> str:
        return session_in({"headers": [(b"accept", b"*/*"), *((b"cookie", cookie) for cookie in cookies)]})

    assert named(b"a=b; toolspeak_session=xyz; c=d") == "xyz"
    assert named(b"a=b", b"toolspeak_session=x=y") == "x=y"
    assert named(b"xtoolspeak_session=x") == ""
    assert named() == ""


@pytest.mark.requirement("R-T7")
def test_the_page_of_the_link_may_run_its_own_script_and_nothing_else():
    answer = run(ask(App(gateway()), "GET", "/toolspeak/session"))
    assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")
    (script,) = re.findall("<script>(.*)</script>", answer.body.decode(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = answer.header("content-security-policy")
    assert policy == f"default-src 'none'; script-src 'sha256-{digest}'; connect-src 'self'; frame-ancestors 'none'"
    assert answer.header("referrer-policy") == "no-referrer"
