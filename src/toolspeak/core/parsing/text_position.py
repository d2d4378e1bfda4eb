"""Position in the text: line start, code fence, inline code, reasoning, places where examples are shown.

`TextPosition` turns the position into evidence for a candidate. `TextOutput` passes text on and updates the position;
while calls are pending (`PendingCalls`), it holds text back. A position is a few characters and flags, never the text.
"""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from .acceptance import Evidence, Example
from .call_builder import CallBuilder
from .context import ParseContext
from .dialect_interface import Opening

#: A comment or example element longer than this was never closed, so calls after that count again.
MAX_COMMENT = 4096
#: Maximum length of the white space and punctuation after a call that must end the answer.
MAX_TAIL = 4096
#: Columns of indentation that turn a Markdown paragraph into a code block.
_CODE_INDENT = 4
#: Straight quotes open a quotation only after a space or a bracket.
_OPENING_QUOTES = frozenset("“‘„«")
_STRAIGHT_QUOTES = frozenset("\"'")
_BEFORE_QUOTE = frozenset(" \t\r\n\u00a0([{:=,")
_LINE_HEADS: dict[str, Example] = {">": "quoted_line", "|": "table"}
#: Characters that make code of a mark right behind them: comments and lines of a diff if they begin the line.
_CODE_HEADS = frozenset("#/+-")
#: The same if a space follows. (`- ` begins an item of a list.)
_SPACED_CODE_HEADS = frozenset("#/")
_ESCAPE = "\\"
_BLANK = re.compile(r"[ \t\r\u00a0]+").match
_TICK_RUNS = re.compile(r"`+").findall
_TAIL = re.compile(r"[\s.,;:!?)\]}*_`~\"']*").fullmatch
#: The same for calls in Python's syntax, which are code, or part of a sentence, if more punctuation follows.
_PYTHON_TAIL = re.compile(r"[\s.)\]}*_`~\"']*").fullmatch
#: The same for calls without marks in the middle of a line: brackets that close behind them belong to other data.
_INLINE_TAIL = re.compile(r"[\s.,;:!?)*_`~\"']*").fullmatch


