"""CPU time of one request through the server, without sockets: `python bench/request_path.py`.

The client's connection and the upstream's are real, but their transports only pass bytes on. What is measured is all
that toolspeak does for a request: HTTP, access, codecs, engine, metrics and the recorder. `--profile` shows where the
time goes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import uvicorn

from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.protocols import openai_chat
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.http.client_connection import ClientConnection
from toolspeak.server.proxy.upstream_router import Gateway, UpstreamConfig
from toolspeak.upstreams.codecs import codec
from toolspeak.upstreams.http.connection import ConnectionPool, HttpConnection
from toolspeak.upstreams.http.thin_transport import HttpUpstream

#: Requests per measurement, and how many measurements; the best counts.
_REQUESTS, _ROUNDS = 300, 15
_PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "The name of the city"},
        "days": {"type": "integer", "description": "How many days"},
        "unit": {"type": "string", "enum": ["metric", "imperial"]},
    },
    "required": ["city"],
}


class Wire(asyncio.Transport):
    """A transport that only keeps what was written last."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        self.written = data

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None: ...

    abort = pause_reading = resume_reading = close


def tools(count: int) -> list[dict[str, Any]]:
    names = ["get_weather", "get_time", "get_news", *(f"tool_{at}" for at in range(count))][:count]
    return [
        {"type": "function", "function": {"name": name, "description": f"Tells the {name}.", "parameters": _PARAMETERS}}
        for name in names
    ]


def history(rounds: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a coding agent. " * 60}]
    messages.append({"role": "user", "content": "Fix the tests."})
    for at in range(rounds):
        function = {"name": "get_news", "arguments": json.dumps({"city": f"src/module_{at}.py", "days": at})}
        messages.append(
            {
                "role": "assistant",
                "content": f"Step {at}.",
                "tool_calls": [{"id": f"call_{at}", "type": "function", "function": function}],
            }
        )
        messages.append({"role": "tool", "tool_call_id": f"call_{at}", "content": f"def f_{at}(x): return x\n" * 60})
    return messages


def whole(message: dict[str, Any], reason: str = "stop") -> bytes:
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
    ).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


#: Stands for the number of a request, which no other request has.
_NUMBER = "NUMBER"
#: The protocols of the other faces, by their paths.
_PROTOCOLS = {"/v1/messages": "anthropic", "/v1/responses": "openai_responses"}


def body_template(fields: dict[str, Any], protocol: str) -> bytes:
    """A request of the chat completions protocol, or the same request in another one."""
    *messages, last = fields["messages"]
    fields = {**fields, "messages": [*messages, {**last, "content": f"{last['content']} {_NUMBER}"}]}
    body = json.dumps(fields).encode()
    return codec(protocol).encode(openai_chat.decode_request(body)) if protocol else body


class Bench:
    """A server with one upstream, and a client connection to it."""

    def __init__(
        self,
        settings: Settings,
        fields: dict[str, Any],
        answer: Callable[[bytes], bytes],
        path: str = "",
        client_key: str = "",
    ) -> None:
        """`client_key`: any key that the client sends to a server that requires none."""
        self.answer = answer
        self.path = path or "/v1/chat/completions"
        self.template = body_template(fields, _PROTOCOLS.get(path, ""))
        upstream = HttpUpstream("http://192.0.2.1/v1", "sk-upstream")
        config = UpstreamConfig(
            "up", "", upstream.base_url, "openai_chat", lambda own: upstream, lambda model: settings, models=("m",)
        )
        keys = ApiKeys(MemoryState())
        self.key = client_key or keys.new("bench", rate=10_000_000)[1]
        keys.version = lambda: 1
        capabilities = Capabilities()
        if settings.mode == "auto":
            capabilities.override_model("m", "openai")
        gateway = Gateway([config], capabilities, MemoryState(), b"secret")
        self.app = App(gateway, OriginGuard(Access(keys, required=not client_key)))
        loop = asyncio.get_running_loop()
        pool = upstream._pools[loop] = ConnectionPool(upstream._address, None, upstream.timeouts)
        self.up_wire, self.wire = Wire(), Wire()
        self.up = HttpConnection(loop, upstream.timeouts, pool._keep, pool._lost)
        self.up.connection_made(self.up_wire)
        pool._idle.append(self.up)
        server = uvicorn.Config(self.app, access_log=False, log_config=None, lifespan="off", proxy_headers=False)
        state = uvicorn.Server(server).server_state
        state.default_headers = [(b"date", b"Thu, 01 Jan 2026 00:00:00 GMT")]
        self.connection = ClientConnection(server, state, {})
        self.connection.connection_made(self.wire)
        self.count = 0

    def request(self) -> bytes:
        self.count += 1
        body = self.template.replace(_NUMBER.encode(), b"%d" % self.count)
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
            "Content-Type: application/json\r\nUser-Agent: OpenAI/Python 2.1.0\r\nX-Stainless-Lang: python\r\n"
            f"Authorization: Bearer {self.key}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def run(self, requests: list[bytes]) -> float:
        began = time.process_time()
        for request in requests:
            self.up_wire.written = b""
            self.connection.data_received(request)
            sent = self.up_wire.written
            self.up.data_received(self.answer(sent))
        return (time.process_time() - began) / len(requests) * 1e6


