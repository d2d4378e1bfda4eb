"""What is worked out of a set of tools, once for each set: names, what can be taught, compiled schemas.

Agents send the same tools with every request, and a codec that sees the same declarations again gives the same tuple
again: so a set is known by its identity, and costs one look into a table. Treat tools, and what hangs on them, as
read-only once they have been passed in. Above: `desk`, and the engine with all that it asks. Below: `schema`, `model`.
"""

from __future__ import annotations

from .model import Tool
from .schema import ArgumentSchema

__all__ = ["TEACHABLE", "Toolkit", "toolkit"]

#: Kinds of tools that a prompt can teach.
TEACHABLE = frozenset({"function", "custom"})
#: Sets that are kept: some fifty agents, and for each what it offers and what of it can be read.
KEPT_TOOLKITS = 128
#: A larger set is worked out anew each time, so that a few of them do not fill the memory.
MAX_KEPT_TOOLS = 512


class Toolkit:
    """One set of tools."""

    __slots__ = ("_schemas", "by_name", "dropped", "names", "readable", "tools")

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = tools
        #: Of tools with the same name the last counts here.
        self.by_name = {tool.name: tool for tool in tools}
        self.names = frozenset(self.by_name)
        first: dict[str, Tool] = {}
        for tool in tools:
            if tool.kind in TEACHABLE:
                first.setdefault(tool.name, tool)
        readable = tuple(first.values())
        #: Every tool whose call can be read; of tools with the same name the first counts.
        self.readable = tools if len(readable) == len(tools) else readable
        self.dropped = tuple(tool for tool in tools if tool.kind not in TEACHABLE)
        self._schemas: dict[str, ArgumentSchema] = {}

    def schema(self, name: str) -> ArgumentSchema:
        """The schema of the arguments of a tool in `by_name`."""
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._schemas[name] = ArgumentSchema.of(self.by_name[name].parameters)
        return schema


#: By identity; each entry holds its tools, so their identity belongs to nobody else.
_kept: dict[int, Toolkit] = {}


def toolkit(tools: tuple[Tool, ...]) -> Toolkit:
    """What is known of these tools."""
    kit = _kept.get(id(tools))
    if kit is None:
        kit = Toolkit(tools)
        if len(tools) <= MAX_KEPT_TOOLS:
            if len(_kept) >= KEPT_TOOLKITS:
                _kept.clear()
            _kept[id(tools)] = kit
    return kit
