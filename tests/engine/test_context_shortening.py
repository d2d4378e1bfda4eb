"""Results cut to head and tail: what is missing is counted, also when a result is cut again."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.types import Tool
from toolspeak.engine.context.shortening import as_stored, is_read_more, shorten

TEXT = "".join(f"line {number}\n" for number in range(1000))


def missing(text: str) -> int:
    found = re.search(r"\[\.\.\. (\d+) characters left out", text)
    return int(found[1]) if found else 0


def test_head_and_tail_stay_and_the_marker_says_what_is_missing_and_where():
    short = shorten(TEXT, 300, "call_1")
    assert short.startswith(TEXT[:200] + "\n[... ")
    assert short.endswith(" ...]\n" + TEXT[-100:])
    assert f'{len(TEXT) - 300} characters left out; read_more with id "call_1" and offset 200 shows them' in short
    assert "read_more" not in shorten(TEXT, 300)


@given(st.text(max_size=3000), st.lists(st.integers(1, 2500), min_size=1, max_size=4))
def test_cutting_again_loses_no_count(text: str, limits: list[int]):
    short = text
    for limit in sorted(limits, reverse=True):
        short = shorten(short, limit, "c")
    if short != text:
        marker = re.search(r"\n\[\.\.\. \d+ characters left out[^\n]* \.\.\.\]\n", short)
        assert marker is not None
        assert missing(short) == len(text) - (len(short) - len(marker[0]))
    assert shorten(short, min(limits), "c") == short
    assert short.count("characters left out") <= max(1, text.count("characters left out"))


def test_what_was_not_stored_is_said_to_be_lost():
    stored = as_stored(shorten(TEXT, 300, "call_1"))
    assert f"{len(TEXT) - 300} characters were not stored; run the tool again" in stored
    assert as_stored("short") == "short"


@check_each(
    ("tool", "is_it"),
    [
        (Tool("read_more", parameters={"properties": {"id": {}, "offset": {}}}), True),
        (Tool("read_more", parameters={"properties": {"url": {}}}), False),
        (Tool("read_more", parameters={"properties": 1}), False),
        (Tool("read_more"), False),
        (Tool("read", parameters={"properties": {"id": {}, "offset": {}}}), False),
    ],
)
def test_only_the_tool_that_takes_an_id_and_an_offset_is_read_more(tool: Tool, is_it: bool):
    assert is_read_more(tool) is is_it
