"""`toolspeak try`, `compare`, `init` and `completion`: the first commands that a person types."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
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
    assert "I cannot do that because I have" in " ".join(result.stdout.split())
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
    assert "2 retries: the model" in result.stdout


def test_an_upstream_that_fails_is_reported_once():
    def fails(request: Request) -> list[Event]:
        return [Failure("it is down")]

    with serving_in_a_thread(service("openai_chat", fails)) as server:
        result = toolspeak("try", server.url, "--model", "tiny")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")


def test_an_address_without_models_says_what_to_add():
    with serving_in_a_thread(routed(Plain(), listing())) as server:
        result = toolspeak("try", server.url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: {server.url} lists no models\nhint: add --model NAME" in result.stderr


@check_each(
    ("url", "error"),
    [
        ("127.0.0.1:1", "cannot connect to `127.0.0.1:1`: connection refused"),
        ("http://a.invalid/v1", "cannot connect to `a.invalid`: unknown host"),
        ("http://", "the base URL has no host"),
        ("ftp://127.0.0.1", "the base URL must begin with http:// or https://"),
    ],
)
def test_an_address_that_nobody_answers_is_told_as_such(url: str, error: str):
    result = toolspeak("try", url, "--model", "tiny")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {error}\n")


def test_the_url_of_an_api_method_counts_as_its_base_url():
    with served(Plain()) as url:
        result = toolspeak("try", f"{url}/chat/completions", "--model", "tiny")
    assert f"Use it: toolspeak serve --upstream {url} --model openai:tiny\n" in result.stdout


# ---- compare


def compared(*arguments: str) -> dict[str, Any]:
    result = toolspeak("compare", *arguments, "--json")
    assert result.stderr == ""
    return {f"{each['model']} {each['setting']}": each for each in json.loads(result.stdout)["columns"]}


def test_one_model_is_compared_in_four_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "160")
    with served(Plain()) as url:
        result = toolspeak(
            "compare", "Is it cold in Oslo?", "--upstream", url, "--model", "tiny", "--settings", "raw,inline"
        )
        columns = compared("--upstream", url, "--model", "tiny")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [lines[0], lines[2].split(), lines[3].split("✓")[0].strip()] == [
        "Is it cold in Oslo?",
        ["raw", "inline"],
        "✗ no tool call",
    ]
    assert 'get_weather({"city":"Oslo"})' in lines[3]
    assert "s, 1 request, 50 tokens in, 9 out" in result.stdout
    assert "\x1b" not in result.stdout
    assert list(columns) == ["tiny raw", "tiny inline", "tiny decision", "tiny envelope"]
    assert columns["tiny inline"]["calls"] == [{"name": "get_weather", "arguments": {"city": "Oslo"}}]
    assert (columns["tiny raw"]["successes"], columns["tiny raw"]["runs"]) == (0, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.parametrize("plain", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_comparison_has_no_colours_if_the_user_wants_none(plain: dict[str, str]):
    with served(Plain()) as url:
        terminal = Terminal("compare", "--upstream", url, "-m", "tiny", "--settings", "raw", environment=plain)
        try:
            terminal.wait_for("✗ no tool call")
            assert terminal.process.wait(30) == 1
        finally:
            terminal.close()
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", terminal.seen)


def test_several_models_are_compared_with_a_rate_of_success():
    with served(Plain()) as url:
        at = ("--upstream", url, "--model", "tiny", "--model", "small", "--runs", "3")
        columns = compared(*at, "--settings", "raw,auto")
        printed = toolspeak("compare", *at).stdout
    assert list(columns) == ["tiny raw", "tiny auto", "small raw", "small auto"]
    assert [each["successes"] for each in columns.values()] == [0, 3, 0, 3]
    assert columns["small auto"]["interval"] == [pytest.approx(0.4385, abs=1e-4), 1.0]
    assert "tiny: auto" in printed
    assert "3 of 3 runs made a call (95" in printed


def test_the_tools_of_a_comparison_can_be_chosen(folder: Path):
    (folder / "tools.json").write_text('[{"name": "get_rain", "parameters": {"type": "object"}}]')
    with served(Plain()) as url:
        result = toolspeak("compare", "--upstream", url, "-m", "tiny", "--settings", "inline", "--tools", "tools.json")
    assert result.exit_code == 1  # the model calls another tool
    assert "✗ no tool call" in result.stdout


@check_each(
    ("arguments", "error", "hint"),
    [
        (("--settings", "raw,inlien"), "unknown setting `inlien`", "did you mean `inline`"),
        (("-m", "a", "-m", "b", "-m", "c", "--settings", "raw,auto"), "6 columns are too many", "at most 4 fit"),
        (("--runs", "0"), "invalid value for `--runs`", "see `toolspeak compare --help`"),
        (("--upstream", "http://127.0.0.1:1/v1", "-m", "a", "--settings", "raw"), "cannot connect to", ""),
    ],
)
def test_what_cannot_be_compared_is_one_error(arguments: tuple[str, ...], error: str, hint: str):
    result = toolspeak("compare", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {error}")
    assert hint in result.stderr


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
