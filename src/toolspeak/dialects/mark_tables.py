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
from .tag_names import ANSWER_ENDS, CALL_TAGS, NOISE, RESULTS

_Place = TypeVar("_Place", bound=str)
_Marks = dict[str, tuple[Role, Opening | None]]
#: Marks are indexed by their first three characters (fewer at the end of the text), so one lookup rejects most text.
LOOK = 3
MarksByFirst = dict[str, list[tuple[str, Role, Opening | None, int]]]

# ---- tags that belong to no dialect

#: Marks around reasoning.
THINKING = frozenset(
    """think thinking thought reasoning |START_THINKING| |think| |begin_of_thought| |inner_prefix| |channel
    |open|think""".split()
)
THINKING_LABELS = {"|channel": Opening("gemma", preamble="thought\n")}
THINKING_ENDS = frozenset({"|END_THINKING|", "|end_of_thought|", "|inner_suffix|", "channel|", "|close|think"})
TURN_ENDS = frozenset({"|end|", "|return|", "|eom|"})
ENDS: dict[str, Role] = {**dict.fromkeys(THINKING_ENDS, "think_end"), **dict.fromkeys(TURN_ENDS, "turn_end")}
#: Chat template tokens that are dropped from the text.
NOISE_TAGS = frozenset(
    """|START_RESPONSE| |END_RESPONSE| |START_TEXT| |END_TEXT| |content_text| |content| |calls| |message_model|
    |end_message| |eot| |call| |tool_outputs_end| |tool_output_end| |open| |close| |role_sep|""".split()
)
#: `<s>` begins an answer. Elsewhere it means strikethrough in HTML.
FIRST = "s"
COMMENT = "!--"
#: Elements that contain examples or documents, in which calls do not count.
EXAMPLES = frozenset({"example", "examples", "sample", "samples", "pre", "html", "svg", "math", "project"})
OTHERS: dict[str, Role] = {**dict.fromkeys(NOISE_TAGS, "noise"), **dict.fromkeys(EXAMPLES, "example")}
#: Parts of a call in Kimi K3's format. Outside a call they are text.
LONG_PARTS = frozenset({"|open|argument", "|close|argument", "|close|call", "|close|tools"})
#: Tags with a fixed meaning, whatever the dialects are.
FIXED_TAGS = THINKING | ENDS.keys() | OTHERS.keys() | LONG_PARTS | RESULTS | ANSWER_ENDS | CALL_TAGS | {FIRST}
_IS_TOKEN = re.compile(r"<[^/].*>").fullmatch
#: Special tokens that end messages, and therefore any block.
_MESSAGE_ENDS = frozenset({"|end_message|", "|call|", "|im_end|", "|end_of_sentence|"})

# ---- other marks that belong to no dialect

_LITERALS: _Marks = {
    "[THINK]": ("think", None),
    **dict.fromkeys(("[/THINK]", "[BEGIN FINAL RESPONSE]"), ("think_end", None)),
    **dict.fromkeys(("[TOOL_RESULTS]", "[TOOL_RESULT]", "✿RESULT✿"), ("result", None)),
    NOISE: ("noise", None),
}
_RESULT_LINES = (
    """
Observation:|observation:|**Observation:**|**Observation**:
Tool result:|Tool Result:|Tool result for|Tool Result for|Tool results:|Tool Results:|**Tool result:**|**Tool Result:**
Tool output:|Tool Output:|Tool response:|Tool Response:|Function result:|Function Result:
TOOL_RESULT:|[Tool result|[Tool Result
""".strip()
    .replace("\n", "|")
    .split("|")
)
_LINES: _Marks = {
    "Final Answer:": ("final", None),
    "**Final Answer:**": ("final", None),
    **dict.fromkeys(("def ", "function ", "fn ", "func ", "import ", "if __name__", "#!/"), ("definition", None)),
    **dict.fromkeys(_RESULT_LINES, ("result", None)),
}
#: Info strings of code fences that contain tool results.
RESULT_FENCES = frozenset(
    {"json result", "result", "tool_result", "tool_response", "tool_output", "tool_outputs", "output"}
)


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
