"""Imported requests and answers: what is found in them by each policy, in every protocol, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import run
from tests.server.test_web_connect import Desk

pytestmark = pytest.mark.requirement("H3")

CALL = '<tool_call>{"name": "clock", "arguments": {"zone": "Europe/Oslo"}}</tool_call>'
SCHEMA = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}
CHAT = {
    "model": "m",
    "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Time?"}],
    "tools": [{"type": "function", "function": {"name": "clock", "description": "Time.", "parameters": SCHEMA}}],
}


def imported(**body: Any) -> Any:
    answer = run(Desk().ask("POST", "/toolspeak/import", body))
    assert answer.status == 200, answer.message
    return answer.json


def calls(told: Any) -> dict[str, int]:
    return {policy: view["calls"] for policy, view in told["views"].items()}


@check_each(
    ("answer", "found"),
    [
        (CALL, {"strict": 1, "standard": 1, "eager": 1}),
        ('{"name": "clock", "arguments": {"zone": "x"}}', {"strict": 0, "standard": 1, "eager": 1}),
        ('So: {"name": "clock", "arguments": {"zone": "x"}} it is', {"strict": 0, "standard": 0, "eager": 1}),
        ("I don't have access to any tools.", {"strict": 0, "standard": 0, "eager": 0}),
    ],
)
def test_each_policy_says_what_it_finds(answer: str, found: dict[str, int]):
    told = imported(request=CHAT, answer=answer)
    assert calls(told) == found
    assert told["question"] == "Time?" and told["tools"][0]["name"] == "clock"
    if not found["standard"]:
        assert told["views"]["standard"]["why_no_call"]


REPLIES = {
    "openai_chat": (
        CHAT,
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": CALL}, "finish_reason": "stop"}]},
    ),
    "openai_responses": (
        {"model": "m", "input": "Time?", "tools": [{"type": "function", "name": "clock", "parameters": SCHEMA}]},
        {
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": CALL}]}],
        },
    ),
    "anthropic": (
        {
            "model": "m",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Time?"}],
            "tools": [{"name": "clock", "input_schema": SCHEMA}],
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": CALL}],
            "stop_reason": "end_turn",
        },
    ),
    "gemini": (
        {
            "contents": [{"role": "user", "parts": [{"text": "Time?"}]}],
            "tools": [{"functionDeclarations": [{"name": "clock", "parameters": SCHEMA}]}],
        },
        {"candidates": [{"content": {"role": "model", "parts": [{"text": CALL}]}, "finishReason": "STOP"}]},
    ),
    "ollama": (
        {"model": "m", "messages": [{"role": "user", "content": "Time?"}], "tools": CHAT["tools"]},
        {"message": {"role": "assistant", "content": CALL}, "done": True, "done_reason": "stop"},
    ),
}


@check_each("protocol", list(REPLIES))
def test_a_request_and_its_reply_are_read_in_every_protocol(protocol: str):
    request, reply = REPLIES[protocol]
    told = imported(protocol=protocol, request=request, reply=json.dumps(reply))
    assert told["question"] == "Time?" and told["tools"][0]["parameters"] == SCHEMA
    assert calls(told)["standard"] == 1


def test_a_stream_is_read_as_well():
    pieces = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in (CALL[:20], CALL[20:])]
    stream = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    assert calls(imported(request=CHAT, reply=stream))["standard"] == 1


def test_an_answer_alone_counts_for_all_tools_that_it_names():
    told = imported(answer=CALL)
    assert [tool["name"] for tool in told["tools"]] == ["clock"] and calls(told)["standard"] == 1


@check_each("body", [{"protocol": "smtp"}, {"request": []}, {"request": {"messages": []}}, {"answer": 7}])
def test_what_cannot_be_read_is_refused(body: Any):
    assert run(Desk().ask("POST", "/toolspeak/import", body)).status == 400


@pytest.mark.requirement("R-T11")
def test_a_large_import_is_refused_and_a_long_answer_is_not():
    assert run(Desk().ask("POST", "/toolspeak/import", {"answer": "x" * 3_000_000})).status == 413
    assert calls(imported(request=CHAT, answer="word " * 100_000 + f"\n{CALL}"))["standard"] == 1
