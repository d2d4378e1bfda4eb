"""`toolspeak launch`: a client is started with its settings. Clients are small scripts here, servers small servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PATIENCE = 60
CANARY = "tsk-canary-1234567890"
#: Says what it was told, as JSON.
TELLS = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]))"
WAITS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
signal.pause()
"""


class _Server(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        wanted = self.server.wanted  # type: ignore[attr-defined]
        status = 200 if not wanted or self.headers["authorization"] == f"Bearer {wanted}" else 401
        body = self.server.body if status == 200 else b"{}"  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Place:
    """A server, a home, a folder of programs."""

    def __init__(self, folder: Path, server: ThreadingHTTPServer) -> None:
        self.folder = folder
        self.server = server
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        (folder / "bin").mkdir()

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!{sys.executable}\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        name, *rest = arguments
        given = {"HOME": str(self.folder), "PATH": f"{self.folder / 'bin'}{os.pathsep}/usr/bin:/bin", **env}
        return subprocess.Popen(
            [sys.executable, "-m", "toolspeak", "launch", name, "--url", self.url, *rest],
            cwd=self.folder,
            env=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **env: str) -> tuple[int, str, str]:
        with self.start(*arguments, **env) as process:
            output, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, output, errors

    def told(self, *arguments: str, **env: str) -> tuple[list[str], dict[str, str]]:
        status, output, errors = self.run(*arguments, **env)
        assert (status, errors) == (0, "")
        given, environment, folder = json.loads(output)
        assert folder == str(self.folder)
        return given, environment


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        server.body, server.wanted = b'{"data": [{"id": "qwen3:8b"}, {"id": "other"}]}', ""  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Place(tmp_path, server)
        server.shutdown()
        thread.join()


@pytest.mark.requirement("H5")
def test_a_client_gets_variables_arguments_and_what_stands_behind_the_dashes(place: Place):
    place.program("codex", TELLS)
    given, environment = place.told("codex", "--", "exec", "--json", "do it")
    assert given[-3:] == ["exec", "--json", "do it"]
    assert given[:4] == ["-c", 'model="qwen3:8b"', "-c", 'model_provider="toolspeak"']
    assert f'base_url="{place.url}/v1"' in given[5]
    assert environment["TOOLSPEAK_KEY"] == "toolspeak"


@pytest.mark.requirement("H5")
def test_what_would_lead_elsewhere_is_taken_away(place: Place):
    place.program("claude", TELLS)
    secrets = {"ANTHROPIC_API_KEY": "sk-own", "TOOLSPEAK_API_KEY": "sk-up", "TOOLSPEAK_SECRET": "s", "OTHER": "stays"}
    _, environment = place.told("claude-code", "--model", "other", **secrets)
    assert environment["ANTHROPIC_MODEL"] == "other"
    assert environment["OTHER"] == "stays"
    assert not {"ANTHROPIC_API_KEY", "TOOLSPEAK_API_KEY", "TOOLSPEAK_SECRET"} & environment.keys()


def test_a_file_goes_into_a_private_folder_and_the_user_s_own_stays(place: Place):
    place.program("gemini", TELLS)
    own = place.folder / ".gemini" / "settings.json"
    own.parent.mkdir()
    own.write_text("mine")
    _, environment = place.told("gemini-cli")
    home = Path(environment["GEMINI_CLI_HOME"])
    assert json.loads((home / ".gemini" / "settings.json").read_text()) == {
        "security": {"auth": {"selectedType": "gemini-api-key"}}
    }
    assert (home / ".gemini").stat().st_mode & 0o077 == 0
    assert own.read_text() == "mine"


def test_a_file_can_be_named_by_an_argument(place: Place):
    place.program("cn", TELLS)
    given, _ = place.told("continue")
    assert given[0] == "--config"
    assert f"apiBase: {place.url}/v1" in Path(given[1]).read_text()


@pytest.mark.requirement("R-T2")
def test_a_key_goes_to_the_client_by_variable_and_into_no_file(place: Place):
    place.server.wanted = CANARY  # type: ignore[attr-defined]
    place.program("opencode", TELLS)
    given, environment = place.told("opencode", "--key-env", "TEAM_KEY", TEAM_KEY=CANARY)
    assert environment["TOOLSPEAK_KEY"] == CANARY
    assert CANARY not in "".join(given)
    assert CANARY not in Path(environment["OPENCODE_CONFIG"]).read_text()
    status, _, errors = place.run("opencode")
    assert status == 2
    assert errors.startswith(f"error: the server at {place.url} returned HTTP 401\nhint: put your key")


def test_an_sdk_is_used_by_a_program_of_the_user_s(place: Place):
    place.program("mine", TELLS)
    given, environment = place.told("openai", "--", "mine", "--fast")
    assert (given, environment["OPENAI_BASE_URL"]) == (["--fast"], f"{place.url}/v1")
    assert "after --, add the command that uses it" in place.run("openai")[2]
    assert "program not found: `yours`" in place.run("openai", "--", "yours")[2]


@pytest.mark.requirement("H5")
def test_a_program_that_is_missing_is_told_with_how_to_get_it(place: Place):
    assert place.run("codex") == (
        2,
        "",
        "error: program not found: `codex`\nhint: install it with: npm install -g @openai/codex\n",
    )


def test_a_server_that_is_missing_is_told(place: Place):
    place.program("codex", TELLS)
    place.url = "http://127.0.0.1:9"
    status, _, errors = place.run("codex")
    assert status == 2
    assert errors.startswith("error: cannot connect to http://127.0.0.1:9: ")
    assert "toolspeak serve" in errors


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<html>", "is not a toolspeak server"),
        (b"[]", "is not a toolspeak server"),
        (b'{"data": []}', "the server lists no models"),
    ],
)
def test_a_server_that_has_no_models_is_told(place: Place, body: bytes, error: str):
    place.server.body = body  # type: ignore[attr-defined]
    place.program("codex", TELLS)
    assert error in place.run("codex")[2]


def test_a_variable_without_a_key_is_told(place: Place):
    place.program("codex", TELLS)
    assert "the variable NO_SUCH is not set" in place.run("codex", "--key-env", "NO_SUCH")[2]


def test_the_server_is_excepted_from_proxies_where_there_are_any(place: Place):
    place.program("codex", TELLS)
    _, environment = place.told("codex", HTTPS_PROXY="http://127.0.0.1:1", no_proxy="example.com")
    assert environment["NO_PROXY"] == environment["no_proxy"] == "example.com,127.0.0.1"
    assert "NO_PROXY" not in place.told("codex")[1]


def test_the_exit_status_is_the_client_s(place: Place):
    place.program("codex", "raise SystemExit(42)")
    assert place.run("codex")[0] == 42


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_signal_reaches_the_client_itself(place: Place):
    place.program("codex", WAITS)
    with place.start("codex") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 7
