"""An MCP server that wants a login, and who gives it: both behind one port of the loopback, in a thread.

Its addresses are unusual on purpose: who guesses them instead of reading what is published fails.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit


class Place:
    """What is known there, and what was asked."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.clients: list[dict[str, Any]] = []
        self.challenges: dict[str, str] = {}
        self.valid = ""
        self.refresh = ""
        self.number = 0
        self.lifetime = 3600
        self.renews = True
        #: Who a program may be: a name with a secret, and what tells whether an assertion is good.
        self.program: tuple[str, str] = ("", "")
        self.believes: Callable[[str], bool] = lambda _: False
        #: Who is named as the one that gives tokens; empty: the one here.
        self.elsewhere = ""
        #: What the page of the login answers.
        self.refuses = ""

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def tokens(self) -> dict[str, Any]:
        self.number += 1
        self.valid, self.refresh = f"access-{self.number}", f"refresh-{self.number}"
        return {
            "access_token": self.valid,
            "token_type": "Bearer",
            "expires_in": self.lifetime,
            "refresh_token": self.refresh,
        }


class Handler(BaseHTTPRequestHandler):
    place: Place

    def do_GET(self) -> None:
        place, parts = self.place, urlsplit(self.path)
        place.asked.append(f"GET {parts.path}")
        if parts.path == "/.well-known/oauth-protected-resource/mcp":
            issuer = place.elsewhere or place.base + "/login"
            self.answer(200, {"resource": place.url, "authorization_servers": [issuer]})
        elif parts.path == "/.well-known/oauth-authorization-server/login":
            self.answer(
                200,
                {
                    "issuer": place.base + "/login",
                    "authorization_endpoint": place.base + "/login/page",
                    "token_endpoint": place.base + "/login/give",
                    "registration_endpoint": place.base + "/login/clients",
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                },
            )
        elif parts.path == "/login/page":
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            place.challenges["code-1"] = asked["code_challenge"]
            given = {"error": place.refuses} if place.refuses else {"code": "code-1"}
            self.answer(302, {}, f"{asked['redirect_uri']}?{urlencode({**given, 'state': asked['state']})}")
        else:
            self.answer(404, {})

    def do_POST(self) -> None:
        place = self.place
        body = self.rfile.read(int(self.headers["content-length"]))
        place.asked.append(f"POST {self.path}")
        if self.path == "/login/clients":
            place.clients.append(json.loads(body))
            self.answer(201, {**place.clients[-1], "client_id": f"client-{len(place.clients)}"})
        elif self.path == "/login/give":
            self.give({name: values[0] for name, values in parse_qs(body.decode()).items()})
        elif self.headers["authorization"] != f"Bearer {place.valid}" or not place.valid:
            self.answer(401, {})
        else:
            self.serve(json.loads(body))

    def give(self, asked: dict[str, str]) -> None:
        place = self.place
        if asked["grant_type"] == "refresh_token":
            good = place.renews and asked["refresh_token"] == place.refresh
        elif asked["grant_type"] == "client_credentials":
            good = self.knows(asked)
        else:
            digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            good = place.challenges.pop(asked["code"], "") == challenge
        self.answer(200, place.tokens()) if good else self.answer(400, {"error": "invalid_grant"})

    def knows(self, asked: dict[str, str]) -> bool:
        """Whether a program is who it says, by its secret or what it has signed."""
        if "client_assertion" in asked:
            return self.place.believes(asked["client_assertion"])
        basic = "Basic " + base64.b64encode(":".join(self.place.program).encode()).decode()
        posted = (asked.get("client_id", ""), asked.get("client_secret", ""))
        return bool(self.place.program[0]) and (self.headers["authorization"] == basic or posted == self.place.program)

    def serve(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method == "initialize":
            about = {"name": "s", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
        elif method == "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        else:
            result = {"content": [{"type": "text", "text": "here"}]}
        if method == "server/discover":
            self.answer(404, {})
        elif "id" in message:
            self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})
        else:
            self.answer(202, {})

    def answer(self, status: int, value: dict[str, Any], location: str = "") -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if location:
            self.send_header("location", location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def running() -> Iterator[Place]:
    place = Place()
    handler = type("Handler", (Handler,), {"place": place})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        place.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield place
        finally:
            server.shutdown()
