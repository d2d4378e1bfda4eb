"""Shortcuts through a long text: what goes that way, what waits, and what ends it."""

from __future__ import annotations

import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.events import CallArgs, Event, TextDelta
from toolspeak.core.parsing.fast_paths import FastPath, MarkupFastPath, StrictFastPath

pytestmark = pytest.mark.requirement("B8", "B11")

NO_LETTER = re.compile(r"[^a-z]").search


def fragments(events: list[Event]) -> list[str]:
    return [event.fragment for event in events if isinstance(event, CallArgs)]


# ---- what all runs share


def test_a_run_has_all_the_room_there_is_unless_it_is_told():
    assert FastPath(NO_LETTER, TextDelta).remaining == sys.maxsize
    assert FastPath(NO_LETTER, TextDelta, room=5).remaining == 5


def test_a_run_tells_in_the_end_how_much_came_its_way_and_what_did_not():
    grown: list[int] = []
    fast_path = FastPath(NO_LETTER, TextDelta, None, 5, grown.append)
    assert fast_path.feed("abc") == [TextDelta("abc")]
    assert fast_path.feed("d1") == []
    assert (fast_path.over, fast_path.end(), grown) == (True, "d1", [3])


def test_a_run_that_nobody_counts_ends_all_the_same():
    assert FastPath(NO_LETTER, TextDelta).end() == ""


def test_nothing_has_no_event():
    fast_path = FastPath(NO_LETTER, TextDelta)
    assert (fast_path.feed(""), fast_path.over) == ([], False)


@check_each("chunk", ["abcd", "ab1d"])
def test_a_run_that_is_full_is_over(chunk: str):
    fast_path = FastPath(NO_LETTER, TextDelta, lambda text, found: (None, len(text), False), 3)
    assert (fast_path.feed(chunk), fast_path.over, fast_path.rest) == ([], True, chunk)


def test_what_cannot_be_written_is_left_to_the_reader():
    fast_path = FastPath(NO_LETTER, TextDelta, lambda text, found: (None, len(text), False))
    assert (fast_path.feed("a\ud800"), fast_path.over, fast_path.rest) == ([], True, "a\ud800")


def test_what_has_no_event_is_kept_as_it_came():
    fast_path = FastPath(NO_LETTER, lambda text: None, lambda text, found: (None, found.start(), True), silent=True)
    assert [fast_path.feed(chunk) for chunk in ("ab", "c1", "")] == [[], [], []]
    assert (fast_path.raw, fast_path.rest, fast_path.over) == (["ab", "c", ""], "1", False)


# ---- strings that are strict JSON as they stand


def strict(index: int | None = 0, room: int = 1000) -> tuple[StrictFastPath, list[str], list[int]]:
    kept: list[str] = []
    mended: list[int] = []
    return StrictFastPath(kept.append, index, room, mended.append, lambda: mended.append(0)), kept, mended


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


@check_each("chunk", PLAIN)
def test_content_of_a_strict_string_passes_as_it_is(chunk: str):
    fast_path, kept, _ = strict()
    assert (fragments(fast_path.feed(chunk)), fast_path.rest, fast_path.over, kept) == ([chunk], "", False, [chunk])


@check_each(
    "begun", ["\\", "\\u", "\\u00e", "\\ud83d", "\\ud83d\\", "\\ud83d\\u", "\\ud83d\\ude0", ",", ",  ", "," + " " * 64]
)
def test_what_may_become_content_waits(begun: str):
    fast_path, kept, _ = strict()
    assert (fragments(fast_path.feed("a" + begun)), fast_path.rest, fast_path.over, kept) == (
        ["a"],
        begun,
        False,
        ["a"],
    )
    assert (fast_path.feed(""), fast_path.rest) == ([], begun)


@check_each(
    "special", ['"', "\\d", "\\ux", "\\ude00", "\\ud83dx", "\\ud83d\\n", "\ud800", ',"', ', "', "," + " " * 65, '\n"']
)
def test_anything_else_is_left_to_the_reader(special: str):
    fast_path, _, _ = strict()
    fast_path.feed("a")
    passed = "".join(fragments(fast_path.feed("b" + special)))
    assert fast_path.over
    assert passed.replace("\\n", "\n") + fast_path.end() == "b" + special


