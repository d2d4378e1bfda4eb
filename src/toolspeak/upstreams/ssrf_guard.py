"""SSRF guard: checks URLs that came with a request, so they cannot reach internal networks.

Third parties choose the URLs of images and tool servers. A URL is parsed strictly and its host is resolved once. Every
resolved address must be public, and the caller must connect to one of these addresses, so DNS rebinding has no effect.
Base URLs from the configuration are not checked, because local models are common. Those from the web page may lead to
any network, but not to the metadata service of a cloud.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import msgspec

from ..errors import UsageError
from .http.address import PORTS, URL

IP = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
#: Resolves a host and a port to IP addresses.
Resolver = Callable[[str, int], Awaitable[Iterable[str]]]

_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")
#: Some parsers read a host whose last label looks like this as a number (127.1, 0x7f000001, 017700000001, 2130706433).
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
#: Maximum length of a host name (RFC 1035).
_MAX_HOST_CHARS = 253

#: Suffixes of internal host names. They are rejected whatever they resolve to.
_INTERNAL_SUFFIXES = (".internal", ".intranet", ".lan", ".local", ".localdomain", ".localhost", ".home.arpa")
#: Networks that are not public, although some supported Python versions treat them as public. Also Azure's metadata
#: service, whose address is formally public.
_NOT_PUBLIC = tuple(
    map(
        ip_network,
        "100.64.0.0/10 168.63.129.16/32 192.0.0.0/24 192.88.99.0/24 198.18.0.0/15 240.0.0.0/4"
        " ::/96 64:ff9b:1::/48 100::/64 2001:db8::/32 5f00::/16 fec0::/10".split(),
    )
)
#: Metadata services, which hand out the credentials of a machine in a cloud: link-local addresses, and addresses of
#: Amazon, Google, Alibaba, Azure and Oracle.
_METADATA_SERVICES = "169.254.0.0/16 fe80::/10 fd00:ec2::254 fd20:ce::254 100.100.100.200 168.63.129.16 192.0.0.192"
_METADATA = tuple(map(ip_network, _METADATA_SERVICES.split()))
_ALLOW_HINT = "if this is intended, add the host to the allowed hosts"
#: IPv6 networks whose last four bytes are an IPv4 address.
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("::ffff:0:0:0/96"))


class PinnedUrl(msgspec.Struct, frozen=True):
    """A checked URL and the addresses to connect to. The host must not be resolved again."""

    url: str
    secure: bool
    host: str
    port: int
    addresses: tuple[str, ...]


async def check_address(url: str, *, allow: Iterable[str] = (), resolver: Resolver | None = None) -> PinnedUrl:
    """Check a URL that came with a request. `allow` lists hosts and networks (`10.1.0.0/16`) to accept anyway.

    The caller must connect to one of `addresses`, send `host` as the host name (also in TLS), and check the target of
    each redirect in the same way.

    Raises UsageError if the URL leads to an internal network or is ambiguous.
    """
    secure, host, port = _parse_url(url)
    hosts, networks = _parse_allow_list(allow)
    literal = _literal(host)
    trusted = host in hosts
    # A name without a dot is resolved in the local network.
    if literal is None and not trusted and ("." not in host or host.endswith(_INTERNAL_SUFFIXES)):
        raise UsageError("the URL names an internal host", hint=_ALLOW_HINT)
    addresses = [str(literal)] if literal is not None else await _look_up(resolver or resolve, host, port)
    for address in addresses:
        if not (trusted or _is_allowed(ip_address(address), networks)):
            raise UsageError("the URL leads to an internal network", hint=_ALLOW_HINT)
    return PinnedUrl(url, secure, host, port, tuple(addresses))


def is_metadata(host: str) -> bool:
    """Whether a host is the address of a metadata service. Names are not resolved."""
    ip = _literal(host.partition("%")[0])
    inner = ip and (_embedded_ipv4(ip) or ip)
    return inner is not None and any(inner in each for each in _METADATA if each.version == inner.version)


def is_public(address: IP) -> bool:
    """Whether an address is public. For an IPv4 address embedded in an IPv6 address, the IPv4 address counts."""
    inner = _embedded_ipv4(address)
    if inner is not None:
        return is_public(inner)
    blocked = any(address in network for network in _NOT_PUBLIC if network.version == address.version)
    return address.is_global and not address.is_multicast and not blocked


async def resolve(host: str, port: int) -> list[str]:
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def _parse_url(url: str) -> tuple[bool, str, int]:
    if not URL.fullmatch(url):
        raise UsageError("the URL is empty or contains an invalid character")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError("invalid URL") from error
    if parts.scheme not in PORTS:
        raise UsageError("the URL must begin with http:// or https://")
    if "@" in parts.netloc:
        raise UsageError("the URL must not contain a user name or password")
    if port == 0:
        raise UsageError("the URL contains port 0, which cannot be used")
    host = (parts.hostname or "").removesuffix(".")
    if not _is_host(host):
        raise UsageError("the URL has no host, or its host is ambiguous")
    return parts.scheme == "https", host, PORTS[parts.scheme] if port is None else port


def _is_host(host: str) -> bool:
    """Whether all URL parsers agree on this host."""
    if _literal(host) is not None:
        return True
    last = host.rpartition(".")[2]
    return len(host) <= _MAX_HOST_CHARS and bool(_HOST.fullmatch(host)) and not _NUMERIC_LABEL.fullmatch(last)


def _literal(host: str) -> IP | None:
    """Return the IP address if `host` is one, or None. Scoped addresses (`%eth0`) are not accepted."""
    return ip_address(host) if "%" not in host and _is_address(host) else None


async def _look_up(resolver: Resolver, host: str, port: int) -> list[str]:
    try:
        addresses = [str(address) for address in await resolver(host, port)]
    except (OSError, UnicodeError) as error:
        raise UsageError("the host of the URL cannot be resolved") from error
    if not addresses:
        raise UsageError("the host of the URL cannot be resolved")
    if not all(map(_is_address, addresses)):
        raise UsageError("the resolver returned an invalid address for the host of the URL", hint="check the resolver")
    return addresses


def _is_address(text: str) -> bool:
    """Whether a text is an IP address, with or without a scope."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _parse_allow_list(allow: Iterable[str]) -> tuple[set[str], list[Network]]:
    hosts: set[str] = set()
    networks: list[Network] = []
    for entry in allow:
        try:
            networks.append(ip_network(entry))
        except ValueError:
            hosts.add(entry.lower().removesuffix("."))
    return hosts, networks


def _is_allowed(address: IP, networks: list[Network]) -> bool:
    inner = _embedded_ipv4(address) or address
    allowed = any(inner in network for network in networks if network.version == inner.version)
    return allowed or is_public(address)


def _embedded_ipv4(address: IP) -> IPv4Address | None:
    if not isinstance(address, IPv6Address):
        return None
    if any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)
