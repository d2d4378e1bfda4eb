"""The server's own tools from the configuration: what may be listed, and what is refused at the start."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.server.asgi_client import line
from toolspeak.config import ServerToolsRow, load
from toolspeak.core.types import Message, Request, TextPart, ToolCall
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import ConfigError
from toolspeak.key_value import MemoryState
from toolspeak.server.access.api_keys import ApiKey
from toolspeak.server.access.auth import Caller
from toolspeak.server.proxy.tool_loop.loop import LoopTools
from toolspeak.server.proxy.tool_loop.tools import loops_from
from toolspeak.server.proxy.upstream_router import Gateway
from toolspeak.upstreams.scripted import Scripted, calls


def made(row: ServerToolsRow) -> dict[str, LoopTools]:
    return loops_from({"set": row}, MemoryState(), dict(os.environ))


def offered(row: ServerToolsRow) -> list[str]:
    """The names of the tools that the model is told of."""
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        return "Fine."

    async def go() -> None:
        gateway = Gateway([line("up", Scripted(answer))], Capabilities(), MemoryState(), b"secret", loops=made(row))
        caller = Caller(ApiKey("id", "one"))
        request = Request("m", (Message("user", (TextPart("Hello?"),)),))
        turn = await gateway.make_turn(gateway.target(request, caller), request, caller)
        async for _ in turn.turn.batches():
            pass

    asyncio.run(go())
    text = asked[0].messages[0].text
    names = ("read_file", "write_file", "edit_file", "list_files", "search_files", "shell", "read_more")
    return [name for name in names if name in text or name in [tool.name for tool in asked[0].tools]]


def test_files_are_read_only_unless_writing_is_listed(tmp_path: Path) -> None:
    names = offered(ServerToolsRow(("one",), ("files",), str(tmp_path)))

    assert "read_file" in names
    assert "read_more" in names
    assert not {"write_file", "edit_file", "shell"} & set(names)


@pytest.mark.system("bubblewrap")
def test_shell_and_writing_are_there_with_a_sandbox(tmp_path: Path) -> None:
    names = offered(ServerToolsRow(("one",), ("files.write", "shell"), str(tmp_path)))

    assert {"read_file", "write_file", "shell"} <= set(names)


def test_what_is_listed_twice_is_offered_once(tmp_path: Path) -> None:
    names = offered(ServerToolsRow(("one",), ("files", "files"), str(tmp_path)))

    assert names.count("read_file") == 1


@pytest.mark.system("bubblewrap")
@pytest.mark.parametrize("tools", [("files", "files.write"), ("files.write", "files", "files.write")])
def test_reading_and_writing_are_no_clash(tmp_path: Path, tools: tuple[str, ...]) -> None:
    names = offered(ServerToolsRow(("one",), tools, str(tmp_path)))

    assert {"read_file", "write_file", "edit_file"} <= set(names)
    assert names.count("read_file") == 1


@pytest.mark.parametrize("tool", ["shell", "files.write"])
def test_nothing_that_changes_anything_runs_without_a_sandbox(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolspeak.tools.sandbox.Sandbox.problem", lambda _: "there is no bubblewrap")

    with pytest.raises(ConfigError, match="sandbox"):
        made(ServerToolsRow(("one",), (tool,), str(tmp_path)))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        pytest.param(ServerToolsRow(("one",), ("rockets",), "."), "rockets", id="an unknown tool"),
        pytest.param(ServerToolsRow(("one",), ("files",)), "workdir", id="no work directory"),
        pytest.param(ServerToolsRow(("one",), ("files",), "/nowhere/at/all"), "nowhere", id="one that is not there"),
        pytest.param(ServerToolsRow(("one",), ("mcp:x",)), "mcp_config", id="a server of no file"),
    ],
)
def test_what_cannot_be_is_told_at_the_start(row: ServerToolsRow, told: str, tmp_path: Path) -> None:
    if row.workdir == ".":
        row = ServerToolsRow(row.keys, row.tools, str(tmp_path))

    with pytest.raises(ConfigError, match=told):
        made(row)


def test_a_key_stands_in_one_table_only(tmp_path: Path) -> None:
    row = ServerToolsRow(("one",), ("files",), str(tmp_path))

    with pytest.raises(ConfigError, match="listed in two"):
        loops_from({"a": row, "b": row}, MemoryState(), {})


TABLE = '[server_tools.team]\nkeys = ["one"]\ntools = ["files"]\nworkdir = "/srv"\nmax_rounds = 5\n'


def test_the_users_file_may_name_them(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(TABLE)

    rows = load(env={"TOOLSPEAK_CONFIG": str(file), "HOME": str(tmp_path)}, cwd=tmp_path, project=False).server_tools()

    assert rows == {"team": ServerToolsRow(("one",), ("files",), "/srv", max_rounds=5)}


@pytest.mark.requirement("R-T5")
def test_a_file_of_the_working_directory_may_not(tmp_path: Path) -> None:
    (tmp_path / "toolspeak.toml").write_text(TABLE)

    config = load(env={"HOME": str(tmp_path)}, cwd=tmp_path)

    assert config.server_tools() == {}
    assert any(note.code == "untrusted_setting" for note in config.notes)


@pytest.mark.requirement("R-T14")
def test_an_mcp_tool_runs_if_the_configuration_calls_it_read_only(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the package mcp is not installed")
    program = Path(__file__).parent.parent / "tools" / "mcp_sdk_server.py"
    file = tmp_path / "servers.json"
    shop = {"command": sys.executable, "args": [str(program), "stdio"], "readOnly": ["add"]}
    file.write_text(json.dumps({"mcpServers": {"shop": shop, "other": {"command": "nobody-starts-this"}}}))
    asked: list[Request] = []

    def last(request: Request) -> str:
        asked.append(request)
        return "Done."

    async def go() -> None:
        both = calls(ToolCall("shop__add", {"a": 1, "b": 2}, "c1"), ToolCall("shop__fail", {}, "c2"))
        row = ServerToolsRow(("one",), ("mcp:shop",), mcp_config=str(file))
        upstream = line("up", Scripted(both, last), settings=lambda model: Settings(mode="off"))
        gateway = Gateway([upstream], Capabilities(), MemoryState(), b"secret", loops=made(row))
        caller = Caller(ApiKey("id", "one"))
        request = Request("m", (Message("user", (TextPart("Add."),)),))
        turn = await gateway.make_turn(gateway.target(request, caller), request, caller)
        async for _ in turn.turn.batches():
            pass
        await gateway.close()

    asyncio.run(asyncio.wait_for(go(), 60))

    added, failed = asked[0].messages[-1].results
    assert (added.content, added.error) == ("3", False)
    assert failed.error
    assert "no one can approve it" in failed.content


def test_a_server_that_the_file_does_not_name_is_told(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"shop": {"command": "x"}}}))

    with pytest.raises(ConfigError, match="has no server"):
        made(ServerToolsRow(("one",), ("mcp:bank",), mcp_config=str(file)))
