"""Which path means what, as data.

With and without the `/v1` that users set or forget. Gemini's paths carry the model and the action, so they are
told by their shape. A path is found as it is written or not at all: no slash is added, folded or taken away. Each
route says what it demands of its caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ..core.types import JSONValue
from .access.auth import Level


class Route(msgspec.Struct, frozen=True):
    """What a path means: a model request in some protocol (`face`), or a page of the server's own (`page`)."""

    face: str = ""
    page: str = ""
    #: What the path says about the request.
    fields: Mapping[str, JSONValue] = {}
    #: What the caller must be. Whoever adds a route and forgets this adds one for clients.
    level: Level = "client"

    @property
    def shape(self) -> str:
        """The protocol in whose words an error is told."""
        return self.face or _SHAPES_OF_PAGES.get(self.page.partition("_")[0], _USUAL_SHAPE)


#: Pages are called by the protocol whose clients ask for them.
_SHAPES_OF_PAGES = {"anthropic": "anthropic", "gemini": "gemini", "ollama": "ollama"}
_USUAL_SHAPE = "openai_chat"


_MODEL_REQUESTS = {
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    "/messages": "anthropic",
}
#: For whoever watches over the server; they tell nothing else.
_OPEN_PAGES = {
    "/health": "health",
    "/ready": "ready",
}
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
#: What the page of the server shows to who runs it.
_ADMIN_PAGES = {
    "about": "about",
    "evaluations": "evaluations",
    "models": "profiles",
    "requests": "records",
    "series": "series",
    "sessions": "chats",
    "tools": "server_tools",
}

_TABLE: dict[tuple[str, str], Route] = {
    **{("POST", prefix + path): Route(face=face) for path, face in _MODEL_REQUESTS.items() for prefix in ("", "/v1")},
    ("POST", "/api/chat"): Route(face="ollama"),
    ("POST", "/api/generate"): Route(face="ollama_generate"),
    **{(method, path): Route(page=page) for path, page in _PAGES.items() for method in ("GET", "HEAD")},
    **{("POST", path): Route(page=page) for path, page in _POST_PAGES.items()},
    **{
        (method, path): Route(page=page, level="open")
        for path, page in _OPEN_PAGES.items()
        for method in ("GET", "HEAD")
    },
    # Open, since it is how a session begins: by a code that the server printed. The page brings it back.
    ("GET", "/toolspeak/session"): Route(page="session", level="open"),
    ("POST", "/toolspeak/session"): Route(page="session_begin", level="open"),
    ("DELETE", "/toolspeak/session"): Route(page="session_end", level="admin"),
    ("POST", "/toolspeak/link"): Route(page="link", level="admin"),
    **{("GET", f"/toolspeak/{path}"): Route(page=page, level="admin") for path, page in _ADMIN_PAGES.items()},
    ("POST", "/toolspeak/probe"): Route(page="probe", level="admin"),
    ("POST", "/toolspeak/sessions"): Route(page="chat_kept", level="admin"),
    # Counts tell which models are used and how much: for who runs the server, as what was asked is.
    **{(method, "/metrics"): Route(page="metrics", level="admin") for method in ("GET", "HEAD")},
}

_GEMINI_ACTIONS = {"generateContent": False, "streamGenerateContent": True}
#: Where one model is shown, and in whose words.
_ITEMS = {"/v1/models/": "model", "/models/": "model", "/v1beta/models/": "gemini_model"}
#: Where one response is that was given before, and what was sent with it.
_RESPONSES, _SENT = ("/v1/responses/", "/responses/"), "/input_items"
_RECORDS, _REPLAY = "/toolspeak/requests/", "/replay"
#: Where one session is.
_SESSIONS = "/toolspeak/sessions/"
#: The files of the page hold nothing of anybody's.
_FILES = "/toolspeak/page/"


