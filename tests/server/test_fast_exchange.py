"""Requests answered by callbacks get the same answers as requests answered in a task."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import random
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import repeat
from typing import Any

import pytest
import uvicorn

from tests.cases import check_each, size, without_garbage_collection
from tests.server.live_proxy import PATIENCE, PROTOCOLS
from tests.upstreams.request_helpers import Instant
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Event, Finish, TextDelta, UsageSeen, fold
from toolspeak.core.types import Message, Options, Request, TextPart, Tool, ToolCall, ToolChoice, ToolResult, Usage
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.runtime import turn
from toolspeak.runtime.turn import EngineTurn
from toolspeak.server.app import App
from toolspeak.server.http.client_connection import ClientConnection
from toolspeak.server.http.http_request import HttpRequest
from toolspeak.server.proxy.fast_exchange import FastExchange
from toolspeak.server.proxy.upstream_router import Gateway, UpstreamConfig
from toolspeak.upstreams.http.connection import ConnectionPool, HttpConnection
from toolspeak.upstreams.http.thin_transport import HttpUpstream

EXCHANGES = 20_000 if os.environ.get("TOOLSPEAK_TEST_SIZE") == "full" else 400
#: Exchanges are compared in so many parts, which can run at the same time.
PARTS = 4
TOOLS = (
    Tool("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}}),
    Tool("set_alarm", "Sets an alarm.", {"type": "object", "properties": {"hour": {"type": "integer"}}}),
)
CAPABILITIES = Capabilities()
PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:{action}?alt=sse",
    "ollama": "/api/chat",
}


class Wire(asyncio.Transport):
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.said += data

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class GeneralApp(App):
    """A server without the fast path."""

    def wants(self, http: HttpRequest) -> bool:
        return False


class Proxy:
    """A server with one client connection and one upstream connection, neither of which has a socket."""

    def __init__(
        self, app_type: type[App], settings: Settings, model: str = "m", protocol: str = "openai_chat"
    ) -> None:
        upstream = HttpUpstream("http://192.0.2.1/v1", "sk-up", protocol, world=Instant().world)
        line = UpstreamConfig(
            "up", "", upstream.base_url, protocol, lambda own: upstream, lambda model: settings, models=(model,)
        )
        self.app = app_type(Gateway([line], CAPABILITIES, MemoryState(), b"a secret"))
        self.loop = asyncio.get_running_loop()
        self.upstream = upstream
        self.pool = upstream._pools[self.loop] = ConnectionPool(upstream._address, None, upstream.timeouts)
        self.pool.connect = self._connected  # type: ignore[method-assign, assignment]
        self.up: list[tuple[HttpConnection, Wire]] = []
        self.pool._keep(self._new_upstream())
        config = uvicorn.Config(self.app, http=ClientConnection, log_config=None, lifespan="off", proxy_headers=False)
        self.state = uvicorn.Server(config).server_state
        self.wire = Wire()
        self.connection = ClientConnection(config, self.state, {})
        self.connection.connection_made(self.wire)
        self.asked: list[bytes] = []

    def _new_upstream(self) -> HttpConnection:
        wire = Wire()
        connection = HttpConnection(self.loop, self.upstream.timeouts, self.pool._keep, self.pool._lost)
        connection.connection_made(wire)
        self.up.append((connection, wire))
        return connection

    async def _connected(self, end: float) -> HttpConnection:
        return self._new_upstream()

    async def exchange(self, request: bytes, answers: Iterator[Sequence[bytes]]) -> tuple[list[bytes], bytes]:
        """Return what was sent upstream and to the client. Each upstream request gets the next answer, in pieces."""
        self.connection.data_received(request)
        while (asked := await self._asked()) is not None:
            pieces = next(answers)
            connection, wire = asked
            nonce = re.search(rb"json action (\w+)", wire.said)
            self.asked.append(wire.said)
            wire.said = b""
            for piece in pieces:
                if piece == b"":
                    connection.connection_lost(None)
                elif not connection.disconnected:
                    connection.data_received(piece.replace(b"NONCE77", nonce[1] if nonce else b"NONCE77"))
                await self._turns(2)
        async with asyncio.timeout(PATIENCE):
            while self.connection.answering and not self.wire.closed:  # noqa: ASYNC110
                await asyncio.sleep(0)
        return self.asked, self.wire.said

    async def _asked(self) -> tuple[HttpConnection, Wire] | None:
        async with asyncio.timeout(PATIENCE):
            while self.connection.answering and not self.wire.closed:
                for connection, wire in self.up:
                    if wire.said and not connection.disconnected:
                        return connection, wire
                await asyncio.sleep(0)
        return None

    async def _turns(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)


def request_bytes(protocol: str, request: Request) -> bytes:
    body = import_module(f"toolspeak.protocols.{protocol}").encode_request(request)
    action = "streamGenerateContent" if request.stream else "generateContent"
    head = f"POST {PATHS[protocol].format(action=action)} HTTP/1.1\r\nHost: localhost\r\nx-request-id: r1\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def reply(message: dict[str, Any], reason: str = "stop", status: str = "200 OK") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    body = json.dumps(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 7,
            "model": "m",
            "choices": [choice],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        }
    ).encode()
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        status.encode(),
        len(body),
        body,
    )


def stream(deltas: Sequence[dict[str, Any]], reason: str = "stop") -> bytes:
    common = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    chunks: list[dict[str, Any]] = [
        {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({**common, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    chunks.append({**common, "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body


CALL = '```json action NONCE77\n{"tool": "get_weather", "parameters": {"city": "Oslo"}}\n```'
TEXTS = [
    "Fine, thank you.",
    CALL,
    f"I look it up.\n\n{CALL}",
    CALL.replace("Oslo", "Oslo und Bergen, Åse's 💡 \\n place"),
    '```json action NONCE77\n{"tool": "get_weather", "parameters": {"city": 5}}\n```',
    '```json action NONCE77\n{"tool": "no_such_tool", "parameters": {}}\n```',
    '```json action NONCE77\n{"tool": "get_weather", "parameters": {"city": "Os',
    "I cannot access the internet.",
    "",
    f"<think>Hm.</think>{CALL}\n{CALL}",
    "x" * 20_000,
]
FUNCTION = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}
ERRORS = [
    b'HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 31\r\n\r\n{"error":{"message":"bad wish"}}'[
        :-1
    ],
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy",
    b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{",
    b"no http at all",
]


def random_answer(chance: random.Random, streamed: bool, protocol: str = "openai_chat") -> list[bytes]:
    """An answer of an upstream, in pieces; empty bytes stand for the end of the connection."""
    if chance.random() < 0.15:
        return [chance.choice(ERRORS), b""]
    text = chance.choice(TEXTS)
    native = chance.random() < 0.2
    if protocol != "openai_chat":
        whole = encoded_answer(protocol, text, native, streamed)
    elif not streamed:
        whole = reply({"content": None, "tool_calls": [FUNCTION]}, "tool_calls") if native else reply({"content": text})
    elif native:
        whole = stream([{"role": "assistant", "tool_calls": [{"index": 0, **FUNCTION}]}], "tool_calls")
    else:
        size = chance.choice([3, 11, 4000]) if len(text) < 1000 else 4000
        whole = stream([{"content": text[at : at + size]} for at in range(0, len(text), size)] or [{"content": ""}])
    # The length of a body depends on the nonce, which has as many letters as its placeholder.
    cuts = sorted(chance.sample(range(1, len(whole)), k=chance.choice([0, 0, 1, 3])))
    cuts = [cut for cut in cuts if b"NONCE77" not in whole[max(0, cut - 7) : cut + 7]]
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    if chance.random() < 0.1:
        pieces = [*pieces[:-1], pieces[-1][: len(pieces[-1]) // 2], b""]
    return pieces


def encoded_answer(protocol: str, text: str, native: bool, streamed: bool) -> bytes:
    """A response in any protocol. A stream has no mark of its end, except in protocols that require one."""
    call = [CallStart(0, "get_weather", "call_1"), CallArgs(0, '{"city": "Rome"}'), CallEnd(0), Finish("tool_calls")]
    said = [*(TextDelta(text[at : at + 4000]) for at in range(0, len(text), 4000)), Finish("stop")]
    events: list[Event] = call if native else said
    events.insert(-1, UsageSeen(Usage(10, 5)))
    codec = import_module(f"toolspeak.protocols.{protocol}")
    request = Request("m", (Message("user", (TextPart("x"),)),), stream=streamed, protocol=protocol)
    naming = {"id": "answer_1", "created": 1_700_000_000, "model": "m"}
    if streamed:
        encoder = codec.ReplyEncoder(request, **naming)
        body = b"".join(encoder.encode([event]) for event in events) + encoder.close()
        body = re.sub(rb"(?m)^(data: )?\{", rb'\g<0>"own": 1, ', body)  # a field that only this service has
    else:
        body = codec.encode_reply(fold(events), request, **naming)
    streams = b"application/x-ndjson" if protocol == "ollama" else b"text/event-stream"
    kind = streams if streamed else b"application/json"
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)


def random_answers(seed: int, streamed: bool, protocol: str) -> Iterator[list[bytes]]:
    chance = random.Random(seed)
    while True:
        yield random_answer(chance, streamed, protocol)


def random_request(chance: random.Random, protocol: str) -> Request:
    ask = Message("user", (TextPart(chance.choice(["How is the weather in Oslo?", "Hello!", "Wie geht's?"])),))
    messages: tuple[Message, ...] = (ask,)
    if chance.random() < 0.3:
        messages = (Message("system", (TextPart("Be brief."),)), *messages)
    if chance.random() < 0.3:
        call = ToolCall("get_weather", {"city": "Oslo"}, "call_9")
        result = Message("tool", results=(ToolResult("call_9", "Eighteen degrees.", "get_weather"),))
        round_ = (Message("assistant", calls=(call,)), result)
        if chance.random() < 0.3:  # a longer conversation
            round_ = (*round_, Message("assistant", (TextPart("Eighteen degrees."),)), ask, *round_)
        messages = (*messages, *round_)
    tools = TOOLS if chance.random() < 0.6 else ()
    choices = [ToolChoice(), ToolChoice("required"), ToolChoice("named", ("set_alarm",)), ToolChoice(parallel=False)]
    choice = chance.choice(choices) if tools else ToolChoice()
    own = {"store": chance.choice([True, False])} if protocol == "openai_responses" else {}
    options = Options(max_tokens=50, temperature=chance.choice([None, 0.5]), extra=own)
    return Request("m", messages, tools, choice, chance.random() < 0.5, options, protocol)


_CHANGING = [
    (rb"emulated_\d+_", b"emulated_"),
    (rb"[0-9a-f]{32}", b"ID"),
    (rb'"(created|created_at|completed_at)": ?"?[\d.TZ:-]+"?', b"TIME"),
    (rb'"(total_duration|load_duration|prompt_eval_duration|eval_duration)": ?\d+', b"TIME"),
    (rb"\r\nretry-after: \d+", b""),
    (rb"(call|msg|rs|fc|item)_[0-9A-Za-z]{8,}", b"ITEM"),
]


def steady(data: bytes) -> bytes:
    """Without what differs between any two answers: ids and times."""
    for pattern, same in _CHANGING:
        data = re.sub(pattern, same, data)
    return data


async def compare(seed: int) -> bool:
    """Compare both paths for one exchange. Returns whether the fast path took it."""
    chance = random.Random(seed)
    protocol = PROTOCOLS[seed % len(PROTOCOLS)]
    settings = chance.choice(
        [Settings(), Settings(mode="force"), Settings(mode="off"), Settings(mode="force", plan="envelope")]
    )
    upstream = PROTOCOLS[seed // len(PROTOCOLS) % len(PROTOCOLS)] if chance.random() < 0.7 else protocol
    request = random_request(chance, protocol)
    seen: list[Any] = []
    taken: list[bool] = []

    class Counted(App):
        def take(self, http: HttpRequest) -> bool:
            taken.append(super().take(http))
            return taken[-1]

    for app_type in (Counted, GeneralApp):
        proxy = Proxy(app_type, settings, protocol=upstream)
        answers = random_answers(seed, request.stream, upstream)
        asked, said = await proxy.exchange(request_bytes(protocol, request), answers)
        assert not proxy.app.lifecycle.exchanges
        counters = proxy.app.lifecycle.metrics.counters
        seen.append((asked, steady(said), counters.requests, counters.responses, counters.events))
    fast, general = seen
    assert fast == general, f"seed {seed}, {protocol} over {upstream}"
    return taken == [True]


@pytest.mark.no_cover
@pytest.mark.parametrize("part", range(PARTS))
def test_both_paths_send_the_same_bytes(part: int, monkeypatch: pytest.MonkeyPatch):
    # On a busy machine an answer may be parsed in a thread, whose time decides which pieces are sent together.
    monkeypatch.setattr(turn, "SLOW_SECONDS", math.inf)

    async def all_of_them() -> int:
        return sum([await compare(seed) for seed in range(part, EXCHANGES, PARTS)])

    assert asyncio.run(all_of_them()) == EXCHANGES // PARTS


@check_each("face", PROTOCOLS)
def test_an_exchange_whose_client_leaves_ends_its_upstream_request(face: str):
    async def scenario() -> tuple[bool, dict[Any, int]]:
        proxy = Proxy(App, Settings(mode="force"))
        ask = Request("m", (Message("user", (TextPart("Hello?"),)),), TOOLS, stream=True, protocol=face)
        proxy.connection.data_received(request_bytes(face, ask))
        assert len(proxy.app.lifecycle.exchanges) == 1
        proxy.connection.connection_lost(None)
        return proxy.up[0][1].closed, proxy.app.lifecycle.metrics.counters.responses

    closed, responses = asyncio.run(scenario())
    assert closed and responses == {(face, "499"): 1}


@check_each("face", PROTOCOLS)
@check_each("late", [False, True])
def test_a_client_that_does_not_send_its_whole_body_is_counted_and_recorded(face: str, late: bool):
    async def scenario(app_type: type[App]) -> tuple[object, ...]:
        proxy = Proxy(app_type, Settings())
        ask = Request("m", (Message("user", (TextPart("Hello?"),)),), protocol=face)
        proxy.connection.data_received(request_bytes(face, ask)[:-5])
        if late:
            proxy.connection._timed_out()
            assert proxy.wire.said.startswith(b"HTTP/1.1 408") and proxy.wire.closed
        proxy.connection.connection_lost(None)
        await asyncio.gather(*proxy.state.tasks)
        assert proxy.app._recorder is not None
        statuses = [entry.status for entry in proxy.app._recorder.after(0)]
        return proxy.app.lifecycle.metrics.counters.responses, statuses

    fast, general = (asyncio.run(scenario(each)) for each in (App, GeneralApp))
    assert fast == general == ({(face, "499"): 1}, [499])


@check_each("mode", ["force", "off"])
def test_nothing_of_an_exchange_waits_for_the_garbage_collector(mode: Any):
    async def scenario() -> list[object]:
        proxy = Proxy(App, Settings(mode=mode))
        ask = Request("m", (Message("user", (TextPart("Hello?"),)),), TOOLS, protocol="openai_chat")
        body = b'{"choices":[{"message":{"role":"assistant","content":"Fine."},"finish_reason":"stop"}]}'
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        await proxy.exchange(request_bytes("openai_chat", ask), iter([[head + body]]))
        await asyncio.sleep(0)
        return [each for each in gc.get_objects() if isinstance(each, FastExchange | EngineTurn)]

    with without_garbage_collection():
        assert asyncio.run(scenario()) == []


def test_an_exchange_ends_with_an_error_when_the_server_shuts_down():
    async def scenario() -> bytes:
        proxy = Proxy(App, Settings())
        ask = Request("m", (Message("user", (TextPart("Hello?"),)),), protocol="openai_chat")
        proxy.connection.data_received(request_bytes("openai_chat", ask))
        proxy.app.lifecycle.break_off()
        assert not proxy.app.lifecycle.exchanges
        return proxy.wire.said

    said = asyncio.run(scenario())
    assert b" 503 " in said and b"shutting down" in said


@check_each("app_type", [App, GeneralApp])
@check_each("streamed", [False, True])
def test_a_request_behind_one_that_is_broken_off_does_not_start(app_type: type[App], streamed: bool):
    async def scenario() -> tuple[bytes, list[bytes], bool]:
        proxy = Proxy(app_type, Settings())
        ask = Request("m", (Message("user", (TextPart("Hello?"),)),), stream=streamed, protocol="openai_chat")
        proxy.connection.data_received(request_bytes("openai_chat", ask) * 2)
        asked = await proxy._asked()
        assert asked is not None
        connection, wire = asked
        wire.said = b""
        if streamed:
            connection.data_received(stream([{"content": "Fi"}, {"content": "ne."}])[:300])
            await proxy._turns(5)
        proxy.connection.break_off()
        proxy.app.lifecycle.break_off()
        await proxy._turns(5)
        connection.connection_lost(None)
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*proxy.state.tasks)
        await proxy._turns(5)
        return proxy.wire.said, [wire.said for _, wire in proxy.up], proxy.wire.closed

    said, asked, closed = asyncio.run(scenario())
    assert said.count(b"HTTP/1.1") == 1 and b"shutting down" in said
    assert not any(asked) and closed


def test_a_silent_stream_gets_keep_alives():
    async def scenario() -> list[bytes]:
        proxy = Proxy(App, Settings())
        ask = Request("m", (Message("user", (TextPart("Hello?"),)),), stream=True, protocol="openai_chat")
        proxy.connection.data_received(request_bytes("openai_chat", ask))
        said = [proxy.wire.said]
        for _ in range(5):
            proxy.app._tick()
            said.append(proxy.wire.said[len(b"".join(said)) :])
        return said

    said = asyncio.run(scenario())
    assert said[:4] == [b""] * 4 and b"text/event-stream" in said[4] and b": keep-alive" in said[4]
    assert said[5] == b"e\r\n: keep-alive\n\n\r\n"


def test_a_client_that_does_not_read_stops_the_reading_of_its_answer():
    async def scenario() -> tuple[bytes, bytes]:
        proxy = Proxy(App, Settings())
        ask = Request("m", (Message("user", (TextPart("Hello?"),)),), stream=True, protocol="openai_chat")
        proxy.connection.data_received(request_bytes("openai_chat", ask))
        whole = stream([{"content": "one "}, {"content": "two"}])
        proxy.connection.pause_writing()
        proxy.up[0][0].data_received(whole)
        before = proxy.wire.said
        proxy.connection.resume_writing()
        return before, proxy.wire.said

    before, after = asyncio.run(scenario())
    assert before == b"" and b"one " in after and after.endswith(b"0\r\n\r\n")


def test_a_bug_in_the_middle_of_an_answer_is_an_error_of_the_clients_protocol(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def scenario() -> bytes:
        proxy = Proxy(App, Settings())
        ask = Request("m", (Message("user", (TextPart("Hello?"),)),), protocol="openai_chat")
        proxy.connection.data_received(request_bytes("openai_chat", ask))
        monkeypatch.setattr(EngineTurn, "_process_arrived", lambda *given: 1 / 0)
        proxy.up[0][0].data_received(reply({"content": "Hi."}))
        assert not proxy.app.lifecycle.exchanges
        return proxy.wire.said

    said = asyncio.run(scenario())
    assert b" 500 " in said and b"internal error in toolspeak" in said
    assert "ZeroDivisionError" in caplog.text


def test_a_bug_before_an_answer_leaves_the_request_to_the_general_path(monkeypatch: pytest.MonkeyPatch):
    async def scenario() -> bytes:
        proxy = Proxy(App, Settings())
        monkeypatch.setattr(EngineTurn, "start_now", lambda *given, **named: 1 / 0)
        ask = Request("m", (Message("user", (TextPart("Hello?"),)),), protocol="openai_chat")
        answers = iter([[reply({"content": "Hi."})]])
        return (await proxy.exchange(request_bytes("openai_chat", ask), answers))[1]

    assert b" 200 " in asyncio.run(scenario())


# ---- memory


@check_each("mode", size(["auto", "fallback"], ["auto", "force", "fallback"]))
@check_each("app_type", [App, GeneralApp])
def test_an_exchange_leaves_nothing_to_garbage_collection(app_type: type[App], mode: Any):
    """Otherwise whole conversations stay in memory, and the collections delay other requests."""
    text = [{"content": "Let me look. "}, {"content": CALL}]

    async def scenario() -> dict[tuple[str, bool], int]:
        left: dict[tuple[str, bool], int] = {}
        for protocol in PATHS:
            for streamed in (False, True):
                proxy = Proxy(app_type, Settings(mode=mode))
                asked = (Message("user", (TextPart("Hello?"),)),)
                request = request_bytes(protocol, Request("m", asked, TOOLS, stream=streamed, protocol=protocol))
                answers = repeat([stream(text) if streamed else reply({"content": CALL})])
                for _ in range(2):
                    gc.collect()
                    await proxy.exchange(request, answers)
                left[protocol, streamed] = gc.collect()
        return left

    with without_garbage_collection():
        assert set(asyncio.run(scenario()).values()) == {0}
