"""What a recorded request is about: the question, or the results that it returns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from toolspeak.server.recording.headlines import NO_HEADLINE, headline

pytestmark = pytest.mark.requirement("H3")

CALL = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
USER = {"role": "user", "content": "What\n time is  it?"}
ROUND = [USER, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "noon"}]
ANTHROPIC_ROUND = [
    USER,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "clock", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "noon"}]},
]


def about(messages: list[Any], protocol: str = "openai_chat", secrets: tuple[str, ...] = (), **fields: Any) -> Any:
    body = {"model": "m", "max_tokens": 9, "messages": messages, **fields}
    return headline(protocol, json.dumps(body).encode(), {}, secrets)


@check_each(
    ("messages", "protocol", "question", "results"),
    [
        ([USER], "openai_chat", "What time is it?", []),
        (ROUND, "openai_chat", "What time is it?", ["clock"]),
        (ANTHROPIC_ROUND, "anthropic", "What time is it?", ["clock"]),
        ([*ROUND, {"role": "user", "content": "And now?"}], "openai_chat", "And now?", []),
        ([{"role": "system", "content": "Be brief."}], "openai_chat", "", []),
    ],
)
def test_a_request_asks_a_question_or_returns_results(
    messages: list[Any], protocol: str, question: str, results: list[str]
):
    found = about(messages, protocol)
    assert (found.question, list(found.results)) == (question, results)


def test_the_requests_of_a_conversation_begin_with_the_same_question_and_grow():
    first, second, other = about([USER]), about(ROUND), about([{"role": "user", "content": "Hello"}])
    assert first.conversation == second.conversation != other.conversation
    assert first.messages < second.messages


def test_half_a_key_is_not_shown_where_the_question_is_cut():
    key = "sk-" + "canary" * 9
    text = "a " * 30 + key
    found = about([{"role": "user", "content": text}], secrets=(key,))
    assert len(found.question) <= 80
    assert "canary" not in found.question + found.text


@pytest.mark.parametrize("body", [b"", b"no json", b'{"messages": 7}'])
def test_a_body_that_cannot_be_read_has_no_headline(body: bytes):
    assert headline("openai_chat", body, {}, ()) == NO_HEADLINE
