"""Text in, events out, in one pass: text, reasoning and whatever looks like a call.

The scanner knows where it stands (line start, code fence, inline code, reasoning) and looks for marks from
a table that it is handed; what stands behind a mark is read by a reader of that dialect. It keeps only what
may still become a mark, or the raw text of a candidate whose name is not known yet, and never looks at kept
text again, so time is linear and a chunk boundary changes nothing. Beside: `dialects`, which provide the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_letters
from typing import ClassVar

from ..events import Event, ReasoningDelta, TextDelta
from ..json_repair.literals import has_surrogate, replace_surrogates
from ..types import require
from .context import Desk
from .dialect_interface import NONE, MarkTable, Opening, Reader, Role
from .fast_paths import Run
from .mark_search import BLANKS, SPACES, Passing
from .pending_calls import MAX_TAIL, behind_last
from .tags import MORE, has_word, lex_head, lex_tag, read_head

#: A fence line longer than this is not one.
MAX_FENCE_LINE = 120

_NOT_PLAIN = re.compile(r"[<>`{\[\]✿\n\ud800-\udfff]").search
_BLANK = re.compile(r"[ \t\r\n\u00a0]+").match
_FENCE_LINE = re.compile(r"(`{3,32}+|~{3,32}+)([^\n]{0,120}+)(?:\n|\Z)").match
_FENCE_BEGUN = re.compile(r"`{1,2}|~{1,2}|(?:`{3,32}+|~{3,32}+)[^\n]{0,120}+").fullmatch
#: What stands behind the `<` of every mark.
_TAG_FIRSTS = frozenset(f"/!_|｜{ascii_letters}")
_MAY_BEGIN_JSON = frozenset({"{", "[", " ", "\t", "\r", "\n"})
_TICKS = re.compile(r"`+").match
#: Marks that a name and another mark follow.
_LONG = frozenset({"|open|", "|close|"})


class Scanner(Passing):
    """One answer. `feed` chunks as they come, then `close`."""

    def __init__(self, desk: Desk, table: MarkTable) -> None:
        super().__init__(desk, table)
        self._state: Callable[[str, int, bool], int] = self._text
        self._unread = ""
        self._run: Run | None = None
        self._closed = False
        self._mended = False  # the text held what no encoding can carry
        self._unopened = False  # thinking was closed that nobody had opened
        self._ending = ""  # a token that ends the answer, if nothing follows
        self._owed = ""  # the closer of a block that text followed the call in
        self._label = ""  # a word that may stand between the mark and the thinking
        # the candidate being read
        self._reader: Reader | None = None
        self._raw: list[str] = []
        self._moved = False  # something of the candidate has been read, if only its mark
        self._called = False  # it has given at least one call
        self._fence_is_soft = False  # the fence we are in held a call and was not closed behind it
        self._block_fence = ""  # what closes the block, if it turns out to hold no call
        self._commits = 0
        self._seen = 0
        self._valid = 0
        self._plain_run: Run | None = None  # the shortcut through plain text and thinking, once it is needed

    # ---- the outside

    def feed(self, chunk: str) -> list[Event]:
        """The events that this chunk makes certain."""
        if chunk.__class__ is not str:
            require(chunk, str, "a chunk", "a text")
        run = self._run
        if run is None:
            return self._feed(self._unread + chunk)
        events = run.feed(chunk)
        return events + self._feed(self._leave(run)) if run.over else events

    def _feed(self, text: str) -> list[Event]:
        """The long way: read what has come."""
        if self._closed:
            raise ValueError("the scanner is closed")
        return self._process(self._mend(text), False)

    def _mend(self, text: str) -> str:
        """The text without what no encoding can carry."""
        if text.isascii() or not has_surrogate(text):
            return text
        self._mended = True
        return replace_surrogates(text)

    def _leave(self, run: Run) -> str:
        """The short way is over: what it has not read. What went there in silence may still turn out to be text."""
        self._run = None
        if self._desk.commits == self._commits:
            self._raw += run.raw
        return run.end()

    def close(self) -> list[Event]:
        """The text is over: the last events."""
        if self._closed:
            return []
        if self._run is not None:
            self._unread = self._mend(self._leave(self._run))
        self._closed = True
        self._process(self._unread, True)
        if self._reader is not None:
            self._finish_reader(self._reader)
        self._say(self._unread)
        if self._ending:
            self._desk.note("end_token", "a token that ends the turn stood in the text; it was cut off")
        self._resolve_tails(True)
        self._forgive_closer()
        if self._reasoning:
            self._desk.note("reasoning_unclosed")
        if self._mended:
            self._desk.note("invalid_unicode", "the text held halves of surrogate pairs; U+FFFD stands for them")
        self._run = None
        return self._desk.collect()

    def _finish_reader(self, reader: Reader) -> None:
        """The text ended inside a block: what its reader has not read is part of the candidate, or follows it."""
        live = self._desk.commits > self._commits
        reader.finish()
        if not live and (reader.state == "failed" or not self._called):
            self._raw.append(self._unread)
            self._unread = ""
        elif live:
            self._unread = ""
        self._end_reader()

    def _process(self, buf: str, final: bool) -> list[Event]:
        pos = 0
        end = len(buf)
        while pos < end:
            new = self._state(buf, pos, final)
            if new == MORE:
                break
            pos = new
        self._unread = buf[pos:]
        if final:
            return []
        self._run = run = self._shortcut()
        if run is not None:
            run.rest, self._unread = self._unread, ""
        return self._desk.collect()

    def _shortcut(self) -> Run | None:
        if self._reader is not None:
            return self._reader.run()
        begun = self._started or self._reasoning
        if self._fresh or not self._head or self._tails or self._shown or not begun or self._state != self._text:
            return None
        if self._plain_run is None:
            self._plain_run = Run(_NOT_PLAIN, self._take)
        self._plain_run.over = False
        return self._plain_run

    def _take(self, chunk: str) -> TextDelta | ReasoningDelta:
        self._before = chunk[-2:-1] or self._last
        self._last = chunk[-1]
        return ReasoningDelta(chunk) if self._reasoning else TextDelta(chunk)

    # ---- text

    def _text(self, buf: str, pos: int, final: bool) -> int:
        if self._fresh:
            found = self._fresh_text(buf, pos, final)
            if found != NONE:
                return found
        end = self._next_mark(buf, pos, final)
        if end > pos:
            self._fresh = self._line_begins = False
            newline = buf.rfind("\n", pos, end)
            if newline >= 0:
                self._see_line(buf, pos, newline)
            self._say(buf[pos:end])
            if end == len(buf):
                return end
            new = self._HANDLERS[buf[end]](self, buf, end, final)
            return end if new == MORE else new
        return self._HANDLERS[buf[pos]](self, buf, pos, final)

    def _fresh_text(self, buf: str, pos: int, final: bool) -> int:
        """Where nothing but white space or calls stands before on the line; NONE when nothing special is there."""
        char = buf[pos]
        if char == "<":
            return self._angle(buf, pos, final) if buf[pos + 1 : pos + 2] in _TAG_FIRSTS else NONE
        if char in SPACES:
            return self._blank(buf, pos)
        found = self._line_start(buf, pos, final) if self._line_begins else NONE
        if found != NONE or char not in "{[" or self._is_dull(buf, pos, final):
            return found
        return self._bracket(buf, pos, final)

    def _blank(self, buf: str, pos: int) -> int:
        blank = _BLANK(buf, pos)
        assert blank is not None
        self._say_blank(blank.group())
        return blank.end()

    def _line_start(self, buf: str, pos: int, final: bool) -> int:
        """The first visible character of a line: a fence, or a word that is a mark here and nowhere else."""
        if buf[pos] in "`~" and not self._fence.startswith("<"):
            return self._fence_line(buf, pos, final)
        if self._fence or self._reasoning:
            return NONE
        look = self._table.literal if buf[pos] == ">" else self._table.line  # no word begins so
        found = look(buf, pos, final)
        if isinstance(found, int):
            return found
        return NONE if self._dull(found[0]) else self._act(*found[:2], buf, pos, pos + found[2])

    # ---- code

    def _tick(self, buf: str, pos: int, final: bool) -> int:
        """Ticks in the middle of a line: inline code, or a fence that a call stands in."""
        ticks = _TICKS(buf, pos)
        assert ticks is not None
        end = ticks.end()
        if end == len(buf) and not final and end - pos < MAX_FENCE_LINE:
            return MORE
        before = self._tails.last if self._tails else self._last  # the run may have been cut
        if 3 <= end - pos < MAX_FENCE_LINE and before != "`" and not self._fence and not self._in_code:
            found = self._action_fence(buf, pos, end, final)
            if found != NONE:
                return found
        return self._plain(buf, pos, end - pos)

    def _fence_line(self, buf: str, pos: int, final: bool) -> int:
        """Three or more ticks or tildes at the start of a line open or close a fence."""
        line = _FENCE_LINE(buf, pos)
        if line is None or (line.end() == len(buf) and buf[-1] != "\n" and not final):
            return MORE if not final and _FENCE_BEGUN(buf, pos) is not None else NONE
        marks, info, end = line.group(1), line.group(2).strip(), line.end()
        if self._fence_is_soft:
            self._fence = "" if info else self._fence
            self._fence_is_soft = False
        if self._fence:
            closes = not info and marks.startswith(self._fence)
            if not closes and "<" in info:
                return self._plain(buf, pos, len(marks))  # a mark may end the thinking
            self._fence = "" if closes else self._fence
            return self._say_line(buf, pos, end)
        if marks[0] in info or "<" in info:
            return NONE
        return self._open_fence(marks, info, buf, pos, line.end(2), end, final)

    def _open_fence(self, marks: str, info: str, buf: str, pos: int, eol: int, end: int, final: bool) -> int:
        """The line between `pos` and `end` opens a fence."""
        opening = None if self._reasoning else self._table.fence(info, marks)
        if opening is None:
            if self._desk.calls_seen and not self._reasoning and self._table.is_result(info):
                return self._result(buf, pos, end)
            self._fence = marks
            return self._say_line(buf, pos, end)
        if opening.wrapper == "weak":
            if end == len(buf) and not final:
                return MORE  # the first character inside decides
            if self._idle or buf[end : end + 1] not in _MAY_BEGIN_JSON:
                eol = len(buf)
        if eol == len(buf):
            self._fence = marks
            return self._say_line(buf, pos, end)
        return self._open(opening, buf, pos, eol, marks)

    def _action_fence(self, buf: str, pos: int, end: int, final: bool) -> int:
        """A fence in the middle of a line counts only if its info string names a call."""
        eol = buf.find("\n", end, end + MAX_FENCE_LINE)
        if eol < 0:
            return MORE if not final and len(buf) - end < MAX_FENCE_LINE else NONE
        opening = self._table.fence(buf[end:eol].strip(), buf[pos:end])
        if opening is None or opening.wrapper != "strong" or self._reasoning:
            return NONE
        return self._open(opening, buf, pos, eol)

    # ---- marks

    def _angle(self, buf: str, pos: int, final: bool) -> int:
        head = lex_head(buf, pos)
        end = pos + len(head)
        meaning = self._meaning(head)
        if meaning is not None and meaning[0] == "comment":
            return self._begin_comment(buf, pos)
        if end == len(buf) and not final:
            return MORE if self._table.may_become_tag(read_head(head)[0]) else self._plain(buf, pos)
        if self._fence and self._fence[0] == "<" and buf.startswith(self._fence, pos):
            self._fence = ""
        if meaning is None or self._dull(meaning[0]):
            return self._plain(buf, pos)
        name = read_head(head)[0]
        if buf[end : end + 1] == ">" and name not in _LONG:
            return self._act(*meaning, buf, pos, end + 1)
        return self._long_tag(name, *meaning, buf, pos, final)

    def _long_tag(self, name: str, role: Role, opening: Opening | None, buf: str, pos: int, final: bool) -> int:
        """A tag with attributes, or one of which the name is a part only."""
        tag = lex_tag(buf, pos, final)
        if tag == MORE:
            return MORE
        if isinstance(tag, int):
            self._count_rejected()
            return self._plain(buf, pos)
        if name in _LONG:
            role, opening = self._table.tag(name + tag.name, False) or (role, opening)
        opening = self._table.named(opening, tag) if opening is not None and tag.attributes else opening
        return self._act(role, opening, buf, pos, tag.end)

    def _literal(self, buf: str, pos: int, final: bool) -> int:
        found = self._table.literal(buf, pos, final)
        if isinstance(found, int):
            return MORE if found == MORE else self._plain(buf, pos)
        return self._act(*found[:2], buf, pos, pos + found[2])

    def _bracket(self, buf: str, pos: int, final: bool) -> int:
        if buf[pos] == "[":
            found = self._table.literal(buf, pos, final)
            if not isinstance(found, int):
                return self._act(found[0], found[1], buf, pos, pos + found[2])
            if found == MORE:
                return MORE
        barred = self._reasoning or self._aside or self._fence or self._in_code or self._idle
        if barred or not (self._fresh or self._last.isspace()):
            return self._plain(buf, pos)
        opening = self._table.bare(buf, pos, final)
        if isinstance(opening, int):
            return MORE if opening == MORE else self._plain(buf, pos)
        return self._open(opening, buf, pos, pos)

    def _act(self, role: Role, opening: Opening | None, buf: str, pos: int, end: int) -> int:
        """Do what the mark between `pos` and `end` means here."""
        if role == "open" and opening is not None:
            return self._open(opening, buf, pos, end)
        if self._reasoning and role in ("think_end", "turn_end"):
            return self._end_reasoning(end)
        if self._fence or self._in_code:
            return self._plain(buf, pos)
        if (role == "think" and not self._fresh) or (role == "think_end" and self._aside):
            self._aside = role == "think"
            return self._plain(buf, pos, end - pos)
        if role == "think_end":
            return self._end_reasoning(end)
        if role in self._WHOLE:
            return self._WHOLE[role](self, buf, pos, end)
        if role == "final":
            self._desk.final_answer = True
            return self._plain(buf, pos, end - pos)
        if role in ("closer", "last") and not (self._fresh and self._desk.calls_seen):
            return self._lone_closer(role, buf, pos, end)
        self._last = " " if role == "first" else self._last  # the next one is text
        if role == "think":
            self._begin_reasoning(opening)
        self._fresh = self._fresh or self._last.isspace()  # the mark is gone, what stood before it counts
        return end

    def _lone_closer(self, role: Role, buf: str, pos: int, end: int) -> int:
        """A mark that closes nothing right before it: text, unless it is the end of all, or a block still owes it."""
        if role == "last" and not self._reasoning:
            self._ending = buf[pos:end]
            self._state = self._after_last
            return end
        if not self._owed or not buf.startswith(self._owed, pos):
            return self._plain(buf, pos)
        self._owed = ""
        self._desk.note("text_in_block", "text stood between a call and its closing mark")
        self._fresh = self._last.isspace()
        return end

    def _after_last(self, buf: str, pos: int, final: bool) -> int:
        """Behind a token that ends an answer: the token is gone if nothing but white space and such tokens follow."""
        end = behind_last(buf, pos, final, self._table)
        if end == MORE:
            return MORE
        if pos < end and len(self._ending) + end - pos <= MAX_TAIL:
            self._ending += buf[pos:end]
            return end
        self._state = self._text
        held, self._ending = self._ending, ""
        self._plain(held, 0, len(held))
        return pos

    def _begin_reasoning(self, opening: Opening | None) -> None:
        self._resolve_tails(False)  # the model went on
        self._reasoning = True
        if opening is not None:
            self._label = opening.preamble
            self._state = self._skip_label

    def _skip_label(self, buf: str, pos: int, final: bool) -> int:
        """Some families put a word between the mark and the thinking."""
        rest = buf[pos : pos + len(self._label)]
        if self._label.startswith(rest) and rest != self._label and not final:
            return MORE
        self._state = self._text
        return pos + len(rest) if rest == self._label else self._text(buf, pos, final)

    def _end_reasoning(self, end: int) -> int:
        if not self._reasoning and not self._unopened:
            self._unopened = True
            self._desk.note("reasoning_unopened")
        self._reasoning = False
        self._fence = ""  # a fence or a tick inside the thinking does not reach behind it
        self._ticks = 0
        self._last = self._before = self._head = ""
        self._begin_line(True)
        return end

    def _result(self, buf: str, pos: int, end: int) -> int:
        """A result that the model invents after its own call is cut off, with everything behind it."""
        if not self._desk.calls_seen or self._reasoning:
            return self._plain(buf, pos)
        self._desk.note("invented_result", "the model wrote a tool result itself; it was cut off")
        self._state = self._cut
        return end

    def _cut(self, buf: str, pos: int, final: bool) -> int:
        return len(buf)

    # ---- candidates

    def _open(self, opening: Opening, buf: str, pos: int, end: int, fence: str = "") -> int:
        """A mark that may begin a call stands between `pos` and `end`."""
        if self._idle:
            return self._plain(buf, pos)
        evidence = self._evidence(
            opening, None if self._desk.nonce is None else has_word(buf[pos:end], self._desk.nonce)
        )
        if self._tails and opening.wrapper == "strong" and evidence.example is None:
            self._resolve_tails(True)
        self._reader = self._table.reader(opening, self._desk, evidence)
        self._commits = self._desk.commits
        self._seen = self._desk.calls_seen
        self._valid = self._desk.calls_valid
        self._called = False
        self._forgive_closer()
        self._block_fence = fence or (opening.stops[0] if opening.single else "")
        start = pos if opening.at_mark else end
        self._moved = start > pos
        self._raw = [buf[pos:start]]
        self._state = self._read
        return start

    def _read(self, buf: str, pos: int, final: bool) -> int:
        reader = self._reader
        assert reader is not None
        new = reader.feed(buf, pos, final)
        ended = self._desk.calls_seen > self._seen
        if ended:
            self._checkpoint()
        elif self._desk.commits == self._commits:
            self._raw.append(buf[pos:new])
        self._moved = self._moved or new > pos
        if reader.state == "open":
            return new if new > pos or ended else MORE
        self._end_reader()
        return new if self._moved else self._plain(buf, pos)

    def _checkpoint(self) -> None:
        """A call has ended: what was read up to here cannot come back as text, what follows can."""
        self._seen = self._desk.calls_seen
        self._commits = self._desk.commits
        self._raw = []
        self._called = True

    def _end_reader(self) -> None:
        reader = self._reader
        assert reader is not None
        self._reader = None
        self._state = self._text
        if self._desk.calls_seen > self._seen:
            self._checkpoint()
        raw = "".join(self._raw)
        self._raw = []
        if self._desk.calls_valid == self._valid:
            self._count_rejected()
        if self._desk.full and not self._idle:
            self._give_up()
        self._fresh = True
        self._line_begins = False
        waiting = [builder for builder in reader.builders if builder.state == "tail"]
        if reader.channel:
            self._line_begins = True
            self._reasoning = reader.channel == "analysis"
        elif waiting:
            self._wait(waiting, raw)
            self._leave_open(reader)
        elif self._called and reader.state == "done":
            self._owed = reader.owes
            self._leave_open(reader)
        else:
            self._fence = self._fence or reader.fence
            self._reject(raw, reader.state == "failed")

    def _forgive_closer(self) -> None:
        """The mark that was to close the last block did not come."""
        if self._owed:
            self._desk.note("missing_close_tag", f"`{self._owed}` is missing")
        self._owed = ""

    def _leave_open(self, reader: Reader) -> None:
        """A fence with a call in it goes on behind the call until it is closed, or the next one opens."""
        if not reader.closed and self._block_fence[:1] in ("`", "~"):
            self._fence = self._block_fence
            self._fence_is_soft = True

    def _reject(self, raw: str, failed: bool) -> None:
        """What was read is text after all. A block that was not closed may be an ordinary fence or declaration."""
        if failed and not self._called:
            self._fence = self._fence or self._block_fence
        said = raw.rstrip(BLANKS)  # how much white space a reader takes with it depends on where a chunk ended
        if said:
            self._say(said, True)
            self._begin_line(False)
        blank = raw[len(said) :]
        (self._say_blank if "\n" in blank else self._say)(blank)

    #: What a mark does that is read as a whole and leaves no trace elsewhere.
    _WHOLE: ClassVar[dict[str, Callable[..., int]]] = {
        "result": _result,
        "example": Passing._begin_example,
        "example_end": Passing._end_example,
    }
    _HANDLERS: ClassVar[dict[str, Callable[..., int]]] = {
        "<": _angle,
        "`": _tick,
        "{": _bracket,
        "[": _bracket,
        "]": _literal,
        ">": _literal,
        "✿": _literal,
        "\n": Passing._newline,
    }
