"""Authentication: from the credentials of a request to its caller, or to a final refusal.

Clients of five protocols send a key in five places. All are read here and become one caller; no other module looks at
these headers. An invalid toolspeak key is rejected wherever it appears, never ignored in favour of anonymous access.
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
from .api_keys import PREFIX, ApiKey, ApiKeys
from .login_sessions import LoginSessions, session_in

#: What a route requires: nothing, a client, or an administrator.
Level: TypeAlias = Literal["open", "client", "admin"]

#: Tenant of sessions begun without a key; not a hash, so it cannot collide with one.
_SESSION = "session"
_KEY_HEADERS = {name.encode(): name for name in ("x-api-key", "api-key", "x-goog-api-key", "x-toolspeak-key")}
#: Every header that may contain a credential.
CREDENTIAL_HEADERS = frozenset({b"authorization", *_KEY_HEADERS})
#: The query parameter that may contain one.
_KEY_PARAMETER = "key"
#: Limits on query parameters and credentials; no real client comes close.
_MAX_PARAMETERS = 64
_MAX_CREDENTIALS = 8
_KEYS_UNREADABLE = "the stored keys cannot be read at the moment"


class Unauthorized(UsageError):
    """A valid key is required."""

    status = 401


class Forbidden(UsageError):
    """The key is valid, but does not permit this."""

    status = 403


class KeysUnavailable(ToolspeakError):
    """The stored keys cannot be read at the moment."""

    status = 503


class Credential(msgspec.Struct, frozen=True):
    """A secret, and the header that it came in (`key` for the query)."""

    header: str
    secret: Secret

    @property
    def is_full_header(self) -> bool:
        """Whether it is an `Authorization` value with another scheme than Bearer; forwarded unchanged or not at all."""
        return self.header == "authorization" and " " in self.secret.reveal()


class Caller(msgspec.Struct, frozen=True):
    """The authenticated sender of a request."""

    #: The toolspeak key, if one was sent and is valid.
    key: ApiKey | None = None
    admin: bool = False
    #: The client's own keys for upstreams, each once.
    own_keys: tuple[Credential, ...] = ()
    #: Whether the page sent the request (by a session), and the key that the session was begun with.
    from_page: bool = False
    session_key: ApiKey | None = None

    @property
    def tenant(self) -> str:
        """The namespace of everything stored for this caller."""
        if self.key is not None:
            return self.key.id
        return _SESSION if self.admin else ""

    def tenants(self) -> tuple[str, ...]:
        """All tenants whose data this caller may see; without a toolspeak key, also those of its own keys."""
        if self.key is not None:
            return (self.key.id,)
        return (self.tenant, *(tenant_of(credential) for credential in self.own_keys))


#: A local caller, where no key is required.
ANONYMOUS = Caller()


class Access:
    """Authenticates callers.

    Args:
        keys: the API keys.
        required: whether clients need one; optional for loopback servers only.
        sessions: the login sessions of the page.
    """

    def __init__(self, keys: ApiKeys, sessions: LoginSessions | None = None, *, required: bool) -> None:
        self._keys = keys
        self._required = required
        #: Opaque version; differs after any key was created or revoked. None: unknown.
        self.version = keys.version
        self.sessions = sessions or LoginSessions()

    def check(self, scope: Scope, level: Level) -> Caller:
        """The caller of a request.

        Raises:
            Unauthorized, Forbidden, KeysUnavailable: access is denied.
        """
        if level == "open":
            return ANONYMOUS
        sent = credentials(scope)
        key = self._key(sent)
        from_page, session_key = self._session(scope) if key is None or not key.admin else (False, None)
        admin = from_page or (key is not None and key.admin)
        caller = Caller(key, admin, _foreign(sent), from_page, session_key)
        if admin:
            return caller
        if level == "admin":
            if caller.key is not None:
                raise Forbidden("this requires an admin key", hint="create one with `toolspeak keys new NAME --admin`")
            raise Unauthorized("sign in with the link that the server printed, or with an admin key")
        if self._required and caller.key is None:
            hint = "create one with `toolspeak keys new`; send it as Bearer token, x-api-key, x-goog-api-key or ?key="
            raise Unauthorized("a toolspeak key is required", hint=hint)
        return caller

    def _session(self, scope: Scope) -> tuple[bool, ApiKey | None]:
        """Whether the request has a valid session, and the key that began it."""
        session = session_in(scope)
        if not session or not self.sessions.is_valid(session):
            return False, None
        key_id = self.sessions.key_id(session)
        if not key_id:
            return True, None
        key = self._still_admin(key_id)
        return key is not None, key

    def _still_admin(self, identifier: str) -> ApiKey | None:
        """The key that began a session, if still valid: revoking a key ends its sessions."""
        try:
            return next((key for key in self._keys.all() if key.id == identifier and key.admin), None)
        except ToolspeakError:
            raise KeysUnavailable(_KEYS_UNREADABLE) from None

    def begin_session(self, code_or_key: str) -> str:
        """A new session, for a one-time code or an admin key.

        Raises:
            Unauthorized, Forbidden, KeysUnavailable: access is denied.
        """
        if not code_or_key.startswith(PREFIX):
            if session := self.sessions.exchange(code_or_key):
                return session
            hint = "run `toolspeak page` for a new link, or use an admin key"
            raise Unauthorized("this link has expired or was already used", hint=hint)
        key = self._key((Credential("x-toolspeak-key", Secret(code_or_key)),))
        if key is None or not key.admin:
            raise Forbidden("this requires an admin key", hint="create one with `toolspeak keys new NAME --admin`")
        return self.sessions.begin(key.id)

    def _key(self, sent: tuple[Credential, ...]) -> ApiKey | None:
        texts = {credential.secret.reveal() for credential in sent if _is_ours(credential)} if sent else ()
        if not texts:
            return None
        if len(texts) > 1:
            raise Unauthorized("the request has more than one toolspeak key")
        try:
            key = self._keys.find(*texts)
        except ToolspeakError:  # its path is not for clients
            raise KeysUnavailable(_KEYS_UNREADABLE) from None
        if key is None:
            raise Unauthorized("invalid toolspeak key", hint="it was revoked or never existed")
        return key


def credentials(scope: Scope) -> tuple[Credential, ...]:
    """Every credential of a request."""
    sent = [Credential(header, Secret(text)) for header, text in _all_credentials(scope)]
    if len(sent) > _MAX_CREDENTIALS:
        raise Unauthorized("the request has too many keys")
    return tuple(sent)


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
            pairs = parse_qsl(query.decode("latin-1"), max_num_fields=_MAX_PARAMETERS)
        except ValueError:
            raise UsageError(f"the query has more than {_MAX_PARAMETERS} parameters") from None
        for name, text in pairs:
            if name == _KEY_PARAMETER and text.strip():
                yield _KEY_PARAMETER, text.strip()


def tenant_of(credential: Credential) -> str:
    """The tenant of a client's own key: the full hash, since a part of it might collide."""
    return "own-" + hashlib.sha256(credential.secret.reveal().encode()).hexdigest()


def _is_ours(credential: Credential) -> bool:
    # `x-toolspeak-key` is ours by definition, so any other content is an invalid key. Ours with another scheme than
    # Bearer is invalid too, but never forwarded.
    text = credential.secret.reveal()
    return credential.header == "x-toolspeak-key" or text.rpartition(" ")[2].startswith(PREFIX)


def _foreign(sent: tuple[Credential, ...]) -> tuple[Credential, ...]:
    """The credentials for upstreams, each secret once: some clients send theirs in two headers."""
    foreign = [credential for credential in sent if not _is_ours(credential)]
    if len(foreign) < 2:
        return tuple(foreign)
    by_secret: dict[str, Credential] = {}
    for credential in foreign:
        by_secret.setdefault(credential.secret.reveal(), credential)
    return tuple(by_secret.values())
