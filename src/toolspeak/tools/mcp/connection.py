"""One connection to an MCP server, through the official SDK.

The connection lives in its own task, because the SDK's contexts must be closed by the task that opened them; any task
can make calls. Sampling, elicitation and roots are not offered, so a server cannot ask the model or the user anything.
HTTP requests go only to checked addresses (SSRF guard), and response bodies have a size limit.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import msgspec

from ...core.types import JSONObject, Media
from ...errors import ConfigError, ToolError, ToolspeakError, ToolTimeout
from ...upstreams.ssrf_guard import Resolver, check_address
from ..base import CallContext, ToolOutput
from ..threads import in_thread
from .approved_definitions import Definition
from .config import McpServer
from .listing_filter import MAX_TOOLS, ListingFilter, RejectedTool, validation_reason
from .oauth import Login, LoginNeeded, Tokens, authorization
from .stdio import Child, stdio

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Client, IncomingMessage, Transport
    from mcp_types import CallToolResult, ContentBlock, RequestParamsMeta
    from mcp_types import Tool as OfferedTool

_MAX_PAGES = 64
_CLOSE_TIMEOUT = 10.0
_CLOSED = -32000  # the SDK's error code for a closed connection
#: Error codes that leave the connection usable: unknown method, invalid parameters. Over HTTP, any other error may come
#: from the transport, such as an unreachable server or an expired session.
_REQUEST_ERRORS = (-32601, -32602)
_MAX_MESSAGE_CHARS = 1000  # maximum length of a server's message in an error
#: Keeps the SDK's log messages off standard error unless logging is configured. This module reports the errors itself.
_SILENT_HANDLER = logging.NullHandler()


class ConnectionLost(ToolError):
    """The connection failed or could not be opened."""


@dataclass(eq=False)
class McpConnection:
    """One connection, from opening to closing. A restarted server gets a new connection."""

    server: McpServer
    variables: Mapping[str, str]
    resolver: Resolver | None = None
    tokens: Tokens | None = None
    login: Login | None = None

    def __post_init__(self) -> None:
        self._login_errors: list[LoginNeeded] = []
        self._child = Child()
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failed = False
        self._filter = ListingFilter(lambda: self._client.session.protocol_version if self._client else None)
        self.stale = False  # whether the server has announced that its list of tools has changed

    @property
    def alive(self) -> bool:
        return self._client is not None and not self._failed and not self._child.ended.is_set()

    @property
    def rejected(self) -> tuple[RejectedTool, ...]:
        """Malformed tools that were removed from the server's listing."""
        return tuple(self._filter.rejected)

    async def open(self) -> tuple[Definition, ...]:
        """Connect and return the tool definitions that the server offers. Raises ConfigError without the SDK.

        Raises ConnectionLost if the server cannot be reached, or violates the protocol.
        """
        # The first import takes a second or two.
        await in_thread(_load_sdk)
        ready: asyncio.Future[tuple[Definition, ...]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(ready), name=f"toolspeak-mcp-{self.server.name}")
        try:
            async with asyncio.timeout(self.server.start_timeout):
                return await ready
        except TimeoutError:
            await self.close()
            raise self._lost(f"did not answer within {self.server.start_timeout:g} seconds") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection, and end the server if it is a child process."""
        self._closing.set()
        task, self._task = self._task, None
        if task is None:
            return
        done, _ = await asyncio.wait([task], timeout=_CLOSE_TIMEOUT if self._client is not None else 0.2)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=_CLOSE_TIMEOUT)

    async def definitions(self) -> tuple[Definition, ...]:
        """Return the tool definitions that the server offers now. Raises ConnectionLost if the listing failed."""
        self.stale = False
        try:
            return await self._list_tools()
        except Exception as error:
            self.stale = True  # the current list is unknown
            raise self._as_tool_error(error, "the tool listing") from None

    async def call(self, name: str, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Call a tool. Raises ToolTimeout if it took too long, and ToolError if the server returned an error.

        Raises ConnectionLost if the connection broke: the call may or may not have run.
        """
        client = self._client
        if client is None:
            raise self._lost("is not connected")

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if message:
                context.emit(f"{message[:_MAX_MESSAGE_CHARS]}\n")

        meta = cast("RequestParamsMeta", {IDEMPOTENCY_KEY: context.key}) if context.key else None
        limit = asyncio.timeout(self.server.timeout)
        try:
            async with limit:
                result = await client.call_tool(name, arguments, progress_callback=report, meta=meta)
        except Exception as error:
            if limit.expired():
                raise ToolTimeout(f"`{name}` took longer than {self.server.timeout:g} seconds") from None
            raise self._as_tool_error(error, f"the call of `{name}`") from None
        return output_of_result(result, self.server.name)

    async def _run(self, ready: asyncio.Future[tuple[Definition, ...]]) -> None:
        """Open the connection, wait for `close`, and close everything. Runs as the connection's own task."""
        try:
            async with AsyncExitStack() as stack:
                self._client = await stack.enter_async_context(await self._make_client(stack))
                definitions = await self._list_tools()
                if not ready.done():
                    ready.set_result(definitions)
                await self._closing.wait()
        except Exception as error:
            self._failed = True
            if not ready.done():
                ready.set_exception(self._as_tool_error(error, "its start"))
        finally:
            self._client = None
            if not ready.done():
                ready.cancel()

    async def _make_client(self, stack: AsyncExitStack) -> Client:
        from mcp.client import Client
        from mcp_types import Implementation

        transport, name = await self._transport(stack), Implementation(name="toolspeak", version=version("toolspeak"))
        return Client(transport, client_info=name, message_handler=self._on_message, cache=None)

    async def _transport(self, stack: AsyncExitStack) -> Transport:
        if self.server.command:
            return self._filter.wrap(stdio(self.server, self.variables, self._child))
        from mcp.client.streamable_http import streamable_http_client

        auth = authorization(self.server, self.tokens, self.login, self._login_errors.append)
        client = await stack.enter_async_context(guarded_client(self.server, self.resolver, auth))
        transport = streamable_http_client(self.server.url, http_client=client, max_sse_event_size=MAX_BODY_BYTES)
        return self._filter.wrap(transport)

    async def _list_tools(self) -> tuple[Definition, ...]:
        assert self._client is not None
        if self._client.server_capabilities.tools is None:
            return ()
        definitions: list[Definition] = []
        self._filter.forget()
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            definitions += [definition_of(each) for each in page.tools]
            if len(definitions) + len(self._filter.rejected) > MAX_TOOLS:
                raise self._lost(f"offers more than {MAX_TOOLS} tools")
            cursor = page.next_cursor
            if not cursor:
                return tuple(definitions)
        raise self._lost(f"lists its tools on more than {_MAX_PAGES} pages")

    async def _on_message(self, message: IncomingMessage) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            self.stale = True

    def _as_tool_error(self, error: Exception, what: str) -> ToolError:
        """Convert an exception from the SDK or the transport to a `ToolError`. Long server messages are cut."""
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        inner = _innermost(error)
        if isinstance(inner, ToolError):
            return inner
        if self._login_errors:
            return self._login_errors[-1]
        if self._child.broken:
            return self._lost(f"failed during {what}: {self._child.broken}")
        if isinstance(inner, ToolspeakError):
            return self._lost(f"cannot be reached: {inner}")
        if isinstance(inner, MCPError):
            if inner.code == _CLOSED or self._child.ended.is_set():
                return self._lost(f"ended during {what}")
            if self.server.url and inner.code not in _REQUEST_ERRORS:
                return self._lost(f"failed during {what}: {inner.message[:_MAX_MESSAGE_CHARS]}")
            message = inner.message[:_MAX_MESSAGE_CHARS]
            return ToolError(f"the MCP server `{self.server.name}` refused {what}: {message}")
        if isinstance(inner, ValidationError):
            return self._lost(f"answered {what} with an invalid MCP message: {validation_reason(inner)}")
        if isinstance(inner, FileNotFoundError):
            return self._lost(f"cannot be started: there is no `{self.server.command or self.server.cwd}`")
        return self._lost(f"failed during {what}: {type(inner).__name__}: {str(inner)[:_MAX_MESSAGE_CHARS]}")

    def _lost(self, what: str) -> ConnectionLost:
        self._failed = True
        words = f"; it said: {self._child.last_stderr_line}" if self._child.last_stderr_line else ""
        return ConnectionLost(f"the MCP server `{self.server.name}` {what}{words}")


