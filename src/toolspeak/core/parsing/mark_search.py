"""Search for the next place in a text where a mark may begin.

Hostile texts are full of meaningless tags and brackets. Each is skipped in one step, so the text between two marks is
passed on in one piece. The search skips only what the scanner would pass on as text.
"""

import re

from .context import ParseContext
from .dialect_interface import NONE, MarkTable, Role
from .tags import lex_head
from .text_position import PendingCalls, TextPosition

#: Roles of marks that are plain text once the search for calls has been given up.
_IDLE_ROLES = frozenset({"open", "noise", "closer", "comment", "example", "example_end"})
#: After this many rejected candidates the text evidently contains no calls, and the search for calls is given up.
MAX_REJECTED = 2000
#: After this many comments and example elements, the search for calls is given up as well.
MAX_EXAMPLES = 4096

#: White space that may separate marks.
BLANKS = " \t\r\n\u00a0"
SPACES = frozenset(BLANKS)
#: Characters at the start of a line that the scanner itself must handle.
_LINE_MARKS = frozenset("`~]✿")
_BRACKETS = frozenset("{[")
_NOT_BLANK = re.compile(f"[^{BLANKS}]").search


class MarkSearch:
    """Search for the next mark. It becomes `idle` when the search for calls is given up."""

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
        """Whether the search for calls has been given up."""
        return self._rejected >= MAX_REJECTED or self._position.example_count >= MAX_EXAMPLES

    def count_rejected(self) -> None:
        """Count a candidate that turned out not to be a call."""
        self._rejected += 1
        if self._rejected == MAX_REJECTED:
            self._context.note("too_many_calls", f"gave up looking for calls after {MAX_REJECTED} rejected candidates")

    def give_up(self) -> None:
        """Stop looking for calls, because the answer has reached a limit."""
        self.stop()
        self._context.note_full()

    def stop(self) -> None:
        self._rejected = MAX_REJECTED

    def next_mark(self, buf: str, pos: int, final: bool) -> int:
        """Return the next position where a mark may begin. Meaningless tags and brackets are skipped."""
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
        """Skip the first visible character of the line after `at`; return `at` if that character may begin a mark."""
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
        """Whether the bracket at `at` begins neither a mark nor an unmarked call."""
        if buf[at] == ">":
            return self.idle or self._table.literal(buf, at, final) == NONE
        if buf[at] == "[" and self._table.literal(buf, at, final) != NONE:
            return False
        position = self._position
        barred = position.reasoning or position.in_aside or bool(position.fence) or self.idle
        return barred or self._table.bare(buf, at, final) == NONE

    def _is_plain_tag(self, buf: str, at: int) -> bool:
        """Whether the tag that begins at `at` is plain text in the current context."""
        head = lex_head(buf, at)
        if at + len(head) == len(buf):
            return False
        meaning = self._meaning(head)
        return meaning is None or self.is_plain_role(meaning[0])

    def is_plain_role(self, role: Role) -> bool:
        """Whether a mark with this role is plain text in the current context."""
        position = self._position
        if role == "closer" and not (self._context.calls_seen or self._pending or position.fence):
            return True  # there is nothing that the mark could close
        if role == "first":
            return bool(position.last_char) or position.answer_started
        if role == "definition":
            return position.has_definitions or self.idle
        return (role == "think" and position.reasoning) or (role in _IDLE_ROLES and self.idle)
