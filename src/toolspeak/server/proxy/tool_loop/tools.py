"""The tools that the proxy itself runs, built from `[server_tools.NAME]` in the configuration.

Listing a tool there approves it, because there is no user to ask. So tools with side effects are confined: the shell
requires a sandbox, and files can be written only in the work directory and only if sandboxing is possible. MCP tools
run only if the configuration declares them read-only; the others return an error.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ....config import ServerToolsRow
from ....engine.rounds.loop import RoundLimits
from ....errors import ConfigError, UsageError
from ....key_value import State
from ....tools.approval import Approval
from ....tools.base import Executable
from ....tools.files import file_tools
from ....tools.other_forms import PLUGIN, plugin_tools
from ....tools.sandbox import Sandbox, work_folder
from ....tools.shell import Shell
from ....tools.wrappers import Approved
from ..upstream_router import PAGE
from .loop import LoopTools, ToolSource

if TYPE_CHECKING:
    from ....tools.mcp.servers import McpServers


def loops_from(
    rows: Mapping[str, ServerToolsRow],
    state: State,
    variables: Mapping[str, str],
    logins: Path | None = None,
    load_plugins: str = "none",
) -> dict[str, LoopTools]:
    """Map each key name to the tools that the server runs for that key. Raises ConfigError if `rows` are invalid.

    Args:
        state: stores the approved tool definitions of MCP servers.
        variables: the environment; MCP servers get a part of it.
        logins: the folder with OAuth tokens for MCP servers.
        load_plugins: the plugins that may provide tools. Calls of theirs with side effects are refused.
    """
    loops: dict[str, LoopTools] = {}
    for name, row in rows.items():
        plugins = [Approved(tool, Approval()) for tool in plugin_tools(row.tools, load_plugins)]
        tools = _loop(name, row, partial(_sources, row, state, variables, logins), plugins)
        for key in (*row.keys, *((PAGE,) if row.page else ())):
            if key in loops:
                what = "`page = true`" if key == PAGE else f"the key `{key:.64}`"
                raise ConfigError(f"{what} is listed in two `[server_tools]` tables", hint="list it once")
            loops[key] = tools
    return loops


def _loop(
    name: str, row: ServerToolsRow, sources: Callable[[], list[ToolSource]], plugins: Sequence[Executable]
) -> LoopTools:
    limits = RoundLimits(row.max_rounds, row.max_tokens or None, row.max_seconds or None)
    try:
        tools = [*(tool for kind in _kinds(row) for tool in _build(kind, row)), *plugins]
        return LoopTools(tools, limits, row.tool_timeout, sources())
    except UsageError as error:
        raise ConfigError(f"`server_tools.{name}` cannot be used: {error}") from None


def _kinds(row: ServerToolsRow) -> list[str]:
    """Return the built-in kinds of tools without duplicates and without kinds that another one includes."""
    kinds = dict.fromkeys(kind for kind in row.tools if not kind.startswith((_MCP_PREFIX, PLUGIN)))
    included = {inner for kind in kinds for inner in _INCLUDES.get(kind, ())}
    return [kind for kind in kinds if kind not in included]


def _build(kind: str, row: ServerToolsRow) -> list[Executable]:
    make = _KINDS.get(kind)
    if make is None:
        raise UsageError(
            f"unknown server tool `{kind:.64}`", hint=f"use {', '.join(_KINDS)}, {_MCP_PREFIX}SERVER or {PLUGIN}NAME"
        )
    if not row.workdir:
        raise UsageError(f"`{kind}` needs a `workdir`")
    return make(row.workdir)


def _sources(row: ServerToolsRow, state: State, variables: Mapping[str, str], logins: Path | None) -> list[ToolSource]:
    names = [name.removeprefix(_MCP_PREFIX) for name in row.tools if name.startswith(_MCP_PREFIX)]
    if not names:
        return []
    if not row.mcp_config:
        raise UsageError(f"`{_MCP_PREFIX}{names[0]:.64}` needs an `mcp_config`")
    from ....tools.mcp.config import read_mcp_config
    from ....tools.mcp.oauth import tokens_in
    from ....tools.mcp.servers import McpServers

    servers = {server.name: server for server in read_mcp_config(row.mcp_config, variables)}
    missing = [name for name in names if name not in servers]
    if missing:
        raise UsageError(f"`{row.mcp_config}` has no server `{missing[0]:.64}`", hint=f"it has {', '.join(servers)}")
    tokens = tokens_in(logins) if logins is not None else None
    return [_ReadOnly(McpServers([servers[name] for name in names], state, variables=variables, tokens=tokens))]


class _ReadOnly:
    """MCP servers whose read-only tools can run. Other tools would need approval, so they return an error."""

    def __init__(self, servers: "McpServers") -> None:
        self._servers = servers
        self.notes = servers.notes

    async def start(self) -> list[Executable]:
        return [Approved(tool, Approval()) for tool in await self._servers.start()]

    async def close(self) -> None:
        await self._servers.close()


def _write_tools(folder: str) -> list[Executable]:
    problem = Sandbox(work_folder(folder)).problem()
    if problem:
        raise UsageError(f"`files.write` needs a sandbox, which is not available: {problem}")
    return file_tools(folder)


_MCP_PREFIX = "mcp:"  # prefix of an MCP server in the list of tools
#: Maps each built-in kind of tools to a function that builds them for a work directory.
_KINDS: dict[str, Callable[[str], list[Executable]]] = {
    "files": partial(file_tools, write=False),
    "files.write": _write_tools,
    "shell": lambda folder: [Shell(folder, Approval(yes=True), sandbox="require")],
}
_INCLUDES = {"files.write": ("files",)}  # maps a kind to the kinds it includes
