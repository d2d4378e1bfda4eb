"""The laws of tolerant JSON: valid JSON passes untouched, chunks change nothing, the output is strict, time is linear."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import check_each, size
from tests.core.parsing_helpers import codes, read, read_chunks
from tests.core.test_json_repair import CALLS, REPAIRS
from tests.core.test_json_repair_ends import CUT, HOPELESS
from tests.time_growth import assert_linear
from toolspeak.core.json_repair.lookahead import LOOKAHEAD
from toolspeak.core.json_repair.parser import UNSAFE_NOTES, VALUE_CHANGING_NOTES, JSONParser
from toolspeak.core.json_repair.tokens import Token
from toolspeak.core.json_repair.whole_text import parse_value

pytestmark = [pytest.mark.requirement("B4"), pytest.mark.requirement("B8")]

#: What valid strings may hold and a careless reader trips over; `_` stands between them.
AWKWARD = '"_\\_a_é_\u2028_\x7f_\n_\t_\x00_, "k": _{_}_[_]_:_,_ _//_#_/*_```_😀_<|"|>_true_1_"}_", "_\u00a0_\'_“_</t>_=_..._r"_：'.split(
    "_"
)
VALID_TEXT = st.lists(st.sampled_from(AWKWARD), max_size=6).map("".join) | st.text(max_size=5)
VALID = st.recursive(
    VALID_TEXT | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(VALID_TEXT, inner, max_size=4),
    max_leaves=8,
)
FORMATS = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "indent": st.sampled_from([None, 0, 2]),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : "), (",\r\n", "\t:")]),
    }
)
#: What broken texts are made of; `~` stands between them.
PIECES = (
    '"~\'~{~}~[~]~(~)~:~,~\\~\\"~a~b1~true~12~ ~\n~<|"|>~：~，~“~”~/~//~/*~*/~#~.~...~=~=>~-~r"~"""~""~\\n~\\u00~\\ud83d~é~<~`~```'
    '~key~{"a":~["~", "k": ~\ud800~;~  ~x y~｛~｝~</t>~\u00a0~\'\'~"k" ~{{'
).split("~")
#: The punctuation of JSON, and what looks like it.
ALMOST_JSON = '"~{~}~[~]~:~,~\\n~\\~a~true~12~-~0~.~e~ ~\n~\u00a0~null~"a"~"b":~{"a":~\'~(~=~;'.split("~")
BROKEN = st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join)
OPTIONS = st.sampled_from(
    [{}, {}, {"stops": ("</t>", "```", "[/X]")}, {"call": True}, {"call": True, "stops": ("</t>",)}]
)


@st.composite
def broken_documents(draw: st.DrawFn) -> str:
    """Something broken, often inside the string of an object, sometimes a valid document that lost a piece."""
    if draw(st.booleans()):
        return draw(st.sampled_from(["", "", '{"a": "', '["', "(", '{"a": ', '("', "(k="])) + draw(BROKEN)
    formatting: dict[str, Any] = draw(FORMATS)
    text = json.dumps(draw(VALID), **formatting)
    start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    return text[:start] + draw(st.sampled_from(["", "", *PIECES])) + text[end:]


def grouped(text: str, sizes: list[int]) -> list[str]:
    """The text in chunks of these sizes, over and over."""
    starts = [0, *itertools.takewhile(len(text).__gt__, itertools.accumulate(itertools.cycle(sizes)))]
    return [text[start:end] for start, end in itertools.pairwise([*starts, len(text)])]


def check_splits(text: str, sizes: list[int], **options: Any) -> None:
    whole = read(text, **options)
    halves = [(text[:at], text[at:]) for at in range(1, len(text))]
    for chunks in [list(text), *halves, grouped(text, sizes)]:
        assert read_chunks(chunks, **options) == whole


# ---- (a) valid JSON


@given(VALID, FORMATS)
@example("\u2028\u2029\x7f", {})
@example({"a": "x, ", ":": 1}, {})
@example([", ", ":"], {})
@example({'"': {'k"x': ['", "', '"}', '"]']}}, {})
@example({"k:": "v", "a b": {"c:": 1}}, {"separators": (",", ":")})
def test_valid_json_passes_without_a_note(value: Any, formatting: dict[str, Any]):
    text = json.dumps(value, **formatting)
    reading = read(text)
    assert (reading.status, reading.notes, reading.end) == ("complete", (), len(text))
    assert json.loads(reading.text) == value


