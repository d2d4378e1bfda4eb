"""Tables of marks: those of all dialects, and those that belong to none of them, such as marks around reasoning.

Tag names are normalized (see `core.parsing.tags`). `marks` looks them up.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ..core.parsing.dialect_interface import Opening, Role
from .call_block import BLOCK_CLOSERS
from .dialect import Form
from .registry import FORMATS
from .tag_names import CALL_TAGS, NOISE

_Place = TypeVar("_Place", bound=str)


def _merge(tables: Iterable[Mapping[_Place, Opening]]) -> dict[_Place, Opening]:
    return {mark: opening for table in tables for mark, opening in table.items()}


def _roles(openings: Mapping[str, Opening]) -> dict[str, tuple[Role, Opening | None]]:
    return {mark: ("open", opening) for mark, opening in openings.items()}


# ---- openings of the dialects

#: Tags that open a call block.
OPENINGS = _merge(row.tags for row in FORMATS.values())
#: Openings that are recognised by their form.
FORMS: dict[Form, Opening] = _merge(row.forms for row in FORMATS.values())
#: Readers of blocks other than the common one, by the name of the opening.
READERS = {
    opening.dialect: row.reader for row in FORMATS.values() for opening in row.openings if row.reader is not None
}
_FENCES = _merge(row.fences for row in FORMATS.values())
#: Info strings of code fences that contain calls.
ACTION_FENCES = {info: opening for info, opening in _FENCES.items() if opening.wrapper == "strong"}
#: Info strings of code fences that may contain calls.
JSON_FENCES = {info: opening for info, opening in _FENCES.items() if opening.wrapper == "weak"}

# ---- other tags

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
CLOSING_TAGS = frozenset({*OPENINGS, *CALL_TAGS}) | BLOCK_CLOSERS


# ---- other marks

#: Marks that count anywhere in the text.
LITERALS: dict[str, tuple[Role, Opening | None]] = {
    **_roles(_merge(row.literals for row in FORMATS.values())),
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
#: Marks that count only at the start of a line.
LINES: dict[str, tuple[Role, Opening | None]] = {
    **_roles(_merge(row.lines for row in FORMATS.values())),
    "Final Answer:": ("final", None),
    "**Final Answer:**": ("final", None),
    **dict.fromkeys(("def ", "function ", "fn ", "func ", "import ", "if __name__", "#!/"), ("definition", None)),
    **dict.fromkeys(_RESULT_LINES, ("result", None)),
}
#: Info strings of code fences that contain tool results.
RESULT_FENCES = frozenset(
    {"json result", "result", "tool_result", "tool_response", "tool_output", "tool_outputs", "output"}
)
