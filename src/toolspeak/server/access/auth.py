"""Authentication: turns the credentials of a request into its caller, or rejects the request.

Clients of five protocols send keys in five places. This module reads all of them; no other module looks at these
headers. An invalid toolspeak key is always rejected, even where anonymous access would be allowed.
"""

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

#: Access level that a route requires: none, a client key, or an administrator.
Level: TypeAlias = Literal["open", "client", "admin"]

#: Tenant of login sessions started without a key. It is not a hash, so it cannot collide with the tenant of a key.
_SESSION = "session"
_KEY_HEADERS = {name.encode(): name for name in ("x-api-key", "api-key", "x-goog-api-key", "x-toolspeak-key")}
#: Every header that may contain a credential.
CREDENTIAL_HEADERS = frozenset({b"authorization", *_KEY_HEADERS})
_KEY_PARAMETER = "key"  # the query parameter that may contain a credential
#: Limits on query parameters and credentials, far above what real clients send.
_MAX_PARAMETERS = 64
_MAX_CREDENTIALS = 8
_KEYS_UNREADABLE = "the stored keys cannot be read at the moment"


class Unauthorized(UsageError):
    """A valid key is required."""

    status = 401


class Forbidden(UsageError):
    """The key is valid but does not permit this request."""

    status = 403


class KeysUnavailable(ToolspeakError):
    """The stored keys cannot be read at the moment."""

    status = 503


class Credential(msgspec.Struct, frozen=True):
    """A secret and the header it was sent in (`key` if it was in the query)."""

    header: str
    secret: Secret

    @property
    def is_full_header(self) -> bool:
        """Whether this is a whole `Authorization` value with a scheme other than Bearer. It must not be altered."""
        return self.header == "authorization" and " " in self.secret.reveal()


class Caller(msgspec.Struct, frozen=True):
    """The authenticated sender of a request."""

    #: The toolspeak key, if one was sent and is valid.
    key: ApiKey | None = None
    admin: bool = False
    #: The client's own upstream keys, without duplicates; empty if no upstream uses them.
    own_keys: tuple[Credential, ...] = ()
    #: Whether the web page sent the request in a login session, and the key that started the session.
    from_page: bool = False
    session_key: ApiKey | None = None
    keyless_server: bool = False  # whether the server requires no key

    @property
    def tenant(self) -> str:
        """The namespace for everything stored for this caller."""
        if self.key is not None:
            return self.key.id
        return _SESSION if self.admin else ""

    def tenants(self) -> tuple[str, ...]:
        """Return all tenants whose data this caller may see; without a toolspeak key, also those of its own keys."""
        if self.key is not None:
            return (self.key.id,)
        return (self.tenant, *(tenant_of(credential) for credential in self.own_keys))


ANONYMOUS = Caller()  # a local caller on a server that requires no key


