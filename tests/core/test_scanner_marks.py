"""The scanner: marks of other kinds, invented results, calls that must end the answer, and limits."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.core.scanner_helpers import (
    CALL,
    FENCED,
    OBJECT,
    TOOLS,
    codes,
    evidence,
    read,
    told,
    why,
)
from toolspeak import Reply, Scanner, Tool, parse
from toolspeak.core.parsing import context
from toolspeak.core.parsing import mark_search as module
from toolspeak.core.parsing.dialect_interface import NONE
from toolspeak.core.parsing.mark_search import MAX_REJECTED
from toolspeak.core.parsing.scanner import MAX_FENCE_LINE
from toolspeak.core.parsing.text_position import MAX_TAIL

# ---- other marks


def test_a_final_answer_ends_the_search_for_actions():
    text = "Final Answer: 4\nAction: f\nAction Input: {}\n"
    reply = read(text)
    assert (reply.text, reply.calls) == (text, ())


def test_a_call_may_stand_right_behind_the_words_of_a_final_answer():
    reply = read(f"a\nFinal Answer:{CALL}")
    assert (reply.text, len(reply.calls)) == ("a\nFinal Answer:", 1)


@check_each("closer", ["</tool_call>", "</invoke>", "</f>"])
def test_a_stray_closer_is_dropped_only_behind_a_call(closer: str):
    assert read(f"a{closer}b").text == f"a{closer}b"
    assert read(f"{closer}b").text == f"{closer}b"
    assert read(f"{CALL}\n{closer} b").text == "\n b"
    assert read(f"{CALL} a{closer}b").text == f" a{closer}b"


@check_each("noise", ["<|START_RESPONSE|>", "]<]minimax[>[", "<|open|>x<|sep|>", "<|close|>x<|sep|>"])
def test_marks_of_the_transport_are_dropped(noise: str):
    assert read(f"a {noise}b{noise} c").text == "a b c"


def test_what_stands_before_a_dropped_mark_decides_whether_a_line_begins():
    assert evidence(f"a<|eot|>{CALL}")["line_start"] is False
    assert evidence(f"a <|eot|>{CALL}")["line_start"] is True
    assert evidence(f"<|eot|>{CALL}")["line_start"] is True


@check_each(
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
@check_each(
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


@check_each(
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


def test_a_token_that_ends_the_turn_behind_a_call_in_unclosed_thinking_is_dropped():
    call = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
    reply = parse(f"<think>I look.\n{call}<|im_end|>", [Tool("ping")])
    assert [each.name for each in reply.calls] == ["ping"]


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


@check_each(
    ("tag", "body"),
    [('<tool_call name="f">', "{}"), ('<tool_call id="1">', OBJECT), ('<function_call name="f">', "{}")],
)
def test_a_tag_may_name_the_call_in_an_attribute(tag: str, body: str):
    reply = read(f"a {tag}{body}</{tag[1:].split(maxsplit=1)[0]}> b")
    assert (reply.text, [(call.name, call.arguments) for call in reply.calls]) == ("a  b", [("f", {})])


@check_each("text", ["<|open|>", "<|open|>" + "x" * 300, "<invoke", "<invoke <b", '<tool_call "', "<invoke name='f"])
def test_a_tag_that_is_none_is_text(text: str):
    reply = read(f"{text}\n{CALL}")
    assert reply.text.startswith(text)
    assert [call.name for call in reply.calls] == ["f"] * len(reply.calls)
    assert read(text) == Reply(text=text)


@check_each("text", ["[TOOL_CALLS]", "[TOOL_CALLS", "[THINKING] a", "[", "]", "{", "[[", '["a"]', "]<]mini", "[f"])
def test_a_bracket_that_is_no_mark_is_text(text: str):
    assert read(text) == Reply(text=text)
    assert read(f"a {text} b").text == f"a {text} b"


@check_each("text", [f"[{OBJECT}]", f"a\n[{OBJECT}]", "[f()]", f"a [{OBJECT}]", f"  {OBJECT}"])
def test_a_bracket_may_begin_a_bare_call(text: str):
    assert [call.name for call in read(text).calls] == ["f"]


@check_each("before", ["a>", "a >>", "a]", "<b>", "x\n]", "a <", "<<"])
def test_a_bracket_that_is_no_mark_hides_none(before: str):
    reply = read(before + CALL)
    assert (reply.text, len(reply.calls)) == (before, 1)


@check_each("before", ["a", "a`", "x=", "(", "<b>"])
def test_a_bracket_inside_a_word_begins_nothing(before: str):
    text = f"x {before}{OBJECT}"
    assert read(text) == Reply(text=text)


def test_a_bare_call_in_reasoning_is_not_even_looked_at():
    assert read(f"<think>{OBJECT}</think>").candidates == ()


# ---- invented results


@pytest.mark.requirement("B9")
@check_each(
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
@check_each("tail", ["", "\n", "  \n\n", ".", " .\n", "\n\n.", ". .", "!?;:,)]}*_`~\"'", ".`"])
def test_nothing_but_space_and_punctuation_may_follow_a_weak_call(tail: str):
    reply = read(FENCED + tail)
    assert why(reply) == ["call accepted"]
    assert reply.text == ("" if not tail.strip() else tail)


@pytest.mark.requirement("B7")
@check_each("tail", ["a", "\n\nDone.", ". x", "\n- a", "<b>", "1", "-", "é", "{", "\n```\nx\n```"])
def test_anything_else_makes_it_text(tail: str):
    reply = read(FENCED + tail)
    assert (why(reply), reply.text) == (["text more_follows"], FENCED + tail)


@check_each("between", ["\n", "\n\n", ".\n"])
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
@check_each(
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
@check_each(
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


@pytest.mark.requirement("B7")
def test_a_call_in_a_comment_is_shown_not_made():
    assert read(f"<!-- {CALL} -->").calls == ()
    assert len(read(f"<!-- so --> {CALL}").calls) == 1


def test_a_mark_that_is_missing_behind_a_call_is_noted():
    assert [note.code for note in read(f"<tool_call>{OBJECT}").notes] == ["missing_close_tag"]
    assert codes(read(f"<tool_call>{OBJECT} a {CALL}")) == ["missing_close_tag"]


@check_each(
    ("text", "notes"),
    [
        ("a<|im_end|>", [("end_token", "an end-of-turn token was removed from the end of the text")]),
        (f"<tool_call>{OBJECT}", [("missing_close_tag", "`</tool_call>` is missing")]),
        (
            f"<tool_call>{OBJECT} a</tool_call>",
            [("text_in_block", "there was text between a call and its closing mark")],
        ),
        ("<think>a", [("reasoning_unclosed", "")]),
        ("a</think>b</think>c", [("reasoning_unopened", "")]),
    ],
)
def test_what_was_done_to_the_text_is_told_once_in_a_sentence(text: str, notes: list[tuple[str, str]]):
    assert [(note.code, note.detail) for note in read(text).notes] == notes


# ---- limits


def test_the_limits_are_what_the_documents_say():
    assert (MAX_FENCE_LINE, MAX_REJECTED, MAX_TAIL, NONE) == (120, 2000, 4096, -2)
    assert context.MAX_CALLS == 2048


GIVEN_UP = ["<tool_call>?</tool_call>", '<tool_call>{"name":"x"}</tool_call>', "<invoke <b>", "```json action\n?\n```"]


@pytest.mark.requirement("R-T12")
@pytest.mark.parametrize("unit", GIVEN_UP)
@pytest.mark.parametrize(
    "text", [CALL, f"{FENCED}\n", OBJECT, f"```json action\n{OBJECT}\n```\n", "Action: f\nAction Input: {}\n"]
)
def test_after_so_many_candidates_that_were_none_the_text_is_not_about_calls(
    unit: str, text: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MAX_REJECTED", 3)
    few, many = read(f"{unit}\n{unit}\n{text}"), read(f"{unit}\n{unit}\n{unit}\n{text}")
    assert (len(few.calls), few.text.rstrip()) == (1, f"{unit}\n{unit}")
    assert (many.calls, many.text) == ((), f"{unit}\n{unit}\n{unit}\n{text}")
    assert [note.detail for note in many.notes if note.code == "too_many_calls"] == [
        "gave up looking for calls after 3 rejected candidates"
    ]


@pytest.mark.requirement("R-T12")
def test_reasoning_is_still_separated_when_calls_are_no_longer_looked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_REJECTED", 1)
    reply = read("<tool_call>x</tool_call>\n<think>a</think><s>b</tool_call>")
    assert (reply.text, reply.reasoning) == ("<tool_call>x</tool_call>\n<s>b</tool_call>", "a")


@pytest.mark.requirement("R-T12")
def test_behind_very_many_calls_no_more_are_looked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(context, "MAX_CALLS", 3)
    reply = read(CALL * 5)
    assert (len(reply.calls), reply.text, codes(reply)) == (3, CALL * 2, ["too_many_calls"])
    assert reply.notes[0].detail == "gave up looking for calls after 3 calls"


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


@check_each("before", ["a ", f"{FENCED} "])
@check_each(
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
@check_each(
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
