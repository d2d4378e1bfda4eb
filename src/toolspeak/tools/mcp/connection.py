"""One connection to an MCP server, by the official SDK.

It lives in a task of its own, since what a task has opened there, the same task must close; calls come from any task.
Sampling, elicitation and roots are not offered: a server can ask nothing of the model or the person.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, cast

from ...core.types import JSONObject
from ...errors import ConfigError, ToolError, ToolspeakError, ToolTimeout
from ...upstreams.ssrf_guard import Resolver
from ..base import CallContext, ToolOutput
from ..threads import in_thread
from .approved_definitions import Definition
from .config import McpServer
from .http import KEY, MOST_BODY, guarded_client
from .listing_filter import MOST_TOOLS, Refused, Sieve, reason
from .oauth import Login, LoginNeeded, Tokens, authorization
from .results import definition_of, output_of_result
from .stdio import Child, stdio

if TYPE_CHECKING:
    from mcp.client import Client, IncomingMessage, Transport
    from mcp_types import RequestParamsMeta

#: Pages that a server may tell its tools on.
_MOST_PAGES = 64
#: Seconds that a connection has to close.
_CLOSING = 10.0
#: How the SDK says that there is no connection any more.
_CLOSED = -32000
#: Errors of a request that the connection has survived: no such method, bad parameters. Over HTTP, any other may be the
#: transport's own: nobody there, or a session that the server has forgotten.
_OF_THE_REQUEST = (-32601, -32602)
#: Characters of a server's own words in an error.
_MOST_WORDS = 1000
#: What goes wrong is told by us, in one line; only who asks for logs sees how the SDK tells it.
_UNHEARD = logging.NullHandler()


class Lost(ToolError):
    """The connection is gone, or was never made."""


class Connection:
    """From its opening to its end; a server that is started again gets a new one."""

    def __init__(
        self,
        server: McpServer,
        variables: Mapping[str, str],
        resolver: Resolver | None = None,
        tokens: Tokens | None = None,
        login: Login | None = None,
    ) -> None:
        self._server = server
        self._variables = variables
        self._resolver = resolver
        self._tokens = tokens
        self._login = login
        self._barred: list[LoginNeeded] = []
        self._child = Child()
        self._client: Client | None = None
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failed = False
        self._sieve = Sieve(lambda: self._client.session.protocol_version if self._client is not None else None)
        #: The server said that it offers something else now.
        self.stale = False

    @property
    def alive(self) -> bool:
        """Whether a call can be tried."""
        return self._client is not None and not self._failed and not self._child.ended.is_set()

    @property
    def refused(self) -> tuple[Refused, ...]:
        """The tools that the server offers and nobody can read."""
        return tuple(self._sieve.refused)

    async def open(self) -> tuple[Definition, ...]:
        """Connect; what the server offers.

        Raises:
            Lost: it cannot be reached, or does not behave.
            ConfigError: the SDK is not installed.
        """
        # It takes a second or two the first time, in which everything else goes on.
        await in_thread(_load)
        ready: asyncio.Future[tuple[Definition, ...]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(ready), name=f"toolspeak-mcp-{self._server.name}")
        try:
            async with asyncio.timeout(self._server.start_timeout):
                return await ready
        except TimeoutError:
            await self.close()
            raise self._lost(f"did not answer within {self._server.start_timeout:g} seconds") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End it, and the server if it is a child."""
        self._over.set()
        task, self._task = self._task, None
        if task is None:
            return
        done, _ = await asyncio.wait([task], timeout=_CLOSING if self._client is not None else 0.2)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=_CLOSING)

    async def definitions(self) -> tuple[Definition, ...]:
        """What the server offers now.

        Raises:
            Lost: it does not say.
        """
        self.stale = False
        try:
            return await self._listed()
        except Exception as error:
            self.stale = True  # nothing is known of what it offers now
            raise self._told(error, "telling its tools") from None

    async def call(self, name: str, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Call a tool.

        Raises:
            Lost: the connection broke; whether the call was carried out is not known.
            ToolTimeout: it took too long.
            ToolError: the server refused, or answered something that cannot be used.
        """
        client = self._client
        if client is None:
            raise self._lost("is not connected")

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if message:
                context.emit(f"{message[:_MOST_WORDS]}\n")

        limit = asyncio.timeout(self._server.timeout)
        try:
            async with limit:
                result = await client.call_tool(name, arguments, progress_callback=report, meta=_meta(context))
        except Exception as error:
            if limit.expired():
                raise ToolTimeout(f"`{name}` took longer than {self._server.timeout:g} seconds") from None
            raise self._told(error, f"the call of `{name}`") from None
        return output_of_result(result, self._server.name)

    # ---- inside the task

    async def _live(self, ready: asyncio.Future[tuple[Definition, ...]]) -> None:
        """Open everything, wait for the end, close everything."""
        try:
            async with AsyncExitStack() as stack:
                self._client = await stack.enter_async_context(await self._made(stack))
                found = await self._listed()
                if not ready.done():
                    ready.set_result(found)
                await self._over.wait()
        except Exception as error:
            self._failed = True
            if not ready.done():
                ready.set_exception(self._told(error, "its start"))
        finally:
            self._client = None
            if not ready.done():
                ready.cancel()

    async def _made(self, stack: AsyncExitStack) -> Client:
        from mcp.client import Client
        from mcp_types import Implementation

        return Client(
            await self._transport(stack),
            client_info=Implementation(name="toolspeak", version=version("toolspeak")),
            message_handler=self._heard,
            cache=None,
        )

    async def _transport(self, stack: AsyncExitStack) -> Transport:
        if self._server.command:
            return self._sieve.over(stdio(self._server, self._variables, self._child))
        from mcp.client.streamable_http import streamable_http_client

        auth = authorization(self._server, self._tokens, self._login, self._barred.append)
        client = await stack.enter_async_context(guarded_client(self._server, self._resolver, auth))
        spoken = streamable_http_client(self._server.url, http_client=client, max_sse_event_size=MOST_BODY)
        return self._sieve.over(spoken)

    async def _listed(self) -> tuple[Definition, ...]:
        assert self._client is not None
        if self._client.server_capabilities.tools is None:
            return ()
        found: list[Definition] = []
        self._sieve.forget()
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            found += [definition_of(each) for each in page.tools]
            if len(found) + len(self._sieve.refused) > MOST_TOOLS:
                raise self._lost(f"offers more than {MOST_TOOLS} tools")
            cursor = page.next_cursor
            if not cursor:
                return tuple(found)
        raise self._lost(f"tells its tools on more than {_MOST_PAGES} pages")

    async def _heard(self, message: IncomingMessage) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            self.stale = True

    # ---- what went wrong

    def _told(self, error: Exception, what: str) -> ToolError:
        """An error of any part below, in our words. The server's words are kept short."""
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        inner = _innermost(error)
        if isinstance(inner, ToolError):
            return inner
        if self._barred:
            return self._barred[-1]
        if self._child.broken:
            return self._lost(f"broke off during {what}: {self._child.broken}")
        if isinstance(inner, ToolspeakError):
            return self._lost(f"cannot be reached: {inner}")
        if isinstance(inner, MCPError):
            if inner.code == _CLOSED or self._child.ended.is_set():
                return self._lost(f"ended during {what}")
            if self._server.url and inner.code not in _OF_THE_REQUEST:
                return self._lost(f"failed during {what}: {inner.message[:_MOST_WORDS]}")
            return ToolError(f"the MCP server `{self._server.name}` refused {what}: {inner.message[:_MOST_WORDS]}")
        if isinstance(inner, ValidationError):
            return self._lost(f"answered {what} with something that is no MCP: {reason(inner)}")
        if isinstance(inner, FileNotFoundError):
            return self._lost(f"cannot be started: there is no `{self._server.command or self._server.cwd}`")
        return self._lost(f"failed during {what}: {type(inner).__name__}: {str(inner)[:_MOST_WORDS]}")

    def _lost(self, what: str) -> Lost:
        self._failed = True
        words = f"; it said: {self._child.last_words}" if self._child.last_words else ""
        return Lost(f"the MCP server `{self._server.name}` {what}{words}")


def _meta(context: CallContext) -> RequestParamsMeta | None:
    """What goes along with a call: its key, for servers that do nothing twice."""
    return cast("RequestParamsMeta", {KEY: context.key}) if context.key else None


def _innermost(error: BaseException) -> BaseException:
    """The first error in a group; the SDK's tasks wrap what they raise."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _load() -> None:
    try:
        for name in ("mcp.client.client", "mcp.client.streamable_http", "mcp.shared.exceptions"):
            import_module(name)
        logging.getLogger("mcp").addHandler(_UNHEARD)
    except ImportError:
        hint = "install it with `pip install 'toolspeak[mcp]'`"
        raise ConfigError("MCP servers need the package `mcp`", hint=hint) from None
