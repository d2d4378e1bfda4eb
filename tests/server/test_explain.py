"""`toolspeak explain` and `toolspeak replay`: from a server that runs here, else from the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.page.asking import asked
from tests.page.served import Served, served
from toolspeak.cli import main
from toolspeak.server.door import Door, open_door

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
    open_door(home / "toolspeak" / "servers", 1, Door(server.url, server.session()))
    open_door(home / "toolspeak" / "servers", 2, Door("http://127.0.0.1:9", "one that has gone"))


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
    assert '[1><tool_call>{"name": "clocks", "arguments": {}}</tool_call><1]' in result.output
    assert "  [1] text `clocks`: unknown_tool" in lines
    assert lines[-1].startswith("no call: `clocks` was not taken for a call")
    assert "\x1b" not in result.output  # what a model wrote steers no terminal
    assert "json action" in told("explain", identifier, "--full").output
    assert json.loads(told("explain", "last", "--json").output)["id"] == identifier


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
    assert "know nothing of `nothing`" in result.output
    assert told("explain", "").exit_code == 2  # all of them begin like this


@pytest.mark.requirement("H3")
def test_without_a_server_the_store_knows(home: Path, server: Served, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("sqlalchemy")
    from tests.page.asking import told as heard
    from toolspeak.store import open_recordings

    identifier = asked(server, "repair it")["id"]
    kept = open_recordings(f"sqlite:///{home / 'kept.db'}")
    kept.add(identifier, "small-model", heard(server, f"/toolspeak/requests/{identifier}"))
    monkeypatch.setenv("TOOLSPEAK_STORE", f"sqlite:///{home / 'kept.db'}")
    monkeypatch.setenv("TOOLSPEAK_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("TOOLSPEAK_MODEL", "openai:small-model")
    assert "trailing_comma" in told("explain", identifier[:8]).output
    assert "trailing_comma" in told("explain", "last").output
    result = told("replay", "last", "--policy", "strict")
    assert result.exit_code == 0
    assert 'calls        clock({"zone":"Europe/Oslo"})' in result.output
