"""Shortcuts through a long text: what goes that way, what waits, and what ends it."""

from __future__ import annotations

import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolspeak.core.events import CallArgs, Event, TextDelta
from toolspeak.core.parsing.fast_paths import MarkupRun, Run, StrictRun
from toolspeak.core.parsing.tags import unescape

pytestmark = pytest.mark.requirement("B8", "B11")

NO_LETTER = re.compile(r"[^a-z]").search


def fragments(events: list[Event]) -> list[str]:
    return [event.fragment for event in events if isinstance(event, CallArgs)]


# ---- what all runs share


def test_a_run_has_all_the_room_there_is_unless_it_is_told():
    assert Run(NO_LETTER, TextDelta).left == sys.maxsize
    assert Run(NO_LETTER, TextDelta, room=5).left == 5


def test_a_run_tells_in_the_end_how_much_came_its_way_and_what_did_not():
    grown: list[int] = []
    run = Run(NO_LETTER, TextDelta, None, 5, grown.append)
    assert run.feed("abc") == [TextDelta("abc")]
    assert run.feed("d1") == []
    assert (run.over, run.end(), grown) == (True, "d1", [3])


def test_a_run_that_nobody_counts_ends_all_the_same():
    assert Run(NO_LETTER, TextDelta).end() == ""


def test_nothing_has_no_event():
    run = Run(NO_LETTER, TextDelta)
    assert (run.feed(""), run.over) == ([], False)


@pytest.mark.parametrize("chunk", ["abcd", "ab1d"])
def test_a_run_that_is_full_is_over(chunk: str):
    run = Run(NO_LETTER, TextDelta, lambda text, found: (None, len(text), False), 3)
    assert (run.feed(chunk), run.over, run.rest) == ([], True, chunk)


def test_what_cannot_be_written_is_left_to_the_reader():
    run = Run(NO_LETTER, TextDelta, lambda text, found: (None, len(text), False))
    assert (run.feed("a\ud800"), run.over, run.rest) == ([], True, "a\ud800")


def test_what_has_no_event_is_kept_as_it_came():
    run = Run(NO_LETTER, lambda text: None, lambda text, found: (None, found.start(), True), silent=True)
    assert [run.feed(chunk) for chunk in ("ab", "c1", "")] == [[], [], []]
    assert (run.raw, run.rest, run.over) == (["ab", "c", ""], "1", False)


# ---- strings that are strict JSON as they stand


def strict(index: int | None = 0, room: int = 1000) -> tuple[StrictRun, list[str], list[int]]:
    kept: list[str] = []
    mended: list[int] = []
    return StrictRun(kept.append, index, room, mended.append, lambda: mended.append(0)), kept, mended


PLAIN = [
    "plain text, and more",
    "é你😀\x7f\u2028",
    "it's",
    '\\n, \\"x\\"\\\\, y',
    ",x",
    ", , ,x",
    "\\u00e9",
    "\\ud83d\\ude00",
]


@pytest.mark.parametrize("chunk", PLAIN)
def test_content_of_a_strict_string_passes_as_it_is(chunk: str):
    run, kept, _ = strict()
    assert (fragments(run.feed(chunk)), run.rest, run.over, kept) == ([chunk], "", False, [chunk])


@pytest.mark.parametrize(
    "begun", ["\\", "\\u", "\\u00e", "\\ud83d", "\\ud83d\\", "\\ud83d\\u", "\\ud83d\\ude0", ",", ",  ", "," + " " * 64]
)
def test_what_may_become_content_waits(begun: str):
    run, kept, _ = strict()
    assert (fragments(run.feed("a" + begun)), run.rest, run.over, kept) == (["a"], begun, False, ["a"])
    assert (run.feed(""), run.rest) == ([], begun)


@pytest.mark.parametrize(
    "special", ['"', "\\d", "\\ux", "\\ude00", "\\ud83dx", "\\ud83d\\n", "\ud800", ',"', ', "', "," + " " * 65, '\n"']
)
def test_anything_else_is_left_to_the_reader(special: str):
    run, _, _ = strict()
    run.feed("a")
    passed = "".join(fragments(run.feed("b" + special)))
    assert run.over
    assert passed.replace("\\n", "\n") + run.end() == "b" + special


