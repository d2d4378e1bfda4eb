"""HTTP requests to the server under test, as a client would send them."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from tests.page.page_server import Served

CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "Tells the time.",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
    },
}


def asked(server: Served, question: str, **fields: Any) -> dict[str, Any]:
    """One answer, with a tool on offer unless `tools` says otherwise."""
    body = {"model": "small-model", "messages": [{"role": "user", "content": question}], "tools": [CLOCK], **fields}
    body = {name: value for name, value in body.items() if value is not None}
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{server.url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return {**json.load(answer), "id": json.loads(answer.headers["x-toolspeak"])["id"]}


def told(server: Served, path: str) -> Any:
    """What the server tells who runs it."""
    request = urllib.request.Request(f"{server.url}{path}", headers={"cookie": f"toolspeak_session={server.session()}"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)
