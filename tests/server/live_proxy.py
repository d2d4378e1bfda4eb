"""A whole proxy on the loopback interface: the real server, with a scripted model as its upstream.

`service` plays an upstream of any protocol for `tests.upstreams.loopback_server`. `Two` is the model of the one conversation
that every client and every pair of protocols must finish: it calls both tools at once, then answers from the results.
`Live` runs service and proxy in a thread, for clients that block.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import Any

import uvicorn

from tests.upstreams.loopback_server import Answer, Heard, Server, chunked, head, serving
from tests.upstreams.request_helpers import Instant
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Event, Finish, TextDelta, UsageSeen, fold
from toolspeak.core.types import Request, Usage
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import UsageError
from toolspeak.key_value import MemoryState
from toolspeak.server.app import App
from toolspeak.server.http.client_connection import ClientConnection
from toolspeak.server.proxy.upstream_router import Gateway, UpstreamConfig
from toolspeak.upstreams.base import Upstream
from toolspeak.upstreams.http.thin_transport import HttpUpstream

PROTOCOLS = ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama")
#: A test that hangs fails after this.
PATIENCE = 30.0

QUESTION = "How is the weather in Oslo, and what time is it there?"
CALLS: dict[str, dict[str, Any]] = {"get_weather": {"city": "Oslo", "days": 2}, "get_time": {"city": "Oslo"}}
#: Nothing else in a prompt reads like this.
RESULTS = {"get_weather": "eighteen degrees and windy", "get_time": "a quarter past noon"}
ANSWER = "It is eighteen degrees and windy, and a quarter past noon."
SCHEMAS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
    "get_time": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
DESCRIPTIONS = {"get_weather": "The weather of the next days.", "get_time": "What time it is in a city."}

Model = Callable[[Request], Sequence[Event]]


class Two:
    """A model that calls both tools, then answers. `asked` is what came to it."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> list[Event]:
        self.asked.append(request)
        said = "\n".join(_texts(request))
        if all(result in said for result in RESULTS.values()):
            return self._text(ANSWER)
        return self._native() if request.tools else self._fenced(said)

    def _fenced(self, said: str) -> list[Event]:
        nonces = re.findall(r"json action ([a-z0-9]+)", said)
        mark = f"json action {nonces[-1]}" if nonces else "json action"
        blocks = [f"```{mark}\n{json.dumps({'tool': name, 'parameters': given})}\n```" for name, given in CALLS.items()]
        return self._text("I look it up.\n" + "\n".join(blocks))

    def _native(self) -> list[Event]:
        events: list[Event] = [TextDelta("I look it up.")]
        for index, (name, given) in enumerate(CALLS.items()):
            events += [CallStart(index, name, f"call_{index}"), CallArgs(index, json.dumps(given)), CallEnd(index)]
        return [*events, UsageSeen(Usage(20, 10)), Finish("tool_calls")]

    def _text(self, text: str) -> list[Event]:
        return [*(TextDelta(piece) for piece in cut_text(text)), UsageSeen(Usage(20, 10)), Finish("stop")]


def _texts(request: Request) -> Iterator[str]:
    for message in request.messages:
        yield message.text
        for result in message.results:
            yield result.content


def cut_text(text: str, size: int = 7) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# ---- an upstream of any protocol


def read_request(protocol: str, heard: Heard) -> Request:
    """The request as a service of this protocol understands it."""
    codec: Any = import_module(f"toolspeak.protocols.{protocol}")
    if protocol != "gemini":
        return codec.decode_request(heard.body)
    model, action = heard.line.split()[1].rpartition("/")[2].split("?")[0].split(":")
    return codec.decode_request(heard.body, model=model, stream=action == "streamGenerateContent")


def stream_type(protocol: str) -> str:
    return "application/x-ndjson" if protocol == "ollama" else "text/event-stream"


