"""The tools that the proxy itself runs, from `[server_tools.NAME]` of the configuration.

Being listed there is the consent to run: nobody is there who could be asked. So whatever changes something is
confined: the shell runs in a sandbox or not at all, and files are written in the work directory only, where a sandbox
can be made. Above: `run`. Below: `loop`, `tools`, the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..config import ServerToolsRow
from ..core.rounds import Limits
from ..errors import ConfigError, UsageError
from ..tools.approval import Approval
from ..tools.base import Executable
from ..tools.files import file_tools
from ..tools.sandbox import Sandbox, work_folder
from ..tools.shell import Shell
from .loop import LoopTools

__all__ = ["loops_from"]


def loops_from(rows: Mapping[str, ServerToolsRow]) -> dict[str, LoopTools]:
    """By the names of keys, what the server runs for their holders.

    Raises:
        ConfigError: a key stands in two tables, or a tool cannot be had.
    """
    loops: dict[str, LoopTools] = {}
    for name, row in rows.items():
        made = _loop(name, row)
        for key in row.keys:
            if key in loops:
                raise ConfigError(f"the key `{key:.64}` stands in two tables of server tools", hint="list it once")
            loops[key] = made
    return loops


def _loop(name: str, row: ServerToolsRow) -> LoopTools:
    try:
        tools = [tool for wanted in row.tools for tool in _made(wanted, row)]
        limits = Limits(row.max_rounds, row.max_tokens or None, row.max_seconds or None)
        return LoopTools(tools, limits, row.tool_timeout)
    except UsageError as error:
        raise ConfigError(f"server_tools.`{name}` cannot be used: {error}") from None


def _made(wanted: str, row: ServerToolsRow) -> list[Executable]:
    make = _KINDS.get(wanted)
    if make is None:
        raise UsageError(f"there is no tool `{wanted:.64}` for servers", hint=f"use {', '.join(_KINDS)}")
    if not row.workdir:
        raise UsageError(f"`{wanted}` needs a `workdir`")
    return make(row.workdir)


def _reading(folder: str) -> list[Executable]:
    return file_tools(folder, write=False)


def _writing(folder: str) -> list[Executable]:
    problem = Sandbox(work_folder(folder)).problem()
    if problem:
        raise UsageError(f"nothing is written where no sandbox can be made: {problem}")
    return file_tools(folder)


def _shell(folder: str) -> list[Executable]:
    return [Shell(folder, Approval(yes=True), sandbox="require")]


#: What may be listed.
_KINDS: dict[str, Callable[[str], list[Executable]]] = {
    "files": _reading,
    "files.write": _writing,
    "shell": _shell,
}
