"""Cached index of a set of tools: names, tools that a prompt can describe, compiled schemas.

Agents send the same tools with every request, and codecs return the same tuple for the same declarations. So sets are
cached by identity. Tools must not be changed after they have been passed in.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ...errors import SchemaError, UsageError
from ..bounded_cache import bounded_cache
from ..schema.argument_schema import ArgumentSchema
from ..schema.json_values import encode_json
from ..types import Note, Tool
from .similar_names import fold_name

T = TypeVar("T")

#: What models write before and after the name of a tool, as `fold_name` spells it: a module, a method, an empty call.
NAME_PREFIXES = ("functions.", "functions:", "defaultapi.", "tools.")
NAME_SUFFIXES = (".call", "()")
#: Kinds of tools that a prompt can describe to a model.
TEACHABLE = frozenset({"function", "custom"})
#: Cache limits for one set and for all sets together, in bytes of JSON; a set uses five times as much memory. Coding
#: agents send up to 75 kB. Any client can send tools, so a limit on the number of sets would not bound the memory.
MAX_CACHED_BYTES, MAX_CACHED_TOTAL = 256 * 1024, 2 * 1024 * 1024


class Toolkit:
    """Index of one set of tools."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = tools
        #: Whether the index is cached, so that what is derived from it is used again; and the size of the JSON.
        self.is_kept, self.size = False, 0
        #: Tools by name; if several have the same name, the last one.
        self.by_name = {tool.name: tool for tool in tools}
        self.names = frozenset(self.by_name)
        first: dict[str, Tool] = {}
        for tool in tools:
            if tool.kind in TEACHABLE:
                first.setdefault(tool.name, tool)
        readable = tuple(first.values())
        #: All tools whose calls can be parsed; if several have the same name, the first one.
        self.readable = tools if len(readable) == len(tools) else readable
        self.dropped = tuple(tool for tool in tools if tool.kind not in TEACHABLE)
        self.descriptions = tuple(tool.description for tool in tools if tool.description)
        self._schemas: dict[str, ArgumentSchema] = {}
        self._checked: tuple[Note, ...] | None = None
        self._derived: dict[object, Any] = {}
        self._folded: dict[str, str] | None = None  # names by their folded form; filled on demand

    def resolve(self, name: str) -> str:
        """Return the tool that a name means: itself, or the only one that differs just in case and separators.

        `tools.NAME`, `NAME.call` and the like mean that tool, too. Any other name is returned unchanged.
        """
        if name in self.by_name:
            return name
        if self._folded is None:
            self._folded = _unique(self.by_name)
        folded, bare = _spellings(name)
        return self._folded.get(folded) or self._folded.get(bare, name)

    def derive(self, function: Callable[[tuple[Tool, ...]], T]) -> T:
        """Return `function(readable)`, which is computed only once per set of tools."""
        if function not in self._derived:
            self._derived[function] = function(self.readable)
        return self._derived[function]

    def derive_from_all(self, function: Callable[[tuple[Tool, ...]], T]) -> T:
        """Return `function(tools)`, which is computed only once per set of tools. Use `derive` for other functions."""
        if function not in self._derived:
            self._derived[function] = function(self.tools)
        return self._derived[function]

    def check(self) -> tuple[Note, ...]:
        """Compile every schema before the model is called. Return notes on the schemas that are not fully understood.

        Raises:
            SchemaError: the parameters of a tool are not a schema; the message names the tool.
            UsageError: two different tools have the same name.
        """
        if self._checked is None:
            self._checked = tuple(self._check())
        return self._checked

    def _check(self) -> Iterator[Note]:
        for tool in self.readable:
            twin = self.by_name[tool.name]
            if twin != tool and twin.kind in TEACHABLE:
                raise UsageError(f"two tools are named `{tool.name:.80}`", hint="give each tool a unique name")
            try:
                notes = ArgumentSchema.of(tool.parameters).notes
            except SchemaError as error:
                raise SchemaError(f"the tool `{tool.name:.80}`: {error.args[0]}", hint=error.hint) from error
            yield from _about(tool.name, notes)

    def schema(self, name: str) -> ArgumentSchema:
        """Return the argument schema of a tool in `by_name`."""
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._schemas[name] = ArgumentSchema.of(self.by_name[name].parameters)
        return schema

    def schema_notes(self, name: str) -> tuple[Note, ...]:
        """Return notes on what in the schema of a tool is not understood."""
        return tuple(_about(name, self.schema(name).notes))


def _about(tool: str, notes: tuple[Note, ...]) -> Iterator[Note]:
    """Say in notes on a schema which tool they are about."""
    return (Note(note.code, f"the tool `{tool:.80}`: {note.detail}") for note in notes)


def _unique(names: Iterable[str]) -> dict[str, str]:
    """Map the folded form of each name to the name, unless two names have the same form."""
    by_fold: dict[str, list[str]] = {}
    for name in names:
        by_fold.setdefault(fold_name(name), []).append(name)
    return {folded: same[0] for folded, same in by_fold.items() if len(same) == 1}


@bounded_cache(256 * 1024)
def _spellings(name: str) -> tuple[str, str]:
    """Return the folded form of a name, with and without what models write before and after the name of a tool."""
    folded = bare = fold_name(name)
    for prefix in NAME_PREFIXES:
        bare = bare.removeprefix(prefix)
    for suffix in NAME_SUFFIXES:
        bare = bare.removesuffix(suffix)
    return folded, bare


class Toolkits:
    """Cache of recent tool sets by identity. Each set keeps its tools alive, so an identity is never reused."""

    def __init__(self) -> None:
        self._cache: dict[int, Toolkit] = {}
        self._bytes = 0

    def of(self, tools: tuple[Tool, ...]) -> Toolkit:
        """Return the index of these tools."""
        return self._cache.get(id(tools)) or self._new(tools)

    def _new(self, tools: tuple[Tool, ...]) -> Toolkit:
        kit, source = Toolkit(tools), encode_json(tools)
        size = MAX_CACHED_BYTES + 1 if source is None else len(source)
        if size <= MAX_CACHED_BYTES:
            self._bytes += size
            if self._bytes > MAX_CACHED_TOTAL:
                self._cache.clear()
                self._bytes = size
            self._cache[id(tools)] = kit
            kit.is_kept, kit.size = True, size
        return kit


toolkit = Toolkits().of
