"""The scanner with readers and tables of the test's own: what it asks of them, and when it need not ask."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from tests.cases import check_each
from tests.core.scanner_helpers import CALLED, TOOLS, scan, told
from toolspeak import Scanner, fold
from toolspeak.core.events import CallArgs, Event, ReasoningDelta, TextDelta
from toolspeak.core.parsing import scanner as module
from toolspeak.core.parsing.acceptance import Evidence
from toolspeak.core.parsing.call_builder import CallBuilder
from toolspeak.core.parsing.context import ParseContext
from toolspeak.core.parsing.dialect_interface import NONE, Opening, Progress
from toolspeak.core.parsing.fast_paths import FastPath
from toolspeak.core.parsing.tags import MORE, read_head
from toolspeak.dialects.marks import Marks

# ---- the shortcut


class FakeReader:
    """`!` closes the block, `|` ends it without closing it, `?` and `<` end it badly. `+` begins a call, `;` ends it.
    A `%` is not read before the next character has come, a `&` never."""

    def __init__(self, context: ParseContext, evidence: Evidence, fast_path: FastPath | None, channel: str) -> None:
        self.state: Progress = "open"
        self.closed = False
        self.due_closer = ""
        self.fence = ""
        self.channel = ""
        self.builders: list[CallBuilder] = []
        self.evidence = evidence
        self.fed: list[str] = []
        self.finished = 0
        self._context = context
        self._fast_path = fast_path
        self._channel = channel

    def feed(self, buf: str, pos: int, final: bool) -> int:
        self.fed.append(buf[pos:])
        while pos < len(buf):
            char = buf[pos]
            if char == "&" or (char == "%" and pos + 1 == len(buf) and not final):
                return pos
            if char in "?<":
                self.state = "failed"
                return pos
            pos += 1
            if char == "+":
                self.builders.append(CallBuilder(self._context, self.evidence))
                self.builders[-1].take_name("f")
            if char in ";!|":
                for builder in self.builders:
                    builder.end()
                self.builders = [builder for builder in self.builders if builder.state == "tail"]
                self.closed = char == "!"
                if char != ";":
                    self.state, self.channel = "done", self._channel
                return pos
        return pos

    def finish(self) -> None:
        self.finished += 1
        for builder in self.builders:
            builder.cut()
        self.state = "done" if self._channel == "done" else "failed"

    def fast_path(self) -> FastPath | None:
        return self._fast_path if self.state == "open" else None


class FakeTable:
    """`<go>`, `[go]`, `]<go[`, `go:` at the start of a line, a fence `go`, `{go` and `[{go` open. `[x]` and `]<x[`
    are dropped, `</go>` closes."""

    def __init__(self, opening: Opening, fast_path: FastPath | None = None, channel: str = "") -> None:
        self.opening = opening
        self.fast_path = fast_path
        self.channel = channel
        self.readers: list[FakeReader] = []

    def place(self, buf: str, pos: int) -> re.Match[str] | None:
        return re.compile(r"[<`{\[\]\n]").search(buf, pos)

    idle_place = place

    def tag(self, name: str, closing: bool) -> Any:
        assert isinstance(closing, bool)
        if name != "go":
            return None
        return ("closer", None) if closing else ("open", self.opening)

    def meaning(self, head: str) -> Any:
        return self.tag(*read_head(head))

    def with_attributes(self, opening: Opening, tag: Any) -> Opening:
        return opening

    def may_become_tag(self, name: str) -> bool:
        return "go".startswith(name)

    def _find(self, marks: tuple[str, ...], buf: str, pos: int, final: bool) -> Any:
        assert isinstance(final, bool)
        rest = buf[pos : pos + 5]
        for mark in marks:
            if rest.startswith(mark):
                return ("open", self.opening, len(mark)) if "go" in mark else ("noise", None, len(mark))
        return MORE if not final and any(mark.startswith(rest) for mark in marks) else NONE

    def literal(self, buf: str, pos: int, final: bool) -> Any:
        return self._find(("[go]", "]<go[", "[x]", "]<x["), buf, pos, final)

    def line(self, buf: str, pos: int, final: bool) -> Any:
        return self._find(("go:",), buf, pos, final)

    def is_result(self, info: str) -> bool:
        return info == "result"

    def fence(self, info: str, marks: str) -> Opening | None:
        assert marks in ("```", "~~~~")
        return self.opening if info == "go" else None

    def bare(self, buf: str, pos: int, final: bool) -> Any:
        found = self._find(("{go", "[{go"), buf, pos, final)
        return found if isinstance(found, int) else self.opening

    def reader(self, opening: Opening, context: ParseContext, evidence: Evidence) -> FakeReader:
        assert opening is self.opening
        self.readers.append(FakeReader(context, evidence, self.fast_path, self.channel))
        return self.readers[-1]


def fake(
    *pieces: str, opening: Opening | None = None, fast_path: FastPath | None = None, channel: str = ""
) -> tuple[Any, FakeTable]:
    """What each piece gives, the last being what closing gives; and the table."""
    table = FakeTable(opening or Opening("d"), fast_path, channel)
    reader = module.TextScanner(ParseContext(None), table)
    return [*(told(reader.feed(piece)) for piece in pieces), told(reader.close())], table


def test_a_block_is_read_from_behind_its_mark():
    events, table = fake("a <go>bc", "d+!e")
    assert events == [["say a "], ["start 0 f", "args 0 {}", "end 0", "judge f call accepted", "say e"], []]
    assert table.readers[0].fed == ["bc", "d+!e"]


def test_a_block_may_be_read_from_its_mark():
    _, table = fake("a <go>b!", opening=Opening("d", at_mark=True))
    assert table.readers[0].fed == ["<go>b!"]


def test_the_reader_is_told_the_dialect_and_the_wrapper():
    _, table = fake("a\n<go>!", opening=Opening("dialect", "weak"))
    assert table.readers[0].evidence == Evidence("dialect", "weak", line_start=True, answer_start=False)


def test_the_raw_text_of_a_failed_block_is_said_and_what_it_did_not_read_is_read_again():
    events, table = fake("<go>ab", "c?<go>d", "!x")
    assert events == [[], ["say <go>abc?"], ["say <go>d!x"], []]
    assert [reader.fed for reader in table.readers] == [["ab", "c?<go>d"], ["d", "!x"]]


def test_a_block_that_failed_at_its_own_mark_does_not_open_again():
    events, table = fake("a <go>b", opening=Opening("d", at_mark=True))
    assert (events, len(table.readers)) == ([["say a <go>b"], []], 1)


@check_each("mark", ["<go>", "[go]", "]<go[", "\ngo:", "{go", "[{go", "\n```go\n", "\n~~~~ go\n"])
def test_every_kind_of_mark_opens_and_may_be_cut_anywhere(mark: str):
    whole, _ = fake(f"a {mark}b!c")
    assert whole[0][-1].startswith(f"say a {mark.rstrip()}")
    for at in range(len(mark) + 4):
        events, table = fake(f"a {mark}b!c"[:at], f"a {mark}b!c"[at:])
        assert len(table.readers) == 1
        assert "".join(text for group in events for text in group).replace("say ", "") == f"a {mark}b!c"


@check_each("mark", ["[x]", "]<x["])
def test_a_dropped_mark_in_code_is_text(mark: str):
    assert fake(f"a {mark}b")[0][0] == ["say a b"]
    assert fake(f"a `{mark}b")[0][0] == [f"say a `{mark}b"]


@check_each("mark", ["[go", "]<go", "go", "{g", "<g", "```go"])
def test_a_mark_that_is_not_whole_in_the_end_is_text(mark: str):
    events, table = fake(f"\n{mark}")
    assert "".join(text for group in events for text in group).replace("say ", "") == f"\n{mark}"
    assert table.readers == []


@check_each(
    ("text", "line_start"),
    [
        ("<go>a\n<go>!", True),
        ("<go>a\n \t\r<go>!", True),
        ("<go>a<go>!", False),
        ("<go>a\nb<go>!", False),
        ("<go>\n" + " " * 300 + "<go>!", True),
        ("<go>\n\u00a0<go>!", True),
        ("<go>\n\f<go>!", False),
    ],
)
def test_behind_a_failed_block_a_line_begins_where_the_block_ended_with_one(text: str, line_start: bool):
    _, table = fake(text)
    assert table.readers[1].evidence.line_start is line_start


def test_the_ticks_of_a_failed_block_are_its_own():
    _, table = fake("<go>a`b!<go>!")
    assert not table.readers[1].evidence.in_code
    _, table = fake("`<go>a`b!<go>!")
    assert table.readers[1].evidence.in_code
    _, table = fake("<go>a`\n`b!<go>!")
    assert not table.readers[1].evidence.in_code


@check_each(("end", "in_fence"), [("?", True), ("!", False), ("+!", False), ("+|", True), ("+;?", False)])
def test_a_fence_is_open_until_it_is_closed(end: str, in_fence: bool):
    _, table = fake(f"```go\na{end}\n<go>!")
    assert table.readers[1].evidence.in_fence is in_fence


def test_a_declaration_whose_block_failed_hides_everything_up_to_its_end():
    _, table = fake("<go>a?<go>b!</no> c</go> <go>!", opening=Opening("d", stops=("</go>",), single=True))
    assert [reader.evidence.in_fence for reader in table.readers] == [False, True, False]


def test_what_follows_a_call_in_its_block_is_text_when_it_is_no_call():
    events, table = fake("<go>ab+;cd", "e?f")
    assert events == [CALLED, ["say cde?f"], []]
    assert table.readers[0].fed == ["ab+;cd", "cd", "e?f"]


def test_what_follows_a_call_in_its_block_is_dropped_when_the_block_ends_well():
    events, _ = fake("<go>+;cd!e")
    assert events == [[*CALLED, "say e"], []]


def test_what_comes_before_a_call_in_its_block_is_dropped():
    assert fake("<go>abc+!")[0] == [CALLED, []]


def test_several_calls_may_come_from_one_block():
    events, _ = fake("<go>+;a+;b?")
    assert events[0] == [*CALLED, *(each.replace("0", "1") for each in CALLED), "say b?"]


# ---- the end of the text inside a block


@check_each(
    ("text", "channel", "expected"),
    [
        ("<go>ab&c", "", ["say <go>ab&c"]),
        ("<go>ab&c", "done", ["say <go>ab&c"]),
        ("<go>a+b&c", "", ["note truncated_call", "judge f truncated truncated"]),
        ("<go>+;b&c", "", ["say b&c"]),
        ("<go>+;b&c", "done", ["say &c"]),
        ("<go>+;b", "done", []),
    ],
)
def test_what_a_reader_never_read_is_said_unless_it_belongs_to_a_call_that_was_cut(
    text: str, channel: str, expected: list[str]
):
    events, table = fake(text, channel=channel)
    assert events[-1] == expected
    assert table.readers[0].finished == 1


def test_what_a_reader_holds_back_is_given_to_it_again():
    events, table = fake("<go>a%", "b%", "c!")
    assert events == [[], [], ["say <go>a%b%c!"], []]
    assert table.readers[0].fed == ["a%", "%", "%b%", "%", "%c!"]


@check_each(("channel", "then"), [("", "say <go>!x"), ("final", "say x"), ("analysis", "think x")])
def test_a_header_gives_the_channel_of_the_text_behind_it(channel: str, then: str):
    events, _ = fake("<go>!x", channel=channel)
    assert events[0] == [then]


def test_the_channel_of_thinking_ends_with_the_next_header():
    events, _ = fake("<go>!x", "y", channel="analysis")
    assert events == [["think x"], ["think y"], ["note reasoning_unclosed"]]


def test_the_text_may_end_inside_a_block():
    events, table = fake("<go>ab%")
    assert events == [[], ["say <go>ab%"]]
    assert table.readers[0].finished == 1


def test_the_text_may_end_inside_a_block_whose_call_has_gone_out():
    events, table = fake("<go>a+b", "c")
    assert events == [["start 0 f"], [], ["note truncated_call", "judge f truncated truncated"]]
    assert table.readers[0].finished == 1


def letters(room: int = sys.maxsize, grown: list[int] | None = None) -> FastPath:
    """A run through letters. A comma waits for what follows it."""

    def read(text: str, found: re.Match[str]) -> tuple[CallArgs | None, int, bool]:
        end = found.start()
        return (CallArgs(0, text[:end]) if end else None), end, text[end:] == ","

    stops = re.compile(r"[^a-z]").search
    return FastPath(stops, lambda text: CallArgs(0, text), read, room, None if grown is None else grown.append)


def test_chunks_in_which_nothing_stops_a_run_are_not_read():
    grown: list[int] = []
    fast_path = letters(grown=grown)
    events, table = fake("<go>+", "ab", "c", "1", fast_path=fast_path)
    assert events[:3] == [["start 0 f"], ["args 0 ab"], ["args 0 c"]]
    assert table.readers[0].fed == ["+", "1"]
    assert grown[0] == 3


def test_a_run_that_is_full_ends():
    grown: list[int] = []
    events, table = fake("<go>+", "ab", "cde", "f", fast_path=letters(3, grown=grown))
    assert events[1] == ["args 0 ab"]
    assert table.readers[0].fed[:2] == ["+", "cde"]
    assert grown[0] == 2


def test_a_run_takes_as_much_as_it_has_room_for():
    events, table = fake("<go>+", "abc", "d", fast_path=letters(3))
    assert events[1] == ["args 0 abc"]
    assert table.readers[0].fed == ["+", "d"]


def test_a_character_that_says_nothing_yet_waits_for_the_next():
    events, table = fake("<go>+", "ab,", "c", fast_path=letters())
    assert events[1] == ["args 0 ab"]
    assert table.readers[0].fed == ["+", ",c"]


def test_what_a_run_cannot_read_is_read_the_long_way():
    events, table = fake("<go>+", "ab1c", fast_path=letters())
    assert events[1] == ["args 0 ab"]
    assert table.readers[0].fed == ["+", "1c"]


def test_what_waits_in_a_run_is_there_when_the_text_is_over():
    events, table = fake("<go>ab", ",", fast_path=letters())
    assert events == [[], [], ["say <go>ab,"]]
    assert table.readers[0].fed == ["ab", ","]


@pytest.mark.requirement("B8")
@check_each("end", ['"}}', '"}, 1', '"', ""])
def test_what_is_kept_silently_comes_back_as_text_if_it_was_no_call(end: str):
    """A bare object is held to its end. Its chunks go the short way, and none of them is lost."""
    text = '{"tool": "write_file", "args": {"content": "one, two \\n, three", "path": "' + "a b, c " * 20 + end
    whole, reader = fold(scan([text])), Scanner(TOOLS)
    events = [event for start in range(0, len(text), 4) for event in reader.feed(text[start : start + 4])]
    assert fold(events + reader.close()) == whole
    assert whole.text == ("" if whole.calls else text)


def test_a_run_is_told_at_the_end_how_much_came():
    grown: list[int] = []
    fake("<go>+", "abc", fast_path=letters(grown=grown))
    assert grown == [3]


def test_thinking_runs_as_plain_text_does():
    reader = Scanner()
    assert told(reader.feed("<think>so")) == ["think so"]
    assert reader._scanner._fast_path is not None
    assert told(reader.feed(" it is")) == ["think  it is"]
    assert told(reader.feed(".</think>Yes") + reader.feed(", it is")) == ["think .", "say Yes", "say , it is"]


def test_plain_text_runs_only_when_the_line_and_the_answer_have_begun():
    seen: list[bool] = []
    reader = Scanner()
    for chunk in ("a", "b", "\n", "c d", "<", "b", "`"):
        reader.feed(chunk)
        seen.append(reader._scanner._fast_path is not None)
    assert seen == [True, True, False, True, True, True, True]


def test_blocks_are_reported_with_their_offsets_in_a_whole_text():
    blocks: list[tuple[int, int | None, int]] = []
    table = FakeTable(Opening("d"))
    scanner = module.TextScanner(
        ParseContext(None), table, lambda start, end, builders: blocks.append((start, end, len(builders)))
    )
    assert told(scanner.read_all("a <go>b!c <go>+d"))[0] == "say a <go>b!c "
    assert blocks == [(2, 8, 0), (10, None, 1)]


@check_each(
    ("fed", "piece", "event"),
    [
        ("", "b", None),  # nothing has begun
        ("a", "", None),
        ("a", "<b", None),
        ("a <", "b", None),  # text waits for the next chunk
        ("a", "b", TextDelta("b")),
        ("<think>a", "b", ReasoningDelta("b")),
    ],
)
def test_plain_text_passes_through_as_one_event(fed: str, piece: str, event: Event | None):
    context = ParseContext(None)
    scanner = module.TextScanner(context, Marks(context))
    scanner.feed(fed)
    assert scanner.pass_through(TextDelta(piece)) == event


@check_each(("room", "event"), [(4, CallArgs(0, "abc")), (2, None)])
def test_string_arguments_pass_through_while_there_is_room(room: int, event: Event | None):
    scanner = module.TextScanner(ParseContext(None), FakeTable(Opening("d"), letters(room)))
    scanner.feed("<go>+")
    assert scanner.pass_through(TextDelta("abc")) == event
