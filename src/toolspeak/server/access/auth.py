"""Who asks: from the credentials of a request to one caller, or to a refusal, which is final.

Clients of five protocols show a key in five places. All of them are read first and become one caller; nothing behind
this module looks at a header again. A toolspeak key that does not hold is refused wherever it stands: there is no
nobody to fall back to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Literal, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from ...config import Secret
from ...errors import ToolspeakError, UsageError
from ..asgi import Scope
from .api_keys import PREFIX, Key, Keys
from .login_sessions import Sessions, session_in

#: What a route asks of its caller: nothing; to be a client; to be who runs the server.
Level: TypeAlias = Literal["open", "client", "admin"]

#: Who runs the server and has no key but a session. No hash, and so nobody else.
_SESSION = "session"
#: Headers that carry a key and nothing else.
_KEY_HEADERS = {name.encode(): name for name in ("x-api-key", "api-key", "x-goog-api-key", "x-toolspeak-key")}
#: Every header that a credential may stand in.
CREDENTIAL_HEADERS = frozenset({b"authorization", *_KEY_HEADERS})
#: The parameter of the query that does.
_KEY_PARAMETER = "key"
#: Parameters that are looked at, and credentials that one request may show: more is no client.
_MOST_PARAMETERS = 64
_MOST_CREDENTIALS = 8
_UNREADABLE = "the keys cannot be read at the moment"


class Unauthorized(UsageError):
    """A request without a key that holds, where one is needed."""

    status = 401


class Forbidden(UsageError):
    """A key that holds, but not for this."""

    status = 403


class Unavailable(ToolspeakError):
    """Nobody can be let in at the moment."""

    status = 503


class Credential(msgspec.Struct, frozen=True):
    """One secret, and the header that it came in (`key` for the query)."""

    header: str
    secret: Secret

    @property
    def whole(self) -> bool:
        """Whether it is a whole `Authorization`, by another scheme than Bearer, which can only be sent as it came."""
        return self.header == "authorization" and " " in self.secret.reveal()


class Caller(msgspec.Struct, frozen=True):
    """Who asks."""

    #: The toolspeak key, if one was shown; it holds.
    key: Key | None = None
    admin: bool = False
    #: What else was shown: the client's own keys for whoever is upstream. Each secret once.
    own: tuple[Credential, ...] = ()
    #: Whether it is the page that asks, by a session; and the key that the session was begun with, if it was.
    page: bool = False
    begun_with: Key | None = None

    @property
    def tenant(self) -> str:
        """Under what everything is kept that belongs to this caller."""
        if self.key is not None:
            return self.key.id
        return _SESSION if self.admin else ""

    def tenants(self) -> tuple[str, ...]:
        """Everything that this caller may look at. Somebody without a toolspeak key is also known by its own."""
        if self.key is not None:
            return (self.key.id,)
        return (self.tenant, *(tenant_of(credential) for credential in self.own))


#: Somebody on this machine, where no key is needed.
NOBODY = Caller()


class Access:
    """Lets callers in.

    Args:
        keys: the keys that were given out.
        required: whether a client needs one; not so for the clients on this machine only.
        sessions: who has come by the link that the server printed.
    """

    def __init__(self, keys: Keys, sessions: Sessions | None = None, *, required: bool) -> None:
        self._keys = keys
        self._required = required
        #: Something else whenever another may be let in, or one no longer; None while nobody knows.
        self.version = keys.version
        self.sessions = sessions or Sessions()

    def check(self, scope: Scope, level: Level) -> Caller:
        """The caller of a request.

        Raises:
            Unauthorized, Forbidden, Unavailable: and nothing else is to be tried.
        """
        if level == "open":
            return NOBODY
        shown = credentials(scope)
        key = self._key(shown)
        page, begun_with = self._session(scope) if key is None or not key.admin else (False, None)
        admin = page or (key is not None and key.admin)
        caller = Caller(key, admin, _foreign(shown), page, begun_with)
        if admin:
            return caller
        if level == "admin":
            if caller.key is not None:
                raise Forbidden("this key is not for what others asked", hint="use one made with `--admin`")
            raise Unauthorized("this needs the link that the server printed, or a key made with `--admin`")
        if self._required and caller.key is None:
            hint = "send a key of `toolspeak keys new` as a Bearer token, or as x-api-key, x-goog-api-key or ?key="
            raise Unauthorized("a toolspeak key is needed", hint=hint)
        return caller

    def _session(self, scope: Scope) -> tuple[bool, Key | None]:
        """Whether there is a session, and the key that it was begun with."""
        session = session_in(scope)
        if not session or not self.sessions.holds(session):
            return False, None
        begun_with = self.sessions.key(session)
        if not begun_with:
            return True, None
        key = self._still_admin(begun_with)
        return key is not None, key

    def _still_admin(self, identifier: str) -> Key | None:
        """The key that a session was begun with, if it holds: what is revoked ends its sessions."""
        try:
            return next((key for key in self._keys.all() if key.id == identifier and key.admin), None)
        except ToolspeakError:
            raise Unavailable(_UNREADABLE) from None

    def session(self, shown: str) -> str:
        """A new session for a code that the server printed, or for a key that is for that.

        Raises:
            Unauthorized, Forbidden, Unavailable: it is neither.
        """
        if not shown.startswith(PREFIX):
            if session := self.sessions.exchange(shown):
                return session
            hint = "`toolspeak page` prints another link; a key made with `--admin` does as well"
            raise Unauthorized("this code does not hold", hint=hint)
        key = self._key((Credential("x-toolspeak-key", Secret(shown)),))
        if key is None or not key.admin:
            raise Forbidden("this key is not for what others asked", hint="use one made with `--admin`")
        return self.sessions.begin(key.id)

    def _key(self, shown: tuple[Credential, ...]) -> Key | None:
        texts = {credential.secret.reveal() for credential in shown if _is_ours(credential)} if shown else ()
        if not texts:
            return None
        if len(texts) > 1:
            raise Unauthorized("the request shows more than one toolspeak key")
        try:
            key = self._keys.find(*texts)
        except ToolspeakError:  # of the state file; its path is nothing for a client
            raise Unavailable(_UNREADABLE) from None
        if key is None:
            raise Unauthorized("this toolspeak key does not hold", hint="it was revoked, or never given out")
        return key


def credentials(scope: Scope) -> tuple[Credential, ...]:
    """Every credential that a request shows, wherever it stands."""
    shown = [Credential(header, Secret(text)) for header, text in _all_credentials(scope)]
    if len(shown) > _MOST_CREDENTIALS:
        raise Unauthorized("the request shows too many keys")
    return tuple(shown)


def _all_credentials(scope: Scope) -> Iterator[tuple[str, str]]:
    for name, value in scope["headers"]:
        if name == b"authorization":
            text = value.decode("latin-1").strip()
            scheme, _, rest = text.partition(" ")
            text = rest.strip() if scheme.lower() == "bearer" else text
            if text:
                yield "authorization", text
        elif name in _KEY_HEADERS and (text := value.decode("latin-1").strip()):
            yield _KEY_HEADERS[name], text
    query: bytes = scope.get("query_string", b"")
    if query:
        try:
            pairs = parse_qsl(query.decode("latin-1"), max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            raise UsageError(f"the query has more than {_MOST_PARAMETERS} parameters") from None
        for name, text in pairs:
            if name == _KEY_PARAMETER and text.strip():
                yield _KEY_PARAMETER, text.strip()


def tenant_of(credential: Credential) -> str:
    """The tenant that somebody is by a key of its own; the whole hash, since a part of it may be another's too."""
    return "own-" + hashlib.sha256(credential.secret.reveal().encode()).hexdigest()


def _is_ours(credential: Credential) -> bool:
    # `x-toolspeak-key` holds ours by definition: whatever else stands there is a wrong one.
    # Behind another scheme than Bearer one of ours does not hold, but is not sent on either.
    text = credential.secret.reveal()
    return credential.header == "x-toolspeak-key" or text.rpartition(" ")[2].startswith(PREFIX)


def _foreign(shown: tuple[Credential, ...]) -> tuple[Credential, ...]:
    """The credentials that are not ours, each secret once: some clients send theirs in two headers."""
    foreign = [credential for credential in shown if not _is_ours(credential)]
    if len(foreign) < 2:
        return tuple(foreign)
    by_secret: dict[str, Credential] = {}
    for credential in foreign:
        by_secret.setdefault(credential.secret.reveal(), credential)
    return tuple(by_secret.values())
