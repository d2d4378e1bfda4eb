"""What a request held is let go with its end: nothing of it waits for the garbage collector, which comes rarely here."""

from __future__ import annotations

import asyncio
import gc

from tests.server.asgi_client import run
from tests.server.protocol_clients import SPEAKERS
from tests.server.scripted_peers import END, OFTEN, Script, scripted, talker, words
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

    gc.collect()
    gc.disable()
    try:
        assert run(talk()) == []
    finally:
        gc.enable()
