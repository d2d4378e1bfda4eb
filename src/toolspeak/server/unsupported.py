"""Errors for endpoints that the server does not support.

The error is in the client's protocol and lists the supported endpoints. Its status is 404 for protocols whose SDKs
retry on server errors. The endpoints are listed in `unsupported.toml`.
"""

import tomllib
from pathlib import Path

from ..errors import ToolspeakError, UsageError
from .routes import display_path, find_route, methods_of

_TABLES: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_OLLAMA, _OPENAI, _ANTHROPIC = _TABLES["ollama"], _TABLES["openai"], _TABLES["anthropic"]
_HINTS = _TABLES["hints"]  # what is supported instead, by protocol
_ACTION = "/models/"  # paths of Gemini's actions contain this segment and a colon
#: Version segments that users put into a base URL.
_VERSIONS = ("v1", "v1beta")
_GENERAL_HINT = "GET /openapi.json lists all endpoints"


class NotFound(UsageError):
    """The path is unknown. `error_protocol` is the protocol in which the error is formatted."""

    status = 404
    error_protocol = "openai_chat"

    def __init__(self, message: str, hint: str, shape: str = "") -> None:
        super().__init__(message, hint=hint)
        self.error_protocol = shape or self.error_protocol


class MethodNotAllowed(NotFound):
    """The path exists but does not support this method."""

    status = 405


class NotServed(ToolspeakError):
    """The server does not support this endpoint of the protocol."""

    status = 501
    error_protocol = "ollama"


def unsupported_error(method: str, path: str) -> NotFound | NotServed:
    """Return the error for a method and path that have no route, or whose object does not exist."""
    route, methods = find_route(method, path), methods_of(path)
    if route is not None:
        message = f"{display_path(path)} does not exist or is not accessible"
        return NotFound(message, _GENERAL_HINT, route.error_protocol)
    normalized = "/" + "/".join(filter(None, path.split("/")))
    if normalized != path and (match := find_route(method, normalized)) is not None:
        hint = f"{display_path(normalized)} exists: check the slashes"
        return NotFound(f"unknown path {display_path(path)}", hint, match.error_protocol)
    head, _, rest = path.strip("/").partition("/")
    if head in _VERSIONS and (match := find_route(method, f"/{rest}")) is not None:
        # The base URL already contains the version, and the client adds it again.
        hint = f"/{display_path(rest)} exists: remove /{head} from the base URL"
        return NotFound(f"unknown path {display_path(path)}", hint, match.error_protocol)
    if method == "POST" and _ACTION in path and ":" in path:
        return NotFound(f"{display_path(path)} is not supported", _HINTS["gemini"], "gemini")
    if methods and (other := find_route(methods[0], path)) is not None:
        message = f"{method} is not allowed at {display_path(path)}"
        return MethodNotAllowed(message, f"use {' or '.join(methods)}", other.error_protocol)
    return _by_protocol(method, path, head, rest)


def _by_protocol(method: str, path: str, head: str, rest: str) -> NotFound | NotServed:
    """Return the error for an unsupported endpoint of a known protocol, or for an unknown path."""
    if head == "v1beta":
        return NotFound(f"{display_path(path)} is not supported", _HINTS["gemini"], "gemini")
    if head == "api":
        reason = _OLLAMA.get(rest.partition("/")[0])
        if reason is not None:
            return NotServed(reason, hint=_HINTS["ollama"])
        return NotFound(f"unknown path: {method} {display_path(path)}", _HINTS["ollama"], "ollama")
    if head == "v1":
        head = rest.partition("/")[0]
    if head in _ANTHROPIC:
        return NotFound(_ANTHROPIC[head], _HINTS["anthropic"], "anthropic")
    if head in _OPENAI:
        return NotFound(_OPENAI[head], _HINTS["openai"])
    return NotFound(f"unknown path: {method} {display_path(path)}", _GENERAL_HINT)
