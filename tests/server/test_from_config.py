"""The server as it runs: from a configuration, on a socket, told to read it again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.cases import check_each
from tests.server.asgi_client import HELLO, Parrot, ask, bearer, gateway, line, run
from tests.upstreams.loopback_server import Answer, Heard, Server, always, chunked, head, serving
from toolspeak.config import Config, load, trust
from toolspeak.errors import ConfigError, UsageError
from toolspeak.key_value import FileState, MemoryState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.app import App
from toolspeak.server.http.client_connection import ClientConnection
from toolspeak.server.observe.logs import JsonLogFormatter
from toolspeak.server.process import server as process_server
from toolspeak.server.process.from_config import gateway_from, origin_guard_from, secrets_of
from toolspeak.server.proxy.upstream_router import Gateway
from toolspeak.server.routes import all_routes

CHAT = "/v1/chat/completions"


def says(text: str) -> Answer:
    body = b'{"choices":[{"message":{"content":"%b"},"finish_reason":"stop"}]}' % text.encode()
    return always(head("Content-Type: application/json", f"Content-Length: {len(body)}"), body)


def configured(folder: Path, text: str, **environment: str) -> Config:
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    env = {"HOME": str(folder), "TOOLSPEAK_CONFIG": str(file), **environment}
    return load(env=env, cwd=folder)


async def content(app: App, model: str, headers: dict[str, str] | None = None) -> str:
    answer = await ask(app, "POST", CHAT, headers or {}, {**HELLO, "model": model})
    assert answer.status == 200, answer.body
    return answer.json["choices"][0]["message"]["content"]


async def closing(app: App) -> None:
    await app._gateway.close()  # pyright: ignore[reportPrivateUsage]


# ---- from a configuration


def test_an_upstream_is_reached_through_the_proxy_that_the_environment_names(tmp_path: Path):
    pytest.importorskip("httpx2")

    async def scenario() -> None:
        async with serving(says("through")) as proxy, serving(says("straight")) as straight:
            config = configured(
                tmp_path,
                f"""
                [upstreams.far]
                base_url = "http://far.example/v1"
                models = ["a"]
                [upstreams.near]
                base_url = "{straight.url}"
                models = ["b"]
                """,
                http_proxy=f"http://127.0.0.1:{proxy.port}",
            )
            app = App(gateway_from(config), origin_guard_from(ApiKeys(MemoryState()), "127.0.0.1"))
            assert (await content(app, "a"), await content(app, "b")) == ("through", "straight")
            assert proxy.heard[0].line == "POST http://far.example/v1/chat/completions HTTP/1.1"
            await closing(app)

    run(scenario())


@pytest.mark.requirement("G6")
def test_upstreams_of_the_configuration_are_asked_each_with_its_own_key(tmp_path: Path):
    async def scenario() -> None:
        async with serving(says("near")) as near, serving(says("far")) as far, serving(says("own")) as own:
            (tmp_path / "key").write_text("sk-from-file\n", encoding="utf-8")
            config = configured(
                tmp_path,
                f"""
                api_key = "sk-general-for-the-general-base-url"
                [upstreams.near]
                base_url = "{near.url}"
                models = ["a"]
                [upstreams.far]
                base_url = "{far.url}"
                models = ["b*"]
                api_key_env = "FAR_KEY"
                auth = "check"
                [upstreams.own]
                base_url = "{own.url}"
                auth = "forward"
                api_key_file = "{tmp_path / "key"}"
                models = ["c"]
                [aliases]
                fast = "far:b-small"
                """,
                FAR_KEY="sk-from-env",
            )
            keys = ApiKeys(MemoryState())
            app = App(gateway_from(config), origin_guard_from(keys, "127.0.0.1"))
            anna = bearer(keys.new("anna")[1])
            assert await content(app, "a", bearer("sk-dummy")) == "near"
            assert await content(app, "fast", anna) == "far"
            assert await content(app, "c", bearer("sk-mine")) == "own"
            await closing(app)
        assert "authorization" not in [name.lower() for name, _ in near.heard[0].headers]
        assert far.heard[0].header("authorization") == "Bearer sk-from-env"
        assert far.heard[0].json["model"] == "b-small"
        assert own.heard[0].header("authorization") == "Bearer sk-mine"

    run(scenario())


def test_a_token_of_a_subscription_stays_in_its_header(tmp_path: Path):
    async def scenario() -> None:
        async with serving(always(head("Content-Length: 0", status="401 No"))) as upstream:
            text = f'[upstreams.u]\nbase_url = "{upstream.url}"\nprotocol = "anthropic"\nauth = "forward"\nmodels=["m"]'
            try:
                app = App(gateway_from(configured(tmp_path, text)))
            except UsageError as error:
                pytest.skip(str(error))
            body = {**HELLO, "max_tokens": 5}
            for headers in (bearer("sk-ant-oat01-x"), {"x-api-key": "sk-ant-api-y"}):
                await ask(app, "POST", "/v1/messages", headers, body)
            await ask(app, "POST", CHAT, bearer("sk-ant-api-z"), HELLO)
            await closing(app)
        assert upstream.heard[0].header("authorization") == "Bearer sk-ant-oat01-x"
        assert upstream.heard[1].header("x-api-key") == "sk-ant-api-y"
        assert upstream.heard[2].header("x-api-key") == "sk-ant-api-z"

    run(scenario())


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("shown", ["Basic YW5uYTpwYXNz", "Other name=a, mark=b"])
@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
def test_another_scheme_than_bearer_is_sent_as_it_came(tmp_path: Path, protocol: str, shown: str, path: str):
    async def scenario() -> None:
        async with serving(always(head("Content-Length: 0", status="401 No"))) as upstream:
            text = f'[upstreams.u]\nbase_url = "{upstream.url}"\nprotocol = "{protocol}"\nauth = "forward"'
            app = App(gateway_from(configured(tmp_path, text)))
            await ask(app, "POST", path, {"Authorization": shown}, {**HELLO, "max_tokens": 5})
            await closing(app)
        assert upstream.heard[0].header("authorization") == shown
        assert "x-api-key" not in [name.lower() for name, _ in upstream.heard[0].headers]

    run(scenario())


@pytest.mark.requirement("G6")
def test_fallbacks_and_limits_come_from_the_configuration(tmp_path: Path):
    async def scenario() -> None:
        gone = always(head("Content-Length: 0", status="404 Gone"))
        async with serving(gone) as near, serving(says("far")) as far:
            config = configured(
                tmp_path,
                f"""
                [upstreams.near]
                base_url = "{near.url}"
                models = ["a"]
                fallbacks = ["far:z"]
                [upstreams.far]
                base_url = "{far.url}"
                models = ["b"]
                max_per_minute = 1
                """,
            )
            app = App(gateway_from(config))
            assert await content(app, "a") == "far"
            assert (await ask(app, "POST", CHAT, {}, {**HELLO, "model": "b"})).status == 429
            await closing(app)
        assert (near.heard[0].json["model"], far.heard[0].json["model"]) == ("a", "z")

    run(scenario())


def test_one_upstream_by_flag_takes_any_model_and_no_other_upstream_counts(tmp_path: Path):
    async def scenario() -> None:
        async with serving(says("flagged")) as server:
            config = configured(tmp_path, '[upstreams.x]\nbase_url = "http://127.0.0.1:1/v1"\n[aliases]\na = "x:b"')
            app = App(gateway_from(config, server.url))
            assert await content(app, "whatever") == "flagged"
            await closing(app)
            forwarding = App(gateway_from(config, server.url, "", "forward"))
            assert await content(forwarding, "a", bearer("sk-mine")) == "flagged"
            await closing(forwarding)
            fixed = App(gateway_from(config, server.url, "the-one"))
            assert await content(fixed, "whatever") == "flagged"
            await closing(fixed)
        assert [heard.json["model"] for heard in server.heard] == ["whatever", "a", "the-one"]
        assert server.heard[1].header("authorization") == "Bearer sk-mine"

    run(scenario())


def test_one_model_for_everybody_needs_one_upstream(tmp_path: Path):
    config = configured(tmp_path, '[upstreams.x]\nbase_url = "http://127.0.0.1:1/v1"')
    with pytest.raises(UsageError, match="single upstream"):
        gateway_from(config, "", "m")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('base_url = "http://127.0.0.1:1/v1"\ndialect = "banana"', "banana"),
        ('base_url = "ftp://x"', "base URL"),
        ('base_url = "http://"', "base URL"),
        ('base_url = "not a url"', "base URL"),
        ('base_url = "http://[::1"', "base URL"),
        ('base_url = "http://x:99999/v1"', "base URL"),
        ('base_url = "http://user:pass@x/v1"', "base URL"),
        ('base_url = "http://127.0.0.1:1/v1"\napi_key = "two\\nlines"', "header"),
        ('base_url = "http://127.0.0.1:1/v1"\napi_key = "two\\nlines"\nauth = "check"', "header"),
    ],
)
def test_what_cannot_work_is_said_before_anybody_asks(tmp_path: Path, line: str, why: str):
    config = configured(tmp_path, f"[upstreams.x]\n{line}")
    with pytest.raises(ConfigError, match=why) as caught:
        gateway_from(config)
    assert re.search(r"`x`|\[upstreams\.x\]", str(caught.value))


@pytest.mark.parametrize("text", ['dialect = "banana"', '[models."openai:m"]\ndialect = "banana"'])
def test_a_setting_for_everybody_that_cannot_be_is_said_before_anybody_asks(tmp_path: Path, text: str):
    with pytest.raises(ConfigError, match="banana"):
        gateway_from(configured(tmp_path, text), "http://127.0.0.1:1/v1")


def test_a_plugin_serves_an_upstream_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def factory(**arguments: str) -> Parrot:
        return Parrot(f"plugin with {arguments['api_key']}")

    monkeypatch.setattr("toolspeak.plugins.Plugins.upstream", lambda self, name: factory if name == "mine" else None)
    config = configured(tmp_path, '[upstreams.mine]\nbase_url = "http://mine.test"\napi_key = "k"')
    assert run(content(App(gateway_from(config)), "m")) == "plugin with k"


@pytest.mark.requirement("R-T5")
def test_a_file_of_the_working_directory_names_no_upstream_before_it_is_trusted(tmp_path: Path):
    project = tmp_path / "toolspeak.toml"
    project.write_text('[upstreams.x]\nbase_url = "http://evil.test/v1"\n[aliases]\na = "x:b"', encoding="utf-8")
    env = {"HOME": str(tmp_path), "TOOLSPEAK_BASE_URL": "http://127.0.0.1:1/v1"}
    config = load(env=env, cwd=tmp_path)
    assert config.upstream_names() == ()
    assert config.aliases() == {}
    trust(config.state(), project)
    assert load(env=env, cwd=tmp_path).upstream_names() == ("x",)


@pytest.mark.requirement("R-T1")
def test_no_request_reaches_a_server_that_only_a_request_names(tmp_path: Path):
    async def scenario() -> None:
        async with serving(says("good")) as good, serving(says("evil")) as evil:
            config = configured(tmp_path, f'[upstreams.good]\nbase_url = "{good.url}"\napi_key = "sk-canary"')
            app = App(gateway_from(config))
            for field in ("api_base", "base_url", "proxy", "api_host", "endpoint", "upstream", "url", "host"):
                body = {**HELLO, field: evil.url, "extra_headers": {"Host": evil.url}, "headers": {"Host": evil.url}}
                headers = {f"x-{field.replace('_', '-')}": evil.url, "x-forwarded-host": f"127.0.0.1:{evil.port}"}
                answer = await ask(app, "POST", CHAT, headers, body)
                assert answer.json["choices"][0]["message"]["content"] == "good"
            for model in (evil.url, f"openai:{evil.url}", "../evil", f"good:@127.0.0.1:{evil.port}/"):
                await ask(app, "POST", CHAT, {}, {**HELLO, "model": model})
            await closing(app)
            assert evil.heard == []
            assert all(heard.line == "POST /v1/chat/completions HTTP/1.1" for heard in good.heard)

    run(scenario())


# ---- who may ask


def test_a_server_that_others_can_reach_demands_that_somebody_has_a_key():
    keys = ApiKeys(MemoryState())
    for host in ("0.0.0.0", "::", "192.0.2.1", "gate.example"):
        with pytest.raises(UsageError, match="no API key exists"):
            origin_guard_from(keys, host)
    with pytest.raises(UsageError):
        origin_guard_from(keys, "127.0.0.1", required=True)
    origin_guard_from(keys, "127.0.0.1")


@pytest.mark.requirement("R-T9")
@check_each(("host", "required"), [("0.0.0.0", False), ("127.0.0.1", True)])
def test_a_server_that_demands_a_key_does(host: str, required: bool):
    keys = ApiKeys(MemoryState())
    key = keys.new("anna")[1]
    app = App(gateway(), origin_guard_from(keys, host, required=required))
    assert run(ask(app, "POST", CHAT, {}, HELLO)).status == 401
    assert run(ask(app, "POST", CHAT, bearer(key), HELLO)).status == 200
    named = run(ask(app, "POST", CHAT, bearer(key), HELLO, "gate.example:8788")).status
    assert named == (403 if required else 200)


def test_names_that_are_allowed_are_the_only_ones():
    keys = ApiKeys(MemoryState())
    key = keys.new("anna")[1]
    app = App(gateway(), origin_guard_from(keys, "0.0.0.0", frozenset({"gate.example"})))
    for host, status in (("gate.example", 200), ("evil.test", 403)):
        assert run(ask(app, "POST", CHAT, bearer(key), HELLO, host)).status == status


# ---- on a socket


class Replaced(App):
    """An application that tells when its gateway has been replaced."""

    def __init__(self, first: Gateway) -> None:
        super().__init__(first)
        self.replaced = asyncio.Event()

    async def replace(self, gateway: Gateway) -> None:
        replacing = asyncio.ensure_future(super().replace(gateway))
        await asyncio.sleep(0)
        self.replaced.set()
        await replacing


class Running(process_server.ToolspeakServer):
    """A server on a port of its own."""

    def __init__(self, app: App, remake: Callable[[], Gateway] = gateway, protocol: Any = ClientConnection) -> None:
        config = uvicorn.Config(
            app, "127.0.0.1", 0, http=protocol, ws="none", lifespan="on", log_config=None, access_log=False
        )
        super().__init__(config, app, remake)
        self.up = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @property
    def port(self) -> int:
        return self.servers[0].sockets[0].getsockname()[1]


@contextlib.asynccontextmanager
async def up(server: Running) -> AsyncIterator[Running]:
    serving_it = asyncio.ensure_future(server.serve())
    await server.up.wait()
    try:
        yield server
    finally:
        server.should_exit = True
        await serving_it


async def raw(port: int, data: bytes) -> bytes:
    """What comes back for these bytes, until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await reader.read()
    finally:
        writer.close()


