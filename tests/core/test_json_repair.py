"""Tolerant JSON: the value and the notes of each repair, and how early it is emitted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from tests.core.parsing_helpers import codes, names, read, read_chunks, written
from toolspeak.core.json_repair.parser import JSONParser
from toolspeak.core.json_repair.tokens import PART

pytestmark = pytest.mark.requirement("B4")


#: text, what it means, the notes it leaves
REPAIRS: list[tuple[str, Any, set[str]]] = [
    # commas
    ('{"a": 1,}', {"a": 1}, {"trailing_comma"}),
    ("[1, 2, ]", [1, 2], {"trailing_comma"}),
    ('{"a": [1,], "b": 2}', {"a": [1], "b": 2}, {"trailing_comma"}),
    ("[1,, 2]", [1, 2], {"extra_comma"}),
    ("[, 1]", [1], {"extra_comma"}),
    ('{, "a": 1}', {"a": 1}, {"extra_comma"}),
    ("{,}", {}, {"extra_comma"}),
    ('{"a": 1,, "b": 2}', {"a": 1, "b": 2}, {"extra_comma"}),
    ('{"a": 1 "b": 2}', {"a": 1, "b": 2}, {"missing_comma"}),
    ('{"a": "x" "b": 2}', {"a": "x", "b": 2}, {"missing_comma"}),
    ('{"a": "x""b": 2}', {"a": "x", "b": 2}, {"missing_comma"}),
    ('{"a": "x"\n b: 2}', {"a": "x", "b": 2}, {"missing_comma", "unquoted_key"}),
    ("[[1] [2]]", [[1], [2]], {"missing_comma"}),
    ('["a" "b"]', ["a", "b"], {"missing_comma"}),
    ('["a" 1, 2]', ["a", 1, 2], {"missing_comma"}),
    ('["a" true]', ["a", True], {"missing_comma"}),
    ("[1 2 true]", [1, 2, True], {"missing_comma"}),
    ("[1 apple]", ["1 apple"], {"unquoted_value"}),
    ('{"a": {"b": 1} "c": 2}', {"a": {"b": 1}, "c": 2}, {"missing_comma"}),
    ('{"a": 1; "b": 2}', {"a": 1, "b": 2}, {"other_separator"}),
    # colons
    ('{"a" "b"}', {"a": "b"}, {"missing_colon"}),
    ('{"a" {"b": 1}}', {"a": {"b": 1}}, {"missing_colon"}),
    ('{"a" [1]}', {"a": [1]}, {"missing_colon"}),
    ('{"a" 1}', {"a": 1}, {"missing_colon"}),
    ('{"a" -1}', {"a": -1}, {"missing_colon"}),
    ('{a "b"}', {"a": "b"}, {"missing_colon", "unquoted_key"}),
    ("{a {}}", {"a": {}}, {"missing_colon", "unquoted_key"}),
    ('{"a", 105}', {"a": 105}, {"missing_colon"}),
    ('{"a",5}', {"a": 5}, {"missing_colon"}),
    ('{"a", {"b", [1]}}', {"a": {"b": [1]}}, {"missing_colon"}),
    ('{"x": 1, "a", -5}', {"x": 1, "a": -5}, {"missing_colon"}),
    ('{"a" = 1}', {"a": 1}, {"other_separator"}),
    ('{"a" => 1}', {"a": 1}, {"other_separator"}),
    ('{"a":: 1}', {"a": 1}, {"other_separator"}),
    (
        '{tool => "shell", args => { --command "uname -a" }}',
        {"tool": "shell", "args": {"command": "uname -a"}},
        {"unquoted_key", "other_separator", "missing_colon"},
    ),
    (
        '{args => {\n --command "ls --all"\n --n 2\n --m -3\n}}',
        {"args": {"command": "ls --all", "n": 2, "m": -3}},
        {"unquoted_key", "other_separator", "missing_colon", "missing_comma"},
    ),
    (
        "{args => { --n 2\n --all --m 3 }}",
        {"args": {"n": 2, "m": 3}},
        {"unquoted_key", "other_separator", "missing_colon", "missing_comma", "stray_text"},
    ),
    # quotes
    ("{'a': 'b'}", {"a": "b"}, {"single_quotes"}),
    ("{`a`: `b`}", {"a": "b"}, {"single_quotes"}),
    ("{'a': 'say \"x\"'}", {"a": 'say "x"'}, {"single_quotes"}),
    ("{“a”: “b”}", {"a": "b"}, {"smart_quotes"}),
    ('{"a": “b"}', {"a": "b"}, {"smart_quotes"}),
    ("{‘a’: ‘b’, „c”: 1}", {"a": "b", "c": 1}, {"smart_quotes"}),
    ("{＂a＂: ＇b＇}", {"a": "b"}, {"fullwidth"}),
    ('{""a"": ""b"", "c": \'\'d e\'\'}', {"a": "b", "c": "d e"}, {"doubled_quotes", "single_quotes"}),
    ('{"" key": 1}', {" key": 1}, {"doubled_quotes"}),
    ('{"a": ""b", "c": 1}', {"a": "b", "c": 1}, {"doubled_quotes"}),
    ('{"a": ""b", (c) d""}', {"a": 'b", (c) d'}, {"doubled_quotes", "inner_quotes"}),
    ('{"a": "" b", "c": 1}', {"a": '" b', "c": 1}, {"inner_quotes"}),
    ('{"a": ""hi" he said"}', {"a": '"hi" he said'}, {"inner_quotes"}),
    ('{"a": "", "b": ["", ""], "": ""}', {"a": "", "b": ["", ""], "": ""}, set()),
    ('{"a": """b "c"\nd"""}', {"a": 'b "c"\nd'}, {"triple_quotes"}),
    (
        "{'a': '''b 'c' \\n \\d'''}",
        {"a": "b 'c' \n \\d"},
        {"triple_quotes", "triple_quote_escape", "single_quotes", "bad_escape"},
    ),
    ('{"a": """x = "y"""", "b": 1}', {"a": 'x = "y"', "b": 1}, {"triple_quotes"}),
    ('{"a": """""", "b": 1}', {"a": "", "b": 1}, {"triple_quotes"}),
    ('{"a": """x""y""""""", "b": 1}', {"a": 'x""y""""', "b": 1}, {"triple_quotes"}),
    ("{'a': '''x''y\"'''}", {"a": "x''y\""}, {"triple_quotes", "single_quotes"}),
    (
        '{a: <|"|>x "y" \\n<b><|"|>, b: <escape>c<escape>}',
        {"a": 'x "y" \\n<b>', "b": "c"},
        {"unquoted_key", "raw_quotes"},
    ),
    # forgotten quotes
    ('{"a: 1, b": 2}', {"a: 1, b": 2}, set()),
    ('{"key:"value"}', {"key": "value"}, {"missing_quote"}),
    ('{"key :"value", "b": 1}', {"key ": "value", "b": 1}, {"missing_quote"}),
    ('{"a:"b": 1}', {'a:"b': 1}, {"inner_quotes"}),
    ('{a": 1, b": 2}', {"a": 1, "b": 2}, {"unquoted_key", "missing_quote"}),
    ('{"a": "x", b": 2}', {"a": "x", "b": 2}, {"unquoted_key", "missing_quote"}),
    ('{"a": "x", "b:"y"}', {"a": "x", "b": "y"}, {"missing_quote"}),
    ('{"a": b", "c": 1}', {"a": "b", "c": 1}, {"missing_quote", "unquoted_value"}),
    ('{"a": 12345", "c": 1}', {"a": 12345, "c": 1}, {"missing_quote"}),
    ('{"a": some words", "c": d"}', {"a": "some words", "c": "d"}, {"missing_quote", "unquoted_value"}),
    ('{"a": "New York, "b": "c"}', {"a": "New York", "b": "c"}, {"missing_quote"}),
    ('{"a": "x,\n  "b": "c"}', {"a": "x", "b": "c"}, {"missing_quote"}),
    ('{"a": "x, ", "b": 1}', {"a": "x, ", "b": 1}, set()),
    ('{"a": "x, "b": inside", "c": 1}', {"a": 'x, "b": inside', "c": 1}, {"inner_quotes"}),
    ('{"a": "x, ", ":": 1}', {"a": "x, ", ":": 1}, set()),
    (
        '["value1" value2", "value3"]',
        ["value1", "value2", "value3"],
        {"missing_comma", "missing_quote", "unquoted_value"},
    ),
    ('["x", y", z]', ["x", "y", "z"], {"missing_quote", "unquoted_value"}),
    # inner quotes
    (
        '{"name":"edit","arguments":{"content":"He said "hello" to me"}}',
        {"name": "edit", "arguments": {"content": 'He said "hello" to me'}},
        {"inner_quotes"},
    ),
    (
        '{"name":"edit","arguments":{"content":"He said "}" there"}}',
        {"name": "edit", "arguments": {"content": 'He said "}" there'}},
        {"inner_quotes"},
    ),
    (
        '{"a": {"content": "env.get("KEY", "default")"}}',
        {"a": {"content": 'env.get("KEY", "default")'}},
        {"inner_quotes"},
    ),
    ('{"a": "<div data-kind="card">ok</div>"}', {"a": '<div data-kind="card">ok</div>'}, {"inner_quotes"}),
    ('{"a": "<p title="问候">你好</p>"}', {"a": '<p title="问候">你好</p>'}, {"inner_quotes"}),
    ('{"content": "[LINK](\\"https://x.y\\")"}', {"content": '[LINK]("https://x.y")'}, set()),
    ('{"content": "[LINK]("https://x.y")"}', {"content": '[LINK]("https://x.y")'}, {"inner_quotes"}),
    ('{"body": "{"a": "x", "b": "y"}", "n": 3}', {"body": '{"a": "x", "b": "y"}', "n": 3}, {"inner_quotes"}),
    ('{"body": "{"a": {"k": "v"}, "b": 1}", "n": 3}', {"body": '{"a": {"k": "v"}, "b": 1}', "n": 3}, {"inner_quotes"}),
    ('{"a": "x = {"k": "v"} ok"}', {"a": 'x = {"k": "v"} ok'}, {"inner_quotes"}),
    ('{"a": "b"c, "d": "e"}', {"a": 'b"c', "d": "e"}, {"inner_quotes", "missing_quote"}),
    ('{"a": "{"x": 1, "y": 2}"}', {"a": '{"x": 1, "y": 2}'}, {"inner_quotes"}),
    ('{"a": "the "big one", "b": 1}', {"a": 'the "big one', "b": 1}, {"inner_quotes"}),
    ('{"a": "say "hi""}', {"a": 'say "hi"'}, {"inner_quotes"}),
    ('{"a": "I like "x", and "y"", "n": 1}', {"a": 'I like "x", and "y"', "n": 1}, {"inner_quotes"}),
    ("{'a': 'it's', 'b': 'don't'}", {"a": "it's", "b": "don't"}, {"inner_quotes", "single_quotes"}),
    ('{"k"e"y": 1}', {'k"e"y': 1}, {"inner_quotes"}),
    ('["lorem "ipsum" sic"]', ['lorem "ipsum" sic'], {"inner_quotes"}),
    ('["print("a", "b")", "c"]', ['print("a", "b")', "c"], {"inner_quotes"}),
    ('["the "big one", "b"]', ['the "big one', "b"], {"inner_quotes"}),
    ('{"a": "print("x")\nprint("y", "z")"}', {"a": 'print("x")\nprint("y", "z")'}, {"inner_quotes", "raw_control"}),
    # control characters and escapes
    ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}, {"raw_control"}),
    ('{"a": "x\n\n, y\\n,\n"}', {"a": "x\n\n, y\n,\n"}, {"raw_control"}),
    ('{"a": "x\ny, "b": 1}', {"a": "x\ny", "b": 1}, {"raw_control", "missing_quote"}),
    ("{'a': 'x\n\"y\"\n'}", {"a": 'x\n"y"\n'}, {"raw_control", "single_quotes"}),
    ('{"a": "x\n\ud800\n"}', {"a": "x\n\ufffd\n"}, {"raw_control", "lone_surrogate"}),
    ('{"key_1\n": "x"}', {"key_1": "x"}, {"raw_control"}),
    ('{"key\t_": "x"}', {"key\t_": "x"}, {"raw_control"}),
    ('{"key\\n": "x"}', {"key\n": "x"}, set()),
    ('{"a": "\\d C:\\path"}', {"a": "\\d C:\\path"}, {"bad_escape"}),
    ('{"a": "it\\\'s \\$5 \\\n\\\t"}', {"a": "it's $5 \n\t"}, {"bad_escape"}),
    ('{"a": "\\x41"}', {"a": "A"}, {"bad_escape"}),
    # doubled encoding
    (r"[{\"id\": \"1\", \"task\": \"C:\\\\Users\"}]", [{"id": "1", "task": "C:\\Users"}], {"double_encoded"}),
    (r"{\n \"a\": \"x\\ny \\\"q\\\" \\u00e9\",\r\n\t\"b\": [1]\n}", {"a": 'x\ny "q" é', "b": [1]}, {"double_encoded"}),
    (r'{"query": \"foo\"}', {"query": "foo"}, {"double_encoded"}),
    (r"{\"a\": \"x\\n\", \"b\": \"\t\"}", {"a": "x\n", "b": "\t"}, {"double_encoded"}),
    (r'{"query": \"foo", "b": 1}', {"query": "foo", "b": 1}, {"double_encoded"}),
    (r'{"query": \"foo \"bar\" x\", "n": 1}', {"query": 'foo "bar" x', "n": 1}, {"double_encoded", "inner_quotes"}),
    (r'{"query": \"a\nb\d\\d\"}', {"query": "a\nb\\d\\d"}, {"double_encoded", "bad_escape"}),
    (r"{\"key:\"value\"}", {"key": "value"}, {"double_encoded", "missing_quote"}),
    # comments
    ('{"a": 1 // one, two\n, "b": 2 # three\n}', {"a": 1, "b": 2}, {"comment"}),
    ('{/* x */"a": /* "b": */ 1}', {"a": 1}, {"comment"}),
    ('{"a": "x" // c\n}', {"a": "x"}, {"comment"}),
    ('{"a": "x" /* c */, # d\n"b": 2}', {"a": "x", "b": 2}, {"comment"}),
    ('{"a": {"b": "c" # comment }, "d": 1}', {"a": {"b": "c"}, "d": 1}, {"comment", "stray_text"}),
    ('{"a": 1, // "b": 2\n"c": 3}', {"a": 1, "c": 3}, {"comment", "stray_text"}),
    ('{"a": 1, // one\r"b": 2, # two\r\n"c": 3 // three\u2028}', {"a": 1, "b": 2, "c": 3}, {"comment", "odd_space"}),
    ('{"a": 1// one\n, "b": true/* two */, "c": 2# three\n}', {"a": 1, "b": True, "c": 2}, {"comment"}),
    ('{"a": 1 // see {x} and [y]\n}', {"a": 1}, {"comment"}),
    ('{"a": 1 // see y]\n}', {"a": 1}, {"comment"}),
    ('{"a": 1, // see [1 and {2\n"b": 3}', {"a": 1, "b": 3}, {"comment"}),
    ("[1 /* ** */, 2]", [1, 2], {"comment"}),
    ("// c\n[1]", [1], {"comment"}),
    ("[1, 2 // ) c\n]", [1, 2], {"comment"}),
    # Python
    ('{"a": True, "b": None, "c": FALSE}', {"a": True, "b": None, "c": False}, {"python_literal"}),
    ("(1, 2)", [1, 2], {"python_literal"}),
    ("(1,)", [1], {"python_literal", "trailing_comma"}),
    ("()", [], {"python_literal"}),
    ("((1, 2), (3), ())", [[1, 2], 3, []], {"python_literal"}),
    ('{"a": (1, 2), "b": ("x"), "c": 1}', {"a": [1, 2], "b": "x", "c": 1}, {"python_literal"}),
    ('("x")', "x", set()),
    ("((({})))", {}, set()),
    ('([1], {"a": ("b", "c")})', [[1], {"a": ["b", "c"]}], {"python_literal"}),
    ('("a" "b")', ["a", "b"], {"missing_comma", "python_literal"}),
    ("{'a', 'b'}", ["a", "b"], {"python_set", "single_quotes"}),
    ('{"a"}', ["a"], {"python_set"}),
    ('{"a",}', ["a"], {"python_set", "trailing_comma"}),
    ("{1, 2}", [1, 2], {"python_set", "unquoted_key"}),
    ("{5}", [5], {"python_set", "unquoted_key"}),
    ("{True}", [True], {"python_literal", "python_set", "unquoted_key"}),
    ('{"a": {"x", "y"}, "b": 1}', {"a": ["x", "y"], "b": 1}, {"python_set"}),
    ('{"a": r"\\d\\"", "b": R"x\\\\"}', {"a": '\\d\\"', "b": "x\\\\"}, {"python_literal"}),
    (
        "{'a': b'x', 'b': u\"y\", 'c': f'z', 'd': rb'\\n'}",
        {"a": "x", "b": "y", "c": "z", "d": "\\n"},
        {"python_literal", "single_quotes"},
    ),
    ('{"a": r"""\\d"\n"""}', {"a": '\\d"\n'}, {"python_literal", "triple_quotes"}),
    ('[r"\\d", "\\n"]', ["\\d", "\n"], {"python_literal"}),
    ('{"a": false, "b": fun}', {"a": False, "b": "fun"}, {"unquoted_value"}),
    # bare keys and values
    ("{a: 1, b-c: 2, $d: 3, é: 4}", {"a": 1, "b-c": 2, "$d": 3, "é": 4}, {"unquoted_key"}),
    ('{5: "x"}', {"5": "x"}, {"unquoted_key"}),
    ("{a: b, c: d e f}", {"a": "b", "c": "d e f"}, {"unquoted_key", "unquoted_value"}),
    ('{"a": Paris, France, "b": 1}', {"a": "Paris, France", "b": 1}, {"unquoted_value", "missing_quote"}),
    ('{"a": Paris, b: 1}', {"a": "Paris", "b": 1}, {"unquoted_value", "unquoted_key"}),
    ('{"a": Paris, x "b": 1}', {"a": "Paris", "b": 1}, {"unquoted_value", "unquoted_key", "stray_text"}),
    ('{"a": 1,234, "b": 1}', {"a": "1,234", "b": 1}, {"unquoted_value", "missing_quote"}),
    (
        '{"lorem": ipsum, sic, datum.",}',
        {"lorem": "ipsum, sic, datum."},
        {"unquoted_value", "missing_quote", "trailing_comma"},
    ),
    (
        "{text:words{in brackets}m}",
        {"text": "words{in brackets}m"},
        {"unquoted_key", "unquoted_value", "missing_quote"},
    ),
    (
        '{"a": f(1, [2], "x"), "b": g((1)), "c": 1}',
        {"a": 'f(1, [2], "x")', "b": "g((1))", "c": 1},
        {"unquoted_value", "missing_quote"},
    ),
    ('{"a": 1: 2, "b": 1}', {"a": "1: 2", "b": 1}, {"unquoted_value", "missing_quote"}),
    ("{a: x\rb: y}", {"a": "x", "b": "y"}, {"unquoted_key", "unquoted_value", "missing_comma"}),
    ('{"a": http://x.y/z#w, "b": 1}', {"a": "http://x.y/z#w", "b": 1}, {"unquoted_value"}),
    (f'{{"a": {"x" * 65}//y#z // w\n}}', {"a": "x" * 65 + "//y#z"}, {"unquoted_value", "comment"}),
    ('{"a": <b>, "c": 1}', {"a": "<b>", "c": 1}, {"unquoted_value"}),
    ('{"a": don\'t, "b": 1}', {"a": "don't", "b": 1}, {"unquoted_value"}),
    ('{"a": x "b": 1}', {"a": "x", "b": 1}, {"unquoted_value", "missing_comma", "missing_quote"}),
    ('{"a": x\n"b": 1}', {"a": "x", "b": 1}, {"unquoted_value", "missing_comma"}),
    ("[foo bar, baz]", ["foo bar", "baz"], {"unquoted_value"}),
    ("[a\nb]", ["a", "b"], {"unquoted_value", "missing_comma"}),
    # numbers
    (
        '{"a": 1_234.5_6, "b": .25, "c": +1, "d": 007, "e": 1e }',
        {"a": 1234.56, "b": 0.25, "c": 1, "d": "007", "e": 1},
        {"number_format", "leading_zeros"},
    ),
    (
        '{"a": 1/3, "b": 10-20, "c": 1.1.1, "d": 2x}',
        {"a": "1/3", "b": "10-20", "c": "1.1.1", "d": "2x"},
        {"unquoted_value"},
    ),
    # missing and stray things
    ('{"a": , "b": 1}', {"a": None, "b": 1}, {"missing_value"}),
    ('{"a": }', {"a": None}, {"missing_value"}),
    ('{"a": - , "b": 1}', {"a": None, "b": 1}, {"missing_value"}),
    ("[1, -, 2]", [1, 2], {"stray_text"}),
    ("[1, 2, ...]", [1, 2], {"ellipsis"}),
    ("[1, …, 2]", [1, 2], {"ellipsis"}),
    ('["a", ...]', ["a"], {"ellipsis"}),
    ('{"a": 1, ...}', {"a": 1}, {"ellipsis"}),
    ('{"a": "x", ...}', {"a": "x"}, {"ellipsis"}),
    ('{…, "a": 1}', {"a": 1}, {"ellipsis", "extra_comma"}),
    ('{"a": ...}', {"a": "..."}, {"unquoted_value"}),
    ('{"a": true, COMMENT "b": 1}', {"a": True, "b": 1}, {"stray_text", "unquoted_key"}),
    ('{"a": true, two words "b": 1}', {"a": True, "b": 1}, {"stray_text", "unquoted_key"}),
    ('{COMMENT "b": 1}', {"b": 1}, {"stray_text", "unquoted_key"}),
    ('{"a": "x" true}', {"a": "x"}, {"stray_text", "missing_comma", "unquoted_key"}),
    ('{"a": "x" y z, "b": 2}', {"a": "x", "b": 2}, {"stray_text", "missing_comma", "unquoted_key"}),
    ('{"a": "x", "y"}', {"a": "x"}, {"stray_text"}),
    ('{"a": "x", "y", "b": 1}', {"a": "x", "b": 1}, {"stray_text"}),
    ('{"a", "b": 1}', {"b": 1}, {"stray_text"}),
    ('{"a": "x", "b" "y"}', {"a": "x", "b": "y"}, {"missing_colon"}),
    ('{"a": 1, y}', {"a": "1, y"}, {"unquoted_value", "missing_quote"}),
    # closers
    ('{"a": [1, 2}', {"a": [1, 2]}, {"missing_closer"}),
    ('{"a": ["x"}', {"a": ["x"]}, {"missing_closer"}),
    ('[{"a": ["x"}, {"b": 1}]', [{"a": ["x"]}, {"b": 1}], {"missing_closer"}),
    ('{"a": {"b": [1, 2}, "c": 3}', {"a": {"b": [1, 2]}, "c": 3}, {"missing_closer"}),
    ('{"a": [1, 2}, "c": 3}', {"a": [1, 2], "c": 3}, {"wrong_closer"}),
    ('[{"a": [1, 2}, "c": 3}]', [{"a": [1, 2], "c": 3}], {"wrong_closer"}),
    ('[{"a": 1}}, {"b": 1}]', [{"a": 1}, {"b": 1}], {"extra_closer"}),
    ('{"a": {"b": 1], "c": 2}}', {"a": {"b": 1, "c": 2}}, {"wrong_closer"}),
    ('{"a": "x"]}', {"a": "x"}, {"wrong_closer"}),
    ('{"a": [1]], "b": 2}', {"a": [1], "b": 2}, {"wrong_closer"}),
    ('{"a": {"b": [1, 2}, "c": [3]}}', {"a": {"b": [1, 2], "c": [3]}}, {"wrong_closer"}),
    ('{"a": {"b": [1, 2}, "c": "}", "d": {}}}', {"a": {"b": [1, 2], "c": "}", "d": {}}}, {"wrong_closer"}),
    ('{"a": {"b": [1}}, "c": 2}', {"a": {"b": [1]}, "c": 2}, {"wrong_closer"}),
    ('{"a": [1}}', {"a": [1]}, {"wrong_closer"}),
    ('{"a": {"b": [1, 2}, "c": "%s"}}' % ("x" * 300), {"a": {"b": [1, 2], "c": "x" * 300}}, {"wrong_closer"}),
    ('{"a": [{"b": [1}, {"c": "%s"}]}' % ("x" * 300), {"a": [{"b": [1]}, {"c": "x" * 300}]}, {"missing_closer"}),
    ('[{"a": 1, {"b": 2}]', [{"a": 1}, {"b": 2}], {"missing_closer"}),
    ('[{"a": "x", {"b": 2}]', [{"a": "x"}, {"b": 2}], {"missing_closer"}),
    ('[{"a": 1 {"b": 2}]', [{"a": 1}, {"b": 2}], {"missing_closer", "missing_comma"}),
    ('{"a": [1, 2, "b": 3}', {"a": [1, 2], "b": 3}, {"missing_closer"}),
    ('{"a": ["s", "b": 3}', {"a": ["s"], "b": 3}, {"missing_closer"}),
    ('{"a": ["x"], ["y"], ["z"], "b": 1}', {"a": ["x", "y", "z"], "b": 1}, {"split_array"}),
    ('{"a": [1] , [] }', {"a": [1]}, {"split_array"}),
    ('{"a": [1｝', {"a": [1]}, {"missing_closer", "fullwidth"}),
    ('{"a": [1｝, "b": 2}', {"a": [1], "b": 2}, {"wrong_closer", "fullwidth"}),
    ('({"a": [1}, "b": 2})', {"a": [1], "b": 2}, {"wrong_closer"}),
    ('{"a": [1, }', {"a": [1]}, {"missing_closer", "trailing_comma"}),
    # openers
    ('["a": 1, "b": 2]', [{"a": 1, "b": 2}], {"missing_opener", "missing_closer"}),
    ('["a": 1}, {"b": 2}]', [{"a": 1}, {"b": 2}], {"missing_opener"}),
    ('{"x": ["a": "b"]}', {"x": [{"a": "b"}]}, {"missing_opener", "missing_closer"}),
    ('{"x": [{"a": 1}, "b": 2}]}', {"x": [{"a": 1}, {"b": 2}]}, {"missing_opener"}),
    ('[1, "b": 2}]', [1, {"b": 2}], {"missing_opener"}),
    ('{{"a": 1}}', {"a": 1}, {"doubled_braces"}),
    ('{{"name": "f", "arguments": {{"x": {{}}}}}}', {"name": "f", "arguments": {"x": {}}}, {"doubled_braces"}),
    # full-width punctuation and odd spaces
    ('｛"a"：1，"b"：［2］｝', {"a": 1, "b": [2]}, {"fullwidth"}),
    ('{"a"：1}', {"a": 1}, {"fullwidth"}),
    ('{"a"＝1}', {"a": 1}, {"fullwidth"}),
    ('{"a": 1；"b": 2}', {"a": 1, "b": 2}, {"fullwidth"}),
    ("（1，2）", [1, 2], {"fullwidth", "python_literal"}),
    ("｛｝", {}, {"fullwidth"}),
    ('\ufeff{"a":\u00a01,\u3000"b":\x0c2}', {"a": 1, "b": 2}, {"odd_space"}),
    ("[1\u00a0]", [1], {"odd_space"}),
    ('["a:"b"]', ['a:"b'], {"inner_quotes"}),
    ('{"\n a ": 1}', {" a ": 1}, {"raw_control"}),
]


