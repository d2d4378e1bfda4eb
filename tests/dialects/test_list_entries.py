"""A list of calls without marks: an entry that is not a call does not drop the others, and data is no list of calls."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import TOOLS, by_character
from toolspeak import Reply, parse

pytestmark = pytest.mark.requirement("B2", "B7")

PING, RUN = '{"name": "ping", "arguments": {}}', '{"name": "run", "arguments": {"command": "ls"}}'
BOTH = [("ping", {}), ("run", {"command": "ls"})]
#: Entries without the name of a tool.
BAD_OBJECTS = (
    '{"name": 123}',
    '{"name": null, "arguments": {}}',
    '{"name": ["ping"], "note": [{"name": "ping", "arguments": {}}]}',
    '{"foo": 1}',
    '{"foo": {"name": "ping", "arguments": {}}, "name": "ping"}',
    '{"name": "missing", "arguments": {"a": [1, {}]}}',
    '{"name": "run", "arguments": {"command": {}, "other": 1}}',
    "5",
    '"ping"',
)
LISTS = ("[{}, {}, {}]", "[{},{},{}]", '{{"tool_calls": [{}, {}, {}]}}', "```json\n[{}, {}, {}]\n```")


def _read(text: str) -> Reply:
    reply = parse(text, TOOLS)
    assert by_character(text, tools=TOOLS) == reply
    return reply


@check_each("bad", BAD_OBJECTS)
@check_each("form", LISTS)
def test_a_bad_object_does_not_drop_the_others(form: str, bad: str):
    reply = _read(form.format(PING, bad, RUN))
    assert [(call.name, call.arguments) for call in reply.calls] == BOTH
    assert not reply.text


@check_each("bad", ["missing(1)", 'missing(a=[1, "]"])', '{"name": 123}', '{"foo": 1}', "run()", "run(1, 2, 3)"])
def test_a_bad_entry_among_python_calls_does_not_drop_the_others(bad: str):
    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    tools = (TOOLS[1], TOOLS[2].__class__("run", parameters=schema))
    text = f'[ping(), {bad}, run(command="ls")]'
    reply = parse(text, tools)
    assert [(call.name, call.arguments) for call in reply.calls] == BOTH
    assert by_character(text, tools=tools) == reply


@check_each(
    "text",
    [
        '[{"name": "ping", "type": "module"}, {"name": "run", "type": "function"}]',
        f'[{PING}, {{"name": "run", "color": "red"}}]',
        '[{"id": 1, "color": "red"}, {"id": 2, "color": "blue"}]',
        '[{"name": 123}, {"name": 124}]',
        "[ping(), missing(1)] is a list.",
        "[ping(), 5, ping()]",
        "[missing(1), ping()]",
    ],
)
def test_a_list_of_other_things_is_text(text: str):
    reply = _read(text)
    assert not reply.calls
    assert reply.text == text
