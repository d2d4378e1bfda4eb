"""What a request held is let go with its end: nothing of it waits for the garbage collector, which comes rarely here."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

from tests.cases import check_each, size, without_garbage_collection
from tests.server.asgi_client import run
from tests.server.protocol_clients import SPEAKERS
from tests.server.scripted_peers import END, OFTEN, Script, scripted, talker, words
from tests.server.test_fast_exchange import Proxy
from tests.server.test_recipes import CALLED, RESULT, USER, KnownCallers, ask
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.server.proxy.exchange import Exchange


def test_a_stream_that_was_watched_over_is_let_go_at_its_end():
    async def talk() -> list[object]:
        more = asyncio.Event()
        script = Script(words("The weather is fine. " * 20), more, words("Take a walk."), END)
        client = talker(scripted(script, keep_alive=OFTEN), SPEAKERS[0])
        await client.hears(lambda body: body.endswith(b": keep-alive\n\n"))  # so somebody watches over it
        more.set()
        await client.task
        del client
        for _ in range(5):  # who watched ends
            await asyncio.sleep(0)
        return [each for each in gc.get_objects() if isinstance(each, Exchange)]

    with without_garbage_collection():
        assert run(talk()) == []


#: How many requests are sent, and the size of what differs in them: just below and above the largest that caches keep.
REQUESTS, KEPT, TOO_LARGE = 80, 200_000, 280_000


def tools(text: str) -> list[dict[str, Any]]:
    half = {"type": "object", "$comment": text[: len(text) // 2]}
    return [{"type": "function", "function": {"name": name, "parameters": half}} for name in ("f", "g")]


def image(text: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text}"}}


#: What a client may send anew with each request, in fields of the body or in headers; and the megabytes that caches
#: may take.
LARGE: dict[str, tuple[Callable[[str], dict[str, Any]], Callable[[str], str], float]] = {
    "tools": (lambda text: {"tools": tools(text)}, lambda text: "", 32),
    "options": (lambda text: {"metadata": {"x": text}}, lambda text: "", 9),
    "a model": (lambda text: {"model": text}, lambda text: "", 9),
    "a head": (lambda text: {}, lambda text: f"tracestate: {text[:30_000]}\r\n", 1),
    "an image": (
        lambda text: {"messages": [{**USER, "content": [image(text)]}, CALLED, RESULT]},
        lambda text: "",
        12,
    ),
}


@check_each("name", LARGE)
@check_each("mode", ["off", "force"])
@check_each("size", size([TOO_LARGE], [KEPT, TOO_LARGE]))
def test_large_values_that_differ_in_each_request_take_a_bounded_memory(name: str, mode: Any, size: int):
    fields, headers, megabytes = LARGE[name]

    async def taken() -> float:
        proxy = Proxy(KnownCallers, Settings(mode=mode))
        proxy.app._recorder, proxy.app._gateway._fixed = None, "m"
        proxy.app._gateway._memory = MemoryState(max_values=1)
        await ask(proxy, {"model": "m", "messages": [USER]})
        before = tracemalloc.get_traced_memory()[0]
        for number in range(REQUESTS):
            text = f"{number:04}" * (size // 4)
            body = {"model": "m", "messages": [USER], **fields(text)}
            assert b"Fine." in (await ask(proxy, body, headers=headers(text)))[1]
        return (tracemalloc.get_traced_memory()[0] - before) / 2**20

    tracemalloc.start()
    try:
        assert asyncio.run(taken()) < megabytes
    finally:
        tracemalloc.stop()