@check_each(("text", "value", "notes"), REPAIRS, ids=names(REPAIRS))
def test_a_repair_is_read_as_it_was_meant_and_noted(text: str, value: Any, notes: set[str]):
    reading = read(text)
    assert reading.status == "complete"
    assert json.loads(reading.text) == value
    assert codes(reading) == notes
    assert reading.end == len(text)
    assert read_chunks(text) == reading


#: text of an argument list, what it means, the notes it leaves
CALLS: list[tuple[str, Any, set[str]]] = [
    ('(city="Paris", n: 2, "positional", [1])', {"city": "Paris", "n": 2, "#0": "positional", "#1": [1]}, set()),
    ("()", {}, set()),
    (" ( ) ", {}, set()),
    ("(\"a\", 'b')", {"#0": "a", "#1": "b"}, {"single_quotes"}),
    ('("k": 1, "l"=2)', {"k": 1, "l": 2}, set()),
    ('({"a": 1}, x={"b": 2})', {"#0": {"a": 1}, "x": {"b": 2}}, set()),
    ("(-1, 2.5, true, None)", {"#0": -1, "#1": 2.5, "#2": True, "#3": None}, {"python_literal"}),
    ("(New York, 5)", {"#0": "New York", "#1": 5}, {"unquoted_value"}),
    ("(a=(1, 2), b=(3), c=())", {"a": [1, 2], "b": 3, "c": []}, {"python_literal"}),
    ("((1, 2), (3))", {"#0": [1, 2], "#1": 3}, {"python_literal"}),
    ("(a=1,)", {"a": 1}, {"trailing_comma"}),
    ("(a=g(1, 2), b=x, y=3)", {"a": "g(1, 2)", "b": "x", "y": 3}, {"unquoted_value", "missing_quote"}),
    ('(a="""x\\ty""")', {"a": "x\ty"}, {"triple_quotes"}),
    ("(a=b, c)", {"a": "b", "#0": "c"}, {"unquoted_value"}),
    ("(r'\\d', b'x', a=u\"y\")", {"#0": "\\d", "#1": "x", "a": "y"}, {"python_literal", "single_quotes"}),
    ('(code="env.get("KEY", "default")", n=2)', {"code": 'env.get("KEY", "default")', "n": 2}, {"inner_quotes"}),
    ('("print("a", "b")", n=2)', {"#0": 'print("a", "b")', "n": 2}, {"inner_quotes"}),
    ("(a='it's', b=1)", {"a": "it's", "b": 1}, {"single_quotes", "inner_quotes"}),
    ('(a="x" b="y")', {"a": 'x" b="y'}, {"inner_quotes"}),
    ('(a="x"\n b=2)', {"a": "x", "b": 2}, {"missing_comma"}),
    ('(path="/x", content="""a\n"b" c""")', {"path": "/x", "content": 'a\n"b" c'}, {"triple_quotes"}),
    ("(x=1, # c\n y=2)", {"x": 1, "y": 2}, {"comment"}),
    ("（a＝1，b：2）", {"a": 1, "b": 2}, {"fullwidth"}),
    ("(a=, b=1)", {"a": None, "b": 1}, {"missing_value"}),
    ("(a=1, a=2)", {"a": 2}, {"duplicate_key"}),
    ("(a==1)", {"a": 1}, {"other_separator"}),
    ("(a=>1)", {"a": 1}, set()),
    ("(a=1, ...)", {"a": 1}, {"ellipsis"}),
    (f'("{"x" * 64}": 1)', {"x" * 64: 1}, set()),
    (f'("{"x" * 65}", "y")', {"#0": "x" * 65, "#1": "y"}, set()),
    (f'("""{"x" * 65}""")', {"#0": "x" * 65}, {"triple_quotes"}),
    (f'("{"x" * 65} "y" z", k=1)', {"#0": "x" * 65 + ' "y" z', "k": 1}, {"inner_quotes"}),
    ('(a=[1), "b": 2)', {"a": [1], "b": 2}, {"wrong_closer"}),
    ("(a=[1)", {"a": [1]}, {"missing_closer"}),
]