def request_bytes(method: str, target: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


@pytest.mark.requirement("R-T9", "R-T7")
def test_tricks_on_the_wire_get_no_answer_either():
    keys = ApiKeys(MemoryState())
    key = keys.new("anna")[1]

    async def scenario() -> None:
        async with up(Running(App(gateway(), origin_guard_from(keys, "0.0.0.0")))) as server:
            good = request_bytes("GET", "/v1/models", "Host: x", f"Authorization: Bearer {key}")
            assert (await raw(server.port, good)).startswith(b"HTTP/1.1 200")
            for target in (
                "//v1/models",
                "/v1/models/",
                "/%2e/v1/models",
                "/v1/models#/health",
                "/health/../v1/models",
                "http://x/v1/models",
                "/v1/models?key=",
                "/v1%2fmodels",
                "/v1/models%00",
                "*",
            ):
                answer = await raw(server.port, request_bytes("GET", target, "Host: x"))
                assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 400", b"HTTP/1.1 403")), (target, answer)
            smuggled = request_bytes("GET", "/health", "Host: x", "Transfer-Encoding: chunked")
            assert b"HTTP/1.1 200" not in await raw(
                server.port, smuggled + b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
            )
            upgraded = request_bytes("GET", "/v1/responses", "Host: x", "Connection: Upgrade", "Upgrade: websocket")
            assert (await raw(server.port, upgraded)).startswith(b"HTTP/1.1 401")

    run(scenario())


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
def test_sighup_reads_the_configuration_again_and_drops_no_stream(caplog: pytest.LogCaptureFixture):
    async def scenario() -> None:
        old, new = Parrot("old"), Parrot("new")
        old.held = asyncio.Event()
        made: list[Gateway | Exception] = [ConfigError("a setting cannot be"), gateway(line("two", new, models=("m",)))]
        remade = asyncio.Event()
        loop = asyncio.get_running_loop()

        def remake() -> Gateway:
            loop.call_soon_threadsafe(remade.set)
            following = made.pop(0)
            if isinstance(following, Exception):
                raise following
            return following

        app = Replaced(gateway(line("one", old)))
        async with up(Running(app, remake)) as server:
            body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello?"}]}'
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request_bytes("POST", CHAT, "Host: localhost", body=body))
            started = await reader.readuntil(b"old")
            for happened in (remade, app.replaced):
                os.kill(os.getpid(), signal.SIGHUP)
                await happened.wait()
            assert not old.closed.is_set()
            whole = request_bytes("POST", CHAT, "Host: localhost", body=body.replace(b"true", b"false"))
            assert b'"new"' in await raw(server.port, whole)
            old.held.set()
            rest = await reader.read()
            assert b"[DONE]" in rest
            assert started.startswith(b"HTTP/1.1 200")
            writer.close()
            await old.closed.wait()

    caplog.set_level(logging.WARNING)
    run(scenario())
    assert "keeping the previous configuration: a setting cannot be" in caplog.text
    assert "configuration reloaded" in caplog.text


