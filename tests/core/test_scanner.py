"""The scanner: which events each chunk makes certain, what is held back, and that no text is lost.

Streams are written down as chunk -> events, in short: `say x`, `think x`, `start 0 f`, `args 0 {}` (all fragments of
one chunk joined), `end 0`, `refuse 0`, `judge f call accepted`, `note code`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import pytest

from toolspeak import Reply, Scanner, fold, parse
from toolspeak.core import scanner as module
from toolspeak.core.builder import CallBuilder
from toolspeak.core.desk import Desk
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Judged,
    Noted,
    ReasoningDelta,
    TextDelta,
)
from toolspeak.core.evidence import Evidence
from toolspeak.core.markup import MORE
from toolspeak.core.scanner import MAX_FENCE_LINE, MAX_REJECTED, MAX_TAIL
from toolspeak.core.seam import NONE, Opening, Progress, Run

FILE = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["content"],
}
TOOLS = [{"name": "f"}, {"name": "write_file", "parameters": FILE}]

OBJECT = '{"name":"f","arguments":{}}'
CALL = f"<tool_call>{OBJECT}</tool_call>"
FENCED = f"```json\n{OBJECT}\n```"
CALLED = ["start 0 f", "args 0 {}", "end 0", "judge f call accepted"]
CLOSE = None

Stream = list[tuple[str | None, list[str]]]


def brief(event: Event) -> str:
    match event:
        case TextDelta(text):
            return f"say {text}"
        case ReasoningDelta(text):
            return f"think {text}"
        case CallStart(index, name):
            return f"start {index} {name}"
        case CallArgs(index, fragment):
            return f"args {index} {fragment}"
        case CallEnd(index, valid):
            return f"end {index}" if valid else f"refuse {index}"
        case Judged(candidate):
            return f"judge {candidate.name} {candidate.verdict} {candidate.reason}"
        case Noted(note):
            return f"note {note.code}"
        case _:
            raise AssertionError(event)


def told(events: Iterable[Event]) -> list[str]:
    found: list[str] = []
    for is_args, group in groupby(map(brief, events), lambda each: each.startswith("args ")):
        each = list(group)
        found += [each[0] + "".join(more.split(" ", 2)[2] for more in each[1:])] if is_args else each
    return found


def scan(pieces: Iterable[str], **options: Any) -> list[Event]:
    reader = Scanner(**{"tools": TOOLS, **options})
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.close()


def read(text: str, **options: Any) -> Reply:
    """The reply, which is the same whole and one character at a time."""
    reply = fold(scan([text], **options))
    assert fold(scan(text, **options)) == reply
    return reply


def why(reply: Reply) -> list[str]:
    return [f"{each.verdict} {each.reason}" for each in reply.candidates]


def codes(reply: Reply) -> list[str]:
    return [note.code for note in reply.notes]


STREAMS: dict[str, Stream] = {
    # ---- text
    "text flows at once": [("hello ", ["say hello "]), ("world", ["say world"]), ("!", ["say !"]), (CLOSE, [])],
    "nothing says nothing": [("", []), ("a", ["say a"]), ("", []), (CLOSE, [])],
    "blank lines flow": [("\n \n", ["say \n \n"]), ("  a\n", ["say   a\n"]), ("\n", ["say \n"]), (CLOSE, [])],
    "the start of a mark is held": [("hello <tool", ["say hello "]), ("_box", ["say <tool_box"]), (CLOSE, [])],
    "the start of a mark is text in the end": [("hello <tool", ["say hello "]), (CLOSE, ["say <tool"])],
    "no start of a mark": [("hello <tab", ["say hello <tab"]), ("le>", ["say le>"]), (CLOSE, [])],
    "a lone angle": [("a <", ["say a "]), (" b", ["say < b"]), (CLOSE, [])],
    "a lone angle at the end": [("a <", ["say a "]), (CLOSE, ["say <"])],
    "tags that mean nothing": [("a <b>x</b> <i", ["say a <b>x</b> "]), (">y</i>", ["say <i>y</i>"]), (CLOSE, [])],
    "a literal mark in the making": [("a [TOOL", ["say a "]), ("BOX] b", ["say [TOOLBOX] b"]), (CLOSE, [])],
    "a bracket that begins nothing": [("a [1] b", ["say a [1] b"]), ("] c", ["say ] c"]), (CLOSE, [])],
    "a closing bracket may begin noise": [("a ]", ["say a "]), ("b", ["say ]b"]), (CLOSE, [])],
    "noise is cut out": [("a ]<]mini", ["say a "]), ("max[>[b", ["say b"]), (CLOSE, [])],
    "a brace that begins nothing": [("a {1} b", ["say a {1} b"]), ("{x", ["say {x"]), (CLOSE, [])],
    "a brace that may begin a call": [("a {", ["say a "]), (' "x": 1}', ['say { "x": 1}']), (CLOSE, [])],
    "a brace at the end": [("a {", ["say a "]), (CLOSE, ["say {"])],
    "the first word of a line is held": [("Act", []), ("ually", ["say Actually"]), (CLOSE, [])],
    "the same word elsewhere is not": [("I Act", ["say I Act"]), ("ion: f", ["say ion: f"]), (CLOSE, [])],
    "halves of a pair": [
        ("a\ud800b", ["say a\ufffdb"]),
        ("c\udfff", ["say c\ufffd"]),
        (CLOSE, ["note invalid_unicode"]),
    ],
    "a whole character": [("a😀", ["say a😀"]), ("é", ["say é"]), (CLOSE, [])],
    # ---- code
    "ticks wait for what follows": [("x `", ["say x "]), ("y` z", ["say `y` z"]), (CLOSE, [])],
    "ticks at the end": [("x ``", ["say x "]), (CLOSE, ["say ``"])],
    "a fence line waits for its end": [("``", []), ("`js", []), ("\nx", ["say ```js\nx"]), (CLOSE, [])],
    "a fence line behind another line": [("a\n``", ["say a\n"]), ("`js\nx", ["say ```js\nx"]), (CLOSE, [])],
    "ticks behind a long line": [("x" * 200 + "`", ["say " + "x" * 200]), ("` y", ["say `` y"]), (CLOSE, [])],
    "a fence line at the end": [("```js", []), (CLOSE, ["say ```js"])],
    "tildes that are no fence": [("~", []), ("~ a", ["say ~~ a"]), (CLOSE, [])],
    "a mark in a fence": [
        ("```js\n", ["say ```js\n"]),
        (f"{CALL}\n", ["judge f text in_fence", f"say {CALL}\n"]),
        ("```\n", ["say ```\n"]),
        (CALL, CALLED),
        (CLOSE, []),
    ],
    "a mark in inline code": [(f"`{CALL}` ok", ["say `", "judge f text in_code", f"say {CALL}` ok"]), (CLOSE, [])],
    # ---- reasoning
    "reasoning flows apart": [
        ("<thi", []),
        ("nk>a", ["think a"]),
        ("b\n", ["think b\n"]),
        ("</think>", []),
        ("c", []),  # may become `call:`
        ("d", ["say cd"]),
        (CLOSE, []),
    ],
    "reasoning that is never closed": [("<think>a", ["think a"]), (CLOSE, ["note reasoning_unclosed"])],
    "reasoning that was never opened": [("a</think>b", ["say a", "note reasoning_unopened", "say b"]), (CLOSE, [])],
    "reasoning ends with the turn": [("<think>a<|end|>b", ["think a", "say b"]), (CLOSE, [])],
    "reasoning in literal marks": [("[THINK]a[/TH", ["think a"]), ("INK]b", ["say b"]), (CLOSE, [])],
    "reasoning in a channel": [
        ("<|channel|>analysis", []),
        ("<|message|>a", ["think a"]),
        ("<|end|><|channel|>final<|message|>b", ["say b"]),
        (CLOSE, []),
    ],
    "a call inside reasoning": [
        (f"<think>a {CALL} b", ["think a ", "judge f reasoning reasoning", f"think {CALL} b"]),
        (f"</think>\n{CALL}", ["say \n", *CALLED]),
        (CLOSE, []),
    ],
    "a mark for thinking in the middle of a line": [("a <think>b", ["say a <think>b"]), (CLOSE, [])],
    "a mark inside thinking, one a line": [("<think>\n<think>b</think>", ["think \n<think>b"]), (CLOSE, [])],
    "a label before the thinking": [
        ("<|channel>thou", []),
        ("ght\na", ["think a"]),
        ("<channel|>so", ["say so"]),
        (CLOSE, []),
    ],
    "another word before the thinking": [
        ("<|channel>thousand", ["think thousand"]),
        (CLOSE, ["note reasoning_unclosed"]),
    ],
    "half a label": [("<|channel>thou", []), (CLOSE, ["think thou", "note reasoning_unclosed"])],
    "a mark inside thinking is thinking": [("<think>a<think>b</think>so", ["think a<think>b", "say so"]), (CLOSE, [])],
    # ---- calls
    "a call flows as it comes": [
        ("Hi. <tool_call>", ["say Hi. "]),
        ('{"name":"write_file",', []),
        ('"arguments":', ["start 0 write_file"]),
        ('{"path":"a', ['args 0 {"path":"a']),
        ("bc", ["args 0 bc"]),
        ('","content":"d\\', ['args 0 ","content":"d']),
        ("ne", ["args 0 \\ne"]),
        ('"}', []),
        ("}", ['args 0 "}', "end 0", "judge write_file call accepted"]),
        ("</tool_", []),
        ("call>bye", ["say bye"]),
        (CLOSE, []),
    ],
    "two calls": [(CALL, CALLED), (f"\n{CALL}", ["say \n", *(each.replace("0", "1") for each in CALLED)]), (CLOSE, [])],
    "a call in the middle of a line": [(f"Now {CALL} ok", ["say Now ", *CALLED, "say  ok"]), (CLOSE, [])],
    "a call of nobody": [
        ('<tool_call>{"name":"g"', []),
        (',"arguments":{}}', ["judge g text unknown_tool"]),
        ("</tool_call>", ['say <tool_call>{"name":"g","arguments":{}}</tool_call>']),
        (CLOSE, []),
    ],
    "a bare call is held to its end": [("A.\n{", ["say A.\n"]), (OBJECT[1:-1], []), ("}", CALLED), (CLOSE, [])],
    "an action fence in the middle of a line": [
        ("Use ```json", ["say Use "]),
        (f" action\n{OBJECT}\n", CALLED),
        ("```", []),
        ("\nok", ["say \nok"]),
        (CLOSE, []),
    ],
    # ---- calls that must end the answer
    "a weak call waits for the end": [(FENCED, []), ("\n", []), (CLOSE, CALLED)],
    "a weak call before text": [
        (FENCED, []),
        ("\nso", ["judge f text more_follows", f"say {FENCED}\nso"]),
        (CLOSE, []),
    ],
    "a weak call and punctuation": [(FENCED, []), (".\n", []), (CLOSE, [*CALLED, "say .\n"])],
    "a weak call before a strong one": [
        (f"{FENCED}\n", []),
        (CALL, [*CALLED, *(each.replace("0", "1") for each in CALLED)]),
        (CLOSE, []),
    ],
    "a weak call before thinking": [
        (FENCED, []),
        ("<think>hm", ["judge f text more_follows", f"say {FENCED}", "think hm"]),
        ("</think>", []),
        (CLOSE, []),
    ],
    "a bare Python call waits for the end of its line": [
        ("f(a=1)", []),
        (".", []),
        ("\n", ["start 0 f", 'args 0 {"a":1}', "end 0", "judge f call accepted", "say .\n"]),
        ("So.", ["say So."]),
        (CLOSE, []),
    ],
    "a bare Python call in a sentence": [
        ("f(a=1)", []),
        (" is", ["judge f text more_follows", "say f(a=1) is"]),
        (" how.\n", ["say  how.\n"]),
        (CLOSE, []),
    ],
    # ---- invented results
    "an invented result is cut off": [
        (f"{CALL}\n<tool_resp", [*CALLED, "say \n"]),
        ("onse>sunny</tool_response>", ["note invented_result"]),
        ("It is sunny.", []),
        (CLOSE, []),
    ],
    "a result before any call is text": [("<tool_response>a", ["say <tool_response>a"]), (CLOSE, [])],
    "a line that begins a result": [
        (f"{CALL}\nObserv", [*CALLED, "say \n"]),
        ("ation: sunny", ["note invented_result"]),
        (CLOSE, []),
    ],
    # ---- blocks that never end
    "an opener at the end": [("a <tool_call>", ["say a "]), (CLOSE, ["say <tool_call>"])],
    "an opener and half a key": [('<tool_call>{"na', []), (CLOSE, ['say <tool_call>{"na'])],
    "an opener and prose": [("<tool_call> is a mark.", []), (CLOSE, ["say <tool_call> is a mark."])],
    "a call that is cut": [
        ('<tool_call>{"name":"f","arguments":{"a":"b', ["start 0 f", 'args 0 {"a":"b']),
        (CLOSE, ["note truncated_call", "judge f truncated truncated"]),
    ],
    "a weak call that is cut": [
        ('```json\n{"name":"f","argu', []),
        (CLOSE, ["judge f truncated truncated", 'say ```json\n{"name":"f","argu']),
    ],
    "a mark that is cut at its last character": [("<tool_call", []), (CLOSE, ["say <tool_call"])],
    "a mark with an attribute that is cut": [('<invoke name="f', []), (CLOSE, ['say <invoke name="f'])],
}
each_stream = pytest.mark.parametrize("name", STREAMS)


@each_stream
@pytest.mark.requirement("B6", "B7", "B8", "B9", "B10", "B11")
def test_each_chunk_gives_what_it_makes_certain(name: str):
    reader = Scanner(TOOLS)
    got: Stream = []
    for chunk, _ in STREAMS[name]:
        events = reader.close() if chunk is None else reader.feed(chunk)
        got.append((chunk, told(events)))
    assert got == STREAMS[name]


@each_stream
@pytest.mark.requirement("B8")
def test_a_cut_at_any_place_changes_nothing(name: str):
    text = "".join(chunk for chunk, _ in STREAMS[name] if chunk)
    whole = read(text)
    for at in range(len(text)):
        assert fold(scan([text[:at], text[at:]])) == whole, text[at:]


# ---- the life of a scanner


def test_closing_twice_says_nothing_more():
    reader = Scanner()
    reader.feed("a <tool_call>{")
    assert told(reader.close()) == ["say <tool_call>{"]
    assert reader.close() == []


@pytest.mark.parametrize("text", ["", "hello", "hello <too", f"{CALL}", '<tool_call>{"name":"f","arguments":{"a":"b'])
@pytest.mark.parametrize("more", ["", "more"])
def test_a_closed_scanner_takes_nothing_more(text: str, more: str):
    reader = Scanner(TOOLS)
    reader.feed(text)
    reader.close()
    with pytest.raises(ValueError, match="the scanner is closed"):
        reader.feed(more)


def test_closing_at_once_says_nothing():
    assert Scanner().close() == []


@pytest.mark.parametrize("text", ["\ud800", "a\udc00b", f"{CALL}\ud800", "hello \ud83d\ude00"])
@pytest.mark.requirement("R-E6")
def test_halves_of_a_surrogate_pair_are_replaced_and_noted_once(text: str):
    reply = read(text + text)
    assert "\ufffd" in reply.text
    assert not any("\ud800" <= char <= "\udfff" for char in reply.text)
    assert [note.code for note in reply.notes].count("invalid_unicode") == 1
    assert reply.notes[-1].detail == "the text held halves of surrogate pairs; U+FFFD stands for them"


# ---- where a mark stands


def evidence(text: str, **options: Any) -> dict[str, Any]:
    reply = read(text, **{"policy": "eager", **options})
    assert len(reply.candidates) == 1
    return reply.candidates[0].evidence


@pytest.mark.requirement("R-E5", "B7")
@pytest.mark.parametrize(
    ("before", "line_start", "answer_start"),
    [
        ("", True, True),
        ("  \n\t", True, True),
        ("<think>so</think>", True, True),
        ("<think>so</think>\n", True, True),
        ("a", False, False),
        ("a ", False, False),
        ("a\n", True, False),
        ("a\n  ", True, False),
        ("a\n\u00a0", True, False),
        ("- ", False, False),
        ("a\n- ", False, False),
        ("<b>", False, False),
        ("{1} ", False, False),
        ("[1] ", False, False),
        ("] ", False, False),
        ("a\n]", False, False),
        ("Observation: a\n", True, False),
        ("Final Answer: a\n", True, False),
        ("Final Answer: ", False, False),
        ("</tool_call>\n", True, False),
        ("a </tool_call>", False, False),
        ("`a` ", False, False),
    ],
)
def test_the_place_of_a_mark_is_evidence(before: str, line_start: bool, answer_start: bool):
    found = evidence(before + CALL)
    assert (found["line_start"], found["answer_start"]) == (line_start, answer_start)
    assert (found["in_fence"], found["in_code"], found["in_reasoning"]) == (False, False, False)


@pytest.mark.parametrize("between", ["", " ", "\n", "</tool_call>", "<|im_end|>", " </tool_call> "])
def test_a_call_behind_a_call_stands_at_the_start(between: str):
    first, second = read(CALL + between + CALL, policy="strict").candidates
    assert (first.verdict, second.verdict) == ("call", "call")
    assert second.evidence["answer_start"]


def test_a_call_behind_a_call_and_text_does_not():
    assert why(read(f"{CALL} and {CALL}", policy="strict")) == ["call accepted", "text inline"]


@pytest.mark.requirement("R-E5")
@pytest.mark.parametrize(
    ("before", "in_code"),
    [
        ("`", True),
        ("a `b` `", True),
        ("`a` ", False),
        ("``", True),
        ("a ``b`` ", False),
        ("`` ` ``", True),  # runs are counted, not matched: rather text than a call
        ("a `b\n", False),
        ("a\n`", True),
        ("a `b\n`c` ", False),
        ("a `b` c\n`", True),
        ("a ```b``` ", False),
        ("a ```", True),
        ("a ```b\n", False),
    ],
)
def test_a_mark_behind_an_odd_number_of_ticks_stands_in_code(before: str, in_code: bool):
    assert evidence(before + CALL)["in_code"] is in_code
    assert bool(read(before + CALL).calls) is not in_code


@pytest.mark.requirement("R-E5")
@pytest.mark.parametrize("text", [f"`{CALL}`", f"``{CALL}``", f"a `b` ``{CALL}``", f"`{OBJECT}`", f"a ` {OBJECT} `"])
def test_a_call_in_inline_code_is_text(text: str):
    reply = read(text)
    assert (reply.text, reply.calls) == (text, ())


@pytest.mark.parametrize("mark", ["<think>", "</think>", "<tool_response>", "<|end|>", "<|im_end|>", "[THINK]", "</s>"])
@pytest.mark.parametrize("around", ["`{}`", "```\n{}\n```", "~~~\n{}\n~~~\n"])
@pytest.mark.requirement("R-E5")
def test_every_mark_in_code_is_text(mark: str, around: str):
    text = around.format(mark)
    reply = read(CALL + "\n" + text)
    assert (reply.text, reply.reasoning, len(reply.calls)) == (f"\n{text}", "", 1)


# ---- fences


@pytest.mark.requirement("R-E5", "B7")
@pytest.mark.parametrize(
    ("fence", "closer"),
    [
        ("```", "```"),
        ("```", "`````"),
        ("```", "``` \t"),
        ("~~~", "~~~"),
        ("````", "````"),
        ("```js", "```"),
        ("~~~js ```", "~~~"),
        ("  ```", "```"),
        ("\t```", "  ```"),
        ("`" * 32, "`" * 32),
        ("```" + "x" * MAX_FENCE_LINE, "```"),
    ],
)
def test_a_fence_ends_with_as_many_marks_as_it_began(fence: str, closer: str):
    reply = read(f"{fence}\n{CALL}\n{closer}\n{CALL}")
    assert why(reply) == ["text in_fence", "call accepted"]
    assert reply.text == f"{fence}\n{CALL}\n{closer}\n"


@pytest.mark.requirement("R-E5")
@pytest.mark.parametrize("other", ["```", "~~~", "~~~~", "```` x", "a ````", "`````\u00a0x"])
def test_a_fence_does_not_end_with_anything_else(other: str):
    text = f"````\n{other}\n{CALL}\n"
    reply = read(text)
    assert (why(reply), reply.text) == (["text in_fence"], text)


@pytest.mark.parametrize(
    "line", ["``", "~~", "```a`b", "~~~a~b", "`" * 33, "~" * 33, "```" + "x" * (MAX_FENCE_LINE + 1), "a ```", "-```"]
)
def test_a_line_that_is_no_fence_opens_none(line: str):
    reply = read(f"{line}\n{CALL}")
    assert (why(reply), reply.text) == (["call accepted"], f"{line}\n")


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("open_code", ["```\n", "```js\nx\n", "```js\nx\n```", "```js\n~~~", "`", "a `b"])
def test_code_that_is_left_open_in_reasoning_does_not_reach_behind_it(open_code: str):
    reply = read(f"<think>a\n{open_code}</think>\n{CALL}")
    assert (reply.reasoning, reply.text, len(reply.calls)) == (f"a\n{open_code}", "\n", 1)


def test_an_action_fence_in_reasoning_opens_nothing():
    text = f"a\n```json action\n{OBJECT}\n```\n"
    reply = read(f"<think>{text}</think>ok")
    assert (reply.reasoning, reply.text, reply.candidates) == (text, "ok", ())


def test_an_action_fence_in_a_line_of_reasoning_opens_nothing():
    text = f"a ```json action\n{OBJECT}\n"
    reply = read(f"<think>{text}</think>ok")
    assert (reply.reasoning, reply.text, reply.calls) == (text, "ok", ())


@pytest.mark.parametrize(
    ("info", "called"),
    [
        ("json action", True),
        (" json action ", True),
        ("tool_code", True),
        ("json", False),
        ("js", False),
        (f"tool:f{' ' * (MAX_FENCE_LINE - 7)}", True),
        (f"tool:f{' ' * (MAX_FENCE_LINE - 6)}", False),
    ],
)
def test_a_fence_in_the_middle_of_a_line_counts_only_if_it_names_a_call(info: str, called: bool):
    body = "{}" if info.startswith("tool:") else OBJECT
    reply = read(f"Use ```{info}\n{body}\n```", policy="eager")
    assert ([candidate.dialect for candidate in reply.candidates] == ["action"]) is called
    assert reply.text.startswith("Use ```") is not called


def test_a_fence_in_the_middle_of_a_fence_line_is_text():
    text = f"```\na ```json action\n{OBJECT}\n"
    assert read(text).text == text


def test_an_action_fence_that_holds_no_call_is_a_fence():
    text = f"```json action\n123\n{CALL}\n```\n"
    reply = read(text + CALL)
    assert (why(reply), reply.text) == (["text in_fence", "call accepted"], text)


@pytest.mark.parametrize("info", ["json", ""])
def test_a_json_fence_that_holds_no_call_is_a_fence(info: str):
    text = f'```{info}\n{{"name": 1, "x": 2}}\n{CALL}\n```\n'
    reply = read(text + CALL)
    assert (why(reply)[-2:], reply.text) == (["text in_fence", "call accepted"], text)


def test_a_json_fence_that_does_not_begin_with_json_is_not_even_looked_at():
    reply = read(f"```json\nx\n{CALL}\n```\n")
    assert why(reply) == ["text in_fence"]


def test_a_fence_that_ends_with_the_text_is_text():
    for text in ("```json action", "```json", "```", "~~~\n", "```json action\n", "```json\n"):
        assert read(text) == Reply(text=text)


def test_a_rejected_declaration_is_a_fence_until_it_closes():
    text = f'<tools>\n{{"name":"f"\n{CALL}\n</tools>\n'
    reply = read(text + CALL)
    assert (why(reply), reply.text) == (["text no_name", "text in_fence", "call accepted"], text)


def test_ticks_in_a_rejected_declaration_open_no_fence():
    text = '<tools>\n{"type": 1}\n```\n</tools>\n'
    reply = read(text + CALL)
    assert (reply.text, len(reply.calls)) == (text, 1)


def test_a_fence_line_with_a_mark_in_it_is_none():
    line = f"```xml {CALL}\n"
    reply = read(line + CALL)
    assert (why(reply), reply.text) == (["text in_code", "call accepted"], line)


def test_a_bare_call_in_code_is_not_even_looked_at():
    for text in (f"```js\n{OBJECT}\n```", f"a ` {OBJECT}", f"~~~js\n[{OBJECT}]\n"):
        assert read(text) == Reply(text=text)


@pytest.mark.parametrize("open_fence", [f"```json action\n{OBJECT}\nmore\n", f"~~~~json action\n{OBJECT}\nmore\n"])
def test_a_fence_that_goes_on_behind_its_call_is_closed_by_its_marks(open_fence: str):
    marks = open_fence.partition("json")[0]
    reply = read(f"{open_fence}{CALL}\n{marks}\n{CALL}")
    assert why(reply) == ["call accepted", "text in_fence", "call accepted"]
    assert reply.text == f"\nmore\n{CALL}\n{marks}\n"


def test_a_fence_that_goes_on_behind_its_call_ends_where_the_next_one_opens():
    action = f"```json action\n{OBJECT}\n"
    reply = read(f"{action}more\n{action}more\n```js\n{CALL}\n```\n{CALL}")
    assert why(reply) == ["call accepted", "call accepted", "text in_fence", "call accepted"]


def test_a_fence_without_a_call_does_not_end_where_the_next_one_opens():
    text = f"```js\n```json action\n{OBJECT}\n```js\n{CALL}\n"
    assert read(text).text == text


@pytest.mark.requirement("B7", "B10")
def test_thinking_in_the_middle_of_a_line_is_text_and_no_place_for_calls():
    text = f"a <think>b {CALL} {OBJECT} c</think> "
    reply = read(text + CALL)
    assert (why(reply), reply.text, reply.reasoning) == (["reasoning reasoning", "call accepted"], text, "")
    assert codes(reply) == []


# ---- other marks


def test_a_final_answer_ends_the_search_for_actions():
    text = "Final Answer: 4\nAction: f\nAction Input: {}\n"
    reply = read(text)
    assert (reply.text, reply.calls) == (text, ())


def test_a_call_may_stand_right_behind_the_words_of_a_final_answer():
    reply = read(f"a\nFinal Answer:{CALL}")
    assert (reply.text, len(reply.calls)) == ("a\nFinal Answer:", 1)


@pytest.mark.parametrize("closer", ["</tool_call>", "</invoke>", "</f>"])
def test_a_stray_closer_is_dropped_only_behind_a_call(closer: str):
    assert read(f"a{closer}b").text == f"a{closer}b"
    assert read(f"{closer}b").text == f"{closer}b"
    assert read(f"{CALL}\n{closer} b").text == "\n b"
    assert read(f"{CALL} a{closer}b").text == f" a{closer}b"


@pytest.mark.parametrize("noise", ["<|START_RESPONSE|>", "]<]minimax[>[", "<|open|>x<|sep|>", "<|close|>x<|sep|>"])
def test_marks_of_the_transport_are_dropped(noise: str):
    assert read(f"a {noise}b{noise} c").text == "a b c"


def test_what_stands_before_a_dropped_mark_decides_whether_a_line_begins():
    assert evidence(f"a<|eot|>{CALL}")["line_start"] is False
    assert evidence(f"a <|eot|>{CALL}")["line_start"] is True
    assert evidence(f"<|eot|>{CALL}")["line_start"] is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<s>Hello", "Hello"),
        ("<think>a</think><s>Hello", "Hello"),
        ("<s><s>Hello", "<s>Hello"),
        ("It is <s>old</s> new", "It is <s>old</s> new"),
        ("a\n<s>old</s>", "a\n<s>old</s>"),
        ("<think>a <s>b</s></think>c", "c"),
    ],
)
def test_the_token_that_begins_an_answer_is_dropped_only_where_one_begins(text: str, said: str):
    assert read(text).text == said


@pytest.mark.requirement("B7")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Hello.<|im_end|>", "Hello."),
        ("Hello.<|eot_id|>\n \n", "Hello."),
        ("Hello.<|im_end|><｜end▁of▁sentence｜>\n", "Hello."),
        ("<|im_end|>", ""),
        (f"```json\n{OBJECT}\n```<|im_end|>", ""),
    ],
)
def test_a_token_that_ends_the_turn_is_cut_off_with_a_note(text: str, said: str):
    reply = read(text)
    assert (reply.text, codes(reply)) == (said, ["end_token"])


@pytest.mark.parametrize(
    "text",
    [
        "Write <|im_end|> there.",
        "a<|im_end|><b>",
        "a<|im_end|>\n<|im_en",
        "a<|im_end|><|im_end",
        "a<|im_end|><|im_end| >b",
        "<|im_end|>" + " " * 5000,
        "`<|im_end|>`",
        "<|im_end|></s>",
    ],
)
def test_a_token_that_ends_no_turn_is_text(text: str):
    reply = read(text)
    assert (reply.text, codes(reply)) == (text, [])


def test_a_token_that_ends_the_turn_is_text_in_the_thinking():
    assert read("<think>a<|im_end|>").reasoning == "a<|im_end|>"


def test_the_closer_that_text_stands_before_is_cut_with_its_block():
    unclosed = CALL.removesuffix("</tool_call>")
    reply = read(f"{unclosed} so `</tool_call>` much</tool_call> b</tool_call>")
    assert (reply.text, codes(reply)) == (" so `</tool_call>` much b</tool_call>", ["text_in_block"])
    assert read(f"{unclosed} a</invoke>").text == " a</invoke>"
    assert read(f"{unclosed} a {CALL} b</tool_call>").text == " a  b</tool_call>"


def test_what_stands_behind_a_header_that_never_ends_is_read():
    reply = read(f"<|start|>assistant<|channel|>final {CALL}")
    assert (reply.text, len(reply.calls)) == ("<|start|>assistant<|channel|>final ", 1)


def test_long_tags_are_read_with_the_name_inside():
    text = '<|open|>tools<|sep|><|open|>call tool="f"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
    reply = read(f"<|open|>think<|sep|>a<|close|>think<|sep|>{text}b")
    assert (reply.reasoning, reply.text, len(reply.calls)) == ("a", "b", 1)


@pytest.mark.parametrize(
    "text", ["<|open|>", "<|open|>" + "x" * 300, "<invoke", "<invoke <b", '<tool_call "', "<invoke name='f"]
)
def test_a_tag_that_is_none_is_text(text: str):
    reply = read(f"{text}\n{CALL}")
    assert reply.text.startswith(text)
    assert [call.name for call in reply.calls] == ["f"] * len(reply.calls)
    assert read(text) == Reply(text=text)


@pytest.mark.parametrize(
    "text", ["[TOOL_CALLS]", "[TOOL_CALLS", "[THINKING] a", "[", "]", "{", "[[", '["a"]', "]<]mini", "[f"]
)
def test_a_bracket_that_is_no_mark_is_text(text: str):
    assert read(text) == Reply(text=text)
    assert read(f"a {text} b").text == f"a {text} b"


@pytest.mark.parametrize("text", [f"[{OBJECT}]", f"a\n[{OBJECT}]", "[f()]", f"a [{OBJECT}]", f"  {OBJECT}"])
def test_a_bracket_may_begin_a_bare_call(text: str):
    assert [call.name for call in read(text).calls] == ["f"]


@pytest.mark.parametrize("before", ["a", "a`", "x=", "(", "<b>"])
def test_a_bracket_inside_a_word_begins_nothing(before: str):
    text = f"x {before}{OBJECT}"
    assert read(text) == Reply(text=text)


def test_a_bare_call_in_reasoning_is_not_even_looked_at():
    assert read(f"<think>{OBJECT}</think>").candidates == ()


# ---- invented results


@pytest.mark.requirement("B9")
@pytest.mark.parametrize(
    "result",
    ["<tool_response>x", "<|tool_response>x", "Observation: x", "Tool result: x", "[TOOL_RESULTS]x", "<tool_result>x"],
)
def test_a_result_that_the_model_invents_is_cut_off_with_everything_behind_it(result: str):
    reply = read(f"{CALL}\n{result}\nIt is sunny. {CALL}")
    assert (reply.text, len(reply.calls), codes(reply)) == ("\n", 1, ["invented_result"])
    assert reply.notes[0].detail == "the model wrote a tool result itself; it was cut off"
    assert reply.complete
    assert read(result).text == result


@pytest.mark.requirement("B9")
def test_a_fence_that_holds_a_result_is_cut_off_behind_a_call_only():
    fence = "```json result\nsunny\n```\n"
    reply = read(f"{CALL}\n{fence}So.")
    assert (reply.text, codes(reply)) == ("\n", ["invented_result"])
    assert read(f"{fence}So.") == Reply(text=f"{fence}So.")
    assert read(f"{CALL}<think>\n{fence}</think>So").text == "So"


@pytest.mark.requirement("B9")
def test_a_result_inside_reasoning_is_reasoning():
    reply = read(f"{CALL}<think><tool_response>x</think>y")
    assert (reply.reasoning, reply.text, codes(reply)) == ("<tool_response>x", "y", [])


@pytest.mark.requirement("B9")
def test_a_result_behind_a_call_that_was_refused_is_cut_off_too():
    reply = read('<tool_call>{"name":"write_file","arguments":{}}</tool_call>\n<tool_response>ok')
    assert (reply.text, why(reply)) == ("\n", ["invalid arguments_invalid"])
    assert codes(reply) == ["arguments_invalid", "invented_result"]


# ---- calls that must end the answer


@pytest.mark.requirement("B7", "B8")
@pytest.mark.parametrize("tail", ["", "\n", "  \n\n", ".", " .\n", "\n\n.", ". .", "!?;:,)]}*_`~\"'", ".`"])
def test_nothing_but_space_and_punctuation_may_follow_a_weak_call(tail: str):
    reply = read(FENCED + tail)
    assert why(reply) == ["call accepted"]
    assert reply.text == ("" if not tail.strip() else tail)


@pytest.mark.requirement("B7")
@pytest.mark.parametrize("tail", ["a", "\n\nDone.", ". x", "\n- a", "<b>", "1", "-", "é", "{", "\n```\nx\n```"])
def test_anything_else_makes_it_text(tail: str):
    reply = read(FENCED + tail)
    assert (why(reply), reply.text) == (["text more_follows"], FENCED + tail)


@pytest.mark.parametrize("between", ["\n", "\n\n", ".\n"])
def test_weak_calls_may_follow_each_other(between: str):
    reply = read(FENCED + between + FENCED)
    assert why(reply) == ["call accepted"] * 2
    assert reply.text == between.strip("\n") + ("\n" if between.strip() else "")


def test_a_bare_python_call_before_something_else_on_its_line_is_text():
    text = 'f(a=1) {"name":\n1, "x": 2}\n'
    reply = read(text)
    assert (reply.text, reply.calls, why(reply)[-1]) == (text, (), "text more_follows")


def test_weak_calls_are_all_text_when_text_follows_the_last():
    reply = read(f"{FENCED}\n{FENCED}\nso")
    assert (why(reply), reply.text) == (["text more_follows"] * 2, f"{FENCED}\n{FENCED}\nso")


def test_space_between_weak_calls_is_kept_when_they_are_text():
    text = f"{FENCED} \n\n {FENCED}\n a"
    assert read(text).text == text


def test_a_weak_call_in_a_fence_that_goes_on_is_text():
    text = f"```json\n{OBJECT}\nand more\n```\n"
    reply = read(text)
    assert (why(reply), reply.text) == (["text more_follows"], text)


@pytest.mark.requirement("R-T12")
@pytest.mark.parametrize("char", [" ", ".", "\n", "*"])
def test_the_tail_of_a_weak_call_is_bounded(char: str):
    assert why(read(FENCED + char * MAX_TAIL)) == ["call accepted"]
    text = FENCED + char * (MAX_TAIL + 1)
    assert (why(read(text)), read(text).text) == (["text more_follows"], text)


def test_the_bound_begins_anew_with_the_next_weak_call():
    half = "." * (MAX_TAIL // 2 + 1)
    text = f"{FENCED}{half}\n{CALL}\n{FENCED}{half}"
    assert why(read(text)) == ["call accepted"] * 3


def test_the_bound_is_shared_by_calls_that_wait_together():
    half = "." * (MAX_TAIL // 2 + 1)
    assert why(read(f"{FENCED}{half}\n{FENCED}{half}")) == ["text more_follows"] * 2


# ---- blocks that never end


@pytest.mark.requirement("B6", "B8")
@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "<tool_call>\n\n",
        '<tool_call>{"name"',
        '<tool_call>{"name": "f',
        "<tool_call>prose",
        "a ```json action\n{",
        "```json action\n",
        "[TOOL_CALLS]",
        "<function=f",
        "<function_calls>\n<invoke",
        "Action: f",
        "Action: f\nAction Inp",
        "<|channel|>commentary to=functions.f",
        "<|channel|>",
        '{"name": "f", "argu',
        "[f(",
        "f(",
        "<f",
    ],
)
def test_a_candidate_that_never_got_a_name_is_text_in_the_end(text: str):
    reply = read(f"a\n{text}")
    assert reply.calls == ()
    assert reply.text == f"a\n{text}"
    assert all(each.verdict in ("truncated", "text") for each in reply.candidates)


@pytest.mark.requirement("B6")
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"f","arguments":',
        '<tool_call>{"name":"f","arguments":{"a":"b',
        '<tool_call>{"name":"f","arguments":{"a":"b"',
        "[TOOL_CALLS]f",
        '[TOOL_CALLS]f[ARGS]{"a"',
        "<function=f><parameter=a>b",
        '<|channel|>commentary to=functions.f<|message|>{"a',
    ],
)
def test_a_call_that_was_cut_off_is_never_complete(text: str):
    reply = read(text)
    assert (reply.calls, reply.complete, codes(reply)) == ((), False, ["truncated_call"])
    assert why(reply) == ["truncated truncated"]


def test_what_is_left_behind_a_finished_call_is_said():
    assert read(f"<tool_call>{OBJECT}").text == ""
    assert read(f"<tool_call>{OBJECT} </tool_cal").text.strip() == "</tool_cal"
    assert len(read(f"<tool_call>{OBJECT} </tool_cal").calls) == 1


# ---- limits


def test_the_limits_are_what_the_documents_say():
    assert (MAX_FENCE_LINE, MAX_REJECTED, MAX_TAIL, NONE) == (120, 2000, 4096, -2)
    assert module.MAX_CALLS == 20_000


GIVEN_UP = ["<tool_call>?</tool_call>", '<tool_call>{"name":"x"}</tool_call>', "<invoke <b>", "```json action\n?\n```"]


@pytest.mark.requirement("R-T12")
@pytest.mark.parametrize("unit", GIVEN_UP)
@pytest.mark.parametrize("text", [CALL, f"{FENCED}\n", OBJECT, f"```json action\n{OBJECT}\n```\n"])
def test_after_so_many_candidates_that_were_none_the_text_is_not_about_calls(
    unit: str, text: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MAX_REJECTED", 3)
    few, many = read(f"{unit}\n{unit}\n{text}"), read(f"{unit}\n{unit}\n{unit}\n{text}")
    assert (len(few.calls), few.text.rstrip()) == (1, f"{unit}\n{unit}")
    assert (many.calls, many.text) == ((), f"{unit}\n{unit}\n{unit}\n{text}")


@pytest.mark.requirement("R-T12")
def test_reasoning_is_still_separated_when_calls_are_no_longer_looked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_REJECTED", 1)
    reply = read("<tool_call>x</tool_call>\n<think>a</think><s>b</tool_call>")
    assert (reply.text, reply.reasoning) == ("<tool_call>x</tool_call>\n<s>b</tool_call>", "a")


@pytest.mark.requirement("R-T12")
def test_behind_very_many_calls_no_more_are_looked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_CALLS", 3)
    reply = read(CALL * 5)
    assert (len(reply.calls), reply.text, codes(reply)) == (3, CALL * 2, ["too_many_calls"])


def test_candidates_that_were_calls_do_not_count(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_REJECTED", 2)
    assert len(read(f"<tool_call>x</tool_call>\n{CALL * 5}").calls) == 5
    refused = '<tool_call>{"name":"write_file","arguments":{}}</tool_call>\n'
    assert len(read(refused * 2 + CALL).calls) == 0


@pytest.mark.requirement("R-T12")
def test_the_real_limit_is_reached_after_two_thousand():
    unit = "<tool_call>x</tool_call>\n"
    assert len(parse(unit * (MAX_REJECTED - 1) + CALL, TOOLS).calls) == 1
    assert len(parse(unit * MAX_REJECTED + CALL, TOOLS).calls) == 0


@pytest.mark.requirement("R-T12")
def test_a_run_of_ticks_is_not_held_for_ever():
    reader = Scanner()
    assert told(reader.feed("a " + "`" * (MAX_FENCE_LINE - 1))) == ["say a "]
    assert told(reader.feed("`")) == ["say " + "`" * MAX_FENCE_LINE]
    assert told(reader.feed("``")) == []
    assert told(reader.feed("`" * MAX_FENCE_LINE)) == ["say " + "`" * (MAX_FENCE_LINE + 2)]


@pytest.mark.parametrize("before", ["a ", f"{FENCED} "])
@pytest.mark.parametrize(
    ("ticks", "called"), [(3, True), (32, True), (MAX_FENCE_LINE - 1, True), (MAX_FENCE_LINE, False), (150, False)]
)
def test_a_run_of_ticks_that_is_too_long_opens_nothing(before: str, ticks: int, called: bool):
    reply = read(f"{before}{'`' * ticks}json action\n{OBJECT}\n{'`' * ticks}")
    assert ("action" in [candidate.dialect for candidate in reply.candidates]) is called


def test_a_run_of_ticks_that_is_too_long_is_not_looked_at_in_pieces():
    text = f"a `b {'`' * 150}json action\n{OBJECT}\n"
    assert [candidate.dialect for candidate in read(text).candidates] == ["json"]


# ---- the nonce


@pytest.mark.requirement("R-E2")
@pytest.mark.parametrize(
    ("text", "nonce", "expected"),
    [
        (CALL, None, None),
        (CALL, "k7", False),
        (CALL.replace("<tool_call>", "<tool_call k7>"), "k7", True),
        (CALL.replace("<tool_call>", "<tool_call k8>"), "k7", False),
        (f"k7 {CALL} k7", "k7", False),
        (CALL.replace("<tool_call>", "<tool_call k77>"), "k7", False),
        ('{"name":"f","arguments":{"a":"k7"}}', "k7", False),
    ],
)
def test_the_nonce_is_looked_for_in_the_mark(text: str, nonce: str | None, expected: bool | None):
    assert evidence(text, nonce=nonce).get("nonce") is expected


# ---- the shortcut


class FakeReader:
    """`!` closes the block, `|` ends it without closing it, `?` and `<` end it badly. `+` begins a call, `;` ends it.
    A `%` is not read before the next character has come, a `&` never."""

    def __init__(self, desk: Desk, evidence: Evidence, run: Run | None, channel: str) -> None:
        self.state: Progress = "open"
        self.closed = False
        self.owes = ""
        self.channel = ""
        self.builders: list[CallBuilder] = []
        self.evidence = evidence
        self.fed: list[str] = []
        self.finished = 0
        self._desk = desk
        self._run = run
        self._channel = channel

    def feed(self, buf: str, pos: int, final: bool) -> int:
        self.fed.append(buf[pos:])
        while pos < len(buf):
            char = buf[pos]
            if char == "&" or (char == "%" and pos + 1 == len(buf) and not final):
                return pos
            if char in "?<":
                self.state = "failed"
                return pos
            pos += 1
            if char == "+":
                self.builders.append(CallBuilder(self._desk, self.evidence))
                self.builders[-1].take_name("f")
            if char in ";!|":
                for builder in self.builders:
                    builder.end()
                self.builders = [builder for builder in self.builders if builder.state == "tail"]
                self.closed = char == "!"
                if char != ";":
                    self.state, self.channel = "done", self._channel
                return pos
        return pos

    def finish(self) -> None:
        self.finished += 1
        for builder in self.builders:
            builder.cut()
        self.state = "done" if self._channel == "done" else "failed"

    def run(self) -> Run | None:
        return self._run if self.state == "open" else None


class FakeTable:
    """`<go>`, `[go]`, `]<go[`, `go:` at the start of a line, a fence `go`, `{go` and `[{go` open. `[x]` and `]<x[`
    are dropped, `</go>` closes."""

    def __init__(self, opening: Opening, run: Run | None = None, channel: str = "") -> None:
        self.opening = opening
        self.run = run
        self.channel = channel
        self.readers: list[FakeReader] = []

    def place(self, buf: str, pos: int) -> re.Match[str] | None:
        return re.compile(r"[<`{\[\]\n]").search(buf, pos)

    def tag(self, name: str, closing: bool) -> Any:
        assert isinstance(closing, bool)
        if name != "go":
            return None
        return ("closer", None) if closing else ("open", self.opening)

    def may_become_tag(self, name: str) -> bool:
        return "go".startswith(name)

    def _find(self, marks: tuple[str, ...], buf: str, pos: int, final: bool) -> Any:
        assert isinstance(final, bool)
        rest = buf[pos : pos + 5]
        for mark in marks:
            if rest.startswith(mark):
                return ("open", self.opening, len(mark)) if "go" in mark else ("noise", None, len(mark))
        return MORE if not final and any(mark.startswith(rest) for mark in marks) else NONE

    def literal(self, buf: str, pos: int, final: bool) -> Any:
        return self._find(("[go]", "]<go[", "[x]", "]<x["), buf, pos, final)

    def line(self, buf: str, pos: int, final: bool) -> Any:
        return self._find(("go:",), buf, pos, final)

    def is_result(self, info: str) -> bool:
        return info == "result"

    def fence(self, info: str, marks: str) -> Opening | None:
        assert marks in ("```", "~~~~")
        return self.opening if info == "go" else None

    def bare(self, buf: str, pos: int, final: bool) -> Any:
        found = self._find(("{go", "[{go"), buf, pos, final)
        return found if isinstance(found, int) else self.opening

    def reader(self, opening: Opening, desk: Desk, evidence: Evidence) -> FakeReader:
        assert opening is self.opening
        self.readers.append(FakeReader(desk, evidence, self.run, self.channel))
        return self.readers[-1]


def fake(
    *pieces: str, opening: Opening | None = None, run: Run | None = None, channel: str = ""
) -> tuple[Any, FakeTable]:
    """What each piece gives, the last being what closing gives; and the table."""
    table = FakeTable(opening or Opening("d"), run, channel)
    reader = module.Scanner(Desk(None), table)
    return [*(told(reader.feed(piece)) for piece in pieces), told(reader.close())], table


def test_a_block_is_read_from_behind_its_mark():
    events, table = fake("a <go>bc", "d+!e")
    assert events == [["say a "], ["start 0 f", "args 0 {}", "end 0", "judge f call accepted", "say e"], []]
    assert table.readers[0].fed == ["bc", "d+!e"]


def test_a_block_may_be_read_from_its_mark():
    _, table = fake("a <go>b!", opening=Opening("d", at_mark=True))
    assert table.readers[0].fed == ["<go>b!"]


def test_the_reader_is_told_the_dialect_and_the_wrapper():
    _, table = fake("a\n<go>!", opening=Opening("dialect", "weak"))
    assert table.readers[0].evidence == Evidence("dialect", "weak", line_start=True, answer_start=False)


def test_the_raw_text_of_a_failed_block_is_said_and_what_it_did_not_read_is_read_again():
    events, table = fake("<go>ab", "c?<go>d", "!x")
    assert events == [[], ["say <go>abc?"], ["say <go>d!x"], []]
    assert [reader.fed for reader in table.readers] == [["ab", "c?<go>d"], ["d", "!x"]]


def test_a_block_that_failed_at_its_own_mark_does_not_open_again():
    events, table = fake("a <go>b", opening=Opening("d", at_mark=True))
    assert (events, len(table.readers)) == ([["say a <go>b"], []], 1)


@pytest.mark.parametrize("mark", ["<go>", "[go]", "]<go[", "\ngo:", "{go", "[{go", "\n```go\n", "\n~~~~ go\n"])
def test_every_kind_of_mark_opens_and_may_be_cut_anywhere(mark: str):
    whole, _ = fake(f"a {mark}b!c")
    assert whole[0][-1].startswith(f"say a {mark.rstrip()}")
    for at in range(len(mark) + 4):
        events, table = fake(f"a {mark}b!c"[:at], f"a {mark}b!c"[at:])
        assert len(table.readers) == 1
        assert "".join(text for group in events for text in group).replace("say ", "") == f"a {mark}b!c"


@pytest.mark.parametrize("mark", ["[x]", "]<x["])
def test_a_dropped_mark_in_code_is_text(mark: str):
    assert fake(f"a {mark}b")[0][0] == ["say a b"]
    assert fake(f"a `{mark}b")[0][0] == [f"say a `{mark}b"]


@pytest.mark.parametrize("mark", ["[go", "]<go", "go", "{g", "<g", "```go"])
def test_a_mark_that_is_not_whole_in_the_end_is_text(mark: str):
    events, table = fake(f"\n{mark}")
    assert "".join(text for group in events for text in group).replace("say ", "") == f"\n{mark}"
    assert table.readers == []


@pytest.mark.parametrize(
    ("text", "line_start"),
    [
        ("<go>a\n<go>!", True),
        ("<go>a\n \t\r<go>!", True),
        ("<go>a<go>!", False),
        ("<go>a\nb<go>!", False),
        ("<go>\n" + " " * 255 + "<go>!", True),
        ("<go>\n" + " " * 256 + "<go>!", False),
    ],
)
def test_behind_a_failed_block_a_line_begins_where_the_block_ended_with_one(text: str, line_start: bool):
    _, table = fake(text)
    assert table.readers[1].evidence.line_start is line_start


def test_the_ticks_of_a_failed_block_are_its_own():
    _, table = fake("<go>a`b!<go>!")
    assert not table.readers[1].evidence.in_code
    _, table = fake("`<go>a`b!<go>!")
    assert table.readers[1].evidence.in_code
    _, table = fake("<go>a`\n`b!<go>!")
    assert not table.readers[1].evidence.in_code


@pytest.mark.parametrize(("end", "in_fence"), [("?", True), ("!", False), ("+!", False), ("+|", True), ("+;?", False)])
def test_a_fence_is_open_until_it_is_closed(end: str, in_fence: bool):
    _, table = fake(f"```go\na{end}\n<go>!")
    assert table.readers[1].evidence.in_fence is in_fence


def test_a_declaration_whose_block_failed_hides_everything_up_to_its_end():
    _, table = fake("<go>a?<go>b!</no> c</go> <go>!", opening=Opening("d", stops=("</go>",), single=True))
    assert [reader.evidence.in_fence for reader in table.readers] == [False, True, False]


def test_what_follows_a_call_in_its_block_is_text_when_it_is_no_call():
    events, table = fake("<go>ab+;cd", "e?f")
    assert events == [CALLED, ["say cde?f"], []]
    assert table.readers[0].fed == ["ab+;cd", "cd", "e?f"]


def test_what_follows_a_call_in_its_block_is_dropped_when_the_block_ends_well():
    events, _ = fake("<go>+;cd!e")
    assert events == [[*CALLED, "say e"], []]


def test_what_comes_before_a_call_in_its_block_is_dropped():
    assert fake("<go>abc+!")[0] == [CALLED, []]


def test_several_calls_may_come_from_one_block():
    events, _ = fake("<go>+;a+;b?")
    assert events[0] == [*CALLED, *(each.replace("0", "1") for each in CALLED), "say b?"]


# ---- the end of the text inside a block


@pytest.mark.parametrize(
    ("text", "channel", "expected"),
    [
        ("<go>ab&c", "", ["say <go>ab&c"]),
        ("<go>ab&c", "done", ["say <go>ab&c"]),
        ("<go>a+b&c", "", ["note truncated_call", "judge f truncated truncated"]),
        ("<go>+;b&c", "", ["say b&c"]),
        ("<go>+;b&c", "done", ["say &c"]),
        ("<go>+;b", "done", []),
    ],
)
def test_what_a_reader_never_read_is_said_unless_it_belongs_to_a_call_that_was_cut(
    text: str, channel: str, expected: list[str]
):
    events, table = fake(text, channel=channel)
    assert events[-1] == expected
    assert table.readers[0].finished == 1


def test_what_a_reader_holds_back_is_given_to_it_again():
    events, table = fake("<go>a%", "b%", "c!")
    assert events == [[], [], ["say <go>a%b%c!"], []]
    assert table.readers[0].fed == ["a%", "%", "%b%", "%", "%c!"]


@pytest.mark.parametrize(("channel", "then"), [("", "say <go>!x"), ("final", "say x"), ("analysis", "think x")])
def test_a_header_gives_the_channel_of_the_text_behind_it(channel: str, then: str):
    events, _ = fake("<go>!x", channel=channel)
    assert events[0] == [then]


def test_the_channel_of_thinking_ends_with_the_next_header():
    events, _ = fake("<go>!x", "y", channel="analysis")
    assert events == [["think x"], ["think y"], ["note reasoning_unclosed"]]


def test_the_text_may_end_inside_a_block():
    events, table = fake("<go>ab%")
    assert events == [[], ["say <go>ab%"]]
    assert table.readers[0].finished == 1


def test_the_text_may_end_inside_a_block_whose_call_has_gone_out():
    events, table = fake("<go>a+b", "c")
    assert events == [["start 0 f"], [], ["note truncated_call", "judge f truncated truncated"]]
    assert table.readers[0].finished == 1


def letters(room: int = sys.maxsize, waits: str = "", grown: list[int] | None = None) -> Run:
    def accepts(text: str) -> str | None:
        return text if text.isalpha() or not text else None

    return Run(accepts, lambda text: CallArgs(0, text), room, waits, None if grown is None else grown.append)


def test_chunks_that_a_run_accepts_are_not_read():
    grown: list[int] = []
    run = letters(grown=grown)
    events, table = fake("<go>+", "ab", "c", "1", run=run)
    assert events[:3] == [["start 0 f"], ["args 0 ab"], ["args 0 c"]]
    assert table.readers[0].fed == ["+", "1"]
    assert grown[0] == 3


def test_a_run_that_is_full_ends():
    grown: list[int] = []
    events, table = fake("<go>+", "ab", "cde", "f", run=letters(3, grown=grown))
    assert events[1] == ["args 0 ab"]
    assert table.readers[0].fed[:2] == ["+", "cde"]
    assert grown[0] == 2


def test_a_run_takes_as_much_as_it_has_room_for():
    events, table = fake("<go>+", "abc", "d", run=letters(3))
    assert events[1] == ["args 0 abc"]
    assert table.readers[0].fed == ["+", "d"]


def test_a_character_that_says_nothing_yet_waits_for_the_next():
    events, table = fake("<go>+", "ab,", "c", "d,", "1", run=letters(waits=","))
    assert events[1] == ["args 0 ab"]
    assert table.readers[0].fed == ["+", ",c", ",1"]


def test_a_waiting_character_alone_says_nothing():
    events, table = fake("<go>+", ",", "a", run=letters(waits=","))
    assert events[1] == []
    assert table.readers[0].fed == ["+", ",a"]


def test_a_run_is_told_at_the_end_how_much_came():
    grown: list[int] = []
    fake("<go>+", "abc", run=letters(grown=grown))
    assert grown == [3]


def test_a_chunk_in_which_nothing_stops_is_not_even_looked_at_as_long_as_there_is_room():
    looked: list[str] = []

    def stops(text: str) -> bool | None:
        return None if text.isalpha() or not text else True

    def accepts(text: str) -> str | None:
        looked.append(text)
        return None if text else text

    run = Run(accepts, lambda text: CallArgs(0, text), 3, "", None, stops)
    events, table = fake("<go>+", "ab", "", "cd", run=run)
    assert events[1:3] == [["args 0 ab"], []]
    assert (looked, table.readers[0].fed) == ([""], ["+", "cd"])


def test_thinking_runs_as_plain_text_does():
    reader = Scanner()
    assert told(reader.feed("<think>so")) == ["think so"]
    assert reader._run is not None
    assert told(reader.feed(" it is")) == ["think  it is"]
    assert told(reader.feed(".</think>Yes") + reader.feed(", it is")) == ["think .", "say Yes", "say , it is"]


def test_plain_text_runs_only_when_the_line_and_the_answer_have_begun():
    seen: list[bool] = []
    reader = Scanner()
    for chunk in ("a", "b", "\n", "c d", "<", "b", "`"):
        reader.feed(chunk)
        seen.append(reader._run is not None)
    assert seen == [True, True, False, True, True, True, True]
