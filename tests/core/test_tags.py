"""Tags as models write them: every spelling folds to one, and a tag cut anywhere is only not there yet."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.parsing.tags import (
    MAX_LONG_TAG,
    MAX_TAG,
    MORE,
    NAMESPACES,
    NO_TAG,
    Tag,
    fold_name,
    has_word,
    lex_name,
    lex_tag,
    unescape,
)

FOLDED = [
    ("tool_call", "tool_call"),
    ("｜tool▁calls▁begin｜", "|tool_calls_begin|"),
    ("||im_end||", "|im_end|"),
    ("|||im_end|", "|im_end|"),
    ("｜｜DSML｜｜invoke", "invoke"),
    ("DSMLinvoke", "invoke"),
    ("antml:invoke", "invoke"),
    ("minimax:tool_call", "tool_call"),
    ("seed:think", "think"),
    ("seed:tool_call", "seed:tool_call"),  # a block of its own
    ("tool:name", "name"),
    ("mm:seed:x", "seed:x"),  # one prefix only
    ("antml:", "antml:"),  # nothing stands behind it
    ("xantml:invoke", "xantml:invoke"),
    ("", ""),
]


@check_each(("raw", "name"), FOLDED)
def test_a_name_has_one_spelling(raw: str, name: str):
    assert fold_name(raw) == name


@check_each("namespace", NAMESPACES)
def test_a_namespace_means_nothing(namespace: str):
    assert fold_name(f"{namespace}invoke") == "invoke"


NAMES = [
    ("<a", ("a", False, 2)),
    ("</a", ("a", True, 3)),
    ("< a b", ("a", False, 3)),
    ("</  a>", ("a", True, 5)),
    ("<a=b", ("a", False, 2)),
    ("<a/>", ("a", False, 2)),
    ("<", ("", False, 1)),
    ("</", ("", True, 2)),
    ('<"x', ("", False, 1)),
    ("<a<b", ("a", False, 2)),
]


@check_each(("text", "expected"), NAMES)
def test_the_name_of_a_tag_ends_where_a_name_must(text: str, expected: tuple[str, bool, int]):
    assert lex_name(text, 0) == expected
    name, closing, end = expected
    assert lex_name("<<" + text, 2) == (name, closing, end + 2)


def tag(kind: str, name: str, value: str = "", /, **attributes: str) -> tuple[Any, ...]:
    return kind, name, value, attributes


TAGS = [
    ("<a>", tag("open", "a")),
    ("</a>", tag("close", "a")),
    ("</ a >", tag("close", "a")),
    ("<a/>", tag("self", "a")),
    ('<a b="c" />', tag("self", "a", b="c")),
    ("<a =b/>", tag("self", "a", "b")),
    ("<function=get>", tag("open", "function", "get")),
    ("<function = “get” >", tag("open", "function", "get")),
    ("<function='get'>", tag("open", "function", "get")),
    ("<function=a&amp;b>", tag("open", "function", "a&b")),
    ('<invoke name="get">', tag("open", "invoke", name="get")),
    ("<invoke name='get'>", tag("open", "invoke", name="get")),
    ("<invoke name=“get”>", tag("open", "invoke", name="get")),
    ("<invoke name=”get”>", tag("open", "invoke", name="get")),
    ("<invoke name=get>", tag("open", "invoke", name="get")),
    ('<invoke name = " get " x:y-z.w="1">', tag("open", "invoke", **{"name": "get", "x:y-z.w": "1"})),
    ('<p name="a&quot;&lt;b">', tag("open", "p", name='a"<b')),
    ('<p name="a>b">', tag("open", "p", name="a>b")),
    ("<p name=“a>b”>", tag("open", "p", name="a>b")),
    ('<p\nname="a"\n>', tag("open", "p", name="a")),
    ('<｜DSML｜parameter name="k">', tag("open", "parameter", name="k")),
    ("<|open|>call<|sep|>", tag("open", "call")),
    ('<|open|>call tool="f" index="1"<|sep|>', tag("open", "call", tool="f", index="1")),
    ("<|open|> call <|sep|>", tag("open", "call")),
    ("<|close|>call<|sep|>", tag("close", "call")),
    ("<|open|><|sep|>", tag("open", "")),
    ("<|im_end|>", tag("open", "|im_end|")),
]
each_tag = check_each(("text", "expected"), TAGS)


@each_tag
def test_a_tag_is_read_with_its_attributes(text: str, expected: tuple[Any, ...]):
    assert lex_tag(text + " more>", 0, True) == Tag(*expected, end=len(text))
    assert lex_tag("x" + text, 1, False) == Tag(*expected, end=len(text) + 1)


@each_tag
@pytest.mark.requirement("B8")
def test_a_tag_that_is_cut_anywhere_is_not_there_yet(text: str, expected: tuple[Any, ...]):
    for end in range(1, len(text)):
        assert lex_tag(text[:end], 0, False) == MORE
        assert lex_tag(text[:end], 0, True) == NO_TAG


NOT_TAGS = ["<", "<a", "<a b", '<a "b>', "<a “b>", "<>", "</>", "< >", "<=a>", "<a<b>", "<a b<c>", "<|open|>x"]


@check_each("text", NOT_TAGS)
def test_what_is_no_tag_when_the_text_is_over_is_none(text: str):
    assert lex_tag(text, 0, True) == NO_TAG


@check_each("text", ["<>", "<a<b>", "<a <b", "< >"])
def test_what_can_never_be_a_tag_is_refused_at_once(text: str):
    assert lex_tag(text, 0, False) == NO_TAG


def test_a_tag_is_bounded():
    short = f'<a b="{"x" * (MAX_TAG - 8)}">'
    assert len(short) == MAX_TAG
    assert isinstance(lex_tag(short, 0, False), Tag)
    assert isinstance(lex_tag("....." + short, 5, False), Tag)
    assert lex_tag(short[:-1], 0, False) == MORE
    assert lex_tag(f'<a b="{"x" * MAX_TAG}', 0, False) == NO_TAG
    assert lex_tag(f'<a b="{"x" * (MAX_TAG - 7)}">', 0, False) == NO_TAG


def test_a_tag_of_two_marks_is_bounded():
    body = "x" * MAX_LONG_TAG
    assert lex_tag(f"<|open|>{body}", 0, False) == MORE
    assert lex_tag(f"<|open|>{body}y", 0, False) == NO_TAG
    assert isinstance(lex_tag(f"<|open|>{body[:-7]}<|sep|>", 0, False), Tag)
    assert lex_tag(f"<|open|>{body}<|sep|>", 0, True) == NO_TAG


WORDS = [
    ("<tool_call k7>", True),
    ("k7", True),
    ("<k7>", True),
    ("k7_", True),
    ("k77", False),
    ("ak7", False),
    ("k77 k7", True),
    ("k7k7", False),
    ("", False),
    ("ék7", False),
]


@pytest.mark.requirement("R-E2")
@check_each(("text", "found"), WORDS)
def test_a_word_is_found_only_where_it_stands_alone(text: str, found: bool):
    assert has_word(text, "k7") is found


ENTITIES = [
    ("plain", "plain"),
    ("&lt;a&gt; &amp; &quot;&apos;", "<a> & \"'"),
    ("&amp;lt;", "&lt;"),  # once
    ("&lt;&#65;", "<A"),
    ("&#65;&#x41;&#X1f600;", "AA😀"),
    ("&nbsp; & &lt", "&nbsp; & &lt"),
    ("&#0;&#xD800;&#57343;&#1114112;", "&#0;&#xD800;&#57343;&#1114112;"),
    ("&#xD7FF;&#xE000;&#1114111;", "\ud7ff\ue000\U0010ffff"),
    ("&#12345678;&#x1234567;", "&#12345678;&#x1234567;"),
]


@check_each(("text", "meaning"), ENTITIES)
def test_entities_are_decoded_once(text: str, meaning: str):
    assert unescape(text) == meaning


@given(st.text(st.sampled_from("<>/=\"'“” ab|｜:\n&;"), max_size=40), st.integers(0, 40))
def test_more_text_changes_an_answer_only_from_not_yet(text: str, cut: int):
    text = "<" + text
    early = lex_tag(text[: cut + 1], 0, False)
    if early != MORE:
        assert lex_tag(text, 0, True) == early


@given(st.text(st.sampled_from("&#;x1fltgamp "), max_size=40))
def test_decoding_leaves_nothing_but_what_it_does_not_know(text: str):
    assert unescape(re.sub("&", "&amp;", text)) == text
