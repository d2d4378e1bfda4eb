"""What holds for any text whatever: where it is cut changes nothing, nothing is raised, and no text is lost."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import check_each, size, without_garbage_collection
from toolspeak import CallArgs, CallEnd, CallStart, Event, Reply, Scanner, ToolCall, fold, parse
from toolspeak.dialects.registry import DIALECTS
from toolspeak.engine.prompting.escaping import calls_text

#: What the marks, grammars and mistakes of the dialects are made of. Separated by two spaces or a line break.
_FRAGMENTS = r"""
<tool_call>  </tool_call>  <tool_call k7>  <tool_cal  <tool_calls>  <tools>  </tools>  <|tool_call>  <tool_call|>
<think>  </think>  [THINK]  [/THINK]  <|channel|>  analysis  final  commentary to=functions.f  <|message|>  <|end|>
<|call|>  <|im_end|>  <|python_tag|>  <tool_response>  </tool_response>  [TOOL_CALLS]  [ARGS]  [TOOL_RESULTS]
<function=write_file>  <function=f>  </function>  <parameter=content>  <parameter=path>  </parameter>  <function_calls>
<invoke name="write_file">  <parameter name="content">  </invoke>  <write_file>  </write_file>  <content>  </content>
<arg_key>  </arg_key>  <arg_value>  </arg_value>  <![CDATA[  ]]>  &lt;  <b>  </b>  <  >  a < b  |  functools[
<｜tool▁calls▁begin｜>  <｜tool▁call▁begin｜>  <｜tool▁sep｜>  <｜tool▁call▁end｜>  <｜DSML｜invoke name="f">
<|open|>  tools  call tool="f"  <|sep|>  <|close|>  ]<]minimax[>[  call:write_file{  content:  <|"|>
{"name":  "write_file"  "f"  ,"arguments":  {"tool":"f","args":{}}  {"name":"f","arguments":{"a":1}}  "content":"
"path":"a"  "nonce":"k7",  {"tools":[{"name":"f","arguments":{}}]}  {  }  [  ]  (  )  "  '  \"  \  :  ,  =  $  .  !  #
//  /*  */  true  null  1  1e999  NaN  “  ”  ：  write_file  f  write_file(content="x")  [f(a=1)]  Action: f  Action:
Action Input:  Observation:  Final Answer:  Tool result:  to=functions.f  tool_code  ```  ````  ~~~  ```json  `  ``
```json action  ```json action k7  hello  world  key: value  - x  é  🌍  <tool_call>{"name":"f","arguments":{}}</tool_call>
"""
FRAGMENTS = [part for line in _FRAGMENTS.strip().splitlines() for part in line.split("  ")]
FRAGMENTS += [
    "\n",
    "\n\n",
    " ",
    "  ",
    "\t",
    "\r\n",
    "\u00a0",
    "\ud800",
    "TOOL_CALL\n",
    "hello ",
    "\n\n    ",
    "\f",
    "<|content_text|>",
    "<|close|tools>",
    ". ",
    '```json\n{"name":"f"}\n```',
]

FILE = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["content"],
}
TOOLS: tuple[Any, ...] = (None, [{"name": "write_file", "parameters": FILE}, {"name": "f"}])

texts = st.lists(st.sampled_from(FRAGMENTS), max_size=24).map("".join)
options = st.fixed_dictionaries(
    {
        "tools": st.sampled_from(TOOLS),
        "policy": st.sampled_from(["strict", "standard", "eager"]),
        "nonce": st.sampled_from([None, None, "k7"]),
    }
)


def scan(pieces: Iterable[str], **settings: Any) -> list[Event]:
    scanner = Scanner(**settings)
    events = [event for piece in pieces for event in scanner.feed(piece)]
    return events + scanner.close()


def cut(text: str, places: Iterable[int]) -> list[str]:
    at = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(at)]


@pytest.mark.requirement("B8")
@settings(max_examples=size(75, 300))
@given(texts, options, st.lists(st.integers(0, 1000), max_size=6))
def test_where_a_text_is_cut_changes_nothing(text: str, options: dict[str, Any], places: list[int]):
    whole = parse(text, **options)
    assert fold(scan(text, **options)) == whole
    assert fold(scan(cut(text, places), **options)) == whole


CALL = '<tool_call>{"name":"f","arguments":{}}</tool_call>'
#: Texts in which a place to cut at is easily taken for more than that.
DELICATE = {
    "a backslash and a letter in a value": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>C:\\n</arg_value>\n</tool_call> t",
    "a name as a key, and another one without a value": '<|tools_prefix|>{f{}0{"s',
    "a name as a key, and text that closes nothing": '<|tools_prefix|>{f{}t","e"s',
    "a second name inside a call": '[TOOL_CALL]{name"f,"action":{name:.\n',
    "a list whose first entry is damaged": '<|START_ACTION|>["tool_name":"f",g:[]function{name:>\n',
    "a part of a long tag in one tag": "<function=f></function><|close|tools>",
    "another part of a long tag in one tag": "<function=f></function><|open|argument>",
    "a tick that is held behind a call which is text": 'So {"name":"f","arguments":{}}`><function>',
    "white space between a call and the end of its line": "f()  \nfoo",
    "a line break of two characters behind a call": "f{}\r\n",
    "an indented call behind a block that is none": "x\n<tool_call>\n\n    ✿FUNCTION✿: f\n✿ARGS✿: {}\nfoo",
    "an indented recipient behind a block that is none": "x\n\n    <tool_call>  \n\n    >>>f\n{}\nfoo",
    "a hard space behind a block that is none": "x\n<tool_call>\n\u00a0✿FUNCTION✿: f\n✿ARGS✿: {}\n",
    "a row of a table behind a form feed": f"x\n\f| {CALL}",
    "a mark that means nothing in an indented line": f"x\n\n    abc! <|content_text|>{CALL} foo",
    "a mark that means nothing behind an indented line": f"x\n\n    <b>\n foo! <|content_text|>{CALL} foo",
    "JSON in a tag, its closer, and something in the block that is no call": "[TOOL_CALL]<f>{}</f>{",
    "JSON in a fence in a tag, and something in the block that is no call": '<|action_start|><invoke name="f">```{}```O\n(',
    "a mark that means nothing behind a form feed": f"x\n\n    <b>\n\f<|content_text|>{CALL} foo",
}


@pytest.mark.requirement("B8")
@check_each("name", DELICATE)
def test_where_a_delicate_text_is_cut_changes_nothing(name: str):
    text = DELICATE[name]
    for tools in TOOLS:
        whole = parse(text, tools)
        assert fold(scan(text, tools=tools)) == whole
        for place in range(1, len(text)):
            assert fold(scan(cut(text, [place]), tools=tools)) == whole


@pytest.mark.requirement("B11")
@settings(max_examples=size(75, 300))
@given(texts, options)
@example("<tool_call>call:write_file{<tool_call>", {"policy": "strict"})
def test_what_has_gone_out_is_never_taken_back(text: str, options: dict[str, Any]):
    """A call's fragments are one JSON object, or none where the call came to nothing, and it begins and ends at most
    once."""
    fragments: dict[int, str] = {}
    ended: dict[int, bool] = {}
    for event in scan(text, **options):
        match event:
            case CallStart(index):
                assert index == len(fragments)
                fragments[index] = ""
            case CallArgs(index, fragment):
                assert index not in ended
                fragments[index] += fragment
            case CallEnd(index, valid):
                assert index not in ended
                ended[index] = valid
                assert isinstance(json.loads(fragments[index] or ("null" if valid else "{}")), dict)
    calls = [json.loads(fragments[index]) for index in sorted(ended) if ended[index]]
    assert calls == [call.arguments for call in parse(text, **options).calls]


@given(st.text(), options)
def test_any_text_can_be_read(text: str, options: dict[str, Any]):
    assert isinstance(parse(text, **options), Reply)


@pytest.mark.requirement("B7", "B8")
@given(st.text(st.characters(exclude_characters="<`~{[]\ud800", exclude_categories=["Cs"])), st.integers(1, 9))
def test_a_text_without_marks_comes_out_as_it_went_in(text: str, size: int):
    text = text.replace(":", " ").replace("=", " ")
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    events = scan(pieces)
    assert fold(events) == Reply(text=text)
    assert fold(scan([text], tools=TOOLS[1])) == Reply(text=text)


#: Marks that take the words behind them with them.
_HEADERS = ("<|channel|>", "<|message|>", "<|open|>", "<|sep|>")
plain_texts = st.lists(st.sampled_from([part for part in FRAGMENTS if not part.startswith(_HEADERS)]), max_size=24)


@pytest.mark.requirement("B10")
@settings(max_examples=size(75, 300))
@given(plain_texts.map("".join), st.sampled_from(["strict", "standard", "eager"]))
def test_every_word_that_is_in_no_call_comes_out_once(text: str, policy: Any):
    reply = parse(text, [], policy=policy)
    assert reply.calls == ()
    for word in ("hello", "world", "key: value", "write_file(", "🌍"):
        assert (reply.text + reply.reasoning).count(word) == text.count(word)


@check_each("cut", [0, 9])
def test_a_parsed_answer_leaves_nothing_to_garbage_collection(cut: int):
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": schema}}]
    calls = tuple(ToolCall("get_weather", {"city": city, "days": 2}) for city in ("Oslo", "Rome"))
    texts = [f"Let me look.\n{calls_text(dialect, calls, None)}" for dialect in DIALECTS]
    with without_garbage_collection():
        for text in texts:
            gc.collect()
            parse(text[: len(text) - cut], tools)
            assert gc.collect() == 0, text
