"""Filter for the tool listings of MCP servers: removes malformed tools before the SDK validates the response.

The SDK rejects the entire listing if one tool is malformed, which would make the server unusable. Removed tools are
reported with a reason.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, cast

import msgspec

from ...core.text import printable
from ...core.types import JSONObject, JSONValue

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream
    from mcp.shared.message import SessionMessage
    from pydantic import ValidationError

_Incoming: TypeAlias = "SessionMessage | Exception"
_LISTING = "tools/list"
_DEFAULT_VERSION = "2025-11-25"  # the protocol version that the SDK assumes before the handshake
MAX_TOOLS = 512
#: Maximum length of a name and of a reason in a note. Both come from the server.
_MAX_NAME_CHARS = 80
_MAX_REASON_CHARS = 300


class RejectedTool(msgspec.Struct, frozen=True):
    name: str  # name of the tool; empty if it has no valid name
    reason: str


class ListingFilter:
    """Filters the messages between one transport and the SDK."""

    def __init__(self, version: Callable[[], str | None]) -> None:
        self._version = version
        self._pending: set[str | int] = set()  # ids of listing requests that have no response yet
        self.rejected: list[RejectedTool] = []  # tools removed since the last `forget`

    def forget(self) -> None:
        self.rejected.clear()

    @asynccontextmanager
    async def wrap(self, transport: Transport) -> AsyncGenerator[TransportStreams]:
        async with AsyncExitStack() as stack:
            read, write = await stack.enter_async_context(transport)
            yield _FilteredStream(read, self), _ObservedStream(write, self)

    def note_request(self, message: SessionMessage) -> None:
        inner = message.message
        if getattr(inner, "method", "") == _LISTING and (request_id := getattr(inner, "id", None)) is not None:
            self._pending.add(request_id)

    def filter_response(self, message: _Incoming) -> _Incoming:
        """Remove malformed tools from the response to a listing request."""
        if isinstance(message, Exception):
            return message
        inner = message.message
        answered = getattr(inner, "id", None)
        if hasattr(inner, "method") or answered not in self._pending:
            return message
        self._pending.discard(answered)
        result = cast("JSONObject | None", getattr(inner, "result", None))
        if result is not None and isinstance(tools := result.get("tools"), list):
            # One more than the maximum, so the caller can detect an excess.
            result["tools"] = self._readable(result, cast("list[JSONValue]", tools[: MAX_TOOLS + 1]))
        return message

    def _readable(self, listing: JSONObject, tools: list[JSONValue]) -> list[JSONValue]:
        if not tools or not self._fault(listing, tools):
            return tools
        rest = {name: value for name, value in listing.items() if name != "tools"}
        if self._fault(rest, []):
            return tools  # the fault is elsewhere in the listing, and the SDK reports it
        readable: list[JSONValue] = []
        for each in tools:
            if why := _structural_fault(each) or self._fault(rest, [each]):
                self.rejected.append(RejectedTool(_name(each), why))
            else:
                readable.append(each)
        return readable

    def _fault(self, listing: JSONObject, tools: list[JSONValue]) -> str:
        """Return why the SDK would reject a listing of these tools, or an empty string."""
        from mcp.shared.inbound import find_invalid_x_mcp_header
        from mcp_types import ListToolsResult
        from mcp_types.methods import validate_server_result
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS
        from pydantic import ValidationError

        version = self._version() or _DEFAULT_VERSION
        whole = {**listing, "tools": tools}
        try:
            validate_server_result(_LISTING, version, whole)
            parsed = ListToolsResult.model_validate({"tools": tools}, by_name=False)
        except ValidationError as error:
            return validation_reason(error)
        if version not in MODERN_PROTOCOL_VERSIONS:
            return ""
        # The SDK silently drops tools with an invalid `x-mcp-header`.
        return next((why for tool in parsed.tools if (why := find_invalid_x_mcp_header(tool.input_schema))), "")


_Stream = TypeVar("_Stream", bound="ReadStream[Any] | WriteStream[Any]")


class _WrappedStream(Generic[_Stream]):
    def __init__(self, inner: _Stream, listing_filter: ListingFilter) -> None:
        self._inner = inner
        self._filter = listing_filter

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


class _FilteredStream(_WrappedStream["ReadStream[_Incoming]"]):
    """The stream of messages from the server, with listings filtered."""

    @property
    def last_context(self) -> Any:
        """The `last_context` of the wrapped stream, if it has one. The SDK handles a message in this context."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> _Incoming:
        return self._filter.filter_response(await self._inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Incoming:
        return self._filter.filter_response(await self._inner.__anext__())


class _ObservedStream(_WrappedStream["WriteStream[SessionMessage]"]):
    """The stream of messages to the server, watched for listing requests."""

    async def send(self, item: SessionMessage, /) -> None:
        self._filter.note_request(item)
        await self._inner.send(item)


def validation_reason(error: ValidationError) -> str:
    """Return the first validation error on one line, with the path of the field but without list indexes."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    steps = [str(step) for step in first["loc"] if not isinstance(step, int) and step != "tools"]
    where = printable(".".join(steps))[:_MAX_NAME_CHARS]
    words = printable(first["msg"])[:_MAX_REASON_CHARS]
    return f"`{where}`: {words}" if where else words


def _structural_fault(tool: JSONValue) -> str:
    """Return a clear message if a tool has a common fault, or an empty string."""
    if not isinstance(tool, dict):
        return "it must be an object"
    fields = cast("JSONObject", tool)
    if not isinstance(fields.get("name"), str):
        return "`name` must be a string"
    if "inputSchema" not in fields:
        return "it has no `inputSchema`"
    return "" if isinstance(fields["inputSchema"], dict) else "`inputSchema` must be an object"


def _name(tool: JSONValue) -> str:
    name = cast("JSONObject", tool).get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) else ""
