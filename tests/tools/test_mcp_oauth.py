"""Logging in to MCP servers: only where a person does, with what that gave kept for its owner and renewed in time."""

from __future__ import annotations

import asyncio
import json
import stat
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
from tests.cli_agent_helpers import alone
from tests.tools.mcp_oauth_server import Place, running
from toolspeak.cli import main
from toolspeak.cli.mcp_login import BrowserLogin
from toolspeak.errors import ToolError, UsageError
from toolspeak.key_value import FileState, MemoryState
from toolspeak.tools.base import CallContext
from toolspeak.tools.mcp.config import McpServer, OAuth, servers_in
from toolspeak.tools.mcp.oauth import Tokens
from toolspeak.tools.mcp.servers import McpServers

pytest.importorskip("mcp", reason="the package mcp is not installed")
pytestmark = pytest.mark.requirement("F5")


@pytest.fixture
def place() -> Iterator[Place]:
    with running() as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Place) -> Path:
    work = alone(tmp_path, monkeypatch)
    (work / "servers.json").write_text(json.dumps({"mcpServers": {"web": {"url": place.url}}}), encoding="utf-8")
    monkeypatch.setattr("webbrowser.open", visit)
    return work


def visit(url: str) -> bool:
    """A browser that goes where it is sent, in a thread of its own as browsers do."""
    threading.Thread(target=lambda: urllib.request.urlopen(url).read()).start()
    return True


def mcp(*arguments: str) -> Result:
    given = ("mcp", *arguments, "--mcp-config", "servers.json")
    return CliRunner(catch_exceptions=False).invoke(main, given, prog_name="toolspeak")


def logins(tmp_path: Path) -> Path:
    return tmp_path / ".local" / "share" / "toolspeak" / "mcp_logins.json"


