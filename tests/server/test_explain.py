"""`toolspeak explain` and `toolspeak replay`: from a server that runs here, else from the store."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
from tests.page.http_requests import asked
from tests.page.page_server import Served, served
from toolspeak.cli import main
from toolspeak.cli._upstream_choice import replay_route
from toolspeak.config import load
from toolspeak.errors import UsageError
from toolspeak.server.process.control_file import ControlFile, write_control_file
from toolspeak.server.proxy.upstream_router import public_url

ESCAPE = "\x1b[31mred\x1b[0m"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STATE", "DATA", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def door(home: Path, server: Served) -> None:
    write_control_file(home / "toolspeak" / "servers", 1, ControlFile(server.url, server.session()))
    write_control_file(home / "toolspeak" / "servers", 2, ControlFile("http://127.0.0.1:9", "one that has gone"))


def told(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.requirement("H3", "H6")
@pytest.mark.usefixtures("door")
def test_a_request_is_told_as_people_read_it(server: Served):
    server.script.more["escape"] = f'{ESCAPE} <tool_call>{{"name": "clocks", "arguments": {{}}}}</tool_call>'
    identifier = asked(server, "escape this")["id"]
    result = told("explain", identifier[:12])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].startswith(f"{identifier}  small-model")
    assert lines[2].startswith("answered by the upstream ")
    assert '[1><tool_call>{"name": "clocks", "arguments": {}}</tool_call><1]' in result.output
    assert "  [1] text `clocks`: there is no tool with that name [unknown_tool]" in lines
    assert lines[-1].startswith("no call: `clocks` was not accepted as a call")
    assert "\x1b" not in result.output  # what a model wrote steers no terminal
    assert "json action" in told("explain", identifier, "--full").output
    assert json.loads(told("explain", "last", "--json").output)["id"] == identifier


@pytest.mark.usefixtures("door")
def test_a_request_is_written_as_one_file_that_runs_only_its_own_script(server: Served, home: Path):
    payload = "</script><script>alert(1)</script><!-- refuse, please"
    identifier = asked(server, f'{payload} {{"api_key": "canary-canary"}}')["id"]
    result = told("explain", "last", "--html")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"Wrote `toolspeak-{identifier[:8]}.html`\n"
    text = (home / f"toolspeak-{identifier[:8]}.html").read_text(encoding="utf-8")
    assert told("explain", "last", "--html", "-").stdout == text
    assert "canary" not in text
    data, script = re.findall(r"<script(?: type=\S+ id=\S+)?>(.*?)</script>", text, re.DOTALL)
    assert "<" not in data
    assert payload in json.loads(data)["question"]
    assert "//" not in script
    policy = re.search(r"default-src 'none'; style-src 'unsafe-inline'; script-src '(.*)'\"", text)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert policy[1] == f"sha256-{digest}", "put this digest into trace.html"
    unwritable = told("explain", "last", "--html", "no/folder.html")
    assert (unwritable.exit_code, unwritable.stdout) == (2, "")
    assert "error: cannot write `no/folder.html`: no such file or directory" in unwritable.stderr


@pytest.mark.requirement("H3")
@pytest.mark.usefixtures("door")
def test_a_replay_is_compared_with_the_first(server: Served):
    identifier = asked(server, "Show an example of a call")["id"]
    result = told("replay", identifier, "--policy", "eager")
    assert result.exit_code == 0
    assert "calls        none  ->  clock({})" in result.output
    again: Any = json.loads(told("replay", identifier, "--plan", "decision", "--json").output)
    assert (again["plan"], again["replay_of"]) == ("decision", identifier)
    wrong = told("replay", identifier, "--dialect", "nonsense")
    assert wrong.exit_code == 2
    assert "nonsense" in wrong.output


@pytest.mark.usefixtures("door")
def test_a_request_that_nobody_knows_is_an_error():
    result = told("explain", "nothing")
    assert result.exit_code == 2
    assert "request `nothing` not found (1 running server; the store was searched)" in result.output
    assert told("explain", "").exit_code == 2  # all of them begin like this


@pytest.mark.parametrize(
    ("running", "words"),
    [(0, "not found (no server is running;"), (2, "not found (2 running servers;")],
)
def test_who_was_asked_is_told_in_words(running: int, words: str, home: Path, server: Served):
    for port in range(running):
        write_control_file(home / "toolspeak" / "servers", port, ControlFile(server.url, server.session()))
    assert words in told("explain", "nothing").output


@contextmanager
def another_service(status: int, text: bytes) -> Iterator[str]:
    """A service that answers everything alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET

        def log_message(self, *said: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


@pytest.mark.requirement("H3")
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (200, b"<!doctype html>"),
        (200, b"{}"),
        (200, b'{"requests": [{}]}'),
        (200, b"[]"),
        (200, b"\xff"),
        (200, b""),
        (500, b"out of order"),
        (500, b'{"error": {"message": "no"}}'),
        (302, b""),
    ],
)
def test_a_port_that_is_another_services_by_now_is_passed_over(status: int, text: bytes, home: Path, server: Served):
    identifier = asked(server, "Hello")["id"]
    folder = home / "toolspeak" / "servers"
    write_control_file(folder, 1, ControlFile(server.url, server.session()))
    with another_service(status, text) as url:
        write_control_file(folder, 2, ControlFile(url, "a token"))
        assert told("explain", identifier).output.startswith(identifier)
        assert told("page").stdout.startswith(f"{server.url}/toolspeak/session#")
        (folder / "1.server").unlink()
        assert "not found (no server is running;" in told("explain", identifier).output
        assert told("page").exit_code == 2


