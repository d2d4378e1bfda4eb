"""What is worked out of a set of tools, once for each set: names, what can be taught, compiled schemas.

Agents send the same tools with every request, and a codec that sees the same declarations again gives the same tuple
again: so a set is known by its identity, and costs one look into a table. Treat tools, and what hangs on them, as
read-only once they have been passed in.
"""

from __future__ import annotations

import msgspec

from ...errors import SchemaError, UsageError
from ..schema.arguments import ArgumentSchema
from ..types import Tool

#: Kinds of tools that a prompt can teach.
TEACHABLE = frozenset({"function", "custom"})
#: How much may be kept, by the JSON that the tools take, which is a fifth of the memory: the largest set, and all sets
#: together. Coding agents send up to 75 kB. Anybody may send tools, so that a number of sets would be no bound.
MAX_KEPT_BYTES, MAX_KEPT_TOTAL = 256 * 1024, 2 * 1024 * 1024


class Toolkit:
    """One set of tools."""

    __slots__ = ("_checked", "_schemas", "by_name", "dropped", "names", "readable", "tools")

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
        self._checked = False

    def check(self) -> None:
        """Compile every schema, so that a bad one is told before anybody is asked.

        Raises:
            SchemaError: one cannot be used; it names the tool and the place.
            UsageError: two tools that differ have one name.
        """
        if self._checked:
            return
        for tool in self.readable:
            twin = self.by_name[tool.name]
            if twin != tool and twin.kind in TEACHABLE:
                raise UsageError(f"two tools are called `{tool.name:.80}`", hint="give each tool a name of its own")
            try:
                ArgumentSchema.of(tool.parameters)
            except SchemaError as error:
                raise SchemaError(f"the tool `{tool.name:.80}`: {error.args[0]}", hint=error.hint) from error
        self._checked = True

    def schema(self, name: str) -> ArgumentSchema:
        """The schema of the arguments of a tool in `by_name`."""
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._schemas[name] = ArgumentSchema.of(self.by_name[name].parameters)
        return schema


class Toolkits:
    """The sets that came last, by identity; each holds its tools, so their identity belongs to nobody else."""

    def __init__(self) -> None:
        self._kept: dict[int, Toolkit] = {}
        self._bytes = 0

    def of(self, tools: tuple[Tool, ...]) -> Toolkit:
        """What is known of these tools."""
        return self._kept.get(id(tools)) or self._new(tools)

    def _new(self, tools: tuple[Tool, ...]) -> Toolkit:
        kit, size = Toolkit(tools), _size(tools)
        if size <= MAX_KEPT_BYTES:
            self._bytes += size
            if self._bytes > MAX_KEPT_TOTAL:
                self._kept.clear()
                self._bytes = size
            self._kept[id(tools)] = kit
        return kit


def _size(tools: tuple[Tool, ...]) -> int:
    """What the tools take as JSON; too much where they are none."""
    try:
        return len(msgspec.json.encode(tools))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return MAX_KEPT_BYTES + 1


toolkit = Toolkits().of
