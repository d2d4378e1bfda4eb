"""The route table.

Paths work with or without `/v1`, which users tend to add or forget. Gemini's paths include the model and the action, so
they are matched by pattern. Paths must match exactly: slashes are not added, merged or removed. Each route has a
required access level.
"""

from collections.abc import Iterable, Mapping

import msgspec

from ..core.types import JSONValue
from .access.auth import Level


class Route(msgspec.Struct, frozen=True):
    """The handler of a path: a model request in a `client_protocol`, or a `page` of the server."""

    client_protocol: str = ""
    page: str = ""
    fields: Mapping[str, JSONValue] = {}  # request fields taken from the path
    level: Level = "client"  # the required access level

    @property
    def error_protocol(self) -> str:
        """The protocol in which errors are formatted."""
        return self.client_protocol or _PAGE_ERROR_PROTOCOLS.get(self.page.partition("_")[0], _DEFAULT_ERROR_PROTOCOL)


#: Error protocols by the first part of a page name, which is the protocol whose clients use the page.
_PAGE_ERROR_PROTOCOLS = {"anthropic": "anthropic", "gemini": "gemini", "ollama": "ollama"}
_DEFAULT_ERROR_PROTOCOL = "openai_chat"

_MODEL_REQUESTS = {"/chat/completions": "openai_chat", "/responses": "openai_responses", "/messages": "anthropic"}
#: Pages for monitoring, which reveal nothing but the server's health.
_OPEN_PAGES = {"/health": "health", "/ready": "ready"}
_PAGES = {
    "/": "root",
    "/version": "version",
    "/openapi.json": "openapi",
    "/docs": "docs",
    "/models": "models",
    "/v1/models": "models",
    "/v1beta/models": "gemini_models",
    "/api/tags": "ollama_tags",
    "/api/ps": "ollama_ps",
    "/api/version": "ollama_version",
    "/api/hello": "root",
}
_POST_PAGES = {
    "/api/show": "ollama_show",
    "/messages/count_tokens": "anthropic_count",
    "/v1/messages/count_tokens": "anthropic_count",
}
#: Data for the web page, restricted to administrators.
_ADMIN_PAGES = {
    "about": "about",
    "clients": "clients",
    "connection": "connection",
    "evaluations": "evaluations",
    "models": "profiles",
    "requests": "records",
    "series": "series",
    "sessions": "chats",
    "tools": "server_tools",
}

_READ = ("GET", "HEAD")
_TABLE: dict[tuple[str, str], Route] = {
    **{
        ("POST", prefix + path): Route(client_protocol=face)
        for path, face in _MODEL_REQUESTS.items()
        for prefix in ("", "/v1")
    },
    ("POST", "/api/chat"): Route(client_protocol="ollama"),
    ("POST", "/api/generate"): Route(client_protocol="ollama_generate"),
    **{(method, path): Route(page=page) for path, page in _PAGES.items() for method in _READ},
    **{("POST", path): Route(page=page) for path, page in _POST_PAGES.items()},
    **{(method, path): Route(page=page, level="open") for path, page in _OPEN_PAGES.items() for method in _READ},
    # Open, because users sign in here with the one-time code that the server printed.
    ("GET", "/toolspeak/session"): Route(page="session", level="open"),
    ("POST", "/toolspeak/session"): Route(page="session_begin", level="open"),
    ("DELETE", "/toolspeak/session"): Route(page="session_end", level="admin"),
    ("POST", "/toolspeak/link"): Route(page="link", level="admin"),
    **{("GET", f"/toolspeak/{path}"): Route(page=page, level="admin") for path, page in _ADMIN_PAGES.items()},
    ("POST", "/toolspeak/connection"): Route(page="connection_check", level="admin"),
    ("POST", "/toolspeak/connection/use"): Route(page="connection_use", level="admin"),
    ("POST", "/toolspeak/import"): Route(page="import", level="admin"),
    ("POST", "/toolspeak/probe"): Route(page="probe", level="admin"),
    ("POST", "/toolspeak/sessions"): Route(page="chat_kept", level="admin"),
    # For administrators, because metrics reveal which models are used and how much.
    **{(method, "/metrics"): Route(page="metrics", level="admin") for method in _READ},
}

