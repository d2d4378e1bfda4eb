"""What a conversation tells of tools without a look at its words."""

from __future__ import annotations

import pytest

from toolspeak.core.types import Message, TextPart, Tool, ToolCall, ToolResult
from toolspeak.dialects.registry import render_calls
from toolspeak.engine.prompting.tool_use_detection import has_tool_history, tools_of_history
from toolspeak.parsing import parse

ASK = Message("user", (TextPart("Weather in Rome?"),))
ANSWER = Message("assistant", (TextPart("Sunny."),))
CALL = Message("assistant", calls=(ToolCall("get_weather", {"city": "Rome"}, "1"),))
RESULT = Message("tool", results=(ToolResult("1", "sunny"),))


@pytest.mark.requirement("C3")
def test_tool_history_is_noticed():
    assert not has_tool_history((Message("system", (TextPart("Be brief."),)), ASK, ANSWER))
    for message in (CALL, RESULT, Message("tool"), Message("user", results=(ToolResult("1", "x"),))):
        assert has_tool_history((ASK, message))


@pytest.mark.requirement("C3")
def test_tools_are_recovered_from_the_calls_that_were_made():
    calls = (
        ToolCall("ping", {"host": "a"}),
        ToolCall("save", {"path": "b"}),
        ToolCall("ping", {"count": 2}),
        ToolCall("", {}),
    )
    turn = Message("assistant", calls=calls)
    assert tools_of_history((ASK, turn)) == (
        Tool("ping", parameters={"type": "object", "properties": {"host": {}, "count": {}}}),
        Tool("save", parameters={"type": "object", "properties": {"path": {}}}),
    )
    text = render_calls("hermes", [ToolCall("ping", {"host": 1, "other": []})])
    assert len(parse(text, tools_of_history((turn,))).calls) == 1
