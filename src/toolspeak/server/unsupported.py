"""What clients ask for and is not served: an error in the words of their protocol that says what is.

A client that tries embeddings, or pulls a model, gets no page of text that it cannot read. Where an SDK asks again
after an error of the server, the status is 404, which it does not repeat.
"""

from __future__ import annotations

from ..errors import ToolspeakError, UsageError
from .routes import find, methods_of, shown

#: The first word of a path below `/api/` that Ollama serves and we do not -> what it would do.
_OLLAMA = {
    "pull": "models are not fetched here",
    "push": "models are not published here",
    "create": "models are not made here",
    "copy": "models are not copied here",
    "delete": "models are not deleted here",
    "blobs": "models are not made here",
    "embed": "embeddings are not served here",
    "embeddings": "embeddings are not served here",
    "me": "there are no accounts here",
    "signout": "there are no accounts here",
}
_OLLAMA_SERVED = "served are /api/chat, /api/generate, /api/tags, /api/show, /api/ps and /api/version"

#: The first word of a path that OpenAI serves, below `/v1` or not.
_OPENAI = {
    "completions": "completions of a bare prompt are not served here",
    "embeddings": "embeddings are not served here",
    "moderations": "moderation is not served here",
    "images": "pictures are not made here",
    "videos": "films are not made here",
    "audio": "speech is not served here",
    "realtime": "realtime sessions are not served here",
    "files": "files are not kept here",
    "uploads": "files are not kept here",
    "batches": "batches are not served here",
    "fine_tuning": "models are not tuned here",
    "vector_stores": "vector stores are not kept here",
    "assistants": "assistants are not served here",
    "threads": "assistants are not served here",
    "conversations": "conversations are not kept here",
    "containers": "containers are not served here",
    "evals": "evaluations are not served here",
    "rerank": "ranking is not served here",
    # Behind the path of a request: an answer that was given before.
    "responses": "nothing is answered in the background here",
    "chat": "earlier answers are not kept here",
}
_OPENAI_SERVED = "served are /v1/chat/completions, /v1/responses, GET and DELETE of one response, and /v1/models"

_ANTHROPIC = {
    "messages": "batches are not served here",
    "complete": "completions of a bare prompt are not served here",
    "organizations": "organizations are not kept here",
}
_ANTHROPIC_SERVED = "served are /v1/messages, /v1/messages/count_tokens and /v1/models"

#: What a path that asks something of one of Gemini's models holds, besides a colon.
_ACTION = "/models/"
_GEMINI_SERVED = "served are generateContent, streamGenerateContent and countTokens of a model, and /v1beta/models"

#: First words of paths that users put into a base URL.
_VERSIONS = ("v1", "v1beta")
_USUAL = "GET /openapi.json lists everything that is served"


class NotFound(UsageError):
    """Nothing is at this path. `shape` is the protocol in whose words that is told."""

    status = 404
    shape = "openai_chat"

    def __init__(self, message: str, hint: str, shape: str = "") -> None:
        super().__init__(message, hint=hint)
        self.shape = shape or self.shape


class MethodNotAllowed(NotFound):
    """Something is at this path, but not for this method."""

    status = 405


class NotServed(ToolspeakError):
    """Something that the protocol has and this server has not."""

    status = 501
    shape = "ollama"


def refusal(method: str, path: str) -> NotFound | NotServed:
    """Why nothing is served at this path by this method."""
    route, methods = find(method, path), methods_of(path)
    if route is not None:
        return NotFound(f"there is nothing at {shown(path)}, or nothing for this caller", _USUAL, route.shape)
    slim = "/" + "/".join(filter(None, path.split("/")))
    if slim != path and (meant := find(method, slim)) is not None:
        return NotFound(f"nothing is served at {shown(path)}", f"{shown(slim)} is: mind the slashes", meant.shape)
    head, _, rest = path.strip("/").partition("/")
    if head in _VERSIONS and (meant := find(method, f"/{rest}")) is not None:
        # Clients that add the version themselves, with a base URL that has it already.
        hint = f"/{shown(rest)} is served: leave /{head} out of the base URL"
        return NotFound(f"nothing is served at {shown(path)}", hint, meant.shape)
    if method == "POST" and _ACTION in path and ":" in path:
        return NotFound(f"{shown(path)} is not served here", _GEMINI_SERVED, "gemini")
    if methods and (other := find(methods[0], path)) is not None:
        return MethodNotAllowed(f"{method} is not served at {shown(path)}", f"use {' or '.join(methods)}", other.shape)
    return _unserved(method, path, head, rest)


def _unserved(method: str, path: str, head: str, rest: str) -> NotFound | NotServed:
    """What is said of a path that some protocol has, or none."""
    if head == "v1beta":
        return NotFound(f"{shown(path)} is not served here", _GEMINI_SERVED, "gemini")
    if head == "api":
        return _ollama(method, path, rest)
    if head == "v1":
        head = rest.partition("/")[0]
    if head in _ANTHROPIC:
        return NotFound(_ANTHROPIC[head], _ANTHROPIC_SERVED, "anthropic")
    if head in _OPENAI:
        return NotFound(_OPENAI[head], _OPENAI_SERVED)
    return NotFound(f"nothing is served at {method} {shown(path)}", _USUAL)


def _ollama(method: str, path: str, rest: str) -> NotFound | NotServed:
    reason = _OLLAMA.get(rest.partition("/")[0])
    if reason is None:
        return NotFound(f"nothing is served at {method} {shown(path)}", _OLLAMA_SERVED, "ollama")
    return NotServed(reason, hint=_OLLAMA_SERVED)
