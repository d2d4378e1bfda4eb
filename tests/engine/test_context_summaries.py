"""Prompts for summaries: bounded, part by part, without what must not be followed."""

from __future__ import annotations

import pytest

from toolspeak.core.types import Media, Message, TextPart, ToolCall, ToolResult
from toolspeak.engine.context.sizes import text_tokens
from toolspeak.engine.context.summaries import excerpt, fit_text, summary_prompt, take_lines, transcript

ROUND = (
    Message("user", (TextPart("Look at this."), Media("image", "data:"))),
    Message("assistant", (TextPart("I look."),), calls=(ToolCall("find", {"text": "x"}, "c"),)),
    Message("tool", results=(ToolResult("c", "found " * 2000), ToolResult("d", "no", error=True))),
)


def test_a_transcript_has_a_line_for_every_text_call_and_result():
    lines = transcript(ROUND, 1000)
    assert lines[:3] == ["user: Look at this.\n[image]", "assistant: I look.", 'call: find {"text":"x"}']
    assert lines[3].startswith("result: found found")
    assert "characters left out" in lines[3]
    assert lines[4:] == ["error: no"]
    assert transcript((), 1000) == []


@pytest.mark.requirement("F11")
def test_a_long_conversation_takes_few_prompts():
    lines = transcript(ROUND * 40, 2000)
    prompts = 0
    while lines:
        number = take_lines(lines, 2000)
        assert sum(map(text_tokens, lines[:number])) <= 2000
        lines, prompts = lines[number:], prompts + 1
    assert prompts <= 5


def test_a_line_that_is_too_long_is_taken_alone():
    assert take_lines(["a " * 100, "b"], 10) == 1
    assert take_lines(["a", "b"], 10) == 2


def test_a_prompt_goes_on_from_the_summary_before():
    (first,) = summary_prompt("", "", ["user: hi"], 400)
    (later,) = summary_prompt("user: Say hi.", "They said hi.", ["user: hi"], 10)
    assert "at most 200 words" in first.text
    assert "came before" not in first.text
    assert "The task" not in first.text
    assert "conversation:\nuser: Say hi.\n\nSummary of what" in later.text
    assert "came before:\nThey said hi.\n\nuser: hi" in later.text
    assert "at most 50 words" in later.text


def test_an_excerpt_stands_in_for_a_summary():
    assert excerpt("Before.", ["user: hi"], 100) == "Before.\nuser: hi"
    assert excerpt("", ["user: hi"], 100) == "user: hi"
    assert text_tokens(excerpt("", ["some words"] * 1000, 100)) < 150
    assert fit_text("some words", 100) == "some words"
