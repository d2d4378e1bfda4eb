"""Calls written as tags: what names the call, what names a parameter, and what is only a mention."""

from __future__ import annotations

import pytest

from tests.dialects.answer_helpers import TOOLS, Case, check, each, tool

#: Tools that are called like tags of other families.
ODD = (*TOOLS, tool("tool", command="string"), tool("read", path="string", run="string"))

FORMS = [
    Case(
        "qwen",
        ("<function=save>\n<parameter=path>\na b\n</parameter>\n<parameter=n>\n2\n</parameter>\n</function>"),
        (("save", {"path": "a b", "n": 2}),),
    ),
    Case(
        "invoke",
        '<invoke name="save"><parameter name="path">a b</parameter><parameter name="n">2</parameter></invoke>',
        (("save", {"path": "a b", "n": 2}),),
    ),
    Case(
        "invoke with the arguments as a JSON string",
        '<invoke name="save">"{\\"path\\": \\"a\\"}"</invoke>',
        (("save", {"path": "a"}),),
        codes={"string_arguments"},
    ),
    Case(
        "invoke with such a string in a fence",
        '<invoke name="save">```json\n"{\\"path\\": \\"a\\"}"\n```</invoke>',
        (("save", {"path": "a"}),),
        codes={"string_arguments"},
    ),
    Case(
        "a prefix",
        '<minimax:invoke name="save"><mm:parameter name="path">a</mm:parameter></minimax:invoke>',
        (("save", {"path": "a"}),),
    ),
    Case(
        "dsml with types",
        '<｜DSML｜invoke name="ping"><｜DSML｜parameter name="a" string="true">1</｜DSML｜parameter><｜DSML｜parameter name="b" string="false">2</｜DSML｜parameter></｜DSML｜invoke>',
        (("ping", {"a": "1", "b": 2}),),
    ),
    Case(
        "kimi",
        '<|open|>call tool="ping" index="1"<|sep|><|open|>argument key="a" type="string"<|sep|>1<|close|>argument<|sep|><|open|>argument key="b" type="number"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|>',
        (("ping", {"a": "1", "b": 2}),),
    ),
    Case(
        "the name in an attribute of the tool tag",
        '<tool name="ping"><param name="a">x</param></tool>',
        (("ping", {"a": "x"}),),
    ),
    Case("a function attribute", '<call function="ping"><arg key="a">x</arg></call>', (("ping", {"a": "x"}),)),
    Case(
        "tags named like the parameters",
        "<function=save><path>a</path><n>2</n></function>",
        (("save", {"path": "a", "n": 2}),),
    ),
    Case(
        "a container around the parameters",
        "<function=save><parameters><parameter=path>a</parameter></parameters></function>",
        (("save", {"path": "a"}),),
    ),
    Case(
        "a container that is a parameter",
        "<function=f><input>x</input></function>",
        (("f", {"input": "x"}),),
        options={
            "tools": [{"name": "f", "parameters": {"type": "object", "properties": {"input": {"type": "string"}}}}]
        },
    ),
    Case("no parameters", "<function=ping></function>", (("ping", {}),)),
    Case("an empty tag", '<invoke name="ping"/>', (("ping", {}),)),
    Case("an empty parameter", "<function=save><path/><n>2</n></function>", (("save", {"path": "", "n": 2}),)),
    Case("json", '<function=save>{"path": "a", "n": 2}</function>', (("save", {"path": "a", "n": 2}),)),
    Case(
        "json in a container",
        '<function=save><arguments>{"path": "a"}</arguments></function>',
        (("save", {"path": "a"}),),
    ),
    Case(
        "a comment between parameters",
        "<function=save><!-- here --><parameter=path>a</parameter></function>",
        (("save", {"path": "a"}),),
        codes=frozenset({"stray_text"}),
    ),
    Case("json in cdata", '<function=save><![CDATA[{"path": "a"}]]></function>', (("save", {"path": "a"}),)),
    Case("json in a fence", '<function=save>\n```json\n{"path": "a"}\n```\n</function>', (("save", {"path": "a"}),)),
    Case(
        "keys in tags of their own",
        "<function=save><arg_key>path</arg_key><arg_value>a</arg_value></function>",
        (("save", {"path": "a"}),),
    ),
    Case(
        "keys in parameters of their own",
        "<function=save><parameter>path</parameter>a</parameter></function>",
        (("save", {"path": "a"}),),
    ),
    Case(
        "a name in a tag of its own",
        '<tool_call><tool_name>save</tool_name><arguments>{"path": "a"}</arguments></tool_call>',
        (("save", {"path": "a"}),),
    ),
    Case("a name without a closing tag", "<tool_call><name>save<path>a</path></tool_call>", (("save", {"path": "a"}),)),
    Case(
        "noise",
        ']<]minimax[>[<invoke name="save">]<]minimax[>[<path>a]<]minimax[>[</path>]<]minimax[>[</invoke>',
        (("save", {"path": "a"}),),
    ),
    Case(
        "two calls",
        "<function=save><parameter=path>a</parameter></function>\n<function=ping></function>",
        (
            ("save", {"path": "a"}),
            ("ping", {}),
        ),
        said="\n",
    ),
    Case(
        "white space and commas",
        "<function=save> ,\n <parameter=path>a</parameter> , <n>1</n></function>",
        (("save", {"path": "a", "n": 1}),),
    ),
    Case(
        "a key twice",
        "<function=save><parameter=path>a</parameter><parameter=path>b</parameter><parameter=n>1</parameter><parameter=n>2</parameter></function>",
        codes={"arguments_invalid", "duplicate_key", "repeated_tag"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case(
        "an empty text and another",
        "<function=save><parameter=path/><parameter=path>b</parameter></function>",
        codes={"arguments_invalid", "duplicate_key"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case(
        "a number twice",
        "<function=save><parameter=path>a</parameter><parameter=n>1</parameter><parameter=n>2</parameter></function>",
        (("save", {"path": "a", "n": 2}),),
        codes={"repeated_tag"},
    ),
    Case(
        "a key twice in a list",
        "<function=save><tags>a</tags><tags>b</tags></function>",
        (("save", {"tags": ["a", "b"]}),),
    ),
    Case("an item behind a list", "<function=ping><a>[1]</a><a>2</a></function>", (("ping", {"a": [1, "2"]}),)),
    Case("the nonce in the tag", "<function=ping k7></function>", (("ping", {}),), options={"nonce": "k7"}),
    Case("the nonce as an attribute", '<invoke name="ping" k7></invoke>', (("ping", {}),), options={"nonce": "k7"}),
]


@pytest.mark.requirement("B2", "B3")
@each(FORMS)
def test_the_tag_names_the_call_and_its_parameters(case: Case):
    check(case)


OWN_TAGS = [
    Case("elements", "<save>\n<path>a.py</path>\n<n>2</n>\n</save>", (("save", {"path": "a.py", "n": 2}),)),
    Case("one line", "<save><path>a.py</path></save>", (("save", {"path": "a.py"}),)),
    Case("elements nobody knows", "<ping><a>1</a><b>x y</b></ping>", (("ping", {"a": "1", "b": "x y"}),)),
    Case("unknown elements for a tool with a schema", "<save><foo>1</foo></save>", (("save", {"foo": 1}),)),
    Case("json", '<save>{"path": "a"}</save>', (("save", {"path": "a"}),)),
    Case("yaml", "<save>\npath: a\nn: 2\n</save>", (("save", {"path": "a", "n": 2}),)),
    Case("text for the only text", "<run>ls -l</run>", (("run", {"command": "ls -l"}),)),
    Case(
        "text with tags for the only text",
        "<run>echo <b>x</b> 1 < 2</run>",
        (("run", {"command": "echo x 1 < 2"}),),
        codes={"stray_text"},
    ),
    Case("text in cdata for the only text", "<run><![CDATA[echo <b>]]></run>", (("run", {"command": "echo <b>"}),)),
    Case("nothing", "<ping></ping>", (("ping", {}),)),
    Case("an empty tag", "<ping/>", (("ping", {}),)),
    Case("blank", "<run>  </run>", (("run", {}),)),
    Case(
        "an element named like another tool",
        "<read><run>x</run></read>",
        (("read", {"run": "x"}),),
        options={"tools": ODD},
    ),
    Case(
        "a tool called like a tag",
        "<tool><command>ls</command></tool>",
        (("tool", {"command": "ls"}),),
        options={"tools": ODD},
    ),
    Case(
        "lines behind known keys",
        "<save>\npath: a\ntext: one\n two: three\nfour\n</save>",
        (("save", {"path": "a", "text": "one\n two: three\nfour\n"}),),
    ),
    Case(
        "the closing bracket is missing",
        "<run>ls -l</run",
        (("run", {"command": "ls -l"}),),
        codes={"missing_close_tag"},
    ),
    Case("attributes of items", '<ping><item id="1">x</item></ping>', (("ping", {"item": "x"}),)),
    Case("a long gap", "<run>" + " " * 300 + "<command>ls</command></run>", (("run", {"command": "ls"}),)),
    Case(
        "much text with structure",
        "<save>\n<text>" + "x" * 3000 + "</text>\n</save>",
        (
            (
                "save",
                {
                    "text": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                },
            ),
        ),
    ),
    Case(
        "much unknown text with structure",
        "<ping>\n<text>" + "x" * 3000 + "</text>\n</ping>",
        (
            (
                "ping",
                {
                    "text": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                },
            ),
        ),
    ),
]


@pytest.mark.requirement("B3")
@each(OWN_TAGS)
def test_a_tag_named_like_the_tool_is_a_call(case: Case):
    check(case)


MENTIONS = [
    Case(
        "text for a tool with two texts",
        "<pair>hello</pair>",
        said="<pair>hello</pair>",
        verdicts=(("pair", "text", "no_arguments"),),
    ),
    Case(
        "in a sentence",
        "Use <run> to run a command, then </run>.",
        said="Use <run> to run a command, then </run>.",
        verdicts=(("run", "text", "not_a_call"),),
    ),
    Case(
        "prose in the tag of a function",
        "The <function=run> tag is not closed.",
        said="The <function=run> tag is not closed.",
        verdicts=(("run", "text", "not_a_call"),),
    ),
    Case(
        "another call begins",
        '<run>\n<tool_call>{"name": "ping", "arguments": {}}</tool_call>',
        (("ping", {}),),
        said="<run>\n",
        verdicts=(
            ("run", "text", "not_a_call"),
            ("ping", "call", "accepted"),
        ),
    ),
    Case(
        "no closing tag",
        "<pair>and so on",
        said="<pair>and so on",
        codes={"truncated_call"},
        verdicts=(("pair", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "much prose",
        "<run>" + "x" * 2100 + ' {"name": "ping", "arguments": {}}',
        (("ping", {}),),
        said="<run>" + "x" * 2100 + " ",
        verdicts=(
            ("run", "text", "not_a_call"),
            ("ping", "call", "accepted"),
        ),
    ),
    Case(
        "much prose and a call behind it",
        "<run>" + "x" * 2100 + '\n{"name": "ping", "arguments": {}}',
        (("ping", {}),),
        said="<run>" + "x" * 2100 + "\n",
        verdicts=(
            ("run", "text", "not_a_call"),
            ("ping", "call", "accepted"),
        ),
    ),
    Case(
        "a closing tag with something in it",
        '<run>ls</run "\n',
        said='<run>ls</run "\n',
        verdicts=(("run", "text", "not_a_call"),),
    ),
    Case("a closing tag alone", "</run>", said="</run>"),
    Case(
        "a long gap in the tag of a function",
        "<function=run>" + " " * 300 + "<command>ls</command></function>",
        said="<function=run>" + " " * 300 + "<command>ls</command></function>",
        verdicts=(("run", "text", "not_a_call"),),
    ),
    Case(
        "only the tag",
        "<function=run>",
        said="<function=run>",
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "a gap",
        "<function=run>  ",
        said="<function=run>  ",
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "a reserved tag",
        "<tool>ls</tool>",
        said="<tool>ls</tool>",
        codes={"unknown_tool"},
        verdicts=(("ls", "text", "unknown_tool"),),
    ),
    Case(
        "a parameter tag in a block",
        "<tool_call><parameter=x>1</parameter></tool_call>",
        said="<tool_call><parameter=x>1</parameter></tool_call>",
        verdicts=(("", "text", "not_a_call"),),
    ),
    Case(
        "a call tag without a name in a block",
        "<tool_call><call>1</call></tool_call>",
        said="<tool_call><call>1</call></tool_call>",
        verdicts=(
            ("", "text", "not_a_call"),
            ("", "text", "not_a_call"),
        ),
    ),
    Case(
        "an unknown tag in a block",
        "<tool_call><walk><a>1</a></walk></tool_call>",
        said="<tool_call><walk><a>1</a></walk></tool_call>",
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
    Case(
        "an unknown function",
        "<function=walk><parameter=path>a</parameter></function>",
        said="<function=walk><parameter=path>a</parameter></function>",
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
    Case(
        "an unknown invoke with json",
        '<invoke name="walk">{"a": 1}</invoke>',
        said='<invoke name="walk">{"a": 1}</invoke>',
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
    Case(
        "without the nonce",
        "<function=save><parameter=path>a</parameter></function>",
        said="<function=save><parameter=path>a</parameter></function>",
        verdicts=(("save", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case(
        "an empty name",
        "<tool_call><tool_name></tool_name></tool_call>",
        said="<tool_call><tool_name></tool_name></tool_call>",
        verdicts=(("", "text", "not_a_call"),),
    ),
    Case(
        "a sentence for a name",
        "<tool_call><tool_name>save it</tool_name></tool_call>",
        said="<tool_call><tool_name>save it</tool_name></tool_call>",
        verdicts=(("", "text", "not_a_call"),),
    ),
    Case(
        "a long name",
        "<tool_call><tool_name>" + "x" * 300 + "</tool_name></tool_call>",
        said="<tool_call><tool_name>" + "x" * 300 + "</tool_name></tool_call>",
        verdicts=(("", "text", "not_a_call"),),
    ),
    Case(
        "a name that never ends",
        "<tool_call><tool_name>save",
        said="<tool_call><tool_name>save",
        codes={"truncated_call"},
        verdicts=(("", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "a name before a less-than sign",
        "<tool_call><tool_name>save< 3</tool_call>",
        said="<tool_call><tool_name>save< 3</tool_call>",
        verdicts=(("", "text", "not_a_call"),),
    ),
    Case("a less-than sign in the tag", "<function=run < 3>", said="<function=run < 3>"),
]


@pytest.mark.requirement("B7")
@each(MENTIONS)
def test_a_tag_that_shows_no_arguments_is_a_mention(case: Case):
    check(case)
