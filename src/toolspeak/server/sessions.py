"""Sessions of the person who runs the server: a code from the terminal becomes a cookie, once.

The server prints a link with a code in its fragment, which browsers send to nobody. The page gives the code back and
gets a cookie that scripts cannot read and that no other site can make a browser send. Both live in this process only,
as hashes, and end. Above: `auth`, `pages`. Below: nothing.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable

from .asgi import Scope

__all__ = ["COOKIE", "LINK_HEADERS", "LINK_PAGE", "Sessions", "link", "session_in"]

COOKIE = "toolspeak_session"
#: Where a code becomes a session.
_PATH = "/toolspeak/session"
#: A code is for the person who has just started the server; a session lasts a working day.
CODE_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
#: Sessions at a time: one person with a few browsers.
_MOST = 32


class Sessions:
    """Who has come by the printed link."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._codes: dict[str, float] = {}
        self._sessions: dict[str, float] = {}

    @property
    def empty(self) -> bool:
        """Whether nobody has one, so that nobody need look for it."""
        return not self._sessions

    def standing(self) -> str:
        """A session that lasts as long as the server: for commands of the same person on the same machine."""
        return self._new(self._sessions, float("inf"))

    def code(self) -> str:
        """A code that can be exchanged once."""
        return self._new(self._codes, CODE_SECONDS)

    def exchange(self, code: str) -> str:
        """The session for a code; nothing if the code does not hold. It does not hold again."""
        end = self._codes.pop(_digest(code), 0.0)
        return self._new(self._sessions, SESSION_SECONDS) if self._clock() < end else ""

    def holds(self, session: str) -> bool:
        """Whether a session has begun and not ended."""
        return bool(session) and self._clock() < self._sessions.get(_digest(session), 0.0)

    def end(self, session: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(session), None)

    def _new(self, table: dict[str, float], seconds: float) -> str:
        text, now = secrets.token_urlsafe(32), self._clock()
        for old in [old for old, end in table.items() if end <= now]:
            del table[old]
        while len(table) >= _MOST:
            del table[next(iter(table))]
        table[_digest(text)] = now + seconds
        return text


#: Takes the code out of the address, so that it is not kept there, and gives it back.
_SCRIPT = """
const code = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
fetch("session", {method: "POST", body: JSON.stringify({code})}).then((answer) => {
  if (answer.ok) location.replace("../");
  else document.getElementById("said").textContent = "This link was used, or is too old. A new start prints another.";
});
"""
#: What the printed link shows.
LINK_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>toolspeak</title><p id="said">One moment.</p>'
    f"<script>{_SCRIPT}</script>"
).encode()
_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
#: The page runs this script alone, which speaks with this server alone.
LINK_HEADERS = [
    (
        b"content-security-policy",
        f"default-src 'none'; script-src 'sha256-{_HASH}'; connect-src 'self'; frame-ancestors 'none'".encode(),
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]


def link(address: str, code: str) -> str:
    """What a person opens to begin a session."""
    return f"{address}{_PATH}#{code}"


def session_in(scope: Scope) -> str:
    """The session that a request's cookie names, or nothing."""
    for name, value in scope["headers"]:
        if name == b"cookie":
            for part in value.decode("latin-1").split(";"):
                key, _, text = part.strip().partition("=")
                if key == COOKIE:
                    return text
    return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
