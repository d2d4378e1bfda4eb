"""A chat that runs by callbacks has the same reply, errors and requests as one that runs in a task."""

from __future__ import annotations

import asyncio
import gc
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each, without_garbage_collection
from tests.upstreams.loopback_server import Heard, head
from tests.upstreams.request_helpers import Instant, run
from toolspeak.config import load
from toolspeak.engine.turn.trace import TracedReply
from toolspeak.runtime.turn import EngineTurn
from toolspeak.upstreams.http.thin_transport import HttpUpstream

TOOL = {
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {"properties": {"city": {"type": "string"}}},
}
_NONCE = re.compile(r"```json action (\w+)")


class General(HttpUpstream):
    """The same, but its requests run in a task, because a subclass may do anything."""


def body(text: str, *, more: str = "") -> bytes:
    encoded = json.dumps(text)
    return (
        f'{{"choices":[{{"message":{{"role":"assistant","content":{encoded}}},"finish_reason":"stop"}}],'
        f'"usage":{{"prompt_tokens":3,"completion_tokens":4}}{more}}}'
    ).encode()


def reply_head(size: int, *headers: str, status: str = "200 OK") -> bytes:
    return head("Content-Type: application/json", f"Content-Length: {size}", *headers, status=status)


Answer = Callable[[Heard, int], Awaitable[None]]


async def whole(heard: Heard, number: int) -> None:
    data = body("It rains.")
    await heard.send(reply_head(len(data)) + data)


async def in_pieces(heard: Heard, number: int) -> None:
    data = reply_head(len(body("It rains."))) + body("It rains.")
    await heard.send(*(data[at : at + 20] for at in range(0, len(data), 20)))


async def call(heard: Heard, number: int) -> None:
    found = _NONCE.search(heard.body.decode())
    nonce = found[1] if found else ""
    data = body(f'```json action {nonce}\n{{"tool": "get_weather", "parameters": {{"city": "Oslo"}}}}\n```')
    await heard.send(reply_head(len(data)) + data)


async def bad_then_whole(heard: Heard, number: int) -> None:
    data = body('```json action\n{"tool": "get_weather", "parameters": {"city"') if number == 0 else body("It rains.")
    await heard.send(reply_head(len(data)) + data)


async def error(heard: Heard, number: int) -> None:
    data = b'{"error":{"message":"no such model","code":"model_not_found"}}'
    await heard.send(reply_head(len(data), status="404 Not Found") + data)


async def busy_then_whole(heard: Heard, number: int) -> None:
    if number == 0:
        await heard.send(reply_head(2, status="503 Busy") + b"{}")
    else:
        await whole(heard, number)


async def not_json(heard: Heard, number: int) -> None:
    await heard.send(reply_head(5) + b"what?")


async def cut_short(heard: Heard, number: int) -> None:
    await heard.send(reply_head(900) + body("It rains."))
    heard.reset()


async def closed_then_whole(heard: Heard, number: int) -> None:
    if number == 0:
        heard.reset()
    else:
        await whole(heard, number)


async def long(heard: Heard, number: int) -> None:
    data = body("It rains. [maybe] " * 6000)
    await heard.send(reply_head(len(data)) + data)


ANSWERS: list[Answer] = [
    whole,
    in_pieces,
    call,
    bad_then_whole,
    error,
    busy_then_whole,
    not_json,
    cut_short,
    closed_then_whole,
    long,
]


class Asked:
    """A server on which each connection can carry many requests, and the client that asks it."""

    def __init__(self, answer: Answer, kind: type[HttpUpstream]) -> None:
        self._answer = answer
        self._kind = kind
        self.bodies: list[bytes] = []
        self.waiting = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                top = await reader.readuntil(b"\r\n\r\n")
                heard = Heard(top, b"", writer)
                heard.body = await reader.readexactly(heard.length)
                self.bodies.append(heard.body)
                # The first answer opens the connection which the later ones find idle.
                await (whole(heard, 0) if len(self.bodies) == 1 else self._answer(heard, len(self.bodies) - 2))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def run(self, work: Callable[[ts.AsyncClient], Awaitable[Any]]) -> Any:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1"
        upstream = self._kind(url, "sk-key", model="m", world=Instant(chance=0.5).world)
        client = ts.AsyncClient(upstream, config=load({}, env={}), probe="off")
        await client.chat("Hello?")
        try:
            return await work(client)
        finally:
            await client.close()
            await upstream.close()
            server.close()


