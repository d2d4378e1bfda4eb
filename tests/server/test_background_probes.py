"""The proxy finds out in the background what models can do: for itself, and with nobody's key but its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.server.asgi_client import Answer, ask, run
from tests.simulated_models import Able, model
from toolspeak import Scripted
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.runtime.probe_cache import ProbeStore, ProbeTarget
from toolspeak.runtime.prober import ProbeScheduler
from toolspeak.server.app import App
from toolspeak.server.proxy.upstream_router import Gateway, UpstreamConfig

HERE = "http://127.0.0.1:9/v1"
BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Where is the lamp?"}],
    "tools": [
        {
            "type": "function",
            "function": {"name": "find", "parameters": {"type": "object", "properties": {"item": {"type": "string"}}}},
        }
    ],
}


class Proxy:
    """A proxy to models with known abilities."""

    def __init__(self, *lines: UpstreamConfig) -> None:
        self.known = Capabilities()
        self.store = ProbeStore(MemoryState())
        self.probes = ProbeScheduler(self.known, self.store)
        self.app = App(Gateway(lines, self.known, MemoryState(), b"secret", None, self.probes))

    async def ask(self, **headers: str) -> Answer:
        return await ask(self.app, "POST", "/v1/chat/completions", headers, BODY)

    async def settled(self) -> None:
        while (task := self.probes._task) is not None and not task.done():
            await asyncio.wait([task])


def line(upstream: Scripted, name: str = "near", probe: Any = "", **fields: Any) -> UpstreamConfig:
    settings = Settings(probe=probe)
    fields = {"models": ("m",), **fields}
    return UpstreamConfig(
        name, name, upstream.base_url, "openai_chat", lambda own: upstream, lambda model: settings, **fields
    )


def able(**abilities: Any) -> Scripted:
    return Scripted(model(Able(**abilities)), again=True, base_url=HERE)


def arguments(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [call["function"]["arguments"] for call in answer.json["choices"][0]["message"]["tool_calls"]]


@pytest.mark.requirement("A5", "D5")
def test_a_model_on_this_machine_is_probed_behind_its_first_request():
    async def talk() -> None:
        upstream = able()
        proxy = Proxy(line(upstream))
        first = await proxy.ask()
        assert upstream.requests[0].tools
        await proxy.settled()
        before = len(upstream.requests)
        then = await proxy.ask()
        assert upstream.requests[before].tools
        assert len(upstream.requests) == before + 1
        assert arguments(first) == arguments(then) == ['{"item":"lamp"}']
        assert proxy.store.get(ProbeTarget("near", "m", HERE)) is not None
        await proxy.app.close()

    run(talk())


@pytest.mark.requirement("D5")
def test_a_clients_own_key_pays_for_no_probe():
    async def talk() -> None:
        upstream = able()
        proxy = Proxy(line(upstream, probe="first-use", auth="forward"))
        assert arguments(await proxy.ask(Authorization="Bearer my-own-key"))
        await proxy.settled()
        assert len(upstream.requests) == 1

    run(talk())


def test_a_probe_is_not_answered_by_a_fallback():
    async def talk() -> None:
        first, other = able(native="rejects"), able()
        proxy = Proxy(line(first, fallbacks=("spare",)), line(other, "spare", models=("x",)))
        await proxy.ask()
        await proxy.settled()
        assert other.requests == []
        assert proxy.known.find("near", "m", HERE).profile.capability == "none"

    run(talk())


@pytest.mark.requirement("D5")
def test_at_the_start_those_models_are_probed_that_are_named_and_of_which_it_is_wanted():
    async def talk() -> None:
        wanted, first_use, forwarded, any_name = (able() for _ in range(4))
        proxy = Proxy(
            line(wanted, "a", "startup", models=("m", "n", "o*")),
            line(first_use, "b", "first-use"),
            line(forwarded, "c", "startup", auth="forward"),
            line(any_name, "d", "startup", models=()),
        )
        started = asyncio.Event()
        told = asyncio.Queue[Any]()

        async def send(message: Any) -> None:
            started.set()

        served = asyncio.ensure_future(proxy.app({"type": "lifespan"}, told.get, send))
        told.put_nowait({"type": "lifespan.startup"})
        await started.wait()
        await proxy.settled()
        assert {request.model for request in wanted.requests} == {"m", "n"}
        assert first_use.requests == forwarded.requests == any_name.requests == []
        told.put_nowait({"type": "lifespan.shutdown"})
        await served

    run(talk())


def test_a_server_that_ends_waits_for_no_probe():
    async def talk() -> None:
        begun = asyncio.Event()

        async def hang(request: Any) -> str:
            if len(upstream.requests) > 1:
                begun.set()
                await asyncio.Event().wait()
            return "Hello."

        upstream = Scripted(hang, again=True, base_url=HERE)
        proxy = Proxy(line(upstream))
        await proxy.ask()
        await begun.wait()
        await proxy.app.close()
        assert upstream.cancelled == [1]
        assert proxy.store.all() == []

    run(talk())
