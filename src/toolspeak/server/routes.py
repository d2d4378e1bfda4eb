"""Which path means what, as data.

With and without the `/v1` that users set or forget. Gemini's paths carry the model and the action, so they are
told by their shape. Above: `app`. Below: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..core.model import JSONValue

__all__ = ["Route", "find"]


class Route(msgspec.Struct, frozen=True):
    """What a path means: a model request in some protocol (`face`), or a page of the server's own (`page`)."""

    face: str = ""
    page: str = ""
    #: What the path says about the request.
    fields: Mapping[str, JSONValue] = {}


_MODEL_REQUESTS = {
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    "/messages": "anthropic",
}
_PAGES = {
    "/": "root",
    "/health": "health",
    "/ready": "ready",
    "/metrics": "metrics",
    "/version": "version",
    "/openapi.json": "openapi",
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

_TABLE: dict[tuple[str, str], Route] = {
    **{("POST", prefix + path): Route(face=face) for path, face in _MODEL_REQUESTS.items() for prefix in ("", "/v1")},
    ("POST", "/api/chat"): Route(face="ollama"),
    **{(method, path): Route(page=page) for path, page in _PAGES.items() for method in ("GET", "HEAD")},
    **{("POST", path): Route(page=page) for path, page in _POST_PAGES.items()},
}

_GEMINI_ACTIONS = {"generateContent": False, "streamGenerateContent": True}
_RECORDS = "/toolspeak/requests/"


def find(method: str, path: str) -> Route | None:
    """The route of a request; None when there is none."""
    route = _TABLE.get((method, path))
    if route is not None:
        return route
    if method == "POST":
        return _gemini(path)
    if method in ("GET", "HEAD"):
        return _item(path)
    return None


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
    for prefix in ("/v1/models/", "/models/", "/v1beta/models/"):
        if path.startswith(prefix) and len(path) > len(prefix):
            return Route(page="model", fields={"model": path[len(prefix) :]})
    if path.startswith(_RECORDS):
        return Route(page="record", fields={"id": path[len(_RECORDS) :]})
    return None