_GEMINI_ACTIONS = {"generateContent": False, "streamGenerateContent": True}
#: Path prefixes of a single model, and their pages.
_MODEL_PATHS = {"/v1/models/": "model", "/models/": "model", "/v1beta/models/": "gemini_model"}
#: Path prefixes of a stored response, and the suffix for its input items.
_RESPONSES, _INPUT_ITEMS = ("/v1/responses/", "/responses/"), "/input_items"
_RECORDS, _REPLAY = "/toolspeak/requests/", "/replay"
_SESSIONS = "/toolspeak/sessions/"
#: Path prefix of the web page's static files, which contain no user data.
_FILES = "/toolspeak/page/"
#: An example path for each pattern.
_PATH_TEMPLATES = (
    *(
        ("POST", f"{head}/models/NAME:{action}")
        for head in ("", "/v1", "/v1beta")
        for action in (*_GEMINI_ACTIONS, "countTokens")
    ),
    *((method, f"{head}/models/NAME") for head in ("", "/v1", "/v1beta") for method in _READ),
    *((method, f"{head}NAME") for head in (_RECORDS, _FILES, _SESSIONS) for method in _READ),
    ("POST", f"{_RECORDS}NAME{_REPLAY}"),
    *((method, f"{_SESSIONS}NAME") for method in ("POST", "DELETE")),
    *((method, f"{head}NAME") for head in _RESPONSES for method in (*_READ, "DELETE")),
    *((method, f"{head}NAME{_INPUT_ITEMS}") for head in _RESPONSES for method in _READ),
)


def all_routes() -> dict[tuple[str, str], Route]:
    """Return all routes, with `NAME` as a placeholder in paths that contain a name."""
    return _TABLE | {each: route for each in _PATH_TEMPLATES if (route := find_route(*each)) is not None}


def find_route(method: str, path: str) -> Route | None:
    """Return the route of a request, or None."""
    route = _TABLE.get((method, path))
    if route is not None:
        return route
    if method == "POST":
        if path.startswith(_SESSIONS):
            return _session(path, "chat_renamed")
        return _replay(path) if path.startswith(_RECORDS) else _gemini(path)
    if method in _READ:
        return _item(path)
    if method == "DELETE" and path.startswith(_SESSIONS):
        return _session(path, "chat_removed")
    return _response(path, "openai_response_deleted") if method == "DELETE" else None


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


def _item(path: str) -> Route | None:
    for prefix, page in _MODEL_PATHS.items():
        if path.startswith(prefix) and len(path) > len(prefix):
            return Route(page=page, fields={"model": path[len(prefix) :]})
    if path.startswith(_RESPONSES):
        if path.endswith(_INPUT_ITEMS):
            return _response(path.removesuffix(_INPUT_ITEMS), "openai_response_items")
        return _response(path, "openai_response")
    if path.startswith(_RECORDS):
        return Route(page="record", fields={"id": path[len(_RECORDS) :]})
    if path.startswith(_SESSIONS):
        return _session(path, "chat")
    if path.startswith(_FILES):
        return Route(page="page_file", fields={"name": path[len(_FILES) :]})
    return None


def _session(path: str, page: str) -> Route:
    return Route(page=page, fields={"id": path[len(_SESSIONS) :]}, level="admin")


def _response(path: str, page: str) -> Route | None:
    """Match the path of a stored response, whose id contains no slash."""
    name = next((path[len(head) :] for head in _RESPONSES if path.startswith(head)), "")
    return Route(page=page, fields={"id": name}) if name and "/" not in name else None


def _replay(path: str) -> Route | None:
    identifier = path[len(_RECORDS) :].removesuffix(_REPLAY)
    matches = path == f"{_RECORDS}{identifier}{_REPLAY}" and identifier
    return Route(page="replay", fields={"id": identifier}, level="admin") if matches else None
