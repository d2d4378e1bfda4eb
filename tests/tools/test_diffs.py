"""Diffs of files: readable, exact, and bounded in size and time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.tools import diffs
from toolspeak.tools.diffs import shorten_diff, unified_diff

pytestmark = pytest.mark.requirement("F10")
HEAD = "--- a/f\n+++ b/f\n"
NUMBERED = [f"line {number}\n" for number in range(1, 21)]


def joined(*lines: str) -> bytes:
    return "".join(lines).encode()


@check_each(
    ("before", "after", "expected"),
    [
        (b"a\n", b"a\n", ""),
        (b"", b"", ""),
        (None, b"", "--- /dev/null\n+++ b/f\n"),
        (None, b"a\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+a\n"),
        (b"a\n", b"", HEAD + "@@ -1,1 +0,0 @@\n-a\n"),
        (b"a\nb\n", b"a\nc\n", HEAD + "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        (b"a", b"a\n", HEAD + "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"),
        (b"a\r\nb\r\n", b"a\r\nc\r\n", HEAD + "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"),
        ("a\u2028b\n".encode(), "a\u2028c\n".encode(), HEAD + "@@ -1,1 +1,1 @@\n-a\u2028b\n+a\u2028c\n"),
        (b"\x7fELF\0", b"text", HEAD + "Binary files differ\n"),
        (b"caf\xe9", b"text", HEAD + "Binary files differ\n"),
    ],
)
def test_a_diff_shows_what_was_removed_and_added(before: bytes | None, after: bytes, expected: str):
    assert unified_diff("f", before, after) == expected


def test_changes_far_apart_have_a_hunk_each_with_three_lines_around():
    after = list(NUMBERED)
    after[4], after[15] = "five\n", "sixteen\n"
    lines = unified_diff("f", joined(*NUMBERED), joined(*after)).splitlines()
    assert [line for line in lines if line.startswith("@@")] == ["@@ -2,7 +2,7 @@", "@@ -13,7 +13,7 @@"]
    assert lines[3:11] == [" line 2", " line 3", " line 4", "-line 5", "+five", " line 6", " line 7", " line 8"]


@given(st.text("ab\n", max_size=60), st.text("ab\n", max_size=60))
def test_a_diff_leads_from_one_version_to_the_other(before: str, after: str):
    assert _applied(before, unified_diff("f", before.encode(), after.encode())) == after


@given(st.text("ab\n", max_size=60), st.text("ab\n", max_size=60))
def test_so_does_one_that_replaces_a_large_part_as_a_whole(before: str, after: str):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(diffs, "_MAX_COMPARED_LINES", 0)
        assert _applied(before, unified_diff("f", before.encode(), after.encode())) == after


def _applied(before: str, diff: str) -> str:
    """Apply a diff, and check that the lines which it names are there."""
    lines = before.split("\n")
    lines = [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]
    made: list[str] = []
    at = 0
    shown = diff.split("\n")[2:-1]
    for number, line in enumerate(shown):
        if line.startswith("@@"):
            start, count = map(int, line.split()[1][1:].split(","))
            start -= count > 0
            made += lines[at:start]
            at = start
            continue
        if line.startswith("\\"):
            continue
        whole = line[1:] + ("" if shown[number + 1 : number + 2] == ["\\ No newline at end of file"] else "\n")
        if line[0] in " -":
            assert lines[at] == whole
            at += 1
        if line[0] in " +":
            made.append(whole)
    return "".join([*made, *lines[at:]])


def test_a_large_change_is_shown_as_a_replacement_and_shortened():
    diff = unified_diff("f", b"x\n" * 1000, b"x\n" + b"y\n" * 1200)
    lines = diff.splitlines()
    assert lines[2] == "@@ -2,999 +2,1200 @@"
    assert lines[3:5] == ["-x", "-x"]
    assert lines[503] == "[499 more lines]"
    assert lines[504:506] == ["+y", "+y"]
    assert lines[-1] == "[700 more lines]"


def test_long_lines_and_long_diffs_are_cut():
    lines = unified_diff("f", b"", b"x" * 10_000).splitlines()
    assert lines[3] == "+" + "x" * 499 + "…"
    diff = unified_diff("f", b"", b"".join(b"%d" % number + b"x" * 400 + b"\n" for number in range(290)))
    assert len(diff) < 65 * 1024
    assert diff.splitlines()[-1] == "[128 more lines]"


def test_a_diff_is_shortened_for_the_screen():
    diff = unified_diff("f", None, b"1\n2\n3\n")
    assert shorten_diff(diff, 4) == ["--- /dev/null", "+++ b/f", "@@ -0,0 +1,3 @@", "+1", "[2 more lines]"]
    assert shorten_diff(diff, 6) == diff.splitlines()
    assert shorten_diff("", 6) == []