def test_raw_control_characters_are_mended():
    run, kept, mended = strict()
    assert fragments(run.feed("a\nb\t\nc\\")) == ["a\\nb\\t\\nc"]
    assert (run.rest, run.over, mended) == ("\\", False, [0, 0, 0])
    assert fragments(run.feed("n\n")) == ["\\n\\n"]
    assert kept == ["a\\nb\\t\\nc", "\\n\\n"]


@pytest.mark.parametrize("chunk", ["abcd", "abc\n", "abc,"])
def test_a_strict_run_has_only_so_much_room(chunk: str):
    run, kept, _ = strict(room=3)
    events = run.feed(chunk)
    assert (run.over, "".join(fragments(events)) + run.rest) == (not chunk.endswith(","), chunk)
    assert kept == (["abc"] if chunk == "abc," else [])


def test_a_strict_string_that_may_not_flow_is_kept():
    run, kept, mended = strict(index=None)
    assert [run.feed(chunk) for chunk in ("ab", "c\n\\", "n")] == [[], [], []]
    assert (run.silent, kept, run.raw) == (True, ["ab", "c\\n", "\\n"], ["ab", "c\n", "\\n"])
    assert (run.take("x"), kept[-1]) == (None, "x")
    run.end()
    assert mended == [0, 6]


@given(st.text('ab,nu0\\d8 "\n\u0007/'), st.integers(1, 5))
def test_what_a_strict_run_passes_on_is_strict_json_however_it_is_cut(text: str, size: int):
    run, kept, _ = strict()
    told: list[Event] = []
    for start in range(0, len(text), size):
        told += run.feed(text[start : start + size])
        if run.over:
            break
    assert "".join(fragments(told)) == "".join(kept)
    json.loads(f'"{"".join(kept)}"')


@given(st.text('ab,n\\ "\n\u0007/u1', min_size=1, max_size=12))
def test_a_chunk_in_which_nothing_stops_a_strict_run_is_passed_on_whole(chunk: str):
    run, kept, _ = strict()
    if run.stops(chunk) is None:
        assert fragments(run.feed(chunk)) == [chunk] == kept


# ---- text between tags


def markup(index: int | None = 0, room: int = 1000) -> tuple[MarkupRun, list[str]]:
    kept: list[str] = []
    stops = re.compile(r"<(?:b|\Z|/(\w+))|&\w{0,4}\Z|[\ud800-\udfff]").search
    grow = [].append

    def resolve(text: str, found: re.Match[str]) -> re.Match[str] | None:
        return found if found[1] == "b" else stops(text, found.end())

    return MarkupRun(
        stops, resolve, kept.append, index, lambda text, found: (None, 0, False), unescape, room, grow
    ), kept


def test_text_between_tags_is_decoded_and_escaped():
    run, kept = markup()
    assert fragments(run.feed('a < b "c"\n&lt;')) == ['a < b \\"c\\"\\n<'] == kept
    assert run.take("&amp;") == CallArgs(0, "&")


def test_what_is_found_at_the_end_waits():
    run, _ = markup()
    assert [fragments(run.feed(chunk)) for chunk in ("", "a<", "c&", "l", "t", ";", "<")] == [
        [], ["a"], ["<c"], [], [], ["<"], [],
    ]  # fmt: skip
    assert (run.rest, run.over) == ("<", False)
    assert (run.feed("b"), run.over, run.rest) == ([], False, "<b")
    assert (run.feed("x"), run.over, run.end()) == ([], True, "<bx")


def test_what_is_caught_may_turn_out_to_mean_nothing():
    run, _ = markup()
    assert [fragments(run.feed(chunk)) for chunk in ("a</c>", "</c", "></c><", "</b")] == [
        ["a</c>"],
        ["</c"],
        ["></c>"],
        ["<"],
    ]
    assert (run.rest, run.feed(">"), run.over) == ("</b", [], True)


def test_a_run_between_tags_has_only_so_much_room():
    run, kept = markup(room=3)
    assert (run.feed("abcd"), run.over, run.rest, kept) == ([], True, "abcd", [])


def test_text_between_tags_that_may_not_flow_is_kept_as_it_came_and_as_it_is_meant():
    run, kept = markup(index=None)
    assert run.feed("&lt;") == []
    assert (run.take("x"), run.silent, run.raw, kept) == (None, True, ["&lt;"], ["<", "x"])
