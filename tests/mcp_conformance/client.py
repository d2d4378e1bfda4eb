"""The client that the conformance suite watches: toolspeak's own, told to use every tool that it finds.

Started by the suite with the URL of its server as the last argument, and with what a scenario has prepared in the
environment. Where a login is wanted, somebody is played whose browser follows every page that it is shown.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2

from toolspeak.core.types import JSONObject, JSONValue
from toolspeak.key_value import MemoryState
from toolspeak.tools.base import CallContext
from toolspeak.tools.mcp.config import McpServer, OAuth
from toolspeak.tools.mcp.oauth import LoginCallback, Tokens
from toolspeak.tools.mcp.servers import McpServers

SAMPLES: dict[str, JSONValue] = {
    "number": 5,
    "integer": 5,
    "string": "text",
    "boolean": True,
    "array": [],
    "object": {},
}


#: What the suite expects as the description of the client, where its server takes one.
DESCRIBED = "https://conformance-test.local/client-metadata.json"


class Person:
    """Somebody who agrees to everything."""

    redirect = "http://127.0.0.1:41999/callback"

    def __init__(self) -> None:
        self._location = ""

    async def show(self, url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=False) as browser:
            self._location = (await browser.get(url)).headers["location"]

    async def returned(self) -> LoginCallback:
        found = {name: values[0] for name, values in parse_qs(urlsplit(self._location).query).items()}
        return LoginCallback(found["code"], found["state"], found.get("iss"))


def server(url: str, folder: str) -> McpServer:
    prepared = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    client, secret = prepared.get("client_id", ""), prepared.get("client_secret", "")
    if not str(prepared.get("name", "")).startswith("auth/client-credentials"):
        oauth = OAuth(client_id=client, client_secret=secret, client_metadata_url=DESCRIBED)
        return McpServer("suite", url=url, oauth=oauth)
    key = Path(folder, "key.pem")
    key.write_text(prepared.get("private_key_pem", ""), encoding="ascii")
    oauth = OAuth(
        grant="client_credentials",
        client_id=client,
        client_secret=secret,
        private_key_file="" if secret else str(key),
        signing_algorithm=prepared.get("signing_algorithm", "RS256"),
        issuer=issuer_of(url),
    )
    return McpServer("suite", url=url, oauth=oauth)


def issuer_of(url: str) -> str:
    """Who gives credentials for a server: what a person would have been told along with them."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    return httpx2.get(place).raise_for_status().json()["authorization_servers"][0]


async def main(url: str, folder: str) -> int:
    state = MemoryState()
    async with McpServers([server(url, folder)], state, tokens=Tokens(state), login=Person()) as servers:
        tools = await servers.start()
        for each in tools:
            output = await each.run(sample(each.tool.parameters), CallContext("call_1"))
            sys.stdout.write(f"{each.tool.name}: {output.content}\n")
        for note in servers.notes:
            sys.stderr.write(f"{note.code}: {note.detail}\n")
        return 1 if servers.notes else 0


def sample(schema: JSONObject) -> JSONObject:
    """Arguments that fit."""
    properties = schema.get("properties") or {}
    return {name: SAMPLES.get(each.get("type", "string"), "text") for name, each in properties.items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.exit(asyncio.run(main(sys.argv[-1], place)))
