"""The scanner: where a mark stands, and what code around it means."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.core.scanner_helpers import (
    CALL,
    OBJECT,
    codes,
    evidence,
    read,
    told,
    why,
)
from toolspeak import Reply, Scanner
from toolspeak.core.parsing.scanner import MAX_FENCE_LINE

# ---- where a mark stands


@pytest.mark.requirement("R-E5", "B7")
@check_each(
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


@check_each("between", ["", " ", "\n", "</tool_call>", "<|im_end|>", " </tool_call> "])
def test_a_call_behind_a_call_stands_at_the_start(between: str):
    first, second = read(CALL + between + CALL, policy="strict").candidates
    assert (first.verdict, second.verdict) == ("call", "call")
    assert second.evidence["answer_start"]


def test_a_call_behind_a_call_and_text_does_not():
    assert why(read(f"{CALL} and {CALL}", policy="strict")) == ["call accepted", "text inline"]


@pytest.mark.requirement("R-E5")
@check_each(
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
@check_each("text", [f"`{CALL}`", f"``{CALL}``", f"a `b` ``{CALL}``", f"`{OBJECT}`", f"a ` {OBJECT} `"])
def test_a_call_in_inline_code_is_text(text: str):
    reply = read(text)
    assert (reply.text, reply.calls) == (text, ())


@check_each("mark", ["<think>", "</think>", "<tool_response>", "<|end|>", "<|im_end|>", "[THINK]", "</s>"])
@check_each("around", ["`{}`", "```\n{}\n```", "~~~\n{}\n~~~\n"])
@pytest.mark.requirement("R-E5")
def test_every_mark_in_code_is_text(mark: str, around: str):
    text = around.format(mark)
    reply = read(CALL + "\n" + text)
    assert (reply.text, reply.reasoning, len(reply.calls)) == (f"\n{text}", "", 1)


# ---- fences


@pytest.mark.requirement("R-E5", "B7")
@check_each(
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
@check_each("other", ["```", "~~~", "~~~~", "```` x", "a ````", "`````\u00a0x"])
def test_a_fence_does_not_end_with_anything_else(other: str):
    text = f"````\n{other}\n{CALL}\n"
    reply = read(text)
    assert (why(reply), reply.text) == (["text in_fence"], text)


@check_each(
    "line", ["``", "~~", "```a`b", "~~~a~b", "`" * 33, "~" * 33, "```" + "x" * (MAX_FENCE_LINE + 1), "a ```", "-```"]
)
def test_a_line_that_is_no_fence_opens_none(line: str):
    reply = read(f"{line}\n{CALL}")
    assert (why(reply), reply.text) == (["call accepted"], f"{line}\n")


@pytest.mark.requirement("B10")
@check_each("open_code", ["```\n", "```js\nx\n", "```js\nx\n```", "```js\n~~~", "`", "a `b"])
def test_code_that_is_left_open_in_reasoning_does_not_reach_behind_it(open_code: str):
    reply = read(f"<think>a\n{open_code}</think>\n{CALL}")
    assert (reply.reasoning, reply.text, len(reply.calls)) == (f"a\n{open_code}", "\n", 1)


def test_an_action_fence_in_reasoning_is_a_candidate_and_no_call():
    text = f"a\n```json action\n{OBJECT}\n```\n"
    reply = read(f"<think>{text}</think>ok")
    assert (reply.reasoning, reply.text, reply.calls) == (text, "ok", ())
    assert [each.reason for each in reply.candidates] == ["reasoning"]


def test_an_action_fence_in_a_line_of_reasoning_opens_nothing():
    text = f"a ```json action\n{OBJECT}\n"
    reply = read(f"<think>{text}</think>ok")
    assert (reply.reasoning, reply.text, reply.calls) == (text, "ok", ())


@check_each(
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


@check_each("info", ["json", ""])
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
    lines = "```js\nAction: f\nAction Input: {}\n```"
    for text in (f"```js\n{OBJECT}\n```", f"a ` {OBJECT}", f"~~~js\n[{OBJECT}]\n", lines):
        assert read(text) == Reply(text=text)
    assert read(f"<think>{lines[6:-3]}</think>").candidates == ()


@check_each("open_fence", [f"```json action\n{OBJECT}\nmore\n", f"~~~~json action\n{OBJECT}\nmore\n"])
def test_a_fence_that_goes_on_behind_its_call_is_closed_by_its_marks(open_fence: str):
    marks = open_fence.partition("json")[0]
    reply = read(f"{open_fence}{CALL}\n{marks}\n{CALL}")
    assert why(reply) == ["call accepted", "text in_fence", "call accepted"]
    assert reply.text == f"\nmore\n{CALL}\n{marks}\n"


def test_a_fence_that_goes_on_behind_its_call_ends_where_the_next_one_opens():
    action = f"```json action\n{OBJECT}\n"
    reply = read(f"{action}more\n{action}more\n```js\n{CALL}\n```\n{CALL}")
    assert why(reply) == ["call accepted", "call accepted", "text in_fence", "call accepted"]


def test_the_fence_behind_one_that_went_on_and_was_closed_ends_with_its_marks_only():
    action = f"```json action\n{OBJECT}\n"
    reply = read(f"{action}more\n```\n```js\n{action}```\n{CALL}")
    assert why(reply) == ["call accepted", "call accepted"]
    assert reply.text == f"\nmore\n```\n```js\n{action}```\n"


def test_a_fence_in_the_middle_of_a_line_is_not_waited_for_for_ever():
    line = "a ```" + "x" * MAX_FENCE_LINE
    assert told(Scanner().feed(line[:-1])) == ["say a "]
    assert told(Scanner().feed(line)) == [f"say {line}"]


def test_a_fence_without_a_call_does_not_end_where_the_next_one_opens():
    text = f"```js\n```json action\n{OBJECT}\n```js\n{CALL}\n"
    assert read(text).text == text


@pytest.mark.requirement("B7", "B10")
def test_thinking_in_the_middle_of_a_line_is_text_and_no_place_for_calls():
    text = f"a <think>b {CALL} {OBJECT} c</think> "
    reply = read(text + CALL)
    assert (why(reply), reply.text, reply.reasoning) == (["reasoning reasoning", "call accepted"], text, "")
    assert codes(reply) == []
