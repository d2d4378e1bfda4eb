"""Text between tags as a value: the schema, an attribute or its own shape says what it is."""

from __future__ import annotations

from typing import Any

from tests.cases import check_each
from tests.dialects.answer_helpers import exact
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.dialects.value_parsing import body_of, has_structure, plain_text, read_yaml, tree, trim, value_of

NONE = ArgumentSchema.of(None)


def schema(**properties: Any) -> ArgumentSchema:
    typed = {key: {"type": value} if not isinstance(value, dict) else value for key, value in properties.items()}
    return ArgumentSchema.of({"type": "object", "properties": typed})


# ---- text


@check_each(
    ("raw", "text"),
    [
        ("a", "a"),
        ("&lt;a&gt; &amp;lt;", "&lt;a&gt; &amp;lt;"),
        ("<![CDATA[&lt;]]>", "&lt;"),
        ("\n<![CDATA[a]]>\n", "a"),
        ("a<![CDATA[b]]>", "a<![CDATA[b]]>"),
        ("<![CDATA[b", "<![CDATA[b"),
        ("<![CDATA[]]>", ""),
    ],
)
def test_a_text_is_itself_or_the_content_of_a_cdata_section(raw: str, text: str):
    assert plain_text(raw) == text


@check_each(
    ("raw", "text"),
    [
        ("a", "a"),
        (" a \n", " a \n"),
        ("\na\n", "a"),
        ("\r\na\r\n", "a"),
        ("\na\n  \t", "a"),
        ("\na", "a"),
        ("\n\na\n\n", "\na\n"),
        ("\na\n b", "a\n b"),
        ("\n", ""),
        ("", ""),
    ],
)
def test_the_line_breaks_of_the_tags_are_cut_off(raw: str, text: str):
    assert trim(raw) == text


# ---- one value

TYPED = schema(s="string", n="integer", x="number", b="boolean", a="array", o="object", any={})
NULLABLE = schema(s=["string", "null"], n=["integer", "null"], m=["string", "object"])


@check_each(
    ("raw", "key", "value"),
    [
        ("42", "s", "42"),
        ("\n42\n", "s", "42"),
        (" 42 ", "s", " 42 "),
        ("&lt;b>", "s", "&lt;b>"),
        ("null", "s", "null"),
        ("42", "n", 42),
        ("\n 42 \n", "n", 42),
        ("many", "n", "many"),
        ("", "n", ""),
        ("1.5", "x", 1.5),
        ("true", "b", True),
        ("[1, 'x']", "a", [1, "x"]),
        ("{'k': 1}", "o", {"k": 1}),
        ("{k", "o", "{k"),
        ("1 2", "n", "1 2"),
        ("<k>1</k><l><m>x</m></l>", "o", {"k": "1", "l": {"m": "x"}}),
        ("\n<k> 1 </k>\n", "o", {"k": " 1 "}),
        ("<k>1<l>2</l></k>", "o", {"k": "1<l>2</l>"}),
        ("<k><l>1</l> and <l/></k>", "o", {"k": "<l>1</l> and <l/>"}),
        ("see <k>1</k>", "o", "see <k>1</k>"),
        ("<k>1</k> and", "o", "<k>1</k> and"),
        ('{"k": "<b>"}', "o", {"k": "<b>"}),
        ('{"k": "<b>x</b>"}', "o", {"k": "<b>x</b>"}),
        ('[1, "<b>x</b>"]', "a", [1, "<b>x</b>"]),
        ("42", "any", "42"),
        ("\n[1]\n", "any", "[1]"),
    ],
)
def test_the_schema_says_what_a_text_is(raw: str, key: str, value: Any):
    assert exact(value_of(raw, TYPED, key, "", False)) == exact(value)


@check_each(
    ("raw", "key", "value"),
    [
        (" null ", "s", None),
        ("x", "s", "x"),
        ("null", "n", None),
        ("7", "n", 7),
        ("a <b>", "m", "a <b>"),
        ("<k>1</k>", "m", "<k>1</k>"),
        ("\nx\n", "m", "x"),
    ],
)
def test_a_schema_may_allow_several_types(raw: str, key: str, value: Any):
    assert exact(value_of(raw, NULLABLE, key, "", False)) == exact(value)