@pytest.mark.requirement("H3")
@pytest.mark.usefixtures("door")
def test_a_fresh_link_comes_from_a_server_that_runs(server: Served):
    first, second = told("page").stdout.strip(), told("page").stdout.strip()
    assert first != second
    address, _, code = first.partition("#")
    begin = urllib.request.Request(address, json.dumps({"code": code}).encode(), method="POST")
    with urllib.request.urlopen(begin) as answer:
        assert f"toolspeak_session_{server.url.rpartition(':')[2]}=" in answer.headers["set-cookie"]


class Kept:
    """One request in the store of a person, and no server."""

    def __init__(self, server: Served, home: Path, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
        pytest.importorskip("sqlalchemy")
        from tests.page.http_requests import told as heard
        from toolspeak.store import open_recordings

        self.id = asked(server, "repair it")["id"]
        self.told = {**heard(server, f"/toolspeak/requests/{self.id}"), **changed}
        place = f"sqlite:///{home / 'kept.db'}"
        open_recordings(place).add_all([(self.id, "small-model", self.told)])
        monkeypatch.setenv("TOOLSPEAK_STORE", place)


@pytest.mark.requirement("H3")
def test_without_a_server_the_store_knows(home: Path, server: Served, monkeypatch: pytest.MonkeyPatch):
    kept = Kept(server, home, monkeypatch)
    assert "trailing_comma" in told("explain", kept.id[:8]).output
    assert "trailing_comma" in told("explain", "last").output


@pytest.mark.requirement("H3")
def test_a_request_of_the_store_goes_to_who_answered_it(home: Path, server: Served, monkeypatch: pytest.MonkeyPatch):
    kept = Kept(server, home, monkeypatch)
    before = len(server.script.asked)
    upstream = kept.told["upstream"]
    assert (upstream["provider"], upstream["protocol"], upstream["model"]) == ("scripted", "openai_chat", "small-model")
    file = home / "toolspeak" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    other = '[upstreams.other]\nbase_url = "http://127.0.0.1:9/v1"\n'
    file.write_text(f'{other}[upstreams.mine]\nbase_url = "{upstream["base_url"]}/"\n')
    result = told("replay", "last", "--json")
    assert result.exit_code == 0, result.output
    again = json.loads(result.stdout)
    # Forced, as it was then, and not by any setting of now.
    assert (again["plan"], again["settings"]["mode"], again["changed"]) == ("inline", "force", {})
    assert again["upstream"]["base_url"] == upstream["base_url"]
    assert [request.model for request in server.script.asked[before:]] == ["small-model"]
    result = told("replay", "last", "--model", "other-model", "--policy", "strict")
    assert 'calls        clock({"zone":"Europe/Oslo"})' in result.output
    assert server.script.asked[-1].model == "other-model"


@pytest.mark.requirement("H3")
def test_a_request_of_the_store_goes_nowhere_else(home: Path, server: Served, monkeypatch: pytest.MonkeyPatch):
    kept = Kept(server, home, monkeypatch)
    result = told("replay", "last")
    assert result.exit_code == 2
    assert f"`scripted:small-model at {kept.told['upstream']['base_url']}` answered this request" in result.output
    assert "--upstream" in result.output
    monkeypatch.setenv("TOOLSPEAK_BASE_URL", f"{server.url}/v1")
    assert told("replay", "last", "--model", "other-model").exit_code == 2
    result = told("replay", "last", "--upstream", f"{server.url}/v1")
    assert result.exit_code == 0, result.output
    assert server.script.asked[-1].model == "small-model"


def test_a_recording_that_does_not_say_who_answered_needs_to_be_told(
    home: Path, server: Served, monkeypatch: pytest.MonkeyPatch
):
    Kept(server, home, monkeypatch, upstream=None, settings=None)
    result = told("replay", "last")
    assert (result.exit_code, "was not recorded" in result.output) == (2, True)
    assert "add --model NAME" in told("replay", "last", "--upstream", f"{server.url}/v1").output
    given = ("--upstream", f"{server.url}/v1", "--model", "small-model", "--mode", "force")
    assert told("replay", "last", *given).exit_code == 0


RUNS_HERE = {"provider": "embedded", "base_url": "", "protocol": "openai_chat"}


@check_each(
    ("recorded", "settings", "model", "expected"),
    [
        ("default", {}, "", "embedded:"),
        ("default", {"base_url": "http://127.0.0.1:9/v1"}, "", None),
        ("another", {}, "", None),
        ("another", {}, "embedded:", "embedded:"),
        ("another", {}, "ollama:small", "ollama:small"),
    ],
)
@pytest.mark.usefixtures("home")
def test_the_model_that_runs_here_is_asked_where_it_was_or_is_named(
    recorded: str, settings: dict[str, str], model: str, expected: str | None
):
    from toolspeak.upstreams.embedded.upstream import recipe_for

    name = recipe_for("").name if recorded == "default" else recorded
    config = load(settings)
    if expected is None:
        with pytest.raises(UsageError, match="is not configured"):
            replay_route(config, {**RUNS_HERE, "model": name}, "", model)
    else:
        assert replay_route(config, {**RUNS_HERE, "model": name}, "", model).model == expected


@pytest.mark.usefixtures("home")
def test_an_address_that_a_shell_would_read_otherwise_is_quoted_in_the_hint():
    recorded = {"provider": "openai", "base_url": "http://[::1]:9/v1", "protocol": "openai_chat", "model": "m"}
    with pytest.raises(UsageError, match="is not configured") as caught:
        replay_route(load({}), recorded, "", "")
    assert "--upstream 'http://[::1]:9/v1'," in caught.value.hint


def test_what_may_be_a_key_is_not_kept_of_a_url():
    assert public_url("http://anna:secret@host:1/v1/?key=secret#secret") == "http://<redacted>@host:1/v1"
    assert public_url("http://host/v1") == "http://host/v1"