# ---- no key in sight


@pytest.mark.requirement("R-T2")
def test_a_canary_key_is_in_no_answer_record_or_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    canary = "sk-canary-0123456789"

    async def leaks(heard: Heard) -> None:
        said = f'{{"error":{{"message":"bad key {canary} {heard.header("authorization")}"}}}}'.encode()
        await heard.send(head(f"Content-Length: {len(said)}", "Content-Type: application/json", status="401 No"), said)

    async def cut(heard: Heard) -> None:
        said = f'data: {{"error":{{"message":"{canary} is over its quota"}}}}\n\n'.encode()
        await heard.send(head("Content-Type: text/event-stream", "Transfer-Encoding: chunked"), chunked([said]))

    async def scenario(server: Server, seen: list[bytes]) -> None:
        text = f'[upstreams.u]\nbase_url = "{server.url}"\napi_key = "{canary}"\nmodels = ["m"]'
        config = configured(tmp_path, text)
        assert canary in [secret.reveal() for secret in secrets_of(config)]
        keys = ApiKeys(FileState(tmp_path / "keys.json"))
        app = App(gateway_from(config), origin_guard_from(keys, "127.0.0.1"))
        for body in (HELLO, {**HELLO, "stream": True}):
            answer = await ask(app, "POST", CHAT, bearer("sk-dummy"), body)
            told = dict(answer.headers)["x-toolspeak"]
            identifier = told.split('"id":"')[1][:32]
            record = await ask(app, "GET", f"/toolspeak/requests/{identifier}")
            assert record.status == 200
            seen += [answer.body, repr(answer.headers).encode(), record.body]
        for path in ("/metrics", "/version", "/openapi.json", "/v1/models", "/"):
            seen.append((await ask(app, "GET", path)).body)
        await closing(app)

    async def all_of_it() -> bytes:
        seen: list[bytes] = []
        for answer in (leaks, cut):
            async with serving(answer) as server:
                await scenario(server, seen)
        return b"".join(seen)

    caplog.set_level(logging.DEBUG)
    everything = run(all_of_it()) + caplog.text.encode()
    assert b"error" in everything
    assert canary.encode() not in everything
    assert canary not in JsonLogFormatter().format(logging.makeLogRecord({"msg": "?key=%s", "args": (canary,)}))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