@check_each(("text", "value", "notes"), CALLS, ids=names(CALLS))
def test_an_argument_list_is_read_as_the_object_it_means(text: str, value: Any, notes: set[str]):
    reading = read(text, call=True)
    assert reading.status == "complete"
    assert json.loads(reading.text) == value
    assert codes(reading) == notes
    assert read_chunks(text, call=True) == reading


def test_an_argument_list_ends_with_its_parenthesis():
    assert read('(a="x") and text', call=True).end == 7


@check_each("text", ["[1]", "{}", "a=1", '"x"', ")"])
def test_an_argument_list_must_begin_with_a_parenthesis(text: str):
    reading = read(text, call=True)
    assert (reading.status, reading.text, codes(reading), reading.end) == ("hopeless", "", {"no_call"}, 0)


# ---- streaming: certain text is emitted at once, only undecided text is left unread

LINE = ("\nResult:",)


@pytest.mark.requirement("B8")
@check_each(
    ("text", "unread", "out"),
    [
        # comments
        ('{"a": {} /* long', "", '{"a":{}'),
        ('{"a": {} /* long *', "*", '{"a":{}'),
        ('{"a": {} /* long **', "*", '{"a":{}'),
        ('{"a": {} // long', "", '{"a":{}'),
        ('{"a": {} # long', "", '{"a":{}'),
        ('{"a": {} /', " /", '{"a":{}'),
        # quotes
        ('{"a": ""x"", "b": ', "", '{"a":"x","b":'),
        ("{'a': 'x', 'b': ", "", '{"a":"x","b":'),
        ("{'a': 'x', ", "', ", '{"a":"x'),
        # words
        ('{"a": x, y, "b": ', "", '{"a":"x, y","b":'),
        # escapes that were escaped once more
        (r"{\"a\": \"x\n y", "", r'{"a":"x\n y'),
        (r"{\"a\": \"x\\n y", "", r'{"a":"x\n y'),
        (r"{\"a\": \"x\\\\ y", "", r'{"a":"x\\ y'),
        (r"{\"a\": \"x\\\" y", "", r'{"a":"x\" y'),
        (r"{\"a\": \"x\\", "\\\\", '{"a":"x'),
    ],
)
def test_what_is_certain_is_read_at_once(text: str, unread: str, out: str):
    parser = JSONParser()
    assert (text[parser.feed(text) :], written(parser.tokens)) == (unread, out)


