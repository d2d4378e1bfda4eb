"""Streaming scanner: turns text into events (text, reasoning, tool calls) in one pass.

The scanner looks for the marks in a table and hands the text after a mark to the reader of that dialect. It stores only
text that may still become a mark, and the raw text of a candidate whose name is not known yet. It never reads stored
text again. So time is linear, and the result never depends on how the text is split into chunks.
"""

import re
from collections.abc import Callable, Sequence
from string import ascii_letters
from typing import ClassVar

import msgspec

from ..events import Event, ReasoningDelta, TextDelta
from ..json_repair.literals import has_surrogate, replace_surrogates
from ..types import require
from .call_builder import CallBuilder
from .context import ParseContext
from .dialect_interface import NONE, REST_OF_ANSWER, MarkTable, Opening, Reader, Role
from .fast_paths import FastPath, StrictFastPath
from .mark_search import BLANKS, SPACES, MarkSearch
from .tags import MORE, has_word, lex_head, lex_tag, read_head
from .text_position import MAX_TAIL, TextOutput, TextPosition

#: A line longer than this does not open or close a code fence.
MAX_FENCE_LINE = 120

_NOT_PLAIN = re.compile(r"[<>`{\[\]✿\n\ud800-\udfff]").search
#: A tag with a word after its name, where a nonce would be.
_WORD_IN_TAG = re.compile(r"<[\w:.|-]{1,64}\s{1,4}[\w-]{1,32}\s{0,4}>").fullmatch
_BLANK = re.compile(r"[ \t\r\n\u00a0]+").match
_FENCE_LINE = re.compile(r"(`{3,32}+|~{3,32}+)([^\n]{0,120}+)(?:\n|\Z)").match
_FENCE_START = re.compile(r"`{1,2}|~{1,2}|(?:`{3,32}+|~{3,32}+)[^\n]{0,120}+").fullmatch
#: The characters that may follow the `<` of a mark.
_TAG_FIRSTS = frozenset(f"/!_|｜{ascii_letters}")
_MAY_BEGIN_JSON = frozenset({"{", "[", " ", "\t", "\r", "\n"})
_TICKS = re.compile(r"`+").match
#: A word in lower case.
_LOWER_WORD = re.compile(r"[a-z]{0,16}").match
#: Marks that are followed by a name and another mark.
_LONG_TAGS = frozenset({"|open|", "|close|"})

#: Called after each candidate block with its start, its end (None: the end of the text) and its candidates. The
#: offsets are relative to the scanner's buffer, which contains the whole text only with `read_all`.
BlockCallback = Callable[[int, int | None, Sequence[CallBuilder]], None]


