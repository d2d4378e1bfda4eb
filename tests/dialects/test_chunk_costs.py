"""What a short chunk of a long text costs: the same at any length, and not much more where the text is full of signs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import tool
from tests.time_growth import assert_cheap_beside, assert_linear
from toolspeak import Scanner, fold
from toolspeak.core.events import Event

pytestmark = [pytest.mark.requirement("R-T12", "B8"), pytest.mark.no_cover]

TOOLS = (tool("save", text="string"),)
SIZE = 40_000
CHUNK = 4
#: A chunk full of signs may cost so many times what one of plain words does: each sign that went the long way, through
#: the reader, would cost ten times as much.
MOST = 8.0

WORDS = "It was a bright cold day in April and the clocks were striking. "
TEXTS = {
    "HTML": '<div class="a"><h2>b</h2>\n  <p>c <b>d</b> <a href="/e">f</a></p></div>\n',
    "XML": '<a><b c="d">e</b></a>',
    "comments": "<!-- a -->\n",
    "C++": "std::vector<T> f(const T& v) { return a < b && c[i] > d; }\n",
    "entities": "a &lt;b&gt; &amp; ",
    "quotes and backslashes": '{"a": "b\\\\c", "d": ["\\n"]}\n',
    "letters of other scripts": "你好,世界 é ",
}
#: How a text is written as an argument, and what stands around it.
WAYS: dict[str, tuple[str, Callable[[str], str], str]] = {
    "JSON": (
        '<tool_call>{"name":"save","arguments":{"text":"',
        lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
        '"}}</tool_call>',
    ),
    "escaped JSON": (
        '<tool_call>{"name":"save","arguments":{"text":"',
        lambda text: json.dumps(text)[1:-1],
        '"}}</tool_call>',
    ),
    "JSON with raw line breaks": (
        '<tool_call>{"name":"save","arguments":{"text":"',
        lambda text: json.dumps(text, ensure_ascii=False)[1:-1].replace("\\n", "\n"),
        '"}}</tool_call>',
    ),
    "tags": ("<function=save><parameter=text>", str, "</parameter></function>"),
    "tags on lines of their own": ("<function=save>\n<parameter=text>\n", str, "\n</parameter>\n</function>"),
    "raw quotes": ('<|tool_call>call:save{text:<|"|>', str, '<|"|>}<tool_call|>'),
}


def reading(way: str, text: str, size: int) -> Callable[[], list[Event]]:
    """Reads a call with `size` characters of the text as they are written, in small chunks."""
    head, write, tail = WAYS[way]
    unit = write(text)
    whole = head + unit * (size // len(unit)) + tail
    chunks = [whole[start : start + CHUNK] for start in range(0, len(whole), CHUNK)]

    def run() -> list[Event]:
        scanner = Scanner(TOOLS)
        events = [event for chunk in chunks for event in scanner.feed(chunk)]
        return [*events, *scanner.close()]

    assert [call.name for call in fold(run()).calls] == ["save"]
    return run


@pytest.mark.no_cover
@check_each("way", WAYS)
@check_each("text", TEXTS)
def test_a_chunk_costs_the_same_however_long_the_text_is(text: str, way: str):
    assert_linear(lambda size: reading(way, TEXTS[text], size), SIZE)


@pytest.mark.no_cover
@check_each("way", WAYS)
@check_each("text", TEXTS)
def test_a_chunk_full_of_signs_costs_little_more_than_one_of_words(text: str, way: str):
    assert_cheap_beside(reading(way, TEXTS[text], SIZE), reading(way, WORDS, SIZE), MOST)
