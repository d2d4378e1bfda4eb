"""The text between two tags: where it ends, what flows, and what is decoded on the way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import check_each
from tests.core.chunking import joined
from tests.dialects.answer_helpers import STRING, TOOLS, Case, by_character, check, each, tool
from toolspeak import CallArgs, CallEnd, Scanner, fold, parse

#: A tool whose parameter has a long name, and one whose parameters are called like tags.
ODD = (*TOOLS, tool("read", path="string", parameter="string"))

TEXTS = [
    Case("plain", "<function=save><parameter=text>a b</parameter></function>", (("save", {"text": "a b"}),)),
    Case("empty", "<function=save><parameter=text></parameter></function>", (("save", {"text": ""}),)),
    Case("one character", "<function=save><parameter=text>x</parameter></function>", (("save", {"text": "x"}),)),
    Case(
        "its own lines",
        "<function=save><parameter=text>\na\n b\n</parameter></function>",
        (("save", {"text": "a\n b"}),),
    ),
    Case(
        "its own lines with carriage returns",
        "<function=save><parameter=text>\r\na\r\nb\r\n</parameter></function>",
        (("save", {"text": "a\r\nb"}),),
    ),
    Case(
        "a carriage return alone",
        "<function=save><parameter=text>a\rb\r</parameter></function>",
        (("save", {"text": "a\rb\r"}),),
    ),
    Case(
        "blank lines", "<function=save><parameter=text>\n\na\n\n</parameter></function>", (("save", {"text": "\na\n"}),)
    ),
    Case(
        "indented closing tag",
        "<function=save><parameter=text>\na\n  </parameter></function>",
        (("save", {"text": "a"}),),
    ),
    Case(
        "a far indented closing tag",
        "<function=save><parameter=text>\na\n" + " " * 300 + "</parameter></function>",
        (
            (
                "save",
                {
                    "text": "a\n                                                                                                                                                                                                                                                                                                            "
                },
            ),
        ),
    ),
    Case(
        "no line of its own keeps its last line break",
        "<function=save><parameter=text>a\n</parameter></function>",
        (("save", {"text": "a\n"}),),
    ),
    Case(
        "quotes and backslashes",
        '<function=save><parameter=text>"a" \\n \\</parameter></function>',
        (("save", {"text": '"a" \\n \\'}),),
    ),
    Case(
        "markup",
        "<function=save><parameter=text><b>bold</b> <br/> < 3 <!-- x --> <?</parameter></function>",
        (("save", {"text": "<b>bold</b> <br/> < 3 <!-- x --> <?"}),),
    ),
    Case(
        "a line break before markup",
        "<function=save><parameter=text>\nx\n<b>y</b>\n</parameter></function>",
        (("save", {"text": "x\n<b>y</b>"}),),
    ),
    Case(
        "entities",
        "<function=save><parameter=text>a &lt; b &amp;amp; &#65;&#x42; &quot;</parameter></function>",
        (("save", {"text": "a &lt; b &amp;amp; &#65;&#x42; &quot;"}),),
    ),
    Case(
        "no entities",
        "<function=save><parameter=text>a & b &foo; &; AT&T &#0; &#xD800;</parameter></function>",
        (("save", {"text": "a & b &foo; &; AT&T &#0; &#xD800;"}),),
    ),
    Case(
        "an ampersand at the end",
        "<function=save><parameter=text>a&</parameter></function>",
        (("save", {"text": "a&"}),),
    ),
    Case(
        "cdata",
        "<function=save><parameter=text><![CDATA[a <b> &lt; ]] ]]></parameter></function>",
        (("save", {"text": "a <b> &lt; ]] "}),),
    ),
    Case(
        "cdata on lines of its own",
        "<function=save><parameter=text>\n<![CDATA[a\n</parameter>\n]]>\n</parameter></function>",
        (("save", {"text": "a\n</parameter>\n"}),),
    ),
    Case(
        "cdata and more",
        "<function=save><parameter=text><![CDATA[a]]> b</parameter></function>",
        (("save", {"text": "<![CDATA[a]]> b"}),),
    ),
    Case(
        "cdata inside a text",
        "<function=save><parameter=text><svg><![CDATA[a]]></svg></parameter></function>",
        (("save", {"text": "<svg><![CDATA[a]]></svg>"}),),
    ),
    Case(
        "cdata that never ends",
        "<function=save><parameter=text><![CDATA[a]",
        codes={"truncated_call"},
        verdicts=(("save", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "an exclamation mark",
        "<function=save><parameter=text><!DOCTYPE html></parameter></function>",
        (("save", {"text": "<!DOCTYPE html>"}),),
    ),
    Case(
        "noise before the closing tag",
        "<function=save>]<]minimax[>[<parameter=text>a]<]minimax[>[</parameter></function>",
        (("save", {"text": "a"}),),
    ),
    Case(
        "brackets",
        "<function=save><parameter=text>a] ]< ]<]mini [x]</parameter></function>",
        (("save", {"text": "a] ]< ]<]mini [x]"}),),
    ),
    Case(
        "noise in the middle",
        "<function=save>]<]minimax[>[<parameter=text>a]<]minimax[>[b</parameter></function>",
        said="b</parameter></function>",
        codes={"arguments_invalid"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case(
        "a call tag without a name",
        "<function=save><parameter=text>a <function> b <tool></parameter></function>",
        (("save", {"text": "a <function> b <tool>"}),),
    ),
    Case(
        "a slash", "<function=save><parameter=text>a </ b </</parameter></function>", (("save", {"text": "a </ b </"}),)
    ),
]


@pytest.mark.requirement("B2", "B3")
@each(TEXTS)
def test_a_text_is_what_stands_between_the_tags(case: Case):
    check(case)


UNTYPED = [
    Case("a number is text", "<function=ping><parameter=a>42</parameter></function>", (("ping", {"a": "42"}),)),
    Case(
        "a number on its own line", "<function=ping><parameter=a>\n42\n</parameter></function>", (("ping", {"a": 42}),)
    ),
    Case("an object", '<function=ping><parameter=a>{"x": [1]}</parameter></function>', (("ping", {"a": {"x": [1]}}),)),
    Case("a list", "<function=ping><parameter=a>[1, 2]</parameter></function>", (("ping", {"a": [1, 2]}),)),
    Case("no object", "<function=ping><parameter=a>{x of y}</parameter></function>", (("ping", {"a": "{x of y}"}),)),
    Case("entities", "<function=ping><parameter=a>a &lt; b</parameter></function>", (("ping", {"a": "a &lt; b"}),)),
    Case("cdata", "<function=ping><parameter=a><![CDATA[1 < 2]]></parameter></function>", (("ping", {"a": "1 < 2"}),)),
    Case(
        "cdata that never ends",
        "<function=ping><parameter=a><![CDATA[1]]",
        codes={"truncated_call"},
        verdicts=(("ping", "truncated", "truncated"),),
        complete=False,
    ),
    Case("markup", "<function=ping><parameter=a><b>x</b></parameter></function>", (("ping", {"a": "<b>x</b>"}),)),
    Case(
        "noise",
        "<function=ping>]<]minimax[>[<parameter=a>1]<]minimax[>[</parameter></function>",
        (("ping", {"a": "1"}),),
    ),
]


@pytest.mark.requirement("B3")
@each(UNTYPED)
def test_a_value_without_a_type_is_read_by_its_shape(case: Case):
    check(case)


TYPED = [
    Case("an integer", "<function=save><parameter=n>42</parameter></function>", (("save", {"n": 42}),)),
    Case(
        "no integer",
        "<function=save><parameter=n>many</parameter></function>",
        codes={"arguments_invalid"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case("a boolean", "<function=save><parameter=ok>true</parameter></function>", (("save", {"ok": True}),)),
    Case("a list", '<function=save><parameter=tags>["a"]</parameter></function>', (("save", {"tags": ["a"]}),)),
    Case(
        "an object", '<function=save><parameter=opts>{"a": 1}</parameter></function>', (("save", {"opts": {"a": 1}}),)
    ),
    Case(
        "nested tags",
        "<function=save><parameter=opts><a>1</a><b><c>x</c></b></parameter></function>",
        (("save", {"opts": {"a": "1", "b": {"c": "x"}}}),),
    ),
    Case(
        "entities around json",
        '<function=save><parameter=opts>{"a": "&quot;x&quot;"}</parameter></function>',
        (("save", {"opts": {"a": "&quot;x&quot;"}}),),
    ),
    Case("anything", "<function=save><parameter=any>42</parameter></function>", (("save", {"any": "42"}),)),
    Case(
        "a type in an attribute",
        '<|open|>call tool="ping"<|sep|><|open|>argument key="a" type="object"<|sep|>{"x": 1}<|close|>argument<|sep|><|close|>call<|sep|>',
        (("ping", {"a": {"x": 1}}),),
    ),
    Case(
        "a text in an attribute",
        '<invoke name="ping"><parameter name="a" string="true">\n{"x": 1}\n</parameter></invoke>',
        (("ping", {"a": '\n{"x": 1}\n'}),),
    ),
    Case(
        "no text in an attribute",
        '<invoke name="ping"><parameter name="a" string="false">"x"</parameter></invoke>',
        (("ping", {"a": "x"}),),
    ),
    Case(
        "a type in an attribute of a text",
        '<invoke name="save"><parameter name="text" string="false">{"x": 1}</parameter></invoke>',
        (("save", {"text": '{"x": 1}'}),),
        codes={"object_to_string"},
    ),
    Case(
        "a quoted text in a pair",
        '<tool_call>save\n<arg_key>text</arg_key><arg_value>"a\\n"</arg_value></tool_call>',
        (("save", {"text": '"a\\n"'}),),
    ),
    Case(
        "a quoted beginning in a pair",
        '<tool_call>save\n<arg_key>text</arg_key><arg_value>"a" b</arg_value></tool_call>',
        (("save", {"text": '"a" b'}),),
    ),
]


@pytest.mark.requirement("B3", "B5")
@each(TYPED)
def test_a_value_of_another_type_is_held_and_read(case: Case):
    check(case)


ENDS = [
    Case(
        "the next parameter",
        "<function=save><parameter=text>a\n <parameter=n>1</parameter></function>",
        (("save", {"text": "a", "n": 1}),),
        codes={"missing_closer"},
    ),
    Case(
        "the next key",
        (
            "<tool_call>save\n"
            "<arg_key>text</arg_key><arg_value>a\n<arg_key>n</arg_key><arg_value>1</arg_value></tool_call>"
        ),
        (("save", {"text": "a", "n": 1}),),
        codes={"missing_closer"},
    ),
    Case(
        "the end of the call",
        "<function=save><parameter=text>a</function>",
        (("save", {"text": "a"}),),
        codes={"missing_closer"},
    ),
    Case(
        "the end of the block",
        "<tool_call><function=save><parameter=text>a</tool_call>",
        (("save", {"text": "a"}),),
        codes={"missing_closer"},
    ),
    Case(
        "another parameter tag",
        "<function=save><parameter=text>a</param></function>",
        (("save", {"text": "a"}),),
        codes={"wrong_closer"},
    ),
    Case(
        "a held value before the next parameter",
        "<function=save><parameter=n>1\n<parameter=text>a</parameter></function>",
        (("save", {"text": "a", "n": 1}),),
        codes={"missing_closer"},
    ),
    Case(
        "a held value before the end",
        "<function=save><parameter=n>1</function>",
        (("save", {"n": 1}),),
        codes={"missing_closer"},
    ),
    Case(
        "a tag that only begins like a closer",
        "<function=save><parameter=text>a </param</parameter></function>",
        (("save", {"text": "a </param"}),),
    ),
    Case(
        "a long tag that is no closer",
        "<function=save><parameter=text>a </" + "x" * 300 + "</parameter></function>",
        (
            (
                "save",
                {
                    "text": "a </xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                },
            ),
        ),
    ),
    Case(
        "a closer that never ends",
        "<function=save><parameter=text>a </parameter ",
        codes={"truncated_call"},
        verdicts=(("save", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "a quoted attribute in a closer",
        '<function=save><parameter=text>a </parameter "',
        codes={"truncated_call"},
        verdicts=(("save", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "markup in a tag of the tool",
        "<save><text>a </parameter> <b></text></save>",
        (("save", {"text": "a </parameter> <b>"}),),
    ),
    Case("markup with its own closer", "<save><text>a</save>", (("save", {"text": "a"}),), codes={"missing_closer"}),
    Case(
        "prefixed tags",
        '<｜DSML｜invoke name="save"><｜DSML｜parameter name="text">a</｜DSML｜invoke>',
        (("save", {"text": "a"}),),
        codes={"missing_closer"},
    ),
    Case(
        "white space before a text in a tag of the tool",
        "<save><text>  a b\n </text></save>",
        (("save", {"text": "  a b\n "}),),
    ),
    Case(
        "much white space before a text in a tag of the tool",
        "<save><text>" + " " * 300 + "a</text></save>",
        (("save", {"text": " " * 300 + "a"}),),
    ),
    Case(
        "a parameter called like a tag",
        "<read><path>a</path><parameter>x</parameter></read>",
        (("read", {"path": "a", "parameter": "x"}),),
        options={"tools": ODD},
    ),
    Case(
        "kimi in a text",
        '<|open|>call tool="save"<|sep|><|open|>argument key="text" type="string"<|sep|>a <|open|>b<|sep|> <|close|>x<|sep|> <|foo|><|close|>argument<|sep|><|close|>call<|sep|>',
        (("save", {"text": "a <|open|>b<|sep|> <|close|>x<|sep|> <|foo|>"}),),
    ),
    Case(
        "kimi without an end",
        '<|open|>call tool="save"<|sep|><|open|>argument key="text" type="string"<|sep|>a <|close|>argu',
        codes={"truncated_call"},
        verdicts=(("save", "truncated", "truncated"),),
        complete=False,
    ),
]


@pytest.mark.requirement("B4")
@each(ENDS)
def test_a_value_ends_where_another_tag_makes_that_clear(case: Case):
    check(case)


@pytest.mark.requirement("B8", "B11")
def test_a_text_flows_while_it_is_written():
    scanner = Scanner(TOOLS)
    assert scanner.feed("<function=save><parameter=text>\none ")[-1] == CallArgs(0, '{"text":"one ')
    assert scanner.feed('two "x"') == [CallArgs(0, 'two \\"x\\"')]
    assert scanner.feed("\n") == []  # the last line break may belong to the tag
    assert scanner.feed("three") == [CallArgs(0, "\\nthree")]
    assert scanner.feed(" &amp; <b>x &lt;") == [CallArgs(0, " &amp; <b>x &lt;")]
    assert scanner.feed("\n  ") == []
    assert scanner.feed("<b>\n") == [CallArgs(0, "\\n  <b>")]
    assert scanner.feed("a]") == [CallArgs(0, "\\na")]
    assert scanner.feed("</para") == [CallArgs(0, "]")]
    assert scanner.feed("meter>") == []  # what follows decides whether the tag belongs to the text
    assert scanner.feed("\n<parameter=n>") == [CallArgs(0, '"')]


@pytest.mark.requirement("B8", "B11")
def test_a_line_break_in_a_text_on_the_line_of_its_tag_flows_with_the_next_character():
    scanner = Scanner(TOOLS)
    scanner.feed("<function=save><parameter=text>one")
    assert scanner.feed("\n") == []
    assert scanner.feed("a\n") == [CallArgs(0, "\\na")]
    assert scanner.feed("</parameter>\n</function>") == []
    assert scanner.close()[0] == CallArgs(0, '\\n"')


@pytest.mark.requirement("B8", "B11")
def test_a_value_that_may_change_is_held():
    scanner = Scanner(TOOLS)
    scanner.feed("<function=save><parameter=n>")
    assert scanner.feed("4") == []
    assert scanner.feed("2") == []
    assert scanner.feed("</parameter>") == []
    assert scanner.feed("</function>") == []
    assert scanner.feed("\nDone.")[0] == CallArgs(0, '{"n":42}')


def test_a_text_of_an_unsure_call_does_not_flow():
    scanner = Scanner(TOOLS, untrusted=["<function=save>"])
    assert scanner.feed("<function=save><parameter=text>one ") == []
    assert scanner.feed("two") == []


@pytest.mark.requirement("B11")
def test_a_value_that_is_held_may_be_cut_anywhere():
    text = '<function=save><parameter=opts><![CDATA[{"a": 1}]]></parameter></function>'
    for cut in range(len(text)):
        scanner = Scanner(tools=TOOLS)
        reply = fold([*scanner.feed(text[:cut]), *scanner.feed(text[cut:]), *scanner.close()])
        assert [call.arguments for call in reply.calls] == [{"opts": {"a": 1}}], text[:cut]


# ---- values that may be null or something else

NULLABLE = tool("save", text={"anyOf": [STRING, {"type": "null"}]}, mixed={"type": ["string", "null", "object"]})


@pytest.mark.requirement("B8", "B11")
@check_each(
    ("key", "written", "value"),
    [
        *((key, "null", None) for key in ("text", "mixed")),
        *((key, "\n  null\n", None) for key in ("text", "mixed")),
        *((key, "<![CDATA[null]]>", None) for key in ("text", "mixed")),
        *((key, " " * 300 + "null", " " * 300 + "null") for key in ("text", "mixed")),
        *((key, "nullable", "nullable") for key in ("text", "mixed")),
        *((key, "null and void", "null and void") for key in ("text", "mixed")),
        *((key, "nu", "nu") for key in ("text", "mixed")),
        *((key, "", "") for key in ("text", "mixed")),
        ("text", "<b>x</b>", "<b>x</b>"),
        ("text", "<a>x</a>", "<a>x</a>"),
        ("mixed", "<a>x</a>", "<a>x</a>"),
        ("mixed", "x <a>y</a>", "x <a>y</a>"),
    ],
)
def test_a_value_that_may_be_null_or_elements_is_read_alike_however_it_is_cut(key: str, written: str, value: Any):
    for text in (
        f"<tool_call><function=save><parameter={key}>{written}</parameter></function></tool_call>",
        f'<invoke name="save"><parameter name="{key}">{written}</parameter></invoke>',
    ):
        reply = parse(text, tools=[NULLABLE])
        assert [call.arguments for call in reply.calls] == [{key: value}]
        assert by_character(text, tools=[NULLABLE]) == reply


@pytest.mark.requirement("B8", "B11")
@check_each("key", ["text", "mixed"])
def test_such_a_value_is_streamed_once_it_can_only_be_text(key: str):
    scanner = Scanner([NULLABLE])
    scanner.feed(f"<tool_call><function=save><parameter={key}>")
    sent = [[event.fragment for event in scanner.feed(char) if isinstance(event, CallArgs)] for char in "nullable"]
    assert sent == [[], [], [], [], [f'{{"{key}":"nulla'], ["b"], ["l"], ["e"]]


def test_a_streamed_value_that_breaks_a_limit_closes_its_call_as_invalid_however_it_is_cut():
    short = tool("save", text={"type": "string", "maxLength": 3})
    text = "<tool_call><function=save><parameter=text>abcde</parameter></function></tool_call>"
    whole, single = Scanner([short]), Scanner([short])
    events = whole.feed(text) + whole.close()
    assert joined([event for char in text for event in single.feed(char)] + single.close()) == joined(events)
    assert [event.fragment for event in joined(events) if isinstance(event, CallArgs)] == ['{"text":"abcde"}']
    assert [event.valid for event in events if isinstance(event, CallEnd)] == [False]
