"""Where a URL that came with a request may lead: not into the network behind us.

A picture's address, or that of a tool server, is chosen by somebody else. It is read by one strict reader, its name is
looked up once, every address it has must be a public one, and whoever connects connects to those addresses: a name that
means something else a moment later changes nothing. A base URL from the configuration is not checked here: local models
are what many have.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import urlsplit

import msgspec

from ..errors import UsageError

IP = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
#: Host and port to addresses.
Resolver = Callable[[str, int], Awaitable[Iterable[str]]]

_PORTS = {"http": 80, "https": 443}
#: No backslash, no space, no control character, nothing outside ASCII: URL readers differ about all of them.
_URL = re.compile(r"[!-\[\]-~]+")
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")
#: A last label like this makes a host a number to some readers (127.1, 0x7f000001, 017700000001, 2130706433).
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
#: Longest name of a host, by RFC 1035.
_MOST_NAME = 253

#: Names for what is inside, whatever they resolve to.
_INSIDE = (".internal", ".intranet", ".lan", ".local", ".localdomain", ".localhost", ".home.arpa")
#: What the standard library of some supported Python takes for public, and a public address that is none: Azure's
#: metadata service.
_NOT_PUBLIC = tuple(
    ip_network(network)
    for network in (
        "100.64.0.0/10",
        "168.63.129.16/32",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "240.0.0.0/4",
        "::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "2001:db8::/32",
        "5f00::/16",
        "fec0::/10",
    )
)
#: IPv6 addresses that carry an IPv4 address in their last four bytes.
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("::ffff:0:0:0/96"))


class Pinned(msgspec.Struct, frozen=True):
    """A URL that may be fetched, and the addresses to connect to; names are not to be looked up again."""

    url: str
    secure: bool
    host: str
    port: int
    addresses: tuple[str, ...]


async def check_address(url: str, *, allow: Iterable[str] = (), resolver: Resolver | None = None) -> Pinned:
    """Check a URL that came with a request. `allow` names hosts and networks (`10.1.0.0/16`) that are fine anyway.

    The caller connects to one of `addresses`, sends `host` as the name (also in TLS), and follows no redirect
    without checking it like this.

    Raises:
        UsageError: it leads somewhere it must not lead, or cannot be read in one way only.
    """
    secure, host, port = _taken_apart(url)
    hosts, networks = _allowed(allow)
    literal = _literal(host)
    trusted = host in hosts
    if literal is None and not trusted and _is_inside(host):
        raise UsageError("the URL names a host of an inner network", hint="allow the host if this is intended")
    found = [str(literal)] if literal is not None else await _looked_up(resolver or resolve, host, port)
    for address in found:
        if not (trusted or _is_fine(ip_address(address), networks)):
            raise UsageError("the URL leads to an inner network", hint="allow the host if this is intended")
    return Pinned(url, secure, host, port, tuple(found))


def is_public(address: IP) -> bool:
    """Whether an address is one of the internet, also where it is wrapped into another one."""
    inner = _inner(address)
    if inner is not None:
        return is_public(inner)
    named = any(address in network for network in _NOT_PUBLIC if network.version == address.version)
    return address.is_global and not address.is_multicast and not named


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system for the addresses of a host."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _taken_apart(url: str) -> tuple[bool, str, int]:
    if not _URL.fullmatch(url):
        raise UsageError("the URL is empty or holds a character that a URL cannot hold")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError("the URL cannot be read") from error
    if parts.scheme not in _PORTS:
        raise UsageError("the URL must begin with http:// or https://")
    if "@" in parts.netloc:
        raise UsageError("the URL must not carry a name or a password")
    if port == 0:
        raise UsageError("the URL names port 0, where nobody can listen")
    host = (parts.hostname or "").removesuffix(".")
    if not _is_host(host):
        raise UsageError("the URL names no host, or names it in a way that can be read differently")
    return parts.scheme == "https", host, _PORTS[parts.scheme] if port is None else port


def _is_host(host: str) -> bool:
    """Whether everybody reads it as the same host."""
    if _literal(host) is not None:
        return True
    last = host.rpartition(".")[2]
    return len(host) <= _MOST_NAME and bool(_HOST.fullmatch(host)) and not _NUMBER.fullmatch(last)


def _literal(host: str) -> IP | None:
    """The address that a host is written as. Only the plain forms; a scope (`%eth0`) is none."""
    try:
        return ip_address(host) if "%" not in host else None
    except ValueError:
        return None


def _is_inside(host: str) -> bool:
    """A name without a dot is looked up among the neighbours."""
    return "." not in host or host.endswith(_INSIDE)


async def _looked_up(resolver: Resolver, host: str, port: int) -> list[str]:
    try:
        found = [str(address) for address in await resolver(host, port)]
    except (OSError, UnicodeError) as error:
        raise UsageError("the host of the URL cannot be found") from error
    if not found:
        raise UsageError("the host of the URL cannot be found")
    if not all(map(_is_address, found)):
        raise UsageError("the lookup of the URL's host gave something that is no address", hint="check the resolver")
    return found


def _is_address(text: str) -> bool:
    """Whether one can connect to it without a lookup; a scope, which only the system knows, may stand behind it."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _allowed(allow: Iterable[str]) -> tuple[set[str], list[Network]]:
    hosts: set[str] = set()
    networks: list[Network] = []
    for entry in allow:
        try:
            networks.append(ip_network(entry))
        except ValueError:
            hosts.add(entry.lower().removesuffix("."))
    return hosts, networks


def _is_fine(address: IP, networks: list[Network]) -> bool:
    inner = _inner(address) or address
    allowed = any(inner in network for network in networks if network.version == inner.version)
    return allowed or is_public(address)


def _inner(address: IP) -> IPv4Address | None:
    """The IPv4 address inside an IPv6 one."""
    if not isinstance(address, IPv6Address):
        return None
    if any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)