class TextPosition(msgspec.Struct, eq=False):
    """The scanner's position in the text, as far as it matters for the text that follows."""

    at_line_start: bool = True  # only white space or calls on this line so far
    line_is_blank: bool = True  # only white space on this line so far
    answer_started: bool = False  # text other than white space has been passed on
    fence: str = ""  # the backticks, tildes or tag that opened the surrounding code fence
    tick_runs: int = 0  # runs of backticks on this line; an odd number means inline code
    last_char: str = ""
    previous_char: str = ""  # the character before `last_char`
    line_head: str = ""  # the first visible character of this line
    blank_line_above: bool = False
    indent: int = 0  # columns of white space at the start of this line
    example_left: int = 0  # maximum remaining length of the surrounding comment or example element
    example_count: int = 0  # number of comments and example elements so far
    example_kind: Example = "comment"
    has_definitions: bool = False  # a line of the answer defines or imports a function
    reasoning: bool = False
    in_aside: bool = False  # after a reasoning tag in the middle of a line, where calls do not count

    @property
    def in_code(self) -> bool:
        return self.tick_runs % 2 == 1

    def evidence(self, opening: Opening, nonce: bool | None, unmarked_counts: Literal[True] | None = None) -> Evidence:
        return Evidence(
            dialect=opening.dialect,
            wrapper=opening.wrapper,
            line_start=self.at_line_start,
            answer_start=not self.answer_started,
            in_fence=bool(self.fence),
            in_code=self.in_code,
            in_reasoning=self.reasoning or self.in_aside,
            nonce=nonce,
            unmarked_counts=unmarked_counts,
            example=self._example(opening),
            asked=opening.asked,
            in_prose=opening.in_prose,
        )

    def _example(self, opening: Opening) -> Example | None:
        if self.example_left:
            return self.example_kind
        if self._is_quoted():
            return "quotes"
        if self.line_head in _LINE_HEADS:
            return _LINE_HEADS[self.line_head]
        if self._is_behind_code() or (opening.wrapper == "bare" and self._is_in_program(opening)):
            return "code"
        is_code = self.indent >= _CODE_INDENT and self.blank_line_above
        return "indented" if is_code and self.at_line_start and self.answer_started else None

    def _is_quoted(self) -> bool:
        """Whether an opening quote comes directly before. At the very start of an answer, a quote means nothing."""
        if not self.previous_char:
            return False
        last, previous = self.last_char, self.previous_char
        return last in _OPENING_QUOTES or (last in _STRAIGHT_QUOTES and (previous in _BEFORE_QUOTE or previous == last))

    def _is_behind_code(self) -> bool:
        """Whether only the sign of a comment or of a line in a diff precedes on the line, or a backslash is last."""
        head, last = self.line_head, self.last_char
        if last == head:
            return head in _CODE_HEADS or head == _ESCAPE
        return last == _ESCAPE or (last == " " and self.previous_char == head and head in _SPACED_CODE_HEADS)

    def _is_in_program(self, opening: Opening) -> bool:
        """Whether a call without marks is assigned or compared, or is in the body of a statement."""
        if not self.at_line_start:
            return "=" in (self.last_char, self.previous_char)
        if opening.dialect != "name":
            return False
        is_body = self.indent >= _CODE_INDENT and self.answer_started and not self.blank_line_above
        return self.has_definitions or is_body

    def advance(self, text: str, candidate: bool, pending: bool) -> None:
        """Move past `text`. Backticks in a rejected `candidate` do not count as inline code.

        While calls are `pending`, the text may be read again, so it does not reduce `example_left`.
        """
        line = text.rfind("\n") + 1
        if line:
            self.tick_runs = 0
        if line or not self.line_head:
            self.line_head = text[line:].lstrip()[:1]
        if not candidate and "`" in text and line < len(text):
            joined = line == 0 and text[0] == self.last_char == "`"
            self.tick_runs += len(_TICK_RUNS(text, line)) - joined
        if self.example_left and not pending:
            ended = self.example_kind == "comment" and "-->" in f"{self.previous_char}{self.last_char}{text}"
            self.example_left = 0 if ended else max(0, self.example_left - len(text))
        self.previous_char = text[-2:-1] or self.last_char
        self.last_char = text[-1]

    def begin_line(self, fresh: bool, blank_above: bool = False) -> None:
        """Start a new line, or continue a line after a candidate (if not `fresh`)."""
        self.at_line_start = self.line_is_blank = fresh
        self.blank_line_above = blank_above
        self.indent = 0

    def begin_last_line(self, buf: str, pos: int, newline: int) -> None:
        """Record how the line after `newline` begins: its indentation, and whether a blank line precedes it."""
        above = buf.rfind("\n", pos, newline)
        is_blank = not buf[max(pos, above + 1) : newline].strip()
        self.blank_line_above = is_blank and (above >= 0 or not self.line_head)
        blank = _BLANK(buf, newline + 1)
        self.indent = 0 if blank is None else len(blank.group().expandtabs(_CODE_INDENT))

    def begin_example(self, kind: Example) -> None:
        """Enter a comment or an example element. If one is inside the other, the outer one counts."""
        self.example_count += 1
        if not self.example_left or self.example_kind == kind:
            self.example_left, self.example_kind = MAX_COMMENT, kind

    def end_reasoning(self) -> None:
        """Leave the reasoning. Code fences and backticks inside it have no effect afterwards."""
        self.reasoning = False
        self.fence = ""
        self.tick_runs = 0
        self.last_char = self.previous_char = self.line_head = ""
        self.begin_line(True)


class _PendingText(msgspec.Struct):
    builders: list[CallBuilder]
    raw: str


class PendingCalls(list[_PendingText]):
    """Weakly marked calls that count only if they end the answer, and the text held back until that is known.

    A JSON code block, for example, is a call only if the model stopped there to wait for the result.
    """

    def __init__(self) -> None:
        super().__init__()
        self._size = 0
        self._is_tail = _TAIL
        #: The next visible character decides: the calls count unless a sentence goes on behind them.
        self.next_decides = False

    @property
    def last_char(self) -> str:
        """The last character of the text held back."""
        return self[-1].raw[-1:]

    def add(self, builders: list[CallBuilder], raw: str) -> None:
        """Hold back calls together with the text that contains them."""
        self.append(_PendingText(builders, raw))
        if any(builder.is_python for builder in builders):
            self._is_tail = _PYTHON_TAIL
        elif any(builder.is_inline for builder in builders):
            self._is_tail = _INLINE_TAIL
        self.next_decides = all(builder.mark_is_enough for builder in builders)

    def hold(self, text: str) -> bool:
        """Hold back white space and punctuation after pending calls. Return False for other or too much text."""
        self._size += len(text)
        if self._is_tail(text) is None or self._size > MAX_TAIL:
            return False
        if "\n" in text and not self.next_decides:
            self.next_decides = all(builder.line_is_enough for entry in self for builder in entry.builders)
        if self[-1].builders:
            self.append(_PendingText([], ""))
        self[-1].raw += text  # always one piece, however the text is chunked
        return True

    def take_back(self) -> str:
        """Remove and return the text held after the last call, so that it can be joined with new text."""
        return "" if self[-1].builders else self.pop().raw

    def resolve(self, answer_end: bool) -> Iterator[tuple[str, bool]]:
        """Decide all pending calls. Yield each text that is not a call, and whether it contains a candidate."""
        entries = self[:]
        self.clear()
        self._size = 0
        self._is_tail = _TAIL
        self.next_decides = False
        for entry in entries:
            calls = [builder.resolve_tail(answer_end) for builder in entry.builders]
            if not any(calls):
                yield entry.raw, bool(entry.builders)


