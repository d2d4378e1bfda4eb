"""The proxy described: an OpenAPI 3.1 document made from the table of routes, and a page that shows it.

Nothing is written down twice: paths, levels and protocols come from `routes`, bodies from `openapi.schemas`. Made when
it is first asked for, then kept. The page needs no script and nothing from elsewhere.
"""

from __future__ import annotations

from functools import cache
from html import escape
from itertools import chain

import msgspec

from ...core.types import JSONObject, JSONValue
from ..routes import Route, every
from .schemas import BODIES, ERRORS, KINDS, OPEN, PAGES, REPLIES

__all__ = ["PAGE_HEADERS", "SUMMARIES", "document", "page"]

#: Where a path of the table carries a name.
_NAME = "NAME"
_REFERENCE = "#/components/schemas/{name}"

#: Face or page -> what it is, in one line.
SUMMARIES = {
    "openai_chat": "A turn of a chat, as OpenAI's chat completions",
    "openai_responses": "A turn of a chat, as OpenAI's responses",
    "anthropic": "A turn of a chat, as Anthropic's messages",
    "gemini": "A turn of a chat, as Gemini's generateContent",
    "ollama": "A turn of a chat, as Ollama's chat",
    "ollama_generate": "An answer to a prompt, as Ollama's generate",
    "root": "Says that the server runs; to a browser, the page",
    "docs": "This description as a page",
    "metrics": "Counts and times, for Prometheus",
    "health": "Whether the process lives",
    "ready": "Whether requests can be answered",
    "version": "The version of toolspeak",
    "openapi": "This description",
    "models": "The models that the caller may use",
    "model": "One model",
    "gemini_models": "The models that the caller may use, in Gemini's words",
    "gemini_model": "One model, in Gemini's words",
    "gemini_count": "How many tokens a request has, roughly",
    "anthropic_count": "How many tokens a request has, roughly",
    "ollama_tags": "The models that the caller may use, in Ollama's words",
    "ollama_ps": "Models in memory: none",
    "ollama_version": "A version of Ollama that clients take for current",
    "ollama_show": "What a model can do, in Ollama's words",
    "openai_response": "A response that was given to the caller before",
    "openai_response_items": "What was sent with a response that was given before: `limit`, `order`, `after`",
    "openai_response_deleted": "Deletes a response that was given before",
    "session": "The page of the printed link",
    "session_begin": "A code that the server printed, or a key for admins, becomes a session",
    "session_end": "Ends a session",
    "link": "A code for another session",
    "records": "What was asked lately, by anybody; `after` is the `next` of the answer before",
    "record": "What happened to one request of the caller's",
    "replay": "Carries a request out once more, with other settings or another model; no tool is executed",
    "about": "What the page of the server can offer",
    "profiles": "What is known of each model, and how that was learned",
    "probe": "Begins to ask a model what it can do",
    "series": "What happened in each minute, by model",
    "evaluations": "Results of `toolspeak eval` in the working directory",
    "page_file": "A file of the page",
    "chats": "The sessions of the store; `text` is what must stand in them",
    "chat": "One session, as questions and answers",
    "chat_kept": "Keeps questions with their answers in a session of the store",
    "server_tools": "The tools that the server itself would run for who asks",
}
_TAGS = {
    "openai": "OpenAI",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "ollama": "Ollama",
    "models": "OpenAI",
    "model": "OpenAI",
}
_OWN_TAG = "Server"
#: A page that nobody has described: the document is not to fail for it.
_UNKNOWN = (None, None)

#: How a key is shown: any one of them is enough. Where no key is demanded, none is.
_SCHEMES: JSONObject = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "a key of `toolspeak keys new`"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "api-key": {"type": "apiKey", "in": "header", "name": "api-key"},
    "x-goog-api-key": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
    "x-toolspeak-key": {"type": "apiKey", "in": "header", "name": "x-toolspeak-key"},
    "key": {"type": "apiKey", "in": "query", "name": "key"},
    "session": {"type": "apiKey", "in": "cookie", "name": "toolspeak_session"},
}
_CLIENT: list[JSONValue] = [{}, *({name: []} for name in _SCHEMES if name != "session")]
_ADMIN: list[JSONValue] = [{"bearer": []}, {"session": []}]
_SECURITY: dict[str, list[JSONValue]] = {"open": [], "client": _CLIENT, "admin": _ADMIN}

#: What a path names, where it is no model.
_NAMED = {
    "record": "the id of a request",
    "openai_response": "the id of a response",
    "openai_response_items": "the id of a response",
    "openai_response_deleted": "the id of a response",
    "replay": "the id of a request",
    "page_file": "the name of a file",
    "chat": "the id of a session",
}
_TEXTS = {"docs": "text/html", "session": "text/html"}
_TEXT = "text/plain"
_JSON = "application/json"
#: Face -> how its streams come.
_STREAMS = {"ollama": "application/x-ndjson", "ollama_generate": "application/x-ndjson"}
_STREAM = "text/event-stream"

