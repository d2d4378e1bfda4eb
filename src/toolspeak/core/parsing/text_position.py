"""Where a mark stands: at the start of a line, in code, in reasoning, or where people put examples.

`Standing` remembers what has been said and tells, when a mark comes, what that means as evidence. It keeps a few
characters and flags, never the text.
"""

from __future__ import annotations

import re

from .acceptance import Evidence, Example
from .call_builder import CallBuilder
from .context import Desk
from .dialect_interface import Opening
from .pending_calls import Tails

#: A comment, or an element that shows examples, that is longer than this was not closed, and hides nothing any more.
MAX_COMMENT = 4096
#: So many columns make a paragraph of code.
_CODE_INDENT = 4
#: Quotes that open, and those that open only behind a space or a bracket.
_OPENING_QUOTES = frozenset("“‘„«")
_STRAIGHT_QUOTES = frozenset("\"'")
_BEFORE_QUOTE = frozenset(" \t\r\n\u00a0([{:=,")
#: Lines that begin so are quoted, or rows of a table.
_LINE_HEADS: dict[str, Example] = {">": "quoted_line", "|": "table"}
_BLANK = re.compile(r"[ \t\r\u00a0]+").match
_TICK_RUNS = re.compile(r"`+").findall


class Standing:
    """What has been said so far, as far as it matters for what comes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._fresh = True  # nothing but white space or calls on this line so far
        self._line_begins = True  # nothing but white space on this line so far
        self._started = False  # the answer has begun: text that is not white space has been said
        self._fence = ""  # the run of ticks that opened the fence we are in
        self._ticks = 0  # runs of ticks on this line so far: an odd number means inline code
        self._last = ""  # the last character said
        self._before = ""  # the one before it
        self._head = ""  # the first visible character of this line
        self._gap = False  # the line above is empty
        self._indent = 0  # the columns of white space that this line begins with
        self._shown = 0  # how much may still come of what shows examples
        self._shows = 0  # how often something has begun that shows examples
        self._shown_in: Example = "comment"  # what that is: an HTML comment, or an element
        self._reasoning = False
        self._aside = False  # a thinking mark stood in the middle of a line: text, but no place for calls
        self._tails = Tails()
        self._before_tails = (0, "", "", "")  # what is remembered, as it was before the first call that waits

    @property
    def _in_code(self) -> bool:
        return self._ticks % 2 == 1

    def _evidence(self, opening: Opening, nonce: bool | None) -> Evidence:
        """What its place says about a candidate that opens here."""
        return Evidence(
            dialect=opening.dialect,
            wrapper=opening.wrapper,
            line_start=self._fresh,
            answer_start=not self._started,
            in_fence=bool(self._fence),
            in_code=self._in_code,
            in_reasoning=self._reasoning or self._aside,
            nonce=nonce,
            example=self._example(),
        )

    def _example(self) -> Example | None:
        """Where people show what a call looks like."""
        if self._shown:
            return self._shown_in
        if self._is_quoted():
            return "quotes"
        if self._head in _LINE_HEADS:
            return _LINE_HEADS[self._head]
        indented = self._fresh and self._indent >= _CODE_INDENT and self._gap and self._started
        return "indented" if indented else None

    def _is_quoted(self) -> bool:
        """Whether an opening quote stands right before. At the very start of an answer it means nothing."""
        if not self._before:
            return False
        return self._last in _OPENING_QUOTES or (self._last in _STRAIGHT_QUOTES and self._before in _BEFORE_QUOTE)

    # ---- text

    def _say(self, text: str, candidate: bool = False) -> None:
        """Text that is no mark. The ticks of a candidate that is none are its own."""
        if not text:
            return
        if self._tails:
            enough = self._tails.end_with_line(text)
            if enough:
                text = self._tails.take_back() + text  # one piece, however it came
            if enough or not self._tails.hold(text):
                self._resolve_tails(enough)
        self._see(text, candidate)
        if self._tails:
            return
        self._desk.say(text, self._reasoning)
        if not self._started:
            self._started = not (self._reasoning or text.isspace())

    def _see_line(self, buf: str, pos: int, newline: int) -> None:
        """The last line of a text that begins at `pos`, and is said at once, begins behind `newline`."""
        above = buf.rfind("\n", pos, newline)
        is_blank = not buf[max(pos, above + 1) : newline].strip()
        self._gap = is_blank and (above >= 0 or not self._head)
        blank = _BLANK(buf, newline + 1)
        self._indent = 0 if blank is None else len(blank.group().expandtabs(_CODE_INDENT))

    def _see(self, text: str, candidate: bool) -> None:
        """Remember what of this text matters."""
        line = text.rfind("\n") + 1
        if line:
            self._ticks = 0
        if line or not self._head:
            self._head = text[line:].lstrip()[:1]
        if not candidate and "`" in text:
            self._count_ticks(text, line)
        if self._shown and not self._tails:
            ended = self._shown_in == "comment" and "-->" in f"{self._before}{self._last}{text}"
            self._shown = 0 if ended else max(0, self._shown - len(text))
        self._before = text[-2:-1] or self._last
        self._last = text[-1]

    def _count_ticks(self, text: str, line: int) -> None:
        if line < len(text):
            joined = line == 0 and text[0] == self._last == "`"
            self._ticks += len(_TICK_RUNS(text, line)) - joined

    def _say_line(self, buf: str, pos: int, end: int) -> int:
        """A whole line of text, its line break included."""
        if self._tails or self._shown or buf[end - 1] != "\n":
            self._say(buf[pos:end])
            self._begin_line(buf[end - 1] == "\n")
            return end
        self._desk.say(buf[pos:end], self._reasoning)  # storms of fences are common enough for a short way
        self._ticks = 0
        self._before, self._last, self._head = "", "\n", ""
        self._started = self._started or not self._reasoning
        self._begin_line(True)
        return end

    def _begin_line(self, fresh: bool, gap: bool = False) -> None:
        """A line begins behind what was said, if `fresh`; `gap`: an empty one stands above it."""
        self._fresh = self._line_begins = fresh
        self._gap = gap
        self._indent = 0

    def _say_blank(self, text: str) -> None:
        """White space at the start of a line, or between calls; line breaks may be part of it."""
        above, newline, rest = text.rpartition("\n")
        if newline:
            self._begin_line(True, self._line_begins or "\n" in above)
        self._indent += len(rest.expandtabs(_CODE_INDENT))
        self._say(text)

    def _plain(self, buf: str, pos: int, length: int = 1) -> int:
        """The character that looked like a mark is none."""
        self._fresh = self._line_begins = False
        self._say(buf[pos : pos + length])
        return pos + length

    def _newline(self, buf: str, pos: int, final: bool) -> int:
        gap = not self._head
        if self._tails:
            self._say("\n")
        else:  # no text is said as often
            self._desk.say("\n", self._reasoning)
            self._shown -= self._shown > 0
            self._ticks = 0
            self._before, self._last, self._head = self._last, "\n", ""
        self._begin_line(True, gap)
        return pos + 1

    def _begin_comment(self, buf: str, pos: int) -> int:
        """`<!--` stands at `pos`."""
        if not (self._fence or self._in_code or self._reasoning):
            self._show("comment")
        return self._plain(buf, pos, 4)

    def _begin_example(self, buf: str, pos: int, end: int) -> int:
        """`<example>` stands there, or the like: at the start of a line it is an element, elsewhere a mention."""
        if self._fresh and not self._reasoning and buf[end - 2] != "/":
            self._show("element")
        return self._plain(buf, pos, end - pos)

    def _end_example(self, buf: str, pos: int, end: int) -> int:
        """`</example>` stands there."""
        end = self._plain(buf, pos, end - pos)
        if self._shown_in == "element":
            self._shown = 0
        return end

    def _show(self, where: Example) -> None:
        """What follows is shown, until it ends. A comment in an element is a part of it, and so the other way round."""
        self._shows += 1
        if not self._shown or self._shown_in == where:
            self._shown, self._shown_in = MAX_COMMENT, where

    def _wait(self, builders: list[CallBuilder], raw: str) -> None:
        """These calls wait for what follows them, and so does the text they stand in."""
        if not self._tails:
            self._before_tails = (self._ticks, self._head, self._before, self._last)
        self._tails.add(builders, raw)

    def _resolve_tails(self, answer_end: bool) -> None:
        """Decide what waits. What was held is seen anew behind the calls that are text, and counts once."""
        if not self._tails:
            return
        self._ticks, self._head, self._before, self._last = self._before_tails
        for text, candidate in self._tails.resolve(answer_end):
            if answer_end and text.isspace():
                self._see(text, candidate)  # it only stood between calls, or behind them
            else:
                self._say(text, candidate)