@given(
    st.recursive(VALID_TEXT, lambda inner: st.lists(inner) | st.dictionaries(VALID_TEXT, inner), max_leaves=6).filter(
        lambda value: not isinstance(value, str)
    ),
    st.sampled_from([" and prose", "\n\n```", "</t>", ".'", ", {", " x: 1", "]"]),
)
def test_what_follows_a_valid_value_does_not_matter(value: Any, tail: str):
    text = json.dumps(value)
    reading = read(text + tail)
    assert (reading.status, reading.notes, reading.end) == ("complete", (), len(text))
    assert json.loads(reading.text) == value


@given(st.lists(st.sampled_from(ALMOST_JSON), max_size=8).map("".join))
def test_what_passes_without_a_note_is_valid_json(text: str):
    reading = read(text)
    if reading.status == "complete" and not reading.notes and "(" not in text:
        assert json.loads(text[: reading.end]) == json.loads(reading.text)


# ---- (b) damage

#: A bracket, comma or colon of JSON text, or a whole string.
STRUCTURE = re.compile(r'[{}\[\],:]|"(?:[^"\\]|\\.)*"')
#: Comments, which may be put before or after a bracket, comma or colon.
COMMENTS = [
    "/* c */",
    '/* "q": 1 */',
    *(f"{c}{end}" for c in ("// c", '// "q": 1', "# it's [x") for end in "\n\r\u2028"),
]
PLAIN_TEXT = st.sampled_from(
    ["x", "two words", "a, b", "", "it's", "k: v", "{y}", "[z]", "//c", "# t", '"q"', "\n", "\\d"]
)
PLAIN_VALUES = st.recursive(
    PLAIN_TEXT | st.none() | st.booleans() | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged_objects(draw: st.DrawFn) -> tuple[Any, str]:
    """An object, and its JSON text in which a quote, bracket, comma or colon is lost, doubled or replaced, or which got
    a comment. Words are never joined: `12` may be `1,2` without its comma, and nobody can tell."""
    value = {"e": draw(st.dictionaries(st.sampled_from("abcd"), PLAIN_VALUES, min_size=1, max_size=3))}
    text = json.dumps(value, indent=draw(st.sampled_from([None, 2])))
    places = [at for match in STRUCTURE.finditer(text) for at in {match.start(), match.end() - 1}]
    at = draw(st.sampled_from(places))
    if draw(st.booleans()) and text[at] != '"':
        return value, text[:at] + draw(st.sampled_from(COMMENTS)) + text[at:]
    return value, text[:at] + draw(st.sampled_from(["", text[at] * 2, *'{}[]":,'])) + text[at + 1 :]


@settings(max_examples=size(100, 1000))
@given(damaged_objects())
@example(({"a": ["x"], "b": [1]}, '{"a": ["x"}, "b": [1]}'))
@example(({"e": {"a": ["x"], "b": [1]}}, '{"e": {"a": ["x"}, "b": [1]}}'))
@example(({"a": 'x, "b": inside', "c": 1}, '{"a": "x, "b": inside", "c": 1}'))
@example(({"a": 1, "b": 2}, '{"a": 1, // c\r"b": 2}'))
@example(({"a": [[1]]}, '{"a": [1]]}'))
@example(({"a": [1, 2]}, '{"a": [1: 2]}'))
@example(({"a": "b"}, '{"a", "b"}'))
@example(({"a": [{"b": 1, "c": 2}]}, '{"a": [{"b": 1} "c": 2}]}'))
@example(({"a": ["x", "# t"]}, '{"a": ["x, "# t"]}'))
def test_damage_never_loses_or_invents_anything_without_a_note_on_it(damaged: tuple[Any, str]):
    value, text = damaged
    reading = read(text)
    changed = codes(reading) & (VALUE_CHANGING_NOTES | UNSAFE_NOTES)
    if reading.status == "complete" and not changed and not text[reading.end :].strip():
        assert json.loads(reading.text) == value


# ---- (c) chunks


@settings(max_examples=size(37, 150))
@given(broken_documents(), st.lists(st.integers(1, 5), min_size=1, max_size=6), OPTIONS)
@example('{"a": "x", "key:', [1], {})
@example('["f("a", "b', [3], {})
def test_a_chunk_boundary_never_changes_the_result(text: str, sizes: list[int], options: dict[str, Any]):
    check_splits(text, sizes, **options)


@settings(max_examples=size(7, 30))
@given(VALID, FORMATS, st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_chunk_boundary_never_changes_valid_json(value: Any, formatting: dict[str, Any], sizes: list[int]):
    check_splits(json.dumps(value, **formatting), sizes)


ALL_TEXTS = [*(row[0] for row in REPAIRS), *(row[0] for row in CUT), *(row[0] for row in HOPELESS if len(row[0]) < 99)]


@pytest.mark.no_cover
@check_each("text", ALL_TEXTS)
def test_a_chunk_boundary_never_changes_a_repair(text: str):
    check_splits(text, [2, 3])
    check_splits(text, [5], stops=("</call>", "```"))


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "text", ['{"' + "k" * 1030 + '": 1}', "{" + "k" * 260 + ": 1}", "[" + "," * 10_050, '{"a": "' + '"x' * 10_050]
)
def test_a_chunk_boundary_never_changes_where_a_limit_is_met(text: str):
    whole = read(text)
    assert whole.status == "hopeless"
    for length in (1, 4, 999):
        assert read_chunks(grouped(text, [length])) == whole


@check_each("text", [row[0] for row in CALLS])
def test_a_chunk_boundary_never_changes_an_argument_list(text: str):
    check_splits(text, [2, 3], call=True)


# ---- (d) strict output


@given(broken_documents(), OPTIONS, st.booleans())
def test_whatever_is_not_hopeless_becomes_strict_json(text: str, options: dict[str, Any], close: bool):
    reading = read(text, close=close, **options)
    assert reading.status in ("complete", "hopeless" if close else "truncated", "hopeless")
    if reading.status != "hopeless":
        value = msgspec.json.decode(reading.text)
        assert json.loads(reading.text) == value
        if not options and not close:
            assert parse_value(text) == (type(parse_value(text)))(
                value, reading.status, reading.notes, reading.end, reading.text
            )


# ---- (e) no exceptions, no loops


class Counting(JSONParser):
    """Counts the parser's steps."""

    steps = 0

    def _step(self, buf: str, pos: int, final: bool) -> int:
        self.steps += 1
        return super()._step(buf, pos, final)


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=60) | broken_documents(), OPTIONS)
def test_reading_never_raises_and_takes_few_steps(text: str, options: dict[str, Any]):
    parser = Counting(**options)
    end = parser.feed(text, 0, True)
    assert parser.steps <= 4 * len(text) + 4
    if parser.status == "open":
        assert end == len(text)
    parser.finish()
    parser.close_all()
    parser.finish()
    assert parser.status in ("complete", "truncated", "hopeless")


