"""Programs that log in to MCP servers by themselves: with the credentials of the configuration, at who gave them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.cli_agent_helpers import alone
from tests.tools.mcp_oauth_server import Place, running
from toolspeak.cli import main
from toolspeak.errors import ConfigError
from toolspeak.key_value import MemoryState
from toolspeak.tools.base import CallContext
from toolspeak.tools.mcp.config import servers_in
from toolspeak.tools.mcp.servers import McpServers

pytest.importorskip("mcp", reason="the package mcp is not installed")
pytestmark = pytest.mark.requirement("F5")


@pytest.fixture
def place() -> Iterator[Place]:
    with running() as made:
        made.program = ("robot", "s3cret")
        yield made


def entry(place: Place, **more: Any) -> dict[str, Any]:
    oauth = {"grant": "client_credentials", "clientId": "robot", "issuer": f"{place.base}/login", **more}
    return {"mcpServers": {"web": {"url": place.url, "timeout": 20, "oauth": oauth}}}


def started(document: dict[str, Any], variables: dict[str, str] | None = None) -> tuple[list[str], list[str]]:
    """The tools that there are without any person, and what was said."""

    async def scenario() -> tuple[list[str], list[str]]:
        async with McpServers(servers_in(document, variables or {}), MemoryState()) as servers:
            tools = await servers.start()
            for each in tools:
                assert (await each.run({}, CallContext("call_1"))).content == "here"
            return [each.tool.name for each in tools], [note.detail for note in servers.notes]

    return asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize("way", ["client_secret_basic", "client_secret_post"])
def test_a_program_with_a_secret_is_let_in_without_a_person(place: Place, way: str):
    document = entry(place, clientSecret="${SECRET}", clientAuth=way)
    assert started(document, {"SECRET": "s3cret"}) == (["web__echo"], [])
    assert (place.number, place.clients) == (1, [])


def test_a_program_with_a_key_signs_for_who_gave_it_and_for_nobody_else(place: Place, tmp_path: Path):
    key = ec.generate_private_key(ec.SECP256R1())
    file = tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def believes(assertion: str) -> bool:
        said = jwt.decode(assertion, key.public_key(), ["ES256"], audience=f"{place.base}/login")
        return (said["iss"], said["sub"]) == ("robot", "robot")

    place.believes = believes
    document = entry(place, privateKeyFile="${FOLDER}/key.pem", signingAlgorithm="ES256")
    assert started(document, {"FOLDER": str(tmp_path)}) == (["web__echo"], [])


def test_a_token_that_ends_is_asked_for_again(place: Place):
    async def scenario() -> None:
        servers = McpServers(servers_in(entry(place, clientSecret="s3cret"), {}), MemoryState())
        async with servers:
            (echo,) = await servers.start()
            place.valid = "another"
            assert (await echo.run({}, CallContext("call_1"))).content == "here"

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert place.number == 2


@pytest.mark.requirement("R-T1")
def test_a_server_that_leads_elsewhere_is_not_shown_the_secret(place: Place):
    with running() as thief:
        thief.program = place.program
        place.elsewhere = f"{thief.base}/login"
        tools, (note,) = started(entry(place, clientSecret="s3cret"))
        assert tools == []
        assert "the MCP server `web` requires a login: the client `robot` did not get a token" in note
        assert "s3cret" not in note
        assert not [asked for asked in thief.asked if asked.startswith("POST")]


def test_a_secret_that_does_not_hold_is_told(place: Place):
    tools, (note,) = started(entry(place, clientSecret="old"))
    assert tools == []
    assert "the client `robot` did not get a token" in note
    assert "check its `oauth` settings" in note


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "cannot be read: no such file"), ("no key", "cannot sign with RS256"), ("\xe9", "not a PEM file")],
)
def test_a_key_that_cannot_be_used_is_told_and_not_shown(place: Place, tmp_path: Path, text: str | None, words: str):
    file = tmp_path / "key.pem"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    tools, (note,) = started(entry(place, privateKeyFile=str(file)))
    assert tools == []
    assert words in note
    assert "no key" not in note


@pytest.mark.parametrize(
    ("oauth", "words"),
    [
        ({"clientId": "", "clientSecret": "x"}, "needs `clientId`"),
        ({"issuer": "", "clientSecret": "x"}, "needs `issuer`"),
        ({}, "needs `clientSecret` or `privateKeyFile`"),
        ({"clientSecret": "x", "privateKeyFile": "y"}, "needs `clientSecret` or `privateKeyFile`"),
        ({"clientSecret": "x", "grant": "password"}, "grant"),
        ({"privateKeyFile": "x", "signingAlgorithm": "none"}, "signingAlgorithm"),
    ],
)
def test_what_is_missing_is_said_when_the_configuration_is_read(place: Place, oauth: dict[str, str], words: str):
    with pytest.raises(ConfigError, match=words):
        servers_in(entry(place, **oauth), {})


def test_no_person_can_log_in_where_the_program_does(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    work = alone(tmp_path, monkeypatch)
    (work / "servers.json").write_text(json.dumps(entry(place, clientSecret="s3cret")), encoding="utf-8")
    given = ("mcp", "login", "web", "--mcp-config", "servers.json")
    told = CliRunner(catch_exceptions=False).invoke(main, given, prog_name="toolspeak")
    assert told.exit_code == 2
    assert "toolspeak logs in to `web` automatically" in told.stderr
