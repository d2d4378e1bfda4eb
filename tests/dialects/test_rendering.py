"""How calls are written: one line for each style, and what is escaped."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak import ToolCall
from toolspeak.dialects import rendering as styles
from toolspeak.dialects.registry import dialect

SAVE = ToolCall("save", {"path": "a", "n": 1})
PING = ToolCall("ping", {})
BOTH = [SAVE, PING]


@check_each(
    ("mark", "signed"),
    [
        ("", ""),
        ("<tool_call>", "<tool_call k7>"),
        ("<tool_calls>\n", "<tool_calls k7>\n"),
        ("<|tool_call|>", "<|tool_call|> k7 "),
        ("<|tool_call>", "<|tool_call k7>"),
        ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜> k7 "),
        ("<｜DSML｜tool_calls>\n", "<｜DSML｜tool_calls k7>\n"),
        ("[TOOL_CALLS]", "[TOOL_CALLS] k7 "),
        ("```json result\n", "```json result k7\n"),
        ("Observation: ", "Observation: k7 "),
    ],
)
@pytest.mark.requirement("B1", "R-E2")
def test_a_mark_carries_the_nonce_in_it_or_right_behind_it(mark: str, signed: str):
    assert styles.with_nonce(mark, "k7") == signed
    assert styles.with_nonce(mark, None) == mark


def style_of(name: str) -> styles.Style:
    style = dialect(name).style
    assert style is not None
    return style


#: Dialect -> two calls, and one that is signed, without what stands around all calls.
WRITTEN = {
    "apertus": ('[{"save":{"path":"a","n":1}},{"ping":{}}]', '[{"ping":{}}]'),
    "functionary_v32": ('>>>save\n{"path":"a","n":1}>>>ping\n{}', ">>>k7 ping\n{}"),
    "tool_use": (
        '<tool_use>\n<name>save</name>\n<arguments>{"path":"a","n":1}</arguments>\n</tool_use>\n<tool_use>\n<name>ping</name>\n<arguments>{}</arguments>\n</tool_use>',
        "<tool_use k7>\n<name>ping</name>\n<arguments>{}</arguments>\n</tool_use>",
    ),
    "command_r": (
        (
            '[{"tool_call_id":"0","tool_name":"save","parameters":{"path":"a"'
            ',"n":1}},{"tool_call_id":"1","tool_name":"ping","parameters":{}}]'
        ),
        '[{"tool_call_id":"0","tool_name":"ping","parameters":{}}]',
    ),
    "decision": (
        '{"tools":[{"name":"save","arguments":{"path":"a","n":1}},{"name":"ping","arguments":{}}]}',
        '{"nonce":"k7","tools":[{"name":"ping","arguments":{}}]}',
    ),
    "deepseek": (
        (
            '<｜tool▁call▁begin｜>save<｜tool▁sep｜>{"path":"a","n":1}<｜tool▁ca'
            "ll▁end｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
        ),
        "<｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    ),
    "devstral": ('[TOOL_CALLS]save[ARGS]{"path":"a","n":1}[TOOL_CALLS]ping[ARGS]{}', "[TOOL_CALLS] k7 ping[ARGS]{}"),
    "dsml": (
        (
            '<｜DSML｜invoke name="save">\n'
            '<｜DSML｜parameter name="path" string="true">a</｜DSML｜parameter>\n'
            '<｜DSML｜parameter name="n" string="false">1</｜DSML｜parameter>\n'
            "</｜DSML｜invoke>\n"
            '<｜DSML｜invoke name="ping">\n'
            "</｜DSML｜invoke>"
        ),
        '<｜DSML｜invoke name="ping">\n</｜DSML｜invoke>',
    ),
    "envelope": (
        ('{"calls":[{"name":"save","arguments":{"path":"a","n":1}},{"name":"ping","arguments":{}}],"reply":""}'),
        '{"nonce":"k7","calls":[{"name":"ping","arguments":{}}],"reply":""}',
    ),
    "action": (
        (
            "```json action\n"
            '{"tool":"save","parameters":{"path":"a","n":1}}\n'
            "```\n"
            "```json action\n"
            '{"tool":"ping","parameters":{}}\n'
            "```"
        ),
        '```json action k7\n{"tool":"ping","parameters":{}}\n```',
    ),
    "functionary": (
        '<function=save>{"path":"a","n":1}</function>\n<function=ping>{}</function>',
        "<function=ping k7>{}</function>",
    ),
    "functiongemma": (
        (
            "<start_function_call>call:save{path:<escape>a<escape>,n:1}<end_f"
            "unction_call><start_function_call>call:ping{}<end_function_call>"
        ),
        "<start_function_call k7>call:ping{}<end_function_call>",
    ),
    "gemma": (
        '<|tool_call>call:save{path:<|"|>a<|"|>,n:1}<tool_call|><|tool_call>call:ping{}<tool_call|>',
        "<|tool_call k7>call:ping{}<tool_call|>",
    ),
    "gigachat": (
        (
            '<|function_call|>{"name":"save","arguments":{"path":"a"'
            ',"n":1}}<|function_call|>{"name":"ping","arguments":{}}'
        ),
        '<|function_call|> k7 {"name":"ping","arguments":{}}',
    ),
    "glm": (
        (
            "<tool_call>save\n"
            "<arg_key>path</arg_key>\n"
            "<arg_value>a</arg_value>\n"
            "<arg_key>n</arg_key>\n"
            "<arg_value>1</arg_value>\n"
            "</tool_call>\n"
            "<tool_call>ping\n"
            "</tool_call>"
        ),
        "<tool_call k7>ping\n</tool_call>",
    ),
    "harmony": (
        (
            '<|channel|>commentary to=functions.save <|constrain|>json<|message|>{"path":"a","n":1}<|call|><'
            "|start|>assistant<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{}<|call|>"
        ),
        "<|channel|>commentary to=functions.ping k7 <|constrain|>json<|message|>{}<|call|>",
    ),
    "hermes": (
        (
            "<tool_call>\n"
            '{"name":"save","arguments":{"path":"a","n":1}}\n'
            "</tool_call>\n"
            "<tool_call>\n"
            '{"name":"ping","arguments":{}}\n'
            "</tool_call>"
        ),
        '<tool_call k7>\n{"name":"ping","arguments":{}}\n</tool_call>',
    ),
    "invoke": (
        (
            '<invoke name="save">\n'
            '<parameter name="path">a</parameter>\n'
            '<parameter name="n">1</parameter>\n'
            "</invoke>\n"
            '<invoke name="ping">\n'
            "</invoke>"
        ),
        '<invoke name="ping">\n</invoke>',
    ),
    "tool_calls": (
        '[{"name":"save","arguments":{"path":"a","n":1}}, {"name":"ping","arguments":{}}]',
        '[{"name":"ping","arguments":{}}]',
    ),
    "kimi_k2": (
        (
            '<|tool_call_begin|>functions.save:0<|tool_call_argument_begin|>{"path":"a","n":1}<|tool_ca'
            "ll_end|><|tool_call_begin|>functions.ping:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
        ),
        "<|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    ),
    "kimi_k3": (
        (
            '<|open|>call tool="save" index="1"<|sep|><|open|>argument key="path" type="string"<|sep|>a<|close|>argument<|sep|><|open|>argument '
            'key="n" type="json"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool="ping" index="2"<|sep|><|close|>call<|sep|>'
        ),
        '<|open|>call tool="ping" index="1"<|sep|><|close|>call<|sep|>',
    ),
    "tool_line": (
        '{"tool":"save","args":{"path":"a","n":1}}\n{"tool":"ping","args":{}}',
        '{"nonce":"k7","tool":"ping","args":{}}',
    ),
    "llama": (
        ('<|python_tag|>{"name":"save","parameters":{"path":"a","n":1}}<|python_tag|>{"name":"ping","parameters":{}}'),
        '<|python_tag|> k7 {"name":"ping","parameters":{}}',
    ),
    "mistral": (
        '[{"name":"save","arguments":{"path":"a","n":1}}, {"name":"ping","arguments":{}}]',
        '[{"name":"ping","arguments":{}}]',
    ),
    "phi": (
        'functools[{"name":"save","arguments":{"path":"a","n":1}}, {"name":"ping","arguments":{}}]',
        '```tool_call k7\n[{"name":"ping","arguments":{}}]\n```',
    ),
    "olmo": ('save(path="a", n=1)\nping()', "ping()"),
    "lfm2": ('[save(path="a", n=1), ping()]', "[ping()]"),
    "pythonic": ('[save(path="a", n=1), ping()]', "```tool_code k7\n[ping()]\n```"),
    "qwen_xml": (
        (
            "<tool_call>\n"
            "<function=save>\n"
            "<parameter=path>\n"
            "a\n"
            "</parameter>\n"
            "<parameter=n>\n"
            "1\n"
            "</parameter>\n"
            "</function>\n"
            "</tool_call>\n"
            "<tool_call>\n"
            "<function=ping>\n"
            "</function>\n"
            "</tool_call>"
        ),
        "<tool_call k7>\n<function=ping>\n</function>\n</tool_call>",
    ),
    "react": (
        'Action: save\nAction Input: {"path":"a","n":1}\nAction: ping\nAction Input: {}',
        "Action k7: ping\nAction Input: {}",
    ),
    "tool_tag": ("<save>\n<path>\na\n</path>\n<n>\n1\n</n>\n</save>\n<ping>\n</ping>", "<ping k7>\n</ping>"),
    "xlam": (
        '[{"name":"save","arguments":{"path":"a","n":1}},{"name":"ping","arguments":{}}]',
        '[{"nonce":"k7","name":"ping","arguments":{}}]',
    ),
}


@pytest.mark.requirement("B1", "B2", "B3")
@check_each("name", WRITTEN)
def test_every_style_writes_its_calls(name: str):
    style = style_of(name)
    assert (style(BOTH, None), style([PING], "k7")) == WRITTEN[name]


ODD = ToolCall("save", {"a b": 1})
TEXT = ToolCall("save", {"text": 'a < b &amp; "c"'})

#: What does not fit a grammar is escaped, or written as JSON.
ESCAPED = {
    "python literals": (
        "lfm2",
        ToolCall("f", {"a": None, "b": True, "c": [False, {"k": None}], "d": 1.5, "e": "x\ny"}),
        '[f(a=None, b=True, c=[False, {"k": None}], d=1.5, e="x\\ny")]',
    ),
    "a key that is no identifier in python": ("olmo", ODD, 'save({"a b": 1})'),
    "a key that is no identifier in gemma": ("gemma", ODD, '<|tool_call>call:save{"a b":1}<tool_call|>'),
    "values of gemma": (
        "gemma",
        ToolCall("f", {"a": ["x", {"k": None}], "b": True}),
        '<|tool_call>call:f{a:[<|"|>x<|"|>,{k:null}],b:true}<tool_call|>',
    ),
    "a text that holds the quote of gemma": (
        "gemma",
        ToolCall("f", {"a": '<|"|>', "b": "x"}),
        '<|tool_call>call:f{"a":"<|\\"|>","b":"x"}<tool_call|>',
    ),
    "a text that ends like the quote of gemma": (
        "gemma",
        ToolCall("f", {"a": '<|"|', "b": "x"}),
        '<|tool_call>call:f{a:<|"|><|"|<|"|>,b:<|"|>x<|"|>}<tool_call|>',
    ),
    "a key that holds the quote of functiongemma": (
        "functiongemma",
        ToolCall("f", {"<escape>": 1}),
        '<start_function_call>call:f{"<escape>":1}<end_function_call>',
    ),
    "markup in invoke": (
        "invoke",
        TEXT,
        '<invoke name="save">\n<parameter name="text">a < b &amp; "c"</parameter>\n</invoke>',
    ),
    "markup in qwen": (
        "qwen_xml",
        TEXT,
        ('<tool_call>\n<function=save>\n<parameter=text>\na < b &amp; "c"\n</parameter>\n</function>\n</tool_call>'),
    ),
    "a line break at the beginning": (
        "invoke",
        ToolCall("f", {"a": "\nx"}),
        '<invoke name="f">\n<parameter name="a">\nx</parameter>\n</invoke>',
    ),
    "a carriage return": (
        "qwen_xml",
        ToolCall("f", {"a": "x\r"}),
        "<tool_call>\n<function=f>\n<parameter=a>\nx\r\n</parameter>\n</function>\n</tool_call>",
    ),
    "a key that is no tag in invoke": ("invoke", ODD, '<invoke name="save">\n{"a b":1}\n</invoke>'),
    "a key that is no tag in qwen": (
        "qwen_xml",
        ODD,
        '<tool_call>\n<function=save>\n{"a b":1}\n</function>\n</tool_call>',
    ),
    "a key that is no tag in glm": ("glm", ODD, '<tool_call>save\n{"a b":1}\n</tool_call>'),
    "a key that is no tag in kimi": (
        "kimi_k3",
        ODD,
        '<|open|>call tool="save" index="1"<|sep|>{"a b":1}<|close|>call<|sep|>',
    ),
    "a key that is no tag in a tag of the tool": ("tool_tag", ODD, '<save>\n{"a b":1}\n</save>'),
    "a key like the tool": ("tool_tag", ToolCall("f", {"f": 1}), '<f>\n{"f":1}\n</f>'),
    "a key like a tag": ("tool_tag", ToolCall("f", {"parameter": 1}), '<f>\n{"parameter":1}\n</f>'),
    "a tool like a mark": ("tool_tag", ToolCall("think", {"a": 1}), '<function=think>{"a":1}</function>'),
}


@check_each(("name", "call", "written"), ESCAPED.values(), ids=ESCAPED)
def test_what_does_not_fit_the_grammar_is_written_otherwise(name: str, call: ToolCall, written: str):
    assert style_of(name)([call], None) == written


def test_marks_stand_around_each_object():
    style = styles.between("<|go|>", "<|end|>", arguments="args", after_opener="!")
    assert style([ToolCall("f", {"a": 1}), ToolCall("g", {})], None) == (
        '<|go|>!{"name":"f","args":{"a":1}}<|end|>\n<|go|>!{"name":"g","args":{}}<|end|>'
    )
    assert styles.between("<go>", "</go>")([ToolCall("f", {})], "k7") == '<go k7>{"name":"f","arguments":{}}</go>'
