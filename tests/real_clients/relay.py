"""Stands between a client and the proxy, passes every byte on, and keeps what was asked and how it was answered.

The proxy must not notice, so this works on bytes: both directions are copied as they come and read as HTTP/1.1 only
when the client has ended. Of a request the shape is kept, not its texts. A client that asks too often is cut off.

Above: `place`, `run`. Below: the standard library.
"""

from __future__ import annotations

import gzip
import json
import select
import socket
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

#: Connections after which a client is cut off. Some clients open one for each request.
MOST_CONNECTIONS = 200
_CHUNK = 64 * 1024

#: Paths, by how they end, to the protocol that is spoken there.
_PROTOCOLS = {
    "/chat/completions": "OpenAI chat",
    "/responses": "OpenAI Responses",
    "/messages": "Anthropic Messages",
    ":generateContent": "Gemini",
    ":streamGenerateContent": "Gemini",
    "/api/chat": "Ollama",
}


@dataclass(frozen=True)
class Asked:
    """One request, as it came from the client."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    status: int = 0
    reply: bytes = b""

    @property
    def protocol(self) -> str:
        """The protocol, where it is a request to a model."""
        path = self.path.partition("?")[0]
        return next((name for end, name in _PROTOCOLS.items() if self.method == "POST" and path.endswith(end)), "")


@dataclass
class _Wire:
    sent: bytearray = field(default_factory=bytearray)
    got: bytearray = field(default_factory=bytearray)


class Relay:
    """Listens on a free port of the loopback and passes everything on to `port`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._wires: list[_Wire] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._listening.close()

    def asked(self) -> list[Asked]:
        """What was asked so far."""
        return [asked for wire in self._wires for asked in read(bytes(wire.sent), bytes(wire.got))]

    def _accept(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._listening], [], [], 0.1)[0]:
                continue
            client, _ = self._listening.accept()
            if len(self._wires) >= MOST_CONNECTIONS:
                client.close()
                continue
            wire = _Wire()
            self._wires.append(wire)
            threading.Thread(target=self._carry, args=(client, wire), daemon=True).start()

    def _carry(self, client: socket.socket, wire: _Wire) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as proxy:
            ways = {client: (proxy, wire.sent), proxy: (client, wire.got)}
            while ways and not self._ended.is_set():
                for source in select.select(list(ways), [], [], 0.1)[0]:
                    target, kept = ways[source]
                    try:
                        data = source.recv(_CHUNK)
                        kept += data
                        target.sendall(data)
                        if not data:
                            target.shutdown(socket.SHUT_WR)
                            del ways[source]
                    except OSError:
                        return


# ---- reading what was carried


def read(sent: bytes, got: bytes) -> Iterator[Asked]:
    """The requests of one connection, each with the answer to it."""
    answers = list(_messages(got))
    for at, (line, headers, body) in enumerate(_messages(sent)):
        method, _, rest = line.partition(" ")
        status, reply = (int(answers[at][0].split()[1]), answers[at][2]) if at < len(answers) else (0, b"")
        yield Asked(method, rest.rpartition(" ")[0], headers, _json(body, headers), status, reply)


def _messages(data: bytes) -> Iterator[tuple[str, dict[str, str], bytes]]:
    """The first line, headers and body of each message. One that is not whole ends with what there is."""
    head_only = False
    while data:
        head, found, data = data.partition(b"\r\n\r\n")
        if not found:
            return
        line, *rows = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
        head_only = line.startswith("HTTP/") and (line.split()[1] in ("204", "304") or line.split()[1].startswith("1"))
        if head_only:
            body = b""
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            body, data = _unchunked(data)
        else:
            length = int(headers.get("content-length", 0))
            # The answer to HEAD says how long it would be; what follows is then the next answer.
            length = 0 if data.startswith(b"HTTP/1.1 ") else length
            body, data = data[:length], data[length:]
        yield line, headers, body


def _unchunked(data: bytes) -> tuple[bytes, bytes]:
    parts: list[bytes] = []
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size.partition(b";")[0] or b"0", 16)
        if not length:
            return b"".join(parts), data.partition(b"\r\n")[2]
        parts.append(data[:length])
        data = data[length + 2 :]
    return b"".join(parts), b""


def _json(body: bytes, headers: dict[str, str]) -> Any:
    kind = headers.get("content-encoding", "")
    try:
        if kind == "gzip":
            body = gzip.decompress(body)
        return json.loads(body) if body else None
    except (ValueError, OSError, zlib.error):
        return f"({len(body)} bytes{', ' + kind if kind else ''})"


# ---- shapes

#: Texts up to this length say what kind of thing something is; longer ones are content.
_SHORT = 40


def shape(value: Any) -> Any:
    """The structure of a body: keys and short words stay, texts become their lengths, lists keep one of each kind."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        shapes = {json.dumps(shape(each), sort_keys=True): None for each in value}
        return [json.loads(each) for each in list(shapes)[:3]] + ([f"... of {len(value)}"] if len(shapes) > 3 else [])
    if isinstance(value, str) and len(value) > _SHORT:
        return f"<{len(value)} characters>"
    return value
