"""Where a service is, and the headers that every request to it carries.

Everything that comes from a setting is checked here, once, so that nothing in it can write a line of its own into a
request. What is refused is named, never shown: it may be a key. Above: `service`. Below: only `errors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import SplitResult, urlsplit

import msgspec

from ..errors import ConfigError

__all__ = ["Address", "address", "ends_with_version", "header_block", "header_lines", "secrets_in"]

#: A value shorter than this is no secret, and taking it out of texts would tear them.
_SHORTEST_SECRET = 8

_PORTS = {"http": 80, "https": 443}

#: RFC 9110, sections 5.1 and 5.5.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?:[!-~\x80-\xff](?:[\t !-~\x80-\xff]*[!-~\x80-\xff])?)?")
#: What a base URL may be written with. In particular no backslash, no space and no control character, which URL
#: parsers read differently.
_URL = re.compile(r"[!-\[\]-~]+")

_VERSION = re.compile(r"v[0-9]+[a-z0-9]*")

#: Headers that say how a message is cut, and so belong to the transport.
_OURS = frozenset({"accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"})


class Address(msgspec.Struct, frozen=True):
    """A base URL, taken apart."""

    url: str
    secure: bool
    host: str
    port: int
    #: Host and port as the `Host` header wants them.
    authority: str
    path: str


def address(base_url: str) -> Address:
    """Take a base URL apart.

    Raises:
        ConfigError: it is not the URL of an HTTP service, or it carries what does not belong there.
    """
    if not _URL.fullmatch(base_url):
        raise ConfigError("the base URL is empty or holds a character that a URL cannot hold")
    try:
        url = urlsplit(base_url)
        port = url.port
    except ValueError as error:
        raise ConfigError("the base URL cannot be read") from error
    if problem := _problem(url):
        raise ConfigError(f"the base URL {problem}")
    path = url.path.rstrip("/")
    return Address(
        url=f"{url.scheme}://{url.netloc}{path}",
        secure=url.scheme == "https",
        host=url.hostname or "",
        port=_PORTS[url.scheme] if port is None else port,
        authority=url.netloc,
        path=path,
    )


def _problem(url: SplitResult) -> str:
    if url.scheme not in _PORTS:
        return "must begin with http:// or https://"
    if not url.hostname:
        return "names no host"
    if "@" in url.netloc:
        return "must not carry a name or a password"
    if url.query or url.fragment:
        return "must not carry a query or a fragment"
    return ""


def ends_with_version(where: Address) -> bool:
    """Whether the path ends with a version, such as `/v1` or `/v1beta`: users set base URLs with and without."""
    return _VERSION.fullmatch(where.path.rpartition("/")[2]) is not None


def header_lines(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The headers that every request carries; `headers` win over what is sent by default.

    Raises:
        ConfigError: a header cannot be sent.
    """
    lines = {"user-agent": ("User-Agent", "toolspeak"), "accept": ("Accept", "text/event-stream, application/json")}
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ConfigError("the name of a header holds a character that it cannot hold")
        if name.lower() in _OURS:
            raise ConfigError(f"the header `{name}` is set by the transport")
        if not _VALUE.fullmatch(value):
            raise ConfigError(f"the value of the header `{name}` holds a character that a header cannot hold")
        lines[name.lower()] = (name, value)
    # Compressed replies are understood, but a stream that is compressed comes later and costs more.
    return (("Content-Type", "application/json"), ("Accept-Encoding", "identity"), *lines.values())


def header_block(where: Address, lines: Iterable[tuple[str, str]]) -> bytes:
    """The header lines as they are sent."""
    return "".join(f"{name}: {value}\r\n" for name, value in [("Host", where.authority), *lines]).encode("latin-1")


def secrets_in(values: Iterable[str]) -> tuple[str, ...]:
    """The values that may be shown nowhere, the longest first: one may hold another."""
    return tuple(sorted({value for value in values if len(value) >= _SHORTEST_SECRET}, key=len, reverse=True))