class TextScanner:
    """Scanner for one answer. Call `feed` for each chunk, then `close`.

    Args:
        context: the tools, the policy and the events of this answer.
        table: the marks of the dialects in use, with their readers.
        on_block: called after each candidate block.
    """

    def __init__(self, context: ParseContext, table: MarkTable, on_block: BlockCallback | None = None) -> None:
        self.context = context
        self._table = table
        self._position = TextPosition()
        self._output = TextOutput(context, self._position)
        self._pending = self._output.pending
        self._search = MarkSearch(context, table, self._position, self._pending)
        self._on_block = on_block
        # Looked up once for speed, because they are called for every piece of text.
        self._say = self._output.say
        self._plain = self._output.say_plain
        self._state: Callable[[TextScanner, str, int, bool], int] = TextScanner._text
        self._unread = ""
        self._fast_path: FastPath | None = None
        self._text_path: FastPath | None = None  # fast path for plain text and reasoning, created on demand
        self._closed = False
        self._has_surrogates = False  # lone surrogates were replaced
        self._unopened_noted = False  # a closing reasoning mark without an opening one was noted
        self._ending = ""  # end tokens, which are dropped unless text follows
        self._due_closer = ""  # the expected closing mark of the last block, if text followed its call
        self._label = ""  # a word that may come between the mark and the reasoning
        # State of the candidate that is being read.
        self._reader: Reader | None = None
        self._block_start = 0
        self._raw: list[str] = []
        self._moved = False  # part of the candidate has been read, at least its mark
        self._has_calls = False  # the candidate has yielded at least one call
        self._fence_is_soft = False  # the surrounding code fence contained a call and is still open
        self._block_fence = ""  # the mark that closes the block if it contains no call
        self._commits = 0
        self._calls_seen = 0
        self._calls_valid = 0

    def feed(self, chunk: str) -> list[Event]:
        """Read a chunk and return the events that have become certain."""
        if chunk.__class__ is not str:
            require(chunk, str, "a chunk", "a text")
        if self.context.written is not None:
            self.context.written.add(chunk)
        path = self._fast_path
        if path is None:
            return self._feed(self._unread + chunk)
        events = path.feed(chunk)
        return events + self._feed(self._leave(path)) if path.over else events

    def pass_through(self, event: TextDelta) -> Event | None:
        """Return the single event for a plain piece of text or of a string argument; None if `feed` must be called.

        A shortcut for the most frequent cases of `feed`; it builds no lists. For text of the answer, returns `event`.
        """
        path = self._fast_path
        if type(path) is StrictFastPath:
            return path.pass_chunk(event.text)
        if path is None or path.rest:
            return None
        text = event.text
        if not text or path.stops(text) is not None:
            return None
        if path is self._text_path:  # this fast path has no size limit
            position = self._position
            position.previous_char = text[-2:-1] or position.last_char
            position.last_char = text[-1]
            return ReasoningDelta(text) if position.reasoning else event
        remaining = path.remaining - len(text)
        if remaining < 0 or path.silent:
            return None
        path.remaining = remaining
        return path.take(text)

    def read_all(self, text: str) -> list[Event]:
        """Read a whole text at once. Block offsets are then relative to its start."""
        if self.context.written is not None:
            self.context.written.add(text)
        self._unread = self._mend(text)
        return self.close()

    def close(self, cut: bool = False) -> list[Event]:
        """End the answer and return the remaining events. `cut`: it was cut off, so an open call is incomplete."""
        if self._closed:
            return []
        self.context.cut = cut
        if self._fast_path is not None:
            self._unread = self._mend(self._leave(self._fast_path))
        self._closed = True
        self._process(self._unread, True)
        if self._reader is not None:
            self._finish_reader(self._reader)
        self._say(self._unread)
        if self._ending:
            self.context.note("end_token", "an end-of-turn token was removed from the end of the text")
        self._output.resolve(True)
        self._note_missing_closer()
        if self._position.reasoning:
            self.context.note("reasoning_unclosed")
        if self._has_surrogates:
            self.context.note("invalid_unicode", "lone surrogates were replaced with U+FFFD")
        self._fast_path = self._text_path = None
        return self.context.collect()

    def _feed(self, text: str) -> list[Event]:
        if self._closed:
            raise ValueError("the scanner is closed")
        return self._process(self._mend(text), False)

    def _mend(self, text: str) -> str:
        if text.isascii() or not has_surrogate(text):
            return text
        self._has_surrogates = True
        return replace_surrogates(text)

    def _leave(self, path: FastPath) -> str:
        """End the fast path and return its unread text. Text that gave no event is stored as raw text."""
        self._fast_path = None
        if self.context.commits == self._commits:
            self._raw += path.raw
        return path.end()

    def _finish_reader(self, reader: Reader) -> None:
        """Handle the end of the text inside a block. Unread text is part of the candidate or follows it."""
        live = self.context.commits > self._commits
        reader.finish()
        if not live and (reader.state == "failed" or not self._has_calls):
            self._raw.append(self._unread)
            self._unread = ""
        elif live:
            self._unread = ""
        self._end_reader(reader, None)

    def _process(self, buf: str, final: bool) -> list[Event]:
        pos = 0
        end = len(buf)
        while pos < end:
            new = self._state(self, buf, pos, final)
            if new == MORE:
                break
            pos = new
        self._unread = buf[pos:]
        if final:
            return []
        self._fast_path = path = self._choose_fast_path()
        if path is not None:
            path.rest, self._unread = self._unread, ""
        return self.context.collect()

    def _choose_fast_path(self) -> FastPath | None:
        if self._reader is not None:
            return self._reader.fast_path()
        position = self._position
        if position.at_line_start or not position.line_head or self._pending or position.example_left:
            return None
        if not (position.answer_started or position.reasoning) or self._state is not TextScanner._text:
            return None
        if self._text_path is None:
            self._text_path = FastPath(_NOT_PLAIN, self._take)
        self._text_path.over = False
        return self._text_path

    def _take(self, chunk: str) -> TextDelta | ReasoningDelta:
        position = self._position
        position.previous_char = chunk[-2:-1] or position.last_char
        position.last_char = chunk[-1]
        return ReasoningDelta(chunk) if position.reasoning else TextDelta(chunk)

    # ---- text

    def _text(self, buf: str, pos: int, final: bool) -> int:
        position = self._position
        if self._pending and self._decide(buf, pos, final) == MORE:
            return MORE
        if position.at_line_start:
            new = self._at_line_start(buf, pos, final)
            if new != NONE:
                return new
        end = self._search.next_mark(buf, pos, final)
        if end > pos:
            position.at_line_start = position.line_is_blank = False
            newline = buf.rfind("\n", pos, end)
            if newline >= 0:
                position.begin_last_line(buf, pos, newline)
            self._say(buf[pos:end])
            if end == len(buf):
                return end
            new = self._HANDLERS[buf[end]](self, buf, end, final)
            return end if new == MORE else new
        return self._HANDLERS[buf[pos]](self, buf, pos, final)

    def _decide(self, buf: str, pos: int, final: bool) -> int:
        """Decide pending calls by the text behind them, if it can: do they count, or does a sentence go on there?"""
        if not self._pending.next_decides or buf[pos] in SPACES:
            return pos
        word = _LOWER_WORD(buf, pos)
        assert word is not None  # the pattern also matches empty text
        if word.end() == len(buf) and not final:
            return MORE
        goes_on = buf[pos] == "," or (word.end() > pos and buf[word.end() : word.end() + 1] in (" ", ","))
        self._output.resolve(not goes_on)
        return pos

    def _at_line_start(self, buf: str, pos: int, final: bool) -> int:
        """Read a mark that counts only at the start of a line or after calls; return NONE if there is none."""
        char = buf[pos]
        if char == "<":
            return self._angle(buf, pos, final) if buf[pos + 1 : pos + 2] in _TAG_FIRSTS else NONE
        if char in SPACES:
            return self._blank(buf, pos)
        if char in ",;" and not (self._position.line_is_blank or self._pending):
            return self._separator(buf, pos, final)
        new = self._line_start(buf, pos, final) if self._position.line_is_blank else NONE
        if new != NONE or char not in "{[" or self._search.is_plain_bracket(buf, pos, final):
            return new
        return self._bracket(buf, pos, final)

    def _blank(self, buf: str, pos: int) -> int:
        blank = _BLANK(buf, pos)
        assert blank is not None
        self._output.say_blank(blank.group())
        return blank.end()

    def _separator(self, buf: str, pos: int, final: bool) -> int:
        """Read a comma or semicolon between a call and an object, which may be the next call; NONE if none follows."""
        after = buf[pos + 1 : pos + 2]
        if not after and not final:
            return MORE
        if after != "{":
            return NONE
        self._say(buf[pos])
        return pos + 1

    def _line_start(self, buf: str, pos: int, final: bool) -> int:
        """Read a code fence, or a word that is a mark only at the start of a line; return NONE if there is none."""
        if buf[pos] in "`~" and not self._position.fence.startswith("<"):
            return self._fence_line(buf, pos, final)
        if self._position.fence or self._position.reasoning:
            return NONE
        look = self._table.literal if buf[pos] == ">" else self._table.line
        match = look(buf, pos, final)
        if isinstance(match, int):
            return match
        return NONE if self._search.is_plain_role(match[0]) else self._act(*match[:2], buf, pos, pos + match[2])

    def _newline(self, buf: str, pos: int, final: bool) -> int:
        return self._output.say_newline(pos)

    # ---- code

    def _tick(self, buf: str, pos: int, final: bool) -> int:
        """Read backticks in the middle of a line: inline code, or a code fence that contains a call."""
        ticks = _TICKS(buf, pos)
        assert ticks is not None
        end = ticks.end()
        if end == len(buf) and not final and end - pos < MAX_FENCE_LINE:
            return MORE
        position = self._position
        before = self._pending.last_char if self._pending else position.last_char  # a run of backticks may be split
        if 3 <= end - pos < MAX_FENCE_LINE and before != "`" and not position.fence and not position.in_code:
            new = self._action_fence(buf, pos, end, final)
            if new != NONE:
                return new
        return self._plain(buf, pos, end - pos)

    def _fence_line(self, buf: str, pos: int, final: bool) -> int:
        """Open or close a code fence: three or more backticks or tildes at the start of a line."""
        line = _FENCE_LINE(buf, pos)
        if line is None or (line.end() == len(buf) and buf[-1] != "\n" and not final):
            return MORE if not final and _FENCE_START(buf, pos) is not None else NONE
        marks, info, end = line.group(1), line.group(2).strip(), line.end()
        position = self._position
        if self._fence_is_soft:
            position.fence = "" if info else position.fence
            self._fence_is_soft = False
        if position.fence:
            closes = not info and marks.startswith(position.fence)
            if not closes and "<" in info:
                return self._plain(buf, pos, len(marks))  # the line may contain a mark that ends the reasoning
            position.fence = "" if closes else position.fence
            return self._output.say_line(buf, pos, end)
        if marks[0] in info or "<" in info:
            return NONE
        return self._open_fence(marks, info, buf, pos, line.end(2), end, final)

    def _open_fence(self, marks: str, info: str, buf: str, pos: int, eol: int, end: int, final: bool) -> int:
        position = self._position
        opening = self._table.fence(info, marks)
        if opening is None:
            if self.context.calls_seen and not position.reasoning and self._table.is_result(info):
                return self._result(buf, pos, end)
            position.fence = marks
            return self._output.say_line(buf, pos, end)
        if opening.wrapper == "weak":
            if end == len(buf) and not final:
                return MORE  # the first character inside the fence decides
            if self._search.idle or buf[end : end + 1] not in _MAY_BEGIN_JSON:
                eol = len(buf)
        if eol == len(buf):
            position.fence = marks
            return self._output.say_line(buf, pos, end)
        return self._open(opening, buf, pos, eol, marks)

    def _action_fence(self, buf: str, pos: int, end: int, final: bool) -> int:
        """Open a code fence in the middle of a line. It counts only if its info string announces a call."""
        eol = buf.find("\n", end, end + MAX_FENCE_LINE)
        if eol < 0:
            return MORE if not final and len(buf) - end < MAX_FENCE_LINE else NONE
        opening = self._table.fence(buf[end:eol].strip(), buf[pos:end])
        if opening is None or opening.wrapper != "strong" or self._position.reasoning:
            return NONE
        return self._open(opening, buf, pos, eol)

    # ---- marks

    def _angle(self, buf: str, pos: int, final: bool) -> int:
        head = lex_head(buf, pos)
        end = pos + len(head)
        meaning = self._table.meaning(head)
        if meaning is not None and meaning[0] == "comment":
            return self._begin_comment(buf, pos)
        if end == len(buf) and not final:
            return MORE if self._table.may_become_tag(read_head(head)[0]) else self._plain(buf, pos)
        fence = self._position.fence
        if fence and fence[0] == "<" and buf.startswith(fence, pos):
            self._position.fence = ""
        if meaning is None or self._search.is_plain_role(meaning[0]):
            return self._plain(buf, pos)
        name = read_head(head)[0]
        if buf[end : end + 1] == ">" and name not in _LONG_TAGS:
            return self._act(*meaning, buf, pos, end + 1)
        return self._long_tag(name, *meaning, buf, pos, final)

    def _long_tag(self, name: str, role: Role, opening: Opening | None, buf: str, pos: int, final: bool) -> int:
        """Read a tag with attributes, or a tag whose name is only part of the mark."""
        tag = lex_tag(buf, pos, final)
        if tag == MORE:
            return MORE
        if isinstance(tag, int):
            self._search.count_rejected()
            return self._plain(buf, pos)
        if name in _LONG_TAGS:
            role, opening = self._table.tag(name + tag.name, False) or (role, opening)
        opening = self._table.with_attributes(opening, tag) if opening is not None and tag.attributes else opening
        return self._act(role, opening, buf, pos, tag.end)

    def _literal(self, buf: str, pos: int, final: bool) -> int:
        match = self._table.literal(buf, pos, final)
        if isinstance(match, int):
            return MORE if match == MORE else self._plain(buf, pos)
        return self._act(*match[:2], buf, pos, pos + match[2])

    def _bracket(self, buf: str, pos: int, final: bool) -> int:
        if buf[pos] == "[":
            match = self._table.literal(buf, pos, final)
            if not isinstance(match, int):
                return self._act(match[0], match[1], buf, pos, pos + match[2])
            if match == MORE:
                return MORE
        position = self._position
        barred = position.reasoning or position.in_aside or position.fence or position.in_code or self._search.idle
        if barred or not (position.at_line_start or position.last_char.isspace()):
            return self._plain(buf, pos)
        opening = self._table.bare(buf, pos, final)
        if isinstance(opening, int):
            return MORE if opening == MORE else self._plain(buf, pos)
        return self._open(opening, buf, pos, pos)

    def _act(self, role: Role, opening: Opening | None, buf: str, pos: int, end: int) -> int:
        """Handle the mark between `pos` and `end` according to its role and the current context."""
        position = self._position
        if role == "open" and opening is not None:
            return self._open(opening, buf, pos, end)
        if position.reasoning and role in ("think_end", "turn_end"):
            self._output.resolve(False)  # calls in reasoning that is closed do not count
            return self._end_reasoning(end)
        if position.fence or position.in_code:
            return self._plain(buf, pos)
        if (role == "think" and not position.at_line_start) or (role == "think_end" and position.in_aside):
            position.in_aside = role == "think"
            return self._plain(buf, pos, end - pos)
        if role == "think_end":
            return self._end_reasoning(end)
        if role in self._ELEMENTS:
            return self._ELEMENTS[role](self, buf, pos, end)
        if role in ("closer", "last") and not (position.at_line_start and self.context.calls_seen):
            return self._lone_closer(role, buf, pos, end)
        if role == "first":
            position.last_char = " "  # a second such mark is text
        elif role == "think":
            self._begin_reasoning(opening)
        # The mark is dropped, so the text before it decides whether this is the start of a line.
        position.at_line_start = position.at_line_start or position.last_char.isspace()
        return end

    def _lone_closer(self, role: Role, buf: str, pos: int, end: int) -> int:
        """Read a closing mark that does not follow its block. It is text unless it ends the answer or is expected."""
        if role == "last" and (self._output.pending or not self._position.reasoning):
            self._ending = buf[pos:end]
            self._state = TextScanner._after_ending
            return end
        if not self._due_closer or not buf.startswith(self._due_closer, pos):
            return self._plain(buf, pos)
        self._due_closer = ""
        self.context.note("text_in_block", "there was text between a call and its closing mark")
        self._position.at_line_start = self._position.last_char.isspace()
        return end

    def _after_ending(self, buf: str, pos: int, final: bool) -> int:
        """Drop a token that ends an answer if only white space and other such tokens follow."""
        end = _skip_ending(buf, pos, final, self._table)
        if end == MORE:
            return MORE
        if pos < end and len(self._ending) + end - pos <= MAX_TAIL:
            self._ending += buf[pos:end]
            return end
        self._state = TextScanner._text
        text, self._ending = self._ending, ""
        self._plain(text, 0, len(text))
        return pos

    def _begin_reasoning(self, opening: Opening | None) -> None:
        self._output.resolve(False)  # the answer goes on, so pending calls do not end it
        self._position.reasoning = True
        if opening is not None:
            self._label = opening.preamble
            self._state = TextScanner._skip_label

    def _skip_label(self, buf: str, pos: int, final: bool) -> int:
        """Skip the word that some model families write between the mark and the reasoning."""
        rest = buf[pos : pos + len(self._label)]
        if self._label.startswith(rest) and rest != self._label and not final:
            return MORE
        self._state = TextScanner._text
        return pos + len(rest) if rest == self._label else self._text(buf, pos, final)

    def _end_reasoning(self, end: int) -> int:
        if not self._position.reasoning and not self._unopened_noted:
            self._unopened_noted = True
            self.context.note("reasoning_unopened")
        self._position.end_reasoning()
        return end

    def _result(self, buf: str, pos: int, end: int) -> int:
        """Cut off a tool result that the model invents after its own call, and everything that follows."""
        if not self.context.calls_seen or self._position.reasoning:
            is_element = buf[pos] == "<" and buf[pos + 1].isalpha()
            return self._begin_example(buf, pos, end) if is_element else self._plain(buf, pos)
        self.context.note("invented_result", "the model wrote a tool result itself; it was cut off")
        self._state = TextScanner._cut
        return end

    def _cut(self, buf: str, pos: int, final: bool) -> int:
        return len(buf)

    def _final_answer(self, buf: str, pos: int, end: int) -> int:
        self.context.final_answer = True
        return self._plain(buf, pos, end - pos)

    def _begin_comment(self, buf: str, pos: int) -> int:
        position = self._position
        if not (position.fence or position.in_code or position.reasoning):
            position.begin_example("comment")
        return self._plain(buf, pos, len("<!--"))

    def _begin_example(self, buf: str, pos: int, end: int) -> int:
        """Read a tag such as `<example>`. It opens an element only at the start of a line; elsewhere it is text."""
        if self._position.at_line_start and not self._position.reasoning and buf[end - 2] != "/":
            self._position.begin_example("element")
        return self._plain(buf, pos, end - pos)

    def _end_example(self, buf: str, pos: int, end: int) -> int:
        end = self._plain(buf, pos, end - pos)
        if self._position.example_kind == "element":
            self._position.example_left = 0
        return end

    def _see_definition(self, buf: str, pos: int, end: int) -> int:
        self._position.has_definitions = True
        return self._plain(buf, pos, end - pos)

    # ---- candidates

    def _open(self, opening: Opening, buf: str, pos: int, end: int, fence: str = "") -> int:
        """Begin a candidate with the mark between `pos` and `end`."""
        if self._search.idle:
            return self._plain(buf, pos)
        context = self.context
        nonce = None if context.nonce is None else has_word(buf[pos:end], context.nonce)
        has_other_word = opening.wrong_nonce or _WORD_IN_TAG(buf, pos, end) is not None
        unmarked_counts = None if nonce or has_other_word else context.unmarked_counts
        evidence = self._position.evidence(opening, nonce, unmarked_counts)
        if self._pending and opening.wrapper == "strong" and evidence.example is None:
            self._output.resolve(True)
        elif self._pending and evidence.asked:
            evidence = msgspec.structs.replace(evidence, asked=None)  # it must not overtake the pending calls
        if context.written is not None:
            context.written.begin_block(len(buf) - pos)
        self._reader = self._table.reader(opening, context, evidence)
        self._block_start = pos
        self._commits = context.commits
        self._calls_seen = context.calls_seen
        self._calls_valid = context.calls_valid
        self._has_calls = False
        self._note_missing_closer()
        self._block_fence = fence or (opening.stops[0] if opening.single else "")
        start = pos if opening.at_mark else end
        self._moved = start > pos
        self._raw = [buf[pos:start]]
        self._state = TextScanner._read
        return start

    def _read(self, buf: str, pos: int, final: bool) -> int:
        reader = self._reader
        assert reader is not None
        new = reader.feed(buf, pos, final)
        ended = self.context.calls_seen > self._calls_seen
        if ended:
            self._checkpoint()
            if self.context.written is not None:
                self.context.written.continue_block(len(buf) - pos)
        elif self.context.commits == self._commits:
            self._raw.append(buf[pos:new])
        self._moved = self._moved or new > pos
        if reader.state == "open":
            return new if new > pos or ended else MORE
        self._end_reader(reader, new)
        return new if self._moved else self._plain(buf, pos)

    def _checkpoint(self) -> None:
        """Record the end of a call. The text read so far can no longer become plain text; later text can."""
        self._calls_seen = self.context.calls_seen
        self._commits = self.context.commits
        self._raw = []
        self._has_calls = True

    def _end_reader(self, reader: Reader, end: int | None) -> None:
        if self._on_block is not None:
            self._on_block(self._block_start, end, reader.builders)
        for builder in reader.builders:
            builder.leave_block()
        context, position = self.context, self._position
        self._reader = None
        self._state = TextScanner._text
        if context.calls_seen > self._calls_seen:
            self._checkpoint()
        raw = "".join(self._raw)
        self._raw = []
        if context.calls_valid == self._calls_valid:
            self._search.count_rejected()
        if context.full and not self._search.idle:
            self._search.give_up()
        position.at_line_start = True
        position.line_is_blank = False
        waiting = [builder for builder in reader.builders if builder.state == "tail"]
        if reader.channel:
            position.line_is_blank = True
            position.reasoning = reader.channel == "analysis"
        elif waiting:
            self._output.hold_calls(waiting, raw)
            self._keep_fence_open(reader)
        elif self._has_calls and reader.state == "done":
            self._due_closer = reader.due_closer
            self._keep_fence_open(reader)
        else:
            if reader.fence == REST_OF_ANSWER:
                self._search.stop()
            else:
                position.fence = position.fence or reader.fence
            self._reject(raw, reader.state == "failed")

    def _note_missing_closer(self) -> None:
        if self._due_closer:
            self.context.note("missing_close_tag", f"`{self._due_closer}` is missing")
        self._due_closer = ""

    def _keep_fence_open(self, reader: Reader) -> None:
        """Keep a code fence that contains a call open until it is closed or the next one opens."""
        if not reader.closed and self._block_fence[:1] in ("`", "~"):
            self._position.fence = self._block_fence
            self._fence_is_soft = True

    def _reject(self, raw: str, failed: bool) -> None:
        """Pass on a rejected block as text. If it is unclosed, it may be an ordinary code fence or declaration."""
        if failed and not self._has_calls:
            self._position.fence = self._position.fence or self._block_fence
        text = raw.rstrip(BLANKS)  # how much white space a reader consumes depends on chunk boundaries
        if text:
            self._say(text, True)
            self._position.begin_line(False)
        blank = raw[len(text) :]
        (self._output.say_blank if "\n" in blank else self._say)(blank)

    #: Handlers for complete marks outside code, by role.
    _ELEMENTS: ClassVar[dict[str, Callable[..., int]]] = {
        "result": _result,
        "example": _begin_example,
        "example_end": _end_example,
        "final": _final_answer,
        "definition": _see_definition,
    }
    #: Handlers for marks, by first character.
    _HANDLERS: ClassVar[dict[str, Callable[..., int]]] = {
        "<": _angle,
        "`": _tick,
        "{": _bracket,
        "[": _bracket,
        "]": _literal,
        ">": _literal,
        "✿": _literal,
        "\n": _newline,
    }


def _skip_ending(buf: str, pos: int, final: bool, table: MarkTable) -> int:
    """Return the position after white space or an end token at `pos`; `pos` if there is neither, or MORE."""
    blank = _BLANK(buf, pos)
    if blank is not None:
        return blank.end()
    if buf[pos] != "<":
        return pos
    head = lex_head(buf, pos)
    end = pos + len(head)
    if end == len(buf) and not final and table.may_become_tag(read_head(head)[0]):
        return MORE
    meaning = table.meaning(head)
    is_ending = meaning is not None and meaning[0] == "last" and buf.startswith(">", end)
    return end + 1 if is_ending else pos
