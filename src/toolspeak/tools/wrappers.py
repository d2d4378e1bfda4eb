"""Tools around tools: under another name, after approval, within a time, with output that fits.

Each is an `Executable` over an `Executable`, so that they can be put together in any order.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from ..core.types import JSONObject, JSONValue, Tool
from ..errors import ToolDenied, ToolError, ToolTimeout, UsageError
from .approval import Approval
from .approval_patterns import matches
from .base import CallContext, Executable, ToolOutput

#: Characters of a result that reach the model at once.
MOST_OUTPUT = 4096
#: What is kept for `read_more`, in characters: that of one result, and of all together.
_MOST_KEPT_OF_ONE = 8 * 1024 * 1024
_MOST_KEPT = 32 * 1024 * 1024
#: Of what is shown, the part that is the head; what went wrong usually stands at the end.
_HEAD = 2 / 3
#: Ids that can stand in a text as they are.
_PLAIN_ID = re.compile(r"[\w.:-]{1,100}")


def only(tools: Iterable[Executable], *names: str, without: Iterable[str] = ()) -> list[Executable]:
    """The tools whose names look like one of `names` (all, where none is given) and like none of `without`.

    Raises:
        UsageError: a name without a star that no tool has: a tool that was meant would silently be missing.
    """
    tools = list(tools)
    left_out = tuple(without)
    for name in (*names, *left_out):
        if "*" not in name and not any(each.tool.name == name for each in tools):
            raise UsageError(f"there is no tool `{name}` to choose")
    return [
        each
        for each in tools
        if (not names or any(matches(name, each.tool.name) for name in names))
        and not any(matches(name, each.tool.name) for name in left_out)
    ]


def is_sandboxed(tool: Executable) -> bool:
    """Whether what a tool does stays inside a sandbox, whatever it is asked."""
    return getattr(tool, "sandboxed", False) is True


def is_untrusted(tool: Executable) -> bool:
    """Whether what a tool says about itself comes from somebody whom nobody vouches for, such as an MCP server."""
    return getattr(tool, "untrusted", False) is True


class _Wrapper:
    """Passes everything on."""

    def __init__(self, inner: Executable) -> None:
        self._inner = inner

    @property
    def tool(self) -> Tool:
        """What the model is told."""
        return self._inner.tool

    @property
    def sandboxed(self) -> bool:
        """Whether it stays inside a sandbox."""
        return is_sandboxed(self._inner)

    @property
    def untrusted(self) -> bool:
        """Whether a stranger describes it."""
        return is_untrusted(self._inner)

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Do it."""
        return await self._inner.run(arguments, context)


class Prefixed(_Wrapper):
    """The same tool under a longer name."""

    def __init__(self, inner: Executable, prefix: str) -> None:
        super().__init__(inner)
        self._tool = msgspec.structs.replace(inner.tool, name=f"{prefix}{inner.tool.name}")

    @property
    def tool(self) -> Tool:
        """What the model is told."""
        return self._tool


class Approved(_Wrapper):
    """A tool that runs after somebody has said yes."""

    def __init__(self, inner: Executable, approval: Approval) -> None:
        super().__init__(inner)
        self._approval = approval

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Ask, then do it.

        Raises:
            ToolDenied: the answer was no.
        """
        decision = await self._approval.decide(self.tool, arguments, context, sandboxed=self.sandboxed)
        if not decision.allowed:
            raise ToolDenied(f"the call was not allowed: {decision.reason}")
        return await super().run(arguments, context)


class TimeLimited(_Wrapper):
    """A tool that is ended when it takes too long."""

    def __init__(self, inner: Executable, seconds: float) -> None:
        super().__init__(inner)
        if not seconds > 0:
            raise UsageError(f"the time limit of `{inner.tool.name}` must be above 0 seconds")
        self._seconds = seconds

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Do it in time.

        Raises:
            ToolTimeout: it took too long.
        """
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                return await super().run(arguments, context)
        except TimeoutError:
            if limit.expired():
                raise ToolTimeout(f"`{self.tool.name}` took longer than {self._seconds:g} seconds") from None
            raise  # the tool's own


# ---- long output


class Remainders:
    """Outputs that were too long to be shown, by the id of their call; the oldest go first when it is full."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._size = 0
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._count = 0

    def keep(self, call_id: str, text: str) -> str:
        """Keep a text; the id under which it is found."""
        self._count += 1
        name = call_id if _PLAIN_ID.fullmatch(call_id) else f"output_{self._count}"
        self._size -= len(self._kept.pop(name, ""))
        self._kept[name] = text[:_MOST_KEPT_OF_ONE]
        self._size += len(self._kept[name])
        while self._size > self._most and self._kept:
            self._size -= len(self._kept.popitem(last=False)[1])
        return name

    def find(self, name: str) -> str | None:
        """The text kept under an id."""
        return self._kept.get(name)


class Truncated(_Wrapper):
    """A tool of whose output the head and the tail are shown; the rest can be asked for with `read_more`."""

    def __init__(self, inner: Executable, remainders: Remainders | None = None, limit: int = MOST_OUTPUT) -> None:
        super().__init__(inner)
        if limit < 1:
            raise UsageError("the limit of an output must be at least one character")
        self._remainders = remainders
        self._limit = limit

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Do it, and show what fits."""
        output = await super().run(arguments, context)
        if not isinstance(output, ToolOutput):  # pyright: ignore[reportUnnecessaryIsInstance]
            return output  # whoever runs it says so
        text = output.content
        # The answer of an agent is meant for a person, not for the model.
        if len(text) <= self._limit or output.final:
            return output
        head = int(self._limit * _HEAD)
        tail = self._limit - head
        marker = f"[... {len(text) - self._limit} characters left out"
        if self._remainders is not None:
            name = self._remainders.keep(context.call_id, text)
            marker += f'; read_more with id "{name}" and offset {head} shows them'
        shown = f"{text[:head]}\n{marker} ...]\n{text[len(text) - tail :]}"
        return msgspec.structs.replace(output, content=shown)


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
    """The tool by which a model asks for output that was left out."""

    tool = Tool("read_more", "Show more of an earlier output that was too long to be shown at once.", _READ_MORE)

    def __init__(self, remainders: Remainders, limit: int = MOST_OUTPUT) -> None:
        self._remainders = remainders
        self._limit = limit

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Show a part.

        Raises:
            ToolError: there is no such output, or no such part of it.
        """
        name, offset = arguments.get("id"), arguments.get("offset")
        if not isinstance(name, str) or not isinstance(offset, int) or offset < 0:
            raise ToolError("`id` must be a text and `offset` a number of 0 or more")
        text = self._remainders.find(name)
        if text is None:
            raise ToolError("there is no output kept under this id", hint="run the tool again for less output")
        if offset >= len(text):
            raise ToolError(f"the output has {len(text)} characters only")
        end = offset + self._limit
        rest = len(text) - end
        more = f"\n[... {rest} more characters; go on with offset {end} ...]" if rest > 0 else "\n[end of the output]"
        return ToolOutput(text[offset:end] + more)


def cut_short(tools: Iterable[Executable], limit: int = MOST_OUTPUT) -> list[Executable]:
    """Tools whose results fit, and one that shows the rest. What was cut before is left alone."""
    given = list(tools)
    named = any(each.tool.name == ReadMore.tool.name for each in given)
    remainders = None if named else Remainders()
    made: list[Executable] = [
        each if isinstance(each, Truncated | ReadMore) else Truncated(each, remainders, limit) for each in given
    ]
    return made if remainders is None else [*made, ReadMore(remainders, limit)]
