"""The files of the page: one HTML document, style sheets and ES modules, as they lie in `page/`, and their headers.

Read once. There is no build step and nothing from elsewhere: what stands in the folder is what browsers get.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..asgi import Scope, Send, header, respond

INDEX = "index.html"
_FOLDER = Path(__file__).parent / "page"
_KINDS = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
#: The page runs its own scripts and speaks with this server alone; nobody may put it into a frame.
_HEADERS: Sequence[tuple[bytes, bytes]] = (
    (
        b"content-security-policy",
        b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    # Kept by the browser, but asked for again each time: another version of the server has other files.
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept"),
)


class _File(NamedTuple):
    kind: bytes
    data: bytes
    tag: bytes


@cache
def _files() -> dict[str, _File]:
    found: dict[str, _File] = {}
    for path in sorted(_FOLDER.iterdir()):
        kind = _KINDS.get(path.suffix)
        if kind is not None:
            data = path.read_bytes()
            found[path.name] = _File(kind, data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'.encode())
    return found


async def send_file(name: str, scope: Scope, send: Send) -> bool:
    """A file of the page; False when there is none of that name."""
    file = _files().get(name)
    if file is None:
        return False
    headers = [*_HEADERS, (b"etag", file.tag)]
    if header(scope, b"if-none-match").encode("latin-1") == file.tag:
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
    else:
        await respond(send, 200, file.data, file.kind, headers)
    return True


def prefers_html(scope: Scope) -> bool:
    """Whether whoever asks is a browser: it names HTML, and nothing that it likes as much before."""
    for part in header(scope, b"accept").split(","):
        kind = part.partition(";")[0].strip().lower()
        if kind == "text/html":
            return True
        if kind in ("text/plain", "application/json", "*/*"):
            return False
    return False
