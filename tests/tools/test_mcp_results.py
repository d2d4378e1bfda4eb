"""What MCP servers answer, as a model reads it; and what their connections tell when something is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cases import check_each
from toolspeak.core.types import Media
from toolspeak.errors import ToolError
from toolspeak.key_value import MemoryState
from toolspeak.tools.base import ToolOutput
from toolspeak.tools.mcp import connection as mcp_connection
from toolspeak.tools.mcp.config import McpServer
from toolspeak.tools.mcp.connection import output_of_result
from toolspeak.tools.mcp.servers import McpServers

types = pytest.importorskip("mcp_types", reason="the package mcp is not installed")
pytestmark = pytest.mark.requirement("F5")


def told(*content: dict[str, Any], structured: Any = None, error: bool = False) -> ToolOutput:
    result = types.CallToolResult.model_validate(
        {"content": list(content), "structuredContent": structured, "isError": error}
    )
    return output_of_result(result, "server")


@check_each(
    ("content", "output"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ToolOutput("a\nb")),
        ([], ToolOutput("done")),
        (
            [{"type": "image", "data": "QQ==", "mimeType": "image/png"}],
            ToolOutput("", parts=(Media("image", "data:image/png;base64,QQ=="),)),
        ),
        (
            [{"type": "audio", "data": "QQ==", "mimeType": "audio/wav,evil"}],
            ToolOutput("", parts=(Media("audio", "data:application/octet-stream;base64,QQ=="),)),
        ),
        ([{"type": "resource_link", "uri": "file:///a", "name": "a"}], ToolOutput("[resource file:///a]")),
        (
            [{"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}],
            ToolOutput("[resource file:///a]\ninside"),
        ),
        (
            [{"type": "resource", "resource": {"uri": "file:///a", "blob": "QQ==", "mimeType": "application/pdf"}}],
            ToolOutput("", parts=(Media("file", "data:application/pdf;base64,QQ=="),)),
        ),
    ],
    ids=lambda value: "",
)
def test_parts_of_a_result_are_read(content: list[dict[str, Any]], output: ToolOutput):
    assert told(*content) == output


def test_structured_content_stands_in_for_text_that_is_missing():
    assert told(structured={"a": 1}).content == '{"a":1}'
    assert told({"type": "text", "text": "x"}, structured={"a": 1}).content == "x"
    assert told({"type": "text", "text": "no"}, error=True) == ToolOutput("no", error=True)


@pytest.mark.requirement("R-F33")
def test_results_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mcp_connection, "MAX_RESULT_CHARS", 100)
    with pytest.raises(ToolError, match="larger than 100 characters"):
        told({"type": "image", "data": "A" * 101, "mimeType": "image/png"})


def test_without_the_sdk_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(mcp_connection, "import_module", missing)

    async def scenario() -> list[str]:
        async with McpServers([McpServer("a", command="x")], MemoryState()) as servers:
            assert await servers.start() == []
            return [note.detail for note in servers.notes]

    (detail,) = asyncio.run(scenario())
    assert detail == "MCP servers need the package `mcp` (install it with `pip install 'toolspeak[mcp]'`)"
