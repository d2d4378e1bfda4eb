"""The MCP servers of an agent: started on first use and stopped when the agent is closed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

from ..config import load
from ..core.types import JSONValue, Note
from ..errors import ToolError, UsageError
from ..tools.base import Executable
from ..tools.mcp.config import McpServer, read_mcp_config, servers_in
from ..tools.mcp.oauth import tokens_in
from ..tools.mcp.servers import McpServers

#: A configuration file, its content, or servers.
McpSource: TypeAlias = str | Path | Mapping[str, JSONValue] | McpServer | Sequence[McpServer] | McpServers

_UNUSABLE = "mcp_server_unusable"


class McpTools:
    """The tools of MCP servers, with the same pinned definitions and logins as on the command line.

    Raises ConfigError if the configuration cannot be read, or is invalid.
    """

    def __init__(self, source: McpSource) -> None:
        self._servers = source if isinstance(source, McpServers) else _configured(source)
        self.started = False

    @property
    def notes(self) -> tuple[Note, ...]:
        """The tools that were left out, with reasons."""
        return tuple(self._servers.notes)

    async def start(self) -> list[Executable]:
        """Start the servers and return their tools.

        Raises ToolError if one cannot be started. The others are stopped, so the next attempt starts them again.
        """
        tools = await self._servers.start()
        failed = [note.detail for note in self._servers.notes if note.code == _UNUSABLE]
        if failed:
            await self.close()
            raise ToolError("; ".join(failed), hint="run `toolspeak mcp list --mcp-config FILE` to check the servers")
        self.started = True
        return tools

    async def close(self) -> None:
        self.started = False
        await self._servers.close()


def _configured(source: object) -> McpServers:
    config = load()
    return McpServers(_servers(source, config.environment()), config.state(), tokens=tokens_in(config.data_folder))


def _servers(source: object, variables: Mapping[str, str]) -> tuple[McpServer, ...]:
    if isinstance(source, str | Path):
        return read_mcp_config(source, variables)
    if isinstance(source, Mapping):
        return servers_in(dict(cast("Mapping[str, JSONValue]", source)), variables)
    servers = (source,) if isinstance(source, McpServer) else source
    if isinstance(servers, Sequence) and all(isinstance(each, McpServer) for each in cast("Sequence[object]", servers)):
        return tuple(cast("Sequence[McpServer]", servers))
    hint = 'pass a file such as "mcp.json", {"mcpServers": {...}}, or `McpServer` objects'
    raise UsageError(f"`mcp` must describe MCP servers, not `{type(source).__name__}`", hint=hint)