def steady(text: str) -> str:
    """Without the nonce, and without times and ids."""
    for nonce in set(_NONCE.findall(text)):
        text = text.replace(nonce, "NONCE")
    return re.sub(r"\d+\.\d+ s|emulated_\d+|(?<=127.0.0.1):\d+", "", text)


def outcome(result: TracedReply | BaseException) -> object:
    """What a caller sees, without what differs between any two turns."""
    if isinstance(result, TracedReply):
        calls = [(each.name, each.arguments) for each in result.calls]
        trace = steady("\n".join(result.trace().lines()))
        notes = [note.code for note in result.notes]
        return result.text, calls, notes, result.finish_reason, result.usage, result.requests, result.warnings, trace
    reply = getattr(result, "reply", None)
    return type(result), steady(str(result)), outcome(reply) if reply is not None else None


def test_only_plain_http_upstreams_are_asked_by_callbacks(monkeypatch: pytest.MonkeyPatch):
    started: list[bool] = []
    start = EngineTurn.start_now
    monkeypatch.setattr(EngineTurn, "start_now", lambda *given: started.append(start(*given)) or started[-1])
    for kind in (HttpUpstream, General):
        run(Asked(whole, kind).run(lambda client: client.chat("Hello?")))
    assert started == [False, True]  # the first request opens the connection


@pytest.mark.requirement("R-F1")
@check_each("answer", ANSWERS)
def test_both_ways_have_the_same_outcome(answer: Answer):
    for options in (
        {},
        {"tools": [TOOL], "mode": "force"},
        {"timeout": 5.0},
        {"temperature": 0.5, "tool_choice": "auto"},
    ):

        async def ask(client: ts.AsyncClient, options: Any = options) -> object:
            try:
                return outcome(await client.chat([{"role": "user", "content": "And now?"}], **options))
            except ts.ToolspeakError as error:
                return outcome(error)

        seen: list[Any] = []
        for kind in (HttpUpstream, General):
            asked = Asked(answer, kind)
            result = run(asked.run(ask))
            seen.append((result, [steady(each.decode()) for each in asked.bodies]))
        assert seen[0] == seen[1], answer.__name__


@check_each("kind", [HttpUpstream, General])
def test_a_chat_that_waits_can_time_out_and_be_cancelled(kind: type[HttpUpstream]):
    async def silent(heard: Heard, number: int) -> None:
        waiting.set()
        await asyncio.Event().wait() if number > 5 else await heard.send(reply_head(99))

    async def work(client: ts.AsyncClient) -> None:
        with pytest.raises(ts.UpstreamTimeout) as raised:
            await client.chat("Hello?", timeout=0.05)
        assert "the turn exceeded its timeout" in str(raised.value)
        assert raised.value.reply is not None
        task = asyncio.create_task(client.chat("Hello?"))
        waiting.clear()
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def main() -> None:
        nonlocal waiting
        waiting = asyncio.Event()
        await Asked(silent, kind).run(work)

    waiting: asyncio.Event
    run(main())


def test_a_bug_reaches_the_caller(monkeypatch: pytest.MonkeyPatch):
    async def work(client: ts.AsyncClient) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(EngineTurn, "_process_arrived", broken)
        with pytest.raises(RuntimeError, match="a bug"):
            await client.chat("Hello?")

    run(Asked(whole, HttpUpstream).run(work))


def test_nothing_of_a_chat_waits_for_the_garbage_collector():
    async def work(client: ts.AsyncClient) -> list[object]:
        await client.chat("Hello?")
        with without_garbage_collection():
            await client.chat("Hello?", tools=[TOOL], mode="force")
            return [each for each in gc.get_objects() if isinstance(each, EngineTurn)]

    assert run(Asked(whole, HttpUpstream).run(work)) == []


def test_equal_settings_are_checked_once_and_others_apart():
    client = ts.AsyncClient(ts.Scripted(), config=load({}, env={}))
    split = client._split  # pyright: ignore[reportPrivateUsage]
    assert split({"retries": 1, "seed": 4})[0] is split({"retries": 1})[0]
    assert split({"retries": 1, "seed": 4})[1] == {"seed": 4}
    for wrong in (True, [1], "1"):
        with pytest.raises(ts.UsageError):
            split({"retries": wrong})
