"""MCP servers as a source of tools: started together, pinned, prefixed, and started again when they die.

A server that cannot be used is left out with a note; it never takes the others along.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal, Self, TypeAlias

import msgspec

from ...core.schema.arguments import ArgumentSchema
from ...core.text import printable
from ...core.types import JSONObject, Note, Tool
from ...errors import SchemaError, ToolError, ToolspeakError, UsageError
from ...key_value import State
from ...upstreams.ssrf_guard import Resolver
from ..base import CallContext, Executable, ToolOutput
from .approved_definitions import Definition, Pins, Verdict
from .config import McpServer, command_for
from .connection import Connection, Lost
from .listing_filter import Refused
from .oauth import Login, Tokens

#: Seconds before a server that died is started again; twice as many each time, up to the last.
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
#: Characters of a name; protocols refuse longer ones.
_LONGEST_NAME = 64
#: Bytes of one definition; the largest of servers in use have some thousand.
_LARGEST_DEFINITION = 64 * 1024
#: Characters of the name of a tool in a note, and notes about tools of one server: one more says how many are left.
_SHOWN_NAME = 80
_MOST_NOTES = 20
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class Offer(msgspec.Struct, frozen=True):
    """What somebody is asked to approve."""

    server: McpServer
    #: Nothing was approved before, or something that was has changed.
    kind: Literal["first", "changed"]
    #: The definitions that were not approved as they are now.
    definitions: tuple[Definition, ...]


class Review(msgspec.Struct, frozen=True):
    """What a server offers now, and what has become of it since it was approved."""

    server: McpServer
    offered: tuple[Definition, ...]
    verdict: Verdict


Approver: TypeAlias = Callable[[Offer], bool | Awaitable[bool]]


class McpServers:
    """The servers of a configuration. Belongs to one event loop.

    `approve` is asked about definitions that were not approved as they are. Without it, naming a server in the
    configuration approves what it offers the first time; later changes are left out until `approve_again`. `tokens` are
    those of servers where somebody has logged in; `login` is who does so now.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        state: State,
        *,
        approve: Approver | None = None,
        variables: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        resolver: Resolver | None = None,
        tokens: Tokens | None = None,
        login: Login | None = None,
    ) -> None:
        self._pins = Pins(state)
        self._approve = approve
        # Passed on in parts, not read for settings.
        known = dict(os.environ if variables is None else variables)  # noqa: TID251

        def connection(server: McpServer) -> Connection:
            return Connection(server, known, resolver, tokens, login)

        self._hosts = {each.name: _Host(each, connection, clock) for each in servers}
        #: What was left out, and why.
        self.notes: list[Note] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> list[Executable]:
        """Start all servers; their tools."""
        self.notes.clear()
        found = await asyncio.gather(*(self._started(host) for host in self._hosts.values()))
        return self._without_clashes([each for tools in found for each in tools])

    @property
    def names(self) -> tuple[str, ...]:
        """The servers, by their names."""
        return tuple(self._hosts)

    async def review(self, name: str) -> Review:
        """What a server offers now, beside what was approved of it. Nothing is approved by that.

        Raises:
            UsageError: there is no such server.
            ToolError: it cannot be reached.
        """
        host = self._hosts.get(name)
        if host is None:
            raise UsageError(f"there is no MCP server `{name}`", hint=f"known are {', '.join(sorted(self._hosts))}")
        offered = self._usable(host, await host.offered())
        return Review(host.server, offered, self._pins.judge(host.server, offered))

    def approve(self, review: Review) -> None:
        """Approve what was looked at, and not what the server may offer since. `start` then gives its tools."""
        self._pins.approve(review.server, review.offered)

    async def approve_again(self, name: str) -> None:
        """Approve what a server offers now, whatever it is.

        Raises:
            UsageError: there is no such server.
            ToolError: it cannot be reached.
        """
        self.approve(await self.review(name))

    async def close(self) -> None:
        """End all servers."""
        await asyncio.gather(*(host.close() for host in self._hosts.values()))

    async def _started(self, host: _Host) -> list[_McpTool]:
        try:
            offered = await host.offered()
        except ToolspeakError as error:
            self._note("mcp_server_unusable", str(error))
            return []
        offered = self._usable(host, offered)
        verdict = self._pins.judge(host.server, offered)
        approved = await self._approved(host, verdict, offered)
        return [_McpTool(host, each) for each in approved]

    def _usable(self, host: _Host, offered: tuple[Definition, ...]) -> tuple[Definition, ...]:
        """Without definitions that no model could be told."""
        times = Counter(each.name for each in offered)
        refused, usable = list(host.refused), list[Definition]()
        for each in offered:
            problem = "it is offered twice" if times[each.name] > 1 else _problem(each)
            if problem:
                refused.append(Refused(each.name, problem))
            else:
                usable.append(each)
        whose = f"of the MCP server `{host.server.name}`"
        for each in refused[:_MOST_NOTES]:
            what = f"the tool `{_shown(each.name)}`" if each.name.strip() else "a tool without a name"
            self._note("mcp_tool_unusable", f"{what} {whose} is left out: {each.why}")
        if len(refused) > _MOST_NOTES:
            self._note("mcp_tool_unusable", f"{len(refused) - _MOST_NOTES} more tools {whose} are left out")
        return tuple(usable)

    async def _approved(self, host: _Host, verdict: Verdict, offered: tuple[Definition, ...]) -> tuple[Definition, ...]:
        """What may be used, after asking where something is new."""
        new = (*verdict.changed, *verdict.added)
        if not new:
            return verdict.unchanged
        kind = "first" if verdict.first else "changed"
        if await self._allows(Offer(host.server, kind, new)):
            self._pins.approve(host.server, offered)
            return offered
        for each in new:
            what = "has changed since" if each in verdict.changed else "was not there when"
            why = "was not approved" if verdict.first else f"{what} the server was approved"
            hint = f"look at it and approve it: `{command_for('approve', host.server)}`"
            self._note("mcp_tool_changed", f"`{host.server.prefix}{_shown(each.name)}` {why}; it is left out ({hint})")
        return verdict.unchanged

    async def _allows(self, offer: Offer) -> bool:
        if self._approve is None:
            return offer.kind == "first"
        answer = self._approve(offer)
        return bool(await answer if inspect.isawaitable(answer) else answer)

    def _without_clashes(self, tools: list[_McpTool]) -> list[Executable]:
        """Two tools of one name: nobody could say which is meant, so neither is offered."""
        times = Counter(each.tool.name for each in tools)
        for name in sorted(name for name, count in times.items() if count > 1):
            whose = " and ".join(sorted({f"`{each.server}`" for each in tools if each.tool.name == name}))
            self._note("mcp_name_clash", f"`{name}` is offered more than once and left out (MCP server {whose})")
        return [each for each in tools if times[each.tool.name] == 1]

    def _note(self, code: str, detail: str) -> None:
        self.notes.append(Note(code, detail))


