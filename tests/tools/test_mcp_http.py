"""MCP servers made with the official SDK: over stdio and over HTTP; and where a URL may lead."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from tests.cases import check_each
from toolspeak.core.types import Media
from toolspeak.errors import ToolError
from toolspeak.key_value import MemoryState
from toolspeak.tools.base import CallContext, Executable, ToolOutput, call_key
from toolspeak.tools.mcp import connection as mcp_connection
from toolspeak.tools.mcp.config import McpServer
from toolspeak.tools.mcp.connection import IDEMPOTENCY_KEY, allowed_hosts, idempotency_header
from toolspeak.tools.mcp.servers import McpServers

pytest.importorskip("mcp", reason="the package mcp is not installed")
pytestmark = pytest.mark.requirement("F5")

SDK = str(Path(__file__).parent / "mcp_sdk_server.py")


@pytest.fixture(scope="module", params=["stdio", "http", "http-json"])
def server(request: pytest.FixtureRequest) -> Iterator[McpServer]:
    if request.param == "stdio":
        yield McpServer("sdk", command=sys.executable, args=("-I", SDK, "stdio"))
        return
    with subprocess.Popen([sys.executable, "-I", SDK, request.param], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield McpServer("sdk", url=f"http://127.0.0.1:{port}/mcp")
        finally:
            process.kill()


def test_a_server_of_the_official_sdk_is_used(server: McpServer, monkeypatch: pytest.MonkeyPatch):
    heard: list[str] = []

    async def scenario() -> None:
        async with McpServers([server], MemoryState()) as servers:
            tools = {each.tool.name: each for each in await servers.start()}
            assert servers.notes == []
            assert sorted(tools) == ["sdk__add", "sdk__fail", "sdk__lines", "sdk__picture", "sdk__slowly"]
            assert tools["sdk__add"].tool.description == "Add two numbers."
            # Without the user's trust, the server's own hint that a tool changes nothing does not count.
            assert tools["sdk__slowly"].tool.side_effects
            assert (await run(tools["sdk__add"], a=1, b=2)).content == "3"
            failed = await run(tools["sdk__fail"])
            assert failed.error
            drawn = await run(tools["sdk__picture"])
            assert drawn == ToolOutput("", parts=(Media("image", "data:image/png;base64,iVBORw=="),))
            slowly = await tools["sdk__slowly"].run({}, CallContext(emit=heard.append))
            assert slowly.content == "whole"
            several = await asyncio.gather(*(run(tools["sdk__add"], a=at, b=at) for at in range(20)))
            assert [each.content for each in several] == [str(2 * at) for at in range(20)]

    asyncio.run(asyncio.wait_for(scenario(), 120))
    # An answer as one JSON document has no place for progress.
    assert heard in (["half\n"], [])


@pytest.mark.requirement("F10", "R-T14")
def test_the_read_only_hints_of_a_trusted_server_count(server: McpServer):
    async def scenario() -> None:
        trusted = msgspec.structs.replace(server, trusted=True)
        async with McpServers([trusted], MemoryState()) as servers:
            tools = {each.tool.name: each.tool for each in await servers.start()}
        assert (tools["sdk__slowly"].read_only, tools["sdk__slowly"].side_effects) == (True, False)
        assert (tools["sdk__add"].read_only, tools["sdk__add"].side_effects) == (False, True)

    asyncio.run(asyncio.wait_for(scenario(), 120))


async def run(tool: Executable, **arguments: int) -> ToolOutput:
    return await tool.run(arguments, CallContext("call_1"))


# ---- where a URL may lead


class Trap(BaseHTTPRequestHandler):
    """Answers everything, and counts."""

    hits = 0
    answer = b""
    status = 200
    where = ""

    def do_POST(self) -> None:
        type(self).hits += 1
        self.send_response(self.status)
        self.send_header("content-type", "application/json")
        if self.where:
            self.send_header("location", self.where)
        self.end_headers()
        self.wfile.write(self.answer)

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def trap() -> Iterator[tuple[type[Trap], int]]:
    handler = type("Trap", (Trap,), {"hits": 0})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield handler, server.server_address[1]
        finally:
            server.shutdown()


async def leads_here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def problems(server: McpServer) -> list[str]:
    async def scenario() -> list[str]:
        async with McpServers([server], MemoryState(), resolver=leads_here) as servers:
            assert await servers.start() == []
            return [note.detail for note in servers.notes]

    return asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.requirement("R-T3")
@pytest.mark.parametrize("host", ["mcp.example.com", "169.254.169.254", "10.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0"])
def test_a_url_that_leads_into_an_inner_network_is_not_asked(trap: tuple[type[Trap], int], host: str):
    handler, port = trap
    (problem,) = problems(McpServer("inner", url=f"http://{host}:{port}/mcp"))
    assert "the URL leads to an internal network" in problem
    assert handler.hits == 0


@pytest.mark.requirement("R-T3")
def test_an_inner_host_that_the_configuration_names_is_asked(trap: tuple[type[Trap], int]):
    handler, port = trap
    problems(McpServer("inner", url=f"http://mcp.example.com:{port}/mcp", allow=("mcp.example.com",)))
    assert handler.hits > 0
    assert allowed_hosts(McpServer("a", url="http://localhost:1/x")) == ("localhost",)
    assert allowed_hosts(McpServer("a", url="http://LOCALHOST:1/x", allow=("b",))) == ("b", "localhost")
    assert allowed_hosts(McpServer("a", url="http://10.0.0.1/x")) == ()


@pytest.mark.requirement("R-T3")
def test_a_redirect_elsewhere_is_not_followed(trap: tuple[type[Trap], int]):
    handler, port = trap
    handler.status, handler.where = 307, f"http://localhost:{port}/elsewhere"
    before = problems(McpServer("moved", url=f"http://127.0.0.1:{port}/mcp"))
    assert before
    handler.status, handler.where = 307, "http://169.254.169.254/latest/meta-data"
    assert problems(McpServer("moved", url=f"http://127.0.0.1:{port}/mcp"))


@pytest.mark.requirement("R-F33")
@pytest.mark.parametrize(
    ("status", "answer"), [(200, b"{not json"), (200, b""), (500, b"oops"), (404, b""), (401, b"")]
)
def test_a_server_that_answers_nonsense_is_left_out(trap: tuple[type[Trap], int], status: int, answer: bytes):
    handler, port = trap
    handler.status, handler.answer = status, answer
    (problem,) = problems(McpServer("odd", url=f"http://127.0.0.1:{port}/mcp", start_timeout=20))
    assert problem.startswith("the MCP server `odd`")


@pytest.mark.requirement("R-F33")
def test_an_answer_without_end_is_broken_off(trap: tuple[type[Trap], int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mcp_connection, "MAX_BODY_BYTES", 1000)
    handler, port = trap
    handler.answer = b" " * 100_000
    (problem,) = problems(McpServer("long", url=f"http://127.0.0.1:{port}/mcp"))
    assert problem.startswith("the MCP server `long`")


@pytest.mark.requirement("R-F33")
def test_nobody_there_is_told():
    (problem,) = problems(McpServer("gone", url="http://127.0.0.1:9/mcp"))
    assert problem.startswith("the MCP server `gone`")


class Session(BaseHTTPRequestHandler):
    """A small server that forgets its sessions when it is told to."""

    protocol_version = "HTTP/1.1"
    session = "one"
    starts = 0
    keys: ClassVar[list[tuple[str, str | None, str | None]]] = []

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        kind, method = type(self), message.get("method")
        meta = message.get("params", {}).get("_meta", {})
        kind.keys.append((str(method), meta.get(IDEMPOTENCY_KEY), self.headers["idempotency-key"]))
        if method == "initialize":
            kind.starts += 1
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        else:
            result = {"content": [{"type": "text", "text": "here"}]}
        if method == "server/discover" or (method != "initialize" and self.headers["mcp-session-id"] != kind.session):
            self.answer(404, b"")
        elif "id" not in message:
            self.answer(202, b"")
        else:
            self.answer(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def do_GET(self) -> None:
        self.answer(405, b"")

    do_DELETE = do_GET

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("mcp-session-id", self.session)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.requirement("R-F33")
def test_a_session_that_the_server_has_forgotten_is_begun_again():
    handler = type("Session", (Session,), {})
    clock = [100.0]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        async def scenario() -> None:
            spec = McpServer("web", url=f"http://127.0.0.1:{server.server_address[1]}/mcp", timeout=20)
            async with McpServers([spec], MemoryState(), clock=lambda: clock[0]) as servers:
                (echo,) = await servers.start()
                assert (await run(echo)).content == "here"
                handler.session = "two"
                with pytest.raises(ToolError, match="the MCP server `web` failed during the call of `echo`"):
                    await run(echo)
                with pytest.raises(ToolError, match="is started again in"):
                    await run(echo)
                clock[0] += 1
                assert (await run(echo)).content == "here"

        asyncio.run(asyncio.wait_for(scenario(), 60))
        server.shutdown()
    assert handler.starts == 2


@pytest.mark.requirement("R-T14")
def test_a_server_that_is_reached_safely_leads_nobody_to_where_others_read_along():
    async def scenario() -> None:
        async with mcp_connection.guarded_client(McpServer("web", url="https://mcp.example.com/mcp")) as client:
            with pytest.raises(ToolError, match="leads from https to http, which is not encrypted"):
                await client.post("http://login.example.com/token", data={"code": "secret"})

    asyncio.run(scenario())


@pytest.mark.requirement("R-F37")
def test_the_key_of_a_call_goes_along_with_it_and_with_nothing_else():
    handler = type("Session", (Session,), {"keys": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        async def scenario() -> None:
            spec = McpServer("web", url=f"http://127.0.0.1:{server.server_address[1]}/mcp", timeout=20)
            async with McpServers([spec], MemoryState()) as servers:
                (echo,) = await servers.start()
                await echo.run({}, CallContext("call_1", call_key("session", "call_1")))
                await echo.run({}, CallContext("call_2"))

        asyncio.run(asyncio.wait_for(scenario(), 60))
        server.shutdown()
    key = call_key("session", "call_1")
    calls = [(sent, header) for method, sent, header in handler.keys if method == "tools/call"]
    assert calls == [(key, f'"{key}"'), (None, None)]
    assert all((sent, header) == (None, None) for method, sent, header in handler.keys if method != "tools/call")


@check_each(
    "body",
    [
        b"",
        b'{"params": {"text": "toolspeak/idempotency-key"}}',
        b'{"params": {"_meta": {"toolspeak/idempotency-key": 7}}}',
        b'{"params": {"_meta": {"toolspeak/idempotency-key": "a\\r\\nX-Other: b"}}}',
        b'{"params": ["toolspeak/idempotency-key"',
    ],
)
def test_nothing_else_becomes_a_header(body: bytes):
    assert idempotency_header(body) == {}


def test_a_key_is_short_and_nobody_elses_whatever_the_ids_are():
    keys = {call_key(*parts) for parts in (("a", "b/c"), ("a/b", "c"), ("a", "b", "c"), ("", "x" * 10_000))}
    assert len(keys) == 4
    assert all(len(key) == 32 and key.isalnum() for key in keys)


@pytest.mark.requirement("R-F33")
def test_a_server_that_goes_away_over_http_is_an_error_of_the_call():
    with subprocess.Popen([sys.executable, "-I", SDK, "http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        clock = [100.0]

        async def scenario() -> None:
            server = McpServer("sdk", url=f"http://127.0.0.1:{port}/mcp", timeout=20)
            async with McpServers([server], MemoryState(), clock=lambda: clock[0]) as servers:
                tools = {each.tool.name: each for each in await servers.start()}
                process.kill()
                process.wait()
                for _ in range(2):
                    with pytest.raises(ToolError, match=r"the MCP server `sdk` (ended|failed|cannot be reached)"):
                        await run(tools["sdk__add"], a=1, b=2)
                    clock[0] += 60

        asyncio.run(asyncio.wait_for(scenario(), 60))
