"""One tool that nobody can read is left out, with a reason; the others of its server stay."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.tools.test_mcp_servers import PLAIN, call, raw, with_tools
from toolspeak.core.types import JSONObject
from toolspeak.key_value import MemoryState
from toolspeak.tools.base import Executable
from toolspeak.tools.mcp.servers import McpServers

pytest.importorskip("mcp", reason="the package mcp is not installed")
pytestmark = pytest.mark.requirement("R-F33")

FINE = {"name": "echo", "description": "Says it again.", "inputSchema": PLAIN}
ODD: list[tuple[Any, str]] = [
    ({"name": "odd", "inputSchema": [1]}, "the tool `odd` of the MCP server `raw` is left out: `inputSchema` must"),
    ({"name": "odd", "inputSchema": None}, "`inputSchema` must be an object"),
    ({"name": "odd"}, "it has no `inputSchema`"),
    ({"name": "odd", "inputSchema": {}}, "`inputSchema.type`: Field required"),
    ({"name": "odd", "inputSchema": {"type": "array"}}, "`inputSchema.type`: Input should be 'object'"),
    ({"name": "odd", "inputSchema": {"type": "object", "properties": []}}, "`inputSchema.properties`"),
    ({"name": "odd", "inputSchema": PLAIN, "outputSchema": "x"}, "`outputSchema`"),
    ({"name": "odd", "inputSchema": PLAIN, "description": 5}, "`description`"),
    ({"name": "odd", "inputSchema": PLAIN, "annotations": []}, "`annotations`"),
    ({"name": 5, "inputSchema": PLAIN}, "a tool without a name of the MCP server `raw` is left out: `name` must be"),
    ({"inputSchema": PLAIN}, "`name` must be a string"),
    ({"name": "", "inputSchema": PLAIN}, "it has no name"),
    ("a text", "it must be an object"),
    (None, "it must be an object"),
    ({"name": "\x1b[2J" + "x" * 200_000, "inputSchema": PLAIN}, "the tool `\\x1b[2Jxxx"),
    ({"name": "odd", "inputSchema": {**PLAIN, "title": "x" * 3_000_000}}, "its definition has 30000"),
    ({"name": "odd", "inputSchema": PLAIN, "description": "x" * 3_000_000}, "its definition has 30000"),
    (
        {"name": "odd", "inputSchema": {**PLAIN, **json.loads('{"not": ' * 70 + "{}" + "}" * 70)}},
        "nested deeper than 64",
    ),
]


def offer(folder: Path, *tools: Any) -> None:
    (folder / "tools.json").write_text(json.dumps(tools))


@pytest.mark.parametrize(("odd", "words"), ODD)
def test_one_tool_that_cannot_be_read_is_left_out_alone(tmp_path: Path, odd: Any, words: str):
    offer(tmp_path, odd, FINE)
    servers = McpServers([raw(tmp_path)], MemoryState())

    async def work(tools: dict[str, Executable]) -> None:
        assert list(tools) == ["raw__echo"]
        assert (await call(tools["raw__echo"], {"a": 1})).content == '{"a": 1}'

    with_tools(servers, work)
    (note,) = servers.notes
    assert note.code == "mcp_tool_unusable"
    assert words in note.detail
    assert "of the MCP server `raw`" in note.detail
    assert len(note.detail) < 600
    assert note.detail.isprintable()


def test_a_tool_whose_schema_is_only_partly_understood_is_offered(tmp_path: Path):
    offer(tmp_path, {**FINE, "inputSchema": {"type": "object", "properties": {"a": {"type": "quux"}}}})
    servers = McpServers([raw(tmp_path)], MemoryState())

    async def work(tools: dict[str, Executable]) -> None:
        assert list(tools) == ["raw__echo"]

    with_tools(servers, work)
    assert servers.notes == []


def test_of_many_that_cannot_be_read_some_are_told_and_the_rest_counted(tmp_path: Path):
    offer(tmp_path, *([{"name": "odd", "inputSchema": 1}] * 300), FINE)
    servers = McpServers([raw(tmp_path)], MemoryState())

    async def work(tools: dict[str, Executable]) -> None:
        assert list(tools) == ["raw__echo"]

    with_tools(servers, work)
    assert len(servers.notes) == 21
    assert servers.notes[-1].detail == "280 more tools of the MCP server `raw` are left out"


def test_more_tools_than_anybody_has_are_too_many_whether_they_can_be_read_or_not(tmp_path: Path):
    offer(tmp_path, *([None] * 100_000), FINE)
    servers = McpServers([raw(tmp_path)], MemoryState())

    async def work(tools: dict[str, Executable]) -> None:
        assert not tools

    with_tools(servers, work)
    assert [note.detail for note in servers.notes] == ["the MCP server `raw` offers more than 512 tools"]


def test_a_listing_that_is_none_loses_the_server_in_words_that_say_so(tmp_path: Path):
    offer(tmp_path)
    (tmp_path / "tools.json").write_text('{"a": 1}')
    servers = McpServers([raw(tmp_path)], MemoryState())

    async def work(tools: dict[str, Executable]) -> None:
        assert not tools

    with_tools(servers, work)
    (note,) = servers.notes
    assert note.detail.startswith("the MCP server `raw` answered its start with an invalid MCP message: ")
    assert "\n" not in note.detail
    assert "pydantic" not in note.detail


def test_names_that_become_one_are_left_out_and_their_server_is_named(tmp_path: Path):
    offer(tmp_path, {**FINE, "name": "a b"}, {**FINE, "name": "a_b"}, FINE)
    servers = McpServers([raw(tmp_path)], MemoryState())

    async def work(tools: dict[str, Executable]) -> None:
        assert list(tools) == ["raw__echo"]

    with_tools(servers, work)
    assert [note.detail for note in servers.notes] == [
        "`raw__a_b` is offered more than once and left out (MCP server `raw`)"
    ]


def sifted(version: str, listing: JSONObject, method: str = "tools/list") -> tuple[JSONObject, list[str]]:
    """What is left of the answer to a request."""
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCRequest, JSONRPCResponse

    from toolspeak.tools.mcp.listing_filter import ListingFilter

    sieve = ListingFilter(lambda: version)
    sieve.note_request(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method=method)))
    came = sieve.filter_response(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result=listing)))
    assert isinstance(came, SessionMessage)
    assert isinstance(came.message, JSONRPCResponse)
    return came.message.result, [each.reason for each in sieve.rejected]


def test_what_the_sdk_would_drop_without_a_word_is_told():
    bad = {"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": 5}}}}
    whole: JSONObject = {"tools": [bad, FINE], "ttlMs": 1, "cacheScope": "private", "resultType": "complete"}
    left, refused = sifted("2026-07-28", whole)
    assert left["tools"] == [FINE]
    assert len(refused) == 1
    assert "x-mcp-header" in refused[0]


def test_nothing_else_is_touched():
    odd: JSONObject = {"tools": [{"name": "odd", "inputSchema": 1}]}
    assert sifted("2025-11-25", dict(odd), "tools/call") == (odd, [])
    other: JSONObject = {"tools": [FINE, None], "nextCursor": 5}
    assert sifted("2025-11-25", dict(other)) == (other, [])


def test_a_listing_that_cannot_be_had_is_asked_for_again(tmp_path: Path):
    servers = McpServers([raw(tmp_path)], MemoryState())

    async def work(tools: dict[str, Executable]) -> None:
        (tmp_path / "refusing").write_text("")
        await call(tools["raw__change"])
        for _ in range(2):  # what it offers now is not known: nothing that was approved counts
            with pytest.raises(Exception, match="refused the tool listing"):
                await asyncio.wait_for(call(tools["raw__echo"]), 20)

    with_tools(servers, work)
