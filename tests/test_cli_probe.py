"""`toolspeak probe`: asks, shows, lists, forgets, and says by its exit status how it went."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.runtime.test_prober import able_service
from tests.simulated_models import Able
from tests.upstreams.loopback_server import serving_in_a_thread
from toolspeak.cli import main
from toolspeak.engine.planning.capabilities import capabilities


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOOLSPEAK_LOAD_PLUGINS", "none")
    yield tmp_path
    capabilities().configure()
    for model in ("m", "n"):
        capabilities().forget("openai", model, "")


@contextmanager
def served(able: Able) -> Iterator[tuple[str, list[Any]]]:
    """A server with such a model, in a thread: the command runs a loop of its own."""
    with serving_in_a_thread(able_service(able, "openai_chat", {})) as server:
        yield server.url, server.heard


def run(*arguments: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, ("probe", *arguments), prog_name="toolspeak")


@pytest.mark.requirement("D5", "H5")
def test_a_model_is_asked_shown_remembered_and_forgotten():
    with served(Able()) as (url, heard):
        here = ("openai:m", "--base-url", url)
        first = run(*here)
        assert first.exit_code == 0
        assert "native calls      yes             3 of 3 answers called the tool\n" in first.stdout
        assert "cost: 1" in first.stdout
        assert "tokens in" in first.stdout
        assert "request 1: reachable: answered\n" in first.stderr
        count = len(heard)
        again = run(*here)
        assert again.stderr == "note: this is a stored result; use --refresh to probe again\n"
        assert again.stdout == first.stdout
        assert len(heard) == count
        assert run(*here, "--refresh").exit_code == 0
        assert len(heard) > count
        listed = run("--list").stdout
        assert f"openai:m  {url}  native calls  (fresh)\n" in listed
        strategy = CliRunner().invoke(main, ("strategy", "openai:m", "--base-url", url)).stdout
        assert "rule       probe\n" in strategy
        assert "plan       native: " in strategy
        assert run(*here, "--forget").stdout == "Deleted the result of openai:m\n"
        assert run(*here, "--forget").stdout == "No stored result for openai:m\n"
        assert run("--list").stdout == ""
        strategy = CliRunner().invoke(main, ("strategy", "openai:m", "--base-url", url)).stdout
        assert "rule       foreign_host\n" in strategy


def test_as_json_everything_is_there():
    with served(Able(native="rejects", speaks=("hermes",))) as (url, _):
        said = json.loads(run("openai:m", "--base-url", url, "--json").stdout)
        listed = json.loads(run("--list", "--json").stdout)
    assert said["verdict"]["fields"]["capability"] == "none"
    assert said["verdict"]["dialects"][0]["dialect"] == "hermes"
    assert said["verdict"]["usage"]["input_tokens"] > 0
    assert listed == [said]


def test_the_exit_status_tells_whom_nothing_makes_call():
    with served(Able(refuses=True)) as (url, _):
        assert run("openai:m", "--base-url", url).exit_code == 3


def test_an_upstream_that_is_not_there_is_an_error_that_says_what_to_look_at():
    result = run("openai:m", "--base-url", "http://127.0.0.1:9/v1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "openai:m: cannot connect" in result.stderr
    assert "hint: check the base URL" in result.stderr
    assert run("--list").stdout == ""


def test_full_ranks_dialects_of_native_models_too():
    with served(Able()) as (url, _):
        said = json.loads(run("openai:m", "--base-url", url, "--full", "--json").stdout)
    assert said["verdict"]["fields"]["capability"] == "openai"
    assert said["verdict"]["dialects"]


def test_without_a_model_there_is_nothing_to_ask():
    result = run()
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, "error: missing model")


def test_a_base_url_that_is_none_is_refused():
    result = run("openai:m", "--base-url", "ftp://x")
    assert result.exit_code == 2
    assert "http://" in result.stderr
