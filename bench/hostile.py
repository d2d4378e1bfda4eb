"""Texts made to hurt a parser: each shape takes a length and gives a text of about that many characters.

Every one of them is quadratic, or worse, for a parser that searches the kept text again at each chunk, that
backtracks, or that parses what it has once more whenever something arrives. Above: `parsers`, and the test of hostile text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["SHAPES", "TOOLS"]

_FILE = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["content"],
}
#: What a scanner is offered that reads them.
TOOLS: list[dict[str, Any]] = [{"name": "write_file", "parameters": _FILE}, {"name": "f"}]
_OPEN = '<tool_call>{"name":"write_file","arguments":{"path":"a.py","content":"'
_VALUE = "<tool_call><function=write_file><parameter=content>"
_ARRAY = '<tool_call>{"name":"write_file","arguments":{"lines":['


def _repeat(unit: str, before: str = "") -> Callable[[int], str]:
    return lambda size: before + unit * max(1, (size - len(before)) // len(unit))


def _nested_fences(size: int) -> str:
    """Fences of three to six marks, opened inside each other and never closed in order."""
    marks = ["`" * count for count in range(3, 7)] + ["~" * count for count in range(3, 7)]
    return _repeat("".join(f"{mark}json action\n{{\n" for mark in marks))(size)


SHAPES: dict[str, Callable[[int], str]] = {
    "unclosed openers": _repeat("<tool_call>"),
    "unclosed openers, one a line": _repeat("<tool_call>\n"),
    "unclosed openers of many kinds": _repeat('<tool_call><function=f>[TOOL_CALLS]```json action\n<invoke name="f">'),
    "brace storm": _repeat("{"),
    "brace storm in lines": _repeat(' {"name": {'),
    "brace storm in a call": _repeat('{"a":', '<tool_call>{"name":"write_file","arguments":'),
    "bracket storm": _repeat("["),
    "brackets and spaces": _repeat("[ "),
    "quote storm in a call": _repeat('"', _OPEN),
    "quotes and spaces in a call": _repeat('" ', _OPEN),
    "quotes and commas in a call": _repeat('", "', _OPEN),
    "quote storm in a bare call": _repeat('"', '{"tool": "write_file", "args": {"content": "'),
    "nested fences": _nested_fences,
    "fences": _repeat("```\n"),
    "fences of mixed lengths": _repeat("```\n~~~\n````\n~~~~\n`````\n"),
    "a fence that never closes": _repeat("```\n", "````\n"),
    "ticks at the start of a line": _repeat("`"),
    "ticks in the middle of a line": _repeat("`", "a "),
    "pairs of ticks": _repeat("`` "),
    "tildes": _repeat("~"),
    "backslashes in a string": _repeat("\\", _OPEN),
    "backslashes and quotes in a string": _repeat('\\"', _OPEN),
    "almost marks": _repeat("<tool_cal <|tool_cal [TOOL_CALL <invoke nam "),
    "almost marks of one kind": _repeat("[TOOL_CALL"),
    "lines of one character": _repeat("x\n"),
    "braces in lines": _repeat("{\n"),
    "tags of no meaning": _repeat("<a>"),
    "almost closers in a string": _repeat("</tool_cal</tool_cal", _OPEN),
    "thinking, opened again and again": _repeat("<think>"),
    "thinking, opened and closed": _repeat("<think>a</think>"),
    "thinking that ends where none began": _repeat("</think>"),
    "unclosed tag values": _repeat("<b>", _VALUE),
    "unclosed parameters": _repeat("<parameter=content>", "<tool_call><function=write_file>"),
    "unclosed tags with quotes": _repeat('<invoke name="', ""),
    "angles": _repeat("<"),
    "tool names, one a line": _repeat("write_file\n"),
    "tool names that open": _repeat("write_file("),
    "tool tags": _repeat("<write_file>"),
    "actions without input": _repeat("Action: write_file\n"),
    "DSML prefixes": _repeat("<｜DSML｜"),
    "DSML prefixes and names": _repeat('<｜｜DSML｜｜invoke name="f">'),
    "harmony headers": _repeat("<|channel|>commentary to=functions.f"),
    "bare calls of nobody": _repeat('{"tool": "nothing", "args": {}}\n'),
    "weak calls one behind the other": _repeat('```json\n{"name": "f"}\n```\n'),
    "space behind a weak call": _repeat(" .", '```json\n{"name": "f"}\n```\n'),
    "spaces before a closer that never comes": _repeat(" ", '<tool_call>{"name":"write_file","arguments":{}'),
    "blank lines": _repeat("\n \n"),
    "entities": _repeat("&amp;", _VALUE),
    "minimax noise": _repeat("]<]minimax"),
    "calls and tokens that end a turn": _repeat('<tool_call>{"name": "f", "arguments": {}}</tool_call><|im_end|>'),
    "tokens that end a turn": _repeat("<|im_end|>"),
    "tokens that begin an answer": _repeat("<s>"),
    "struck out text": _repeat("<s>a</s>"),
    "line breaks before an observation": _repeat("\n", 'Action: f\nAction Input: {"a": 1'),
    "keys and values": _repeat('"a": "b", ', '<tool_call>{"name":"write_file","arguments":{'),
    "recipients that are no tools, one a line": _repeat(">>>a\n"),
    "recipients that are everybody": _repeat(">>>all\n"),
    "brackets that close": _repeat(">"),
    "lines that are quoted": _repeat("> > a\n"),
    "half comments in a value": _repeat("<!", _VALUE),
    "comments in a value": _repeat("\n<!--", _VALUE),
    "half CDATA in a value": _repeat("<![", _VALUE),
    "CDATA in a value": _repeat("<![CDATA[]]>", _VALUE),
    "bars in a value": _repeat("<|", _VALUE),
    "closing tags of nothing in a value": _repeat("</ ", _VALUE),
    "closing tags of all names in a value": lambda size: _VALUE + "".join(f"</a{at}>" for at in range(size // 9)),
    "half entities in a value": _repeat("&am", _VALUE),
    "tags for calls in a value": _repeat("<call>", _VALUE),
    "calls in a value": _repeat("<function=f>", _VALUE),
    "calls with attributes in a value": _repeat('<invoke name="f">', _VALUE),
    "calls in one block": _repeat("f{}", "[TOOL_CALLS]"),
    "calls in one list": _repeat('{"name": "f", "arguments": {}},', "<tool_call>["),
    "HTML in a value": _repeat('<p class="a">b &amp; <i>c</i></p>\n', _VALUE + "\n"),
    "HTML in a value that is held": _repeat(
        '<p class="a">b</p>\n', "<tool_call><function=write_file><parameter=other>"
    ),
    "line breaks and brackets in a value": _repeat("\n<", _VALUE + "\n"),
    "raw line breaks in a string": _repeat("x\n", _OPEN),
    "nothing but line breaks in a string": _repeat("\n", _OPEN),
    "line breaks in arguments that are a string": _repeat("\n", '<tool_call>{"name":"write_file","arguments":"'),
    "line breaks and braces in arguments that are a string": _repeat(
        "\n{", '<tool_call>{"name":"write_file","arguments":"'
    ),
    "escaped characters in a string": _repeat("\\u00e9", _OPEN),
    "halves of escaped pairs in a string": _repeat("\\ud83d", _OPEN),
    "nulls": _repeat('"lines": null, ', '<tool_call>{"name":"write_file","arguments":{'),
    "lists of objects, one a line": _repeat('[{"a":1}]\n'),
    "lists of objects without line breaks": _repeat('[{"a":1}] '),
    "calls of nobody in Python, one a line": _repeat("g()\n"),
    "calls of nobody in Python with arguments": _repeat("g(a=1)\n"),
    "lists of calls of nobody": _repeat("[g()]\n"),
    "elements of examples, one a line": _repeat("<example>\n"),
    "elements of examples, closed": _repeat("<example>\n</example>\n"),
    "comments": _repeat("<!-->"),
    "objects in a fence": _repeat('{"a":1}\n', "```json\n"),
    "objects in a fence for calls": _repeat('{"a":1}\n', "```json action\n"),
    "objects in marks for calls": _repeat('{"a":1}\n', "<tool_call>\n"),
    "calls of nobody in marks": _repeat('{"name":"g","arguments":{}}\n', "<tool_call>\n"),
    "calls that wait in a fence": _repeat('{"name":"f","arguments":{}}\n', "```json\n"),
    "tags of no meaning, one a line": _repeat("<a>\n"),
    "calls that open and do not end, one a line": _repeat("write_file(\n"),
    "calls of nobody that open, one a line": _repeat("g(\n"),
    "calls of nobody behind the end of thinking": _repeat("<channel|>[g()]"),
    "calls of nobody in Python in marks": _repeat("g()\n", "<TOOLCALL>"),
    "words in an argument list": _repeat("write_file(\n" + "a\n" * 500),
    "numbers in an argument list": _repeat("1,", "<tool_call>write_file("),
    "commas in an argument list": _repeat("write_file(" + "," * 500 + "\n"),
    "brackets in a word of an argument list": _repeat("()", "write_file(a"),
    "brackets in a comment": _repeat("[", "<tool_call>write_file(// "),
    "numbers in an array": _repeat("1,", _ARRAY),
    "texts in an array": _repeat('"",', _ARRAY),
    "texts and numbers in an array": _repeat('"",1,', _ARRAY),
    "arrays in an array": _repeat("[[],[]],", _ARRAY),
    "objects in an array": _repeat('{"a":{"b":[]}},', _ARRAY),
    "brackets that open in an argument list": _repeat("write_file(" + "[" * 65 + "\n"),
    "numbers in a value that is held": _repeat(
        "<tool_call><function=write_file><parameter=other>[" + "1," * 500 + "1]</parameter>"
    ),
    "words in a value that is held": _repeat(
        "<tool_call><function=write_file><parameter=other>[" + "a\n" * 500 + "1]</parameter>"
    ),
    "values of their own in tags, without end": _repeat("<arg_key>a</arg_key><arg_value>1</arg_value>", "<tool_call>f"),
    "parameters, without end": _repeat('<parameter name="a">[1,</parameter>', '<invoke name="f">'),
    "beginnings of marks in a bare word": _repeat("<`", '<tool_call>{"name":"f","arguments":{"a":['),
    "entities and brackets in a bare word": _repeat("<&<", '<tool_call>{"name":"f","arguments":'),
    "beginnings of comments in a bare word": _repeat("a#//", '<tool_call>{"name":"f","arguments":{"a":['),
    "quotes between triple quotes": _repeat("\"'", '<tool_call>{"name":"f","arguments":{"a":"""'),
    "half escapes in a string": _repeat("\\u00", _OPEN),
    "wide spaces in an argument list": _repeat("\u3000", "<tool_call>write_file("),
    "braces and fences in an argument list": _repeat(" \n{\n```", "<tool_call>write_file("),
    "closing tags and ticks": _repeat("</```"),
    "calls of nobody with long names": lambda size: "".join(
        f'<tool_call>{{"name": "write_{at}_file", "arguments": {{}}}}</tool_call>\n' for at in range(size // 65)
    ),
    "numbers that are strings in an array": _repeat('"1",', _ARRAY),
    "braces that close nothing after a call": _repeat("}", '<tool_call>{"name": "f", "arguments": {}}'),
    "brackets that close nothing after a call": _repeat("] ", '<tool_call>{"name": "f", "arguments": {}}'),
}
