"""What a dialect is: the marks that open its calls, how calls and results are rendered, and examples."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from ..core.parsing.acceptance import Evidence
from ..core.parsing.context import ParseContext
from ..core.parsing.dialect_interface import Opening, Reader
from ..core.types import ToolCall
from .rendering import Style

#: The call in the examples of all dialects.
EXAMPLE = ToolCall("get_weather", {"city": "Paris", "days": 3})

#: Openings that `Marks` recognises by their form rather than by a fixed text:
#: `{"name": ...`, `{"TOOL": ...`, `[TOOL(...`, `TOOL(...` or `call:NAME{...` at the start of a line, `<TOOL>`, the line
#: `>>>TOOL`, the line `[TOOL]` before an object, `commentary to=functions.TOOL json` before an object, `Action NONCE:`,
#: and a code fence with the info string `tool TOOL`.
Form = Literal[
    "object",
    "keyed_object",
    "python_list",
    "named_call",
    "tool_tag",
    "recipient",
    "named_request",
    "message",
    "signed_action",
    "named_fence",
]

#: Reads the calls in the text between the marks; an empty list if the text is none.
Grammar: TypeAlias = Callable[[str], Sequence[ToolCall]]


class Dialect(msgspec.Struct, frozen=True):
    """A dialect: a text format for tool calls and results."""

    name: str
    #: Names of the openings that count when the dialect is selected (`Opening.dialect`), its own and those of others.
    #: If a dialect that can be selected names none, only those named like itself count.
    accepts: frozenset[str] = frozenset()
    #: Renders the calls. None: the format is only read and cannot be selected.
    style: Style | None = None
    #: Text before and after all calls of a turn.
    before: str = ""
    after: str = ""
    #: Text before and after each tool result.
    result: tuple[str, str] = ("<tool_response>\n", "\n</tool_response>")
    #: Model families that use the dialect.
    families: str = ""
    #: Position in lists, where common dialects come first. Dialects of the same rank are sorted by name. An opening
    #: that several dialects accept counts as the first of them.
    rank: int = 100
    #: Tags that open a call block. Names are normalized (see `core.parsing.tags`): `<｜tool▁calls▁begin｜>` becomes
    #: `|tool_calls_begin|`, and `<seed:tool_call>` becomes `tool_call`.
    tags: dict[str, Opening] = {}
    #: Marks that count anywhere in the text.
    literals: dict[str, Opening] = {}
    #: Marks that count only at the start of a line.
    lines: dict[str, Opening] = {}
    #: Info strings of code fences. The fence itself is the closing mark. `weak` ones match only if written exactly so.
    fences: dict[str, Opening] = {}
    #: Openings that are recognised by their form.
    forms: dict[Form, Opening] = {}
    #: Tags inside a block that are ignored.
    separators: frozenset[str] = frozenset()
    #: Reads the text between an opening and its `stops`, or the end of the line without them. For formats that
    #: `BlockReader` does not know. It gets the text without the marks and the nonce, once it is complete.
    grammar: Grammar | None = None
    #: Reads a block after one of the openings. None: `BlockReader`, which reads calls in any form.
    reader: Callable[[Opening, ParseContext, Evidence], Reader] | None = None
    #: Texts in which models of these families write `EXAMPLE`. Those of our own dialects stand beside their tests.
    examples: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.style is not None and not self.accepts:
            msgspec.structs.force_setattr(self, "accepts", frozenset({self.name}))

    @property
    def openings(self) -> tuple[Opening, ...]:
        tables = (self.tags, self.literals, self.lines, self.fences, self.forms)
        return tuple(opening for table in tables for opening in table.values())
