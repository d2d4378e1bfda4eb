"""Host and Origin checks against DNS rebinding and cross-site requests, the first step for every request.

A malicious page can make a browser send requests to a loopback server, and DNS rebinding can hide that they are
cross-site. So a loopback server accepts only its own names as Host. No server accepts a foreign Origin or a cross-site
request, whatever the content type, or lets other sites read its responses.
"""

import os
from hashlib import blake2b

import msgspec

from ...errors import UsageError
from ...key_value import MemoryState
from ..asgi import Scope, header
from ..routes import Route
from .api_keys import ApiKeys
from .auth import CREDENTIAL_HEADERS, Access, Caller

#: Names of the loopback interface.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OWN_SITES = frozenset({"", "none", "same-origin"})
_DEFAULT_PORTS = ("80", "443")  # default ports, which browsers omit
#: Headers that reverse proxies add, besides those that begin with `x-forwarded-`.
_PROXY_HEADERS = frozenset({b"forwarded", b"via", b"x-real-ip"})
#: Size limit for all headers together. Real clients' cookies and tokens use a tenth of this.
MAX_HEADER_BYTES = 32 * 1024
#: Headers that determine whether a request is accepted.
_IDENTIFYING = frozenset({b"host", b"origin", b"sec-fetch-site", b"cookie"}) | CREDENTIAL_HEADERS
#: Maximum size of the cache of callers. Clients send the same identifying headers every time.
_MAX_CACHED = 1024


class ForbiddenOrigin(UsageError):
    """The request was rejected by the Host/Origin check."""

    status = 403


class HeadersTooLarge(UsageError):
    """The headers exceed the size limit."""

    status = 431


def is_loopback(host: str) -> bool:
    """Whether a server listening on this host is reachable from this machine only."""
    return host.lower() in ("localhost", "127.0.0.1", "::1")


def is_local(scope: Scope) -> bool:
    """Whether a request comes from this machine: from and to a loopback address, and not through a reverse proxy."""
    address = (scope.get("client") or ("",))[0]
    if address != "::1" and not address.startswith("127."):
        return False
    names = [name for name, _ in scope["headers"]]
    if any(name in _PROXY_HEADERS or name.startswith(b"x-forwarded-") for name in names):
        return False
    return _split(header(scope, b"host"))[0] in LOOPBACK


class OriginGuard:
    """Checks the headers, origin and credentials of each request.

    Args:
        access: authenticates callers; by default every local caller is accepted.
        hosts: accepted `Host` names in addition to the names of this machine; `*` accepts any name.
    """

    def __init__(self, access: Access | None = None, hosts: frozenset[str] = frozenset()) -> None:
        self.access = access or Access(ApiKeys(MemoryState()), required=False)
        self._hosts = frozenset(map(str.lower, hosts)) | LOOPBACK
        self._any_host = "*" in hosts
        #: Whether an upstream uses clients' own keys. If none does, callers are remembered without them.
        self.forwards_keys = True
        self._hash_key = os.urandom(16)
        #: Maps a keyed hash of the identifying headers to the version of the keys and the caller.
        self._callers: dict[bytes, tuple[object, Caller]] = {}

    def check(self, scope: Scope, route: Route | None) -> Caller:
        """Return the caller of a request. Raises ForbiddenOrigin, HeadersTooLarge, Unauthorized or Forbidden."""
        level = route.level if route is not None else "client"
        size = 0
        parts = [level.encode(), scope.get("query_string", b"")]
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            if name in _IDENTIFYING:
                parts += (name, value)
        if size > MAX_HEADER_BYTES:
            raise HeadersTooLarge(f"the headers exceed {MAX_HEADER_BYTES} bytes")
        # Hashed, so no key stays in memory. Headers contain no line breaks, so the joined parts are unambiguous.
        fingerprint = blake2b(b"\n".join(parts), digest_size=16, key=self._hash_key).digest()
        version = self.version()
        cached = self._callers.get(fingerprint)
        if cached is not None and cached[0] == version:
            return cached[1]
        self._check_origin(scope)
        caller = self.access.check(scope, level)
        if caller.own_keys and not self.forwards_keys:
            caller = msgspec.structs.replace(caller, own_keys=())
        if version is not None and self.may_remember(caller):
            if len(self._callers) >= _MAX_CACHED:
                self._callers.clear()
            self._callers[fingerprint] = (version, caller)
        return caller

    def version(self) -> object:
        """Return what changes if a caller may be another one; None if that is unknown."""
        version = self.access.version()
        return None if version is None else (version, self.forwards_keys)

    def may_remember(self, caller: Caller) -> bool:
        """Whether it may be remembered that a caller was admitted, until `version` changes.

        Sessions expire, and upstream keys must not be retained.
        """
        return not caller.own_keys and not caller.from_page and self.version() is not None

    def _check_origin(self, scope: Scope) -> None:
        count = 0
        values = {b"host": b"", b"origin": b"", b"sec-fetch-site": b""}
        for name, value in scope["headers"]:
            if name in values:
                count += name != b"sec-fetch-site"
                values[name] = values[name] or value
        host, origin, site = [value.decode("latin-1") for value in values.values()]
        if count > bool(host) + bool(origin):
            raise ForbiddenOrigin("the request has an empty or duplicate Host or Origin header")
        if not self._any_host and _split(host)[0] not in self._hosts:
            raise ForbiddenOrigin("this Host is not allowed", hint="allow it with --allow-host")
        if site not in _OWN_SITES or (origin and not _same(origin, host)):
            raise ForbiddenOrigin("cross-site requests are not allowed")


def _split(authority: str) -> tuple[str, str]:
    """Split `name:port`; without a port, the whole text is the name."""
    name, colon, port = authority.lower().rpartition(":")
    return (name, port) if colon and port.isascii() and port.isdigit() else (authority.lower(), "")


def _same(origin: str, host: str) -> bool:
    """Whether an Origin is this server. `null` never is, because any page can send it."""
    scheme, slashes, authority = origin.partition("://")
    if not slashes or scheme.lower() not in ("http", "https"):
        return False
    (name, port), (own_name, own_port) = _split(authority), _split(host)
    usual = {"", *_DEFAULT_PORTS}
    return name == own_name and (port == own_port or (port in usual and own_port in usual))