def test_raw_control_characters_are_mended():
    fast_path, kept, mended = strict()
    assert fragments(fast_path.feed("a\nb\t\nc\\")) == ["a\\nb\\t\\nc"]
    assert (fast_path.rest, fast_path.over, mended) == ("\\", False, [0])
    assert fragments(fast_path.feed("n\n")) == ["\\n\\n"]
    assert kept == ["a\\nb\\t\\nc", "\\n\\n"]


@check_each("chunk", ["abcd", "abc\n", "abc,"])
def test_a_strict_run_has_only_so_much_room(chunk: str):
    fast_path, kept, _ = strict(room=3)
    events = fast_path.feed(chunk)
    assert (fast_path.over, "".join(fragments(events)) + fast_path.rest) == (not chunk.endswith(","), chunk)
    assert kept == (["abc"] if chunk == "abc," else [])


def test_a_strict_string_that_may_not_flow_is_kept():
    fast_path, kept, mended = strict(index=None)
    assert [fast_path.feed(chunk) for chunk in ("ab", "c\n\\", "n")] == [[], [], []]
    assert (fast_path.silent, kept, fast_path.raw) == (True, ["ab", "c\\n", "\\n"], ["ab", "c\n", "\\n"])
    assert (fast_path.take("x"), kept[-1]) == (None, "x")
    fast_path.end()
    assert mended == [0, 6]


@given(st.text('ab,nu0\\d8 "\n\u0007/'), st.integers(1, 5))
def test_what_a_strict_run_passes_on_is_strict_json_however_it_is_cut(text: str, size: int):
    fast_path, kept, _ = strict()
    told: list[Event] = []
    for start in range(0, len(text), size):
        told += fast_path.feed(text[start : start + size])
        if fast_path.over:
            break
    assert "".join(fragments(told)) == "".join(kept)
    json.loads(f'"{"".join(kept)}"')


@given(st.text('ab,n\\ "\n\u0007/u1', min_size=1, max_size=12))
def test_a_chunk_in_which_nothing_stops_a_strict_run_is_passed_on_whole(chunk: str):
    fast_path, kept, _ = strict()
    if fast_path.stops(chunk) is None:
        assert fragments(fast_path.feed(chunk)) == [chunk] == kept


# ---- text between tags


def markup(index: int | None = 0, room: int = 1000) -> tuple[MarkupFastPath, list[str]]:
    kept: list[str] = []
    stops = re.compile(r"<(?:b|\Z|/(\w+))|[\ud800-\udfff]").search
    grow = [].append

    def resolve(text: str, found: re.Match[str]) -> re.Match[str] | None:
        return found if found[1] == "b" else stops(text, found.end())

    return MarkupFastPath(stops, resolve, kept.append, index, lambda text, found: (None, 0, False), room, grow), kept


def test_text_between_tags_is_escaped():
    fast_path, kept = markup()
    assert fragments(fast_path.feed('a < b "c"\n&lt;')) == ['a < b \\"c\\"\\n&lt;'] == kept
    assert fast_path.take("&amp;") == CallArgs(0, "&amp;")


def test_what_is_found_at_the_end_waits():
    fast_path, _ = markup()
    assert [fragments(fast_path.feed(chunk)) for chunk in ("", "a<", "c", "<")] == [[], ["a"], ["<c"], []]
    assert (fast_path.rest, fast_path.over) == ("<", False)
    assert (fast_path.feed("b"), fast_path.over, fast_path.rest) == ([], False, "<b")
    assert (fast_path.feed("x"), fast_path.over, fast_path.end()) == ([], True, "<bx")


def test_what_is_caught_may_turn_out_to_mean_nothing():
    fast_path, _ = markup()
    assert [fragments(fast_path.feed(chunk)) for chunk in ("a</c>", "</c", "></c><", "</b")] == [
        ["a</c>"],
        ["</c"],
        ["></c>"],
        ["<"],
    ]
    assert (fast_path.rest, fast_path.feed(">"), fast_path.over) == ("</b", [], True)


def test_a_run_between_tags_has_only_so_much_room():
    fast_path, kept = markup(room=3)
    assert (fast_path.feed("abcd"), fast_path.over, fast_path.rest, kept) == ([], True, "abcd", [])


def test_text_between_tags_that_may_not_flow_is_kept_as_it_came_and_as_it_is_meant():
    fast_path, kept = markup(index=None)
    assert fast_path.feed("a\n") == []
    assert (fast_path.take("x"), fast_path.silent, fast_path.raw, kept) == (None, True, ["a\n"], ["a\\n", "x"])
