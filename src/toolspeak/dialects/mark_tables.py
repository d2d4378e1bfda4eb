"""Tables of marks: those of all dialects, and those that belong to none of them, such as marks around reasoning.

Tag names are normalized (see `core.parsing.tags`). `marks` looks them up.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TypeVar

from ..core.parsing.dialect_interface import Opening, Role
from ..core.parsing.tags import fold_name
from ..core.plugin_hook import depends_on_dialects
from .dialect import Dialect, Form
from .registry import all_formats
from .tag_names import ANSWER_ENDS, CALL_TAGS, NOISE, RESULTS, TABLES

_Place = TypeVar("_Place", bound=str)
_Marks = dict[str, tuple[Role, Opening | None]]
#: Marks are indexed by their first three characters (fewer at the end of the text), so one lookup rejects most text.
LOOK = 3
MarksByFirst = dict[str, list[tuple[str, Role, Opening | None, int]]]

# ---- marks that belong to no dialect, which `tags.toml` explains

THINKING = frozenset(TABLES["thinking"])
THINKING_LABELS = {"|channel": Opening("gemma", preamble="thought\n")}
ENDS: dict[str, Role] = {
    **dict.fromkeys(TABLES["thinking_end"], "think_end"),
    **dict.fromkeys(TABLES["turn_end"], "turn_end"),
}
#: `<s>` begins an answer. Elsewhere it means strikethrough in HTML.
FIRST = "s"
COMMENT = "!--"
EXAMPLES = frozenset(TABLES["example"])
OTHERS: dict[str, Role] = {**dict.fromkeys(TABLES["noise"], "noise"), **dict.fromkeys(EXAMPLES, "example")}
LONG_PARTS = frozenset(TABLES["long_part"])
#: Tags with a fixed meaning, whatever the dialects are.
FIXED_TAGS = THINKING | ENDS.keys() | OTHERS.keys() | LONG_PARTS | RESULTS | ANSWER_ENDS | CALL_TAGS | {FIRST}
_IS_TOKEN = re.compile(r"<[^/].*>").fullmatch
_MESSAGE_ENDS = frozenset(TABLES["message_end"])
_LITERALS: _Marks = {
    "[THINK]": ("think", None),
    **dict.fromkeys(("[/THINK]", "[BEGIN FINAL RESPONSE]"), ("think_end", None)),
    **dict.fromkeys(TABLES["result_literal"], ("result", None)),
    NOISE: ("noise", None),
}
_LINES: _Marks = {
    **dict.fromkeys(TABLES["final_line"], ("final", None)),
    **dict.fromkeys(TABLES["definition_line"], ("definition", None)),
    **dict.fromkeys(TABLES["result_line"], ("result", None)),
}
RESULT_FENCES = frozenset(TABLES["result_fence"])


# ---- the marks of the dialects


class MarkTables:
    """The marks of these dialects, together with those that belong to none."""

    def __init__(self, rows: Iterable[Dialect]) -> None:
        rows = tuple(rows)
        #: Tags that open a call block.
        self.openings = _merge(row.tags for row in rows)
        #: Openings that are recognised by their form.
        self.forms: dict[Form, Opening] = _merge(row.forms for row in rows)
        fences = _merge(row.fences for row in rows)
        #: Info strings of code fences that contain calls, and of those that may contain calls.
        self.action_fences = {info: opening for info, opening in fences.items() if opening.wrapper == "strong"}
        self.json_fences = {info: opening for info, opening in fences.items() if opening.wrapper == "weak"}
        #: Marks that count anywhere in the text, and those that count only at the start of a line.
        self.literals = {**_roles(_merge(row.literals for row in rows)), **_LITERALS}
        self.lines = {**_roles(_merge(row.lines for row in rows)), **_LINES}
        self.literals_by_first, self.lines_by_first = _by_first(self.literals), _by_first(self.lines)
        self.longest = max(map(len, (*self.literals, *self.lines)))
        #: The dialects that read their blocks themselves, by the names of their openings.
        self.owners = {each.dialect: row for row in rows if row.reader or row.grammar for each in row.openings}
        #: Tags that are ignored inside a block.
        self.separators = frozenset(tag for row in rows for tag in row.separators)
        #: Tags around tool results, which only the caller may write.
        self.results = RESULTS.union(tag for row in rows if (tag := result_tag(row)))
        ends = (end for row in rows for opening in row.openings for end in opening.stops + opening.ends)
        #: Special tokens that close a block: those that end calls in some dialect, and those that end messages.
        self.block_closers = _MESSAGE_ENDS.union(fold_name(end[1:-1]) for end in ends if _IS_TOKEN(end))
        self.closing_tags = self.block_closers.union(self.openings, CALL_TAGS)


def result_tag(row: Dialect) -> str:
    """Return the name of the tag that begins a result in this dialect; empty if it is no tag."""
    mark = row.result[0].strip()
    return fold_name(mark[1:-1]) if _IS_TOKEN(mark) else ""


def _merge(tables: Iterable[Mapping[_Place, Opening]]) -> dict[_Place, Opening]:
    return {mark: opening for table in tables for mark, opening in table.items()}


def _roles(openings: Mapping[str, Opening]) -> _Marks:
    return {mark: ("open", opening) for mark, opening in openings.items()}


def _by_first(table: _Marks) -> MarksByFirst:
    """Index marks, with their lengths. A mark comes before its own prefixes."""
    by_first: MarksByFirst = {}
    for mark in sorted(table, key=len, reverse=True):
        role, opening = table[mark]
        length = len(mark) - (opening.overlap if opening is not None else 0)
        for prefix in (mark[:1], mark[:2], mark[:LOOK]):
            by_first.setdefault(prefix, []).append((mark, role, opening, length))
    return by_first


@depends_on_dialects
@cache
def mark_tables() -> MarkTables:
    """Return the marks of all dialects."""
    return MarkTables(all_formats().values())