@check_each(
    ("raw", "typed", "value"),
    [
        ("\n{}\n", "string", "{}"),
        ("42", "json", 42),
        ("{}", "object", {}),
        ("ten", "number", "ten"),
        ("", "json", ""),
    ],
)
def test_an_attribute_says_what_a_text_is(raw: str, typed: str, value: Any):
    assert exact(value_of(raw, TYPED, "s", typed, False)) == exact(value)


@check_each(
    ("raw", "value"),
    [
        ("42", "42"),
        ("\n42\n", 42),
        ("\r\n42\r\n", 42),
        ("\nten\n", "ten"),
        (' {"k": 1} ', {"k": 1}),
        ("[1", "[1"),
        ("<k>1</k>", "<k>1</k>"),
        (" x ", " x "),
    ],
)
def test_without_a_type_the_shape_decides(raw: str, value: Any):
    assert exact(value_of(raw, NONE, "k", "", False)) == exact(value)
    assert exact(value_of(raw, TYPED, "unknown", "", False)) == exact(value)


@check_each(
    ("raw", "free", "strict"),
    [
        ("42", "42", 42),
        (" x ", " x ", " x "),
        ("<k>1</k>", {"k": "1"}, {"k": "1"}),
        ("<k>1", "<k>1", "<k>1"),
    ],
)
def test_where_every_tag_is_a_key_nested_tags_are_structure(raw: str, free: Any, strict: Any):
    assert exact(value_of(raw, NONE, "k", "", True)) == exact(free)
    assert exact(value_of(raw, TYPED, "unknown", "", True)) == exact(strict)


def test_line_breaks_in_cdata_are_kept():
    for typed in ("", "string"):
        assert value_of("<![CDATA[\na\n]]>", TYPED, "s", typed, False) == "\na\n"


def test_a_text_in_markup_keeps_the_space_around_it_and_loses_only_the_line_breaks_next_to_the_tags():
    assert value_of("  a b ", TYPED, "s", "", True) == "  a b "
    assert value_of("\n  a\n b\n", TYPED, "s", "", True) == "  a\n b"


# ---- nested elements


@check_each(
    ("raw", "value"),
    [
        ("<a>1</a>", {"a": "1"}),
        ("<a> 1 </a>", {"a": " 1 "}),
        ("<a>1</a><a>2</a><a>3</a>", {"a": ["1", "2", "3"]}),
        ("<a><b>1</b><b>2</b></a>", {"a": {"b": ["1", "2"]}}),
        ("<a/><b>x</b>", {"a": "", "b": "x"}),
        ("<a>1 < 2</a>", {"a": "1 < 2"}),
        ("<a>&lt;</a>", {"a": "&lt;"}),
        ("<a><![CDATA[<b>]]></a>", {"a": "<b>"}),
        ('<item id="1">x</item>', {"item": "x"}),
    ],
)
def test_elements_are_an_object(raw: str, value: Any):
    assert tree(raw) == value


@check_each(
    "raw",
    [
        "no tags",
        "1 < 2",
        "<a>never closed",
        "<a>wrong</b>",
        "</a>",
        '<a href="x">html</a>',
        "<a><![CDATA[never closed",
        "<a>" * 70 + "</a>" * 70,
    ],
)
def test_what_is_not_made_of_elements_is_no_object(raw: str):
    assert tree(raw) is None


def test_nesting_is_bounded():
    assert tree("<a>" * 60 + "</a>" * 60) is not None
    assert tree("<a>" * 64 + "</a>" * 64) is None


# ---- the body of a tag named like a tool

FILE = schema(path="string", n="integer")
COMMAND = schema(command="string", n="integer")
PAIR = schema(a="string", b="string")

