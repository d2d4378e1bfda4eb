"""The configuration of MCP servers: the common shape, variables, and what is refused. And the pins."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each
from tests.test_import_time import loaded_by
from toolspeak.errors import ConfigError
from toolspeak.key_value import FileState, MemoryState
from toolspeak.tools.mcp.approved_definitions import Definition, Pins
from toolspeak.tools.mcp.config import McpServer, read_mcp_config, servers_in

pytestmark = pytest.mark.requirement("F5")


def one(row: dict[str, Any], variables: dict[str, str] | None = None) -> McpServer:
    (server,) = servers_in({"mcpServers": {"name": row}}, variables or {})
    return server


def test_the_common_shape_is_read():
    document = {
        "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server", "."], "env": {"A": "b"}, "type": "stdio", "icon": "x"},
            "web": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer x"}, "type": "http"},
            "off": {"command": "x", "disabled": True},
        },
        "other": 1,
    }
    assert servers_in(document, {}) == (
        McpServer("files", command="npx", args=("-y", "server", "."), env={"A": "b"}),
        McpServer("web", url="https://mcp.example.com/mcp", headers={"Authorization": "Bearer x"}),
    )


def test_our_own_fields_are_read():
    row = {"command": "x", "readOnly": ["search"], "timeout": 5, "startTimeout": 6, "allow": ["10.0.0.0/8"], "cwd": "/"}
    server = one(row)
    assert (server.read_only, server.timeout, server.start_timeout) == (("search",), 5, 6)
    assert (server.allow, server.cwd) == (("10.0.0.0/8",), "/")


def test_variables_are_put_in_where_they_are_named():
    variables = {"TOKEN": "t", "HOST": "h", "OTHER": "canary"}
    row = {
        "url": "https://${HOST}/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X": "${env:TOKEN} ${MISSING:-none} $TOKEN"},
    }
    server = one(row, variables)
    assert server.url == "https://h/mcp"
    assert server.headers == {"Authorization": "Bearer t", "X": "t none $TOKEN"}
    assert one({"command": "${HOST}", "args": ["${TOKEN}"], "env": {"A": "${TOKEN}"}}, variables).env == {"A": "t"}


@check_each(
    ("document", "words"),
    [
        ([], "no `mcpServers`"),
        ({}, "no `mcpServers`"),
        ({"mcpServers": []}, "no `mcpServers`"),
        ({"mcpServers": {"a": {}}}, "either `command` or `url`"),
        ({"mcpServers": {"a": {"command": "x", "url": "y"}}}, "either `command` or `url`"),
        ({"mcpServers": {"a": {"command": 7}}}, "the MCP server `a`"),
        ({"mcpServers": {"a": "x"}}, "the MCP server `a` must be an object"),
        ({"mcpServers": {"a": {"url": "http://x", "type": "sse"}}}, "unsupported type `sse`"),
        ({"mcpServers": {"a": {"command": "x", "timeout": 0}}}, "greater than 0"),
        ({"mcpServers": {"a": {"command": "${GONE}"}}}, "needs the environment variable `GONE`"),
        ({"mcpServers": {" ": {"command": "x"}}}, "1 to 64 characters"),
        ({"mcpServers": {"x" * 65: {"command": "x"}}}, "1 to 64 characters"),
        ({"mcpServers": {str(at): {"command": "x"} for at in range(65)}}, "more than 64 servers"),
    ],
)
def test_what_makes_no_sense_is_refused(document: Any, words: str):
    with pytest.raises(ConfigError, match=words):
        servers_in(document, {})


@pytest.mark.requirement("R-E11")
def test_two_servers_whose_tools_would_be_called_the_same_are_refused():
    rows = {"my.files": {"command": "x"}, "My files": {"command": "y"}}
    with pytest.raises(ConfigError, match="the same names"):
        servers_in({"mcpServers": rows}, {})


def test_a_file_is_read(tmp_path: Path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    assert read_mcp_config(path, {}) == (McpServer("a", command="x", file=str(path)),)
    for text, words in (
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        (" " * 1_100_000, "larger than 1048576 bytes"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=words):
            read_mcp_config(path, {})
    with pytest.raises(ConfigError, match="cannot read the MCP configuration"):
        read_mcp_config(tmp_path / "missing", {})


@pytest.mark.requirement("R-T5")
def test_no_file_of_the_working_directory_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A planted configuration starts nothing: every file that is read was named."""
    planted = json.dumps({"mcpServers": {"a": {"command": "touch", "args": [str(tmp_path / "started")]}}})
    for name in (".mcp.json", "mcp.json", "toolspeak.toml", ".vscode/mcp.json", ".cursor/mcp.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(planted)
    named = tmp_path / "elsewhere" / "named.json"
    named.parent.mkdir()
    named.write_text('{"mcpServers": {}}')
    monkeypatch.chdir(tmp_path)
    assert read_mcp_config(named, dict(os.environ)) == ()
    assert not (tmp_path / "started").exists()


def test_the_sdk_is_not_imported_before_a_server_is_started():
    loaded = loaded_by("import toolspeak.tools.mcp.servers, toolspeak.tools.shell, toolspeak.tools.files")
    assert not loaded & {"mcp", "pydantic", "httpx2", "anyio"}


# ---- pins

SERVER = McpServer("a", command="x")
OLD = Definition("t", "Does it.", {"type": "object"})


@pytest.mark.requirement("R-E11")
@check_each(
    "new",
    [
        Definition("t", "Does it. ", {"type": "object"}),
        Definition("t", "Does it.", {"type": "object", "properties": {}}),
        Definition("t", "Does it.", {"type": "object", "description": "hidden words"}),
    ],
)
def test_any_change_of_what_a_model_reads_is_a_change(new: Definition):
    pins = Pins(MemoryState())
    assert pins.compare(SERVER, (OLD,)).first
    pins.approve(SERVER, (OLD,))
    assert pins.compare(SERVER, (OLD,)).unchanged == (OLD,)
    assert pins.compare(SERVER, (new,)).changed == (new,)
    assert pins.compare(SERVER, (Definition("u", "", None),)).added == (Definition("u", "", None),)
    assert pins.compare(SERVER, ()).changed == ()
    assert pins.compare(SERVER, ()).removed == ("t",)
    assert pins.compare(SERVER, (new,)).before == {"t": OLD}


@pytest.mark.requirement("R-E11")
def test_a_pin_belongs_to_one_server_however_it_is_called(tmp_path: Path):
    pins = Pins(FileState(tmp_path / "state.json"))
    pins.approve(SERVER, (OLD,))
    for other in (McpServer("a", command="y"), McpServer("a", command="x", args=("z",)), McpServer("b", command="x")):
        assert pins.compare(other, (OLD,)).first
    assert (
        not Pins(FileState(tmp_path / "state.json")).compare(McpServer("a", command="x", env={"K": "v"}), (OLD,)).first
    )
    assert pins.forget("a") == 1
    assert pins.compare(SERVER, (OLD,)).first


@pytest.mark.requirement("R-E11")
def test_what_was_approved_when_only_hashes_were_kept_still_is():
    state = MemoryState()
    pins = Pins(state)
    pins.approve(SERVER, (OLD,))
    (key,) = state.keys()
    state.put(key, {"t": OLD.hash})
    assert pins.compare(SERVER, (OLD,)).unchanged == (OLD,)
    new = Definition("t", "Other words.", None)
    assert (pins.compare(SERVER, (new,)).changed, pins.compare(SERVER, (new,)).before) == ((new,), {})


def test_of_very_long_definitions_the_hash_is_kept():
    long = tuple(Definition(f"t{at}", "x" * 60_000, None) for at in range(20))
    state = MemoryState()
    pins = Pins(state)
    pins.approve(SERVER, long)
    assert pins.compare(SERVER, long).unchanged == long
    assert len(json.dumps(state.get(state.keys()[0]))) < 600_000
