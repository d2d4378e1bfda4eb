"""Hostile text: whatever the shape, twice the text takes about twice the time and nothing is called or raised."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import pytest

from toolspeak import Reply, Scanner, fold

pytestmark = [pytest.mark.requirement("R-T12"), pytest.mark.no_cover]

SMALL, LARGE = 128 * 1024, 256 * 1024
CHUNK = 64
#: Twice as much for linear work, four times as much for quadratic work.
MOST_GROWTH = 3.0
#: Less than this, in seconds of CPU for the large text, says nothing about growth; it is 4 MB a second.
TOO_LITTLE = 0.06

FILE = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["content"],
}
TOOLS = [{"name": "write_file", "parameters": FILE}, {"name": "f"}]
OPEN = '<tool_call>{"name":"write_file","arguments":{"path":"a.py","content":"'
VALUE = "<tool_call><function=write_file><parameter=content>"
ARRAY = '<tool_call>{"name":"write_file","arguments":{"lines":['


def repeat(unit: str, before: str = "") -> Callable[[int], str]:
    return lambda size: before + unit * max(1, (size - len(before)) // len(unit))


def nested_fences(size: int) -> str:
    marks = ["`" * count for count in range(3, 7)] + ["~" * count for count in range(3, 7)]
    return repeat("".join(f"{mark}json action\n{{\n" for mark in marks))(size)


SHAPES: dict[str, Callable[[int], str]] = {
    "unclosed openers": repeat("<tool_call>"),
    "unclosed openers, one a line": repeat("<tool_call>\n"),
    "unclosed openers of many kinds": repeat('<tool_call><function=f>[TOOL_CALLS]```json action\n<invoke name="f">'),
    "brace storm": repeat("{"),
    "brace storm in lines": repeat(' {"name": {'),
    "brace storm in a call": repeat('{"a":', '<tool_call>{"name":"write_file","arguments":'),
    "bracket storm": repeat("[ "),
    "quote storm in a call": repeat('"', OPEN),
    "quotes and spaces in a call": repeat('" ', OPEN),
    "quotes and commas in a call": repeat('", "', OPEN),
    "quote storm in a bare call": repeat('"', '{"tool": "write_file", "args": {"content": "'),
    "nested fences": nested_fences,
    "fences": repeat("```\n"),
    "fences of mixed lengths": repeat("```\n~~~\n````\n~~~~\n`````\n"),
    "a fence that never closes": repeat("```\n", "````\n"),
    "ticks at the start of a line": repeat("`"),
    "ticks in the middle of a line": repeat("`", "a "),
    "pairs of ticks": repeat("`` "),
    "tildes": repeat("~"),
    "backslashes in a string": repeat("\\", OPEN),
    "backslashes and quotes in a string": repeat('\\"', OPEN),
    "almost marks": repeat("<tool_cal <|tool_cal [TOOL_CALL <invoke nam "),
    "almost marks of one kind": repeat("[TOOL_CALL"),
    "lines of one character": repeat("x\n"),
    "braces in lines": repeat("{\n"),
    "tags of no meaning": repeat("<a>"),
    "almost closers in a string": repeat("</tool_cal</tool_cal", OPEN),
    "thinking, opened again and again": repeat("<think>"),
    "thinking, opened and closed": repeat("<think>a</think>"),
    "thinking that ends where none began": repeat("</think>"),
    "unclosed tag values": repeat("<b>", VALUE),
    "unclosed parameters": repeat("<parameter=content>", "<tool_call><function=write_file>"),
    "unclosed tags with quotes": repeat('<invoke name="', ""),
    "angles": repeat("<"),
    "tool names, one a line": repeat("write_file\n"),
    "tool names that open": repeat("write_file("),
    "tool tags": repeat("<write_file>"),
    "actions without input": repeat("Action: write_file\n"),
    "DSML prefixes": repeat("<｜DSML｜"),
    "DSML prefixes and names": repeat('<｜｜DSML｜｜invoke name="f">'),
    "harmony headers": repeat("<|channel|>commentary to=functions.f"),
    "bare calls of nobody": repeat('{"tool": "nothing", "args": {}}\n'),
    "weak calls one behind the other": repeat('```json\n{"name": "f"}\n```\n'),
    "space behind a weak call": repeat(" .", '```json\n{"name": "f"}\n```\n'),
    "blank lines": repeat("\n \n"),
    "entities": repeat("&amp;", VALUE),
    "minimax noise": repeat("]<]minimax"),
    "calls and tokens that end a turn": repeat('<tool_call>{"name": "f", "arguments": {}}</tool_call><|im_end|>'),
    "tokens that end a turn": repeat("<|im_end|>"),
    "tokens that begin an answer": repeat("<s>"),
    "struck out text": repeat("<s>a</s>"),
    "line breaks before an observation": repeat("\n", 'Action: f\nAction Input: {"a": 1'),
    "keys and values": repeat('"a": "b", ', '<tool_call>{"name":"write_file","arguments":{'),
    "recipients that are no tools, one a line": repeat(">>>a\n"),
    "recipients that are everybody": repeat(">>>all\n"),
    "brackets that close": repeat(">"),
    "lines that are quoted": repeat("> > a\n"),
    "half comments in a value": repeat("<!", VALUE),
    "comments in a value": repeat("\n<!--", VALUE),
    "half CDATA in a value": repeat("<![", VALUE),
    "CDATA in a value": repeat("<![CDATA[]]>", VALUE),
    "bars in a value": repeat("<|", VALUE),
    "closing tags of nothing in a value": repeat("</ ", VALUE),
    "closing tags of all names in a value": lambda size: VALUE + "".join(f"</a{at}>" for at in range(size // 9)),
    "half entities in a value": repeat("&am", VALUE),
    "tags for calls in a value": repeat("<call>", VALUE),
    "calls in a value": repeat("<function=f>", VALUE),
    "calls with attributes in a value": repeat('<invoke name="f">', VALUE),
    "calls in one block": repeat("f{}", "[TOOL_CALLS]"),
    "calls in one list": repeat('{"name": "f", "arguments": {}},', "<tool_call>["),
    "HTML in a value": repeat('<p class="a">b &amp; <i>c</i></p>\n', VALUE + "\n"),
    "HTML in a value that is held": repeat('<p class="a">b</p>\n', "<tool_call><function=write_file><parameter=other>"),
    "line breaks and brackets in a value": repeat("\n<", VALUE + "\n"),
    "raw line breaks in a string": repeat("x\n", OPEN),
    "escaped characters in a string": repeat("\\u00e9", OPEN),
    "halves of escaped pairs in a string": repeat("\\ud83d", OPEN),
    "nulls": repeat('"lines": null, ', '<tool_call>{"name":"write_file","arguments":{'),
    "lists of objects, one a line": repeat('[{"a":1}]\n'),
    "lists of objects without line breaks": repeat('[{"a":1}] '),
    "calls of nobody in Python, one a line": repeat("g()\n"),
    "calls of nobody in Python with arguments": repeat("g(a=1)\n"),
    "lists of calls of nobody": repeat("[g()]\n"),
    "elements of examples, one a line": repeat("<example>\n"),
    "elements of examples, closed": repeat("<example>\n</example>\n"),
    "comments": repeat("<!-->"),
    "objects in a fence": repeat('{"a":1}\n', "```json\n"),
    "objects in a fence for calls": repeat('{"a":1}\n', "```json action\n"),
    "objects in marks for calls": repeat('{"a":1}\n', "<tool_call>\n"),
    "calls of nobody in marks": repeat('{"name":"g","arguments":{}}\n', "<tool_call>\n"),
    "calls that wait in a fence": repeat('{"name":"f","arguments":{}}\n', "```json\n"),
    "tags of no meaning, one a line": repeat("<a>\n"),
    "calls that open and do not end, one a line": repeat("write_file(\n"),
    "calls of nobody that open, one a line": repeat("g(\n"),
    "calls of nobody behind the end of thinking": repeat("<channel|>[g()]"),
    "calls of nobody in Python in marks": repeat("g()\n", "<TOOLCALL>"),
    "words in an argument list": repeat("write_file(\n" + "a\n" * 500),
    "numbers in an argument list": repeat("1,", "<tool_call>write_file("),
    "commas in an argument list": repeat("write_file(" + "," * 500 + "\n"),
    "brackets in a word of an argument list": repeat("()", "write_file(a"),
    "brackets in a comment": repeat("[", "<tool_call>write_file(// "),
    "numbers in an array": repeat("1,", ARRAY),
    "texts in an array": repeat('"",', ARRAY),
    "texts and numbers in an array": repeat('"",1,', ARRAY),
    "arrays in an array": repeat("[[],[]],", ARRAY),
    "objects in an array": repeat('{"a":{"b":[]}},', ARRAY),
    "brackets that open in an argument list": repeat("write_file(" + "[" * 65 + "\n"),
    "numbers in a value that is held": repeat(
        "<tool_call><function=write_file><parameter=other>[" + "1," * 500 + "1]</parameter>"
    ),
    "words in a value that is held": repeat(
        "<tool_call><function=write_file><parameter=other>[" + "a\n" * 500 + "1]</parameter>"
    ),
    "values of their own in tags, without end": repeat("<arg_key>a</arg_key><arg_value>1</arg_value>", "<tool_call>f"),
    "parameters, without end": repeat('<parameter name="a">[1,</parameter>', '<invoke name="f">'),
}


def scan(text: str) -> tuple[float, Reply]:
    """The CPU seconds that a text takes in chunks, and what it means."""
    scanner = Scanner(TOOLS)
    events = []
    started = process_time()
    for start in range(0, len(text), CHUNK):
        events += scanner.feed(text[start : start + CHUNK])
    events += scanner.close()
    return process_time() - started, fold(events)


@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_the_length_of_the_text(shape: str):
    small, large = SHAPES[shape](SMALL), SHAPES[shape](LARGE)
    growth = 0.0
    for _ in range(3):  # a busy machine may spoil one measurement
        (short, _), (long, _) = scan(small), scan(large)
        growth = long / short if long > TOO_LITTLE else 1.0
        if growth < MOST_GROWTH:
            return
    raise AssertionError(f"twice the text took {growth:.1f} times as long")


CALLING = {
    "unclosed openers of many kinds",
    "weak calls one behind the other",
    "space behind a weak call",
    "DSML prefixes and names",
    "calls and tokens that end a turn",
    "calls in one block",
    "calls in one list",
    "calls that wait in a fence",
}


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in CALLING])
def test_hostile_text_calls_nothing(shape: str):
    text = SHAPES[shape](4096)
    _, reply = scan(text)
    assert reply.calls == ()
