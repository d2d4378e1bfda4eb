"""An answer in one piece reaches a client of the upstream's own protocol as it was said, and all else as before."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from tests.cases import check_each
from tests.protocols.test_reply_order import ANSWERS, ANTHROPIC, anthropic_answer
from tests.server.asgi_client import run
from tests.server.live_proxy import between
from tests.server.protocol_clients import SPEAKERS
from tests.server.scripted_peers import Client
from tests.upstreams.loopback_server import Heard, head
from toolspeak.engine.planning.strategy import Settings

pytestmark = pytest.mark.requirement("G3")

NATIVE = Settings(mode="off")
SPEAKER = {speaker.name: speaker for speaker in SPEAKERS}
F = {"type": "object", "properties": {"x": {"type": "integer"}}}
#: The one tool that the answers call, in the words of each protocol.
TOOLS: dict[str, Any] = {
    "anthropic": [{"name": "f", "input_schema": F}],
    "gemini": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": F}]}],
    "openai_responses": [{"type": "function", "name": "f", "parameters": F}],
}


def answered(face: str, upstream: str, *answers: Any, settings: Settings = NATIVE) -> Any:
    """What a client hears whose upstream gives these answers, one for each request."""
    left = list(answers)

    async def model(heard: Heard) -> None:
        body = json.dumps(left.pop(0)).encode()
        await heard.send(head("content-type: application/json", f"content-length: {len(body)}"), body)

    async def talk() -> Any:
        asked = SPEAKER[face].ask(False, tools=False) | {"tools": TOOLS[face]}
        async with between(model, upstream, settings) as (app, _):
            client = Client(app, SPEAKER[face].path(False), asked)
            await client.task
            return json.loads(client.body)

    return run(talk())


@check_each("mode", ["off", "fallback"])
@check_each("protocol", ANSWERS)
def test_a_client_of_the_same_protocol_gets_every_part_in_its_place(protocol: str, mode: Literal["off", "fallback"]):
    said, answer, content_in, _ = ANSWERS[protocol]
    found = content_in(answered(protocol, protocol, answer(said), settings=Settings(mode=mode)))
    ours = protocol == "openai_responses"  # ids of messages and calls are the server's own
    assert [_named(part, ours) for part in found] == [_named(part, ours) for part in said]


def _named(part: dict[str, Any], ours: bool) -> dict[str, Any]:
    return {key: value for key, value in part.items() if not (ours and key == "id" and part["type"] != "reasoning")}


def test_a_client_of_another_protocol_gets_the_usual_order():
    answer = answered("openai_responses", "anthropic", anthropic_answer(ANTHROPIC))
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message", "function_call", "function_call"]


def test_thinking_of_an_answer_that_was_not_taken_is_not_in_the_reply():
    def thought(signature: str, text: str) -> Any:
        block = {"type": "thinking", "thinking": signature, "signature": signature}
        return anthropic_answer([block, {"type": "text", "text": text}]) | {"stop_reason": "end_turn"}

    answers = (thought("S1", "I have no tools for that."), thought("S2", "It is four."))
    settings = Settings(mode="fallback", plan="inline")
    content = answered("anthropic", "anthropic", *answers, settings=settings)["content"]
    assert [block.get("signature") or block.get("text") for block in content] == ["S2", "It is four."]


def test_an_emulated_answer_has_the_usual_order():
    answer = anthropic_answer(ANTHROPIC[:6]) | {"stop_reason": "end_turn"}
    content = answered("anthropic", "anthropic", answer, settings=Settings(mode="force"))["content"]
    assert [block["type"] for block in content] == [
        "thinking",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
