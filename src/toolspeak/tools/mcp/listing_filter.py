"""What a server offers, without the tools that nobody can read.

The SDK takes a listing whole or not at all, so one tool that is not as the protocol wants it would lose the server with
all its others. What cannot be read is taken out of the answer before the SDK sees it, and told with a reason.
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
#: The revision that the SDK holds a server to which has not said one yet.
_UNSAID = "2025-11-25"
#: Tools of one server.
MOST_TOOLS = 512
#: Characters of a name or a reason in a note: both are the server's.
_MOST_SHOWN = 80
_MOST_REASON = 300


class Refused(msgspec.Struct, frozen=True):
    """A tool that was taken out."""

    #: As far as it has one.
    name: str
    why: str


class Sieve:
    """Stands between one transport and the SDK."""

    def __init__(self, version: Callable[[], str | None]) -> None:
        self._version = version
        #: The requests for tools that were not answered yet.
        self._asked: set[str | int] = set()
        #: What was taken out since the last `forget`.
        self.refused: list[Refused] = []

    def forget(self) -> None:
        """A new listing begins."""
        self.refused.clear()

    @asynccontextmanager
    async def over(self, transport: Transport) -> AsyncGenerator[TransportStreams]:
        """The transport, with this between."""
        async with AsyncExitStack() as stack:
            read, write = await stack.enter_async_context(transport)
            yield _Sifted(read, self), _Watched(write, self)

    def sent(self, message: SessionMessage) -> None:
        """Remember what asks for tools."""
        inner = message.message
        if getattr(inner, "method", "") == _LISTING and (asked := getattr(inner, "id", None)) is not None:
            self._asked.add(asked)

    def came(self, message: _Incoming) -> _Incoming:
        """The same message, with the tools that can be read."""
        if isinstance(message, Exception):
            return message
        inner = message.message
        answered = getattr(inner, "id", None)
        if hasattr(inner, "method") or answered not in self._asked:
            return message
        self._asked.discard(answered)
        result = cast("JSONObject | None", getattr(inner, "result", None))
        if result is not None and isinstance(tools := result.get("tools"), list):
            # One more than there may be tells that there are too many.
            result["tools"] = self._readable(result, cast("list[JSONValue]", tools[: MOST_TOOLS + 1]))
        return message

    def _readable(self, listing: JSONObject, tools: list[JSONValue]) -> list[JSONValue]:
        if not tools or not self._fault(listing, tools):
            return tools
        rest = {name: value for name, value in listing.items() if name != "tools"}
        if self._fault(rest, []):
            return tools  # the fault is not the tools': the SDK says what it is
        kept: list[JSONValue] = []
        for each in tools:
            if why := _own_fault(each) or self._fault(rest, [each]):
                self.refused.append(Refused(_name(each), why))
            else:
                kept.append(each)
        return kept

    def _fault(self, listing: JSONObject, tools: list[JSONValue]) -> str:
        """What the SDK would say to a listing of these; empty: nothing."""
        from mcp.shared.inbound import find_invalid_x_mcp_header
        from mcp_types import ListToolsResult
        from mcp_types.methods import validate_server_result
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS
        from pydantic import ValidationError

        version = self._version() or _UNSAID
        whole = {**listing, "tools": tools}
        try:
            validate_server_result(_LISTING, version, whole)
            found = ListToolsResult.model_validate({"tools": tools}, by_name=False)
        except ValidationError as error:
            return reason(error)
        if version not in MODERN_PROTOCOL_VERSIONS:
            return ""
        # The SDK drops these without a word.
        return next((why for tool in found.tools if (why := find_invalid_x_mcp_header(tool.input_schema))), "")


_Stream = TypeVar("_Stream", bound="ReadStream[Any] | WriteStream[Any]")


class _Around(Generic[_Stream]):
    """One of the SDK's streams, opened and closed as it is."""

    def __init__(self, inner: _Stream, sieve: Sieve) -> None:
        self._inner = inner
        self._sieve = sieve

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


class _Sifted(_Around["ReadStream[_Incoming]"]):
    """What comes from the server."""

    @property
    def last_context(self) -> Any:
        """The SDK runs what handles a message in the context of who sent it, where a stream knows that."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> _Incoming:
        return self._sieve.came(await self._inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Incoming:
        return self._sieve.came(await self._inner.__anext__())


class _Watched(_Around["WriteStream[SessionMessage]"]):
    """What goes to the server."""

    async def send(self, item: SessionMessage, /) -> None:
        self._sieve.sent(item)
        await self._inner.send(item)


def reason(error: ValidationError) -> str:
    """The first thing that is wrong, in one line; where it is, without the place in the list."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    steps = [str(step) for step in first["loc"] if not isinstance(step, int) and step != "tools"]
    where = printable(".".join(steps))[:_MOST_SHOWN]
    words = printable(first["msg"])[:_MOST_REASON]
    return f"`{where}`: {words}" if where else words


def _own_fault(tool: JSONValue) -> str:
    """The faults that are met with, in words of ours."""
    if not isinstance(tool, dict):
        return "it is no object"
    fields = cast("JSONObject", tool)
    if not isinstance(fields.get("name"), str):
        return "its name is no text"
    if "inputSchema" not in fields:
        return "it has no `inputSchema`"
    return "" if isinstance(fields["inputSchema"], dict) else "its `inputSchema` is no object"


def _name(tool: JSONValue) -> str:
    name = cast("JSONObject", tool).get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) else ""
