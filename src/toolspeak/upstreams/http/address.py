"""Base URLs, request headers and redaction of secrets.

Settings are validated here once, so no value can inject a line into a request. Errors name a rejected setting but never
quote its value, because it may be a key.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

import msgspec

from ...errors import ConfigError

#: Shorter values are not treated as secrets, because masking them would mangle ordinary text.
_MIN_SECRET_CHARS = 8

_MASK = "***"
#: Minimum length of a prefix of a secret that is redacted at the end of a truncated text.
_MIN_SECRET_PREFIX = 4
#: One character of a JSON string, escaped or not. Also matches escapes that are cut off at the end of the text.
_JSON_CHARACTER = re.compile(r"\\u[0-9a-fA-F]{4}|\\[^u]|\\u[0-9a-fA-F]{0,3}|\\|[^\\]", re.DOTALL)
_UNICODE_ESCAPE = len("\\u0000")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: How many levels of JSON strings inside JSON strings are searched for secrets. Services quote errors in errors.
_MAX_JSON_NESTING = 3

PORTS = {"http": 80, "https": 443}

#: Header names and values, by RFC 9110, sections 5.1 and 5.5.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?:[!-~\x80-\xff](?:[\t !-~\x80-\xff]*[!-~\x80-\xff])?)?")
#: Characters allowed in a URL. URL parsers disagree about backslashes, whitespace and control characters.
URL = re.compile(r"[!-\[\]-~]+")

_VERSION = re.compile(r"v[0-9]+[a-z0-9]*")

#: Headers that only the transport sets, because they determine how a message is framed and encoded.
_TRANSPORT_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)


class BaseUrl(msgspec.Struct, frozen=True):
    url: str
    secure: bool
    host: str
    port: int
    #: Host and port, as in the `Host` header.
    authority: str
    path: str


def parse_base_url(base_url: str) -> BaseUrl:
    if not URL.fullmatch(base_url):
        raise ConfigError("the base URL is empty or contains an invalid character")
    try:
        url = urlsplit(base_url)
        port = url.port
    except ValueError as error:
        raise ConfigError("the base URL has an invalid host or port") from error
    if problem := _problem(url):
        raise ConfigError(f"the base URL {problem}")
    path, whole = url.path.rstrip("/"), f"{url.scheme}://{url.netloc}{url.path}".rstrip("/")
    port = PORTS[url.scheme] if port is None else port
    return BaseUrl(whole, url.scheme == "https", url.hostname or "", port, url.netloc, path)


def _problem(url: SplitResult) -> str:
    if url.scheme not in PORTS:
        return "must begin with http:// or https://"
    if not url.hostname:
        return "has no host"
    if "@" in url.netloc:
        return "must not contain a user name or password"
    if url.query or url.fragment:
        return "must not contain a query or a fragment"
    return ""


def without_ending(base: BaseUrl, endings: Iterable[str]) -> BaseUrl:
    """Strip the first matching ending from the path, because users often copy the full URL of an API method."""
    for ending in endings:
        if base.path.endswith(ending):
            cut = len(ending)
            return msgspec.structs.replace(base, url=base.url[:-cut], path=base.path[:-cut])
    return base


def ends_with_version(base: BaseUrl) -> bool:
    """Whether the path ends with a version such as `/v1` or `/v1beta`. Base URLs come with and without one."""
    return _VERSION.fullmatch(base.path.rpartition("/")[2]) is not None


def header_lines(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the headers to send with every request. `headers` overrides the defaults."""
    lines = {"user-agent": ("User-Agent", "toolspeak"), "accept": ("Accept", "text/event-stream, application/json")}
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ConfigError("a header name contains an invalid character")
        if name.lower() in _TRANSPORT_HEADERS:
            raise ConfigError(f"the header `{name}` is set by the transport")
        if not _VALUE.fullmatch(value):
            raise ConfigError(f"the value of the header `{name}` contains an invalid character")
        lines[name.lower()] = (name, value)
    # Compressed replies are supported but not requested, because compression delays a stream and costs time.
    return (("Content-Type", "application/json"), ("Accept-Encoding", "identity"), *lines.values())


def header_block(base: BaseUrl, lines: Iterable[tuple[str, str]]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in [("Host", base.authority), *lines]).encode("latin-1")


def secret_values(values: Iterable[str]) -> tuple[str, ...]:
    """Return the values to redact, longest first, because one may contain another."""
    return tuple(sorted({value for value in values if len(value) >= _MIN_SECRET_CHARS}, key=len, reverse=True))


def redact(text: str, secrets: Iterable[str]) -> str:
    """Mask secrets in a text, even if they are JSON-escaped or cut off at the end of the text."""
    secrets = tuple(secrets)
    for depth in range(_MAX_JSON_NESTING + 1 if secrets else 0):
        if depth and "\\" not in text:
            break
        text = _redact_at_depth(text, secrets, depth)
    return text


def _redact_at_depth(text: str, secrets: tuple[str, ...], depth: int) -> str:
    """Mask secrets that were JSON-escaped `depth` times."""
    plain, places = text, list(range(len(text) + 1)) if depth else range(len(text) + 1)
    for _ in range(depth):
        plain, places = _unescape(plain, places)
    pieces: list[str] = []
    last = 0
    for start, end in sorted(span for secret in secrets for span in _spans(plain, secret)):
        if places[end] > last:
            pieces += [text[last : places[start]], _MASK] if places[start] >= last else []
            last = places[end]
    return "".join([*pieces, text[last:]])


def _unescape(text: str, places: Sequence[int]) -> tuple[str, list[int]]:
    """Unescape the content of a JSON string. Also returns the source position of each character and of the end."""
    characters: list[str] = []
    origins: list[int] = []
    for match in _JSON_CHARACTER.finditer(text):
        character = _unescape_one(match[0])
        if character:
            characters.append(character)
            origins.append(places[match.start()])
    return "".join(characters), [*origins, places[len(text)]]


def _unescape_one(written: str) -> str:
    if len(written) == 1:
        return written if written != "\\" else ""
    if written[1] == "u":
        return chr(int(written[2:], 16)) if len(written) == _UNICODE_ESCAPE else ""
    return _ESCAPES.get(written[1], written[1])


def _spans(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Yield where a secret occurs, including a prefix of it at the end of the text."""
    start = text.find(secret)
    while start >= 0:
        yield start, start + len(secret)
        start = text.find(secret, start + len(secret))
    for size in range(len(secret) - 1, _MIN_SECRET_PREFIX - 1, -1):
        if text.endswith(secret[:size]):
            yield len(text) - size, len(text)
            return