# ---- (f) linear time

HOSTILE: dict[str, tuple[str, str]] = {
    "quotes": ('{"a": "', '"'),
    "quoted words": ('{"a": "', 'x "y" '),
    "quotes in an array": ("[", '"a "b" '),
    "quotes and commas": ('{"a": "', ', "'),
    "embedded pairs": ('{"a": "{', '"k": "v", '),
    "braces": ("", "{"),
    "brackets": ("", "["),
    "parentheses": ("", "("),
    "closers": ("[", "}"),
    "empty arrays": ("[", "[],"),
    "backslashes": ('{"a": "', "\\"),
    "escaped quotes": ('{\\"a\\": \\"', '\\"x'),
    "escaped backslashes": ('{\\"a\\": \\"', "\\\\"),
    "line comments": ("[", "//x\n"),
    "block comments": ("[", "/**/"),
    "an endless block comment": ("[/", "*"),
    "brackets in a comment": ("[#", "{"),
    "an unclosed string": ('{"a": "', "x"),
    "an unclosed text in triple quotes": ('{"a": """', 'x\\n"'),
    "an unclosed raw text": ('{"a": <|"|>', '<|"'),
    "a long word": ('{"a": ', "x"),
    "a word with brackets": ('{"a": x', "()"),
    "a word with commas": ('{"a": x', ", y"),
    "spaces in a word": ('{"a": x', " "),
    "stops in a word": ('{"a": x', "<"),
    "spaces behind a quote": ('{"a": "x"', " "),
    "spaces behind many quotes": ('{"a": "', 'x"' + " " * 300),
    "commas and spaces": ('{"a": "', "," + " " * 60),
    "an endless tuple": ("((((((((", "1,"),
    "a held string": ('("', "x"),
    "numbers": ("[", "1 "),
    "stray words": ('{"a": [],', "k "),
    "sets": ("{", '"a",'),
    "dashes": ("[", "- "),
    "split arrays": ('{"a": [1', "], ["),
    "wrong closers": ('{"a": [1', '}, "b": [1'),
    "an endless key": ('{"', "k"),
    "spaces in a key": ('{""', " "),
}


