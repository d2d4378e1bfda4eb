"""A server made with the official SDK, as people write them; over stdio, or over HTTP on a port of its choice.

`python mcp_sdk_server.py stdio`, or `http` / `http-json`, which prints its port.
"""

from __future__ import annotations

import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations

server = MCPServer("sample", version="1")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("it does not work")


@server.tool()
def picture() -> Image:
    """Draws a dot."""
    return Image(data=b"\x89PNG", format="png")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def slowly(context: Context) -> str:
    """Tells how far it is."""
    await context.report_progress(1, 2, "half")
    return "whole"


@server.tool()
def lines(size: int) -> CallToolResult:
    """Says much."""
    return CallToolResult(content=[TextContent(type="text", text="x" * size)])


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        app = server.streamable_http_app(json_response=sys.argv[1] == "http-json")
        config = uvicorn.Config(app, log_level="error")
        uvicorn.Server(config).run(sockets=[listening])


main()
