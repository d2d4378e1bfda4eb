"""Choose the proxy for a URL from the usual environment variables.

`HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY` name a proxy, `NO_PROXY` lists exceptions; lower-case names take precedence.
Loopback addresses never use a proxy, because they would then refer to the proxy's machine.
"""

from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from .values import Secret, TransportRoute

_PORTS = {"http": 80, "https": 443}
#: Variable set by CGI servers, where a client can set `HTTP_PROXY` by its `Proxy` header (httpoxy).
_CGI = "REQUEST_METHOD"


def route_for(url: str, transport: str, environment: Mapping[str, str]) -> TransportRoute:
    if transport == "thin":
        return _direct(transport)
    try:
        where = urlsplit(url)
        port = where.port or _PORTS.get(where.scheme, 0)
    except ValueError:
        return _direct(transport)  # the connection attempt reports the invalid URL
    host = (where.hostname or "").rstrip(".")
    variable = _proxy_variable(where, environment)
    exceptions = (environment.get("no_proxy") or environment.get("NO_PROXY") or "").lower().split(",")
    if not variable or not host or _is_here(host) or any(_covers(each.strip(), host, port) for each in exceptions):
        return _direct(transport)
    proxy = environment[variable].strip()
    return TransportRoute("httpx2", Secret(proxy if "://" in proxy else f"http://{proxy}"), variable)


def _direct(transport: str) -> TransportRoute:
    return TransportRoute("httpx2" if transport == "httpx2" else "thin")


def _proxy_variable(where: SplitResult, environment: Mapping[str, str]) -> str:
    """Return the name of the environment variable that sets the proxy, or an empty string."""
    forged = "HTTP_PROXY" if environment.get(_CGI) else ""
    names = (f"{where.scheme}_proxy", f"{where.scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    return next((name for name in names if name != forged and environment.get(name, "").strip()), "")


def _is_here(host: str) -> bool:
    from ipaddress import ip_address  # rarely needed and slow to import

    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def _covers(entry: str, host: str, port: int) -> bool:
    """Whether an entry of `NO_PROXY` is the host, a parent domain, its network or `*`."""
    if entry == "*":
        return True
    from ipaddress import ip_address, ip_network

    with suppress(ValueError):
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    name, colon, digits = entry.rpartition(":")
    if colon and digits.isdecimal():
        return int(digits) == port and _covers(name, host, port)
    domain = entry.removeprefix("*").lstrip(".").rstrip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))
