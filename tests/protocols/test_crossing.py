"""Requests on their way from one protocol to another: what has a word there is said, all else is left out and told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolspeak.core.model import Request
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses

MODULES: dict[str, Any] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
USER = {"role": "user", "content": "hi"}


def responses(*items: dict[str, Any], **fields: Any) -> Request:
    return openai_responses.decode_request({"model": "m", "input": [USER, *items], **fields})


def chat(*messages: dict[str, Any], **fields: Any) -> Request:
    return openai_chat.decode_request({"model": "m", "messages": [USER, *messages], **fields})


def sent(request: Request, name: str) -> dict[str, Any]:
    return json.loads(MODULES[name].encode_request(request))


def codes(request: Request, name: str) -> list[str]:
    return [note.code for note in MODULES[name].request_notes(request)]


# ------------------------------------------------------------------------------------------------------- tools


@pytest.mark.requirement("A13", "G3")
def test_openais_search_among_files_is_not_geminis():
    theirs = responses(tools=[{"type": "file_search", "vector_store_ids": ["vs_1"]}])
    assert "tools" not in sent(theirs, "gemini")
    assert codes(theirs, "gemini") == ["tool_dropped"]
    ours = chat(tools=[{"type": "file_search", "fileSearchStoreNames": ["s"]}])
    assert sent(ours, "gemini")["tools"] == [{"fileSearch": {"fileSearchStoreNames": ["s"]}}]


# ---------------------------------------------------------------------------------------------------- messages

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "1"}


@pytest.mark.requirement("G3")
@pytest.mark.parametrize("name", ["openai_chat", "ollama"])
@pytest.mark.parametrize(
    "between",
    [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}]},
        {"type": "hologram", "beam": 1},
    ],
    ids=lambda item: item["type"],
)
def test_nothing_stands_between_a_call_and_its_result(name: str, between: dict[str, Any]):
    request = responses(CALL, between, OUTPUT)
    messages = sent(request, name)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert "opaque_dropped" in codes(request, name)
    assert sent(request, "openai_responses")["input"][1:] == [CALL, between, OUTPUT]


@pytest.mark.parametrize("name", ["openai_chat", "ollama"])
def test_what_a_user_showed_and_cannot_be_sent_leaves_an_empty_message(name: str):
    request = responses({"role": "user", "content": [{"type": "hologram"}]})
    assert sent(request, name)["messages"][1] == {"role": "user", "content": ""}
