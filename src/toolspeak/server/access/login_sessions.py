"""Sessions of the person who runs the server: a code from the terminal, or an admin's key, becomes a cookie.

The server prints a link with a code in its fragment, which browsers send to nobody. The page gives the code back and
gets a cookie that scripts cannot read and that no other site can make a browser send. Codes and sessions are texts
that this server has signed: all of its workers know them, and none after it has ended. What was used up or ended is
remembered by the worker that heard of it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from ..asgi import Scope, header

#: A browser's cookie has the port behind this: cookies are a host's, whatever the port, and a host has many servers.
COOKIE = "toolspeak_session"
#: Where a code becomes a session.
_PATH = "/toolspeak/session"
#: A code is for the person who has just asked for it; a session lasts a working day.
CODE_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
#: No code and no session is longer.
_LONGEST = 256

_Kind: TypeAlias = Literal["code", "session"]


class Sessions:
    """Who has come by the printed link, or with a key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Made before there are workers, so that all of them have the same.
        self._secret = secrets.token_bytes(32)
        #: What does not hold any more though its time is not over, until then.
        self._ended: dict[str, float] = {}

    def standing(self) -> str:
        """A session that lasts as long as the server: for commands of the same person on the same machine."""
        return self._signed("session", float("inf"))

    def code(self) -> str:
        """A code that can be exchanged once."""
        return self._signed("code", self._clock() + CODE_SECONDS)

    def exchange(self, code: str) -> str:
        """The session for a code; nothing if the code does not hold. It does not hold again."""
        if self._read("code", code) is None:
            return ""
        self._end("code", code)
        return self.begin()

    def begin(self, key: str = "") -> str:
        """A new session; `key` is the id of the key that it was begun with, if it was."""
        return self._signed("session", self._clock() + SESSION_SECONDS, key)

    def holds(self, session: str) -> bool:
        """Whether a session has begun and not ended."""
        return self._read("session", session) is not None

    def key(self, session: str) -> str:
        """The id of the key that a session was begun with; nothing if it was a code."""
        return session.split(".")[1] if session.count(".") == 3 else ""

    def end(self, session: str) -> None:
        """End a session."""
        if self.holds(session):
            self._end("session", session)

    def _end(self, kind: _Kind, text: str) -> None:
        now = self._clock()
        self._ended = {old: end for old, end in self._ended.items() if end > now}
        self._ended[text] = self._read(kind, text) or now

    def _signed(self, kind: _Kind, end: float, key: str = "") -> str:
        said = f"{end:.0f}.{key}.{secrets.token_urlsafe(16)}"
        return f"{said}.{self._mark(kind, said)}"

    def _mark(self, kind: _Kind, said: str) -> str:
        return hmac.new(self._secret, f"{kind}:{said}".encode(), hashlib.sha256).hexdigest()

    def _read(self, kind: _Kind, text: str) -> float | None:
        """When a text ends that was signed here; None if it was not, or has ended."""
        said, _, mark = text.rpartition(".")
        if not said or len(text) > _LONGEST or not text.isascii() or text in self._ended:
            return None
        if not hmac.compare_digest(mark, self._mark(kind, said)):
            return None
        end = float(said.partition(".")[0])
        return end if self._clock() < end else None


#: Takes the code out of the address, so that it is not kept there, and gives it back.
_SCRIPT = """
const code = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
fetch("session", {method: "POST", body: JSON.stringify({code})}).then((answer) => {
  if (answer.ok) location.replace("../");
  else document.getElementById("said").textContent = "This link was used, or is too old: `toolspeak page` prints one.";
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


def cookie_name(scope: Scope) -> str:
    """What the cookie for this server is called: by the port that its browser knows."""
    port = header(scope, b"host").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() else COOKIE


def session_in(scope: Scope) -> str:
    """The session that a request's cookie names, or nothing. Who is no browser need not name the port."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        if name == b"cookie":
            for part in value.decode("latin-1").split(";"):
                key, _, text = part.strip().partition("=")
                found.setdefault(key, text)
    return (found.get(cookie_name(scope)) or found.get(COOKIE, "")) if found else ""
