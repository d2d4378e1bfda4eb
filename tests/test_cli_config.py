"""The commands about settings: `config show`, `strategy`, `trust`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
from toolspeak.cli import main
from toolspeak.engine.planning.capabilities import capabilities

CANARY = "sk-canary-1234567890"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home and an empty working directory."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TOOLSPEAK_LOAD_PLUGINS", "none")
    yield tmp_path / "work"
    capabilities().configure()


def run(*arguments: str, **env: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, arguments, env=env, prog_name="toolspeak")


def done(*arguments: str, **env: str) -> str:
    result = run(*arguments, **env)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def failed(*arguments: str, **env: str) -> str:
    result = run(*arguments, **env)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


# ---- config show


@pytest.mark.requirement("D4")
def test_show_prints_every_setting_and_with_origin_where_it_came_from(work: Path):
    (work / "toolspeak.toml").write_text('plan = "decision"\n[models."a:b"]\nmode = "off"\n')
    assert 'mode = "force"\n' in done("config", "show", TOOLSPEAK_MODE="force")
    lines = done("config", "show", "--origin", TOOLSPEAK_MODE="force").splitlines()
    assert 'mode = "force"  # TOOLSPEAK_MODE' in lines
    assert f'plan = "decision"  # `{work / "toolspeak.toml"}`' in lines
    assert "retries = 2  # default" in lines
    assert f'models.a:b.mode = "off"  # `{work / "toolspeak.toml"}`, models.`a:b`' in lines


def test_show_for_a_model_tells_what_overrides_its_profile(work: Path):
    (work / "toolspeak.toml").write_text(
        '[models."cerebras:old"]\ncapability = "none"\nretries = 1\n[models.other]\ncapability = "openai"\n'
        '[providers.cerebras]\ncapability = "openai"\nstreams = false\n'
    )
    lines = done("config", "show", "--origin", "--model", "cerebras:old").splitlines()
    where = f"`{work / 'toolspeak.toml'}`"
    assert [line for line in lines if line.startswith(("models.", "providers."))] == [
        f'models.cerebras:old.capability = "none"  # {where}, models.`cerebras:old`',
        f"providers.cerebras.streams = false  # {where}, providers.`cerebras`",
    ]
    assert f"retries = 1  # {where}, models.`cerebras:old`" in lines
    stronger = done("config", "show", "--model", "cerebras:old", TOOLSPEAK_OVERRIDES="cerebras:old=advanced")
    assert 'models.cerebras:old.capability = "advanced"\n' in stronger
    assert 'capability = "none"' not in stronger


def test_show_for_a_model_is_what_is_in_force_for_it(work: Path):
    (work / "toolspeak.toml").write_text('[models."a:b"]\nmode = "off"\n')
    shown = json.loads(done("config", "show", "--origin", "--json", "--model", "a:b"))
    where = f"`{work / 'toolspeak.toml'}`, models.`a:b`"
    assert shown["mode"] == {"value": "off", "source": "project", "where": where}
    assert json.loads(done("config", "show", "--json"))["mode"] == "auto"


@pytest.mark.requirement("R-T2")
def test_show_prints_no_key():
    output = done("config", "show", "--origin", TOOLSPEAK_API_KEY=CANARY, TOOLSPEAK_SECRET=CANARY)
    assert CANARY not in output
    assert 'api_key = "<redacted>"  # TOOLSPEAK_API_KEY' in output


def test_a_bad_setting_is_an_error_with_a_hint():
    message = failed("config", "show", TOOLSPEAK_MODE="maybe")
    assert message == (
        "error: `mode` in the variable TOOLSPEAK_MODE cannot be `maybe`\nhint: use one of off, fallback, force, auto\n"
    )
    assert "klingon" in failed("config", "show", TOOLSPEAK_DIALECT="klingon")


def test_what_does_not_count_is_said_on_stderr(work: Path):
    (work / "toolspeak.toml").write_text('base_url = "http://evil.example"')
    result = run("config", "show", TOOLSPEAK_MODUS="x")
    assert (result.exit_code, "evil" in result.stdout) == (0, False)
    assert result.stderr.splitlines() == [
        "note: unknown environment variable TOOLSPEAK_MODUS; it is ignored",
        f"note: `{work / 'toolspeak.toml'}` cannot set `base_url` until you trust it: run `toolspeak trust`",
    ]


# ---- strategy


@pytest.mark.requirement("D3")
def test_strategy_says_what_will_be_done_and_why():
    assert done("strategy", "deepinfra:deepseek-ai/DeepSeek-V3-0324").splitlines() == [
        "model      deepinfra:deepseek-ai/DeepSeek-V3-0324",
        "base_url   https://api.deepinfra.com/v1/openai",
        "plan       native",
        "tools      sent to the upstream",
        "capability openai",
        "dialect    action",
        "why        native calling (openai): set by the table for provider `deepinfra`",
        "rule       table.provider",
    ]


def test_strategy_tells_how_well_the_model_that_comes_along_was_measured_to_call():
    *_, last = done("strategy", "embedded:").splitlines()
    assert re.fullmatch(r"measured   (BFCL \w+ \d\d(\.\d)? %(, |$)){7}", last)
    assert "measured" not in done("strategy", "embedded:other.gguf")


@pytest.mark.requirement("A7", "D3")
def test_strategy_warns_of_a_plan_that_cannot_be_carried_out():
    flags = ("openai:m", "--base-url", "http://127.0.0.1:9000/v1", "--plan", "envelope")
    *_, last = done("strategy", *flags).splitlines()
    assert last.startswith("warning    the plan is inline instead of envelope")
    assert strategy(*flags)["warning"] == last.removeprefix("warning").strip()
    assert strategy("openai:m")["warning"] == ""


def strategy(*arguments: str, **env: str) -> dict[str, Any]:
    return json.loads(done("strategy", *arguments, "--json", **env))


@pytest.mark.requirement("D3")
def test_strategy_at_another_host_is_emulation():
    said = strategy("openai:gpt-4", "--base-url", "http://127.0.0.1:9000/v1")
    assert (said["native"], said["plan"], said["rule"]) == (False, "inline", "foreign_host")
    said = strategy("openai:gpt-4", OPENAI_BASE_URL="http://127.0.0.1:9000/v1")
    assert (said["rule"], said["base_url"]) == ("foreign_host", "http://127.0.0.1:9000/v1")
    said = strategy("openai:gpt-4")
    assert (said["native"], said["rule"], said["profile"]["capability"]) == (True, "table.provider", "openai")


@pytest.mark.requirement("D4")
def test_strategy_obeys_flags_files_and_the_environment(work: Path):
    assert strategy("openai:gpt-4", "--mode", "force", "--plan", "decision")["plan"] == "decision"
    assert strategy("openai:gpt-4", "--chat-only")["rule"] == "chat_only"
    assert strategy("groq:m", TOOLSPEAK_OVERRIDES="groq=none")["rule"] == "env.provider"
    (work / "toolspeak.toml").write_text('[models."groq:old*"]\ncapability = "none"\n')
    assert strategy("groq:older")["rule"] == "config.model"
    assert strategy("groq:new")["rule"] == "table.provider"


@pytest.mark.requirement("D6")
@check_each("model", ["nobody:m", "m", ":", "a/b:c", "openai:"])
def test_strategy_of_an_unknown_model_is_not_an_error(model: str):
    assert strategy(model, "--base-url", "?")["plan"] == "inline"


def test_strategy_refuses_what_it_does_not_know():
    assert "`mode` in the flags cannot be `x`" in failed("strategy", "a:b", "--mode", "x")


# ---- trust


@pytest.mark.requirement("R-T5")
def test_trust_is_given_listed_ended_by_a_change_and_taken_back(work: Path):
    file = work / "toolspeak.toml"
    file.write_text('base_url = "http://127.0.0.1:9000/v1"\nstate_file = "elsewhere.json"')

    def base_url() -> str:
        return json.loads(run("config", "show", "--json").stdout)["base_url"]

    assert base_url() == ""
    assert done("trust").startswith("Trusted `toolspeak.toml` (sha256 ")
    assert base_url() == "http://127.0.0.1:9000/v1"
    assert done("trust", "--list") == f"{file}\n"
    assert json.loads(done("trust", "--list", "--json")) == {"trusted": [str(file)]}
    file.write_text('base_url = "http://evil.example"')
    assert base_url() == ""
    done("trust", str(file))
    assert base_url() == "http://evil.example"
    assert done("trust", "--revoke") == "`toolspeak.toml` is no longer trusted\n"
    assert (base_url(), run("trust", "--list").stdout) == ("", "")


def test_a_file_that_is_not_there_cannot_be_trusted():
    assert "file not found: `toolspeak.toml`" in failed("trust")


@check_each("command", [["config"], ["strategy"], ["trust"]])
def test_help_has_examples(command: list[str]):
    assert f"  toolspeak {' '.join(command)}" in done(*command, "--help")


def test_the_paths_of_the_files_are_printed(work: Path):
    (work / "toolspeak.toml").write_text('mode = "force"\n')
    first, second = done("config", "path").splitlines()
    assert first == str(work / "toolspeak.toml")
    assert second.endswith("config.toml  (does not exist)")


def test_empty_lists_say_what_fills_them():
    assert "toolspeak trust FILE" in run("trust", "--list").stderr
    assert "toolspeak keys new NAME" in run("keys", "list").stderr
