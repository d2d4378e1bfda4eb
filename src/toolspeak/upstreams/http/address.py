"""Where a service is, and the headers that every request to it carries.

Everything that comes from a setting is checked here, once, so that nothing in it can write a line of its own into a
request. What is refused is named, never shown: it may be a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

import msgspec

from ...errors import ConfigError

#: A value shorter than this is no secret, and taking it out of texts would tear them.
_SHORTEST_SECRET = 8

#: What stands in the place of a secret.
_HIDDEN = "***"
#: The beginning of a secret at the end of a text that was cut; anything shorter tells nothing.
_SHORTEST_PART = 4
#: A character as JSON may write it; the last two are an escape that was cut.
_WRITTEN = re.compile(r"\\u[0-9a-fA-F]{4}|\\[^u]|\\u[0-9a-fA-F]{0,3}|\\|[^\\]", re.DOTALL)
_UNICODE_ESCAPE = len("\\u0000")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: An error is quoted inside another's JSON at most this often.
_MOST_QUOTED = 3

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


def without_ending(where: Address, endings: Iterable[str]) -> Address:
    """The address without the first of these endings of a path that it has: users copy the whole of one."""
    for ending in endings:
        if where.path.endswith(ending):
            cut = len(ending)
            return msgspec.structs.replace(where, url=where.url[:-cut], path=where.path[:-cut])
    return where


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


def redacted(text: str, secrets: Iterable[str]) -> str:
    """A text without the secrets, also where JSON's escapes hide them, and where it was cut inside one."""
    secrets = tuple(secrets)
    for depth in range(_MOST_QUOTED + 1 if secrets else 0):
        if depth and "\\" not in text:
            break
        text = _hidden(text, secrets, depth)
    return text


def _hidden(text: str, secrets: tuple[str, ...], depth: int) -> str:
    """The text without secrets that JSON has quoted so often."""
    plain, places = text, list(range(len(text) + 1)) if depth else range(len(text) + 1)
    for _ in range(depth):
        plain, places = _unquoted(plain, places)
    kept: list[str] = []
    last = 0
    for start, end in sorted(span for secret in secrets for span in _spans(plain, secret)):
        if places[end] > last:
            kept += [text[last : places[start]], _HIDDEN] if places[start] >= last else []
            last = places[end]
    return "".join([*kept, text[last:]])


def _unquoted(text: str, places: Sequence[int]) -> tuple[str, list[int]]:
    """The text that a JSON string stands for, and where each of its characters, and the end, came from."""
    characters: list[str] = []
    found: list[int] = []
    for match in _WRITTEN.finditer(text):
        character = _character(match[0])
        if character:
            characters.append(character)
            found.append(places[match.start()])
    return "".join(characters), [*found, places[len(text)]]


def _character(written: str) -> str:
    if len(written) == 1:
        return written if written != "\\" else ""
    if written[1] == "u":
        return chr(int(written[2:], 16)) if len(written) == _UNICODE_ESCAPE else ""
    return _ESCAPES.get(written[1], written[1])


def _spans(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Where a secret stands, or its beginning at the end of the text."""
    start = text.find(secret)
    while start >= 0:
        yield start, start + len(secret)
        start = text.find(secret, start + len(secret))
    for size in range(len(secret) - 1, _SHORTEST_PART - 1, -1):
        if text.endswith(secret[:size]):
            yield len(text) - size, len(text)
            return
