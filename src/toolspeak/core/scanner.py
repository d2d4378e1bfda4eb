"""Text in, events out, in one pass: text, reasoning and whatever looks like a call.

The scanner knows where it stands (line start, code fence, inline code, reasoning) and looks for marks from
a table that it is handed; what stands behind a mark is read by a reader of that dialect. It keeps only what
may still become a mark, or the raw text of a candidate whose name is not known yet, and never looks at kept
text again, so time is linear and a chunk boundary changes nothing.

Above: `reader`. Beside: `dialects`, which provide the table. Below: `desk`, `builder`, `markup`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from .builder import CallBuilder
from .desk import Desk
from .events import Event, TextDelta
from .evidence import Evidence, Wrapper
from .markup import MORE, lex_name, lex_tag

__all__ = ["MarkTable", "Opening", "Reader", "Role", "Run", "Scanner"]

#: What a mark means to the scanner.
Role = Literal["open", "think", "think_end", "turn_end", "result", "closer", "noise"]

#: A fence line longer than this is not one.
MAX_FENCE_LINE = 120
#: So many candidates that were none: the text is not about calls, and each attempt costs time.
MAX_REJECTED = 2000
#: White space and punctuation that may still follow a call that must end the answer.
MAX_TAIL = 4096
_TAIL = re.compile(r"[\s.,;:!?)\]}*_`~\"']*").fullmatch
NONE = -2

_TRIGGER = re.compile(r"[<`{\[\]\n]").search
_BLANK = re.compile(r"[ \t\r\n\u00a0]*").match
_LINE_TAIL = re.compile(r"\n[ \t\r]*$").search
_FENCE_RUN = re.compile(r"`{3,}|~{3,}").match
_TICKS = re.compile(r"`+").match


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
    #: Which readers may be tried; empty means all.
    body: str = ""


class Run(msgspec.Struct, frozen=True):
    """A shortcut: while `search` finds nothing in a chunk, `take` turns the chunk into its event."""

    search: Callable[[str], object]
    take: Callable[[str], Event]


class Reader(Protocol):
    """Reads one candidate block behind a mark."""

    state: Literal["open", "done", "failed"]
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

    def tag(self, name: str, closing: bool) -> tuple[Role, Opening | None] | None:
        """What a tag of this folded name means."""
        ...

    def may_become_tag(self, name: str) -> bool:
        """Whether some mark begins with this folded name."""
        ...

    def literal(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """The literal mark at `pos` and its length; NONE, or MORE."""
        ...

    def line(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """The mark at `pos`, which is the first word of a line; NONE, or MORE."""
        ...

    def fence(self, info: str) -> Opening | None:
        """What a code fence with this info string opens, if anything."""
        ...

    def bare(self, buf: str, pos: int, final: bool) -> Opening | int:
        """Whether the bracket at `pos` may begin a bare call; NONE, or MORE."""
        ...

    def reader(self, opening: Opening, desk: Desk, evidence: Evidence) -> Reader:
        """A reader for what the mark opens."""
        ...


class _Tail(msgspec.Struct):
    """Calls that count only if nothing but calls follows, and the raw text they stand in."""

    builders: list[CallBuilder]
    raw: str


class Scanner:
    """One answer. `feed` chunks as they come, then `close`."""

    def __init__(self, desk: Desk, table: MarkTable) -> None:
        self._desk = desk
        self._table = table
        self._state: Callable[[str, int, bool], int] = self._text
        self._unread = ""
        self._run: Run | None = None
        self._closed = False
        # where we stand
        self._fresh = True  # nothing but white space or calls on this line so far
        self._started = False  # the answer has begun: text that is not white space has been said
        self._fence = ""  # the run of ticks that opened the fence we are in
        self._code = 0  # ticks that opened the inline code we are in
        self._last = ""  # the last character said
        self._reasoning = False
        self._fenced_reader = ""  # the run of ticks that opened the block being read
        # the candidate being read
        self._reader: Reader | None = None
        self._raw: list[str] = []
        self._commits = 0
        self._rejected = 0
        self._tails: list[_Tail] = []
        self._text_run = Run(_TRIGGER, self._take_text)
        self._handlers: dict[str, Callable[[str, int, bool], int]] = {
            "<": self._angle,
            "`": self._tick,
            "{": self._bracket,
            "[": self._bracket,
            "]": self._literal,
            "\n": self._newline,
        }

    # ---- the outside

    def feed(self, chunk: str) -> list[Event]:
        """The events that this chunk makes certain."""
        run = self._run
        if run is not None and run.search(chunk) is None:
            return [run.take(chunk)] if chunk else []
        if self._closed:
            raise ValueError("the scanner is closed")
        return self._process(self._unread + chunk if self._unread else chunk, False)

    def close(self) -> list[Event]:
        """The text is over: the last events."""
        if self._closed:
            return []
        self._closed = True
        self._process(self._unread, True)
        if self._reader is not None:
            self._reader.finish()
            self._end_reader()
        self._resolve_tails(True)
        if self._reasoning:
            self._desk.note("reasoning_unclosed")
        self._run = None
        return self._desk.collect()

    def _process(self, buf: str, final: bool) -> list[Event]:
        pos = 0
        end = len(buf)
        while pos < end:
            new = self._state(buf, pos, final)
            if new == MORE:
                break
            pos = new
        self._unread = buf[pos:]
        self._run = None if self._unread or final else self._shortcut()
        return [] if final else self._desk.collect()

    def _shortcut(self) -> Run | None:
        if self._reader is not None:
            return self._reader.run()
        plain = self._state == self._text and not self._fresh and not self._tails and not self._reasoning
        return self._text_run if plain and self._started else None

    def _take_text(self, chunk: str) -> TextDelta:
        self._last = chunk[-1]
        return TextDelta(chunk)

    # ---- text

    def _say(self, text: str) -> None:
        """Text that is no mark."""
        if self._tails and not self._hold_tail(text):
            self._resolve_tails(False)
        if self._tails:
            return
        self._desk.say(text, self._reasoning)
        self._last = text[-1:]
        if not self._started and not self._reasoning and not text.isspace():
            self._started = True

    def _text(self, buf: str, pos: int, final: bool) -> int:
        if self._fresh:
            blank = _BLANK(buf, pos)
            assert blank is not None
            if blank.end() > pos:
                self._say(buf[pos : blank.end()])
                return blank.end()
            found = self._line_start(buf, pos, final)
            if found != NONE:
                return found
        trigger = _TRIGGER(buf, pos)
        end = len(buf) if trigger is None else trigger.start()
        if end > pos:
            self._fresh = False
            self._say(buf[pos:end])
            return end
        return self._handlers[buf[pos]](buf, pos, final)

    def _plain(self, buf: str, pos: int, length: int = 1) -> int:
        """The character that looked like a mark is none."""
        self._fresh = False
        self._say(buf[pos : pos + length])
        return pos + length

    def _newline(self, buf: str, pos: int, final: bool) -> int:
        self._say("\n")
        self._fresh = True
        self._code = 0
        return pos + 1

    def _line_start(self, buf: str, pos: int, final: bool) -> int:
        """The first visible character of a line: a fence, or a word that is a mark here and nowhere else."""
        if buf[pos] in "`~":
            return self._fence_line(buf, pos, final)
        if self._fence or self._reasoning:
            return NONE
        found = self._table.line(buf, pos, final)
        return found if isinstance(found, int) else self._act(*found[:2], buf, pos, pos + found[2])

    # ---- code

    def _tick(self, buf: str, pos: int, final: bool) -> int:
        """Inline code: between two runs of as many ticks, within a line."""
        ticks = _TICKS(buf, pos)
        assert ticks is not None
        end = ticks.end()
        if end == len(buf) and not final:
            return MORE if end - pos < MAX_FENCE_LINE else self._plain(buf, pos, end - pos)
        count = end - pos
        if count >= 3 and not self._fence and not self._code:
            found = self._action_fence(buf, pos, end, final)
            if found != NONE:
                return found
        if not self._fence:
            self._code = 0 if self._code == count else self._code or count
        return self._plain(buf, pos, count)

    def _fence_line(self, buf: str, pos: int, final: bool) -> int:
        """Three or more ticks or tildes at the start of a line open or close a fence."""
        run = _FENCE_RUN(buf, pos)
        if run is None:
            short = buf[pos:] in ("`", "``", "~", "~~")
            return MORE if short and not final else NONE
        eol = buf.find("\n", run.end(), run.end() + MAX_FENCE_LINE)
        if eol < 0:
            if not final and len(buf) - run.end() < MAX_FENCE_LINE:
                return MORE
            eol = len(buf) if final and len(buf) - run.end() < MAX_FENCE_LINE else -1
        if eol < 0:
            return NONE
        info = buf[run.end() : eol].strip()
        marks = run.group()
        if self._fence:
            closes = not info and marks[0] == self._fence[0] and len(marks) >= len(self._fence)
            self._fence = "" if closes else self._fence
            return self._plain(buf, pos, eol - pos)
        if marks[0] in info:
            return NONE
        return self._open_fence(buf, pos, eol, marks, info)

    def _open_fence(self, buf: str, pos: int, eol: int, marks: str, info: str) -> int:
        opening = None if self._reasoning else self._table.fence(info)
        if opening is None or eol == len(buf):
            self._fence = marks
            return self._plain(buf, pos, eol - pos)
        self._fenced_reader = marks
        return self._open(opening, buf, pos, eol)

    def _action_fence(self, buf: str, pos: int, end: int, final: bool) -> int:
        """A fence in the middle of a line counts only if its info string names a call."""
        eol = buf.find("\n", end, end + MAX_FENCE_LINE)
        if eol < 0:
            return MORE if not final and len(buf) - end < MAX_FENCE_LINE else NONE
        opening = self._table.fence(buf[end:eol].strip())
        if opening is None or opening.wrapper != "strong" or self._reasoning:
            return NONE
        return self._open(opening, buf, pos, eol)

    # ---- marks

    def _angle(self, buf: str, pos: int, final: bool) -> int:
        name, closing, end = lex_name(buf, pos)
        if end == len(buf) and not final:
            if self._table.may_become_tag(name):
                return MORE
            return self._plain(buf, pos)
        meaning = self._table.tag(name, closing)
        if meaning is None:
            return self._plain(buf, pos)
        tag = lex_tag(buf, pos, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._plain(buf, pos)
        if name in ("|open|", "|close|"):
            meaning = self._table.tag(tag.name, tag.kind == "close")
            if meaning is None:
                return self._plain(buf, pos, tag.end - pos)
        role, opening = meaning
        return self._act(role, opening, buf, pos, tag.end)

    def _literal(self, buf: str, pos: int, final: bool) -> int:
        found = self._table.literal(buf, pos, final)
        if isinstance(found, int):
            return MORE if found == MORE else self._plain(buf, pos)
        role, opening, length = found
        return self._act(role, opening, buf, pos, pos + length)

    def _bracket(self, buf: str, pos: int, final: bool) -> int:
        found = self._table.literal(buf, pos, final)
        if not isinstance(found, int):
            return self._act(found[0], found[1], buf, pos, pos + found[2])
        if found == MORE:
            return MORE
        if self._reasoning or self._fence or self._code or not self._bare_allowed(buf, pos):
            return self._plain(buf, pos)
        opening = self._table.bare(buf, pos, final)
        if isinstance(opening, int):
            return MORE if opening == MORE else self._plain(buf, pos)
        return self._open(opening, buf, pos, pos)

    def _bare_allowed(self, buf: str, pos: int) -> bool:
        """A bare call does not stick to the word before it."""
        return self._fresh or self._last.isspace()

    def _act(self, role: Role, opening: Opening | None, buf: str, pos: int, end: int) -> int:
        """Do what the mark between `pos` and `end` means here."""
        if role == "open" and opening is not None:
            return self._open(opening, buf, pos, end)
        if self._fence or self._code:
            return self._plain(buf, pos)
        if role == "think":
            self._reasoning = True
            return end
        if role == "think_end":
            return self._end_reasoning(end)
        if role == "turn_end":
            self._reasoning = False
            return end
        if role == "result":
            return self._result(buf, pos, end)
        if role == "closer" and not (self._fresh and self._desk.calls_seen):
            return self._plain(buf, pos)
        return end

    def _end_reasoning(self, end: int) -> int:
        if not self._reasoning:
            self._desk.note("reasoning_unopened")
        self._reasoning = False
        self._fresh = True
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

    def _open(self, opening: Opening, buf: str, pos: int, end: int) -> int:
        """A mark that may begin a call stands between `pos` and `end`."""
        if self._rejected >= MAX_REJECTED:
            return self._plain(buf, pos)
        if self._tails and opening.wrapper == "strong":
            self._resolve_tails(True)
        evidence = Evidence(
            dialect=opening.dialect,
            wrapper=opening.wrapper,
            line_start=self._fresh,
            answer_start=not self._started,
            in_fence=bool(self._fence),
            in_code=bool(self._code),
            in_reasoning=self._reasoning,
            nonce=None if self._desk.nonce is None else self._desk.nonce in buf[pos:end],
        )
        self._reader = self._table.reader(opening, self._desk, evidence)
        self._commits = self._desk.commits
        start = pos if opening.at_mark else end
        self._raw = [buf[pos:start]]
        self._state = self._read
        return start if start > pos else self._read(buf, pos, False)

    def _read(self, buf: str, pos: int, final: bool) -> int:
        reader = self._reader
        assert reader is not None
        new = reader.feed(buf, pos, final)
        if self._desk.commits == self._commits:
            self._raw.append(buf[pos:new])
        if reader.state != "open":
            self._end_reader()
            return new
        return new if new > pos else MORE

    def _end_reader(self) -> None:
        reader = self._reader
        assert reader is not None
        self._reader = None
        self._state = self._text
        fenced, self._fenced_reader = self._fenced_reader, ""
        raw = "".join(self._raw)
        self._raw = []
        if self._desk.commits > self._commits or reader.channel:
            self._fresh = True
            self._reasoning = reader.channel == "analysis"
            return
        waiting = [builder for builder in reader.builders if builder.state == "tail"]
        if waiting:
            self._fresh = True
            self._tails.append(_Tail(waiting, raw))
            return
        self._rejected += 1
        if fenced and reader.state == "failed":
            self._fence = fenced
        self._reject_raw(raw)

    def _reject_raw(self, raw: str) -> None:
        """The candidate is text after all."""
        self._say(raw)
        self._fresh = _LINE_TAIL(raw[-256:]) is not None

    # ---- calls that must end the answer

    def _hold_tail(self, text: str) -> bool:
        if _TAIL(text) is None or len(text) > MAX_TAIL:
            return False
        self._tails.append(_Tail([], text))
        return True

    def _resolve_tails(self, answer_end: bool) -> None:
        tails, self._tails = self._tails, []
        for tail in tails:
            calls = [builder.resolve_tail(answer_end) for builder in tail.builders]
            if not any(calls) and not (answer_end and tail.raw.isspace()):
                self._say(tail.raw)
