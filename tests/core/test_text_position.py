"""Where examples stand, and where calls do that look like them."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.core.chunking import cut
from tests.core.scanner_helpers import CALL, OBJECT, TOOLS, codes, read, scan, why
from toolspeak import Scanner, TextDelta, fold, parse
from toolspeak.core.parsing.text_position import MAX_COMMENT
from toolspeak.dialects.call_block import MAX_UNKNOWN
from toolspeak.errors import UsageError

EXAMPLES = {
    "double quotes": (f'Write "{CALL}" to call it.', "quotes"),
    "single quotes": (f"Write '{CALL}' to call it.", "quotes"),
    "typographic quotes": (f"Write “{CALL}” to call it.", "quotes"),
    "quotes at the end": (f'To call it, write "{CALL}".', "quotes"),
    "quotes in brackets": (f'Write it ("{CALL}").', "quotes"),
    "quotes at the start of a line": (f'So:\n"{CALL}" is how.', "quotes"),
    "a quoted line": (f"> {CALL}\n\nAs it says.", "quoted_line"),
    "a bare object in a quoted line": (f"> {OBJECT}\n", "quoted_line"),
    "a prompt": (f">>> {CALL}\n", "quoted_line"),
    "a row of a table": (f"| form | meaning |\n|---|---|\n| {CALL} | a call |\n", "table"),
    "an indented row": (f"  | {CALL} |\n", "table"),
    "a comment": (f"<!-- {CALL} -->\nHello.", "comment"),
    "a comment of several lines": (f"<!--\n{CALL}\n-->\nHello.", "comment"),
    "a comment that is not closed": (f"<!-- so {CALL}", "comment"),
    "an element of examples": (f"For instance:\n<example>\n{CALL}\n</example>", "element"),
    "a bare object in an element of examples": (f"For instance:\n<example>\n{OBJECT}\n</example>", "element"),
    "an element in one line": (f"<examples>{CALL}</examples>\nHello.", "element"),
    "an element with attributes": (f'So:\n  <sample id="1">\n{CALL}\n</sample>\n', "element"),
    "an element that is not closed": (f"So:\n<example>\n{CALL}", "element"),
    "an element behind another": (f"<example>\nso\n</example>\n<example>\n{CALL}\n</example>", "element"),
    "an element behind a comment in it": (f"<example>\n<!-- so -->\n{CALL}\n</example>", "element"),
    "a comment with an element in it": (f"<!--\n<example>so</example>\n{CALL}\n-->", "comment"),
}


@pytest.mark.requirement("B7")
@check_each("name", EXAMPLES)
def test_a_call_that_is_shown_is_no_call(name: str):
    text, example = EXAMPLES[name]
    reply = read(text)
    assert reply.calls == ()
    assert reply.text == text
    assert [each.reason for each in reply.candidates] == ["example"]
    assert reply.candidates[0].evidence["example"] == example


@pytest.mark.requirement("B7")
@check_each("name", EXAMPLES)
def test_a_call_that_is_shown_in_chunks_is_no_call(name: str):
    text = EXAMPLES[name][0]
    call = text.index(OBJECT)
    for places in ([2, call], [4, call - 12], [3, call - 11], [2, 5, call - 11]):
        assert fold(scan(cut(text, places))) == read(text)


@pytest.mark.requirement("B7")
@check_each("name", EXAMPLES)
def test_the_eager_policy_takes_it_for_a_call(name: str):
    assert len(read(EXAMPLES[name][0], policy="eager").calls) == 1


CALLS = {
    "behind a closing quote": f'He said "go"{CALL}',
    "behind an apostrophe": f"the hikers'{CALL}",
    "in quotes that are the whole answer": f'"{CALL}"',
    "below a quoted line": f"> as it says\n{CALL}",
    "below a table": f"| a |\n|---|\n| b |\n{CALL}",
    "behind a comment": f"<!-- a -- b -->{CALL}",
    "behind an empty comment": f"<!---->{CALL}",
    "behind a declaration": f"<!DOCTYPE html>{CALL}",
    "behind a comment in code": f"`<!--` begins one.\n{CALL}",
    "behind a comment in a fence": f"```\n<!-- \n```\n{CALL}",
    "behind a comment in the thinking": f"<think><!-- </think>{CALL}",
    "far behind a comment that was not closed": "<!-- " + "so " * (MAX_COMMENT // 3) + CALL,
    "behind an element of examples": f"<example>\nso\n</example>\n{CALL}",
    "behind the end of an element in its line": f"<example>\nso </example> {CALL}",
    "behind an element that is empty": f"<example/>\n{CALL}",
    "behind the mention of an element": f"As the <example> says:\n{CALL}",
    "behind an element in code": f"`<example>` begins one.\n{CALL}",
    "behind an element in a fence": f"```\n<example>\n```\n{CALL}",
    "behind an element in the thinking": f"<think><example></think>{CALL}",
    "far behind an element that was not closed": "<example>" + "so " * (MAX_COMMENT // 3) + CALL,
    "in an element of another name": f"<answer>\n{CALL}\n</answer>",
    "behind an arrow": f"so -> {CALL}",
    "behind a bar": f"a | {CALL}",
}


@pytest.mark.requirement("B7")
@check_each("text", CALLS.values(), ids=[name.replace(" ", "-") for name in CALLS])
def test_a_call_near_an_example_is_a_call(text: str):
    assert len(read(text).calls) == 1


@pytest.mark.requirement("B7")
def test_a_tool_that_is_called_like_an_example_is_called():
    text = "So:\n<example>\n<path>a</path>\n</example>"
    tool = {"name": "example", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
    assert [call.name for call in parse(text, [tool]).calls] == ["example"]


INDENTED = {
    "text follows": (f"For example:\n\n    {CALL}\n\nThat is it.", 0),
    "a tab": (f"For example:\n\n\t{CALL}\n\nThat is it.", 0),
    "a bare object": (f"For example:\n\n    {OBJECT}\n\nThat is it.", 0),
    "a line of spaces above": (f"For example:\n \n    {CALL}\n\nThat is it.", 0),
    "line breaks of Windows": (f"For example:\r\n\r\n    {CALL}\r\n\r\nThat is it.", 0),
    "two of them": (f"For example:\n\n    {CALL}\n\n    {CALL}\n\nThat is it.", 0),
    "the answer ends": (f"I look:\n\n    {CALL}\n", 1),
    "both end the answer": (f"I look:\n\n    {CALL}\n    {CALL}\n", 2),
    "no empty line above": (f"1. I look:\n    {CALL}\nThen I wait.", 1),
    "three columns": (f"I look:\n\n   {CALL}\nThen I wait.", 1),
    "the start of the answer": (f"\n\n    {CALL}\nThen I wait.", 1),
    "behind a call": (f"{CALL}\n\n    {CALL}\nThen I wait.", 2),
}


@pytest.mark.requirement("B7")
@check_each("name", INDENTED)
def test_indented_code_is_a_call_only_where_the_answer_ends(name: str):
    text, calls = INDENTED[name]
    assert len(read(text).calls) == calls


def test_indented_code_is_text_under_the_strict_policy():
    assert why(read(f"I look:\n\n    {CALL}", policy="strict")) == ["text example"]


@pytest.mark.requirement("B7")
@check_each("body", ["<parameter=content>a</parameter>", '{"content": "a"}'])
def test_a_call_in_tags_is_held_in_indented_code_too(body: str):
    text = f"So:\n\n    <function=write_file>{body}</function>"
    assert len(read(text).calls) == 1
    assert read(text + "\nand so on").calls == ()


MENTIONS = [
    "Use <write_file> to write a file. Then go on.\n",
    "<write_file> writes a file. </write_file> ends it.\n",
    "<write_file> writes a file, and then",
]


@pytest.mark.requirement("B7")
@check_each("text", MENTIONS)
def test_a_sentence_behind_a_tag_makes_it_a_mention(text: str):
    reply = read(text)
    assert reply.calls == ()
    assert reply.text == text
    assert reply.complete


@pytest.mark.requirement("B8")
def test_a_sentence_behind_a_tag_in_a_line_is_not_held_back():
    assert [event for event in Scanner(TOOLS).feed("Use <write_file> to") if isinstance(event, TextDelta)]


# ---- unknown names


def _unknown(size: int, inside: str = "") -> str:
    return '<tool_call>{"name":"nobody","arguments":{"x":"' + "a " * (size // 2) + inside + '"}}</tool_call>'


@pytest.mark.requirement("B8")
def test_no_more_than_so_much_of_a_call_of_an_unknown_tool_is_held_back():
    text = _unknown(4 * MAX_UNKNOWN)
    scanner = Scanner(TOOLS)
    said = 0
    for at, char in enumerate(text):
        said += sum(len(event.text) for event in scanner.feed(char) if isinstance(event, TextDelta))
        assert at - said <= MAX_UNKNOWN + 64
    assert read(text).text == text


@pytest.mark.requirement("B7")
@pytest.mark.parametrize("size", [100, MAX_UNKNOWN - 20, MAX_UNKNOWN, 3 * MAX_UNKNOWN])
def test_what_stands_in_the_arguments_of_an_unknown_tool_is_no_call(size: int):
    quoted = CALL.replace('"', '\\"').replace("</tool_call>", "")
    text = _unknown(size, quoted)
    assert read(text).calls == ()
    assert len(read(text + CALL).calls) == 1


@pytest.mark.requirement("B7")
def test_a_known_call_behind_an_unknown_one_in_the_same_block_counts_unless_it_is_far_away():
    def both(size: int) -> str:
        return f'<tool_call>[{{"name":"nobody","arguments":{{"x":"{"a" * size}"}}}},{OBJECT}]</tool_call>'

    assert len(read(both(100)).calls) == 1
    assert read(both(MAX_UNKNOWN)).calls == ()


@pytest.mark.requirement("B7")
def test_an_unknown_call_behind_a_known_one_is_text_when_it_is_long():
    text = (
        f'<tool_call>[{OBJECT},{{"name":"nobody","arguments":{{"x":"{"a" * MAX_UNKNOWN}{OBJECT}"}}}}]</tool_call>{CALL}'
    )
    assert len(read(text).calls) == 2


@pytest.mark.requirement("B7")
@check_each(
    "text",
    [
        "[TOOL_CALLS]nobody[ARGS]" + '{"x": "' + "a" * 2 * MAX_UNKNOWN + '"}',
        "<tool_call><function=nobody><parameter=x>" + "a" * 2 * MAX_UNKNOWN + "</parameter></function></tool_call>",
    ],
)
def test_a_long_call_of_an_unknown_tool_is_text_in_every_grammar(text: str):
    reply = fold(scan([text]))
    assert reply.text == text
    assert fold(scan([text[at : at + 7] for at in range(0, len(text), 7)])) == reply


# ---- the end


@pytest.mark.requirement("B6")
@check_each(
    "text",
    [
        '{"tool": "write_file", "args": {"content": "a',
        '[write_file(content="a',
        'write_file(content="a',
        '```json\n{"name": "write_file", "arguments": {',
        '{"tools": [{"name": "write_file", "arguments": {',
    ],
)
def test_a_bare_call_that_is_cut_is_not_complete(text: str):
    reply = read(text)
    assert reply.calls == ()
    assert not reply.complete
    assert "truncated_call" in codes(reply)


@pytest.mark.requirement("B6")
def test_without_tools_an_object_that_is_cut_is_a_call_only_with_arguments():
    assert not read('{"name": "x", "arguments": {"a": 1', tools=None).complete
    assert read('{"name": "Ada", ', tools=None).complete


def test_a_chunk_is_a_text():
    with pytest.raises(UsageError, match="a chunk must be a text"):
        Scanner().feed(b"x")  # type: ignore[arg-type]


NOBODY = '{"name":"nobody","arguments":{}}'
LONG = "a" * 2 * MAX_UNKNOWN


@pytest.mark.requirement("B7")
@check_each(
    ("text", "calls"),
    [
        (f"<tool_call>{NOBODY}</tool_call>{LONG}{CALL}", 1),
        (f"<tool_call>[{NOBODY},{OBJECT}]</tool_call>{LONG}", 1),
        (f"<tool_call>[{NOBODY},{OBJECT}{' ' * len(LONG)}]</tool_call>", 1),
        (f'<tool_call>[{NOBODY},{{"name":"write_file","arguments":{{"content":"{LONG}"}}}}]</tool_call>', 1),
        (f"<tool_call>[{NOBODY},{NOBODY},{OBJECT}]</tool_call>{LONG}", 1),
        (f"<tool_call>{OBJECT}}}}}</tool_call>", 1),
    ],
    ids=["closed", "known behind it", "spaces behind the known", "a long known one", "two unknown", "two closers"],
)
def test_what_follows_an_unknown_call_is_read_however_long_it_is(text: str, calls: int):
    reply = fold(scan([text]))
    assert len(reply.calls) == calls
    assert fold(scan([text[at : at + 5] for at in range(0, len(text), 5)])) == reply
    assert fold(scan([text[at : at + 1000] for at in range(0, len(text), 1000)])) == reply


@pytest.mark.requirement("B7", "B8")
@check_each(
    "text",
    [
        "So:\n<tool_call>\n\n    ✿FUNCTION✿: f\n✿ARGS✿: {}\nis how.",
        f"So:\n\f| {CALL}",
        f"So:\n\n    this! <|content_text|>{CALL} is how.",
    ],
)
def test_a_call_is_shown_however_what_stands_before_it_came(text: str):
    """White space that a block took with it, or that begins a line, says the same in every chunk."""
    reply = read(text)
    assert (reply.text, reply.calls) == (text.replace("<|content_text|>", ""), ())


@pytest.mark.requirement("B8")
def test_ticks_that_are_held_behind_a_call_count_once():
    text = f"So {OBJECT}`> {CALL}"
    reply = read(text)
    assert (reply.text, reply.calls) == (text, ())
    assert reply.candidates[1].evidence["in_code"] is True


@pytest.mark.requirement("B8")
def test_white_space_behind_a_call_that_ends_with_its_line_is_text():
    reply = read("[f()]  \nDone.")
    assert (reply.text, len(reply.calls)) == ("  \nDone.", 1)