def service(protocol: str, model: Model) -> Answer:
    """An upstream that speaks `protocol` and answers as `model` says, one event at a time."""
    codec: Any = import_module(f"toolspeak.protocols.{protocol}")

    async def answer(heard: Heard) -> None:
        try:
            request = read_request(protocol, heard)
        except UsageError as error:  # a service says what it does not take
            _, body = codec.encode_error(error)
            await heard.send(head(f"content-length: {len(body)}", status="400 Bad Request"), body)
            return
        naming = {"id": "answer_1", "created": 1_700_000_000, "model": request.model}
        events = model(request)
        if not request.stream:
            body = codec.encode_reply(fold(events), request, **naming)
            await heard.send(head("content-type: application/json", f"content-length: {len(body)}"), body)
            return
        encoder = codec.ReplyEncoder(request, **naming)
        pieces = [chunked([encoder.encode([event])], last=False) for event in events]
        opening = head(f"content-type: {stream_type(protocol)}", "transfer-encoding: chunked")
        await heard.send(opening, *filter(None, pieces), chunked([encoder.close()]))

    return answer


# ---- the proxy


def proxy(upstream: Upstream, protocol: str, settings: Settings | None = None, **fields: Any) -> App:
    """A proxy to one upstream, with emulation forced unless the settings say something else."""
    chosen = settings or Settings(mode="force")
    line = UpstreamConfig(
        "upstream",
        "",
        upstream.base_url,
        protocol,
        connect=lambda own: upstream,
        settings=lambda model: chosen,
        models=("m",),
    )
    return App(Gateway([line], Capabilities(), MemoryState(), b"a secret"), **fields)


def reached(server: Server, protocol: str) -> HttpUpstream:
    """The upstream where users of its protocol say that it is. No wait before a retry takes time."""
    below = "/v1" if protocol.startswith("openai") else ""
    return HttpUpstream(f"http://127.0.0.1:{server.port}{below}", protocol=protocol, world=Instant().world)


def uvicorn_config(app: App, http: type[ClientConnection] = ClientConnection) -> uvicorn.Config:
    return uvicorn.Config(
        app, access_log=False, log_config=None, lifespan="on", http=http, ws="none", server_header=False
    )


@asynccontextmanager
async def between(
    model: Answer | Model, protocol: str, settings: Settings | None = None, **fields: Any
) -> AsyncIterator[tuple[App, Server]]:
    """A proxy and its upstream in this event loop. The model is one of events, or one that writes its bytes itself."""
    answer = model if asyncio.iscoroutinefunction(model) else service(protocol, model)  # type: ignore[arg-type]
    async with serving(answer) as server:
        app = proxy(reached(server, protocol), protocol, settings, **fields)
        try:
            yield app, server
        finally:
            await app.close()


@asynccontextmanager
async def listening(app: App, http: type[ClientConnection] = ClientConnection) -> AsyncIterator[int]:
    """The real server around an application, in this event loop; gives its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn_config(app, http))
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await serving
        listening.close()


class Live:
    """A proxy that runs; `url` is where."""

    def __init__(self, model: Model, port: int) -> None:
        self.model = model
        self.url = f"http://127.0.0.1:{port}"


@contextmanager
def live(model: Model, protocol: str = "openai_chat", settings: Settings | None = None) -> Iterator[Live]:
    """Service and proxy, both on free ports, in a thread of their own."""
    listening = socket.create_server(("127.0.0.1", 0))
    ready, servers, failures = threading.Event(), list[uvicorn.Server](), list[BaseException]()

    async def run() -> None:
        async with serving(service(protocol, model)) as upstream:
            app = proxy(reached(upstream, protocol), protocol, settings)
            server = uvicorn.Server(uvicorn_config(app))
            servers.append(server)
            asyncio.get_running_loop().call_soon(ready.set)
            await server.serve(sockets=[listening])

    def play() -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(run())
        except BaseException as error:
            failures.append(error)
            ready.set()

    thread = threading.Thread(target=play)
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield Live(model, listening.getsockname()[1])
    finally:
        if servers:
            servers[0].should_exit = True
        thread.join(PATIENCE)
        listening.close()
    assert not failures and not thread.is_alive(), failures


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
