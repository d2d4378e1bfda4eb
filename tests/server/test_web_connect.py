"""Connecting a model from the page: how its address is found out, what is checked, and what is never told or reached."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import HELLO, Answer, Parrot, ask, gateway, line, run
from tests.server.live_proxy import service
from tests.test_doctor import CHECKS, checked, document, listing, native, obedient, routed, said
from tests.upstreams.loopback_server import Answer as Service
from tests.upstreams.loopback_server import Heard, Server, serving
from toolspeak.config import Secret
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import UpstreamError, UsageError
from toolspeak.key_value import MemoryState
from toolspeak.runtime.probe_cache import ProbeStore
from toolspeak.runtime.prober import ProbeScheduler
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.proxy.upstream_router import Gateway
from toolspeak.server.web import connect
from toolspeak.upstreams.http.thin_transport import HttpUpstream

pytestmark = pytest.mark.requirement("H5")

KEY = "right"
CANARY = "sk-canary-0123456789"
WEATHER = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


class Desk:
    """An application with a session; its own model is `m` of the upstream `one`."""

    def __init__(self, own: Gateway | None = None, **fields: Any) -> None:
        self.secrets: list[Secret] = []
        self.guard = OriginGuard()
        self.gateway = own or gateway(line("one", Parrot(), models=("m",)))
        self.app = App(self.gateway, self.guard, **fields)
        self.app.keep_secret = self.secrets.append
        sessions = self.guard.access.sessions
        self.cookie = {"Cookie": f"toolspeak_session={sessions.exchange(sessions.new_code())}"}

    async def ask(self, method: str, path: str, body: Any = b"") -> Answer:
        return await ask(self.app, method, path, self.cookie, body)

    async def check(self, **wish: str) -> Any:
        """Start a check, and what was found in the end."""
        begun = await self.ask("POST", "/toolspeak/connection", wish)
        assert begun.status == 200, begun.message
        state = begun.json
        while state["running"]:
            await asyncio.sleep(0)
            state = (await self.ask("GET", "/toolspeak/connection")).json
        return state

    async def use(self) -> Any:
        return (await self.ask("POST", "/toolspeak/connection/use")).json


def found(state: Any) -> dict[str, str]:
    return {each["check"]: each["status"] for each in state["checks"]}


def only(path: str, body: Any, model: Service) -> Service:
    """A service that lists its models at one path only."""

    async def answer(heard: Heard) -> None:
        if not heard.line.startswith("GET"):
            await model(heard)
        elif heard.line.split()[1].partition("?")[0] == path:
            await document(body)(heard)
        else:
            await document({"error": {"message": "no such path"}}, "404 Not Found")(heard)

    return answer


@check_each(
    ("protocol", "path", "listed"),
    [
        ("openai_chat", "/v1/models", {"data": [{"id": "text-embedding-3"}, {"id": "m2"}, {"id": "*"}]}),
        ("ollama", "/api/tags", {"models": [{"name": "text-embedding-3"}, {"name": "m2"}]}),
        ("gemini", "/v1beta/models", {"models": [{"name": "models/text-embedding-3"}, {"name": "models/m2"}]}),
    ],
)
def test_the_protocol_is_found_out_and_a_model_that_chats_is_chosen(protocol: str, path: str, listed: Any):
    async def scenario() -> None:
        desk = Desk()
        async with serving(only(path, listed, service(protocol, native))) as server:
            state = await desk.check(url=f"http://127.0.0.1:{server.port}/")
            assert (state["protocol"], state["model"]) == (protocol, "m2")
            assert state["models"] == ["text-embedding-3", "m2"]
            assert tuple(found(state)) == CHECKS
            assert found(state)["answer"] == "ok"

    run(scenario())


def test_a_model_that_was_connected_answers_clients_and_calls_tools():
    async def scenario() -> None:
        desk = Desk()
        async with serving(routed(obedient, listing("plain", "other"))) as server:
            state = await desk.check(url=f"http://127.0.0.1:{server.port}")
            assert state["model"] == "plain" and set(found(state).values()) <= {"ok", "note"}
            used = await desk.use()
            assert used["model"] == "plain"
            body = {**HELLO, "model": "plain", "tools": WEATHER}
            answer = (await desk.ask("POST", "/v1/chat/completions", body)).json
            assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
            assert {"m", "plain", "other"} <= set((await desk.ask("GET", "/toolspeak/about")).json["models"])
            await desk.app.replace(gateway(line("one", Parrot(), models=("m",))))  # as a reload does
            assert (await desk.ask("POST", "/v1/chat/completions", body)).status == 200
            await desk.app.close()

    run(scenario())


def test_no_name_of_a_model_changes_its_meaning():
    async def scenario() -> None:
        desk = Desk()
        async with serving(routed(obedient, listing("m"))) as server, serving(routed(obedient, listing("m"))) as second:
            url = f"http://127.0.0.1:{server.port}"
            await desk.check(url=url)
            first = await desk.use()
            assert first == {"upstream": f"127.0.0.1-{server.port}", "model": f"127.0.0.1-{server.port}:m"}
            await desk.check(url=url, key="a new key")
            assert await desk.use() == first  # the same address again
            await desk.check(url=f"http://127.0.0.1:{second.port}/v1", provider="llamacpp")
            assert (await desk.use())["upstream"] == "llamacpp"
            await desk.check(url=url, provider="llamacpp")
            assert (await desk.use())["upstream"] == "llamacpp-2"
            assert (await desk.ask("POST", "/v1/chat/completions", HELLO)).json["choices"][0]["message"][
                "content"
            ] == "Hello."
            await desk.app.close()

    run(scenario())


def _open_line(server: Server) -> Gateway:
    """A gateway with one upstream that accepts any name."""
    return gateway(line("one", HttpUpstream(f"{server.url}/v1")))


@check_each(
    ("lists", "name", "used"),
    [
        (listing("m"), "m", "{there}:m"),  # the upstream lists the name
        (listing("m"), "plain", "plain"),  # it lists others
        (document({}, "404 Not Found"), "plain", "{there}:plain"),  # nobody knows what it has
    ],
)
def test_a_name_that_an_upstream_without_configured_models_has_keeps_its_meaning(lists: Service, name: str, used: str):
    async def scenario() -> None:
        async with (
            serving(routed(lambda request: said("I am the first."), lists)) as first,
            serving(routed(obedient, listing(name))) as second,
        ):
            desk = Desk(_open_line(first))
            await desk.check(url=f"http://127.0.0.1:{second.port}")
            assert (await desk.use())["model"] == used.format(there=f"127.0.0.1-{second.port}")
            for _ in range(2):
                answer = (await desk.ask("POST", "/v1/chat/completions", {**HELLO, "model": name})).json
                content = answer["choices"][0]["message"]["content"]
                assert (content == "I am the first.") is (used != name)
                await desk.app.replace(_open_line(first))  # as a reload does
            await desk.app.close()

    run(scenario())


def test_a_name_that_begins_with_that_of_an_upstream_keeps_its_meaning():
    async def scenario() -> None:
        desk = Desk()
        async with serving(routed(obedient, listing("one:m"))) as server:
            await desk.check(url=f"http://127.0.0.1:{server.port}")
            assert (await desk.use())["model"] == f"127.0.0.1-{server.port}:one:m"
            body = {**HELLO, "model": "one:m"}
            answer = (await desk.ask("POST", "/v1/chat/completions", body)).json
            assert answer["choices"][0]["message"]["content"] == "Hello."
            await desk.app.close()

    run(scenario())


@check_each(
    ("method", "protocol"),
    [("/v1/chat/completions", "openai_chat"), ("/v1/models", "openai_chat"), ("/v1/responses", "openai_responses")],
)
def test_the_url_of_an_api_method_leads_to_its_base_url(method: str, protocol: str):
    async def scenario() -> None:
        desk = Desk()
        async with serving(routed(obedient, listing("plain"))) as server:
            url = f"http://127.0.0.1:{server.port}"
            state = await desk.check(url=url + method)
            assert (state["url"], state["protocol"], state["models"]) == (f"{url}/v1", protocol, ["plain"])

    run(scenario())


@check_each(
    ("host", "url"),
    [
        ("127.0.0.1:8788", "http://127.0.0.1:8788"),
        ("127.0.0.1:8788", "http://localhost:8788/v1/chat/completions"),
        ("127.0.0.1:8788", "http://0.0.0.0:8788/v1"),
        ("tools.example", "https://tools.example/v1"),
    ],
)
def test_a_server_does_not_connect_to_itself(host: str, url: str):
    scope = {"server": ("127.0.0.1", 8788), "headers": [(b"host", host.encode())]}
    with pytest.raises(UsageError, match="this is the address of toolspeak itself"):
        connect.refuse_own(url, scope)
    connect.refuse_own("http://127.0.0.1:8789", scope)
    assert run(Desk().ask("POST", "/toolspeak/connection", {"url": "http://localhost:8788"})).status == 400


def test_a_model_that_is_not_listed_is_checked_by_its_name():
    async def scenario() -> None:
        desk = Desk()
        async with serving(routed(obedient, document({}, "404 Not Found"))) as server:
            state = await desk.check(url=f"http://127.0.0.1:{server.port}")
            assert (state["finding"], state["models"], found(state)["model"]) == ("server", [], "fail")
            state = await desk.check(model="plain")
            assert (state["model"], found(state)["answer"]) == ("plain", "ok")
            assert (await desk.use())["model"] == "plain"
            await desk.app.close()

    run(scenario())


@check_each(("settings", "probes"), [(Settings(), True), (Settings(probe="off"), False), (Settings(mode="off"), False)])
def test_a_check_says_whether_using_the_model_probes_it(settings: Settings, probes: bool):
    async def scenario() -> None:
        own, known = gateway(line("one", Parrot(), models=("m",))), Capabilities()
        own.settings, own.probes = (lambda model: settings), ProbeScheduler(known, ProbeStore(MemoryState()))
        desk = Desk(own)
        async with serving(routed(obedient, listing("plain"))) as server:
            assert (await desk.check(url=f"http://127.0.0.1:{server.port}"))["probes"] is probes

    run(scenario())


def test_a_server_with_a_single_model_serves_the_connected_one_by_its_name_only():
    async def scenario() -> None:
        parrot = Parrot()
        desk = Desk(gateway(line("one", parrot, fixed="m")))
        async with serving(routed(obedient, listing("plain"))) as server:
            await desk.check(url=f"http://127.0.0.1:{server.port}")
            await desk.use()
            said = {
                name: (await desk.ask("POST", "/v1/chat/completions", {**HELLO, "model": name})).json
                for name in ("plain", "anything", "m", "x" * 300)
            }
            texts = [each["choices"][0]["message"]["content"] for each in said.values()]
            assert texts == ["Oslo is the capital of Norway.", "Hello.", "Hello.", "Hello."]
            await desk.app.close()

    run(scenario())


@pytest.mark.requirement("R-T1")
def test_a_key_is_used_and_redacted_but_never_told():
    async def scenario() -> None:
        desk = Desk()
        async with serving(checked) as server:
            url = f"http://127.0.0.1:{server.port}"
            wrong = await desk.check(url=url, key=CANARY)
            assert found(wrong)["key"] == "fail"
            assert CANARY not in json.dumps(wrong)
            assert [each.reveal() for each in desk.secrets] == [CANARY]
            good = await desk.check(url=url, key=f" {KEY} ")
            assert set(found(good).values()) == {"ok"} or found(good)["answer"] == "ok"
            again = await desk.check(model="other")  # with the key that the server has
            assert again["model"] == "other" and found(again)["key"] == "ok"
            assert KEY not in {again.get("key"), good.get("key")}

    run(scenario())


@pytest.mark.requirement("R-T3")
@check_each(
    "url",
    [
        "http://169.254.169.254/latest",
        "http://[fd00:ec2::254]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/v1",
        "http://100.100.100.200/",
        "http://user:secret@127.0.0.1/",
        "ftp://127.0.0.1/",
        "",
    ],
)
def test_a_metadata_service_and_an_odd_address_are_refused(url: str):
    answer = run(Desk().ask("POST", "/toolspeak/connection", {"url": url}))
    assert answer.status == 400 and "secret" not in answer.message


@pytest.mark.requirement("R-T3")
def test_a_connection_is_refused_by_its_address_whatever_name_led_there():
    async def scenario() -> None:
        async with serving(routed(obedient)) as server:
            upstream = HttpUpstream(f"http://localhost:{server.port}/v1")
            asked: list[str] = []
            upstream.refuses = lambda address: not asked.append(address)
            with pytest.raises(UpstreamError, match="is not allowed"):
                await upstream.model_names()
            assert asked == ["127.0.0.1"] and not server.heard
            await upstream.close()

    run(scenario())


@pytest.mark.requirement("R-T3")
def test_a_redirect_is_not_followed():
    async def scenario() -> None:
        desk = Desk()
        async with serving(routed(obedient)) as inner:
            there = f"location: http://127.0.0.1:{inner.port}/v1/models"

            async def away(heard: Heard) -> None:
                await heard.send(f"HTTP/1.1 302 Found\r\n{there}\r\ncontent-length: 0\r\n\r\n".encode())

            async with serving(away) as server:
                state = await desk.check(url=f"http://127.0.0.1:{server.port}")
                assert "fail" in found(state).values()
                assert not inner.heard

    run(scenario())


def test_what_cannot_be_reached_is_said_with_what_to_do():
    state = run(Desk().check(url="http://127.0.0.1:9"))
    assert state["finding"] == ""
    failed = next(each for each in state["checks"] if each["status"] == "fail")
    assert failed["check"] == "reachable" and "start the service" in failed["fix"]


@check_each(
    "wish",
    [{"model": "*", "url": "http://127.0.0.1:9"}, {"model": "x" * 300, "url": "http://127.0.0.1:9"}, {"url": 7}],
)
def test_a_request_without_sense_is_refused(wish: Any):
    assert run(Desk().ask("POST", "/toolspeak/connection", wish)).status == 400


def test_nothing_can_be_used_that_was_not_checked():
    assert "no model has been checked" in run(Desk().ask("POST", "/toolspeak/connection/use")).message


def test_a_new_check_ends_the_one_that_runs():
    async def scenario() -> None:
        desk = Desk()
        waiting = asyncio.Event()

        async def silent(heard: Heard) -> None:
            waiting.set()
            await heard.gone.wait()

        async with serving(silent) as slow, serving(routed(obedient)) as server:
            await desk.ask("POST", "/toolspeak/connection", {"url": f"http://127.0.0.1:{slow.port}"})
            await waiting.wait()
            state = await desk.check(url=f"http://127.0.0.1:{server.port}")
            assert str(server.port) in state["url"] and found(state)["answer"] == "ok"

    run(scenario())


def test_a_fault_of_toolspeak_itself_is_told_without_details(monkeypatch: pytest.MonkeyPatch):
    async def broken(addresses: Any) -> Any:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(connect, "detect", broken)
    state = run(Desk().check(url="http://127.0.0.1:9"))
    assert state["checks"][-1]["says"] == "internal error in toolspeak; see its log"


def test_local_servers_are_found_on_their_ports(monkeypatch: pytest.MonkeyPatch):
    async def scenario() -> None:
        desk = Desk()
        async with serving(routed(obedient)) as vllm, serving(routed(obedient)) as own:
            monkeypatch.setattr(connect, "LOCAL_SERVERS", _ports({"vllm": vllm, "llamacpp": own}))
            (listed,) = await connect.find_local(desk.gateway.capabilities, own.port)
            assert (listed.provider, listed.models) == ("vllm", ("m", "other"))
            state = (await desk.ask("GET", "/toolspeak/connection?find=1")).json
            assert {each["provider"] for each in state["local"]} == {"vllm", "llamacpp"}
            assert {"provider": "vllm", "url": vllm.url, "models": ["m", "other"]} in state["local"]

    run(scenario())


def _ports(servers: dict[str, Server]) -> dict[str, str]:
    nobody = {"http://127.0.0.1:9/v1": "lmstudio"}
    return {server.url: name for name, server in servers.items()} | nobody


@pytest.mark.requirement("R-T6")
def test_only_an_administrator_connects_and_names_no_command():
    for method, path in (("GET", "connection"), ("POST", "connection"), ("POST", "connection/use"), ("GET", "clients")):
        assert run(ask(Desk().app, method, f"/toolspeak/{path}", body={"url": "http://127.0.0.1:9"})).status == 401
    assert not {"command", "args", "env"} & set(connect._Wish.__struct_fields__)


def test_a_server_with_several_workers_changes_nothing_and_says_what_to_configure(tmp_path: Path):
    async def scenario() -> None:
        desk = Desk()
        await desk.app.join_workers(tmp_path, 0)
        assert (await desk.ask("GET", "/toolspeak/about")).json["workers"] is True
        answer = await desk.ask("POST", "/toolspeak/connection", {"url": "http://127.0.0.1:9"})
        assert answer.status == 400 and "configuration" in answer.message
        default = await desk.ask("POST", "/toolspeak/default", {"model": "m", "settings": {"mode": "off"}})
        assert default.json == {"model": "one:m", "changed": False}
        (profile,) = (await desk.ask("GET", "/toolspeak/models")).json["models"]
        assert (profile["upstream"], profile["mode"]) == ("one", "auto")
        await desk.app.close()

    run(scenario())


def test_every_known_client_is_told_how_to_come_here():
    told = run(Desk().ask("GET", "/toolspeak/clients?model=plain")).json
    assert told["codex"]["title"] and told["openai"]["env"]["OPENAI_BASE_URL"] == "http://127.0.0.1:8788/v1"
    assert "plain" in json.dumps(told["codex"])
    assert run(Desk().ask("GET", "/toolspeak/clients?model=a%22b")).status == 400
