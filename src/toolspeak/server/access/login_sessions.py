"""Login sessions of the web page: exchange a one-time code or an admin key for a session cookie.

The server prints a link whose fragment, which browsers never send, contains a code. The page posts the code and gets a
cookie that scripts cannot read and other sites cannot use. Codes and sessions are signed with a secret that all workers
of a server share and that changes with a restart. Only the worker that handled a used code or an ended session
remembers it.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from ..asgi import Scope, header

#: Cookie name. The port is appended for browsers, because cookies ignore ports and a host may run several servers.
COOKIE = "toolspeak_session"
_PATH = "/toolspeak/session"  # path at which a code is exchanged for a session
#: Lifetimes in seconds: codes are meant for immediate use, sessions for a working day.
CODE_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
#: A code is short, so that its link fits into a line: its nonce only has to differ from those of the same second, and
#: 80 bits of the signature cannot be guessed in ten minutes.
_CODE_NONCE_BYTES, _CODE_SIGNATURE_CHARS = 5, 20
_MAX_CHARS = 256  # maximum length of a code or session token; longer strings are rejected

_Kind: TypeAlias = Literal["code", "session"]


class LoginSessions:
    """Issues and verifies one-time codes and sessions."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Created before the workers are forked, so all of them share the secret.
        self._secret = secrets.token_bytes(32)
        #: Maps used codes and ended sessions to their expiry time.
        self._revoked: dict[str, float] = {}

    def server_session(self) -> str:
        """Return a session that lasts as long as the server, for commands of the same user on this machine."""
        return self._sign("session", float("inf"))

    def new_code(self) -> str:
        """Return a code that can be exchanged once."""
        return self._sign("code", self._clock() + CODE_SECONDS)

    def exchange(self, code: str) -> str:
        """Exchange a code for a session; return an empty string if the code is invalid or was already used."""
        return self.begin() if self._revoke("code", code) else ""

    def begin(self, key: str = "") -> str:
        """Return a new session; `key` is the id of the API key that started it, if any."""
        return self._sign("session", self._clock() + SESSION_SECONDS, key)

    def is_valid(self, session: str) -> bool:
        return self._expiry("session", session) is not None

    def key_id(self, session: str) -> str:
        """Return the id of the API key that started a session; empty if a code started it."""
        return session.split(".")[1] if session.count(".") == 3 else ""

    def end(self, session: str) -> None:
        self._revoke("session", session)

    def _revoke(self, kind: _Kind, text: str) -> bool:
        """End a code or session; return whether it was valid."""
        expiry, now = self._expiry(kind, text), self._clock()
        if expiry is not None:
            self._revoked = {old: end for old, end in self._revoked.items() if end > now} | {text: expiry}
        return expiry is not None

    def _sign(self, kind: _Kind, end: float, key: str = "") -> str:
        payload = f"{end:.0f}.{key}.{secrets.token_hex(_CODE_NONCE_BYTES if kind == 'code' else 16)}"
        return f"{payload}.{self._signature(kind, payload)}"

    def _signature(self, kind: _Kind, payload: str) -> str:
        digest = hmac.new(self._secret, f"{kind}:{payload}".encode(), hashlib.sha256).hexdigest()
        return digest[:_CODE_SIGNATURE_CHARS] if kind == "code" else digest

    def _expiry(self, kind: _Kind, text: str) -> float | None:
        """Return the expiry time of a signed code or session; None if it is invalid, expired or revoked."""
        payload, _, signature = text.rpartition(".")
        if not payload or len(text) > _MAX_CHARS or not text.isascii() or text in self._revoked:
            return None
        if not hmac.compare_digest(signature, self._signature(kind, payload)):
            return None
        end = float(payload.partition(".")[0])
        return end if self._clock() < end else None


#: The page that the printed link opens.
LINK_PAGE = Path(__file__).with_name("link.html").read_bytes()
_SCRIPT = LINK_PAGE.partition(b"<script>")[2].rpartition(b"</script>")[0]
_HASH = base64.b64encode(hashlib.sha256(_SCRIPT).digest()).decode()
#: Only this script may run, and it may connect only to this server.
_POLICY = f"default-src 'none'; script-src 'sha256-{_HASH}'; connect-src 'self'; frame-ancestors 'none'"
LINK_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]


def link(address: str, code: str) -> str:
    return f"{address}{_PATH}#{code}"


def cookie_name(scope: Scope) -> str:
    """Return the cookie name for this server, including the port that the browser connected to."""
    port = header(scope, b"host").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() else COOKIE


def session_in(scope: Scope) -> str:
    """Return the session token in the request's cookie, or an empty string. Non-browser clients may omit the port."""
    cookies: dict[str, str] = {}
    for name, value in scope["headers"]:
        if name == b"cookie":
            for part in value.decode("latin-1").split(";"):
                key, _, text = part.strip().partition("=")
                cookies.setdefault(key, text)
    return (cookies.get(cookie_name(scope)) or cookies.get(COOKIE, "")) if cookies else ""