def _innermost(error: BaseException) -> BaseException:
    """Return the first error inside nested exception groups. The SDK wraps its errors in such groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _load_sdk() -> None:
    try:
        for name in ("mcp.client.client", "mcp.client.streamable_http", "mcp.shared.exceptions"):
            import_module(name)
        logging.getLogger("mcp").addHandler(_SILENT_HANDLER)
    except ImportError:
        hint = "install it with `pip install 'toolspeak[mcp]'`"
        raise ConfigError("MCP servers need the package `mcp`", hint=hint) from None


MAX_RESULT_CHARS = 16 * 1024 * 1024  # maximum size of one result in characters, including media
MAX_TEXT_CHARS = 1024 * 1024  # maximum characters of text in one result, without media
_MIME = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,80}")


def definition_of(offered: OfferedTool) -> Definition:
    hints = offered.annotations
    read_only = hints is not None and hints.read_only_hint is True
    return Definition(offered.name, offered.description or "", offered.input_schema, read_only)


def output_of_result(result: CallToolResult, server: str) -> ToolOutput:
    """Convert the SDK's result type to a `ToolOutput`. Raises ToolError if the result is too large."""
    texts: list[str] = []
    media: list[Media] = []
    size = 0
    for block in result.content:
        part = _read_block(block)
        size += len(part.url if isinstance(part, Media) else part)
        if size > MAX_RESULT_CHARS:
            raise ToolError(f"the result of the server `{server}` is larger than {MAX_RESULT_CHARS} characters")
        if isinstance(part, Media):
            media.append(part)
        else:
            texts.append(part)
    if not texts and result.structured_content is not None:
        texts.append(msgspec.json.encode(result.structured_content).decode())
    text = "\n".join(texts)
    if len(text) > MAX_TEXT_CHARS:
        raise ToolError(f"the result of the server `{server}` has {len(text)} characters, more than {MAX_TEXT_CHARS}")
    return ToolOutput(text or ("" if media else "done"), error=result.is_error, parts=tuple(media))


