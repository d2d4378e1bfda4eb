"""`toolspeak mcp`: what MCP servers offer, what has changed since it was approved, and approving it.

A thin face over `tools.mcp.servers`; texts for people are made by `mcp_text`. What is approved is what was shown, also
if the server offers something else a moment later. Exit status: 0 done, 1 not approved, 2 the command line is wrong or
the server cannot be reached.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from ..config import Config
from ..errors import ToolspeakError, UsageError
from ._io import CliError
from .config import loaded, usage_errors
from .mcp_text import place, review_lines, shown, standing

if TYPE_CHECKING:
    from ..tools.mcp.config import McpServer
    from ..tools.mcp.oauth import Tokens
    from ..tools.mcp.servers import McpServers, Review

_EXAMPLES = """\b
Examples:
  toolspeak mcp list --mcp-config servers.json
  toolspeak mcp show files --mcp-config servers.json
  toolspeak mcp approve files --mcp-config servers.json
  toolspeak mcp forget files --mcp-config servers.json
  toolspeak mcp login web --mcp-config servers.json
"""


@click.group("mcp", epilog=_EXAMPLES)
def command() -> None:
    """MCP servers: what they offer, and what was approved of it.

    What a server says about its tools is approved when it is used for the first time. Whatever it says differently
    later is left out until you have looked at it and approved it.
    """


def _files(command: Callable[..., None]) -> Callable[..., None]:
    told = "the file that names the servers; by default those of [server_tools.NAME]"
    return click.option("--mcp-config", "files", multiple=True, metavar="FILE", help=told)(command)


@command.command("list")
@_files
def show_all(files: Sequence[str]) -> None:
    """Ask every server what it offers, and print how that stands to what was approved."""
    with usage_errors():
        config = loaded()
        servers = _named(config, files)
        told = asyncio.run(_standings(config, servers))
    width = max((len(shown(server.name)) for server in servers), default=0)
    for server, text in zip(servers, told, strict=True):
        click.echo(f"{shown(server.name):<{width}}  {shown(place(server))}\n{'':<{width}}  {shown(text)}")


@command.command("show")
@click.argument("name")
@click.option("--all", "everything", is_flag=True, help="Also print in full what is as it was approved.")
@_files
def show(name: str, everything: bool, files: Sequence[str]) -> None:
    """Print what the server NAME offers, and what has changed since it was approved. Approves nothing."""
    with usage_errors():
        config = loaded()
        asyncio.run(_with(config, _one(config, files, name), lambda _, review: _print(review, everything)))


@command.command("approve")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_files
def approve(name: str, yes: bool, files: Sequence[str]) -> None:
    """Print what has changed at the server NAME, ask, and approve what it offers now."""
    with usage_errors():
        config = loaded()
        asyncio.run(_with(config, _one(config, files, name), lambda servers, review: _approve(servers, review, yes)))


@command.command("forget")
@click.argument("name")
def forget(name: str) -> None:
    """Forget what was approved of the servers called NAME: what they offer then counts as new."""
    from ..tools.mcp.approved_definitions import Pins

    with usage_errors():
        count = Pins(loaded().state()).forget(name)
        if not count:
            raise UsageError(f"nothing of an MCP server `{name}` was approved")
    click.echo(f"nothing of `{shown(name)}` is approved any more")


@command.command("login")
@click.argument("name")
@click.option("--browser/--no-browser", default=True, help="Open the page, or only print its address.")
@_files
def login(name: str, browser: bool, files: Sequence[str]) -> None:
    """Log in to the server NAME in a browser. What that gives is kept in a file that only you can read."""
    with usage_errors():
        config = loaded()
        server = _one(config, files, name)
        if not server.url:
            raise UsageError(f"`{name}` is started here, and wants no login", hint="its `env` may hold a key for it")
        if server.oauth.grant == "client_credentials":
            raise UsageError(f"toolspeak logs in to `{name}` by itself", hint="with the `oauth` of its entry")
        asyncio.run(_login(config, server, browser))


@command.command("logout")
@click.argument("name")
@_files
def logout(name: str, files: Sequence[str]) -> None:
    """Forget what a login to the server NAME gave. The server is not told."""
    with usage_errors():
        config = loaded()
        if not _tokens(config).forget(_one(config, files, name)):
            raise UsageError(f"nobody has logged in to `{name}`")
    click.echo(f"logged out of `{shown(name)}`, here")


async def _login(config: Config, server: McpServer, browser: bool) -> None:
    from ..tools.mcp.servers import McpServers
    from .mcp_login import PATIENCE, Browser, opened

    def tell(url: str) -> None:
        click.echo(f"log in here: {shown(url)}", err=True)

    patient = msgspec.structs.replace(server, start_timeout=server.start_timeout + PATIENCE)
    tokens = _tokens(config)
    async with Browser(server.oauth.callback_port, tell, opened if browser else lambda url: True) as person:
        variables = config.environment()
        async with McpServers([patient], config.state(), variables=variables, tokens=tokens, login=person) as servers:
            review = await servers.review(server.name)
    if not tokens.has(server):
        click.echo(f"`{shown(server.name)}` wants no login: {standing(review)}")
    else:
        click.echo(f"logged in to `{shown(server.name)}`: {standing(review)}")


def _tokens(config: Config) -> Tokens:
    from ..tools.mcp.oauth import tokens_in

    return tokens_in(config.data_folder)


def _print(review: Review, everything: bool = False) -> None:
    for line in review_lines(review, everything=everything):
        colour = {"+": "green", "-": "red"}.get(line.lstrip()[:1])
        click.secho(line, fg=colour)


def _approve(servers: McpServers, review: Review, yes: bool) -> None:
    verdict = review.verdict
    if not (verdict.first or verdict.changed or verdict.added or verdict.gone):
        click.echo(f"`{shown(review.server.name)}` offers what was approved")
        return
    _print(review)
    if not yes and not _asking():
        raise CliError("nobody can be asked here", hint="look at it, then give --yes")
    if not yes and not click.confirm("approve this?", default=False, err=True):
        click.echo("not approved", err=True)
        sys.exit(1)
    servers.approve(review)
    click.echo(f"approved: `{shown(review.server.name)}`, {len(review.offered)} tools")


def _asking() -> bool:
    """Whether somebody is there who can be asked."""
    return sys.stdin.isatty()


# ---- the servers


def _named(config: Config, files: Sequence[str]) -> list[McpServer]:
    """The servers of the files given, or of those that the configuration names."""
    from ..tools.mcp.config import read_mcp_config

    found = files or list(dict.fromkeys(row.mcp_config for row in config.server_tools().values() if row.mcp_config))
    if not found:
        raise UsageError("nobody said which servers", hint="name their file: --mcp-config FILE")
    return [server for file in found for server in read_mcp_config(file, config.environment())]


def _one(config: Config, files: Sequence[str], name: str) -> McpServer:
    servers = _named(config, files)
    found = [server for server in servers if server.name == name]
    if not found:
        known = ", ".join(dict.fromkeys(server.name for server in servers)) or "none"
        raise UsageError(f"there is no MCP server `{name}`", hint=f"known are {known}")
    if len({server.identity for server in found}) > 1:
        raise UsageError(f"several servers are called `{name}`", hint="name one file: --mcp-config FILE")
    return found[0]


async def _with(config: Config, server: McpServer, work: Callable[[McpServers, Review], None]) -> None:
    from ..tools.mcp.servers import McpServers

    known = config.environment()
    async with McpServers([server], config.state(), variables=known, tokens=_tokens(config)) as servers:
        review = await servers.review(server.name)
        for note in servers.notes:
            click.echo(f"note: {shown(note.detail)}", err=True)
        work(servers, review)


async def _standings(config: Config, servers: Sequence[McpServer]) -> list[str]:
    return await asyncio.gather(*(_standing(config, server) for server in servers))


async def _standing(config: Config, server: McpServer) -> str:
    found: list[str] = []
    try:
        await _with(config, server, lambda _, review: found.append(standing(review)))
    except ToolspeakError as error:
        found.append(str(error))
    return found[0]
