"""Answers that are decoded in one step, and requests that take the general path after all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, cast

import msgspec
import pytest
import uvicorn

from tests.cases import check_each
from tests.server.test_fast_exchange import GeneralApp, Proxy, reply, steady, stream
from tests.server.test_recipes import ANSWER, KnownCallers
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.runtime.turn import EngineTurn
from toolspeak.server.access.api_keys import ApiKey, ApiKeys
from toolspeak.server.access.auth import Access
from toolspeak.server.access.limits import KeyLimits, TooManyRequests
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.http.client_connection import ClientConnection
from toolspeak.server.proxy.exchange import _extension_rest  # pyright: ignore[reportPrivateUsage]
from toolspeak.upstreams.http.thin_transport import HttpUpstream

USER = {"role": "user", "content": "How is the weather in Oslo?"}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}}
LONG = "It rains. " * 2000


def request_of(key: str = "", **fields: Any) -> bytes:
    data = json.dumps({"model": "m", "messages": [USER], **fields}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nx-request-id: r\r\n"
    head += f"x-api-key: {key}\r\n" if key else ""
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def pieces(data: bytes, *cuts: int) -> list[bytes]:
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


CUT_CALL = [{"index": 0, **CALL, "function": {"name": "get_weather", "arguments": '{"city":'}}]
CUT_STREAM = stream([{"content": "x"}, {"tool_calls": CUT_CALL}], "length")
CALL_STREAM = stream([{"content": "x"}, {"tool_calls": [{"index": 0, **CALL}]}], "tool_calls")
LAST = CALL_STREAM.rindex(b'data: {"id"')
ANSWERS: dict[str, list[bytes]] = {
    "a text": [ANSWER],
    "a text in pieces": pieces(ANSWER, 20, len(ANSWER) - 5),
    "a head alone": pieces(ANSWER, ANSWER.index(b"\r\n\r\n") + 4),
    "a long text": [reply({"content": LONG})],
    "a long text in pieces": pieces(reply({"content": LONG}), 300, 15_000),
    "a long text behind a call": [reply({"content": LONG, "tool_calls": [CALL]}, "tool_calls")],
    "a call": [reply({"content": None, "tool_calls": [CALL]}, "tool_calls")],
    "a call that is cut off": [reply({"content": None, "tool_calls": [CALL]}, "length")],
    "reasoning": [reply({"content": "x", "reasoning_content": "Hm."})],
    "a refusal": [reply({"content": None, "refusal": "No."})],
    "a stream": [CALL_STREAM],
    "a stream in pieces": pieces(CALL_STREAM, LAST - 200, LAST),
    "a stream with a call that is cut off": [CUT_STREAM],
    "a stream with a call that is cut off, in pieces": pieces(CUT_STREAM, CUT_STREAM.index(b"\n\n", 600) + 2),
    "nothing": [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""],
    "a broken end": [ANSWER[:-10], b""],
    "text behind the answer": [ANSWER + b"HTTP/1.1 500 Oops\r\n\r\n"],
    "an error": [reply({}, status="500 Oops").replace(b"choices", b"chances"), b""],
}


async def ask(proxy: Proxy, data: bytes, answers: Iterator[Sequence[bytes]]) -> tuple[list[bytes], bytes]:
    proxy.wire.said, proxy.asked = b"", []
    return await proxy.exchange(data, answers)


@check_each("settings", [Settings(), Settings(mode="force", retries=0), Settings(mode="off")])
@check_each("fields", [{}, {"tools": [TOOL]}])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_the_same_however_it_is_decoded(name: str, fields: dict[str, Any], settings: Settings):
    async def scenario(app_type: type[App]) -> list[Any]:
        proxy = Proxy(app_type, settings)
        seen: list[Any] = []
        for _ in range(2):  # the second may use the same upstream connection
            asked, said = await ask(proxy, request_of(**fields), iter([ANSWERS[name], *[[ANSWER]] * 5]))
            seen.append((asked, steady(said)))
        counters = proxy.app.lifecycle.metrics.counters
        return [*seen, counters.requests, counters.responses, counters.events, len(proxy.up)]

    fast, general = (asyncio.run(scenario(app_type)) for app_type in (KnownCallers, GeneralApp))
    assert fast == general


def test_a_long_answer_that_was_decoded_is_handed_over_once_and_leaves_the_connection_to_others(
    monkeypatch: pytest.MonkeyPatch,
):
    unread: list[int] = []
    put_back = HttpUpstream.unread

    def counted(self: HttpUpstream, posted: Any, events: Any) -> None:
        unread.append(len(events))
        put_back(self, posted, events)

    monkeypatch.setattr(HttpUpstream, "unread", counted)

    async def scenario() -> None:
        proxy = Proxy(KnownCallers, Settings())
        proxy.connection.data_received(request_of(tools=[TOOL]))
        first, (upstream, up_wire) = proxy.wire, proxy.up[0]
        up_wire.said = b""
        upstream.data_received(reply({"content": LONG}))
        assert unread == [3] and proxy.pool.idle == 1 and first.said == b""
        # Another client gets the connection before the long answer is read.
        config = uvicorn.Config(proxy.app, http=ClientConnection, log_config=None, lifespan="off")
        second, other = type(first)(), ClientConnection(config, proxy.state, {})
        other.connection_made(second)
        other.data_received(request_of())
        assert up_wire.said and proxy.pool.idle == 0 and len(proxy.up) == 1
        async with asyncio.timeout(30):
            while proxy.connection.answering:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert LONG.strip().encode() in first.said
        assert other.answering and not up_wire.closed
        upstream.data_received(ANSWER)
        assert b"Fine." in second.said and proxy.pool.idle == 1

    asyncio.run(scenario())


# ---- limits


class Limited:
    """A server with one key that has limits."""

    def __init__(self, **limits: int) -> None:
        keys = ApiKeys(MemoryState())
        keys.version = lambda: 1
        self.now = 0.0
        self.key, self.secret = keys.new("anna", **limits)  # type: ignore[arg-type]
        self.limits = KeyLimits(lambda: self.now)
        guard = OriginGuard(Access(keys, required=True))
        self.proxy = Proxy(cast("type[App]", lambda gateway: App(gateway, guard, self.limits)), Settings())

    @property
    def under_way(self) -> int:
        return self.limits._meters[self.key.id].under_way  # pyright: ignore[reportPrivateUsage]

    async def status(self) -> bytes:
        _, said = await ask(self.proxy, request_of(self.secret), repeat([ANSWER]))
        return said[9:12]


def without_connections(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    limited.proxy.pool.take = lambda: None  # type: ignore[method-assign]


def with_a_bug(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EngineTurn, "start_now", lambda *given, **named: 1 / 0)


def with_nothing(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    pass


@pytest.mark.requirement("R-T11")
@check_each("prepare", [with_nothing, without_connections, with_a_bug])
def test_a_request_counts_once_whichever_path_it_takes(prepare: Any):
    async def scenario(monkeypatch: pytest.MonkeyPatch) -> None:
        limited = Limited(rate=3, concurrency=1)
        prepare(limited, monkeypatch)
        assert [await limited.status() for _ in range(5)] == [b"200"] * 3 + [b"429"] * 2
        assert limited.under_way == 0
        limited.now += 20.0
        assert [await limited.status() for _ in range(2)] == [b"200", b"429"]
        limited.now += 600.0
        assert [await limited.status() for _ in range(4)] == [b"200"] * 3 + [b"429"]
        assert limited.under_way == 0

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(scenario(monkeypatch))


def test_what_is_refunded_was_never_counted():
    limits, key = KeyLimits(lambda: 0.0), ApiKey("a", "anna", rate=2, concurrency=1)
    for _ in range(10):
        limits.counted(key)
        limits.refund(key)
    for _ in range(2):
        with limits.counted(key), pytest.raises(TooManyRequests):
            limits.counted(key)
    with pytest.raises(TooManyRequests):
        limits.counted(key)
    for unlimited in (None, ApiKey("b", "otto")):
        limits.refund(unlimited)


@check_each("key", [ApiKey("a", "anna", rate=2), ApiKey("a", "anna", concurrency=1)])
def test_one_limit_is_refunded_without_the_other(key: ApiKey):
    limits = KeyLimits(lambda: 0.0)
    for _ in range(5):
        limits.counted(key)
        limits.refund(key)
    limits.counted(key)


# ---- the header with details


def general_header(
    identifier: str, plan: str, upstream: str, model: str, requests: int | None, warnings: tuple[str, ...]
) -> Any:
    """What the header contains, written down plainly."""
    brief = {"id": identifier, "plan": plan, **({"upstream": upstream} if upstream else {})}
    brief |= {"model": model} if model else {}
    whole = brief if requests is None else {**brief, "requests": requests, "warnings": list(warnings)}
    text = msgspec.json.encode(whole)
    return brief if len(text) > 2048 or not text.isascii() else whole


@check_each(
    ("upstream", "requests", "warnings"),
    [
        ("", None, ()),
        ("up", None, ()),
        ("up", 1, ()),
        ("", 3, ("tool calls emulated",)),
        ('with "quotes" \\ and \n lines', 1, ()),
        ("nähe", None, ()),
        ("nähe", 2, ("x",)),
        ("up", 2, ("größer",)),
        *(("up", 1, ("x" * size,)) for size in range(1900, 2000)),
        ("y" * 3000, 1, ("x",)),
    ],
)
def test_the_header_has_what_fits(upstream: str, requests: int | None, warnings: tuple[str, ...]):
    identifier = "0123456789abcdef" * 2
    about = () if requests is None else (requests, warnings)
    for model in ("", "small-model"):
        header = b'{"id":"%b",%b' % (identifier.encode(), _extension_rest("pass", upstream, model, *about))
        assert header.isascii() and b"\n" not in header and b"\r" not in header
        assert json.loads(header) == general_header(identifier, "pass", upstream, model, requests, warnings)
