"""Words and escapes: what they mean alone."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.json_repair.literals import escape_text, has_surrogate, read_escape, read_word, replace_surrogates

pytestmark = pytest.mark.requirement("B4")

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)


@given(ANY_TEXT)
def test_escaped_text_fits_between_quotes_and_means_the_same(text: str):
    decoded = msgspec.json.decode(f'"{escape_text(text)}"'.encode())
    assert decoded == "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def test_text_that_needs_no_escape_stays_the_same_object():
    text = "plain text, é, 你好, \x7f, \u2028"
    assert escape_text(text) is text


@check_each(
    ("text", "expected"),
    [("", False), ("plain", False), ("é你😀", False), ("a\ud800b", True), ("\udfff", True), ("\ud7ff\ue000", False)],
)
def test_a_half_surrogate_is_noticed(text: str, expected: bool):
    assert has_surrogate(text) is expected
    assert (replace_surrogates(text) != text) is expected


def test_a_replacement_character_stands_for_each_half_surrogate():
    assert replace_surrogates("a\ud800\udfffb😀") == "a\ufffd\ufffdb😀"


@check_each(
    ("word", "text", "code"),
    [
        ("true", "true", ""),
        ("false", "false", ""),
        ("null", "null", ""),
        ("True", "true", "python_literal"),
        ("FALSE", "false", "python_literal"),
        ("Null", "null", "python_literal"),
        ("None", "null", "python_literal"),
        ("undefined", "null", "python_literal"),
        ("0", "0", ""),
        ("-0", "-0", ""),
        ("12", "12", ""),
        ("-1.5e+10", "-1.5e+10", ""),
        ("1E5", "1E5", ""),
        ("12345678901234567890", "12345678901234567890", ""),
        ("+3", "3", "number_format"),
        ("-007", '"-007"', "leading_zeros"),
        ("07", "7", "number_format"),
        ("00", '"00"', "leading_zeros"),
        ("0_1.5", '"0_1.5"', "leading_zeros"),
        ("0.5_", "0.5", "number_format"),
        (".25", "0.25", "number_format"),
        ("-.5", "-0.5", "number_format"),
        ("1.", "1.0", "number_format"),
        ("1._", "1", "number_format"),
        ("1e", "1", "number_format"),
        ("1e+", "1", "number_format"),
        ("1.e5", "1.0e5", "number_format"),
        ("+1e5", "1e5", "number_format"),
        ("1_234.5_6", "1234.56", "number_format"),
        ("NaN", "null", "nan"),
        ("nan", "null", "nan"),
        ("Infinity", "null", "nan"),
        ("-Infinity", "null", "nan"),
        ("+inf", "null", "nan"),
        ("1e400", "null", "nan"),
        ("-1e400", "null", "nan"),
        ("+1e400", "null", "nan"),
        ("9" * 400 + ".5", "null", "nan"),
        ("1e308", "1e308", ""),
        ("-" + "9" * 400, "-" + "9" * 400, ""),
        ("9" * 1000, "9" * 1000, ""),
        ("9" * 1001, None, "unquoted_value"),
        ("", None, "unquoted_value"),
        ("-", None, "unquoted_value"),
        ("_", None, "unquoted_value"),
        (".", None, "unquoted_value"),
        ("e5", None, "unquoted_value"),
        ("1/3", None, "unquoted_value"),
        ("10-20", None, "unquoted_value"),
        ("1.1.1", None, "unquoted_value"),
        ("0x1F", None, "unquoted_value"),
        ("١", None, "unquoted_value"),
        ("truth", None, "unquoted_value"),
        ("x" * 5000, None, "unquoted_value"),
    ],
)
def test_a_bare_word_is_a_literal_a_number_or_text(word: str, text: str | None, code: str):
    assert read_word(word) == (text, code)


@given(st.text("+-.0123456789_eE", max_size=12))
def test_every_number_is_strict_json(word: str):
    text, _ = read_word(word)
    if text is not None:
        assert msgspec.json.decode(text) == json.loads(text)


@check_each(
    ("source", "text", "length", "code"),
    [
        (r"\"x", r"\"", 2, ""),
        (r"\\x", r"\\", 2, ""),
        (r"\/", r"\/", 2, ""),
        (r"\b", r"\b", 2, ""),
        (r"\f", r"\f", 2, ""),
        (r"\n", r"\n", 2, ""),
        (r"\r", r"\r", 2, ""),
        (r"\t", r"\t", 2, ""),
        (r"\u00e9x", r"\u00e9", 6, ""),
        (r"\uD83D\uDE00x", r"\uD83D\uDE00", 12, ""),
        (r"\ud7ff", r"\ud7ff", 6, ""),
        (r"\ue000", r"\ue000", 6, ""),
        (r"\d", r"\\", 1, "bad_escape"),
        (r"\path", r"\\", 1, "bad_escape"),
        (r"\u12g4", r"\\", 1, "bad_escape"),
        (r"\ug", r"\\", 1, "bad_escape"),
        (r"\xg0", r"\\", 1, "bad_escape"),
        (r"\x41b", "A", 4, "bad_escape"),
        (r"\x0a", r"\n", 4, "bad_escape"),
        (r"\xff", "ÿ", 4, "bad_escape"),
        (r"\'", "'", 2, "bad_escape"),
        (r"\`", "`", 2, "bad_escape"),
        (r"\$", "$", 2, "bad_escape"),
        ("\\ ", " ", 2, "bad_escape"),
        ("\\\n", r"\n", 2, "bad_escape"),
        ("\\\r", r"\r", 2, "bad_escape"),
        ("\\\t", r"\t", 2, "bad_escape"),
        (r"\ud800x", "\ufffd", 6, "lone_surrogate"),
        (r"\udc00\udc00", "\ufffd", 6, "lone_surrogate"),
        (r"\udfff", "\ufffd", 6, "lone_surrogate"),
        (r"\ud83d\ud83d", "\ufffd", 6, "lone_surrogate"),
        (r"\ud83d\ue000", "\ufffd", 6, "lone_surrogate"),
        (r"\ud83d\u00zz", "\ufffd", 6, "lone_surrogate"),
        (r"\ud83d\n", "\ufffd", 6, "lone_surrogate"),
        (r"\ud83d\udbff", "\ufffd", 6, "lone_surrogate"),
        (r"\udbff\udfff", r"\udbff\udfff", 12, ""),
        (r"\ud800\udc00", r"\ud800\udc00", 12, ""),
    ],
)
def test_an_escape_is_read_kept_or_dropped(source: str, text: str, length: int, code: str):
    assert read_escape("ab" + source, 2, False) == (text, length, code)
    assert read_escape(source, 0, True) == (text, length, code)


@check_each("cut", ["\\", r"\u", r"\u1", r"\u123", r"\x", r"\x4", r"\ud83d", "\\ud83d\\", r"\ud83d\u", r"\ud83d\udE0"])
def test_an_escape_that_is_cut_waits_and_means_nothing_at_the_end(cut: str):
    assert read_escape("ab" + cut, 2, False) == ("", 0, "")
    assert read_escape("ab" + cut, 2, True) == ("", len(cut), "")
