"""The proxy keeps the conversations of its clients within the window of the upstream, if it is told to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import ask, run
from tests.server.live_proxy import between
from tests.window_model import TASK, WindowModel, page
from toolspeak.engine.planning.strategy import Settings

pytestmark = pytest.mark.requirement("F11")

PAGE = {
    "type": "function",
    "function": {"name": "page", "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}}},
}


def read_stream(body: bytes) -> dict[str, Any]:
    """Return the message that a stream of chunks makes up."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    for line in body.decode().splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:]).get("choices", ()):
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            for call in delta.get("tool_calls") or ():
                whole = calls.setdefault(call["index"], {"type": "function", "function": {"name": "", "arguments": ""}})
                whole["id"] = call.get("id") or whole["id"]
                for key, value in call["function"].items():
                    whole["function"][key] += value or ""
    return message | ({"tool_calls": list(calls.values())} if calls else {})


@check_each("mode", ["off", "auto", "force"])
@check_each("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_resends_its_history_never_sees_the_error(mode: Any, stream: bool):
    played = WindowModel(rounds=25)

    async def main() -> None:
        async with between(played.answer, "openai_chat", Settings(mode=mode, compact="summary")) as (app, _):
            messages: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
            extensions: list[dict[str, Any]] = []
            while True:
                body = {"model": "m", "messages": messages, "tools": [PAGE], "stream": stream}
                answer = await ask(app, "POST", "/v1/chat/completions", body=body)
                assert answer.status == 200, answer.body
                extensions.append(json.loads(answer.header("x-toolspeak")))
                message = read_stream(answer.body) if stream else answer.json["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    break
                for call in message["tool_calls"]:
                    text = page(**json.loads(call["function"]["arguments"]))
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        assert messages[-1]["content"] == "Everything is read."
        assert len(messages) == 2 + 2 * 25
        if not stream:  # the header of a stream is sent before its end
            assert any("compacted" in warning for each in extensions for warning in each["warnings"])
            assert sum(each["requests"] for each in extensions) == len(played.sizes)

    run(main())
    assert 0 < played.complaints <= 3
    assert 0 < played.summaries <= 12


def test_by_default_the_client_gets_the_upstreams_own_error():
    played = WindowModel()

    async def main() -> None:
        async with between(played.answer, "openai_chat", Settings(mode="off")) as (app, _):
            body = {"model": "m", "messages": [{"role": "user", "content": TASK * 1000}]}
            answer = await ask(app, "POST", "/v1/chat/completions", body=body)
            assert answer.status == 400
            assert "maximum context length is 4096 tokens" in answer.message
            assert "compaction" not in answer.message

    run(main())
    assert played.complaints == 1
