"""The real server with its web page, in a thread, with a scripted model on the loopback interface as upstream.

The model answers by what the last question says: a word of `ANSWERS` chooses the answer. `linger` begins an answer that
never ends. Everything else is answered in one sentence.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from tests.server.live_proxy import cut_text, head, reached, service, uvicorn_config
from tests.upstreams.loopback_server import Answer, Heard, chunked, serving
from toolspeak.core.events import Event, Finish, TextDelta, UsageSeen
from toolspeak.core.types import Request, Usage
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.probe_results import ProbeResult
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.runtime.learning import TenantUse, UseStore
from toolspeak.runtime.probe_cache import ProbeStore, ProbeTarget
from toolspeak.runtime.prober import ProbeScheduler
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access
from toolspeak.server.access.login_sessions import link
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.proxy.tool_loop.loop import LoopTools
from toolspeak.server.proxy.upstream_router import Gateway, UpstreamConfig

#: A test that hangs fails after this.
PATIENCE = 30.0
MODELS = ("small-model", "other-model")
PROTOCOL = "openai_chat"

REFUSAL = "I'm sorry, but I don't have access to any tools, so I cannot check the time."
EXAMPLE = (
    'A call looks like this:\n\n```json\n{"tool": "clock", "parameters": {}}\n```\n\nNow you know. '
    'Somebody might write <tool_call>{"name": "clocks", "arguments": {}}</tool_call> as well.'
)
MARKDOWN = """# A heading

Some **bold** and *slanted* words, `code`, and a [link](https://example.com/).

- one
- two

| a | b |
|---|---|
| 1 | 2 |

```python
print("hello")
```
"""


class Script:
    """The model. `asked` is what came to it."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        #: Answers that a test adds: a word of the question, and the text.
        self.more: dict[str, str] = {"example": EXAMPLE, "markdown": MARKDOWN}
        #: Calls that it makes: a word of the question, the tool and what it is given.
        self.calls: dict[str, tuple[str, object]] = {}
        self._refusals = 0

    def __call__(self, request: Request) -> list[Event]:
        self.asked.append(request)
        return _said(self._text(request))

    def _text(self, request: Request) -> str:
        question = next((message.text for message in reversed(request.messages) if message.role == "user"), "")
        said = "\n".join(message.text for message in request.messages)
        mark = _mark(said)
        for word, text in self.more.items():
            if word in question:
                return text
        for word, (name, given) in self.calls.items():
            if word in said and not _answered(said):
                return _call(mark, name, given)
        if "refuse" in said:
            self._refusals += 1  # asked again, it gives in
            return REFUSAL if self._refusals % 2 else _call(mark, "clock", {"zone": "Europe/Oslo"})
        if _answered(said):
            return "It is a quarter past noon in Oslo, and the sum is 391."
        if "repair" in question:
            return f'Let me see.\n```{mark}\n{{"tool": "clock", "parameters": {{"zone": "Europe/Oslo",}}}}\n```'
        if "time" in question:
            clock = _call(mark, "clock", {"zone": "Europe/Oslo"})
            return f"I look it up.\n{clock}\n{_call(mark, 'calculator', {'expression': '17 * 23'})}"
        return "There is nothing to look up."


def _answered(said: str) -> bool:
    """Whether results of tools stand in the conversation."""
    return bool(re.search(r"\b20\d\d at \d|^391$|GMT|UTC|sunny|error: ", said, re.MULTILINE))


def _mark(said: str) -> str:
    nonces = re.findall(r"json action ([a-z0-9]+)", said)
    return f"json action {nonces[-1]}" if nonces else "json action"


def _call(mark: str, name: str, given: object) -> str:
    return f"```{mark}\n{json.dumps({'tool': name, 'parameters': given})}\n```"


def _said(text: str) -> list[Event]:
    size = 7 if len(text) < 20_000 else 4096
    return [*(TextDelta(piece) for piece in cut_text(text, size)), UsageSeen(Usage(120, 30)), Finish("stop")]


def _answering(script: Script) -> Answer:
    whole = service(PROTOCOL, script)
    beginning = (
        b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"It takes a while, and then "}}]}\n\n'
    )

    async def answer(heard: Heard) -> None:
        if b"linger" in heard.body and b'"stream":true' in heard.body.replace(b" ", b""):
            opening = head("content-type: text/event-stream", "transfer-encoding: chunked")
            await heard.send(opening, chunked([beginning], last=False))
            await heard.gone.wait()
            return
        await whole(heard)

    return answer