#: Statuses that errors have, so that a reader knows what to be ready for.
_ERRORS = {
    "400": "The request is wrong; the message names the field",
    "401": "A key is missing or does not hold",
    "403": "The key is not for this, or the request comes from another site",
    "404": "There is no such model or thing, or none for this caller",
    "413": "The body is too large",
    "429": "A limit is reached; `Retry-After` says when to come back",
    "502": "The upstream failed, or the model did not do what was demanded",
    "503": "Nobody can be let in at the moment",
    "504": "The upstream took too long",
}
_MODEL_ONLY = frozenset({"413", "429", "502", "504"})


@cache
def document(version: str) -> JSONObject:
    """The OpenAPI document."""
    types = list(dict.fromkeys(_types()))
    found, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schemas = dict(zip(types, found, strict=True))
    for kind in OPEN:
        components[kind.__name__]["additionalProperties"] = True
    paths: JSONObject = {}
    for (method, path), route in sorted(every().items()):
        if method != "HEAD":
            shown = path.replace(_NAME, "{name}")
            paths.setdefault(shown, {})[method.lower()] = _operation(method, path, route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "toolspeak",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Tool calling for any language model, in the protocol that the client speaks already.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SCHEMES},
    }


def _types() -> list[type]:
    pages = (each for pair in PAGES.values() for each in pair if each is not None)
    return list(chain(BODIES.values(), REPLIES.values(), ERRORS.values(), KINDS, pages))


def _operation(method: str, path: str, route: Route, schemas: dict[type, JSONValue]) -> JSONObject:
    name = route.face or route.page
    sent = BODIES[route.face] if route.face else PAGES.get(route.page, _UNKNOWN)[0]
    operation: JSONObject = {
        "operationId": _identifier(method, path),
        "summary": SUMMARIES.get(name, name),
        "tags": [_TAGS.get(name.partition("_")[0], _OWN_TAG)],
        "security": _SECURITY[route.level],
        "responses": _responses(route, schemas),
    }
    if _NAME in path:
        what = _NAMED.get(route.page, "the name of a model")
        operation["parameters"] = [
            {"name": "name", "in": "path", "required": True, "description": what, "schema": {"type": "string"}}
        ]
    if route.face == "gemini":
        alt: JSONObject = {"name": "alt", "in": "query", "schema": {"enum": ["sse", "json"]}}
        operation["parameters"].append({**alt, "description": "how a stream comes: as events, or as one list"})
    if sent is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": schemas[sent]}}}
    return operation


def _identifier(method: str, path: str) -> str:
    words = "".join(letter if letter.isalnum() else "_" for letter in path.replace(_NAME, "name"))
    return f"{method.lower()}_{words.strip('_') or 'root'}"


def _responses(route: Route, schemas: dict[type, JSONValue]) -> JSONObject:
    error: JSONObject = {_JSON: {"schema": schemas[ERRORS[route.shape]]}}
    errors = {status: why for status, why in _ERRORS.items() if route.face or status not in _MODEL_ONLY}
    responses: JSONObject = {
        "200": {"description": SUMMARIES.get(route.face or route.page, "Good"), "content": _good(route, schemas)}
    }
    if route.level != "open":
        responses |= {status: {"description": why, "content": error} for status, why in errors.items()}
    return {**responses, "default": {"description": "An error", "content": error}}


def _good(route: Route, schemas: dict[type, JSONValue]) -> JSONObject:
    """What comes back when all went well."""
    if route.face:
        whole: JSONObject = {"schema": schemas[REPLIES[route.face]]}
        stream = {_STREAMS.get(route.face, _STREAM): {"schema": {"type": "string"}}}
        if route.face == "gemini" and route.fields.get("stream"):  # events, or a list of answers
            return {**stream, _JSON: {"schema": {"type": "array", "items": schemas[REPLIES[route.face]]}}}
        return {_JSON: whole} if route.face == "gemini" else {_JSON: whole, **stream}
    found = PAGES.get(route.page, _UNKNOWN)[1]
    if found is None:
        return {_TEXTS.get(route.page, _TEXT): {"schema": {"type": "string"}}}
    return {_JSON: {"schema": schemas[found]}}


# ---------------------------------------------------------------------------------------------------- as a page

#: The page runs nothing and loads nothing.
PAGE_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    (b"x-content-type-options", b"nosniff"),
]
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code { font-family: ui-monospace, monospace; } b { display: inline-block; min-width: 4.5rem; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; } a { color: #8cf; } }
"""


@cache
def page(version: str) -> bytes:
    """The document as a page for people."""
    said = document(version)
    by_tag: dict[str, list[str]] = {}
    for path, operations in said["paths"].items():
        for method, operation in operations.items():
            row = f"<li><b>{method.upper()}</b> <code>{escape(path)}</code><br>{escape(operation['summary'])}</li>"
            by_tag.setdefault(operation["tags"][0], []).append(row)
    lists = "".join(f"<h2>{tag}</h2><ul>{''.join(rows)}</ul>" for tag, rows in sorted(by_tag.items()))
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>toolspeak {escape(version)}</title>'
        f"<style>{_STYLE}</style><h1>toolspeak {escape(version)}</h1><p>{escape(said['info']['description'])} "
        f'The whole description, with the shape of every body: <a href="openapi.json">openapi.json</a>.</p>{lists}'
    )
    return text.encode()