@pytest.mark.requirement("B8")
@check_each(
    ("text", "unread", "out"),
    [
        ('{"a": [1, 2, ', "", '{"a":[1,2'),
        ('{"a": {} \n', "\n", '{"a":{}'),
        ('{"a": {} \n \nRes', "\nRes", '{"a":{}'),
        ('{"a": {} \n \nRest', "Rest", '{"a":{}'),
        ('{"a": {} \n Result:', "", '{"a":{},"Result":'),
        ('{"a": {} \nResult:', "\nResult:", '{"a":{}}'),
    ],
)
def test_only_what_may_be_a_mark_at_a_line_is_waited_for(text: str, unread: str, out: str):
    parser = JSONParser(stops=LINE)
    assert (text[parser.feed(text) :], written(parser.tokens)) == (unread, out)


@pytest.mark.requirement("B8")
def test_a_mark_at_a_line_inside_quotes_is_text():
    assert read('{"a": "x\nResult: y" , "b": 1}', stops=LINE).text == '{"a":"x\\nResult: y","b":1}'


@pytest.mark.requirement("B8")
def test_a_string_with_escapes_goes_out_in_one_piece():
    parser = JSONParser()
    parser.feed('{"a": "x\\n\\t\\"y')
    assert [text for kind, text in parser.tokens if kind == PART] == ['x\\n\\t\\"y']


@pytest.mark.requirement("B8")
@check_each("text", ['"""x"""', '""x""', "'''x'''"])
def test_quotes_around_the_whole_value_are_single_ones(text: str):
    reading = read(text)
    assert (reading.text, reading.status, reading.end) == ('""', "complete", 2)


@pytest.mark.requirement("B8")
@check_each("text", ["{'a': 'x', 'b': ", "{'a", '{\'a\': """x""",', "[('x'", "{'a': r'x"])
def test_outside_a_string_that_flows_there_is_no_shortcut(text: str):
    parser = JSONParser()
    parser.feed(text)
    assert parser.text_run() is None


@pytest.mark.requirement("B8")
def test_a_caller_counts_and_notes_the_text_that_it_handles_itself():
    parser = JSONParser()
    parser.feed('{"a": "x')
    before = parser.remaining_chars
    parser.count_chars(3)
    parser.note_control()
    assert (before - parser.remaining_chars, parser.codes) == (3, {"raw_control"})


def test_a_bracket_in_a_comment_that_closes_nothing_is_part_of_it():
    assert json.loads(read('{"a": 1, // x ] y\n "b": 2}').text) == {"a": 1, "b": 2}
