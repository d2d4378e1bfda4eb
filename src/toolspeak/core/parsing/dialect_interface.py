"""Interface between the scanner and the dialects: a table of marks, and readers for what follows them.

The scanner knows no dialect, and the dialects know nothing about streams.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from .acceptance import Evidence, Wrapper
from .call_builder import CallBuilder
from .context import ParseContext
from .fast_paths import FastPath
from .tags import Tag

#: Result of a lookup: there is no mark here.
NONE = -2

#: What a mark means to the scanner.
#: `first` begins an answer and `last` ends one; elsewhere they are text. `turn_end` ends one of several messages.
#: `comment` begins a comment; `example` and `example_end` surround an element. Both contain examples, not calls.
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
]
#: Progress of a reader.
Progress = Literal["open", "done", "failed"]


class Opening(msgspec.Struct, frozen=True):
    """Opening of a call block: one row of a table."""

    dialect: str
    wrapper: Wrapper = "strong"
    #: Literal texts that close the block.
    stops: tuple[str, ...] = ()
    #: The mark belongs to the body: the reader starts at it, not after it.
    at_mark: bool = False
    #: The name of the call, if the mark gives it, such as the info string of a fence.
    name: str = ""
    #: The block contains exactly one call and nothing else.
    single: bool = False
    #: The block ends with its call.
    one_call: bool = False
    #: Words that may come between the mark and the call.
    preamble: str = ""
    #: Marks that end any argument: what is still open there lacks its closers.
    ends: tuple[str, ...] = ()
    #: Most models never close this block, so a missing closer is not noted.
    open_ended: bool = False
    #: Code around each call, up to its bracket: `print(`.
    call_prefix: str = ""
    #: The calls are JSON objects whose keys are the names of tools.
    keyed: bool = False


class Reader(Protocol):
    """Reads one candidate block after a mark."""

    state: Progress
    #: The block was closed by its own mark.
    closed: bool
    #: The closer of the block, if it may still come after the text that ended the block.
    due_closer: str
    #: What ends the text after a block that was given up; until then nothing is taken for a call. Empty otherwise.
    fence: str
    #: What the text after a header is: `analysis` (reasoning) or `final` (the answer); empty for calls.
    channel: str

    @property
    def builders(self) -> list[CallBuilder]:
        """All candidates so far."""
        ...

    def feed(self, buf: str, pos: int, final: bool) -> int:
        """Read on from `pos`; the position of the first character not read."""
        ...

    def finish(self) -> None:
        """End the text."""
        ...

    def fast_path(self) -> FastPath | None:
        """The fast path for the current state, if there is one."""
        ...


class MarkTable(Protocol):
    """Marks of the dialects in use."""

    @property
    def place(self) -> Callable[[str, int], re.Match[str] | None]:
        """Search for the next place where a mark may begin."""
        ...

    @property
    def idle_place(self) -> Callable[[str, int], re.Match[str] | None]:
        """Like `place`, for use after the search for calls was given up: finds only marks of other kinds."""
        ...

    def tag(self, name: str, closing: bool) -> tuple[Role, Opening | None] | None:
        """The meaning of a tag with this folded name."""
        ...

    def meaning(self, head: str) -> tuple[Role, Opening | None] | None:
        """The meaning of a tag that begins with `head`, which ends with its name."""
        ...

    def may_become_tag(self, name: str) -> bool:
        """Whether a mark begins with this folded name."""
        ...

    def with_attributes(self, opening: Opening, tag: Tag) -> Opening:
        """The opening of a tag with attributes, where `opening` is that of the tag without them."""
        ...

    def literal(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """The literal mark at `pos` with its length, or NONE, or MORE."""
        ...

    def line(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """The mark at `pos`, the first word of a line, or NONE, or MORE."""
        ...

    def fence(self, info: str, marks: str) -> Opening | None:
        """The opening of a code fence with this info string, if it opens a block."""
        ...

    def is_result(self, info: str) -> bool:
        """Whether a code fence with this info string contains a tool result."""
        ...

    def bare(self, buf: str, pos: int, final: bool) -> Opening | int:
        """The opening of the bare call that may begin at `pos`, or NONE, or MORE."""
        ...

    def reader(self, opening: Opening, context: ParseContext, evidence: Evidence) -> Reader:
        """Create the reader of the block."""
        ...