def test_a_terminal_that_goes_away_ends_the_server(monkeypatch: pytest.MonkeyPatch):
    async def scenario() -> None:
        monkeypatch.setattr("os.isatty", lambda descriptor: True)
        server = Running(App(gateway()))
        server.reload()
        assert not server.should_exit
        monkeypatch.setattr("os.isatty", lambda descriptor: False)
        server.reload()
        assert server.should_exit

    run(scenario())


@pytest.mark.requirement("R-T6")
def test_no_request_starts_a_process(monkeypatch: pytest.MonkeyPatch):
    started: list[Any] = []
    monkeypatch.setattr("subprocess.Popen.__init__", lambda self, *arguments, **more: started.append(arguments))
    monkeypatch.setattr("os.system", started.append)
    monkeypatch.setattr("asyncio.create_subprocess_exec", lambda *arguments: started.append(arguments))
    monkeypatch.setattr("asyncio.create_subprocess_shell", lambda *arguments: started.append(arguments))
    command = {"command": "touch", "args": ["/tmp/x"], "env": {"A": "b"}, "type": "stdio", "cwd": "/"}
    body = {**HELLO, **command, "max_tokens": 5, "input": "x", "contents": [], "mcp_servers": [command]}
    body |= {"tools": [{"type": "mcp", "server_url": "http://127.0.0.1:1", **command}], "server": command}
    app = App(gateway())
    for method, path in sorted(all_routes()):
        run(ask(app, method, path, {}, body if method == "POST" else b""))
    assert started == []