#: One path for each shape that carries a name.
_SHAPES = (
    *(
        ("POST", f"{head}/models/NAME:{action}")
        for head in ("", "/v1", "/v1beta")
        for action in (*_GEMINI_ACTIONS, "countTokens")
    ),
    *((method, f"{head}/models/NAME") for head in ("", "/v1", "/v1beta") for method in ("GET", "HEAD")),
    *((method, f"{head}NAME") for head in (_RECORDS, _FILES, _SESSIONS) for method in ("GET", "HEAD")),
    ("POST", f"{_RECORDS}NAME{_REPLAY}"),
    *((method, f"{head}NAME") for head in _RESPONSES for method in ("GET", "HEAD", "DELETE")),
    *((method, f"{head}NAME{_SENT}") for head in _RESPONSES for method in ("GET", "HEAD")),
)


def every() -> dict[tuple[str, str], Route]:
    """All routes, with `NAME` where a path carries a name."""
    shaped = {(method, path): route for method, path in _SHAPES if (route := find(method, path)) is not None}
    return {**_TABLE, **shaped}


def find(method: str, path: str) -> Route | None:
    """The route of a request; None when there is none."""
    route = _TABLE.get((method, path))
    if route is not None:
        return route
    if method == "POST":
        return _replay(path) if path.startswith(_RECORDS) else _gemini(path)
    if method in ("GET", "HEAD"):
        return _item(path)
    return _response(path, "openai_response_deleted") if method == "DELETE" else None


#: Pages that two protocols have at the same path, and the headers by which Gemini's clients are told.
_FOR_GEMINI = {"models": "gemini_models", "model": "gemini_model"}
_GEMINI_HEADERS = frozenset({b"x-goog-api-key", b"x-goog-api-client"})


def for_caller(route: Route, headers: Iterable[tuple[bytes, bytes]]) -> Route:
    """The route that a caller means where its path alone does not tell: Gemini has models at `/v1/models` too."""
    page = _FOR_GEMINI.get(route.page)
    if page is None or not any(name in _GEMINI_HEADERS for name, _ in headers):
        return route
    return msgspec.structs.replace(route, page=page)


#: Every method that some route has.
_METHODS = ("GET", "HEAD", "POST", "DELETE")


def methods_of(path: str) -> tuple[str, ...]:
    """The methods that something is served by at this path; none when it is no path of ours."""
    return tuple(method for method in _METHODS if find(method, path) is not None)


#: Characters of a path that are said again, in errors and in the log. Those of real clients are shorter.
_LONGEST_SHOWN = 256


def shown(path: str) -> str:
    """A path as it is told to people."""
    return path if len(path) <= _LONGEST_SHOWN else f"{path[:_LONGEST_SHOWN]}..."


def _gemini(path: str) -> Route | None:
    """`/v1beta/models/NAME:generateContent`, under any prefix that clients use."""
    head, found, name = path.partition("/models/")
    model, colon, action = name.rpartition(":")
    if not found or not colon or head not in ("", "/v1", "/v1beta"):
        return None
    if action == "countTokens":
        return Route(page="gemini_count", fields={"model": model})
    if action in _GEMINI_ACTIONS:
        return Route(face="gemini", fields={"model": model, "stream": _GEMINI_ACTIONS[action]})
    return None


def _item(path: str) -> Route | None:
    for prefix, page in _ITEMS.items():
        if path.startswith(prefix) and len(path) > len(prefix):
            return Route(page=page, fields={"model": path[len(prefix) :]})
    if path.startswith(_RESPONSES):
        if path.endswith(_SENT):
            return _response(path.removesuffix(_SENT), "openai_response_items")
        return _response(path, "openai_response")
    if path.startswith(_RECORDS):
        return Route(page="record", fields={"id": path[len(_RECORDS) :]})
    if path.startswith(_SESSIONS):
        return Route(page="chat", fields={"id": path[len(_SESSIONS) :]}, level="admin")
    if path.startswith(_FILES):
        return Route(page="page_file", fields={"name": path[len(_FILES) :]})
    return None


def _response(path: str, page: str) -> Route | None:
    """A response that was given before; an id has no slash."""
    name = next((path[len(head) :] for head in _RESPONSES if path.startswith(head)), "")
    return Route(page=page, fields={"id": name}) if name and "/" not in name else None


def _replay(path: str) -> Route | None:
    identifier = path[len(_RECORDS) :].removesuffix(_REPLAY)
    whole = path == f"{_RECORDS}{identifier}{_REPLAY}" and identifier
    return Route(page="replay", fields={"id": identifier}, level="admin") if whole else None