def started(place: Place, tokens: Tokens | None) -> tuple[list[str], list[str]]:
    """The tools of a server that is started anew, and what was said about it."""

    async def scenario() -> tuple[list[str], list[str]]:
        server = McpServer("web", url=place.url, timeout=20)
        async with McpServers([server], MemoryState(), tokens=tokens) as servers:
            tools = await servers.start()
            for each in tools:
                assert (await each.run({}, CallContext("call_1"))).content == "here"
            return [each.tool.name for each in tools], [note.detail for note in servers.notes]

    return asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_person_logs_in_once_and_every_program_of_theirs_is_let_in(tmp_path: Path, folder: Path, place: Place):
    result = mcp("login", "web")
    assert (result.exit_code, result.stdout) == (0, "Logged in to `web`: 1 tool, not approved yet\n")
    assert f"Log in at: {place.base}/login/page?" in result.stderr
    file = logins(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert place.clients[0]["client_name"] == "toolspeak"
    assert place.clients[0]["redirect_uris"][0].startswith("http://127.0.0.1:")
    assert "1 tool, not approved yet" in mcp("list").stdout
    assert started(place, Tokens(FileState(file))) == (["web__echo"], [])
    assert len(place.clients) == 1
    # Nothing of it is printed.
    assert "access-1" not in result.output
    assert mcp("logout", "web").exit_code == 0
    assert "access-1" not in file.read_text(encoding="utf-8")
    assert mcp("logout", "web").exit_code == 2


@pytest.mark.parametrize("kept", [True, False])
def test_without_a_login_nobody_is_registered_and_the_command_is_named(place: Place, kept: bool):
    tools, (told,) = started(place, Tokens(MemoryState()) if kept else None)
    assert tools == []
    assert "requires a login" in told
    assert "`toolspeak mcp login web --mcp-config FILE`" in told
    assert place.clients == []
    assert all(each.startswith("POST /mcp") or each == "GET /mcp" for each in place.asked)


def test_a_token_that_has_ended_is_renewed_where_it_came_from_also_after_a_restart(
    tmp_path: Path, folder: Path, place: Place
):
    place.lifetime = 5  # less than the time before its end at which a token is renewed
    assert mcp("login", "web").exit_code == 0
    place.valid, place.asked = "nobody's", []
    tokens = Tokens(FileState(logins(tmp_path)))
    assert started(place, tokens) == (["web__echo"], [])
    assert place.asked[0] == "POST /login/give"
    assert not any("clients" in each or "page" in each for each in place.asked)
    # What was renewed is kept, with the next key for renewing.
    assert '"refresh-1"' not in logins(tmp_path).read_text(encoding="utf-8")
    assert started(place, tokens)[0] == ["web__echo"]


def test_a_login_that_has_ended_is_an_error_that_names_the_command(tmp_path: Path, folder: Path, place: Place):
    assert mcp("login", "web").exit_code == 0
    place.valid, place.renews = "nobody's", False
    tools, (told,) = started(place, Tokens(FileState(logins(tmp_path))))
    assert tools == []
    assert "`toolspeak mcp login web --mcp-config FILE`" in told
    # Another login makes it good.
    assert mcp("login", "web").exit_code == 0
    assert started(place, Tokens(FileState(logins(tmp_path))))[0] == ["web__echo"]


def test_a_login_that_ends_in_use_is_an_error_of_the_call(tmp_path: Path, folder: Path, place: Place):
    assert mcp("login", "web").exit_code == 0

    async def scenario() -> None:
        server = McpServer("web", url=place.url, timeout=20)
        async with McpServers([server], MemoryState(), tokens=Tokens(FileState(logins(tmp_path)))) as servers:
            (echo,) = await servers.start()
            place.valid, place.renews = "nobody's", False
            with pytest.raises(ToolError, match="toolspeak mcp login web"):
                await echo.run({}, CallContext("call_1"))

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_login_that_is_refused_says_why_and_keeps_nothing(tmp_path: Path, folder: Path, place: Place):
    place.refuses = "access_denied\x1b[2J"
    result = mcp("login", "web")
    assert result.exit_code == 2
    assert "the login was refused: access_denied\\u{1b}[2J" in result.stderr
    assert not logins(tmp_path).exists()


def test_a_client_that_was_registered_by_hand_is_the_one_that_is_used(folder: Path, place: Place):
    row = {"url": place.url, "oauth": {"clientId": "${CLIENT:-mine}", "callbackPort": 0}}
    (folder / "servers.json").write_text(json.dumps({"mcpServers": {"web": row}}), encoding="utf-8")
    assert mcp("login", "web").exit_code == 0
    assert place.clients == []
    (server,) = servers_in({"mcpServers": {"web": {**row, "oauth": {"clientSecret": "${S}"}}}}, {"S": "secret"})
    assert server.oauth == OAuth(client_secret="secret")


def test_only_servers_of_the_web_want_a_login(folder: Path):
    (folder / "servers.json").write_text('{"mcpServers": {"here": {"command": "x"}}}', encoding="utf-8")
    result = mcp("login", "here")
    assert (result.exit_code, "needs no login" in result.stderr) == (2, True)


# ---- the browser


def waiting(work: Callable[[BrowserLogin], Any], patience: float = 30.0) -> None:
    async def scenario() -> None:
        async with BrowserLogin(0, lambda url: None, lambda url: True, patience) as browser:
            await work(browser)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def get(url: str, data: bytes | None = None) -> int:
    try:
        with urllib.request.urlopen(url, data) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.requirement("R-T9")
def test_only_the_answer_to_the_question_counts():
    async def work(browser: BrowserLogin) -> None:
        early = await asyncio.to_thread(get, f"{browser.redirect}?code=evil&state=")
        await browser.show("https://login.example/page?state=right")
        base = browser.redirect
        knocks = (
            f"{base}?code=evil",
            f"{base}?code=evil&state=wrong",
            f"{base}x?code=evil&state=right",
            f"{base}?state=é",
        )
        statuses = [await asyncio.to_thread(get, url.replace("é", "%C3%A9")) for url in knocks]
        posted = await asyncio.to_thread(get, f"{base}?code=evil&state=right", b"x")
        assert {early, posted, *statuses} == {404}
        assert await asyncio.to_thread(get, f"{base}?code=good&state=right&iss=me") == 200
        assert await asyncio.to_thread(get, f"{base}?code=late&state=right") == 404
        assert tuple(await browser.returned()) == ("good", "right", "me")

    waiting(work)


def test_nobody_is_waited_for_for_ever():
    async def work(browser: BrowserLogin) -> None:
        await browser.show("https://login.example/page?state=right")
        with pytest.raises(UsageError, match="the login timed out"):
            await browser.returned()

    waiting(work, 0.01)


@pytest.mark.requirement("R-T14")
@check_each("url", ["file:///etc/passwd", "javascript:alert(1)", "ssh://host", "-oProxyCommand=x"])
def test_no_browser_is_sent_anywhere_but_to_the_web(url: str):
    async def work(browser: BrowserLogin) -> None:
        with pytest.raises(UsageError, match="not a web page"):
            await browser.show(url)

    waiting(work)


def test_a_port_that_is_taken_is_said():
    async def work(browser: BrowserLogin) -> None:
        port = int(browser.redirect.rpartition(":")[2].partition("/")[0])
        with pytest.raises(UsageError, match="callbackPort"):
            async with BrowserLogin(port, lambda url: None):
                pass

    waiting(work)
