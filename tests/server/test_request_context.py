"""The id of a request: on its answer, on every line of the log, and in nothing else."""

from __future__ import annotations

import io
import itertools
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import HELLO, Parrot, Team, ask, bearer, gateway, line, run
from tests.server.protocol_clients import Speaker
from tests.server.scripted_peers import FACES, Script
from tests.server.test_metrics import CHAT, TOOLS, Answers
from toolspeak.config import Secret
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import UpstreamError
from toolspeak.key_value import MemoryState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.observe import request_context
from toolspeak.server.observe.logs import Format, TerminalLogFormatter, configure_logging
from toolspeak.server.observe.request_context import new_id
from toolspeak.server.process.lifecycle import Lifecycle
from toolspeak.server.routes import all_routes


@contextmanager
def logged(
    form: Format = "json",
    level: int = logging.DEBUG,
    access: bool = True,
    terminal: logging.Formatter | None = None,
) -> Iterator[io.StringIO]:
    """What goes to the log."""
    root, access_log = logging.getLogger(), logging.getLogger("toolspeak.access")
    before = (list(root.handlers), root.level, access_log.level)
    written = io.StringIO()
    try:
        handler = configure_logging(
            lambda: [Secret("a-configured-secret")], level, form, access=access, terminal=terminal
        )
        handler.setStream(written)  # type: ignore[attr-defined]
        yield written
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        access_log.setLevel(before[2])


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(each) for each in written.getvalue().splitlines()]


def recording(*parts: Any, **fields: Any) -> App:
    return App(gateway(*parts), lifecycle=Lifecycle(access_log=True), **fields)


# ---- the id


@FACES
def test_every_answer_carries_the_id_under_which_its_record_is_found(speaker: Speaker):
    app = recording()
    answer = run(ask(app, "POST", speaker.path(False), {}, speaker.ask(False, tools=False)))
    identifier = answer.header("x-request-id")
    assert len(identifier) == 32
    assert json.loads(answer.header("x-toolspeak"))["id"] == identifier
    assert run(ask(app, "GET", f"/toolspeak/requests/{identifier}")).status == 200


@check_each(("method", "path"), sorted(all_routes()))
def test_every_route_answers_with_an_id_also_when_it_refuses(method: str, path: str):
    answer = run(ask(Team().app, method, path))
    assert answer.header("x-request-id")
    assert [name for name, _ in answer.headers].count("x-request-id") == 1


@check_each("given", ["req-1", "0af7651916cd43dd", "a.b:c/d+e=", "x" * 128])
def test_an_id_that_a_client_gives_comes_back(given: str):
    answer = run(ask(recording(), "POST", CHAT, {"x-request-id": given}, HELLO))
    assert answer.header("x-request-id") == given
    assert json.loads(answer.header("x-toolspeak"))["id"] != given


@pytest.mark.requirement("R-T20")
@check_each("given", ["", " ", "x" * 129, "a b", "a;b", "<script>", "\xe4", "a\tb", '"', "%0d%0a"])
def test_an_id_that_could_do_harm_is_replaced(given: str):
    answer = run(ask(recording(), "GET", "/health", {"x-request-id": given}))
    assert answer.header("x-request-id") != given
    assert len(answer.header("x-request-id")) == 32


# ---- the log


@pytest.mark.parametrize(("colours", "status"), [(True, "\x1b[32m200\x1b[0m"), (False, "200")])
def test_a_terminal_gets_one_short_line_for_each_model_request(colours: bool, status: str):
    call = '```json action\n{"tool": "look", "parameters": {"n": 3}}\n```'
    with logged(level=logging.WARNING, terminal=TerminalLogFormatter(tuple, colours=colours)) as written:
        answers = Answers("I can't help with that, because I have no tools.", call)
        app = recording(
            line("one", answers, models=("m",), settings=lambda model: Settings(mode="force", marks="fixed"))
        )
        agent = {"user-agent": "codex/1.0 (\x1b[2J)"}
        identifier = run(ask(app, "POST", CHAT, agent, {**HELLO, "tools": TOOLS})).header("x-request-id")
        run(ask(app, "GET", "/health", agent))
        logging.getLogger("toolspeak.server").warning("something else")
    request, other = written.getvalue().splitlines()
    shown = re.fullmatch(r"\d\d:\d\d:\d\d  (.*)  \d\.\d s  (\w{8})", request)
    assert shown is not None
    assert shown.groups() == (f"{status}  codex  m  inline  look  1 retry", identifier[:8])
    assert "warning  something else" in other


