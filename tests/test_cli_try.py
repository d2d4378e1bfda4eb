"""`toolspeak try`, `init` and `completion`: the first commands that a person types."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli_agent_helpers import Played, Terminal, alone, served
from tests.server.live_proxy import service
from tests.test_doctor import error, listing, routed
from tests.upstreams.loopback_server import Answer, Heard, serving_in_a_thread
from toolspeak.cli import main
from toolspeak.core.events import Event, Failure
from toolspeak.core.types import Request
from toolspeak.engine.planning.capabilities import capabilities
from toolspeak.server.web import connect

WEATHER = ("", [("get_weather", {"city": "Oslo"})])
REFUSAL = "I cannot do that \x1b[31mbecause I have no tools."


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield alone(tmp_path, monkeypatch)
    capabilities().configure()


def toolspeak(*arguments: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, arguments, prog_name="toolspeak")


class Plain(Played):
    """A model that refuses unless the tools are in its prompt."""

    def __call__(self, request: Request) -> list[Event]:
        self._turns = [WEATHER if any("json action" in each.text for each in request.messages) else REFUSAL]
        return super().__call__(request)


# ---- try


def test_a_plain_model_calls_through_toolspeak_beside_its_raw_answer():
    with served(Plain()) as url:
        result = toolspeak("try", url, "--model", "tiny")
    assert result.exit_code == 0
    raw, helped = (part.strip() for part in result.stdout.splitlines()[3].split("✓"))
    assert (raw, helped) == ("✗ no tool call", 'get_weather({"city":"Oslo"})')
    assert "[31m" in result.stdout
    assert "\x1b" not in result.stdout
    assert f"Use it: toolspeak serve --upstream {url} --model openai:tiny\n" in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_on_a_terminal_calls_are_coloured():
    with served(Plain()) as url:
        terminal = Terminal("try", url, "-m", "tiny")
        try:
            terminal.wait_for("\x1b[31m✗ no tool call\x1b[0m")
            terminal.wait_for('\x1b[32m✓ get_weather({"city":"Oslo"})')
            assert terminal.process.wait(30) == 0
        finally:
            terminal.close()


def test_the_first_model_that_chats_is_asked_and_the_version_is_added_to_the_address():
    def versioned(answer: Answer) -> Answer:
        async def only_below_v1(heard: Heard) -> None:
            await (answer if " /v1/" in heard.line else error("404 Not Found", "nothing here"))(heard)

        return only_below_v1

    answers = versioned(routed(Plain(), listing("nomic-embed-text", "tiny")))
    with serving_in_a_thread(answers) as server:
        address = server.url.removeprefix("http://").removesuffix("/v1")
        result = toolspeak("try", address)
    assert result.stdout.startswith(f"tiny at http://{address}/v1: ")


def test_a_narrow_terminal_gets_one_below_the_other(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    with served(Plain()) as url:
        lines = toolspeak("try", url, "--model", "tiny").stdout.splitlines()
    assert lines.index("Raw") < lines.index("✗ no tool call") < lines.index("Through toolspeak")
    assert '✓ get_weather({"city":"Oslo"})' in lines


def test_a_model_that_makes_no_call_gives_the_status_1():
    with served(Played(*[REFUSAL] * 9)) as url:
        result = toolspeak("try", url, "--model", "tiny")
    assert result.exit_code == 1
    assert "asked again: the model" in result.stdout


def test_an_upstream_that_fails_is_reported_once():
    def fails(request: Request) -> list[Event]:
        return [Failure("it is down")]

    with serving_in_a_thread(service("openai_chat", fails)) as server:
        result = toolspeak("try", server.url, "--model", "tiny")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")


def test_an_address_without_models_says_what_to_add():
    result = toolspeak("try", "127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: http://127.0.0.1:1 lists no models\nhint: add --model NAME" in result.stderr


# ---- init


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with models where another kind of server usually is, and no server where a third is."""
    answers = routed(Played(*["It is fine."] * 20), listing("nomic-embed-text", "qwen3:8b"))
    with serving_in_a_thread(answers) as server:
        monkeypatch.setattr(connect, "LOCAL_SERVERS", {"http://127.0.0.1:1": "ollama", server.url: "vllm"})
        yield server.url


def test_local_servers_are_configured_and_checked(local: str, tmp_path: Path):
    file = tmp_path / ".config" / "toolspeak" / "config.toml"
    shown = tomllib.loads(toolspeak("init", "--dry-run").stdout)
    assert not file.exists()
    result = toolspeak("init")
    written = tomllib.loads(file.read_text())
    assert written == shown
    assert written["upstreams"] == {"vllm": {"base_url": local}}
    assert written["model"] == "vllm:qwen3:8b"
    assert f"Wrote `{file}`\n\nvllm at {local}" in result.stdout
    again = toolspeak("init")
    assert (again.exit_code, tomllib.loads(file.read_text())) == (2, written)
    assert f"error: `{file}` already exists\nhint: `toolspeak init --dry-run` prints" in again.stderr


def test_without_a_local_server_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(connect, "LOCAL_SERVERS", {"http://127.0.0.1:1/v1": "vllm"})
    result = toolspeak("init")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "hint: start one, or run `toolspeak serve --upstream URL`" in result.stderr
    assert not (tmp_path / ".config").exists()


# ---- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed_and_can_be_read(shell: str):
    script = toolspeak("completion", shell).stdout
    assert "_TOOLSPEAK_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
