"""The route table.

Paths work with or without `/v1`, which users tend to add or forget. Gemini's paths include the model and the action, so
they are matched by pattern. Paths must match exactly: slashes are not added, merged or removed. Each route has a
required access level. The table is in `routes.toml`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ..core.types import JSONValue
from ..protocols import plugin_protocols
from .access.auth import Level


class Route(msgspec.Struct, frozen=True):
    """The handler of a path: a model request in a `client_protocol`, or a `page` of the server."""

    client_protocol: str = ""
    page: str = ""
    fields: Mapping[str, JSONValue] = {}  # request fields taken from the path
    level: Level = "client"  # the required access level

    @property
    def error_protocol(self) -> str:
        return self.client_protocol or _PAGE_ERROR_PROTOCOLS.get(self.page.partition("_")[0], _DEFAULT_ERROR_PROTOCOL)


#: Error protocols by the first part of a page name, which is the protocol whose clients use the page.
_PAGE_ERROR_PROTOCOLS = {"anthropic": "anthropic", "gemini": "gemini", "ollama": "ollama"}
_DEFAULT_ERROR_PROTOCOL = "openai_chat"

_READ = ("GET", "HEAD")


class _Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Paths that contain a name, which becomes a field of the route."""

    methods: tuple[str, ...]
    head: str
    page: str
    tail: str = ""
    field: str = "id"
    level: Level = "client"


class _Rows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `routes.toml`: names of client protocols and of pages, by method and path."""

    requests: dict[str, str]
    pages: dict[Level, dict[str, str]]
    patterns: tuple[_Pattern, ...]

    def table(self) -> dict[tuple[str, str], Route]:
        rows = [(key, Route(client_protocol=name)) for key, name in self.requests.items()]
        for level, pages in self.pages.items():
            rows += [(key, Route(page=name, level=level)) for key, name in pages.items()]
        parts = [(*key.split(" "), route) for key, route in rows]
        return {(each, path): route for word, path, route in parts for each in (_READ if word == "READ" else (word,))}


_ROWS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Rows)
_TABLE, _PATTERNS = _ROWS.table(), _ROWS.patterns
_GEMINI_ACTIONS = {"generateContent": False, "streamGenerateContent": True}
#: An example path for each pattern.
_PATH_TEMPLATES = (
    *(
        ("POST", f"{head}/models/NAME:{action}")
        for head in ("", "/v1", "/v1beta")
        for action in (*_GEMINI_ACTIONS, "countTokens")
    ),
    *((method, f"{each.head}NAME{each.tail}") for each in _PATTERNS for method in each.methods),
)


def all_routes() -> dict[tuple[str, str], Route]:
    """Return all routes, with `NAME` as a placeholder in paths that contain a name."""
    return _TABLE | {each: route for each in _PATH_TEMPLATES if (route := find_route(*each)) is not None}


def find_route(method: str, path: str) -> Route | None:
    route = _TABLE.get((method, path))
    if route is None and method == "POST":
        route = _gemini(path)
    return route or _match_pattern(method, path) or (_of_plugin(path) if method == "POST" else None)


#: Pages whose path OpenAI and Gemini share, and the headers that identify Gemini's clients.
_FOR_GEMINI = {"models": "gemini_models", "model": "gemini_model"}
_GEMINI_HEADERS = frozenset({b"x-goog-api-key", b"x-goog-api-client"})


def route_for_headers(route: Route, headers: Iterable[tuple[bytes, bytes]]) -> Route:
    """Resolve an ambiguous path by the client's headers: Gemini also lists models at `/v1/models`."""
    page = _FOR_GEMINI.get(route.page)
    if page is None or not any(name in _GEMINI_HEADERS for name, _ in headers):
        return route
    return msgspec.structs.replace(route, page=page)


def methods_of(path: str) -> tuple[str, ...]:
    """Return the methods supported at this path; empty if the path is unknown."""
    return tuple(method for method in (*_READ, "POST", "DELETE") if find_route(method, path) is not None)


#: Maximum length of a path in errors and logs. Real clients use shorter paths.
_MAX_DISPLAY_CHARS = 256


def display_path(path: str) -> str:
    """Shorten a path for errors and logs."""
    return path if len(path) <= _MAX_DISPLAY_CHARS else f"{path[:_MAX_DISPLAY_CHARS]}..."


def _gemini(path: str) -> Route | None:
    """Match `/v1beta/models/NAME:generateContent` and similar paths, with any prefix that clients use."""
    head, separator, name = path.partition("/models/")
    model, colon, action = name.rpartition(":")
    if not separator or not colon or head not in ("", "/v1", "/v1beta"):
        return None
    if action == "countTokens":
        return Route(page="gemini_count", fields={"model": model})
    if action in _GEMINI_ACTIONS:
        return Route(client_protocol="gemini", fields={"model": model, "stream": _GEMINI_ACTIONS[action]})
    return None


def _of_plugin(path: str) -> Route | None:
    """Match a path that belongs to the protocol of a plugin."""
    for name, protocol in plugin_protocols().items():
        if path in getattr(protocol, "ROUTES", ()):
            return Route(client_protocol=name)
    return None


def _match_pattern(method: str, path: str) -> Route | None:
    for each in _PATTERNS:
        if method in each.methods and path.startswith(each.head) and path.endswith(each.tail):
            name = path[len(each.head) : len(path) - len(each.tail)]
            if name and (each.field == "model" or "/" not in name):
                return Route(page=each.page, fields={each.field: name}, level=each.level)
    return None
