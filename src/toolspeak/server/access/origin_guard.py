"""Host and Origin checks against DNS rebinding and cross-site requests, before anything else is done with a request.

A web page can make a browser send requests to loopback, and DNS can be made to point there. So a loopback server
accepts only its own names as Host. No server accepts a foreign Origin or a cross-site request, whatever the content
type, and none lets other sites read its answers.
"""

from __future__ import annotations

from hashlib import blake2b

from ...errors import UsageError
from ...key_value import MemoryState
from ..asgi import Scope
from ..routes import Route
from .api_keys import ApiKeys
from .auth import CREDENTIAL_HEADERS, Access, Caller

#: Names of this machine.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OWN_SITES = frozenset({"", "none", "same-origin"})
#: Ports that browsers omit.
_DEFAULT_PORTS = ("80", "443")
#: Limit for all headers together. Cookies and tokens of real clients take a tenth of it.
MAX_HEADER_BYTES = 32 * 1024
#: Headers that the decision depends on.
_IDENTIFYING = frozenset({b"host", b"origin", b"sec-fetch-site", b"cookie"}) | CREDENTIAL_HEADERS
#: Bound of the cache of callers, keyed by a hash of these headers: clients send the same ones every time.
_MAX_CACHED = 1024


class ForbiddenOrigin(UsageError):
    """Request rejected by the Host/Origin check."""

    status = 403


class HeadersTooLarge(UsageError):
    """The headers exceed the size limit."""

    status = 431


def is_loopback(host: str) -> bool:
    """Whether a server that listens on this host can be reached from this machine only."""
    return host.lower() in ("localhost", "127.0.0.1", "::1")


class OriginGuard:
    """Checks headers, origin and credentials of each request.

    Args:
        access: authenticates callers; by default every local caller is accepted.
        hosts: accepted `Host` names besides those of this machine; `*` for any.
    """

    def __init__(self, access: Access | None = None, hosts: frozenset[str] = frozenset()) -> None:
        self.access = access or Access(ApiKeys(MemoryState()), required=False)
        self._hosts = frozenset(map(str.lower, hosts)) | LOOPBACK
        self._any_host = "*" in hosts
        #: Hash -> the version of the keys, and the caller.
        self._callers: dict[bytes, tuple[object, Caller]] = {}

    def check(self, scope: Scope, route: Route | None) -> Caller:
        """The caller of a request.

        Raises:
            ForbiddenOrigin, HeadersTooLarge, Unauthorized, Forbidden: the request is rejected.
        """
        level = route.level if route is not None else "client"
        size = 0
        parts = [level.encode(), scope.get("query_string", b"")]
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            if name in _IDENTIFYING:
                parts += (name, value)
        if size > MAX_HEADER_BYTES:
            raise HeadersTooLarge(f"the headers exceed {MAX_HEADER_BYTES} bytes")
        # A hash, so no key stays in memory. No header contains a line break.
        fingerprint = blake2b(b"\n".join(parts), digest_size=16).digest()
        version = self.access.version()
        cached = self._callers.get(fingerprint)
        if cached is not None and cached[0] == version:
            return cached[1]
        self._check_origin(scope)
        caller = self.access.check(scope, level)
        # Not cached: sessions, which expire, and callers with their own keys, which must not be retained.
        if version is not None and not caller.own_keys and not caller.from_page:
            self._remember(fingerprint, version, caller)
        return caller

    def _remember(self, fingerprint: bytes, version: object, caller: Caller) -> None:
        if len(self._callers) >= _MAX_CACHED:
            self._callers.clear()
        self._callers[fingerprint] = (version, caller)

    def _check_origin(self, scope: Scope) -> None:
        count = 0
        values = {b"host": b"", b"origin": b"", b"sec-fetch-site": b""}
        for name, value in scope["headers"]:
            if name in values:
                count += name != b"sec-fetch-site"
                values[name] = values[name] or value
        host, origin, site = [value.decode("latin-1") for value in values.values()]
        if count > bool(host) + bool(origin):
            raise ForbiddenOrigin("the request has several Host or Origin headers, or an empty one")
        if not self._any_host and _name(host) not in self._hosts:
            raise ForbiddenOrigin("this Host is not allowed", hint="allow it with --allow-host")
        if origin and not _same(origin, host):
            raise ForbiddenOrigin("cross-site requests are not allowed")
        if site not in _OWN_SITES:
            raise ForbiddenOrigin("cross-site requests are not allowed")


def _split(authority: str) -> tuple[str, str]:
    """Name and port of `name:port`; without a port, all of it is the name."""
    name, colon, port = authority.lower().rpartition(":")
    return (name, port) if colon and port.isascii() and port.isdigit() else (authority.lower(), "")


def _name(host: str) -> str:
    return _split(host)[0]


def _same(origin: str, host: str) -> bool:
    """Whether a page of that origin came from this server. `null`, which any page can send, is foreign."""
    scheme, slashes, authority = origin.partition("://")
    if not slashes or scheme.lower() not in ("http", "https"):
        return False
    (name, port), (own_name, own_port) = _split(authority), _split(host)
    usual = {"", *_DEFAULT_PORTS}
    return name == own_name and (port == own_port or (port in usual and own_port in usual))
