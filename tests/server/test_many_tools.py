"""Requests with far more tools than a prompt has room for, with default settings, through the proxy and the library."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.server.asgi_client import ask, run
from tests.server.live_proxy import between, cut_text
from tests.server.protocol_clients import Chat
from toolspeak.config import load
from toolspeak.core.events import Event, Finish, TextDelta, UsageSeen
from toolspeak.core.types import Request, ToolCall, Usage
from toolspeak.dialects.registry import render_calls
from toolspeak.engine.planning.strategy import Settings

QUESTION = "Kindly do what we talked about."
WANTED = "book_17"
USAGE = Usage(100, 10)


def declaration(name: str, number: int) -> dict[str, Any]:
    table = {f"field_{at}_of_{number}": {"type": "string", "description": "One of the fields."} for at in range(9)}
    schema = {"type": "object", "properties": table, "required": [f"field_0_of_{number}"]}
    return {"type": "function", "function": {"name": name, "description": "Does one thing.", "parameters": schema}}


#: The wanted tool comes last, and shares no word with the question.
TOOLS = [*(declaration(f"tool_{number}", number) for number in range(299)), declaration(WANTED, 4711)]
CALL = (WANTED, {"field_0_of_4711": "x"})


class Searching:
    """A model that knows which tool it wants, and calls it in the format of its training once it knows its fields."""

    def __init__(self, dialect: str = "hermes") -> None:
        self.asked: list[Request] = []
        self._dialect = dialect

    def text(self, request: Request) -> str:
        self.asked.append(request)
        prompt = request.messages[0].text
        field = re.search(rf'(?:- |"){WANTED}\b[^-]*?(field_0_of_\d+)', prompt)
        if field is not None:
            call = ToolCall(WANTED, {field.group(1): "x"})
        else:
            assert re.search(rf"by name only: .*\b{WANTED}\b", prompt)
            call = ToolCall("describe_tools", {"names": [WANTED]})
        return render_calls(self._dialect, [call])

    def __call__(self, request: Request) -> list[Event]:
        return [*map(TextDelta, cut_text(self.text(request), 7)), UsageSeen(USAGE), Finish("stop")]


@check_each("stream", [False, True])
@check_each("plan", ["", "decision", "envelope"])
@pytest.mark.requirement("C9", "A9")
def test_the_right_one_of_300_tools_is_found_through_the_proxy(plan: Any, stream: bool):
    async def talk() -> None:
        model, speaker = Searching(plan or "hermes"), Chat()
        body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "tools": TOOLS, "stream": stream}
        if stream:
            body["stream_options"] = {"include_usage": True}
        async with between(model, "openai_chat", Settings(plan=plan)) as (app, server):
            answer = await ask(app, "POST", speaker.path(stream), {}, body)
        seen = speaker.read(answer.body, stream)
        assert [(name, given) for _, name, given in seen.calls] == [CALL]
        assert b"describe_tools" not in answer.body and not seen.text
        assert len(server.heard) == 2
        assert b'"prompt_tokens":200' in answer.body.replace(b" ", b"")
        record = json.loads(answer.header("x-toolspeak")) if not stream else {}
        assert stream or record["requests"] == 2

    run(talk())


@check_each("stream", [False, True])
@pytest.mark.requirement("C9", "A9")
def test_the_right_one_of_300_tools_is_found_by_the_library(stream: bool):
    model = Searching()
    client = ts.Client(ts.Scripted(model.text, again=True), config=load({}, env={}))
    if stream:
        events = client.stream(QUESTION, tools=TOOLS)
        assert not [event for event in events if "describe_tools" in getattr(event, "name", "")]
        reply = events.reply
    else:
        reply = client.chat(QUESTION, tools=TOOLS)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [CALL]
    assert (reply.text, reply.requests, reply.usage.input_tokens) == ("", 2, 20)
    assert {"tools_only_named", "tools_described"} <= {note.code for note in reply.notes}
    assert [len(request.messages) for request in model.asked] == [2, 4]


@pytest.mark.requirement("C9")
def test_a_tool_that_was_used_needs_no_question_in_the_next_round():
    model = Searching()
    client = ts.Client(ts.Scripted(model.text, again=True), config=load({}, env={}))
    first = client.chat(QUESTION, tools=TOOLS)
    arguments = json.dumps(first.tool_calls[0].arguments)
    function = {"name": WANTED, "arguments": arguments}
    history = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "a", "content": "Done."},
        {"role": "user", "content": "Once more."},
    ]
    assert [call.name for call in client.chat(history, tools=TOOLS).tool_calls] == [WANTED]
    assert len(model.asked) == 3
