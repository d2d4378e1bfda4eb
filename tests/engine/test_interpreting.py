"""The interpreter's prompt: the answer is quoted data behind an instruction that never changes."""

from __future__ import annotations

from tests.cases import check_each
from toolspeak.engine.prompting.interpreting import MAX_ANSWER, interpreting_messages


def text_of(answer: str) -> str:
    (message,) = interpreting_messages(answer)
    assert message.role == "user"
    return message.text


@check_each("answer", ["I'll call f.", "{'a': 1\n}", "\n\n> quoted\nx", "```json\n{}\n```", ""])
def test_every_line_of_the_answer_is_quoted_as_it_is(answer: str):
    lines = text_of(answer).partition("\n\n")[2].splitlines()
    assert [line.removeprefix("> ") for line in lines] == answer.splitlines()
    assert all(line.startswith("> ") for line in lines)


def test_what_comes_before_the_answer_is_the_same_for_all_answers():
    one, other = text_of("a"), text_of("b")
    assert one[:-1] == other[:-1]
    assert one.endswith("\n\n> a")


def test_a_long_answer_loses_its_middle():
    told = text_of(f"begin {'x' * 2 * MAX_ANSWER} end")
    assert len(told) < MAX_ANSWER + 500
    assert "begin" in told and told.endswith("end")
