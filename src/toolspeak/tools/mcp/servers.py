"""MCP servers as a source of tools. They are started together, and restarted after a failure.

Tool names get the server's name as a prefix, and only approved definitions are used. A server that cannot be used is
left out with a note, and never affects the others.
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

from ...core.schema.argument_schema import ArgumentSchema
from ...core.text import printable
from ...core.types import JSONObject, Note, Tool
from ...errors import SchemaError, ToolError, ToolspeakError, UsageError
from ...key_value import State
from ...upstreams.ssrf_guard import Resolver
from ..base import CallContext, Executable, ToolOutput
from .approved_definitions import Definition, DefinitionChanges, Pins
from .config import McpServer, command_for
from .connection import ConnectionLost, McpConnection
from .listing_filter import RejectedTool
from .oauth import Login, Tokens

#: Exponential back-off for restarts, in seconds.
_FIRST_RESTART_DELAY = 0.5
_MAX_RESTART_DELAY = 30.0
_MAX_NAME_CHARS = 64  # maximum length of a tool name; protocols reject longer ones
_MAX_DEFINITION_BYTES = 64 * 1024
#: Maximum length of a tool name in a note, and maximum number of notes per server. One more note counts the rest.
_MAX_DISPLAYED_CHARS = 80
_MAX_NOTES = 20
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class DefinitionOffer(msgspec.Struct, frozen=True):
    """New or changed tool definitions that the user is asked to approve."""

    server: McpServer
    #: `first`: the server is new; `changed`: its definitions have changed since their approval.
    kind: Literal["first", "changed"]
    definitions: tuple[Definition, ...]


class Review(msgspec.Struct, frozen=True):
    """The definitions that a server offers now, and how they differ from the approved ones."""

    server: McpServer
    offered: tuple[Definition, ...]
    changes: DefinitionChanges


Approver: TypeAlias = Callable[[DefinitionOffer], bool | Awaitable[bool]]


class McpServers:
    """The MCP servers of a configuration. An instance belongs to one event loop.

    `approve` is called for new and changed definitions. Without it, the definitions that a server offers the first time
    are approved; later changes are left out until `approve`. `tokens` are the stored logins; `login` performs a
    new one.
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
        # Only some variables are passed on to the servers, and no settings are read from the environment.
        env = dict(os.environ if variables is None else variables)  # noqa: TID251

        def connection(server: McpServer) -> McpConnection:
            return McpConnection(server, env, resolver, tokens, login)

        self._hosts = {each.name: _ServerHost(each, connection, clock) for each in servers}
        self.notes: list[Note] = []  # servers and tools that were left out, with reasons

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> list[Executable]:
        self.notes.clear()
        per_server = await asyncio.gather(*(self._start_server(host) for host in self._hosts.values()))
        return self._without_clashes([each for tools in per_server for each in tools])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._hosts)

    async def review(self, name: str) -> Review:
        """Compare the definitions that a server offers now with the approved ones, without approving anything.

        Raises UsageError if the server is not configured, and ToolError if the server cannot be reached.
        """
        host = self._hosts.get(name)
        if host is None:
            hint = f"configured servers: {', '.join(sorted(self._hosts))}"
            raise UsageError(f"unknown MCP server `{name}`", hint=hint)
        offered = self._usable(host, await host.offered())
        return Review(host.server, offered, self._pins.compare(host.server, offered))

    def approve(self, review: Review) -> None:
        """Approve the definitions exactly as reviewed, even if the server now offers others."""
        self._pins.approve(review.server, review.offered)

    async def close(self) -> None:
        await asyncio.gather(*(host.close() for host in self._hosts.values()))

    async def _start_server(self, host: _ServerHost) -> list[_McpTool]:
        try:
            offered = await host.offered()
        except ToolspeakError as error:
            self._note("mcp_server_unusable", str(error))
            return []
        offered = self._usable(host, offered)
        changes = self._pins.compare(host.server, offered)
        return [_McpTool(host, each) for each in await self._approved_definitions(host, changes, offered)]

    def _usable(self, host: _ServerHost, offered: tuple[Definition, ...]) -> tuple[Definition, ...]:
        """Drop unusable definitions, and add a note for each."""
        times = Counter(each.name for each in offered)
        rejected, usable = list(host.rejected), list[Definition]()
        for each in offered:
            problem = "it is offered twice" if times[each.name] > 1 else _problem(each)
            if problem:
                rejected.append(RejectedTool(each.name, problem))
            else:
                usable.append(each)
        whose = f"of the MCP server `{host.server.name}`"
        for each in rejected[:_MAX_NOTES]:
            what = f"the tool `{_display_name(each.name)}`" if each.name.strip() else "a tool without a name"
            self._note("mcp_tool_unusable", f"{what} {whose} is left out: {each.reason}")
        if len(rejected) > _MAX_NOTES:
            self._note("mcp_tool_unusable", f"{len(rejected) - _MAX_NOTES} more tools {whose} are left out")
        return tuple(usable)

    async def _approved_definitions(
        self, host: _ServerHost, changes: DefinitionChanges, offered: tuple[Definition, ...]
    ) -> tuple[Definition, ...]:
        """Return the definitions that may be used, after asking for approval of new and changed ones."""
        new = (*changes.changed, *changes.added)
        if not new:
            return changes.unchanged
        kind = "first" if changes.first else "changed"
        answer = kind == "first" if self._approve is None else self._approve(DefinitionOffer(host.server, kind, new))
        approved = await answer if inspect.isawaitable(answer) else answer
        if approved:
            self._pins.approve(host.server, offered)
            return offered
        for each in new:
            what = "has changed since" if each in changes.changed else "was added after"
            why = "was not approved" if changes.first else f"{what} the server was approved"
            hint = f"review and approve it: `{command_for('approve', host.server)}`"
            name = f"{host.server.prefix}{_display_name(each.name)}"
            self._note("mcp_tool_changed", f"`{name}` {why}; it is left out ({hint})")
        return changes.unchanged

    def _without_clashes(self, tools: list[_McpTool]) -> list[Executable]:
        """Drop all tools that share their name with another tool, and add a note for each name."""
        times = Counter(each.tool.name for each in tools)
        for name in sorted(name for name, count in times.items() if count > 1):
            whose = " and ".join(sorted({f"`{each.server}`" for each in tools if each.tool.name == name}))
            self._note("mcp_name_clash", f"`{name}` is offered more than once and left out (MCP server {whose})")
        return [each for each in tools if times[each.tool.name] == 1]

    def _note(self, code: str, detail: str) -> None:
        self.notes.append(Note(code, detail))


