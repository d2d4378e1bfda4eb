"""A tool that cannot work is told to the client in its own protocol's shape, before any upstream is asked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import Parrot, Team, ask, line, run

GOOD = {"type": "object", "properties": {"a": {"type": "string"}}}
FAN = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
BAD = {"$defs": {**FAN, "d40": {}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}
ODD = {"type": "OBJECT", "properties": {"a": {"type": "txt"}, "b": {"items": [{"type": "int"}], "required": True}}}


def openai(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def anthropic(name: str, schema: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": schema}


def gemini(name: str, schema: Any) -> dict[str, Any]:
    return {"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}


SAID = {"messages": [{"role": "user", "content": "Hi"}]}
FACES: dict[str, tuple[Any, dict[str, Any]]] = {
    "/v1/chat/completions": (openai, SAID),
    "/v1/responses": (lambda name, schema: {"type": "function", "name": name, "parameters": schema}, {"input": "Hi"}),
    "/v1/messages": (anthropic, {**SAID, "max_tokens": 5}),
    "/v1beta/models/m:generateContent": (gemini, {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
    "/api/chat": (openai, SAID),
}


@pytest.mark.requirement("G3")
@check_each("path", FACES)
@check_each(
    ("schemas", "words"),
    [
        ({"good": GOOD, "bad": BAD}, ("`bad`", "too many nested alternatives")),
        ({"twin": GOOD, "twin ": {"type": "object"}}, ("two tools are named `twin`",)),
    ],
    ids=["schema", "names"],
)
def test_a_bad_tool_is_a_400_in_the_shape_of_the_protocol(path: str, schemas: dict[str, Any], words: tuple[str, ...]):
    parrot = Parrot()
    app = Team(line("one", parrot), required=False).app
    tool, fields = FACES[path]
    body = {"model": "m", **fields, "tools": [tool(name.strip(), schema) for name, schema in schemas.items()]}
    answer = run(ask(app, "POST", path, {"content-type": "application/json"}, body))
    assert answer.status == 400
    assert all(word in answer.message for word in words)
    assert parrot.asked == []


@pytest.mark.requirement("G3")
@check_each("path", FACES)
def test_a_schema_that_is_only_partly_understood_is_no_reason_to_refuse_a_request(path: str):
    parrot = Parrot()
    app = Team(line("one", parrot), required=False).app
    tool, fields = FACES[path]
    body = {"model": "m", **fields, "tools": [tool("odd", ODD)]}
    assert run(ask(app, "POST", path, {"content-type": "application/json"}, body)).status == 200
    assert parrot.asked