class TextOutput:
    """Text output of the scanner: emits events and moves the position. Holds text back while calls are pending."""

    __slots__ = ("_before_pending", "_context", "_position", "pending")

    def __init__(self, context: ParseContext, position: TextPosition) -> None:
        self.pending = PendingCalls()
        self._context = context
        self._position = position
        self._before_pending = (0, "", "", "")  # the position before the first pending call

    def say(self, text: str, candidate: bool = False) -> None:
        """Pass on text that is not a mark. `candidate`: the text was read as a candidate call and rejected."""
        if not text:
            return
        pending = self.pending
        if pending and not pending.hold(text):
            self.resolve(pending.next_decides)
        position = self._position
        position.advance(text, candidate, bool(pending))
        if pending:
            return
        self._context.say(text, position.reasoning)
        if not position.answer_started:
            position.answer_started = not (position.reasoning or text.isspace())

    def say_line(self, buf: str, pos: int, end: int) -> int:
        """Pass on a whole line, including its line break."""
        position = self._position
        if self.pending or position.example_left or buf[end - 1] != "\n":
            self.say(buf[pos:end])
            position.begin_line(buf[end - 1] == "\n")
            return end
        # Texts with thousands of code fence lines are common enough for a shortcut.
        self._context.say(buf[pos:end], position.reasoning)
        position.tick_runs = 0
        position.previous_char, position.last_char, position.line_head = "", "\n", ""
        position.answer_started = position.answer_started or not position.reasoning
        position.begin_line(True)
        return end

    def say_blank(self, text: str) -> None:
        """Pass on white space at the start of a line or between calls; it may contain line breaks."""
        position = self._position
        above, newline, rest = text.rpartition("\n")
        if newline:
            position.begin_line(True, position.line_is_blank or "\n" in above)
        position.indent += len(rest.expandtabs(_CODE_INDENT))
        self.say(text)

    def say_plain(self, buf: str, pos: int, length: int = 1) -> int:
        """Pass on characters that looked like a mark but are plain text."""
        position = self._position
        position.at_line_start = position.line_is_blank = False
        self.say(buf[pos : pos + length])
        return pos + length

    def say_newline(self, pos: int) -> int:
        """Pass on the line break at `pos`."""
        position = self._position
        blank_above = not position.line_head
        if self.pending:
            self.say("\n")
        else:  # a shortcut, because line breaks are so frequent
            self._context.say("\n", position.reasoning)
            position.example_left -= position.example_left > 0
            position.tick_runs = 0
            position.previous_char, position.last_char, position.line_head = position.last_char, "\n", ""
        position.begin_line(True, blank_above)
        return pos + 1

    def hold_calls(self, builders: list[CallBuilder], raw: str) -> None:
        """Hold back calls that depend on the text after them, together with the text that contains them."""
        position = self._position
        if not self.pending:
            self._before_pending = (
                position.tick_runs,
                position.line_head,
                position.previous_char,
                position.last_char,
            )
        self.pending.add(builders, raw)

    def resolve(self, answer_end: bool) -> None:
        """Decide the pending calls. Pass on rejected ones as text, from the position before the first pending call."""
        if not self.pending:
            return
        after = self.pending.take_back() if self.pending.next_decides else ""  # it belongs to the text that follows
        position = self._position
        position.tick_runs, position.line_head, position.previous_char, position.last_char = self._before_pending
        for text, candidate in self.pending.resolve(answer_end):
            if answer_end and text.isspace():
                position.advance(text, candidate, bool(self.pending))  # the text only separated or followed calls
            else:
                self.say(text, candidate)
        self.say(after)