class Served:
    """A server that runs."""

    def __init__(self, app: App, guard: OriginGuard, script: Script, port: int) -> None:
        self.app = app
        self.script = script
        self.url = f"http://127.0.0.1:{port}"
        self._guard = guard

    def link(self) -> str:
        """What the server would print: good for one session."""
        return link(self.url, self._guard.access.sessions.new_code())

    def session(self) -> str:
        """A session, as its cookie says it."""
        return self._guard.access.sessions.exchange(self._guard.access.sessions.new_code())


def _app(
    base: Callable[[], object],
    guard: OriginGuard,
    settings: Settings,
    store: str,
    loops: Mapping[str, LoopTools],
    verdict: ProbeResult | None,
) -> App:
    upstream = base()
    line = UpstreamConfig(
        "scripted",
        "scripted",
        upstream.base_url,  # type: ignore[attr-defined]
        PROTOCOL,
        connect=lambda own: upstream,  # type: ignore[arg-type, return-value]
        settings=lambda model: settings,
        models=MODELS,
    )
    known = Capabilities()
    found = ProbeStore(MemoryState())
    for model in MODELS if verdict is not None else ():
        place = ProbeTarget("scripted", model, upstream.base_url)  # type: ignore[attr-defined]
        found.record_measurement(place, verdict or ProbeResult())
        evidence = verdict.findings[0].evidence if verdict is not None else ""
        use = TenantUse({"leaks": True}, evidence, seen_at=found.clock(), turns=1, marks={evidence[:20]: 1})
        UseStore(found.state, found.clock).put(place, "", use)
    probes = ProbeScheduler(known, found)
    gateway = Gateway([line], known, MemoryState(), b"a secret", probes=probes, loops=loops)
    return App(gateway, guard, store=store)


@contextmanager
def served(
    settings: Settings | None = None,
    store: str = "",
    loops: Callable[[], Mapping[str, LoopTools]] = dict,
    keys: ApiKeys | None = None,
    verdict: ProbeResult | None = None,
    workers: Path | None = None,
) -> Iterator[Served]:
    """Model and server, both on free ports.

    `loops` makes what the server itself runs, in its own thread; `verdict` is what a probe has found of each model.
    With `workers`, the folder where workers meet, the server is one of several.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    ready, servers, failures = threading.Event(), list[uvicorn.Server](), list[BaseException]()
    guard = OriginGuard(Access(keys, required=False)) if keys is not None else OriginGuard()
    script, apps = Script(), list[App]()

    async def run() -> None:
        async with serving(_answering(script)) as upstream:
            how = settings or Settings(mode="force", marks="fixed")
            app = _app(lambda: reached(upstream, PROTOCOL), guard, how, store, loops(), verdict)
            apps.append(app)
            if workers is not None:
                await app.join_workers(workers, 0)
            server = uvicorn.Server(uvicorn_config(app))
            servers.append(server)
            asyncio.get_running_loop().call_soon(ready.set)
            await server.serve(sockets=[listening])

    def play() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failures.append(error)
            ready.set()

    thread = threading.Thread(target=play)
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield Served(apps[0], guard, script, listening.getsockname()[1])
    finally:
        if servers:
            servers[0].should_exit = True
        thread.join(PATIENCE)
        listening.close()
    assert not failures and not thread.is_alive(), failures
