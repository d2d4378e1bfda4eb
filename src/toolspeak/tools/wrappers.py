"""Wrappers around tools: name prefix, approval, timeout, truncation. They can be combined in any order."""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from ..core.types import JSONObject, JSONValue, Tool
from ..engine.context.shortening import PLAIN_ID, READ_MORE, as_stored, shorten
from ..errors import ToolDenied, ToolError, UsageError
from .approval import Approval
from .approval_patterns import matches
from .base import CallContext, Executable, ToolOutput

MAX_OUTPUT_CHARS = 4096  # maximum characters of a result that are shown to the model at once
#: Maximum characters stored for `read_more`, for one result and in total.
_MAX_CHARS_PER_OUTPUT = 8 * 1024 * 1024
_MAX_STORED_CHARS = 32 * 1024 * 1024


def only(tools: Iterable[Executable], *names: str, without: Iterable[str] = ()) -> list[Executable]:
    """Select the tools whose names match one of `names` (default: all) and none of `without`.

    Raises UsageError if a name without a star matches no tool.
    """
    tools, left_out = list(tools), tuple(without)
    for name in (*names, *left_out):
        if "*" not in name and not any(each.tool.name == name for each in tools):
            raise UsageError(f"unknown tool `{name}`")

    def selected(tool: str) -> bool:
        included = not names or any(matches(name, tool) for name in names)
        return included and not any(matches(name, tool) for name in left_out)

    return [each for each in tools if selected(each.tool.name)]


def is_sandboxed(tool: Executable) -> bool:
    """Return whether all effects of a tool stay inside a sandbox."""
    return getattr(tool, "sandboxed", False) is True


def is_untrusted(tool: Executable) -> bool:
    """Return whether a tool's description comes from an untrusted source, such as an MCP server."""
    return getattr(tool, "untrusted", False) is True


class _Wrapper:
    """Base class for wrappers. Delegates everything to the wrapped tool."""

    def __init__(self, inner: Executable) -> None:
        self._inner = inner

    @property
    def tool(self) -> Tool:
        return self._inner.tool

    @property
    def sandboxed(self) -> bool:
        return is_sandboxed(self._inner)

    @property
    def untrusted(self) -> bool:
        return is_untrusted(self._inner)

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        return await self._inner.run(arguments, context)


class Approved(_Wrapper):
    """A tool that runs only after approval."""

    def __init__(self, inner: Executable, approval: Approval) -> None:
        super().__init__(inner)
        self._approval = approval

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Run the tool after approval. Raises ToolDenied if the call was not approved."""
        decision = await self._approval.decide(self.tool, arguments, context, sandboxed=self.sandboxed)
        if not decision.allowed:
            raise ToolDenied(f"the call was not allowed: {decision.reason}")
        return await super().run(arguments, context)


class Remainders:
    """A bounded store for the full text of outputs, by call id. The oldest are dropped first."""

    def __init__(self, max_chars: int = _MAX_STORED_CHARS) -> None:
        self._max_chars = max_chars
        self._size = 0
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._count = 0

    def keep(self, call_id: str, text: str) -> str:
        self._count += 1
        name = call_id if PLAIN_ID.fullmatch(call_id) else f"output_{self._count}"
        self._size -= len(self._texts.pop(name, ""))
        self._texts[name] = text[:_MAX_CHARS_PER_OUTPUT]
        self._size += len(self._texts[name])
        while self._size > self._max_chars and self._texts:
            self._size -= len(self._texts.popitem(last=False)[1])
        return name

    def restore(self, call_id: str, content: str) -> None:
        """Store a result that a session has kept, unless its full text is here already."""
        if call_id not in self._texts and PLAIN_ID.fullmatch(call_id):
            self.keep(call_id, as_stored(content))

    def find(self, name: str) -> str | None:
        return self._texts.get(name)


class Truncated(_Wrapper):
    """A tool whose long output is cut to its head and tail. The `read_more` tool returns the rest."""

    def __init__(self, inner: Executable, remainders: Remainders | None = None, limit: int = MAX_OUTPUT_CHARS) -> None:
        super().__init__(inner)
        if limit < 1:
            raise UsageError("the output limit must be at least 1 character")
        self._remainders = remainders
        self._limit = limit

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        output = await super().run(arguments, context)
        if not isinstance(output, ToolOutput) or not isinstance(output.content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return output  # the caller reports the wrong type
        text = output.content
        # Short outputs are stored too, because they may be shortened later to fit the context window.
        name = self._remainders.keep(context.call_id, text) if self._remainders is not None else ""
        # A final output is for the user, not for the model.
        if len(text) <= self._limit or output.final:
            return output
        return msgspec.structs.replace(output, content=shorten(text, self._limit, name))


_READ_MORE: JSONValue = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The id that stands where output was left out."},
        "offset": {"type": "integer", "minimum": 0, "description": "The first character to show."},
    },
    "required": ["id", "offset"],
    "additionalProperties": False,
}


class ReadMore:
    """The `read_more` tool: returns parts of truncated outputs."""

    tool = Tool(
        READ_MORE, "Show more of an earlier output that was too long to be shown at once.", _READ_MORE, read_only=True
    )

    def __init__(self, remainders: Remainders, limit: int = MAX_OUTPUT_CHARS) -> None:
        self.remainders = remainders
        self._limit = limit

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Return a part of an output. Raises ToolError if the output is not stored, or is shorter than `offset`."""
        name, offset = arguments.get("id"), arguments.get("offset")
        if not isinstance(name, str) or not isinstance(offset, int) or offset < 0:
            raise ToolError("`id` must be a text and `offset` a number of 0 or more")
        text = self.remainders.find(name)
        if text is None:
            raise ToolError("there is no output kept under this id", hint="run the tool again for less output")
        if offset >= len(text):
            raise ToolError(f"the output has {len(text)} characters only")
        end = offset + self._limit
        rest = len(text) - end
        more = f"\n[... {rest} more characters; go on with offset {end} ...]" if rest > 0 else "\n[end of the output]"
        return ToolOutput(text[offset:end] + more)


def cut_short(tools: Iterable[Executable], limit: int = MAX_OUTPUT_CHARS) -> list[Executable]:
    """Wrap tools so their output is truncated, and add `read_more`. Tools already wrapped stay as they are."""
    originals = list(tools)
    remainders = None if any(each.tool.name == ReadMore.tool.name for each in originals) else Remainders()
    truncated: list[Executable] = [
        each if isinstance(each, Truncated | ReadMore) else Truncated(each, remainders, limit) for each in originals
    ]
    return truncated if remainders is None else [*truncated, ReadMore(remainders, limit)]
