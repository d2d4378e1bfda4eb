"""Fits the tool list of a prompt into a token budget.

Tools are shortened one by one, the least relevant first and each only as far as needed. If that is not enough, tools
are left out, and the prompt only names them. Tools in use stay whole, whatever the budget.

Tools and their costs are cached by the identity of the tools, so schemas must not be modified once passed in.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from ...core.bounded_cache import BoundedCache, bounded_cache
from ...core.parsing.tool_index import TEACHABLE
from ...core.text import estimate_tokens
from ...core.types import Note, Tool, ToolCall, is_object
from ...errors import UsageError
from . import tool_listing as listing
from .escaping import display_name, is_plain_name
from .templates import Example, example_of

#: Maximum JSON size of the tools in one cache entry, and in all of them. Coding agents send up to 75 kB.
MAX_CACHED_BYTES, MAX_CACHED_TOTAL = 256 * 1024, 1024 * 1024
#: The same for vocabularies: one takes about twenty times the memory of the tools' JSON, and few toolsets need one.
MAX_VOCABULARY_TOTAL = 512 * 1024
#: Only this many characters per available token are counted at first. A longer text is nearly always over budget.
CHARS_PER_TOKEN = 8
#: Minimum tokens of a parameter in addition to its name: a line break or a pair of quotes, and a colon.
TOKENS_PER_PARAMETER = 2
#: How many tools that share words with the request are shortened only after all others have been left out.
MAX_RELEVANT = 8


#: How a tool is listed.
Rung: TypeAlias = tuple[listing.ListingStyle, listing.ListingDetail]
#: Used if no generated example fits its tool's schema.
FALLBACK_EXAMPLE = Example(ToolCall("NAME", {"PARAMETER": "VALUE"}), distinct=False)


class Toolset:
    """Tools that can be described in a prompt. Compared by identity, which makes it a cheap cache key."""

    __slots__ = ("_costs", "_least", "_listings", "cacheable", "examples", "notes", "sample", "size", "tools")

    def __init__(self, tools: tuple[Tool, ...], cacheable: bool, size: int = 0) -> None:
        self.cacheable = cacheable
        #: The size of the tools as JSON.
        self.size = size
        self.tools, self.notes = _promptable(tools)
        self.sample = example_of(self.tools) or FALLBACK_EXAMPLE
        self.examples = listing.declared_texts(self.tools)
        self._least = [_least(tool) for tool in self.tools]
        #: A lower bound on the tokens of each tool, and whether it is exact.
        self._costs: dict[tuple[int, Rung], tuple[int, bool]] = {}
        #: Rendered tools at the latest level of detail, which rarely changes between requests.
        self._listings: dict[int, tuple[Rung, str]] = {}

    def cost(self, at: int, rung: Rung, room: int) -> int:
        """Return the tokens that the tool at this position takes. If they exceed `room`, return a lower bound."""
        tokens, whole = self._costs.get((at, rung), (self._least[at], False))
        if whole or tokens > room:
            return tokens
        text = listing.signature(self.tools[at], *rung)
        head = text[: CHARS_PER_TOKEN * max(room, 0)]
        tokens, whole = estimate_tokens(head) + 1, len(head) == len(text)
        if tokens <= room and not whole:
            tokens, whole = estimate_tokens(text) + 1, True
        self._costs[at, rung] = tokens, whole
        return tokens

    def listing(self, at: int, rung: Rung) -> str:
        """Return the prompt text of the tool at this position."""
        latest = self._listings.get(at)
        if latest is None or latest[0] != rung:
            latest = self._listings[at] = rung, listing.signature(self.tools[at], *rung)
        return latest[1]


def _least(tool: Tool) -> int:
    """Estimate the tokens of the parameter names, which are always listed."""
    table = tool.parameters.get("properties") if is_object(tool.parameters) else None
    if not is_object(table) or "$ref" in tool.parameters:
        return 1
    names = " ".join(name[: listing.MAX_LITERAL - 1] for name in table)
    return estimate_tokens(" ".join(names.split())) + TOKENS_PER_PARAMETER * len(table)


def _promptable(tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], tuple[Note, ...]]:
    unique: dict[str, Tool] = {}
    notes: list[Note] = []
    for tool in tools:
        if tool.kind not in TEACHABLE:
            notes.append(
                Note("tool_kind_dropped", f"`{display_name(tool.name)}`: unsupported kind `{display_name(tool.kind)}`")
            )
        elif not is_plain_name(tool.name):
            notes.append(Note("tool_name_unusable", f"`{display_name(tool.name)}` cannot be shown in a prompt"))
        elif tool.name in unique:
            notes.append(Note("tool_duplicate", f"`{tool.name}` is declared more than once; the first one is used"))
        else:
            unique[tool.name] = tool
    return tuple(unique.values()), tuple(notes)


#: Toolsets of recent requests, by the identity of their tools. This avoids encoding the same tools again.
_recent: BoundedCache[tuple[int, ...], tuple[tuple[Tool, ...], Toolset]] = BoundedCache(MAX_CACHED_TOTAL)


def toolset_of(tools: tuple[Tool, ...]) -> Toolset:
    """Return the toolset of these tools. Tools with the same content share one."""
    identity = tuple(map(id, tools))
    cached = _recent.get(identity)
    if cached is not None:  # safe: the entry keeps the tools alive, so their ids are not reused
        return cached[1]
    try:
        source = msgspec.json.encode(tools)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError("the tools cannot be encoded as JSON", hint="use plain values in `parameters`") from error
    if len(source) > MAX_CACHED_BYTES:
        return Toolset(tools, cacheable=False)
    toolset = _same_content(source)
    _recent.keep(identity, (tools, toolset), len(source))
    return toolset


@bounded_cache(MAX_CACHED_TOTAL)
def _same_content(source: bytes) -> Toolset:
    return Toolset(msgspec.json.decode(source, type=tuple[Tool, ...]), cacheable=True, size=len(source))


_COMPACT: tuple[Rung, ...] = tuple(("compact", detail) for detail in listing.ListingDetail)
_SCHEMA: tuple[Rung, ...] = tuple(("schema", detail) for detail in listing.ListingDetail)
#: Tool list formats to try, from the most detailed to the shortest. A decision prompt starts with whole schemas.
LADDERS: dict[str, tuple[Rung, ...]] = {
    "compact": _COMPACT,
    "schema": _SCHEMA,
    "decision": (*_SCHEMA[: listing.ListingDetail.NO_NESTED_DESCRIPTIONS], *_COMPACT),
}
_DETAIL_TEXTS = {
    listing.ListingDetail.ALL: "as signatures",
    listing.ListingDetail.NO_EXAMPLES: "without examples",
    listing.ListingDetail.NO_NESTED_DESCRIPTIONS: "without nested descriptions",
    listing.ListingDetail.NO_PARAMETER_DESCRIPTIONS: "without descriptions of parameters",
    listing.ListingDetail.FIRST_SENTENCES: "with one sentence each",
    listing.ListingDetail.NO_DESCRIPTIONS: "without descriptions",
}


def fits(toolset: Toolset, positions: Sequence[int], rung: Rung, room: int) -> bool:
    """Whether these tools fit into `room` tokens. Stops counting as soon as they do not."""
    for at in positions:
        if room < 0:
            break
        room -= toolset.cost(at, rung, room)
    return room >= 0


def _toolset_size(_: object, toolset: Toolset) -> int:
    return toolset.size


@bounded_cache(MAX_VOCABULARY_TOTAL, _toolset_size)
def _vocabularies(toolset: Toolset) -> list[listing.Vocabulary]:
    return [listing.vocabulary(tool) for tool in toolset.tools]


class Room(NamedTuple):
    """The tokens available for a tool list."""

    tokens: int
    #: How many more there are with a short example.
    short_example: int = 0
    #: What it takes to offer the tool that describes tools, besides the names.
    names: int = 0


class Focus(NamedTuple):
    """What matters if not everything fits."""

    #: The user's request. The tools that share the fewest words with it are shortened first.
    query: str = ""
    #: The names of the tools that are never shortened.
    whole: frozenset[str] = frozenset()
    #: The name of the built-in tool that describes tools, or an empty string if it is not offered.
    describe: str = ""


class Listing(msgspec.Struct, frozen=True):
    """What a prompt says about the tools."""

    #: The detail of each tool that is listed, by position.
    rungs: dict[int, Rung]
    #: The tools that are only named.
    named: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    #: Whether the example must be short, too.
    short: bool = False


class _Allotment:
    """Allots the tokens available for the tool list to the tools."""

    def __init__(self, toolset: Toolset, room: int) -> None:
        self._toolset = toolset
        self._costs: dict[int, int] = {}
        self.room = room
        self.rungs: dict[int, Rung] = {}
        self.names: dict[int, str] = {}

    def list_tool(self, at: int, rung: Rung, *, always: bool = False) -> bool:
        """List a tool with this detail if there is room, or always. Return whether it was listed."""
        room = self.room + self._costs.get(at, 0)
        cost = self._toolset.cost(at, rung, room)
        if cost > room and not always:
            return False
        self.names.pop(at, None)
        self.room, self._costs[at], self.rungs[at] = room - cost, cost, rung
        return True

    def has_room_for(self, positions: Sequence[int], rung: Rung) -> bool:
        return fits(self._toolset, positions, rung, self.room)

    def name_tools(self, positions: Sequence[int], least: int) -> None:
        """Name tools on one line, which may take three quarters of the room, and in any case `least` tokens."""
        limit = max(self.room * 3 // 4, least)
        for at in positions:
            name = self._toolset.tools[at].name
            cost = estimate_tokens(name) + 1
            if cost <= limit and _fits_on_line(name):
                limit -= cost
                self.room, self._costs[at], self.names[at] = self.room - cost, cost, name


#: On a line of names, a name with white space or punctuation could be taken for several names, or for a sentence.
_fits_on_line = re.compile(r"[^\s,;`'\"]+").fullmatch


def shortened_listing(toolset: Toolset, rungs: tuple[Rung, ...], room: Room, focus: Focus) -> Listing:
    """Decide how much to say about each tool if not everything fits. `rungs`: the levels of detail, the highest first.

    The list grows from its shortest form: every tool gets more detail, step by step, as long as there is room. The most
    relevant tools get all of theirs before the others get any, and the others get theirs evenly.
    """
    ranked = _ranked(toolset, focus.query)
    whole = [at for at, _ in ranked if toolset.tools[at].name in focus.whole]
    rest = [(at, score) for at, score in ranked if toolset.tools[at].name not in focus.whole]
    relevant = [at for at, score in rest if score][:MAX_RELEVANT]
    others = [at for at, _ in rest if at not in relevant]
    allotment = _Allotment(toolset, room.tokens)
    for at in whole:
        allotment.list_tool(at, rungs[0], always=True)
    short = _list_briefly(allotment, relevant + others, rungs[-1], room, focus)
    for group in (relevant, others):
        for rung in reversed(rungs):
            group = [at for at in group if allotment.list_tool(at, rung)]
    notes = tuple(_shortening_notes(toolset, allotment, rungs[0], focus))
    return Listing(dict(sorted(allotment.rungs.items())), tuple(allotment.names.values()), notes, short)


def _list_briefly(allotment: _Allotment, positions: Sequence[int], rung: Rung, room: Room, focus: Focus) -> bool:
    """List all tools in the shortest form, or name them. Return whether the example must be short for that."""
    short = not allotment.has_room_for(positions, rung)
    if short:
        allotment.room += room.short_example
    if allotment.has_room_for(positions, rung):
        for at in positions:
            allotment.list_tool(at, rung)
    elif focus.describe:
        allotment.room -= room.names
        # Even if the tools in use take all the room, the model must be able to find others.
        allotment.name_tools(positions, room.tokens // 4)
    if positions and not allotment.rungs:  # a prompt without tools would be of no use
        allotment.list_tool(positions[0], rung, always=True)
    return short


def _ranked(toolset: Toolset, query: str) -> list[tuple[int, int]]:
    """Return the positions and scores of the tools, the most relevant first."""
    words = (_vocabularies if toolset.cacheable else _vocabularies.__wrapped__)(toolset)
    scores = [listing.relevance(each, query) for each in words]
    return sorted(enumerate(scores), key=lambda each: (-each[1], each[0]))


def _shortening_notes(toolset: Toolset, allotment: _Allotment, whole: Rung, focus: Focus) -> Iterator[Note]:
    rungs, tools = allotment.rungs, toolset.tools
    counts = Counter(rung for rung in rungs.values() if rung != whole)
    if counts:
        cuts = [f"{count} of {len(tools)} tools {_DETAIL_TEXTS[rung[1]]}" for rung, count in sorted(counts.items())]
        yield Note("contract_shortened", "; ".join(cuts))
    if allotment.names:
        yield Note("tools_only_named", f"no room to describe {_quoted(allotment.names.values())}")
    missing = [tool.name for at, tool in enumerate(tools) if at not in rungs and at not in allotment.names]
    if missing:
        yield Note("tools_left_out", f"no room for {_quoted(missing)}")
    if allotment.room < 0:
        in_use = [tools[at].name for at in rungs if tools[at].name in focus.whole]
        names = _quoted(in_use or [tools[at].name for at in rungs])
        why = "must stay whole and take" if in_use else "alone takes"
        yield Note("contract_over_budget", f"{names} {why} more than the token budget")


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
