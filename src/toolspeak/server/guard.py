"""Who may ask: the Host and Origin of a request, against pages that reach for a server on this machine.

A web page can make a browser send requests to loopback, and DNS can be made to point there; so a server on
loopback takes only its own names as Host, and no foreign Origin, whatever the content type. Above: `app`.
Below: `errors`.
"""

from __future__ import annotations

from ..errors import UsageError
from .asgi import Scope, header

__all__ = ["Guard", "Refused"]

#: The names of this machine.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1", ""})
_OWN_SITES = frozenset({"", "none", "same-origin"})


class Refused(UsageError):
    """A request that comes from where none may come from."""

    status = 403


class Guard:
    """Checks each request before anything else is done with it.

    Args:
        hosts: names that may stand in `Host` besides those of this machine; `*` for any.
    """

    def __init__(self, hosts: frozenset[str] = frozenset()) -> None:
        self._hosts = hosts
        self._any_host = "*" in hosts

    def check(self, scope: Scope) -> None:
        """Raises `Refused`."""
        if not self._any_host and not self._is_own(header(scope, b"host")):
            raise Refused("this Host is not served", hint="add it to the hosts of the server")
        origin = header(scope, b"origin")
        if origin and not self._is_own(origin.partition("://")[2]):
            raise Refused("requests from other sites are not served")
        if header(scope, b"sec-fetch-site") not in _OWN_SITES:
            raise Refused("requests from other sites are not served")

    def _is_own(self, host: str) -> bool:
        name = host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdigit() else host
        return name.lower() in LOOPBACK or name.lower() in self._hosts
