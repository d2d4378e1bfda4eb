"""Which quote closes a string, and how little of the text that takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.json_repair import lookahead
from toolspeak.core.json_repair.lookahead import LOOKAHEAD, QUOTES
from toolspeak.core.json_repair.quotes import QuoteContext, closes, lost_quote, may_follow_call, opens_inner

pytestmark = pytest.mark.requirement("B4")

#: place, closers that are waited for, text behind the quote, whether the quote closes
VALID_CONTINUATIONS = [
    ("object", "}", "}"),
    ("object", "}", " }"),
    ("object", "}}", "}}"),
    ("object", "}", "} and more"),
    ("object", "}", ', "k": 1}'),
    ("object", "}", '\n,\n "k" : 1}'),
    ("object", "}", ', "": 1}'),
    ("object", "}", ', "k\\"x": 1}'),
    ("object", "}", ', " odd, key: ": 1}'),
    ("object", "}]", '}, {"k": 1}]'),
    ("object", "]}", "}]"),
    ("array", "]", "]"),
    ("array", "]", ', "x"]'),
    ("array", "]", ", 1]"),
    ("array", "]", ", -1]"),
    ("array", "]", ", true]"),
    ("array", "]", ", null]"),
    ("array", "]", ", {}]"),
    ("array", "]", ", [1]]"),
    ("array", "}]", '], "k": 1}'),
    ("element", "]", "]"),
    ("element", "]", ', "x"]'),
    ("key", "}", ": 1}"),
    ("key", "}", " : 1}"),
    ("call", ")", ")"),
    ("call", ")", ", k=1)"),
    ("argument", ")", ")"),
    ("argument", ")", ', "x")'),
    ("argument", ")", ", x)"),
    ("argument", ")", "=1)"),
    ("argument", ")", ': "x")'),
    ("root", "", " anything"),
]


@check_each(("place", "closers", "text"), VALID_CONTINUATIONS)
def test_what_the_grammar_allows_behind_a_closing_quote_is_a_close(place: str, closers: str, text: str):
    assert closes('x"' + text, 2, True, QuoteContext(place, closers)) is True  # pyright: ignore[reportArgumentType]
    assert closes(text, 0, False, QuoteContext(place, closers)) in (True, None)  # pyright: ignore[reportArgumentType]


#: place, closers, text behind the quote, with an inner quote open, whether it closes
DECISIONS = [
    ("object", "}", 'hello" to me"}', False, False),
    ("object", "}", ' to me"}', True, False),
    ("object", "}", '}" there"}', False, False),
    ("object", "}", ' }" there"}', False, False),
    ("object", "}", '}"', False, True),
    ("object", "}", '}" \n', False, True),
    ("object", "}", "}'", False, True),
    ("object", "}", ': "v"', False, False),
    ("object", "}", " : 1", False, False),
    ("object", "}", ">ok", False, False),
    ("object", "}", ". Then", False, False),
    ("object", "}", "!", False, False),
    ("object", "}}", "} text", False, False),
    ("object", "}}", "} 1", False, False),
    ("object", "}}", "}.", False, True),
    ("object", "}", "]}", False, True),
    ("object", "}", ")}", False, True),
    ("object", "}", "]) x", False, False),
    ("object", "}", "]]}", False, False),
    ("object", "}", "] x", False, False),
    ("object", "}", ")", False, True),
    ("object", "}", ')"}', False, False),
    ("object", "}", "]}", True, False),
    # commas
    ("object", "}", ", default) x", False, False),
    ("object", "}", ', "default")"}', False, False),
    ("object", "}", ', "default")"}', True, False),
    ("object", "}", ", b: 1}", False, True),
    ("object", "}", ', b": 1}', False, True),
    ("object", "}", ', b "c": 1}', False, True),
    ("object", "}", ', b c "c": 1}', False, True),
    ("object", "}", ', b c "c" 1}', False, False),
    ("object", "}", ', "b:"x"}', False, True),
    ("object", "}", ', "b"}', False, True),
    ("object", "}", ', "b" }', False, True),
    ("object", "}", ', "b", "c"}', False, True),
    ("object", "}", ', "b", "c": 1}', False, True),
    ("object", "}", ', "b" "c"}', False, True),
    ("object", "}", ', "b" "c" x', False, False),
    ("object", "}", ', "b" c', False, False),
    ("object", "}", ", b}", False, True),
    ("object", "}", ", b, c}", False, True),
    ("object", "}", ", b c}", False, False),
    ("object", "}", ", (b", False, False),
    ("object", "}", ", [1]}", False, False),
    ("object", "}", ', {"b": 1}', False, False),
    ("object", "]}", ', {"b": 1}', False, True),
    ("object", "]}", ', {"b": 1}', True, False),
    ("object", "}", ",}", False, True),
    ("object", "}", ",, ", False, True),
    ("object", "}", ", // x", False, True),
    ("object", "}", ", # x", False, True),
    ("object", "}", ", ...}", False, True),
    ("object", "}", ", ..x !", False, False),
    ("object", "}", ", .", False, True),
    ("object", "}", '， "b": 1}', False, True),
    ("object", "}", '; "b": 1}', False, True),
    # an inner quote is open
    ("object", "}", ', "b": "y"}", "n": 3}', True, False),
    ("object", "}", ', "b": [1]}", "n": 3}', True, False),
    ("object", "}", ', "b": {"c": [1]}}', True, True),
    ("object", "}", ', "b": 1} and', True, False),
    ("object", "}", ', "b": 1}\n and', True, True),
    ("object", "}", ', "b": 1}and', True, False),
    ("object", "}", ", b c)", True, False),
    ("object", "}}", '}, "b": 1}', True, True),
    ("object", "}}", '}, "b": {"c": 1}}.', True, True),
    ("object", "}}", '}, "b": {"c": 1} x', True, True),
    ("object", "}}", '}, "b": {"c": 1} }" x', True, False),
    ("object", "}}", '}, "b": {"c": 1}} x', True, False),
    ("object", "}]}", '}, "b", [1] x', True, True),
    ("object", "}", ', "b", c: 1}', False, True),
    ("object", "}", ', "b" "c", d', False, True),
    ("object", "}}", '}, "b": 1}}.', True, True),
    ("object", "}}", '}, "b": 1}" x', True, False),
    ("object", "}", "}", True, True),
    ("object", "}", "}.", True, True),
    ("object", "}", "} ok", True, False),
    ("object", "}", '}, "b": 1}"', True, False),
    ("object", "}", "} } ok", True, False),
    ("object", "}", " // x", True, False),
    ("object", "}", ' "k": 1', True, False),
    ("array", "]", ', "b"]', True, True),
    ("array", "]", ', "b", "c" ] x', True, True),
    ("array", "]", ', "b", "c")"]', True, False),
    ("array", "]", ', "b" now"]', True, False),
    ("array", "]", ', "b", c"]', True, False),
    ("array", "]", ", 1]", True, False),
    ("argument", ")", ', "b")', True, True),
    ("argument", ")", ', "b")")', True, False),
    ("argument", ")", ', "b"] x', True, False),
    # neither comma nor closer
    ("object", "}", ' "b": 1}', False, True),
    ("object", "}", '"b": 1}', False, True),
    ("object", "}", '", "b": 1}', False, False),
    ("object", "}", ' " b": 1}', False, False),
    ("object", "}", ' "b" 1}', False, False),
    ("object", "}", " true}", False, True),
    ("object", "}", "true}", False, False),
    ("object", "}", " b c }", False, True),
    ("object", "}", " b-c}", False, True),
    ("object", "}", " b c, d: 1}", False, True),
    ("object", "}", " b c, d", False, True),
    ("object", "}", " b c, d)", False, False),
    ("object", "}", ' b "c": 1}', False, True),
    ("object", "}", ' b "c" d', False, False),
    ("object", "}", " b: 1}", False, False),
    ("object", "}", "\n b: 1}", False, True),
    ("object", "}", "\nb: 1}", False, True),
    ("object", "}", "\n b = 1}", False, True),
    ("object", "}", " b (c)", False, False),
    ("object", "}", " (c)", False, False),
    ("object", "}", " " + "w " * 40 + "}", False, False),
    ("object", "}", " }", False, True),
    ("object", "}", " // x", False, True),
    ("object", "}", "/* x", False, True),
    ("object", "}", "# x", False, True),
    ("object", "}", "/x", False, False),
    ("object", "}", "```", False, True),
    ("object", "}", "``x", False, False),
    ("object", "}", "``", False, True),
    ("array", "]", ' "b"]', False, True),
    ("array", "]", '"b"]', False, False),
    ("array", "]", ": 1]", False, False),
    ("element", "]", ": 1]", False, True),
    ("element", "]", ': "x"]', False, True),
    ("element", "]", ": x]", False, False),
    ("element", "]", ":", False, True),
    ("argument", ")", ": x)", False, False),
    ("call", ")", ": 1)", False, False),
    ("array", "]", " 1]", False, True),
    ("array", "]", " 1, 2]", False, True),
    ("array", "]", ' b", "c"]', False, True),
    ("array", "]", ' b" ]', False, True),
    ("array", "]", ' b" c"]', False, False),
    ("array", "]", " b c]", False, True),
    ("array", "]", " b}", False, False),
    ("array", "}]", " b}", False, True),
    ("array", "]", " b (c)", False, False),
    ("array", "]", " (c)", False, False),
    ("array", "]", ", b]", False, True),
    ("array", "]", ', b"]', False, True),
    ("array", "]", ", b, c]", False, True),
    ("array", "]", ", b c]", False, False),
    ("array", "]", ", (b]", False, True),
    ("array", "]", ", !b]", False, False),
    ("array", "]", ", tru", False, True),
    ("argument", ")", ", !b]", False, True),
    ("argument", ")", " b=1)", False, True),
    # keys
    ("key", "}", ", 1}", False, True),
    ("key", "}", "}", False, True),
    ("key", "}", " {}", False, True),
    ("key", "}", "[1]", False, True),
    ("key", "}", ' "v"}', False, True),
    ("key", "}", '": 1}', False, True),
    ("key", "}", '"v"}', False, False),
    ("key", "}", " 1}", False, True),
    ("key", "}", " -1}", False, True),
    ("key", "}", "1}", False, False),
    ("key", "}", "-1}", False, False),
    ("key", "}", " e}", False, False),
    ("key", "}", "e", False, False),
    ("key", "}", "=1", False, True),
    ("key", "}", "// x", False, True),
    ("key", ")}", ")", False, True),
]


@check_each(("place", "closers", "text", "inner", "expected"), DECISIONS)
def test_a_quote_closes_or_belongs_to_the_text(place: str, closers: str, text: str, inner: bool, expected: bool):
    around = QuoteContext(place, closers, inner=inner)  # pyright: ignore[reportArgumentType]
    assert closes('"' + text, 1, True, around) is expected
    full = text + " " * LOOKAHEAD
    assert closes(full, 0, False, around) in (True, False)


#: What follows a Python call after a string that contains a quote, and whether the call may end there.
AFTER_CALLS = [
    ("", None),
    (")]", None),
    (")]\n", None),
    ("</call>", True),
    ("]</call>", True),
    ("]\n</call>", True),
    ("]<", None),
    ("]<|x|>", True),
    ("\n```", True),
    (", g()", True),
    (", g(a=1)", True),
    ('; {"a": 1}', True),
    ("\ng(a", None),
    (", g", None),
    (", ", None),
    ("\ng(a=1)", True),
    (", g('y')", False),
    (", 'y'", False),
    ("\nand more", False),
    (" and more", False),
    (" g()", False),
    ("]\nb", None),
    ("]\nb ", False),
    (".strip()", False),
]


@check_each(("text", "expected"), AFTER_CALLS)
def test_a_torn_string_ends_only_where_its_call_may_end(text: str, expected: bool | None):
    stops = ("</call>",)
    assert may_follow_call(text, stops, final=False) is expected
    torn = QuoteContext("call", ")", stops, ends="'", torn=True)
    assert closes(")" + text, 0, False, torn) is expected
    is_cut = text[-1:].isalnum() or text == ", "
    assert closes(")" + text, 0, True, torn) is (expected if expected is not None else not is_cut)
    assert closes(") " + text, 0, True, torn._replace(torn=False)) is True


def test_a_stop_mark_behind_a_quote_closes_the_string():
    around = QuoteContext("object", "}", stops=("</call>", "[/X]"))
    assert closes("</call>", 0, False, around) is True
    assert closes(" [/X]", 0, False, around) is True
    assert closes("</ca", 0, False, around) is None
    assert closes("</ca", 0, True, around) is True
    assert closes("</b>", 0, False, around) is False
    assert closes("[/", 0, False, around._replace(inner=True)) is None
    assert closes("</call>", 0, False, around._replace(inner=True)) is True
    assert closes("</call>", 0, False, around._replace(place="key")) is True


def test_only_quotes_of_the_same_family_show_that_a_closer_is_text():
    assert closes("}' x'}", 0, False, QuoteContext("object", "}", ends='"')) is True
    assert closes("}' x'}", 0, False, QuoteContext("object", "}", ends="'")) is False
    assert closes("}” x”}", 0, False, QuoteContext("object", "}", ends='”"')) is False


def test_without_an_answer_the_end_closes_and_a_full_window_keeps_to_pairs():
    around = QuoteContext("object", "}")
    assert closes("", 0, False, around) is None
    assert closes("", 0, True, around) is True
    assert closes(" " * (LOOKAHEAD - 1), 0, False, around) is None
    assert closes(" " * LOOKAHEAD, 0, False, around) is True
    inner = around._replace(inner=True)
    assert closes(" " * LOOKAHEAD, 0, False, inner) is False
    assert closes(" " * LOOKAHEAD, 0, True, inner) is True


#: with an inner quote open in an array: text that is too short to tell
UNDECIDED = [", ", ', "b', ', "b"', ', "b" ', ', "b",', ', "b", ', ', "b", "c', ', "b"]', ',  "b" , "']


@check_each("text", UNDECIDED)
def test_a_list_that_has_not_ended_is_waited_for(text: str):
    assert closes(text, 0, False, QuoteContext("array", "]]", inner=True)) is None


@check_each("text", ["a", "1", "{", "/", "}", "<", "é"])
def test_an_inner_quote_opens_when_text_follows_at_once(text: str):
    assert opens_inner('"' + text, 1)


@check_each("text", [" a", "\n", ".", ",", ";", ":", "!", "?", ")", "-"])
def test_an_inner_quote_does_not_open_before_a_space_or_the_end_of_a_phrase(text: str):
    assert not opens_inner('"' + text, 1)


@check_each(
    ("text", "expected"),
    [
        (', "b": 1', True),
        (',"b" : 1', True),
        (',\n  "b2 c": 1', True),
        (', "b"', None),
        (', "b', None),
        (', "', None),
        (", ", None),
        (",", None),
        (', "b" x', False),
        (', ", "b": 1', False),
        (', ": 1', False),
        (', " b": 1', False),
        (", b: 1", False),
        (", 'b': 1", False),
    ],
)
def test_a_string_ended_before_a_comma_when_a_key_follows_without_its_quote(text: str, expected: bool | None):
    assert lost_quote("x" + text, 1, False) is expected
    assert lost_quote("x" + text, 1, True) is bool(expected)
    assert lost_quote(text + ' "' * LOOKAHEAD, 0, False) is bool(expected)


# ---- an answer, once given, never changes

#: What texts behind a quote are made of; `~` stands between them.
PIECES = (
    '"~\'~{~}~[~]~(~)~:~=~,~;~\\~\\"~a~b1~key:~true~12~-~ ~\n~...~.~//~/~#~`~```~</~</t>~“~，~""~": ~", "~é'
).split("~")
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
AROUNDS = st.builds(
    QuoteContext,
    st.sampled_from(["key", "object", "array", "element", "call", "argument"]),
    st.sampled_from(["}", "]", ")", "}}", "]}", "}]", ")}"]),
    st.sampled_from([(), ("</t>",), ("```", "]]")]),
    st.sampled_from(list(QUOTES.values())),
    st.booleans(),
)


@given(TEXTS, TEXTS, AROUNDS)
def test_more_text_never_changes_whether_a_quote_closes(text: str, more: str, around: QuoteContext):
    answer = closes(text, 0, False, around)
    if answer is not None:
        assert closes(text + more, 0, False, around) is answer


QUESTIONS = [lookahead.begins_value, lookahead.key_ahead, lookahead.named_argument_ahead, lookahead.key_after_comma]
AT_QUOTE = [lookahead.quoted_key_at, lookahead.quoted_colon, lookahead.delimiter_after_quote]
AT_COMMA = [lookahead.value_after_comma, lookahead.array_after_comma]


@given(TEXTS, TEXTS)
def test_more_text_never_changes_what_stands_ahead(text: str, more: str):
    asked = [(question, text) for question in QUESTIONS]
    asked += [(question, '"' + text) for question in AT_QUOTE] + [(question, "," + text) for question in AT_COMMA]
    for question, start in asked:
        answer = question(start, 0)
        if answer is not None:
            assert question(start + more, 0) is answer, question
    for few, many in ((0, 1), (1, 2), (1, 3)):
        if (answer := lookahead.closes_more(text, few, many)) is not None:
            assert lookahead.closes_more(text + more, few, many) is answer
    if (answer := lost_quote("," + text, 0, False)) is not None:
        assert lost_quote("," + text + more, 0, False) is answer


@check_each(
    ("text", "expected"),
    [
        ('"a": 1', True),
        ('"a" : 1', True),
        ('"a"=1', True),
        ('"a"：1', True),
        ('""a"": 1', True),
        ('"": 1', True),
        ('"a\\": 1', None),
        ('"a\\"b": 1', True),
        ('"a" 1', False),
        ('"a', None),
        ('"a"', None),
        ('"a:"b', True),
        ('"a:', None),
        ('"a:\\', None),
        ('"a :"b', True),
        ('"a b:"c', False),
        (" a: 1", True),
        ("a-b.c$: 1", True),
        ('a": 1', True),
        ('a" 1', False),
        ("a", None),
        ("a b", None),
        ("a b: 1", False),
        ('a b "c": 1', True),
        ('a b "c"', None),
        ('a b "c" 1', False),
        ("a, b", False),
        ("{", False),
        ("", None),
        (" ", None),
        ("'a': 1", True),
        ("“a”: 1", True),
        ('“a": 1', True),
    ],
)
def test_a_key_ahead_is_recognised(text: str, expected: bool | None):
    assert lookahead.key_ahead(text, 0) is expected
    assert lookahead.key_ahead(", " + text, 1) is expected


@check_each(
    ("text", "expected"),
    [
        ("a=1", True),
        ("a : 1", True),
        ("a", None),
        ("a ", None),
        ("a b", False),
        ("[1]", False),
        ('"a"', False),
        ("a,", False),
    ],
)
def test_a_named_argument_ahead_is_recognised(text: str, expected: bool | None):
    assert lookahead.named_argument_ahead(text, 0) is expected


def test_the_parts_of_a_window_are_found():
    assert lookahead.skip_spaces(" \n\ufeff\u00a0x", 0) == 4
    assert lookahead.skip_spaces("x", 0) == 0
    assert lookahead.quoted_end('"a\\"b" c', 0) == 6
    assert lookahead.quoted_end('"ab', 0) == 4
    assert lookahead.quoted_end('"ab\\', 0) == 5
    assert [lookahead.begins("=>", at, ("=>",)) for at in (0, 1, 2)] == [True, False, None]
    assert lookahead.begins("x=", 1, ("=>",)) is None
    assert lookahead.begins("x", 0, ()) is False
