"""Cached index of a set of tools: names, similar names, tools that a prompt can describe, compiled schemas.

Agents send the same tools with every request, and codecs return the same tuple for the same declarations. So sets are
cached by identity. Tools must not be changed after they have been passed in.
"""

from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from heapq import nlargest
from typing import Any, TypeVar

from ...errors import SchemaError, UsageError
from ..bounded_cache import BoundedCache, bounded_cache
from ..schema.argument_schema import ArgumentSchema
from ..schema.json_values import encode_json
from ..types import Note, Tool

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

        Raises SchemaError, which names the tool, if its parameters are not a schema, and UsageError if two different
        tools have the same name.
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


#: Recent tool sets by identity. Each index keeps its tools alive, so an identity is never reused.
_toolkits: BoundedCache[int, Toolkit] = BoundedCache(MAX_CACHED_TOTAL)


def toolkit(tools: tuple[Tool, ...]) -> Toolkit:
    return _toolkits.get(id(tools)) or _new_toolkit(tools)


def _new_toolkit(tools: tuple[Tool, ...]) -> Toolkit:
    kit, source = Toolkit(tools), encode_json(tools)
    if source is not None and len(source) <= MAX_CACHED_BYTES:
        kit.is_kept, kit.size = True, len(source)
        _toolkits.keep(id(tools), kit, kit.size)
    return kit


#: Longest name that is searched for or suggested: a comparison takes more than linear time.
MAX_NAME_CHARS = 64
#: Maximum number of names that a name is compared with.
MAX_NAMES = 512
#: Number of names that are compared letter by letter, which takes up to 300 microseconds each.
_FINALISTS = 4
#: Lowest similarity of a suggestion, from 0 to 1.
_MIN_RATIO = 0.6
#: Number of bits in a set of pairs of letters. It is prime, so that different pairs rarely share a bit.
_BITS = 251
_SEPARATORS = dict.fromkeys(map(ord, "-_\\"))
_BIT = tuple(1 << number for number in range(_BITS))


class SimilarNames:
    """Index of the names of a set of tools by their letters. It is computed only once per set."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        names = (tool.name for tool in tools[:MAX_NAMES] if len(tool.name) <= MAX_NAME_CHARS)
        self._by_spelling = {fold_name(name): name for name in names}
        self._pairs = {spelling: _pairs(spelling) for spelling in self._by_spelling}

    def closest(self, name: str) -> str:
        """Return the most similar name, or an empty string if none is similar."""
        spelling = fold_name(name)
        if len(name) > MAX_NAME_CHARS:
            return ""
        if spelling in self._by_spelling:
            return self._by_spelling[spelling]
        best = max(self._compare(spelling), default=(0.0, ""))
        return self._by_spelling[best[1]] if best[0] >= _MIN_RATIO else ""

    def _compare(self, spelling: str) -> Iterator[tuple[float, str]]:
        """Yield the similarity of the names that share most letters and pairs of letters with `spelling`."""
        pairs = _pairs(spelling)
        size = pairs.bit_count()

        def shared(other: str) -> float:
            theirs = self._pairs[other]
            return (pairs & theirs).bit_count() / (size + theirs.bit_count())

        matcher = SequenceMatcher()
        matcher.set_seq2(spelling)  # the sequence that the matcher indexes
        for other in nlargest(_FINALISTS, self._by_spelling, shared):
            matcher.set_seq1(other)
            yield matcher.ratio(), other


def fold_name(name: str) -> str:
    """Return the spelling of a name in which case and separators make no difference.

    Models write camel case, and escape underscores for Markdown.
    """
    return name.casefold().translate(_SEPARATORS)


def _pairs(spelling: str) -> int:
    """Return the letters and the pairs of adjacent letters of a name as a set of bits."""
    bits, before = 0, 0
    for letter in map(ord, spelling):
        bits |= _BIT[(before * 31 + letter) % _BITS]
        before = letter
    for letter in set(spelling):
        bits |= _BIT[ord(letter) % _BITS]
    return bits
