"""The scanner: which events each chunk makes certain, what is held back, and that no text is lost.

Streams are written down as chunk -> events, in short: `say x`, `think x`, `start 0 f`, `args 0 {}` (all fragments of
one chunk joined), `end 0`, `refuse 0`, `judge f call accepted`, `note code`.
"""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.core.scanner_helpers import (
    CALL,
    CALLED,
    CLOSE,
    FENCED,
    OBJECT,
    TOOLS,
    Stream,
    read,
    scan,
    told,
)
from toolspeak import Scanner, fold

STREAMS: dict[str, Stream] = {
    # ---- text
    "text flows at once": [("hello ", ["say hello "]), ("world", ["say world"]), ("!", ["say !"]), (CLOSE, [])],
    "nothing says nothing": [("", []), ("a", ["say a"]), ("", []), (CLOSE, [])],
    "blank lines flow": [("\n \n", ["say \n \n"]), ("  a\n", ["say   a\n"]), ("\n", ["say \n"]), (CLOSE, [])],
    "the start of a mark is held": [("hello <tool", ["say hello "]), ("_box", ["say <tool_box"]), (CLOSE, [])],
    "the start of a mark is text in the end": [("hello <tool", ["say hello "]), (CLOSE, ["say <tool"])],
    "no start of a mark": [("hello <tab", ["say hello <tab"]), ("le> a", ["say le> a"]), (CLOSE, [])],
    "an angle may begin a recipient": [("a>", ["say a"]), ("b", ["say >b"]), (CLOSE, [])],
    "a lone angle": [("a <", ["say a "]), (" b", ["say < b"]), (CLOSE, [])],
    "a lone angle at the end": [("a <", ["say a "]), (CLOSE, ["say <"])],
    "tags that mean nothing": [("a <b>x</b> <i", ["say a <b>x</b> "]), (">y</i> ", ["say <i>y</i> "]), (CLOSE, [])],
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
    "a bare list of Python calls waits for the end of its line": [
        ("[f(a=1)]", []),
        (".", []),
        ("\n", []),
        ("So.", ["start 0 f", 'args 0 {"a":1}', "end 0", "judge f call accepted", "say .\nSo."]),
        (CLOSE, []),
    ],
    "a bare Python call waits for the end of the answer": [
        ("f(a=1)", []),
        ("\n", []),
        ("So.", ["judge f text more_follows", "say f(a=1)\nSo."]),
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
        (CLOSE, ["note truncated_call", "judge f truncated truncated", 'say ```json\n{"name":"f","argu']),
    ],
    "a mark that is cut at its last character": [("<tool_call", []), (CLOSE, ["say <tool_call"])],
    "a mark with an attribute that is cut": [('<invoke name="f', []), (CLOSE, ['say <invoke name="f'])],
}
each_stream = check_each("name", STREAMS)


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


@check_each("text", ["", "hello", "hello <too", f"{CALL}", '<tool_call>{"name":"f","arguments":{"a":"b'])
@check_each("more", ["", "more"])
def test_a_closed_scanner_takes_nothing_more(text: str, more: str):
    reader = Scanner(TOOLS)
    reader.feed(text)
    reader.close()
    with pytest.raises(ValueError, match="the scanner is closed"):
        reader.feed(more)


def test_closing_at_once_says_nothing():
    assert Scanner().close() == []


@check_each("text", ["\ud800", "a\udc00b", f"{CALL}\ud800", "hello \ud83d\ude00"])
@pytest.mark.requirement("R-E6")
def test_halves_of_a_surrogate_pair_are_replaced_and_noted_once(text: str):
    reply = read(text + text)
    assert "\ufffd" in reply.text
    assert not any("\ud800" <= char <= "\udfff" for char in reply.text)
    assert [note.code for note in reply.notes].count("invalid_unicode") == 1
    assert reply.notes[-1].detail == "lone surrogates were replaced with U+FFFD"