class _McpTool:
    """One tool of a server."""

    #: What it says about itself is the server's word: calls are made with foreign text before the model.
    untrusted = True

    def __init__(self, host: _Host, definition: Definition) -> None:
        self._host = host
        self._definition = definition
        self.server = host.server.name
        side_effects = definition.name not in host.server.read_only
        name = _named(host.server, definition.name)
        self.tool = Tool(name, definition.description, definition.schema, side_effects)

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Call it.

        Raises:
            ToolError: the server cannot be reached, refused, or is not what was approved.
        """
        return await self._host.call(self._definition, arguments, context)


class _Host:
    """One server through all its lives."""

    def __init__(
        self,
        server: McpServer,
        connect: Callable[[McpServer], Connection],
        clock: Callable[[], float],
    ) -> None:
        self.server = server
        self._connect = connect
        self._clock = clock
        self._connection: Connection | None = None
        self._offered: tuple[Definition, ...] = ()
        self._failures = 0
        self._not_before = 0.0
        self._lock = asyncio.Lock()

    async def offered(self) -> tuple[Definition, ...]:
        """What the server offers, started if it does not run.

        Raises:
            ToolError: it cannot be started.
        """
        connection = await self._connected()
        if connection.stale:
            self._offered = await connection.definitions()
        return self._offered

    @property
    def refused(self) -> tuple[Refused, ...]:
        """What it offers beside that, and nobody can read."""
        return self._connection.refused if self._connection is not None else ()

    async def call(self, definition: Definition, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Call a tool that was approved, if it still is what it was."""
        try:
            offered = await self.offered()
            connection = await self._connected()
            now = [each for each in offered if each.name == definition.name]
            if [each.hash for each in now] != [definition.hash]:
                what = "has changed" if now else "is gone"
                hint = "the user has to look at it and approve it: `toolspeak mcp approve`"
                raise ToolError(f"`{definition.name}` of the server `{self.server.name}` {what}", hint=hint)
            output = await connection.call(definition.name, arguments, context)
        except Lost:
            await self._fell()
            raise
        self._failures = 0
        return output

    async def close(self) -> None:
        """End it."""
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    async def _connected(self) -> Connection:
        async with self._lock:
            if self._connection is not None and self._connection.alive:
                return self._connection
            if self._connection is not None:
                await self._connection.close()
                self._connection = None
            wait = self._not_before - self._clock()
            if wait > 0:
                raise ToolError(
                    f"the MCP server `{self.server.name}` has failed and is started again in {wait:.1f} seconds"
                )
            connection = self._connect(self.server)
            try:
                self._offered = await connection.open()
            except Lost:
                self._paused()
                raise
            self._connection = connection
            return connection

    async def _fell(self) -> None:
        """A connection broke in use: it is closed, and the next one waits a while."""
        async with self._lock:
            if self._connection is not None and not self._connection.alive:
                connection, self._connection = self._connection, None
                await connection.close()
                self._paused()

    def _paused(self) -> None:
        self._failures += 1
        pause = min(_FIRST_PAUSE * 2 ** min(self._failures - 1, 16), _LONGEST_PAUSE)
        self._not_before = self._clock() + pause


def _named(server: McpServer, name: str) -> str:
    """The name that a model calls it by: what protocols allow, and short enough."""
    whole = server.prefix + _NOT_IN_NAMES.sub("_", name)
    if len(whole) <= _LONGEST_NAME:
        return whole
    return f"{whole[: _LONGEST_NAME - 9]}_{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _problem(definition: Definition) -> str:
    """Why a definition cannot be used; empty when it can."""
    if not definition.name.strip():
        return "it has no name"
    try:
        size = len(msgspec.json.encode(definition))
        if size > _LARGEST_DEFINITION:
            return f"its definition has {size} bytes, more than {_LARGEST_DEFINITION}"
        ArgumentSchema.of(definition.schema)
    except SchemaError as error:
        return str(error)
    except (TypeError, ValueError, RecursionError):
        return "its definition is no JSON"
    return ""


def _shown(name: str) -> str:
    """A name that a server has chosen, as far as people need to see it."""
    return printable(name[:_SHOWN_NAME])
