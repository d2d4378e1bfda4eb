"""Interface between the scanner and the dialects: a table of marks, and readers for the text after a mark.

The scanner knows no dialect, and the dialects know nothing about streaming.
"""

import re
from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from .acceptance import Evidence, Wrapper
from .call_builder import CallBuilder
from .context import ParseContext
from .fast_paths import FastPath
from .tags import Tag

#: Lookup result: there is no mark at this position.
NONE = -2
#: A `Reader.fence` which says that no calls are recognised in the rest of the answer.
REST_OF_ANSWER = "<\0"

#: What a mark means to the scanner.
#: `first` begins an answer and `last` ends one; elsewhere they are text. `turn_end` ends one of several messages.
#: `comment` begins a comment; `example` and `example_end` enclose an element. Calls inside them are only examples.
#: `definition` begins a line of a program, so that calls without marks behind it are part of the program.
Role = Literal[
    "open",
    "think",
    "think_end",
    "turn_end",
    "final",
    "result",
    "closer",
    "noise",
    "first",
    "last",
    "comment",
    "example",
    "example_end",
    "definition",
]
#: Progress of a reader.
Progress = Literal["open", "done", "failed"]


class Opening(msgspec.Struct, frozen=True):
    """Opening mark of a call block, as one row of the mark table."""

    dialect: str
    wrapper: Wrapper = "strong"
    #: Literal texts that close the block.
    stops: tuple[str, ...] = ()
    #: Whether the mark is part of the body, so that the reader starts at the mark instead of after it.
    at_mark: bool = False
    #: The name of the call if the mark contains it, for example in the info string of a code fence.
    name: str = ""
    #: Whether the block contains exactly one call and nothing else.
    single: bool = False
    #: Whether the block ends when its call ends.
    one_call: bool = False
    #: Words that may come between the mark and the call.
    preamble: str = ""
    #: Marks that end any argument. Quotes and brackets that are still open there were not closed by the model.
    ends: tuple[str, ...] = ()
    #: Whether a missing closing mark is normal and needs no note, because most models never close this block.
    open_ended: bool = False
    #: Code that wraps each call, up to its opening bracket, such as `print(`.
    call_prefix: str = ""
    #: Whether the mark includes the bracket of a list, as in `[Calling tool: `.
    listed: bool = False
    #: Whether the calls are JSON objects whose keys are tool names.
    keyed: bool = False
    #: How many characters at the end of the mark belong to the body, such as the bracket of `functools[`.
    overlap: int = 0
    #: Whether a tool with the same name as the mark takes precedence.
    tool_first: bool = False
    #: Whether the mark carries another word in place of the nonce.
    wrong_nonce: bool = False
    #: Whether the caller asked for calls of this dialect only; None if not.
    asked: Literal[True] | None = None
    #: Whether the mark consists of words that prose uses as well; None if not.
    in_prose: Literal[True] | None = None


class Reader(Protocol):
    """Reader for one candidate block, which begins with a mark."""

    state: Progress
    #: Whether the model closed the block with its closing mark.
    closed: bool
    #: The closing mark of the block, if it may still follow the text that ended the block.
    due_closer: str
    #: After an abandoned block: the mark up to which no calls are recognised. Empty otherwise.
    fence: str
    #: The channel that a header announces: `analysis` (reasoning) or `final` (the answer). Empty for calls.
    channel: str

    @property
    def builders(self) -> list[CallBuilder]:
        """The candidates found so far."""
        ...

    def feed(self, buf: str, pos: int, final: bool) -> int:
        """Read from `pos` and return the position of the first unread character."""
        ...

    def finish(self) -> None:
        """Handle the end of the text."""

    def fast_path(self) -> FastPath | None:
        """Return the fast path for the current state, or None."""
        ...


class MarkTable(Protocol):
    """Lookup table for the marks of the dialects in use."""

    @property
    def place(self) -> Callable[[str, int], re.Match[str] | None]:
        """Function that searches for the next place where a mark may begin."""
        ...

    @property
    def idle_place(self) -> Callable[[str, int], re.Match[str] | None]:
        """Like `place`, but without marks of calls; used once the search for calls has been given up."""
        ...

    def tag(self, name: str, closing: bool) -> tuple[Role, Opening | None] | None:
        """Return the meaning of a tag with this normalised name."""
        ...

    def meaning(self, head: str) -> tuple[Role, Opening | None] | None:
        """Return the meaning of a tag; `head` is its text up to the end of the name."""
        ...

    def may_become_tag(self, name: str) -> bool:
        """Whether any mark begins with this normalised name."""
        ...

    def with_attributes(self, opening: Opening, tag: Tag) -> Opening:
        """Return the opening for a tag with attributes; `opening` is the one for the tag without them."""
        ...

    def literal(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """Return the literal mark at `pos` with its length, or NONE, or MORE."""
        ...

    def line(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """Return the mark that begins at `pos`, at the first word of a line, or NONE, or MORE."""
        ...

    def fence(self, info: str, marks: str) -> Opening | None:
        """Return the opening for a code fence with this info string, or None if it opens no call block."""
        ...

    def is_result(self, info: str) -> bool:
        """Whether a code fence with this info string contains a tool result."""
        ...

    def bare(self, buf: str, pos: int, final: bool) -> Opening | int:
        """Return the opening of the unmarked call that may begin at `pos`, or NONE, or MORE."""
        ...

    def reader(self, opening: Opening, context: ParseContext, evidence: Evidence) -> Reader:
        """Create the reader for a block."""
        ...
