"""`toolspeak mcp`: list MCP servers, review and approve their tool definitions, log in and out.

Approval covers exactly the definitions that were displayed, even if the server offers others a moment later. Text from
a server is untrusted, so it is shown in full, with invisible characters escaped.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import unified_diff
from itertools import islice
from typing import TYPE_CHECKING

import click
import msgspec

from ..config import Config, redacted_url
from ..core.text import counted, suggestion
from ..errors import ToolspeakError, UsageError
from ._io import CliError, echo, escape
from .config import load_config, usage_errors

if TYPE_CHECKING:
    from ..tools.mcp.approved_definitions import Definition
    from ..tools.mcp.config import McpServer
    from ..tools.mcp.oauth import Tokens
    from ..tools.mcp.servers import McpServers, Review

#: Maximum number of lines to diff, which takes quadratic time. A definition has a few dozen.
_MAX_DIFF_LINES = 2000
_CONTEXT_LINES = 2


def list_command(files: Sequence[str]) -> None:
    with usage_errors():
        config = load_config()
        servers = _configured_servers(config, files)
        summaries = asyncio.run(_summaries(config, servers))
    width = max((len(escape(server.name)) for server in servers), default=0)
    for server, text in zip(servers, summaries, strict=True):
        echo(f"{escape(server.name):<{width}}  {escape(server_location(server))}\n{'':<{width}}  {escape(text)}")


def show_command(name: str, everything: bool, files: Sequence[str]) -> None:
    _review(name, files, lambda _, review: _print(review, everything))


def approve_command(name: str, yes: bool, files: Sequence[str]) -> None:
    _review(name, files, lambda servers, review: _approve(servers, review, yes))


def forget_command(name: str) -> None:
    from ..tools.mcp.approved_definitions import Pins

    with usage_errors():
        if not Pins(load_config().state()).forget(name):
            raise UsageError(f"MCP server `{name}` has no approvals")
    echo(f"Deleted the approvals of `{escape(name)}`.")


def login_command(name: str, browser: bool, files: Sequence[str]) -> None:
    with usage_errors():
        config = load_config()
        server = _find_server(config, files, name)
        if not server.url:
            raise UsageError(f"`{name}` is a local program and needs no login", hint="put its key into `env`")
        if server.oauth.grant == "client_credentials":
            raise UsageError(f"toolspeak logs in to `{name}` automatically", hint="`oauth` has the credentials")
        asyncio.run(_login(config, server, browser))


def logout_command(name: str, files: Sequence[str]) -> None:
    with usage_errors():
        config = load_config()
        if not _tokens(config).forget(_find_server(config, files, name)):
            raise UsageError(f"not logged in to `{name}`")
    echo(f"Logged out of `{escape(name)}` on this machine.")


async def _login(config: Config, server: McpServer, browser: bool) -> None:
    from ..tools.mcp.servers import McpServers
    from .mcp_login import LOGIN_TIMEOUT, BrowserLogin, open_browser

    def print_url(url: str) -> None:
        echo(f"Log in at: {escape(url)}", err=True)

    tokens, variables = _tokens(config), config.environment()
    patient = msgspec.structs.replace(server, start_timeout=server.start_timeout + LOGIN_TIMEOUT)
    # Without a browser, the user opens the printed link.
    opener: Callable[[str], bool] = open_browser if browser else lambda _: True
    async with (
        BrowserLogin(server.oauth.callback_port, print_url, opener) as user,
        McpServers([patient], config.state(), variables=variables, tokens=tokens, login=user) as servers,
    ):
        review = await servers.review(server.name)
    name = escape(server.name)
    status = f"Logged in to `{name}`" if tokens.has(server) else f"`{name}` requires no login"
    echo(f"{status}: {approval_summary(review)}")


def _tokens(config: Config) -> Tokens:
    from ..tools.mcp.oauth import tokens_in

    return tokens_in(config.data_folder)


def _print(review: Review, everything: bool = False) -> None:
    for line in review_lines(review, everything=everything):
        click.secho(line, fg={"+": "green", "-": "red"}.get(line.lstrip()[:1]))


def _approve(servers: McpServers, review: Review, yes: bool) -> None:
    changes = review.changes
    if not (changes.first or changes.changed or changes.added or changes.removed):
        echo(f"`{escape(review.server.name)}` is already approved")
        return
    _print(review)
    if not yes and not _is_interactive():
        raise CliError("cannot ask for confirmation without a terminal", hint="review the changes, then add --yes")
    if not yes and not click.confirm("Approve?", default=False, err=True):
        echo("not approved", err=True)
        sys.exit(1)
    servers.approve(review)
    echo(f"Approved `{escape(review.server.name)}`, {counted(len(review.offered), 'tool')}")


def _is_interactive() -> bool:
    return sys.stdin.isatty()


def _configured_servers(config: Config, files: Sequence[str]) -> list[McpServer]:
    from ..tools.mcp.config import read_mcp_config

    paths = files or list(dict.fromkeys(row.mcp_config for row in config.server_tools().values() if row.mcp_config))
    if not paths:
        raise UsageError("no MCP servers given", hint="use --mcp-config FILE")
    return [server for file in paths for server in read_mcp_config(file, config.environment())]


def _find_server(config: Config, files: Sequence[str], name: str) -> McpServer:
    servers = _configured_servers(config, files)
    matches = [server for server in servers if server.name == name]
    if not matches:
        raise UsageError(f"unknown MCP server `{name}`", hint=suggestion(name, {server.name for server in servers}))
    if len({server.identity for server in matches}) > 1:
        raise UsageError(f"several servers are named `{name}`", hint="select one file: --mcp-config FILE")
    return matches[0]


def _review(name: str, files: Sequence[str], work: Callable[[McpServers, Review], None]) -> None:
    with usage_errors():
        config = load_config()
        asyncio.run(_with_review(config, _find_server(config, files, name), work))


async def _with_review(config: Config, server: McpServer, work: Callable[[McpServers, Review], None]) -> None:
    from ..tools.mcp.servers import McpServers

    variables = config.environment()
    async with McpServers([server], config.state(), variables=variables, tokens=_tokens(config)) as servers:
        review = await servers.review(server.name)
        for note in servers.notes:
            echo(f"note: {escape(note.detail)}", err=True)
        work(servers, review)


async def _summaries(config: Config, servers: Sequence[McpServer]) -> list[str]:
    async def summary(server: McpServer) -> str:
        texts: list[str] = []
        try:
            await _with_review(config, server, lambda _, review: texts.append(approval_summary(review)))
        except ToolspeakError as error:
            return str(error)
        return texts[0]

    return await asyncio.gather(*map(summary, servers))


def server_location(server: McpServer) -> str:
    """Return the URL or command of a server, without parts of the URL that may be secret."""
    return redacted_url(server.url.partition("?")[0]) or shlex.join([server.command, *server.args])


def approval_summary(review: Review) -> str:
    """Summarise in one line how the offered tools differ from the approved ones."""
    changes, count = review.changes, len(review.offered)
    tools = counted(count, "tool")
    if changes.first:
        return f"{tools}, not approved yet"
    kinds = {"changed": changes.changed, "new": changes.added, "gone": changes.removed}
    counts = [f"{len(names)} {kind}" for kind, names in kinds.items() if names]
    return f"{tools}, {', '.join(counts)} since the server was approved" if counts else f"{tools}, as approved"


def review_lines(review: Review, *, everything: bool = False) -> Iterator[str]:
    """Yield the lines to review before approval; with `everything`, include unchanged definitions."""
    changes = review.changes
    yield f"{escape(review.server.name)} ({escape(server_location(review.server))}): {approval_summary(review)}"
    for each in changes.unchanged:
        yield f"  {escape(each.name)}: as approved"
        if everything:
            yield from _indented("  ", _definition_lines(each))
    for each in changes.changed:
        yield f"~ {escape(each.name)}: changed"
        yield from _diff_lines(changes.before.get(each.name), each)
    for each in changes.added:
        yield f"+ {escape(each.name)}: {'not approved yet' if changes.first else 'new'}"
        yield from _indented("+ ", _definition_lines(each))
    for name in changes.removed:
        yield f"- {escape(name)}: gone"


def _definition_lines(definition: Definition) -> list[str]:
    """Return the description and schema of a tool, as the model sees them."""
    ordered = msgspec.json.encode(definition.schema, order="sorted")
    whole = f"{definition.description}\nparameters: {msgspec.json.format(ordered, indent=2).decode()}"
    return escape(whole).split("\n")


def _diff_lines(before: Definition | None, after: Definition) -> Iterator[str]:
    new = _definition_lines(after)
    old = _definition_lines(before) if before is not None else []
    if before is None or len(old) + len(new) > _MAX_DIFF_LINES:
        yield f"    ({'too long for a diff' if before else 'the approved text was not stored'}; new text)"
        yield from _indented("+ ", new)
        return
    # Skip the two header lines of the diff.
    compared = islice(unified_diff(old, new, lineterm="", n=_CONTEXT_LINES), 2, None)
    yield from ("    ..." if line.startswith("@@") else f"    {line[:1]} {line[1:]}" for line in compared)


def _indented(mark: str, lines: Iterable[str]) -> Iterator[str]:
    return (f"    {mark}{line}" for line in lines)
