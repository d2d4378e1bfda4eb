"""Who may ask, and from where: the Host and Origin of a request, its size, and its caller.

A web page can make a browser send requests to loopback, and DNS can be made to point there; so a server on loopback
takes only its own names as Host. No server takes a foreign Origin or a request that a browser calls cross-site,
whatever the content type, and none lets other sites read its answers. What a route demands of its caller stands with
the route; a path without a route demands what every client must have.
"""

from __future__ import annotations

from hashlib import blake2b

from ...errors import UsageError
from ...key_value import MemoryState
from ..asgi import Scope
from ..routes import Route
from .api_keys import Keys
from .auth import CREDENTIAL_HEADERS, Access, Caller

#: The names of this machine.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OWN_SITES = frozenset({"", "none", "same-origin"})
#: Ports that a browser leaves out.
_USUAL_PORTS = ("80", "443")
#: Every header line together. Cookies and tokens of real clients take a tenth of it.
MOST_HEADERS = 32 * 1024
#: Headers that say who asks, and from where.
_TELLING = frozenset({b"host", b"origin", b"sec-fetch-site", b"cookie"}) | CREDENTIAL_HEADERS
#: Callers that are known again, each by a hash of these headers: clients send the same ones with every request.
_MOST_KNOWN = 1024


class Refused(UsageError):
    """A request that comes from where none may come from."""

    status = 403


class HeadersTooLarge(UsageError):
    """More headers than this server takes."""

    status = 431


def is_loopback(host: str) -> bool:
    """Whether a server that listens there is reached from this machine only."""
    return host.lower() in ("localhost", "127.0.0.1", "::1")


class Guard:
    """Checks each request before anything else is done with it.

    Args:
        access: who is let in; by default everybody on this machine.
        hosts: names that may stand in `Host` besides those of this machine; `*` for any.
    """

    def __init__(self, access: Access | None = None, hosts: frozenset[str] = frozenset()) -> None:
        self.access = access or Access(Keys(MemoryState()), required=False)
        self._hosts = frozenset(map(str.lower, hosts)) | LOOPBACK
        self._any_host = "*" in hosts
        #: Who was let in, and the version of the keys at that time.
        self._known: dict[bytes, tuple[object, Caller]] = {}

    def check(self, scope: Scope, route: Route | None) -> Caller:
        """The caller of a request.

        Raises:
            Refused, HeadersTooLarge, Unauthorized, Forbidden: it is not to be answered.
        """
        level = route.level if route is not None else "client"
        size = 0
        told = [level.encode(), scope.get("query_string", b"")]
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            if name in _TELLING:
                told += (name, value)
        if size > MOST_HEADERS:
            raise HeadersTooLarge(f"the headers have more than {MOST_HEADERS} bytes")
        # A hash, so that nobody's key is kept; no header holds a line break.
        mark = blake2b(b"\n".join(told), digest_size=16).digest()
        version = self.access.version()
        known = self._known.get(mark)
        if known is not None and known[0] == version:
            return known[1]
        self._check_origin(scope)
        caller = self.access.check(scope, level)
        # Sessions end by themselves, and clients' own keys are not ours to keep.
        if version is not None and not caller.own and not caller.page:
            self._remember(mark, version, caller)
        return caller

    def _remember(self, mark: bytes, version: object, caller: Caller) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[mark] = (version, caller)

    def _check_origin(self, scope: Scope) -> None:
        named = 0
        found = {b"host": b"", b"origin": b"", b"sec-fetch-site": b""}
        for name, value in scope["headers"]:
            if name in found:
                named += name != b"sec-fetch-site"
                found[name] = found[name] or value
        host, origin, site = [value.decode("latin-1") for value in found.values()]
        if named > bool(host) + bool(origin):
            raise Refused("the request names more than one Host or Origin, or an empty one")
        if not self._any_host and _name(host) not in self._hosts:
            raise Refused("this Host is not served", hint="let the server know it with --allow-host")
        if origin and not _same(origin, host):
            raise Refused("requests from other sites are not served")
        if site not in _OWN_SITES:
            raise Refused("requests from other sites are not served")


def _split(authority: str) -> tuple[str, str]:
    """Name and port of `name:port`; the whole as the name where the end is no port."""
    name, colon, port = authority.lower().rpartition(":")
    return (name, port) if colon and port.isascii() and port.isdigit() else (authority.lower(), "")


def _name(host: str) -> str:
    return _split(host)[0]


def _same(origin: str, host: str) -> bool:
    """Whether a page of that origin came from this server. `null`, which any page can be, is foreign."""
    scheme, slashes, authority = origin.partition("://")
    if not slashes or scheme.lower() not in ("http", "https"):
        return False
    (name, port), (own_name, own_port) = _split(authority), _split(host)
    usual = {"", *_USUAL_PORTS}
    return name == own_name and (port == own_port or (port in usual and own_port in usual))
