"""vLLM and Ollama as they answer for a model that cannot call tools: small servers for the tests of the tutorials.

Both refuse `tools` with the message of the real server and otherwise only write text. The scripted model behind them reads
the tools and the format of calls in its prompt, makes the calls of its script one after the other, and then answers.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.simulated_models import CHAT, NUMBERS, THINGS

Json = Any
#: Pieces of a stream: small enough to cut every mark.
PIECE = 7
_LISTED = re.compile(r"^- ([A-Za-z0-9_.-]+)(?:: |$)", re.MULTILINE)


@dataclass
class PlainModel:
    """A model that only writes text.

    Args:
        calls: its calls in order, each a name and arguments; `{found}` in an argument is what `looks_for` found last.
        answer: its answer after the last call, with `{found}` as well.
        looks_for: a pattern of what results say.
        aside: its answer if no tool of the script is described.
    """

    calls: Sequence[tuple[str, dict[str, Json]]]
    answer: str
    looks_for: str = r"$^"
    aside: str = "Hello there."
    #: The messages of every request.
    heard: list[list[tuple[str, str]]] = field(default_factory=list)

    def __call__(self, messages: list[tuple[str, str]]) -> str:
        self.heard.append(messages)
        prompt = "\n".join(text for _, text in messages)
        listed = _LISTED.findall(prompt)
        if not {name for name, _ in self.calls} & set(listed):
            return self._probed(messages, listed, prompt)
        written = _format(prompt)
        done = sum(text.count(written("", {})[:8]) for role, text in messages if role == "assistant")
        found = re.findall(self.looks_for, "\n".join(text for role, text in messages if role != "assistant"))
        if done >= len(self.calls):
            return _filled(self.answer, found)
        name, arguments = self.calls[done]
        return f"Let me see.\n\n{written(name, _filled(arguments, found))}"

    def _probed(self, messages: list[tuple[str, str]], listed: list[str], prompt: str) -> str:
        """Answer a probe: it asks about things, and for long texts."""
        asked = messages[-1][1].lower()
        order = re.search(r"answer with the word (\w+) and nothing else", prompt)
        if order:
            return order[1]
        things = [thing for thing in THINGS if re.search(rf"\b{thing}\b", asked)]
        if listed and things:
            return "\n".join(_format(prompt)(listed[0], {"item": thing}) for thing in things)
        if "numbers" in asked:
            return NUMBERS
        return CHAT if things else self.aside


def _filled(value: Json, found: list[str]) -> Json:
    if isinstance(value, str):
        return value.replace("{found}", found[-1] if found else "nothing")
    return {name: _filled(each, found) for name, each in value.items()} if isinstance(value, dict) else value


def _format(prompt: str) -> Callable[[str, dict[str, Json]], str]:
    """Return a function that writes a call in the format that the prompt shows, with its mark."""
    if found := re.findall(r"<tool_call( \w+)?>", prompt):
        return lambda name, arguments: (
            f"<tool_call{found[-1]}>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
        )
    if found := re.findall(r"```tool_code( \w+)?\n", prompt):
        return lambda name, arguments: (
            f"```tool_code{found[-1]}\n[{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})]\n```"
        )
    found = re.findall(r"```json action( \w+)?\n", prompt) or [""]
    return lambda name, arguments: (
        f"```json action{found[-1]}\n{json.dumps({'tool': name, 'parameters': arguments})}\n```"
    )


class PlainServer(ThreadingHTTPServer):
    """A server on a free port of the loopback. A context manager.

    `requests` has the path and the body of every request, `refused` counts those with tools.
    """

    daemon_threads = True

    def __init__(self, model: PlainModel, name: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), type("Handler", (_Handler,), {"routes": self.routes()}))
        self.model, self.name = model, name
        self.requests: list[tuple[str, Json]] = []
        self.refused = 0
        self.lock = threading.Lock()

    def routes(self) -> dict[str, Callable[[Json], Iterator[Json]]]:
        raise NotImplementedError

    @property
    def port(self) -> int:
        return self.server_address[1]

    def texts(self, body: Json) -> Iterator[str]:
        """The answer of the model, in pieces."""
        with self.lock:
            text = self.model([(message["role"], _text(message.get("content"))) for message in body["messages"]])
        pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
        return iter(pieces if body.get("stream") else [text])

    def __enter__(self) -> PlainServer:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Refused(Exception):
    """A request that the real server answers with 400."""


class VllmServer(PlainServer):
    """vLLM without `--enable-auto-tool-choice`."""

    def routes(self) -> dict[str, Callable[[Json], Iterator[Json]]]:
        return {"/v1/models": self._models, "/v1/chat/completions": self._chat}

    def _models(self, body: Json) -> Iterator[Json]:
        yield {
            "object": "list",
            "data": [{"id": self.name, "object": "model", "owned_by": "vllm", "max_model_len": 32768}],
        }

    def _chat(self, body: Json) -> Iterator[Json]:
        if body.get("tools"):
            self.refused += 1
            message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            raise Refused({"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}})
        about = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": self.name}
        usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
        if not body.get("stream"):
            message = {"role": "assistant", "content": "".join(self.texts(body))}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            yield {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
            return
        about["object"] = "chat.completion.chunk"
        for piece in self.texts(body):
            yield {**about, "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
        yield {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}


class OllamaServer(PlainServer):
    """Ollama with a model whose template has no place for tools."""

    def routes(self) -> dict[str, Callable[[Json], Iterator[Json]]]:
        return {
            "/api/version": lambda body: iter([{"version": "0.30.0"}]),
            "/api/tags": lambda body: iter([{"models": [{"name": self.name, "model": self.name}]}]),
            "/api/ps": lambda body: iter(
                [{"models": [{"name": self.name, "model": self.name, "context_length": 65536}]}]
            ),
            "/api/show": lambda body: iter(
                [{"capabilities": ["completion", "vision"], "model_info": {"gemma3.context_length": 131072}}]
            ),
            "/api/chat": self._chat,
        }

    def _chat(self, body: Json) -> Iterator[Json]:
        if body.get("tools"):
            self.refused += 1
            raise Refused({"error": f"registry.ollama.ai/library/{self.name} does not support tools"})
        about = {"model": self.name, "created_at": "2026-11-19T00:00:00Z"}
        end = {**about, "done": True, "done_reason": "stop", "prompt_eval_count": 20, "eval_count": 10}
        if not body.get("stream", True):
            yield {**end, "message": {"role": "assistant", "content": "".join(self.texts(body))}}
            return
        for piece in self.texts({**body, "stream": True}):
            yield {**about, "message": {"role": "assistant", "content": piece}, "done": False}
        yield {**end, "message": {"role": "assistant", "content": ""}}


def _text(content: Json) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content or ())


class _Handler(BaseHTTPRequestHandler):
    server: PlainServer  # pyright: ignore[reportIncompatibleVariableOverride]
    routes: dict[str, Callable[[Json], Iterator[Json]]]

    def log_message(self, format: str, *args: object) -> None: ...

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _answer(self, body: Json) -> None:
        with self.server.lock:
            self.server.requests.append((self.path, body))
        route = self.routes.get(self.path)
        if route is None:
            self._send(404, "application/json", [json.dumps({"error": "not found"})])
            return
        try:
            parts = [json.dumps(part) for part in route(body)]
        except Refused as refused:
            self._send(400, "application/json", [json.dumps(refused.args[0])])
            return
        if self.path == "/v1/chat/completions" and body.get("stream"):
            self._send(200, "text/event-stream", [f"data: {part}\n\n" for part in [*parts, "[DONE]"]])
        elif self.path == "/api/chat":
            self._send(200, "application/x-ndjson", [f"{part}\n" for part in parts])
        else:
            self._send(200, "application/json", parts)

    def _send(self, status: int, kind: str, parts: list[str]) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()
        for part in parts:
            self.wfile.write(part.encode())
            self.wfile.flush()
