"""Sixty scripted models, each in one turn with the client: a minimum must end right, and none may crash it.

`python bench/model_behaviours.py` prints how each of them ends.
"""

from __future__ import annotations

import pytest

from tests.behaviours import formats
from tests.behaviours.models import (
    BEHAVIOURS,
    GROUPS,
    NO_CALL,
    Answer,
    Behaviour,
    shortened_mark,
    swapped_mark,
    without_mark,
)
from tests.behaviours.runner import run
from tests.behaviours.tasks import Call
from tests.cases import check_each

# What the turns reach has tests of its own.
pytestmark = pytest.mark.no_cover

#: How many must end right, whole and streamed alike. Raise it when more do; never lower it.
MIN_RIGHT = 39
#: Answers that a turn may take: the first, and those to two retries. Requests that the server rejects do not count.
MAX_ANSWERS = 3
CALL = Call("set_timer", {"minutes": 10})


def behaviour(name: str) -> Behaviour:
    (found,) = [each for each in BEHAVIOURS if each.name == name]
    return found


def test_there_are_sixty_behaviours_and_some_need_no_call():
    assert len({each.name for each in BEHAVIOURS}) == len(BEHAVIOURS) == 60
    assert all(each.task.call is None and each.answer for each in NO_CALL)
    assert len(NO_CALL) >= 8
    assert all(each.task.call for group in GROUPS.values() if group is not NO_CALL for each in group)


@pytest.mark.requirement("A5", "B3", "E1")
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_enough_models_end_with_the_right_call_or_answer(streamed: bool):
    turns = {each.name: run(each, streamed=streamed) for each in BEHAVIOURS}
    wrong = {name: outcome.ending for name, (outcome, _) in turns.items() if not outcome.right}
    assert len(turns) - len(wrong) >= MIN_RIGHT, wrong
    answered = {
        name: [each for _, each in server.exchanges if isinstance(each, Answer)] for name, (_, server) in turns.items()
    }
    assert all(len(answers) <= MAX_ANSWERS for answers in answered.values()), answered


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("refuses until asked for JSON only", {"plan": "decision"}),
        ("writes YAML", {"plan": "decision"}),
        ("calls only natively", {"mode": "off"}),
    ],
)
def test_a_hard_model_calls_when_it_is_asked_in_its_own_way(name: str, settings: dict[str, str]):
    assert run(behaviour(name), streamed=False, **settings)[0].right


def test_a_model_that_needs_no_tool_is_not_right_with_a_call():
    pressed = run(behaviour("gives advice that was asked for"), streamed=False, tool_choice="required")[0]
    assert (pressed.right, pressed.ending) == (False, 'get_weather({"city": "Lisbon"})')


@check_each(
    ("prompt", "expected"),
    {
        "a fence": (
            'Write:\n```json action k7q2xm\n{"tool": "look", "parameters": {"at": "x"}}\n```\nThen stop.',
            '```json action k7q2xm\n{"tool": "set_timer", "parameters": {"minutes": 10}}\n```',
        ),
        "a tag": (
            '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>',
            '<tool_call>\n{"name": "set_timer", "arguments": {"minutes": 10}}\n</tool_call>',
        ),
        "a document with a list": (
            '{"nonce": "k7", "tools": [{"name": "look", "arguments": {}}, {"name": "look", "arguments": {}}]}',
            '{"nonce": "k7", "tools": [{"name": "set_timer", "arguments": {"minutes": 10}}]}',
        ),
        "the last of two examples": (
            '{"tool": "look", "args": {}}\nor\n{"action": "look", "action_input": {}}',
            '{"action": "set_timer", "action_input": {"minutes": 10}}',
        ),
        "a definition beside an example": (
            '{"tool": "look", "args": {}}\n{"name": "look", "description": "Look.", "parameters": {"type": "object"}}',
            '{"tool": "set_timer", "args": {"minutes": 10}}',
        ),
        "Python": ("Write look(at='x') to look.", "[set_timer(minutes=10)]"),
        "ReAct": ("Action: look\nAction Input: the place", formats.react(CALL)),
        "no example": ("You have the tool set_timer {with: minutes}.", None),
    }.values(),
)
def test_a_scripted_model_imitates_the_example_of_a_prompt(prompt: str, expected: str | None):
    assert formats.imitate(prompt, CALL) == expected


def test_a_scripted_model_fills_an_enforced_schema():
    choice = {"anyOf": [{"const": "look"}, {"const": "set_timer"}]}
    call = {"type": "object", "properties": {"name": choice, "arguments": {"type": "object"}}}
    schema = {"type": "object", "properties": {"tools": {"type": "array", "items": {"$ref": "#/$defs/call"}}}}
    filled = formats.fill_schema({**schema, "$defs": {"call": call}}, CALL)
    assert filled == {"tools": [{"name": "set_timer", "arguments": {"minutes": 10}}]}


@check_each(
    ("edit", "expected"),
    [
        (without_mark, '```json action\n{"tool": "look"}\n```'),
        (shortened_mark, '```json action abcde\n{"tool": "look"}\n```'),
        (swapped_mark, '```json abcdef action\n{"tool": "look"}\n```'),
    ],
)
def test_a_scripted_model_spoils_the_mark(edit: formats.Edit, expected: str):
    assert edit('```json action abcdef\n{"tool": "look"}\n```') == expected