BODIES: dict[str, tuple[str, ArgumentSchema, dict[str, Any] | None]] = {
    "nothing": (" \n", FILE, {}),
    "elements": ("\n<path>a</path>\n<n>2</n>\n", FILE, {"path": "a", "n": 2}),
    "an element twice": ("<path>a</path><path>b</path>", FILE, {"path": ["a", "b"]}),
    "elements without a schema": ("<a>1</a>", NONE, {"a": "1"}),
    "elements and text without a schema": ("so <a>1</a> there", NONE, {"a": "1"}),
    "elements and text with a schema": ("so <path>a</path>", PAIR, None),
    "a wrong closer": ("<path>a</pfad><n>2</n>", FILE, {"path": "a", "n": 2}),
    "a closer too many": ("<path>a</path></b><n>2</n>", FILE, {"path": "a", "n": 2}),
    "a closer of an outer element": ("<path><n>2</path>", FILE, {"path": "<n>2"}),
    "an element that never closes": ("<path><n>2</n>", FILE, {"n": "2"}),
    "elements that never close": ("<x><a>1</a><a>2</a><y><a>3</a>", NONE, {"a": ["1", "2", "3"]}),
    "an empty element": ("<path/><n>2</n>", FILE, {"path": "", "n": 2}),
    "an empty element nobody knows": ("<br/><n>2</n>", FILE, {"n": 2}),
    "an empty element without a schema": ("<a/>", NONE, {"a": ""}),
    "attributes": ('<path kind="x">a</path>', FILE, {"path": "a"}),
    "a less-than sign": ("<path>1 < 2</path>", FILE, {"path": "1 < 2"}),
    "yaml": ("\npath: a\nn: 2\n", FILE, {"path": "a", "n": 2}),
    "yaml without a schema": ("a: 1", NONE, {"a": 1}),
    "yaml of other keys": ("x: 1", COMMAND, {"command": "x: 1"}),
    "yaml whose text runs on": ("\npath: a\nb c\n", FILE, {"path": "a\nb c\n"}),
    "a text behind a key that holds another": ("path: a\nn: 2\nn: 3\nx", FILE, {"path": "a", "n": "2\nn: 3\nx"}),
    "a blank line before the first key": (" \npath: a\nb c", FILE, {"path": "a\nb c"}),
    "a text that is no yaml": ("command: [ -f x ] && ls", COMMAND, {"command": "[ -f x ] && ls"}),
    "text before the first key": ("so\npath: a\nb", PAIR, None),
    "text for the only text": ("ls -l\n", COMMAND, {"command": "ls -l"}),
    "markup for the only text": ("echo <b>x</b> 1 < 2 &amp; 3", COMMAND, {"command": "echo x 1 < 2 &amp; 3"}),
    "cdata for the only text": ("<![CDATA[a <b> &amp;]]>", COMMAND, {"command": "a <b> &amp;"}),
    "only a tag for the only text": ("<br><hr>", COMMAND, {}),
    "text for two texts": ("hello", PAIR, None),
    "text without a schema": ("hello", NONE, {}),
}


@check_each(("raw", "parameters", "value"), BODIES.values(), ids=BODIES)
def test_a_body_is_elements_or_yaml_or_the_only_text(raw: str, parameters: ArgumentSchema, value: Any):
    assert exact(body_of(raw, parameters, True)) == exact(value)


def test_in_the_middle_of_a_line_text_alone_is_no_body():
    assert body_of("ls -l", COMMAND, False) is None
    assert body_of("<b>ls", COMMAND, False) == {"command": "ls"}
    assert body_of("<command>ls</command>", COMMAND, False) == {"command": "ls"}


@check_each(
    ("raw", "structured"),
    [(" <a>", True), ("{", True), ("a: 1\nprose", True), ("some prose", False), ("", False), ("a\nb: 1", False)],
)
def test_structure_is_told_by_the_beginning(raw: str, structured: bool):
    assert has_structure(raw) is structured


MAPPINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "one key": ("a: b", {"a": "b"}),
    "blank lines around it": ("\n\na: b\n\n", {"a": "b"}),
    "several keys": ("a: b\n\nc: d", {"a": "b", "c": "d"}),
    "quoted keys": ("\"a b\": 1\n'c d': 2", {"a b": 1, "c d": 2}),
    "numbers": ("a: 1\nb: -2\nc: 1.5\nd: .5", {"a": 1, "b": -2, "c": 1.5, "d": 0.5}),
    "words": ("a: true\nb: FALSE\nc: null\nd: ~", {"a": True, "b": False, "c": None, "d": None}),
    "text that begins like a number": ("a: 2 apples\nb: 3rd\nc: -x", {"a": "2 apples", "b": "3rd", "c": "-x"}),
    "quoted text": ("a: \"x: y\"\nb: 'z'", {"a": "x: y", "b": "z"}),
    "a colon inside": ("a: http://x.y", {"a": "http://x.y"}),
    "flow values": ('a: [1, "x"]\nb: {"c": 2}', {"a": [1, "x"], "b": {"c": 2}}),
    "flow values without quotes": ("a: [x, y]", {"a": ["x", "y"]}),
    "a nested mapping": ("a:\n  b: 1\n  c:\n    d: 2\ne: 3", {"a": {"b": 1, "c": {"d": 2}}, "e": 3}),
    "an indented mapping": ("  a: 1\n  b: 2", {"a": 1, "b": 2}),
    "a list": ("a:\n  - 1\n  - x y\n\n  - null", {"a": [1, "x y", None]}),
    "a list that is not indented": ("a:\n- 1\n- 2\nb: 3", {"a": [1, 2], "b": 3}),
    "a list of mappings": ("a:\n  - b: 1\n    c: 2\n  - b: 3", {"a": [{"b": 1, "c": 2}, {"b": 3}]}),
    "a list of quoted texts with colons": ("a:\n  - \"b: c\"\n  - 'd'", {"a": ["b: c", "d"]}),
    "nothing": ("a:\nb: 1", {"a": None, "b": 1}),
    "nothing at the end": ("a: 1\nb:", {"a": 1, "b": None}),
    "nothing at the end of something nested": ("a:\n  b:\nc: 1", {"a": {"b": None}, "c": 1}),
    "block text": ("a: |\n  one\n   two\n\n  three\nb: 1", {"a": "one\n two\n\nthree\n", "b": 1}),
    "block text without its last line break": ("a: |-\n  one\n  two", {"a": "one\ntwo"}),
    "block text that keeps its line breaks": ("a: |+\n  one\nb: 1", {"a": "one\n", "b": 1}),
    "folded text": ("a: >\n  one\n  two\nb: >-\n  three\n  four", {"a": "one two\n", "b": "three four"}),
    "empty block text": ("a: |\nb: 1", {"a": "", "b": 1}),
    "block text at the end": ("a: |", {"a": ""}),
}


@check_each(("text", "value"), MAPPINGS.values(), ids=MAPPINGS)
def test_a_mapping_is_read(text: str, value: dict[str, Any]):
    read = read_yaml(text)
    assert read == value
    assert repr(read) == repr(value)


NO_MAPPINGS = {
    "nothing": "",
    "blank": " \n ",
    "prose": "just some words",
    "prose behind a mapping": "a: 1\nand then more",
    "a list": "- a\n- b",
    "a key without a space": "a:b",
    "a key twice": "a: 1\na: 2",
    "a line that is indented too far": "a: 1\n  b: 2",
    "a line that is indented too little": "  a: 1\nb: 2",
    "an open bracket": "a: [1,",
    "an open brace": "a: {x",
    "an item that is no value": "a:\n  - [1",
    "a list that goes on as a mapping": "a:\n  - 1\n  b: 2",
    "too deep": "\n".join("  " * depth + "k:" for depth in range(40)),
    "too long": "a: 1\n" + "\n" * 20_000 + "b: 2",
}


@check_each("text", NO_MAPPINGS.values(), ids=NO_MAPPINGS)
def test_anything_else_is_no_mapping(text: str):
    assert read_yaml(text) is None


def test_depth_is_bounded_well_above_what_models_write():
    text = "\n".join("  " * depth + "k:" for depth in range(20)) + " 1"
    value = read_yaml(text)
    for _ in range(20):
        assert isinstance(value, dict)
        value = value["k"]
    assert value == 1