def steps(text: str, size: int) -> tuple[int, int]:
    """How many steps it takes, and the longest text that had to be read again."""
    parser = Counting(stops=("</t>",))
    unread, longest = "", 0
    for at in range(0, len(text), size):
        buf = unread + text[at : at + size]
        unread = buf[parser.feed(buf, 0, False) :]
        parser.tokens.clear()
        if parser.status != "open":
            break
        longest = max(longest, len(unread))
    parser.feed(unread, 0, True)
    return parser.steps, longest


LONGEST = size(16_000, 32_000)


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
@pytest.mark.parametrize(("start", "piece"), HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in chunks"])
def test_steps_grow_linearly_with_the_text_and_little_is_read_again(start: str, piece: str, whole: bool):
    small, large = (start + piece * (length // len(piece)) for length in (LONGEST // 4, LONGEST // 2))
    few, _ = steps(small, len(small) if whole else 4)
    many, longest = steps(large, len(large) if whole else 4)
    assert many < 2.6 * few
    assert many < 4 * len(large)
    assert longest <= LOOKAHEAD + 8


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
@pytest.mark.parametrize(("start", "piece"), HOSTILE.values(), ids=HOSTILE)
def test_no_step_is_slow_however_long_the_text(start: str, piece: str):
    def reading(size: int) -> Callable[[], object]:
        text = start + piece * (size // len(piece))
        return lambda: read(text)

    assert_linear(reading, LONGEST, factor=4)


@pytest.mark.requirement("R-T12")
def test_a_long_plain_string_takes_a_handful_of_steps():
    parser = Counting()
    parser.feed('{"a": "' + "plain text, as it is " * 10_000 + '"}', 0, True)
    assert parser.status == "complete"
    assert parser.steps < 10
    assert [len(text) > 200_000 for kind, text in parser.tokens].count(True) == 1


@pytest.mark.requirement("R-T12")
@check_each(
    ("text", "most", "options"),
    [
        ('{"a": 1}', 4, {}),
        ('{"a": 1}', 4, {"stops": ("```",)}),
        ('{"a": "x", "b": 1}', 6, {}),
        ('[{"a": 1}]', 6, {}),
        ('(x={"a": 1})', 8, {"call": True}),
    ],
)
def test_plain_json_takes_a_step_for_each_key_value_and_bracket(text: str, most: int, options: dict[str, Any]):
    parser = Counting(**options)
    parser.feed(text, 0, True)
    assert parser.status == "complete"
    assert parser.steps <= most


@pytest.mark.requirement("R-T12")
def test_a_chunk_of_a_plain_string_takes_one_step():
    parser = Counting()
    parser.feed('{"a": "x')
    before = parser.steps
    for _ in range(1000):
        assert parser.feed("text", 0, False) == 4
    assert parser.steps - before == 1000


# ---- (g) early fragments


@check_each(
    ("start", "kept"),
    [
        ('{"a": "', 0),
        ('{"x": [1, {"a": "', 0),
        ('["', 64),
        ("[[1], '", 64),
        ('{"a": """', 2),
        ('{"a": <|"|>', 4),
        ('{"a": \\"', 1),
        ('{"a": “', 0),
        ('{"a": r"', 0),
    ],
)
@check_each("size", [1, 4, 17])
def test_a_string_flows_out_as_it_comes(start: str, kept: int, size: int):
    content = "word, more words (and some) — " * 40
    parser = JSONParser()
    unread, out = start, ""
    for at in range(0, len(content), size):
        buf = unread + content[at : at + size]
        unread = buf[parser.feed(buf, 0, False) :]
        out += "".join(text for kind, text in taken(parser) if kind == 6)
        assert len(out) >= at + size - kept - 2 or len(out) >= len(content) - kept - 2
    assert content.startswith(out)


def taken(parser: JSONParser) -> list[Token]:
    tokens, parser.tokens = parser.tokens, []
    return tokens


def test_an_inner_quote_holds_back_no_more_than_the_lookahead():
    content = 'He said "hello there" and left, "quickly" he thought. ' * 30
    parser = JSONParser()
    unread, out = '{"a": "', ""
    for at, char in enumerate(content):
        buf = unread + char
        unread = buf[parser.feed(buf, 0, False) :]
        out += "".join(json.loads(f'"{text}"') for kind, text in taken(parser) if kind == 6)
        assert at + 1 - len(out) <= LOOKAHEAD
    assert content.startswith(out)


def test_the_key_is_told_before_its_value_comes():
    parser = JSONParser()
    parser.feed('{"name":')
    assert parser.tokens == [(0, ""), (4, "name")]