def call_in(sent: bytes) -> bytes:
    """The answer of a model that calls a tool as it was asked to."""
    at = sent.find(b"json action ")
    nonce = sent[at + 12 : at + 19].decode() if at > 0 else ""
    call = json.dumps({"tool": "get_weather", "parameters": {"city": "Oslo", "days": 2}})
    return whole({"content": f"```json action {nonce}\n{call}\n```"})


def native_call(sent: bytes) -> bytes:
    function = {"name": "get_weather", "arguments": '{"city": "Oslo", "days": 2}'}
    return whole(
        {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}, "tool_calls"
    )


_ASK = [{"role": "user", "content": "How is the weather in Oslo?"}]
_Probe = tuple[Settings, dict[str, Any], Callable[[bytes], bytes]]
_PROBES: dict[str, _Probe] = {
    "no tools": (Settings(), {"messages": _ASK}, lambda sent: whole({"content": "Fine, eighteen degrees."})),
    "tools emulated": (Settings(mode="force"), {"messages": _ASK, "tools": tools(3)}, call_in),
    "20 tools emulated": (Settings(mode="force"), {"messages": _ASK, "tools": tools(20)}, call_in),
    "tools native": (Settings(), {"messages": _ASK, "tools": tools(3)}, native_call),
    "agent native": (Settings(), {"messages": history(30), "tools": tools(20)}, native_call),
    "agent emulated": (Settings(mode="force"), {"messages": history(30), "tools": tools(20)}, call_in),
}


_FACES = {"anthropic": "/v1/messages", "responses": "/v1/responses"}


async def measure(name: str, profile: bool, client_key: str) -> None:
    face, _, rest = name.partition(": ")
    settings, fields, answer = _PROBES[rest or name]
    bench = Bench(settings, {"model": "m", **fields}, answer, _FACES[face] if rest else "", client_key)
    count = _REQUESTS if "agent" not in name else _REQUESTS // 10
    bench.run([bench.request() for _ in range(20)])
    assert b"200 OK" in bench.wire.written, bench.wire.written
    if profile:
        import cProfile
        import pstats

        requests = [bench.request() for _ in range(count)]
        profiler = cProfile.Profile()
        profiler.runcall(bench.run, requests)
        stats = pstats.Stats(profiler)
        print(f"{name}: {stats.total_calls / count:.0f} calls per request")  # type: ignore[attr-defined]
        stats.sort_stats("tottime").print_stats(45)
        return
    best = min(bench.run([bench.request() for _ in range(count)]) for _ in range(_ROUNDS))
    print(f"{name:30} {best:8.1f} us", bench.wire.written[:15])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--client-key", default="", help="a key of the client's own; the server then requires none")
    chosen = parser.parse_args()
    names = [*_PROBES, *(f"{face}: {name}" for face in _FACES for name in _PROBES)]
    for name in names:
        if chosen.only in name:
            asyncio.run(measure(name, chosen.profile, chosen.client_key))


if __name__ == "__main__":
    main()
