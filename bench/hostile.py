"""Texts made to hurt a parser: each shape takes a length and gives a text of about that many characters.

Every one of them is quadratic, or worse, for a parser that searches the kept text again at each chunk, that
backtracks, or that parses what it has once more whenever something arrives.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["SHAPES"]

_OPEN = '<tool_call>{"name":"write_file","arguments":{"path":"a.py","content":"'
_VALUE = "<tool_call><function=write_file><parameter=content>"
_ARRAY = '<tool_call>{"name":"write_file","arguments":{"path":['


def _repeat(unit: str, before: str = "") -> Callable[[int], str]:
    return lambda size: before + unit * max(1, (size - len(before)) // len(unit))


def _nested_fences(size: int) -> str:
    """Fences of three to six marks, opened inside each other and never closed in order."""
    marks = ["`" * count for count in range(3, 7)] + ["~" * count for count in range(3, 7)]
    block = "".join(f"{mark}json action\n{{\n" for mark in marks)
    return _repeat(block)(size)


SHAPES: dict[str, Callable[[int], str]] = {
    "unclosed openers": _repeat("<tool_call>"),
    "unclosed openers, one per line": _repeat("<tool_call>\n"),
    "brace storm": _repeat("{"),
    "brace storm inside a call": _repeat('{"a":', '<tool_call>{"name":"write_file","arguments":'),
    "bracket storm": _repeat("["),
    "quote storm": _repeat('"', '{"tool": "write_file", "args": {"content": "'),
    "quote storm inside a string argument": _repeat('" ', _OPEN),
    "nested fences": _nested_fences,
    "fences, one per line": _repeat("```\n"),
    "fences of mixed lengths": _repeat("```\n~~~\n````\n~~~~\n`````\n"),
    "backslash run inside a string argument": _repeat("\\", _OPEN),
    "almost-marks": _repeat("<tool_cal <|tool_cal [TOOL_CALL <invoke nam "),
    "almost-marks of one kind": _repeat("[TOOL_CALL"),
    "brackets and spaces": _repeat("[ "),
    "lines of one character": _repeat("x\n"),
    "braces, one per line": _repeat("{\n"),
    "tags of no meaning": _repeat("<a>"),
    "almost-closers inside a string argument": _repeat("</tool_cal</tool_cal", _OPEN),
    "bare objects, one per line": _repeat('{"tool": "nothing", "args": {}}\n'),
    "reasoning opened and never closed": _repeat("<think> so "),
    "spaces before a closer that never comes": _repeat(" ", '<tool_call>{"name":"write_file","arguments":{}'),
    "objects opened and not closed": _repeat(' {"name": {'),
    "calls in tags, none of them closed": _repeat('<｜｜DSML｜｜invoke name="write_file">'),
    "calls and tokens that end a turn": _repeat(
        '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": ""}}</tool_call><|im_end|>'
    ),
    "tokens that end a turn": _repeat("<|im_end|>"),
    "tokens that begin an answer": _repeat("<s>"),
    "struck out text": _repeat("<s>a</s>"),
    "parameters opened and not closed": _repeat("<parameter=content>", "<tool_call><function=write_file>"),
    "tags in a value": _repeat("<b>", _VALUE),
    "entities in a value": _repeat("&amp;", _VALUE),
    "reasoning opened and closed": _repeat("<think>a</think>"),
    "reasoning closed and never opened": _repeat("</think>"),
    "recipients that are no tools, one per line": _repeat(">>>a\n"),
    "recipients that are everybody": _repeat(">>>all\n"),
    "brackets that close": _repeat(">"),
    "lines that are quoted": _repeat("> > a\n"),
    "half comments in a value": _repeat("<!", _VALUE),
    "comments in a value": _repeat("\n<!--", _VALUE),
    "half CDATA in a value": _repeat("<![", _VALUE),
    "bars in a value": _repeat("<|", _VALUE),
    "closing tags of nothing in a value": _repeat("</ ", _VALUE),
    "half entities in a value": _repeat("&am", _VALUE),
    "tags for calls in a value": _repeat("<call>", _VALUE),
    "calls in a value": _repeat("<function=f>", _VALUE),
    "calls with attributes in a value": _repeat('<invoke name="f">', _VALUE),
    "calls in one block": _repeat("write_file{}", "[TOOL_CALLS]"),
    "line breaks and brackets in a value": _repeat("\n<", _VALUE + "\n"),
    "raw line breaks inside a string argument": _repeat("x\n", _OPEN),
    "escaped characters inside a string argument": _repeat("\\u00e9", _OPEN),
    "lists of objects, one per line": _repeat('[{"a":1}]\n'),
    "lists of objects on one line": _repeat('[{"a":1}] '),
    "calls of nobody in Python, one per line": _repeat("g()\n"),
    "calls of nobody in Python with arguments": _repeat("g(a=1)\n"),
    "lists of calls of nobody": _repeat("[g()]\n"),
    "elements of examples, one per line": _repeat("<example>\n"),
    "elements of examples, closed": _repeat("<example>\n</example>\n"),
    "comments": _repeat("<!-->"),
    "objects in a fence": _repeat('{"a":1}\n', "```json\n"),
    "objects in a fence for calls": _repeat('{"a":1}\n', "```json action\n"),
    "objects in marks for calls": _repeat('{"a":1}\n', "<tool_call>\n"),
    "calls of nobody in marks": _repeat('{"name":"nothing","arguments":{}}\n', "<tool_call>\n"),
    "tags of no meaning, one per line": _repeat("<a>\n"),
    "calls that open and do not end, one per line": _repeat("write_file(\n"),
    "calls of nobody that open, one per line": _repeat("g(\n"),
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
    "values of their own in tags, without end": _repeat(
        "<arg_key>a</arg_key><arg_value>1</arg_value>", "<tool_call>write_file"
    ),
    "parameters, without end": _repeat('<parameter name="a">[1,</parameter>', '<invoke name="write_file">'),
}
