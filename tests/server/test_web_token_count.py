"""Pages that need no model: how many tokens a request has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import Parrot, ask, gateway, line, run
from toolspeak.server.app import App

ANTHROPIC = "/v1/messages/count_tokens"
GEMINI = "/v1beta/models/m:countTokens"
PICTURE = "QUJDRA==" * 1000


def said(content: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": content}], **fields}


def parts(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": list(parts)}], **fields}


def counted(path: str, body: Any) -> int:
    answer = run(ask(App(gateway()), "POST", path, {}, body))
    assert answer.status == 200, answer.body
    (number,) = answer.json.values()
    return number


@pytest.mark.requirement("G4")
@check_each(
    ("path", "body", "tokens"),
    [
        (ANTHROPIC, said("hello"), 1),
        (ANTHROPIC, said([{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]), 1),
        (ANTHROPIC, said("hello", system="be kind"), 3),
        (ANTHROPIC, said([{"type": "image", "source": {"type": "base64", "data": PICTURE}}]), 0),
        (ANTHROPIC, said([{"type": "document", "source": {"type": "text", "data": "hello you"}}]), 2),
        (ANTHROPIC, said([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "hello"}]), 1),
        (ANTHROPIC, {"model": "m"}, 0),
        (GEMINI, parts({"text": "hello"}), 1),
        (GEMINI, parts({"text": "hello"}, {"inlineData": {"mimeType": "image/png", "data": PICTURE}}), 1),
        (
            GEMINI,
            {"generateContentRequest": parts({"text": "hello"}, systemInstruction={"parts": [{"text": "be"}]})},
            2,
        ),
        (GEMINI, parts({"text": None}), 0),
    ],
)
def test_the_texts_of_a_request_are_counted_and_nothing_around_them(path: str, body: Any, tokens: int):
    assert counted(path, body) == tokens


@pytest.mark.requirement("G4")
@check_each(
    ("path", "body", "tool"),
    [
        (ANTHROPIC, said("hello"), {"name": "add", "description": "adds", "input_schema": {"properties": {"n": {}}}}),
        (GEMINI, parts({"text": "hello"}), {"functionDeclarations": [{"name": "add", "parameters": {"n": {}}}]}),
    ],
)
def test_tools_count_with_the_names_of_their_parameters(path: str, body: dict[str, Any], tool: Any):
    assert counted(path, {**body, "tools": [tool]}) > counted(path, body) + 3


@check_each("path", [ANTHROPIC, GEMINI])
@check_each("body", [b"", b"{", b"[]"])
def test_what_is_no_request_has_no_number(path: str, body: bytes):
    assert run(ask(App(gateway()), "POST", path, {}, body)).status == 400


@pytest.mark.requirement("R-T8")
@check_each(
    ("path", "body", "status"),
    [
        ("/api/show", {"model": "ours"}, 200),
        ("/api/show", {"name": "ours"}, 200),
        ("/api/show", {"model": "theirs"}, 404),
        ("/api/show", {"model": 5}, 404),
        ("/api/show", {}, 404),
        ("/api/show", b"{", 400),
        (ANTHROPIC, {"model": "ours"}, 200),
        (ANTHROPIC, {"model": "theirs"}, 404),
        (ANTHROPIC, {"messages": []}, 404),
    ],
)
def test_nothing_is_told_of_a_model_that_is_not_served(path: str, body: Any, status: int):
    app = App(gateway(line("one", Parrot(), models=("ours",))))
    assert run(ask(app, "POST", path, {}, body)).status == status
