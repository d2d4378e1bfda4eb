"""Search for the next place in a text where a mark may begin.

Hostile texts are full of tags and brackets that mean nothing, so each is skipped in one step and the text between two
marks is passed on in one piece. Only what the scanner would pass on as text is ever skipped.
"""

from __future__ import annotations

import re

from .context import ParseContext
from .dialect_interface import NONE, MarkTable, Role
from .tags import lex_head
from .text_position import PendingCalls, TextPosition

#: Roles that are plain text once the search for calls has been given up.
_IDLE_ROLES = frozenset({"open", "noise", "closer", "comment", "example", "example_end"})
#: After this many rejected candidates, the text evidently contains no calls, and further attempts waste time.
MAX_REJECTED = 2000
#: The same limit for comments and example elements.
MAX_EXAMPLES = 4096

#: White space between marks.
BLANKS = " \t\r\n\u00a0"
SPACES = frozenset(BLANKS)
#: Line starts that the scanner itself looks at.
_LINE_MARKS = frozenset("`~]✿")
_BRACKETS = frozenset("{[")
_NOT_BLANK = re.compile(f"[^{BLANKS}]").search


class MarkSearch:
    """Finds the next mark, and decides when the search for calls is given up (`idle`)."""

    __slots__ = ("_context", "_find_place", "_meaning", "_pending", "_position", "_rejected", "_table")

    def __init__(self, context: ParseContext, table: MarkTable, position: TextPosition, pending: PendingCalls) -> None:
        self._context = context
        self._table = table
        self._position = position
        self._pending = pending
        self._find_place = table.place
        self._meaning = table.meaning
        self._rejected = 0

    @property
    def idle(self) -> bool:
        """Whether calls are no longer looked for."""
        return self._rejected >= MAX_REJECTED or self._position.example_count >= MAX_EXAMPLES

    def count_rejected(self) -> None:
        """Count a candidate that gave no call."""
        self._rejected += 1
        if self._rejected == MAX_REJECTED:
            self._context.note("too_many_calls", f"gave up looking for calls after {MAX_REJECTED} rejected candidates")

    def give_up(self) -> None:
        """Stop looking for calls because a limit of the answer is reached."""
        self._rejected = MAX_REJECTED
        self._context.note_full()

    def next_mark(self, buf: str, pos: int, final: bool) -> int:
        """The next position that may begin a mark; tags and brackets that mean nothing are skipped."""
        at = pos
        find_place = self._table.idle_place if self.idle else self._find_place
        while True:
            place = find_place(buf, at)
            if place is None:
                return len(buf)
            at = place.start()
            char = buf[at]
            if char == "\n":
                after = self._skip_line_start(buf, at, final)
            elif char == "<":
                after = at + self._is_plain_tag(buf, at)
            else:
                after = at + (char in "{[>" and self.is_plain_bracket(buf, at, final))
            if after == at:
                return at
            at = after

    def _skip_line_start(self, buf: str, at: int, final: bool) -> int:
        """After the first visible character of the line that follows `at`; `at` itself when that may begin a mark."""
        first = at + 1
        char = buf[first : first + 1]
        if char in SPACES or not char:
            visible = _NOT_BLANK(buf, first)
            if visible is None:
                return at
            first, char = visible.start(), visible.group()
        if char == ">":
            return first + 1 if self.is_plain_bracket(buf, first, final) else at
        if self._pending or char in _LINE_MARKS:
            return at  # the end of a line may decide a pending call
        if char == "<":
            return first + 1 if self._is_plain_tag(buf, first) else at
        if not (self._position.fence or self._position.reasoning):
            match = self._table.line(buf, first, final)
            if match != NONE and (isinstance(match, int) or not self.is_plain_role(match[0])):
                return at
        return first + 1 if char not in _BRACKETS or self.is_plain_bracket(buf, first, final) else at

    def is_plain_bracket(self, buf: str, at: int, final: bool) -> bool:
        """Whether the bracket at `at` begins neither a mark nor a bare call."""
        if buf[at] == ">":
            return self.idle or self._table.literal(buf, at, final) == NONE
        if buf[at] == "[" and self._table.literal(buf, at, final) != NONE:
            return False
        position = self._position
        barred = position.reasoning or position.in_aside or bool(position.fence) or self.idle
        return barred or self._table.bare(buf, at, final) == NONE

    def _is_plain_tag(self, buf: str, at: int) -> bool:
        """Whether the tag that begins at `at` is plain text here."""
        head = lex_head(buf, at)
        if at + len(head) == len(buf):
            return False
        meaning = self._meaning(head)
        return meaning is None or self.is_plain_role(meaning[0])

    def is_plain_role(self, role: Role) -> bool:
        """Whether a mark with this role is plain text here."""
        position = self._position
        if role == "closer" and not (self._context.calls_seen or self._pending or position.fence):
            return True  # nothing is open that it could close
        if role == "first":
            return bool(position.last_char) or position.answer_started
        return (role == "think" and position.reasoning) or (role in _IDLE_ROLES and self.idle)
