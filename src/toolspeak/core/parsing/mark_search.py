"""What a text is passed over for: places that look like a mark and are none, as one look tells.

A hostile text is full of them, so each costs one step, and what stands between two marks is said in one piece. What is
passed over is only ever what the scanner would say as text.
"""

from __future__ import annotations

import re

from .context import Desk
from .dialect_interface import NONE, MarkTable, Role
from .tags import lex_head
from .text_position import Standing

#: What no longer matters when the text has turned out not to be about calls.
_IDLE_ROLES = frozenset({"open", "noise", "closer", "comment", "example", "example_end"})
#: So many candidates that were none: the text is not about calls, and each attempt costs time.
MAX_REJECTED = 2000
#: So many comments and elements of examples: nor is a text about calls that shows so much.
MAX_SHOWS = 4096

#: White space between marks.
BLANKS = " \t\r\n\u00a0"
SPACES = frozenset(BLANKS)
#: What a line may begin with that the scanner looks at itself, and what may begin a bare call.
_LINE_MARKS = frozenset("`~]✿")
_BRACKETS = frozenset("{[")
_NOT_BLANK = re.compile(f"[^{BLANKS}]").search


class Passing(Standing):
    """Knows the marks, and where the next of them may stand."""

    def __init__(self, desk: Desk, table: MarkTable) -> None:
        super().__init__(desk)
        self._table = table
        self._find_place = table.place
        self._meaning = table.meaning
        self._rejected = 0  # candidates that gave no call

    @property
    def _idle(self) -> bool:
        """Whether the text has turned out not to be about calls."""
        return self._rejected >= MAX_REJECTED or self._shows >= MAX_SHOWS

    def _count_rejected(self) -> None:
        """One more candidate gave no call."""
        self._rejected += 1
        if self._rejected == MAX_REJECTED:
            self._desk.note("too_many_calls", f"behind {MAX_REJECTED} that were none no more are looked for")

    def _give_up(self) -> None:
        """No more calls are looked for."""
        self._rejected = MAX_REJECTED
        self._desk.note_full()

    def _next_mark(self, buf: str, pos: int, final: bool) -> int:
        """Where the next thing stands that may be a mark. Tags and brackets that mean nothing are passed over."""
        at = pos
        find_place = self._table.idle_place if self._idle else self._find_place
        while True:
            place = find_place(buf, at)
            if place is None:
                return len(buf)
            at = place.start()
            char = buf[at]
            if char == "\n":
                behind = self._behind_line(buf, at, final)
            elif char == "<":
                behind = at + self._is_dull_tag(buf, at)
            else:
                behind = at + (char in "{[>" and self._is_dull(buf, at, final))
            if behind == at:
                return at
            at = behind

    def _behind_line(self, buf: str, at: int, final: bool) -> int:
        """Behind the first visible character of the line that begins behind `at`; `at` when that may begin a mark."""
        first = at + 1
        char = buf[first : first + 1]
        if char in SPACES or not char:
            visible = _NOT_BLANK(buf, first)
            if visible is None:
                return at
            first, char = visible.start(), visible.group()
        if char == ">":
            return first + 1 if self._is_dull(buf, first, final) else at
        if self._tails or char in _LINE_MARKS:
            return at  # calls that wait for the end of their line are told about each one
        if char == "<":
            return first + 1 if self._is_dull_tag(buf, first) else at
        if not (self._fence or self._reasoning):
            found = self._table.line(buf, first, final)
            if found != NONE and (isinstance(found, int) or not self._dull(found[0])):
                return at
        return first + 1 if char not in _BRACKETS or self._is_dull(buf, first, final) else at

    def _is_dull(self, buf: str, at: int, final: bool) -> bool:
        """Whether the bracket at `at` begins no mark and no bare call."""
        if buf[at] == ">":
            return self._idle or self._table.literal(buf, at, final) == NONE
        if buf[at] == "[" and self._table.literal(buf, at, final) != NONE:
            return False
        barred = self._reasoning or self._aside or bool(self._fence) or self._idle
        return barred or self._table.bare(buf, at, final) == NONE

    def _is_dull_tag(self, buf: str, at: int) -> bool:
        """Whether the tag that begins at `at` is plain text here."""
        head = lex_head(buf, at)
        if at + len(head) == len(buf):
            return False
        meaning = self._meaning(head)
        return meaning is None or self._dull(meaning[0])

    def _dull(self, role: Role) -> bool:
        """Whether a tag of this meaning is plain text here."""
        if role == "closer" and not (self._desk.calls_seen or self._tails or self._fence):
            return True  # nothing has been opened that it could close
        if role == "first":
            return bool(self._last) or self._started
        return (role == "think" and self._reasoning) or (role in _IDLE_ROLES and self._idle)