def test_a_terminal_names_the_model_that_answers_instead_of_another_one():
    with logged(level=logging.WARNING, terminal=TerminalLogFormatter(tuple, colours=False)) as written:
        app = recording(line("one", Answers("Hello.", "Hello."), fixed="m"))
        for name in ("gpt-4", "m"):
            run(ask(app, "POST", CHAT, {}, {**HELLO, "model": name}))
    replaced, named = written.getvalue().splitlines()
    assert "  gpt-4 (answered by m)  " in replaced
    assert "  m  " in named


def test_a_terminal_shows_why_a_request_failed():
    with logged(level=logging.ERROR, terminal=TerminalLogFormatter(tuple, colours=False)) as written:
        app = recording(line("one", Script(UpstreamError("out of\nmemory")), models=("m",)))
        run(ask(app, "POST", CHAT, {}, HELLO))
        run(ask(app, "GET", "/nowhere"))
    failed, rejected = written.getvalue().splitlines()
    assert re.search(r"  502  m  .*  out of\\nmemory", failed)
    assert "  404  GET /nowhere  " in rejected


@pytest.mark.requirement("H6")
def test_every_line_names_the_request_and_the_last_one_tells_how_it_went():
    with logged() as written:
        app = recording(
            line("one", Answers("It is fine."), models=("m",), settings=lambda model: Settings(mode="force"))
        )
        run(ask(app, "POST", CHAT + "?key=AIza-canary", {"x-request-id": "req-1"}, {**HELLO, "tools": TOOLS}))
    told = [each for each in lines(written) if each["logger"] == "toolspeak.access"]
    (entry,) = told
    assert entry["message"] == f"POST {CHAT}"
    assert (entry["request_id"], entry["status"], entry["route"]) == ("req-1", 200, "openai_chat")
    assert (entry["model"], entry["plan"], entry["requests"]) == ("m", "inline", 1)
    assert entry["no_call"]
    assert len(entry["record"]) == 32
    assert 0 <= entry["added_ms"] <= entry["ms"]


def test_a_mistake_of_ours_is_logged_with_the_id_that_the_client_sees(monkeypatch: pytest.MonkeyPatch):
    def broken(*arguments: Any) -> Any:
        raise RuntimeError("a mistake with a-configured-secret")

    monkeypatch.setattr("toolspeak.server.proxy.exchange.check_request", broken)
    with logged(access=False) as written:
        answer = run(ask(recording(), "POST", CHAT, {}, HELLO))
    assert answer.status == 500
    (entry,) = [each for each in lines(written) if each["level"] == "error"]
    assert entry["request_id"] == answer.header("x-request-id")
    assert "RuntimeError: a mistake with ***" in entry["error"]


def test_pages_have_lines_too_and_nothing_has_where_none_are_wanted():
    with logged() as written:
        run(ask(recording(), "GET", "/health"))
        run(ask(recording(), "GET", "/nowhere"))
    told = [(each["route"], each["status"]) for each in lines(written) if each["logger"] == "toolspeak.access"]
    assert told == [("health", 200), ("none", 404)]
    with logged(level=logging.WARNING, access=False) as written:
        run(ask(App(gateway()), "GET", "/health"))
    assert written.getvalue() == ""


@FACES
@pytest.mark.requirement("H6")
def test_a_model_request_that_is_refused_has_one_line_as_every_other(speaker: Speaker):
    path, body = speaker.path(False), speaker.ask(False, tools=False)
    near = recording(line("one", Answers("Hi."), models=("known",)))
    strict = OriginGuard(Access(ApiKeys(MemoryState()), required=True))
    with logged() as written:
        refused = [
            run(ask(recording(guard=strict), "POST", path, {}, body)),
            run(ask(near, "POST", path, {}, body)),
            run(ask(near, "POST", path, {}, b"{")),
            run(ask(recording(), "POST", path, {}, body)),
        ]
    told = [each for each in lines(written) if each["logger"] == "toolspeak.access"]
    assert [each["status"] for each in told] == [answer.status for answer in refused] == [401, 404, 400, 200]
    assert [each["request_id"] for each in told] == [answer.header("x-request-id") for answer in refused]
    assert len({each["route"] for each in told}) == 1


