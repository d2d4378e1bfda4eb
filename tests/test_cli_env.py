"""`toolspeak env`: what to set for a client."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
from toolspeak.cli import main
from toolspeak.client_settings.table import clients

CANARY = "sk-canary-1234567890"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and an empty working directory."""
    monkeypatch.chdir(tmp_path)
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "TOOLSPEAK_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def run(*arguments: str, **env: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, ["env", *arguments], env=env, prog_name="toolspeak")


def done(*arguments: str, **env: str) -> str:
    result = run(*arguments, **env)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.requirement("H5")
def test_without_a_client_all_are_listed():
    lines = done().splitlines()
    assert [line.split()[0] for line in lines] == list(clients())
    assert "codex             OpenAI Codex CLI · openai_responses · toolspeak launch codex" in lines
    assert list(json.loads(done("--json"))) == list(clients())


@pytest.mark.requirement("H5")
def test_the_settings_of_a_client_are_commands_for_the_shell():
    assert done("--client", "anthropic", "--url", "http://127.0.0.1:9100/v1/") == (
        "# anthropic (Python, JavaScript)\n"
        "unset ANTHROPIC_AUTH_TOKEN\n"
        "export ANTHROPIC_BASE_URL='http://127.0.0.1:9100'\n"
        "export ANTHROPIC_API_KEY='toolspeak'\n"
    )


@check_each("name", list(clients()))
def test_a_shell_can_be_given_all_of_it(name: str):
    script = done("--client", name, "--model", "qwen3:8b") + "\nenv"
    told = subprocess.run(["sh", "-eu", "-c", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True)
    lines = told.stdout.decode().splitlines()
    settings = json.loads(done("--client", name, "--model", "qwen3:8b", "--json"))
    assert all(f"{variable}={value}" in lines for variable, value in settings["env"].items())


def test_a_file_can_be_printed_alone():
    text = done("--client", "codex", "--model", "qwen3:8b", "--file")
    assert tomllib.loads(text)["model_providers"]["toolspeak"]["base_url"] == "http://127.0.0.1:8788/v1"
    assert run("--client", "openai", "--file").stderr.startswith(
        "error: openai (Python, JavaScript) needs no configuration file\n"
    )


def test_the_configured_model_is_used(work: Path):
    (work / "toolspeak.toml").write_text('model = "ollama:qwen3:8b"\n')
    assert "export OPENAI_MODEL='qwen3:8b'" in done("--client", "qwen-code")
    assert "export OPENAI_MODEL='other'" in done("--client", "qwen-code", "--model", "other")


def test_a_model_that_is_missing_is_told_where_it_matters():
    assert (
        run("--client", "qwen-code").stderr == "note: replace MODEL with the name of your model, or add --model NAME\n"
    )
    assert run("--client", "openai").stderr == ""


@pytest.mark.requirement("R-T2")
def test_no_key_is_printed():
    shown = run("--client", "openai", "--key-env", "TEAM_KEY", TEAM_KEY=CANARY, OPENAI_API_KEY=CANARY)
    assert 'export OPENAI_API_KEY="$TEAM_KEY"\n' in shown.stdout
    every = "".join(run("--client", name, "--json", TOOLSPEAK_API_KEY=CANARY).output for name in clients())
    assert CANARY not in shown.output + every


@pytest.mark.requirement("R-T2")
def test_a_key_that_is_given_in_place_of_a_variable_is_refused():
    assert "not the key itself" in run("--client", "openai", "--key-env", "sk-12345").stderr


def test_a_server_elsewhere_wants_a_key():
    told = run("--client", "openai", "--url", "https://models.example.com").stderr
    assert told == "note: a server on another machine needs a key: add --key-env VARIABLE\n"


def test_an_unknown_client_is_an_error():
    assert run("--client", "clod").exit_code == 2