class Access:
    """Authenticates callers. `required`: whether clients need a key; only loopback servers may pass False."""

    def __init__(self, keys: ApiKeys, *, required: bool) -> None:
        self._keys = keys
        self._required = required
        #: Returns an opaque version that changes whenever a key is created or revoked; None if unknown.
        self.version = keys.version
        self.sessions = LoginSessions()

    def check(self, scope: Scope, level: Level) -> Caller:
        """Return the caller of a request. Raises Unauthorized, Forbidden or KeysUnavailable to deny access."""
        if level == "open":
            return ANONYMOUS
        sent = credentials(scope)
        key = self._key(sent)
        from_page, session_key = self._session(scope) if key is None or not key.admin else (False, None)
        admin = from_page or (key is not None and key.admin)
        caller = Caller(key, admin, _foreign(sent), from_page, session_key, not self._required)
        if admin:
            return caller
        if level == "admin":
            if caller.key is not None:
                raise Forbidden("this requires an admin key", hint="create one with `toolspeak keys new NAME --admin`")
            raise Unauthorized("sign in with the link printed by the server, or with an admin key")
        if self._required and caller.key is None:
            hint = "run `toolspeak keys new`; send the key as Bearer token, x-api-key, x-goog-api-key or ?key="
            raise Unauthorized("a toolspeak key is required", hint=hint)
        return caller

    def _session(self, scope: Scope) -> tuple[bool, ApiKey | None]:
        """Return whether the request has a valid session, and the key that started the session."""
        session = session_in(scope)
        if not session or not self.sessions.is_valid(session):
            return False, None
        key_id = self.sessions.key_id(session)
        if not key_id:
            return True, None
        try:  # a key that was revoked ends the sessions it started
            key = next((key for key in self._keys.all() if key.id == key_id and key.admin), None)
        except ToolspeakError:
            raise KeysUnavailable(_KEYS_UNREADABLE) from None
        return key is not None, key

    def key_names(self) -> dict[str, str]:
        """Return the names of the toolspeak keys by id; none if they cannot be read."""
        try:
            return {key.id: key.name for key in self._keys.all()}
        except ToolspeakError:
            return {}

    def begin_session(self, code_or_key: str) -> str:
        """Start a login session with a one-time code or an admin key; return the session token.

        Raises Unauthorized, Forbidden or KeysUnavailable to deny access.
        """
        if not code_or_key.startswith(PREFIX):
            if session := self.sessions.exchange(code_or_key):
                return session
            hint = "run `toolspeak page` for a new link, or use an admin key"
            raise Unauthorized("invalid admin key, or a link that has expired or was already used", hint=hint)
        key = self._key((Credential("x-toolspeak-key", Secret(code_or_key)),))
        if key is None or not key.admin:
            raise Forbidden("this requires an admin key", hint="create one with `toolspeak keys new NAME --admin`")
        return self.sessions.begin(key.id)

    def _key(self, sent: tuple[Credential, ...]) -> ApiKey | None:
        texts = {credential.secret.reveal() for credential in sent if _is_ours(credential)} if sent else ()
        if not texts:
            return None
        if len(texts) > 1:
            raise Unauthorized("the request contains more than one toolspeak key")
        try:
            key = self._keys.find(*texts)
        except ToolspeakError:  # its message contains a path that clients must not see
            raise KeysUnavailable(_KEYS_UNREADABLE) from None
        if key is None:
            raise Unauthorized("invalid toolspeak key", hint="the key was revoked or never existed")
        return key


def credentials(scope: Scope) -> tuple[Credential, ...]:
    sent = [Credential(header, Secret(text)) for header, text in _all_credentials(scope)]
    if len(sent) > _MAX_CREDENTIALS:
        raise Unauthorized("the request contains too many keys")
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


def own_secrets(scope: Scope) -> tuple[Secret, ...]:
    """Return the client's own upstream keys, which must be redacted in all output."""
    if not scope.get("query_string"):
        for name, _ in scope["headers"]:
            if name in CREDENTIAL_HEADERS:
                break
        else:  # the usual case in a server with keys
            return ()
    return tuple(credential.secret for credential in _foreign(credentials(scope)))


def tenant_of(credential: Credential) -> str:
    """Return the tenant of a client's own key: its full hash, because a prefix might collide."""
    return "own-" + hashlib.sha256(credential.secret.reveal().encode()).hexdigest()


def _is_ours(credential: Credential) -> bool:
    # Everything in `x-toolspeak-key` counts as a toolspeak key, valid or not. So does a toolspeak key with a scheme
    # other than Bearer: it is invalid, but must not be forwarded.
    text = credential.secret.reveal()
    return credential.header == "x-toolspeak-key" or text.rpartition(" ")[2].startswith(PREFIX)


def _foreign(sent: tuple[Credential, ...]) -> tuple[Credential, ...]:
    """Return the credentials for upstreams without duplicates: some clients send the same key in two headers."""
    foreign = [credential for credential in sent if not _is_ours(credential)]
    if len(foreign) < 2:
        return tuple(foreign)
    by_secret: dict[str, Credential] = {}
    for credential in foreign:
        by_secret.setdefault(credential.secret.reveal(), credential)
    return tuple(by_secret.values())
