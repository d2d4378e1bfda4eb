"""What the scanner asks of a dialect: a table of marks, and readers for what stands behind them.

The seam between `scanner`, which knows no dialect, and `dialects`, which know no stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from .acceptance import Evidence, Wrapper
from .call_builder import CallBuilder
from .context import Desk
from .fast_paths import Run
from .tags import Tag

#: There is no mark here.
NONE = -2

#: What a mark means to the scanner.
#: `first` begins an answer and `last` ends one; elsewhere they are text. `turn_end` ends a message of several.
#: `comment` begins a comment, in which examples stand; `example` and `example_end` are around an element of them.
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
#: How far a reader is.
Progress = Literal["open", "done", "failed"]


class Opening(msgspec.Struct, frozen=True):
    """A mark that opens a candidate: one row of a table."""

    dialect: str
    wrapper: Wrapper = "strong"
    #: Marks that end what was opened, as literal text.
    stops: tuple[str, ...] = ()
    #: The mark itself belongs to the body: the reader starts at it, not behind it.
    at_mark: bool = False
    #: A name that the mark itself gives, such as the info string of a fence.
    name: str = ""
    #: The block holds exactly one call, and nothing else.
    single: bool = False
    #: The block is over when its call is.
    one_call: bool = False
    #: Words that may stand between the mark and the call.
    preamble: str = ""
    #: Marks that no argument goes on behind: what is still open there has lost its closers.
    ends: tuple[str, ...] = ()
    #: Most of those who write the mark never close it, so nothing is said when it is not.
    open_ended: bool = False
    #: What code puts around each call, up to its bracket: `print(`.
    dress: str = ""
    #: The calls are JSON objects whose keys are the names of tools.
    keyed: bool = False


class Reader(Protocol):
    """Reads one candidate block behind a mark."""

    state: Progress
    #: The block was closed by its own mark.
    closed: bool
    #: The mark that closes the block and may still come, behind what ended it.
    owes: str
    #: What ends the text behind a block that was given up, so that nothing in it is taken for a call; empty otherwise.
    fence: str
    #: What the text behind a header is: `analysis` is thinking, `final` is the answer; empty for calls.
    channel: str

    @property
    def builders(self) -> list[CallBuilder]:
        """Every candidate seen."""
        ...

    def feed(self, buf: str, pos: int, final: bool) -> int:
        """Read on; the position of the first character not read."""
        ...

    def finish(self) -> None:
        """The text is over."""
        ...

    def run(self) -> Run | None:
        """The shortcut for the current state, if there is one."""
        ...


class MarkTable(Protocol):
    """The marks of the dialects in use."""

    @property
    def place(self) -> Callable[[str, int], re.Match[str] | None]:
        """The search for the next place where a mark may begin."""
        ...

    @property
    def idle_place(self) -> Callable[[str, int], re.Match[str] | None]:
        """The same search where no calls are looked for any more."""
        ...

    def tag(self, name: str, closing: bool) -> tuple[Role, Opening | None] | None:
        """What a tag of this folded name means."""
        ...

    def meaning(self, head: str) -> tuple[Role, Opening | None] | None:
        """What a tag means that begins so, its name included."""
        ...

    def may_become_tag(self, name: str) -> bool:
        """Whether some mark begins with this folded name."""
        ...

    def named(self, opening: Opening, tag: Tag) -> Opening:
        """What a tag with attributes opens, where `opening` is what it opens without."""
        ...

    def literal(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """The literal mark at `pos` and its length; NONE, or MORE."""
        ...

    def line(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """The mark at `pos`, which is the first word of a line; NONE, or MORE."""
        ...

    def fence(self, info: str, marks: str) -> Opening | None:
        """What a code fence of these marks with this info string opens, if anything."""
        ...

    def is_result(self, info: str) -> bool:
        """Whether a code fence with this info string holds a tool result."""
        ...

    def bare(self, buf: str, pos: int, final: bool) -> Opening | int:
        """Whether the bracket at `pos` may begin a bare call; NONE, or MORE."""
        ...

    def reader(self, opening: Opening, desk: Desk, evidence: Evidence) -> Reader:
        """A reader for what the mark opens."""
        ...
