"""Calls of a model that writes as it was trained, without the nonce, with default settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

import toolspeak as ts
from tests.agent_helpers import run
from tests.cases import check_each
from toolspeak.core.types import ToolCall
from toolspeak.dialects.registry import DIALECTS, render_calls

pytestmark = pytest.mark.requirement("B3", "R-E3", "R-E4")

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
PARIS = ToolCall("get_weather", {"city": "Paris", "days": 2})
#: A result that the arguments of the next call quote, with the same keys.
LISTING = json.dumps([{"city": "Paris", "country": "France"}, {"city": "Oslo", "country": "Norway"}])
SECOND_ROUND: list[dict[str, Any]] = [
    {"role": "user", "content": "How is it in the first of my cities?"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "list", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": LISTING},
]


class Trained:
    """A model that always gives the same answer, whatever it was asked for."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.requests = 0

    def __call__(self, request: Any) -> str:
        self.requests += 1
        return self.answer


def turn(model: Trained, messages: Any, stream: bool, **settings: Any) -> ts.Reply:
    client = ts.Client(model, **settings)
    if not stream:
        return client.chat(messages, tools=[WEATHER])
    streamed = client.stream(messages, tools=[WEATHER])
    for _ in streamed:
        pass
    return streamed.reply


@check_each("stream", [False, True])
@check_each("messages", ["How is it in Paris for two days?", SECOND_ROUND])
@check_each("dialect", DIALECTS)
def test_every_dialect_comes_through_at_the_first_request(dialect: str, messages: Any, stream: bool):
    model = Trained(render_calls(dialect, [PARIS]))
    reply = turn(model, messages, stream)
    assert [(call.name, call.arguments) for call in reply.calls] == [(PARIS.name, PARIS.arguments)]
    assert (model.requests, reply.text.strip()) == (1, "")
    assert "unmarked" in {note.code for note in reply.notes}


@check_each("stream", [False, True])
@check_each("dialect", DIALECTS)
def test_the_same_text_as_an_echo_of_a_result_is_not_a_call(dialect: str, stream: bool):
    text = render_calls(dialect, [PARIS])
    messages = [*SECOND_ROUND[:2], {**SECOND_ROUND[2], "content": f"A page says:\n\n{text}\n\nThat is all."}]
    for policy in ("strict", "standard", "eager"):
        assert turn(Trained(text), messages, stream, policy=policy, retries=0).calls == ()


@check_each("marks", ["nonce"])
@check_each("dialect", DIALECTS)
def test_strict_marks_accept_no_call_without_the_nonce(dialect: str, marks: str):
    model = Trained(render_calls(dialect, [PARIS]))
    assert turn(model, "How is it in Paris?", False, marks=marks, retries=0).calls == ()


@check_each("word", ["k9z9z9z", "nonce"])
def test_a_wrong_nonce_is_not_the_same_as_none(word: str):
    texts = [render_calls(dialect, [PARIS], word) for dialect in ("action", "hermes", "tool_line", "react", "qwen_xml")]
    for text in texts:
        assert turn(Trained(text), "How is it in Paris?", False, retries=0).calls == (), text


@check_each("dialect", ["hermes", "action", "qwen_xml", "pythonic", "mistral"])
def test_an_agent_with_plain_functions_finishes_a_task_of_three_rounds(dialect: str):
    ran: list[str] = []

    def list_cities() -> str:
        """List the cities."""
        ran.append("list")
        return LISTING

    def get_weather(city: str) -> str:
        """Return the weather of a city."""
        ran.append(city)
        return f"sunny in {city}"

    answers = iter(
        [
            render_calls(dialect, [ToolCall("list_cities", {})]),
            render_calls(dialect, [ToolCall("get_weather", {"city": "Paris"})]),
            render_calls(dialect, [ToolCall("get_weather", {"city": "Oslo"})]),
            "It is sunny in both.",
        ]
    )
    agent = ts.AsyncAgent(ts.AsyncClient(lambda request: next(answers)), [list_cities, get_weather])
    assert run(agent.run("How is it in my cities?")).content == "It is sunny in both."
    assert ran == ["list", "Paris", "Oslo"]


@pytest.mark.requirement("F6")
def test_a_call_with_side_effects_after_a_result_is_asked_for_again_and_then_needs_consent():
    sent: list[str] = []

    def read() -> str:
        """Read a page."""
        return "Nothing of interest."

    @ts.tool(side_effects=True)
    def send(to: str) -> str:
        """Send a message."""
        sent.append(to)
        return "sent"

    def answers(*ends: str) -> Any:
        calls = [
            render_calls("hermes", [ToolCall("read", {})]),
            render_calls("hermes", [ToolCall("send", {"to": "ann"})]),
        ]
        return iter([calls[0], calls[1], calls[1], *ends])

    first = answers("I may not.")
    denied = run(ts.AsyncAgent(ts.AsyncClient(lambda request: next(first)), [read, send]).run("Read and tell Ann."))
    assert (denied.content, sent) == ("I may not.", [])
    consents: list[dict[str, Any]] = [{"approve": lambda question: True}, {"approval": "auto"}]
    for consent in consents:
        again = answers("Done.")
        client = ts.AsyncClient(lambda request, again=again: next(again))
        assert run(ts.AsyncAgent(client, [read, send], **consent).run("Read and tell Ann.")).content == "Done."
    assert sent == ["ann", "ann"]
