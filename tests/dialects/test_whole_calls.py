"""A call that comes in one piece is read at once where it is plain, and token by token where it is not, or where it
comes in pieces. Nobody can tell which from what comes out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import check_each, every, size
from tests.core.test_json_repair_properties import FORMATS, VALID, VALID_TEXT
from tests.time_growth import assert_linear
from toolspeak import CallArgs, CallEnd, CallStart, Scanner, Tool, ToolCall, parse, render_calls
from toolspeak.core.events import Event, Judged
from toolspeak.core.json_repair.containers import MAX_SIZE
from toolspeak.core.json_repair.parser import JSONParser
from toolspeak.core.parsing.acceptance import Evidence
from toolspeak.core.parsing.context import ParseContext
from toolspeak.dialects.body_grammars import BlockContext
from toolspeak.dialects.json_calls import read_whole
from toolspeak.dialects.registry import DIALECTS
from toolspeak.engine.turn.envelope_reader import EnvelopeReader

pytestmark = pytest.mark.requirement("B8")

SAVE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "n": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "mode": {"enum": ["a", "b"]},
        "opts": {"type": "object", "properties": {"on": {"type": "boolean"}}},
        "maybe": {"type": ["string", "null"]},
    },
    "required": ["text"],
}
TOOLS = (
    Tool("save", parameters=SAVE),
    Tool("closed", parameters={**SAVE, "additionalProperties": False}),
    Tool("either", parameters={"anyOf": [SAVE, {"required": ["n"]}]}),
    Tool("any"),
)
#: Every way to write a call whose arguments are JSON. `%call` is an object with name and arguments.
WRITTEN = (
    "<tool_call>%call</tool_call>",
    "<tool_call>\n%call\n</tool_call>\n<tool_call>\n%call\n</tool_call>",
    "<tool_call>%call\n%call</tool_call>",
    "<tool_call>%call",
    "<tools>%call</tools>",
    "<function_call>%call</function_call>",
    "```json action\n%call\n```",
    "```json action k7\n%call\n%call\n```",
    "```json\n%call\n```",
    "%call",
    "%call\nSo be it.",
    "[TOOL_CALLS]%call[/TOOL_CALLS]",
    "[TOOL_CALLS][%call, %call]",
    "[TOOL_CALLS]%name[ARGS]%args",
    "[TOOL_REQUEST]%call[END_TOOL_REQUEST]",
    "TOOL_CALL\n%call\n/TOOL_CALL",
    "<|python_tag|>%call",
    "functools[%call]",
    "<function=%name>%args</function>",
    '<invoke name="%name">%args</invoke>',
    "<%name>%args</%name>",
    "<tool_call>%name\n%args</tool_call>",
    "```tool %name\n%args\n```",
    "Action: %name\nAction Input: %args\nObservation: ",
    "Action: %name\nAction Input: %args",
    "<|channel|>commentary to=functions.%name<|message|>%args<|call|>",
    "<think>%call</think>%call",
    "<tool_calls>[%call, %call]</tool_calls>",
    "[%call]",
    '{"tools": [%call], "nonce": "k7"}',
    '{"nonce": "k7", "calls": [%call, %call], "reply": "Done."}',
    '<tool_call>{"function": %call}</tool_call>',
    '<|tools_prefix|>[{"%name": %args}, {"%name": %args}]<|tools_suffix|>',
    '<|tools_prefix|>{"%name": %args, "any": {}}<|tools_suffix|>',
    '<tool_call>{"name": "%name", "arguments": %args, "parameters": {"n": 1}}</tool_call>',
    '<tool_call>{"function": {"name": "%name", "arguments": %args}, "arguments": {"n": 1}}</tool_call>',
    '[TOOL_CALLS][{"id": "a", "name": "%name", "arguments": %args}]',
    '[TOOL_CALLS][{"name": "%name", "arguments": %args, "id": "a"}]',
)
LISTED = re.compile(r"\[%call|\[?\{\"").search
KEYS = st.sampled_from([("name", "arguments"), ("tool", "parameters"), ("action", "action_input"), ("name", "input")])
#: Arguments that fit, that nearly fit, and any at all.
FITTING = st.fixed_dictionaries(
    {"text": VALID_TEXT},
    optional={
        "n": st.integers(-9, 9) | st.sampled_from(["3", 2.0, None]),
        "tags": st.lists(VALID_TEXT, max_size=3) | VALID_TEXT,
        "mode": st.sampled_from(["a", "b", "B"]),
        "opts": st.fixed_dictionaries({}, optional={"on": st.booleans(), "x": VALID}),
        "maybe": st.none() | VALID_TEXT,
        "Text": VALID_TEXT,
        "other": VALID,
    },
)
ARGUMENTS = FITTING | st.dictionaries(VALID_TEXT, VALID, max_size=3)
OPTIONS = st.fixed_dictionaries(
    {
        "tools": st.sampled_from([None, TOOLS, TOOLS]),
        "policy": st.sampled_from(["strict", "standard", "eager"]),
        "nonce": st.sampled_from([None, None, "k7"]),
    }
)


def filled(written: str, name: str, arguments: str, keys: tuple[str, str] = ("name", "arguments")) -> str:
    call = f'{{"{keys[0]}": "{name}", "{keys[1]}": {arguments}}}'
    return written.replace("%call", call).replace("%args", arguments).replace("%name", name)


@st.composite
def answers(draw: st.DrawFn) -> str:
    """A call in some dialect, with its arguments in some format, sometimes with one character too many or too few."""
    name, keys = draw(st.sampled_from(["save", "closed", "either", "any", "nobody"])), draw(KEYS)
    formats: dict[str, Any] = draw(FORMATS)
    arguments = json.dumps(draw(ARGUMENTS), **formats)
    text = filled(draw(st.sampled_from(WRITTEN)), name, arguments, keys)
    if draw(st.integers(0, 4)):
        return text
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(st.sampled_from(["", '"', ",", "}", " ", "\\", "x"])) + text[at + draw(st.integers(0, 1)) :]


def told(pieces: Iterable[str], **options: Any) -> list[tuple[object, ...]]:
    """All events of the scanner; a text and the arguments of a call are joined, however they were cut."""
    scanner = Scanner(**options)
    events = [event for piece in pieces for event in scanner.feed(piece)]
    return joined([*events, *scanner.close()])


def joined(events: list[Event]) -> list[tuple[object, ...]]:
    joined: list[tuple[object, ...]] = []
    for kind, run in groupby(events, key=type):
        same = list(run)
        if hasattr(same[0], "text") or hasattr(same[0], "fragment"):
            joined.append(
                (kind, "".join(getattr(event, "fragment", "") or getattr(event, "text", "") for event in same))
            )
        else:
            joined.append((kind, *same))
    return joined


@settings(max_examples=size(100, 400))
@given(answers(), OPTIONS, st.integers(1, 40))
@example('<tool_call>{"name": "save", "arguments": {"Text": "x", "text": "y"}}</tool_call>', {"tools": TOOLS}, 7)
@example('<tool_call>{"name": "save", "arguments": {"text": "x", "n": null}}</tool_call>', {"tools": TOOLS}, 7)
@example('<tool_call>{"name": "save", "arguments": {"text": "x", "text": "y"}}</tool_call>', {"tools": TOOLS}, 7)
@example('<tools>{"name": "save", "arguments": {"text": "x"}}</tools>', {"tools": TOOLS}, 7)
@example('<tools>{"tool": "save", "parameters": {"text": "x"}}</tools>', {"tools": TOOLS}, 7)
def test_a_call_in_one_piece_is_told_like_one_in_many(text: str, options: dict[str, Any], size: int):
    assert_told_alike(text, options, size)


def assert_told_alike(text: str, options: dict[str, Any], size: int) -> None:
    """The events are the same whether the text comes whole, before or at its end, or in pieces."""
    whole = joined(Scanner(**options).read_all(text))
    assert told([text], **options) == whole
    assert told(text, **options) == whole
    assert told((text[at : at + size] for at in range(0, len(text), size)), **options) == whole


#: Texts that are hard to tell from the marks of calls.
HARD_TEXT = st.lists(
    st.sampled_from(
        [
            *(
                "a",
                "b c",
                "\n",
                "\n  ",
                " ",
                "\t",
                "\r\n",
                '"',
                "'",
                "\\",
                ",",
                ', "',
                ": ",
                "{",
                "}",
                "[",
                "]",
                "(",
                ")",
                "=",
                "<",
            ),
            *(
                "<b>",
                "</b>",
                "</parameter>",
                "<parameter=n>",
                '<parameter name="n">',
                "</function>",
                "</tool_call>",
                "<|",
            ),
            *(
                "<arg_key>",
                "</arg_value>",
                "<text>",
                "</text>",
                "</save>",
                "<![CDATA[",
                "]]>",
                "]<]",
                "null",
                "<|close|>",
            ),
            *('<|"|>', "<escape>", "é", "你", "🌍", "text", "k7"),
        ]
    ),
    max_size=6,
).map("".join)
HARD = st.fixed_dictionaries(
    {"text": HARD_TEXT},
    optional={"n": st.integers(-9, 9), "tags": st.lists(HARD_TEXT, max_size=2), "maybe": st.none() | HARD_TEXT},
)


@st.composite
def rendered_calls(draw: st.DrawFn) -> str:
    """Calls as some dialect writes them, with or without the nonce, sometimes with something else in one place."""
    names = st.sampled_from(["save", "save", "closed", "any"])
    calls = draw(st.lists(st.builds(ToolCall, names, ARGUMENTS | HARD), min_size=1, max_size=2))
    nonce = draw(st.sampled_from([None, None, "k7"]))
    text = draw(HARD_TEXT | st.just("")) + render_calls(draw(st.sampled_from(list(DIALECTS))), calls, nonce)
    text += draw(st.sampled_from(["", "", "\n", "\nSo be it.", " and"]))
    if draw(st.booleans()):
        return text
    at = draw(st.integers(0, len(text)))
    other = draw(st.sampled_from(["", '"', ",", "}", ")", " ", "\n", "\\", "x", "<", ">", "</parameter>", "<b>", "["]))
    return text[:at] + other + text[at + draw(st.integers(0, 2)) :]


@settings(max_examples=size(150, 2_500))
@given(rendered_calls(), OPTIONS, st.integers(1, 40))
@example(
    '{"tools":[{"name":"any","arguments":{"a":"x "y z"}},{"name":"any","arguments":{"a":"' + "word " * 60 + '"}}]}',
    {},
    7,
)
def test_calls_of_every_dialect_are_told_alike_in_one_piece_and_in_many(text: str, options: dict[str, Any], size: int):
    assert_told_alike(text, options, size)


@settings(max_examples=size(100, 1_000))
@given(rendered_calls(), st.sampled_from([None, "k7"]), st.integers(1, 40))
@example('{"calls": [{"name": "any", "arguments": {"a": 1}, "parameters": {"b": 2}}], "reply": "x"} more', None, 7)
@example('{"calls": [{"arguments": {"a": 1}, "name": "any"}, {"name": "any", "arguments": "{}"}]}', None, 7)
@example('{"calls": [{"name": "any", "name": "any", "arguments": {"a": 1}}], "reply": null}', None, 7)
def test_an_envelope_is_told_alike_in_one_piece_and_in_many(text: str, nonce: str | None, size: int):
    def read(pieces: Iterable[str]) -> list[tuple[object, ...]]:
        reader = EnvelopeReader(ParseContext(TOOLS, nonce=nonce))
        events = [event for piece in pieces for event in reader.feed(piece)]
        return joined([*events, *reader.close()])

    whole = read([text])
    assert read(text) == whole
    assert read(text[at : at + size] for at in range(0, len(text), size)) == whole


@pytest.mark.parametrize("written", [written for written in WRITTEN if not LISTED(written)])
def test_a_plain_call_is_read_at_once_in_every_dialect(written: str, monkeypatch: pytest.MonkeyPatch):
    """The tolerant reader is not asked. It reads only what surrounds the calls of a list or document."""
    arguments = '{"text":"two\\nlines, and more","n":3,"tags":["a"],"opts":{"on":true}}'
    monkeypatch.setattr(JSONParser, "feed", None)
    calls = parse(filled(written, "save", arguments), tools=TOOLS, nonce="k7" if "k7" in written else None).calls
    assert calls
    assert all(json.dumps(call.arguments, separators=(",", ":")) == arguments for call in calls)


def test_the_events_of_a_plain_call_are_its_name_its_arguments_and_its_end():
    events = Scanner(tools=TOOLS).feed('<tool_call>{"name": "save", "arguments": {"text": "x", "n": 3}}</tool_call>')
    assert [event for event in events if isinstance(event, CallStart | CallArgs | CallEnd)] == [
        CallStart(0, "save"),
        CallArgs(0, '{"text":"x","n":3}'),
        CallEnd(0, True, ()),
    ]


#: What follows `<tool_call>`, and the call it is.
AT_ONCE = {
    '{"name": "any", "arguments": {"a": 1}}': {"a": 1},
    '{ "tool" : "any" , "parameters" : {} }': {},
    '{"function":"any","args":{"a":"x"}}': {"a": "x"},
    '{\n"action": "any",\n"action_input": {"a": "x"}\n}': {"a": "x"},
    '{"tool_name": "any", "tool_input": {"a": [{"b": "x"}]}}': {"a": [{"b": "x"}]},
}
IN_TOKENS = {
    "arguments first": '{"arguments": {}, "name": "any"}',
    "no arguments": '{"name": "any"}',
    "arguments as text": '{"name": "any", "arguments": "{}"}',
    "more": '{"name": "any", "arguments": {}, "id": 1}',
    "more before": '{"id": 1, "name": "any", "arguments": {}}',
    "another key": '{"nom": "any", "arguments": {}}',
    "another key for the arguments": '{"name": "any", "argumente": {}}',
    "a name in a namespace": '{"name": "functions.any", "arguments": {}}',
    "a name with a space": '{"name": "Final Answer", "arguments": {}}',
    "a name with an escape": r'{"name": "\u0061ny", "arguments": {}}',
    "no name": '{"name": "", "arguments": {}}',
    "a long name": f'{{"name": "{"f" * 65}", "arguments": {{}}}}',
    "an unknown name": '{"name": "nobody", "arguments": {}}',
    "arguments that are not plain": '{"name": "any", "arguments": {a: 1}}',
    "arguments that do not fit": '{"name": "save", "arguments": {"text": 1}}',
    "a call in a call": '{"function": {"name": "any", "arguments": {}}}',
    "no end": '{"name": "any", "arguments": {}',
}


def context() -> BlockContext:
    return BlockContext(ParseContext(TOOLS), Evidence("d", "strong"), ("</t>",))


@check_each("text", AT_ONCE)
def test_a_name_and_plain_arguments_are_read_at_once(text: str):
    block = context()
    assert read_whole(block, f"x{text}</t>", 1) == len(text) + 1
    assert [builder.state for builder in block.builders] == ["done"]
    (judged,) = [event.candidate for event in block.context.collect() if isinstance(event, Judged)]
    assert (judged.name, judged.arguments) == ("any", AT_ONCE[text])


@check_each("text", IN_TOKENS.values(), ids=IN_TOKENS)
def test_any_other_object_is_not_read_at_once_and_leaves_no_trace(text: str):
    block = context()
    assert read_whole(block, f"{text}</t>", 0) == 0
    assert (block.builders, block.context.collect()) == ([], [])


@check_each(("keys", "read"), [(("name", "arguments"), True), (("tool", "arguments"), False)])
def test_where_tools_are_declared_only_one_spelling_is_a_call(keys: tuple[str, str], read: bool):
    text = filled("%call", "any", "{}", keys)
    assert bool(read_whole(context(), text, 0, canonical=True)) is read


@check_each(("more", "read"), [("", True), ("x", False)])
def test_a_call_that_is_too_large_is_not_read_at_once(more: str, read: bool):
    head, tail = '{"name": "any", "arguments": {"a": "', '"}}'
    text = head + "x" * (MAX_SIZE - len(head + tail)) + more + tail
    assert bool(read_whole(context(), text, 0)) is read


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
@check_each(
    "piece",
    [
        '<tool_call>{"name":"any","arguments":{',
        '<tool_call>{"name":"nobody","arguments":{"a":1}}',
        '<tool_call>{"name":"any","arguments":{":1,<tool_call>{":1,"',
        '{"name":"nobody","arguments":{"a":[{"name":"any","arguments":{}}]}}\n',
        '<function=any>{":1,":1,"',
        '"<tool_call>{":1,',
        '[{"name":"any","arguments":{"a":1}',
        '[{"name":"any","arguments":{"a":["',
        '{"calls":[{"name":"any","arguments":{}',
        "<function=save><parameter=text>x</parameter>",
        "<function=save><parameter=text>",
        "<tool_call>save<arg_key>text</arg_key><arg_value>x</arg_value>",
    ],
)
@check_each(
    "begin", every(2, ["", '<tool_call>{"name":"any","arguments":{', '<tool_call>{"name":"nobody","arguments":{'])
)
def test_time_is_linear_however_many_calls_begin(begin: str, piece: str):
    def make(count: int):
        return lambda: parse(begin + piece * count, tools=TOOLS)

    assert_linear(make, 800)
