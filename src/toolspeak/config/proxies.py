"""Which proxy the environment names for a URL, by the variables that every HTTP client knows.

`HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY` name a proxy, `NO_PROXY` the hosts that are reached without one; each also
in small letters, which win. Nothing on this machine is reached through a proxy: its loopback is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from .values import Route, Secret

_PORTS = {"http": 80, "https": 443}
#: Set by servers that start a program for each request. Then `HTTP_PROXY` is a header of the client's.
_CGI = "REQUEST_METHOD"


def route_for(url: str, transport: str, environment: Mapping[str, str]) -> Route:
    """The way to a URL: through a proxy where the environment names one and the setting does not forbid it."""
    if transport == "thin":
        return _direct(transport)
    try:
        where = urlsplit(url)
        port = where.port or _PORTS.get(where.scheme, 0)
    except ValueError:
        return _direct(transport)  # whoever makes the connection says what is wrong with it
    host = (where.hostname or "").rstrip(".")
    variable = _named(where, environment)
    if not variable or not host or _is_here(host) or _is_excepted(host, port, environment):
        return _direct(transport)
    proxy = environment[variable].strip()
    return Route("httpx2", Secret(proxy if "://" in proxy else f"http://{proxy}"), variable)


def _direct(transport: str) -> Route:
    """The way without a proxy."""
    return Route("httpx2" if transport == "httpx2" else "thin")


def _named(where: SplitResult, environment: Mapping[str, str]) -> str:
    """The variable that names the proxy."""
    forged = "HTTP_PROXY" if environment.get(_CGI) else ""
    names = (f"{where.scheme}_proxy", f"{where.scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    return next((name for name in names if name != forged and environment.get(name, "").strip()), "")


def _is_here(host: str) -> bool:
    from ipaddress import ip_address  # rarely needed, and not quick to load

    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def _is_excepted(host: str, port: int, environment: Mapping[str, str]) -> bool:
    """Whether `NO_PROXY` lists the host: itself, a domain above it, a network around it, or everything."""
    listed = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    return any(_covers(entry.strip().lower(), host, port) for entry in listed.split(",") if entry.strip())


def _covers(entry: str, host: str, port: int) -> bool:
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
