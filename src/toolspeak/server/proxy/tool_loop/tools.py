"""The tools that the proxy itself runs, from `[server_tools.NAME]` of the configuration.

Being listed there is the consent to run: nobody is there who could be asked. So whatever changes something is
confined: the shell runs in a sandbox or not at all, and files are written in the work directory only, where a sandbox
can be made. Of MCP servers, only tools that the configuration calls read-only run; the others answer with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ....config import ServerToolsRow
from ....engine.rounds.loop import Limits
from ....errors import ConfigError, UsageError
from ....key_value import State
from ....tools.approval import Approval
from ....tools.base import Executable
from ....tools.files import file_tools
from ....tools.sandbox import Sandbox, work_folder
from ....tools.shell import Shell
from ....tools.wrappers import Approved
from ..upstream_router import PAGE
from .loop import LoopTools, Source

if TYPE_CHECKING:
    from ....tools.mcp.servers import McpServers


def loops_from(
    rows: Mapping[str, ServerToolsRow], state: State, variables: Mapping[str, str], logins: Path | None = None
) -> dict[str, LoopTools]:
    """By the names of keys, what the server runs for their holders.

    Args:
        state: where the definitions of MCP servers are pinned.
        variables: the environment, parts of which such servers see.
        logins: the folder that holds what logins to such servers gave.

    Raises:
        ConfigError: a key stands in two tables, or a tool cannot be had.
    """
    loops: dict[str, LoopTools] = {}
    for name, row in rows.items():
        made = _loop(name, row, partial(_sources, row, state, variables, logins))
        for key in (*row.keys, *((PAGE,) if row.page else ())):
            if key in loops:
                what = "`page = true`" if key == PAGE else f"the key `{key:.64}`"
                raise ConfigError(f"{what} stands in two tables of server tools", hint="list it once")
            loops[key] = made
    return loops


def _loop(name: str, row: ServerToolsRow, sources: Callable[[], list[Source]]) -> LoopTools:
    limits = Limits(row.max_rounds, row.max_tokens or None, row.max_seconds or None)
    try:
        tools = [tool for wanted in _listed(row) for tool in _made(wanted, row)]
        return LoopTools(tools, limits, row.tool_timeout, sources())
    except UsageError as error:
        raise ConfigError(f"server_tools.`{name}` cannot be used: {error}") from None


def _listed(row: ServerToolsRow) -> list[str]:
    """What is made here, each once: of two of which one holds the other, that one."""
    here = dict.fromkeys(wanted for wanted in row.tools if not wanted.startswith(_MCP))
    held = {inner for wanted in here for inner in _HOLDS.get(wanted, ())}
    return [wanted for wanted in here if wanted not in held]


def _made(wanted: str, row: ServerToolsRow) -> list[Executable]:
    make = _KINDS.get(wanted)
    if make is None:
        raise UsageError(
            f"there is no tool `{wanted:.64}` for servers", hint=f"use {', '.join(_KINDS)} or {_MCP}SERVER"
        )
    if not row.workdir:
        raise UsageError(f"`{wanted}` needs a `workdir`")
    return make(row.workdir)


def _sources(row: ServerToolsRow, state: State, variables: Mapping[str, str], logins: Path | None) -> list[Source]:
    """The MCP servers that are listed."""
    wanted = [name.removeprefix(_MCP) for name in row.tools if name.startswith(_MCP)]
    if not wanted:
        return []
    if not row.mcp_config:
        raise UsageError(f"`{_MCP}{wanted[0]:.64}` needs an `mcp_config`")
    from ....tools.mcp.config import read_mcp_config
    from ....tools.mcp.oauth import tokens_in
    from ....tools.mcp.servers import McpServers

    known = {server.name: server for server in read_mcp_config(row.mcp_config, variables)}
    missing = [name for name in wanted if name not in known]
    if missing:
        raise UsageError(f"`{row.mcp_config}` names no server `{missing[0]:.64}`", hint=f"it names {', '.join(known)}")
    tokens = tokens_in(logins) if logins is not None else None
    return [_ReadOnly(McpServers([known[name] for name in wanted], state, variables=variables, tokens=tokens))]


class _ReadOnly:
    """MCP servers whose tools run if they change nothing; nobody can be asked about the others."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers
        self.notes = servers.notes

    async def start(self) -> list[Executable]:
        return [Approved(tool, Approval()) for tool in await self._servers.start()]

    async def close(self) -> None:
        await self._servers.close()


def _reading(folder: str) -> list[Executable]:
    return file_tools(folder, write=False)


def _writing(folder: str) -> list[Executable]:
    problem = Sandbox(work_folder(folder)).problem()
    if problem:
        raise UsageError(f"nothing is written where no sandbox can be made: {problem}")
    return file_tools(folder)


def _shell(folder: str) -> list[Executable]:
    return [Shell(folder, Approval(yes=True), sandbox="require")]


#: How a listed MCP server begins.
_MCP = "mcp:"
#: What else may be listed.
_KINDS: dict[str, Callable[[str], list[Executable]]] = {
    "files": _reading,
    "files.write": _writing,
    "shell": _shell,
}
#: What comes along with another.
_HOLDS = {"files.write": ("files",)}
