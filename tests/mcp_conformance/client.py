"""The client that the conformance suite watches: toolspeak's own, told to use every tool that it finds.

Started by the suite with the URL of its server as the last argument.
"""

from __future__ import annotations

import asyncio
import sys

from toolspeak.core.model import JSONObject, JSONValue
from toolspeak.state import MemoryState
from toolspeak.tools.base import CallContext
from toolspeak.tools.mcp_config import McpServer
from toolspeak.tools.mcp_servers import McpServers

SAMPLES: dict[str, JSONValue] = {
    "number": 5,
    "integer": 5,
    "string": "text",
    "boolean": True,
    "array": [],
    "object": {},
}


async def main(url: str) -> int:
    async with McpServers([McpServer("suite", url=url)], MemoryState()) as servers:
        tools = await servers.start()
        for each in tools:
            output = await each.run(sample(each.tool.parameters), CallContext("call_1"))
            sys.stdout.write(f"{each.tool.name}: {output.content}\n")
        for note in servers.notes:
            sys.stderr.write(f"{note.code}: {note.detail}\n")
        return 1 if servers.notes else 0


def sample(schema: JSONObject) -> JSONObject:
    """Arguments that fit."""
    properties = schema.get("properties") or {}
    return {name: SAMPLES.get(each.get("type", "string"), "text") for name, each in properties.items()}


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