class _McpTool:
    untrusted = True  # true, because the description comes from the server

    def __init__(self, host: _ServerHost, definition: Definition) -> None:
        self._host = host
        self._definition = definition
        server, name = host.server, definition.name
        self.server = server.name
        read_only = name in server.read_only or (server.trusted and definition.read_only)
        about = (_tool_name(server, name), definition.description, definition.schema)
        self.tool = Tool(*about, not read_only, read_only=read_only)

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Call the tool.

        Raises ToolError if the server cannot be reached or returned an error, or the definition is no longer approved.
        """
        return await self._host.call(self._definition, arguments, context)


class _ServerHost:
    """One configured server. Starts it, and restarts it after a failure."""

    def __init__(
        self, server: McpServer, connect: Callable[[McpServer], McpConnection], clock: Callable[[], float]
    ) -> None:
        self.server = server
        self._connect = connect
        self._clock = clock
        self._connection: McpConnection | None = None
        self._offered: tuple[Definition, ...] = ()
        self._failures = 0
        self._not_before = 0.0
        self._lock = asyncio.Lock()

    async def offered(self) -> tuple[Definition, ...]:
        """Return the definitions that the server offers. Starts it if necessary; raises ToolError if that fails."""
        connection = await self._connected()
        if connection.stale:
            self._offered = await connection.definitions()
        return self._offered

    @property
    def rejected(self) -> tuple[RejectedTool, ...]:
        return self._connection.rejected if self._connection is not None else ()

    async def call(self, definition: Definition, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Call a tool, provided its definition is still the approved one."""
        try:
            offered = await self.offered()
            connection = await self._connected()
            now = [each for each in offered if each.name == definition.name]
            if [each.hash for each in now] != [definition.hash]:
                what = "has changed" if now else "is gone"
                hint = "the user has to look at it and approve it: `toolspeak mcp approve`"
                raise ToolError(f"`{definition.name}` of the server `{self.server.name}` {what}", hint=hint)
            output = await connection.call(definition.name, arguments, context)
        except ConnectionLost:
            async with self._lock:  # close the broken connection, unless another call has already restarted the server
                if self._connection is not None and not self._connection.alive:
                    lost, self._connection = self._connection, None
                    await lost.close()
                    self._delay_restart()
            raise
        self._failures = 0
        return output

    async def close(self) -> None:
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    async def _connected(self) -> McpConnection:
        async with self._lock:
            if self._connection is not None and self._connection.alive:
                return self._connection
            if self._connection is not None:
                await self._connection.close()
                self._connection = None
            wait = self._not_before - self._clock()
            if wait > 0:
                state = f"has failed and is started again in {wait:.1f} seconds"
                raise ToolError(f"the MCP server `{self.server.name}` {state}")
            connection = self._connect(self.server)
            try:
                self._offered = await connection.open()
            except ConnectionLost:
                self._delay_restart()
                raise
            self._connection = connection
            return connection

    def _delay_restart(self) -> None:
        self._failures += 1
        pause = min(_FIRST_RESTART_DELAY * 2 ** min(self._failures - 1, 16), _MAX_RESTART_DELAY)
        self._not_before = self._clock() + pause


def _tool_name(server: McpServer, name: str) -> str:
    """Return a tool's name for the model: prefixed, and valid in all protocols."""
    whole = server.prefix + _NOT_IN_NAMES.sub("_", name)
    if len(whole) <= _MAX_NAME_CHARS:
        return whole
    return f"{whole[: _MAX_NAME_CHARS - 9]}_{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _problem(definition: Definition) -> str:
    """Return why a definition cannot be used, or an empty string."""
    if not definition.name.strip():
        return "it has no name"
    try:
        size = len(msgspec.json.encode(definition))
        if size > _MAX_DEFINITION_BYTES:
            return f"its definition has {size} bytes, more than {_MAX_DEFINITION_BYTES}"
        ArgumentSchema.of(definition.schema)
    except SchemaError as error:
        return str(error)
    except (TypeError, ValueError, RecursionError):
        return "its definition is not valid JSON"
    return ""


def _display_name(name: str) -> str:
    """Make a tool name from a server printable and short."""
    return printable(name[:_MAX_DISPLAYED_CHARS])