@pytest.mark.requirement("R-T11")
def test_a_path_without_end_is_not_said_again():
    with logged() as written:
        places = ("/", "/v1/", "/api/", "/v1beta/models/", "/v1/v1/models/")
        for method, path in itertools.product(("GET", "POST"), places):
            answer = run(ask(recording(), method, path + "x" * 60_000))
            assert answer.status in (404, 405)
            assert len(answer.body) < 1000
    assert max(map(len, written.getvalue().splitlines())) < 1000


def test_for_people_a_line_is_text_and_a_traceback_follows():
    with logged("text") as written:
        run(ask(recording(), "GET", "/health", {"x-request-id": "req-1"}))
        try:
            raise ValueError("bad\x1b[31m\nforged 2026 line")
        except ValueError:
            logging.getLogger("toolspeak.server").exception("it failed\r\n2026-01-01T00:00:00Z ERROR forged")
    first, second, *trace = [each for each in written.getvalue().splitlines() if "asyncio" not in each]
    assert "INFO toolspeak.access: GET /health request_id=req-1 status=200" in first
    assert r"it failed\r\n2026-01-01T00:00:00Z ERROR forged" in second
    assert all(each.startswith("  | ") for each in trace)
    assert "\x1b" not in written.getvalue()


def test_text_is_for_terminals(monkeypatch: pytest.MonkeyPatch):
    for terminal, begins in ((True, "2"), (False, "{")):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal, raising=False)
        with logged("auto") as written:
            logging.getLogger("toolspeak.server").warning("hello")
        assert written.getvalue().startswith(begins)


# ---- the canary


@pytest.mark.requirement("R-T2")
@check_each("form", ["json", "text"])
def test_no_key_of_a_client_and_nothing_that_was_said_is_in_the_log(form: Format):
    """With every line there is, for every route, whether it goes well or not."""
    shown = [
        ("", {"Authorization": "Bearer sk-canary-0123456789"}),
        ("", {"x-api-key": "sk-canary-0123456789"}),
        ("", {"api-key": "azure-canary-0123456789"}),
        ("", {"x-goog-api-key": "AIza-canary-0123456789"}),
        ("?key=AIza-canary-0123456789", {}),
        ("", {"Cookie": "toolspeak_session=canary-0123456789"}),
        ("", bearer("tsk-canary-0123456789")),
    ]
    said = {"model": "m", "messages": [{"role": "user", "content": "canary"}], "tools": TOOLS}
    said |= {"input": "canary", "contents": [{"role": "user", "parts": [{"text": "canary"}]}], "max_tokens": 5}
    seen: list[bytes] = []
    with logged(form) as written:
        apps = [
            recording(line("one", upstream, models=("m", "NAME")))
            for upstream in (Parrot("canary"), Script(UpstreamError("it is down", upstream_status=500)))
        ]
        for app in apps:
            for query, headers in shown:
                for method, path in sorted(all_routes()):
                    answer = run(ask(app, method, path + query, headers, said if method == "POST" else b""))
                    if answer.status >= 400:
                        seen.append(answer.body)
    assert written.getvalue().count("\n") > 100
    assert "canary" not in written.getvalue()
    assert b"canary" not in b"".join(seen)


# ---- unguessable ids


def test_ids_are_128_bits_and_never_the_same():
    ids = [new_id() for _ in range(300)]
    assert len(set(ids)) == 300
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)


def test_a_child_process_does_not_go_on_with_the_ids_of_its_parent(monkeypatch: pytest.MonkeyPatch):
    blocks = iter([b"a" * 1024, b"b" * 1024])
    monkeypatch.setattr(os, "urandom", lambda size: next(blocks))
    source = request_context._generate_ids()  # pyright: ignore[reportPrivateUsage]
    assert next(source) == "61" * 16
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert next(source) == "62" * 16