def _read_block(block: ContentBlock) -> str | Media:
    match block.type:
        case "text":
            return block.text
        case "image":
            return Media("image", _data_url(block.mime_type, block.data))
        case "audio":
            return Media("audio", _data_url(block.mime_type, block.data))
        case "resource_link":
            return f"[resource {block.uri}]"
        case "resource":
            inner = block.resource
            text = getattr(inner, "text", None)
            if isinstance(text, str):
                return f"[resource {inner.uri}]\n{text}"
            return Media("file", _data_url(inner.mime_type or "", getattr(inner, "blob", "")))
        case _:
            return "[a part of an unknown kind]"


def _data_url(kind: str, data: str) -> str:
    # The media type comes from the server. An invalid one could change the structure of the URL.
    return f"data:{kind if _MIME.fullmatch(kind.lower()) else 'application/octet-stream'};base64,{data}"


MAX_BODY_BYTES = 16 * 1024 * 1024  # maximum size of one response body in bytes; stdio messages have the same limit
#: Hosts that always mean this machine, and need no entry in `allow`.
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
_CONNECT_TIMEOUT = 10.0
IDEMPOTENCY_KEY = "toolspeak/idempotency-key"  # the field in a call's `_meta` that carries its idempotency key


class _Params(msgspec.Struct, frozen=True):
    meta: dict[str, Any] = msgspec.field(name="_meta", default={})


class _CallMessage(msgspec.Struct, frozen=True):
    """An MCP request body, reduced to the field that carries the idempotency key."""

    params: _Params = _Params()


def idempotency_header(body: bytes) -> dict[str, str]:
    """Return a call's idempotency key as a header, for gateways in front of the server that do not read bodies.

    The value is quoted, as `draft-ietf-httpapi-idempotency-key-header` requires.
    """
    if IDEMPOTENCY_KEY.encode() not in body:
        return {}
    try:
        key = msgspec.json.decode(body, type=_CallMessage).params.meta.get(IDEMPOTENCY_KEY)
    except msgspec.DecodeError:
        return {}
    return {"Idempotency-Key": f'"{key}"'} if isinstance(key, str) and key.isalnum() and key.isascii() else {}


def allowed_hosts(server: McpServer) -> tuple[str, ...]:
    """Return the private hosts that requests may reach: those configured, and loopback if the URL names it."""
    host = (urlsplit(server.url).hostname or "").lower()
    return (*server.allow, host) if host in _LOOPBACK_HOSTS else server.allow


def guarded_client(
    server: McpServer, resolver: Resolver | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    """Create an HTTP client for one server. Proxy and certificate settings in the environment are ignored."""
    import httpx2

    return httpx2.AsyncClient(
        transport=_guarded_transport(server, resolver),
        headers=server.headers,
        auth=auth,
        follow_redirects=False,
        trust_env=False,
        # A stream may stay silent for the whole duration of a call.
        timeout=httpx2.Timeout(_CONNECT_TIMEOUT, read=server.timeout + _CONNECT_TIMEOUT),
    )


def _guarded_transport(server: McpServer, resolver: Resolver | None) -> httpx2.AsyncBaseTransport:
    import httpx2

    names, secure = allowed_hosts(server), server.url.lower().startswith("https:")

    class BoundedBody(httpx2.AsyncByteStream):
        def __init__(self, inner: httpx2.AsyncByteStream) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._inner:
                size += len(piece)
                if size > MAX_BODY_BYTES:
                    raise httpx2.ReadError(f"the answer has more than {MAX_BODY_BYTES} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._inner.aclose()

    class Guarded(httpx2.AsyncHTTPTransport):
        """A transport that resolves and checks each host, and connects only to the checked address."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if secure and request.url.scheme != "https":  # from a redirect or a login URL
                raise ToolError(f"the MCP server `{server.name}` leads from https to http, which is not encrypted")
            pinned = await check_address(str(request.url), allow=names, resolver=resolver)
            checked = httpx2.Request(
                request.method,
                request.url.copy_with(host=pinned.addresses[0]),
                # The `Host` header still contains the host name.
                headers={**request.headers, **idempotency_header(await request.aread())},
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": pinned.host},
            )
            response = await super().handle_async_request(checked)
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                assert isinstance(response.stream, httpx2.AsyncByteStream)
                response.stream = BoundedBody(response.stream)
            return response

    return Guarded(trust_env=False, retries=0)
