"""What real clients send finds its way: the route is there, the request is understood and goes upstream."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import Answer, Parrot, ask, gateway, line, run
from tests.server.test_fast_exchange import Proxy
from toolspeak.core.types import Request
from toolspeak.engine.planning.strategy import Settings
from toolspeak.server.app import App
from toolspeak.server.proxy.client_protocols import client_protocol
from toolspeak.server.routes import find_route

REQUESTS = Path(__file__).parents[3] / "shared" / "clients" / "requests.jsonl"
#: Somebody looked whether anything is there at all.
_NOWHERE = "/x"
#: A model that must call a tool and does not is no fault of the request.
_NO_CALL = 502

pytestmark = pytest.mark.requirement("G4")


def _sent(sent: dict[str, Any]) -> tuple[Answer, list[Request]]:
    """The answer to a request as a client sent it, and what went upstream."""
    parrot = Parrot()
    app = App(gateway(line("one", parrot)))
    body = b"" if sent["body"] is None else json.dumps(sent["body"]).encode()
    return run(ask(app, sent["method"], sent["path"], sent.get("headers", {}), body)), parrot.asked


def _uncut(value: Any) -> Any:
    """Without the marks of where a recorded list was cut."""
    match value:
        case dict():
            return {key: _uncut(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_uncut(each) for each in value if not _is_mark(each)]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _is_mark(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"<\d+ more>", value) is not None


def _expected(sent: dict[str, Any]) -> set[int]:
    if sent["path"] == _NOWHERE:
        return {404}
    if "upgrade" in sent["headers"]:
        return {426}
    choice = (sent["body"] or {}).get("tool_choice")
    return {200} if choice in (None, "auto", "none") else {200, _NO_CALL}


def _real_requests() -> list[dict[str, Any]]:
    if not REQUESTS.is_file():
        pytest.skip("the requests of real clients are not beside the checkout")
    return [_uncut(json.loads(each)) for each in REQUESTS.read_text(encoding="utf-8").splitlines()]


def test_every_request_of_a_real_client_is_understood():
    requests = _real_requests()
    assert len(requests) > 90
    wrong: list[str] = []
    for sent in requests:
        answer, asked = _sent(sent)
        route = find_route(sent["method"], sent["path"].partition("?")[0])
        unheard = route is not None and route.client_protocol and not asked
        if answer.status not in _expected(sent) or unheard:
            wrong.append(f"{sent['client']} {sent['method']} {sent['path']}: {answer.status} {answer.body[:200]!r}")
    assert not wrong, "\n".join(wrong)


async def _is_taken(sent: dict[str, Any], model: str) -> bool:
    """Whether a request is answered without a task, and its body decoded by the fast decoder."""
    proxy = Proxy(App, Settings(), model)
    body = json.dumps(sent["body"]).encode()
    lines = {**sent["headers"], "host": "localhost", "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    proxy.connection.data_received(f"{sent['method']} {sent['path']} HTTP/1.1\r\n{head}\r\n".encode() + body)
    return len(proxy.app.lifecycle.exchanges) == 1 and bool(proxy.up[0][1].said)


def test_nearly_all_requests_of_real_clients_are_answered_without_a_task():
    taken: list[str] = []
    others: list[str] = []
    for sent in _real_requests():
        route = find_route(sent["method"], sent["path"].partition("?")[0])
        if route is not None and route.client_protocol:
            decode_body = client_protocol(route.client_protocol).decode_body
            assert decode_body is not None
            decoded = decode_body(json.dumps(sent["body"]).encode(), **route.fields)
            fast = decoded is not None and asyncio.run(_is_taken(sent, decoded.model))
            (taken if fast else others).append(f"{sent['client']} {sent['path']}")
    assert len(taken) >= 0.95 * (len(taken) + len(others)), "\n".join(others)


_FUNCTION = {"type": "object", "properties": {"x": {"type": "string"}}}


@check_each(
    ("path", "body"),
    [
        pytest.param(
            "/v1/responses",
            {
                "model": "m",
                "instructions": "Be brief.",
                "input": [
                    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rules."}]},
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello?"}]},
                ],
                "tools": [
                    {"type": "function", "name": "f", "strict": False, "parameters": _FUNCTION},
                    {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
                    {"type": "web_search"},
                    {"type": "never_heard_of"},
                ],
                "store": False,
                "include": ["reasoning.encrypted_content"],
                "prompt_cache_key": "k",
            },
            id="codex",
        ),
        pytest.param(
            "/v1/messages?beta=true",
            {
                "model": "m",
                "max_tokens": 32000,
                "system": [{"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral"}}],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "Hello?"}]},
                    {"role": "system", "content": "A reminder."},
                ],
                "tools": [{"name": "f", "input_schema": _FUNCTION}, {"type": "web_search_20250305", "name": "w"}],
                "thinking": {"type": "adaptive"},
                "output_config": {"effort": "high"},
                "context_management": {"edits": []},
                "metadata": {"user_id": "u"},
            },
            id="claude-code",
        ),
        pytest.param(
            "/v1beta/models/m:generateContent",
            {
                "contents": [{"role": "user", "parts": [{"text": "Hello?"}]}],
                "systemInstruction": {"role": "user", "parts": [{"text": "Rules."}]},
                "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": _FUNCTION}]}],
                "generationConfig": {"temperature": 0, "thinkingConfig": {"includeThoughts": True}},
                "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
            },
            id="gemini-cli",
        ),
        pytest.param(
            "/api/chat",
            {
                "model": "m:latest",
                "stream": False,
                "messages": [{"role": "user", "content": "Hello?", "images": []}],
                "tools": [{"type": "function", "function": {"name": "f", "parameters": _FUNCTION}}],
                "options": {"num_ctx": 4096},
                "keep_alive": "5m",
            },
            id="litellm-ollama",
        ),
        pytest.param(
            "/chat/completions",
            {
                "model": "m",
                "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}],
                "tools": [{"type": "function", "function": {"name": "f", "parameters": _FUNCTION, "strict": True}}],
                "max_completion_tokens": 100,
                "reasoning_effort": "low",
                "never_heard_of": 1,
            },
            id="without-v1",
        ),
    ],
)
def test_a_request_as_agents_send_it_goes_upstream(path: str, body: dict[str, Any]):
    answer, asked = _sent({"method": "POST", "path": path, "body": body})
    assert answer.status == 200, answer.body
    assert asked[0].messages[-1].text


def test_a_websocket_is_refused_so_that_its_client_falls_back():
    answer, _ = _sent({"method": "GET", "path": "/v1/responses", "body": None, "headers": {"upgrade": "websocket"}})
    assert (answer.status, answer.header("upgrade"), answer.json["error"]["code"]) == (426, "HTTP/1.1", "no_web_socket")


def test_nothing_else_is_upgraded():
    answer, _ = _sent({"method": "GET", "path": "/v1/elsewhere", "body": None, "headers": {"upgrade": "websocket"}})
    assert answer.status == 404


@check_each("path", ["/", "/api/hello", "/v1/models", "/nowhere"])
def test_a_request_for_the_head_gets_the_head(path: str):
    whole, _ = _sent({"method": "GET", "path": path, "body": None})
    head, _ = _sent({"method": "HEAD", "path": path, "body": None})
    assert (head.status, head.body) == (whole.status, b"")
    assert whole.body
    assert head.header("content-type") == whole.header("content-type")
