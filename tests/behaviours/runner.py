"""Runs a turn with each scripted model, as a user would: `toolspeak.Client` with default settings, over HTTP.

Each turn has a server and a client of its own, so nothing that one turn learns helps the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import toolspeak as ts
from tests.behaviours.models import Answer, Ask, Behaviour, Rejection
from tests.behaviours.tasks import TOOLS
from tests.upstreams.loopback_server import Heard, head, serving_in_a_thread
from toolspeak.config import load

#: No model of this name is known, so nothing is known of its abilities.
MODEL = "openai:house-model"
#: A turn that takes longer hangs.
TIMEOUT = 30.0
CHUNK = 7


@dataclass(frozen=True)
class Outcome:
    """How a turn ended, and how many requests the server received."""

    right: bool
    requests: int
    ending: str


class ModelServer:
    """An OpenAI-compatible server with one scripted model. It keeps the conversation of one turn."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._prompts: list[list[tuple[str, str]]] = []
        self.exchanges: list[tuple[dict[str, Any], str | Answer | Rejection]] = []

    async def __call__(self, heard: Heard) -> None:
        if "/chat/completions" not in heard.line:
            await heard.send(head("content-length: 0", status="404 Not Found"))
            return
        body = heard.json
        answer = self._answer(body)
        self.exchanges.append((body, answer))
        if isinstance(answer, Rejection):
            await heard.send(*_rejection(answer))
        elif body.get("stream"):
            await heard.send(*_stream(answer))
        else:
            await heard.send(*_whole(answer))

    def _answer(self, body: dict[str, Any]) -> Answer | Rejection:
        # The same prompt gets the same answer, as from a model that does not sample.
        ask = Ask(body, [], 1, self._behaviour.task)
        prompts = self._prompts if ask.messages in self._prompts else [*self._prompts, ask.messages]
        ask = replace(ask, first=prompts[0], nth=prompts.index(ask.messages) + 1 if ask.names_tool else 1)
        answer = self._behaviour.model(ask)
        if ask.names_tool and not isinstance(answer, Rejection):
            self._prompts = prompts
        return Answer(answer) if isinstance(answer, str) else answer


def run(behaviour: Behaviour, *, streamed: bool, **settings: Any) -> tuple[Outcome, ModelServer]:
    """Play one turn, with default settings unless others are given.

    Errors of toolspeak are an ending; every other exception is raised.
    """
    server = ModelServer(behaviour)
    with serving_in_a_thread(server) as listening:
        # A probe in the background would be asked and counted beside the turn.
        config = load({}, env={"TOOLSPEAK_PROBE": "off"})
        with ts.Client(MODEL, base_url=listening.url, api_key="any", config=config) as client:
            try:
                reply = _reply(client, behaviour, streamed, settings)
            except ts.ToolspeakError as error:
                return Outcome(False, len(server.exchanges), f"{type(error).__name__}: {error}"), server
    return Outcome(_is_right(behaviour, reply), len(server.exchanges), _ending(reply)), server


def _reply(client: ts.Client, behaviour: Behaviour, streamed: bool, settings: dict[str, Any]) -> ts.Reply:
    task = behaviour.task
    arguments: dict[str, Any] = {"tools": TOOLS, "timeout": TIMEOUT, **task.settings, **settings}
    if not streamed:
        return client.chat(task.messages, **arguments)
    stream = client.stream(task.messages, **arguments)
    for _ in stream:
        pass
    return stream.reply


def _is_right(behaviour: Behaviour, reply: ts.Reply) -> bool:
    calls = [(call.name, call.arguments) for call in reply.tool_calls]
    expected = behaviour.task.call
    if expected is None:
        return not calls and behaviour.answer in reply.text
    return calls == [(expected.name, expected.arguments)]


def _ending(reply: ts.Reply) -> str:
    calls = [f"{call.name}({json.dumps(call.arguments, ensure_ascii=False)})" for call in reply.tool_calls]
    return "; ".join(calls) or f"text: {reply.text.strip()[:100]!r}"


# ---- the wire


def _whole(answer: Answer) -> list[bytes]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = _calls(answer)
    body = _envelope("chat.completion", {"message": message, "finish_reason": _finish(answer)})
    data = json.dumps(body).encode()
    return [head("content-type: application/json", f"content-length: {len(data)}"), data]


def _stream(answer: Answer) -> Iterator[bytes]:
    yield head("content-type: text/event-stream")
    yield _event({"role": "assistant", "content": ""})
    for piece in _pieces(answer.reasoning):
        yield _event({"reasoning_content": piece})
    for piece in _pieces(answer.text):
        yield _event({"content": piece})
    for index, call in enumerate(_calls(answer)):
        yield _event({"tool_calls": [{"index": index, **call}]})
    yield _event({}, _finish(answer))
    yield b"data: [DONE]\n\n"


def _pieces(text: str) -> list[str]:
    return [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    body = _envelope("chat.completion.chunk", {"delta": delta, "finish_reason": finish})
    return f"data: {json.dumps(body)}\n\n".encode()


def _envelope(kind: str, choice: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": kind,
        "created": 1,
        "model": "house-model",
        "choices": [{"index": 0, **choice}],
    }


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate(answer.calls, 1)
    ]


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _rejection(rejection: Rejection) -> list[bytes]:
    data = json.dumps({"error": {"message": rejection.message, "type": "invalid_request_error"}}).encode()
    status = f"{rejection.status} Bad Request"
    return [head("content-type: application/json", f"content-length: {len(data)}", status=status), data]
