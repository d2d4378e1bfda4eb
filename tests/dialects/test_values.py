"""Text between tags as a value: the schema, an attribute or its own shape says what it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.answers import exact
from toolspeak.core.schema.arguments import ArgumentSchema
from toolspeak.dialects.values import body_of, has_structure, plain_text, tree, trim, value_of

NONE = ArgumentSchema.of(None)


def schema(**properties: Any) -> ArgumentSchema:
    typed = {key: {"type": value} if not isinstance(value, dict) else value for key, value in properties.items()}
    return ArgumentSchema.of({"type": "object", "properties": typed})


# ---- text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a", "a"),
        ("&lt;a&gt; &amp;lt;", "<a> &lt;"),
        ("<![CDATA[&lt;]]>", "&lt;"),
        ("&lt;<![CDATA[&lt;]]>&lt;<![CDATA[b]]>", "<&lt;<b"),
        ("a<![CDATA[b", "ab"),
        ("<![CDATA[]]>", ""),
    ],
)
def test_entities_are_decoded_once_and_cdata_is_not(raw: str, text: str):
    assert plain_text(raw) == text


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("raw", "key", "value"),
    [
        ("42", "s", "42"),
        ("\n42\n", "s", "42"),
        (" 42 ", "s", " 42 "),
        ("&lt;b>", "s", "<b>"),
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
        ("\n<k> 1 </k>\n", "o", {"k": "1"}),
        ("see <k>1</k>", "o", {"k": "1"}),
        ('{"k": "<b>"}', "o", {"k": "<b>"}),
        ("42", "any", "42"),
        ("\n[1]\n", "any", "[1]"),
    ],
)
def test_the_schema_says_what_a_text_is(raw: str, key: str, value: Any):
    assert exact(value_of(raw, TYPED, key, "", False)) == exact(value)


@pytest.mark.parametrize(
    ("raw", "key", "value"),
    [
        (" null ", "s", None),
        ("x", "s", "x"),
        ("null", "n", None),
        ("7", "n", 7),
        ("a <b>", "m", "a <b>"),
        ("<k>1</k>", "m", {"k": "1"}),
        ("\nx\n", "m", "x"),
    ],
)
def test_a_schema_may_allow_several_types(raw: str, key: str, value: Any):
    assert exact(value_of(raw, NULLABLE, key, "", False)) == exact(value)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


def test_line_breaks_that_are_written_as_entities_or_cdata_are_kept():
    for typed in ("", "string"):
        assert value_of("\n&#13;&#10;a&#10;\n", TYPED, "s", typed, False) == "\r\na\n"
        assert value_of("<![CDATA[\na\n]]>", TYPED, "s", typed, False) == "\na\n"


def test_a_text_on_one_line_of_markup_loses_the_space_around_it():
    assert value_of("  a b ", TYPED, "s", "", True) == "a b"
    assert value_of("\n  a\n b\n", TYPED, "s", "", True) == "  a\n b"


# ---- nested elements


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("<a>1</a>", {"a": "1"}),
        ("<a> 1 </a>", {"a": " 1 "}),
        ("<a>1</a><a>2</a><a>3</a>", {"a": ["1", "2", "3"]}),
        ("<a><b>1</b><b>2</b></a>", {"a": {"b": ["1", "2"]}}),
        ("<a/><b>x</b>", {"a": "", "b": "x"}),
        ("<a>1 < 2</a>", {"a": "1 < 2"}),
        ("<a>&lt;</a>", {"a": "<"}),
        ("<a><![CDATA[<b>]]></a>", {"a": "<b>"}),
        ('<item id="1">x</item>', {"item": "x"}),
    ],
)
def test_elements_are_an_object(raw: str, value: Any):
    assert tree(raw) == value


@pytest.mark.parametrize(
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
    "markup for the only text": ("echo <b>x</b> 1 < 2 &amp; 3", COMMAND, {"command": "echo x 1 < 2 & 3"}),
    "cdata for the only text": ("<![CDATA[a <b> &amp;]]>", COMMAND, {"command": "a <b> &amp;"}),
    "only a tag for the only text": ("<br><hr>", COMMAND, {}),
    "text for two texts": ("hello", PAIR, None),
    "text without a schema": ("hello", NONE, {}),
}


@pytest.mark.parametrize(("raw", "parameters", "value"), BODIES.values(), ids=BODIES)
def test_a_body_is_elements_or_yaml_or_the_only_text(raw: str, parameters: ArgumentSchema, value: Any):
    assert exact(body_of(raw, parameters, True)) == exact(value)


def test_in_the_middle_of_a_line_text_alone_is_no_body():
    assert body_of("ls -l", COMMAND, False) is None
    assert body_of("<b>ls", COMMAND, False) == {"command": "ls"}
    assert body_of("<command>ls</command>", COMMAND, False) == {"command": "ls"}


@pytest.mark.parametrize(
    ("raw", "structured"),
    [(" <a>", True), ("{", True), ("a: 1\nprose", True), ("some prose", False), ("", False), ("a\nb: 1", False)],
)
def test_structure_is_told_by_the_beginning(raw: str, structured: bool):
    assert has_structure(raw) is structured
