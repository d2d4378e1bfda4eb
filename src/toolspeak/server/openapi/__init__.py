"""The proxy's OpenAPI 3.1 document, as JSON and as an HTML page.

Paths, access levels and protocols come from `routes`, bodies from `openapi.schemas`. Both results are cached. The page
must work without scripts and external resources.
"""

from __future__ import annotations

from functools import cache
from html import escape
from itertools import chain

import msgspec

from ...core.types import JSONObject, JSONValue
from ..routes import Route, all_routes
from .schemas import BODIES, ERRORS, KINDS, OPEN, PAGES, REPLIES

__all__ = ["PAGE_HEADERS", "SUMMARIES", "document", "page"]

#: Placeholder for a name in the paths of the route table.
_NAME = "NAME"
_REFERENCE = "#/components/schemas/{name}"

#: Maps a client protocol or page to its summary.
SUMMARIES = {
    "openai_chat": "Chat completion (OpenAI Chat Completions)",
    "openai_responses": "Create a response (OpenAI Responses)",
    "anthropic": "Create a message (Anthropic Messages)",
    "gemini": "Generate content (Gemini generateContent)",
    "ollama": "Chat completion (Ollama chat)",
    "ollama_generate": "Complete a prompt (Ollama generate)",
    "root": "Plain-text status; browsers get the web page",
    "docs": "This document as a web page",
    "metrics": "Metrics for Prometheus",
    "health": "Liveness check",
    "ready": "Readiness check",
    "version": "The version of toolspeak",
    "openapi": "This document",
    "models": "List the models that the caller may use",
    "model": "Get a model",
    "gemini_models": "List the models that the caller may use, in Gemini's format",
    "gemini_model": "Get a model, in Gemini's format",
    "gemini_count": "Estimate the number of tokens of a request",
    "anthropic_count": "Estimate the number of tokens of a request",
    "ollama_tags": "List the models that the caller may use, in Ollama's format",
    "ollama_ps": "List the models in memory; always empty",
    "ollama_version": "Get an Ollama version that clients accept as current",
    "ollama_show": "Show the capabilities of a model, in Ollama's format",
    "openai_response": "Get a stored response",
    "openai_response_items": "List the input items of a stored response: `limit`, `order`, `after`",
    "openai_response_deleted": "Delete a stored response",
    "session": "Sign-in page for the one-time link",
    "session_begin": "Sign in with a one-time code or an admin key",
    "session_end": "Sign out",
    "link": "Create a one-time code for another session",
    "records": "List recent requests of all callers; `after` is the `next` of the previous reply",
    "record": "Get the record of one of the caller's requests",
    "replay": "Re-run a request with different settings or another model; no tool is executed",
    "about": "Features that the web page can offer",
    "profiles": "List the model profiles and their sources",
    "probe": "Start probing the capabilities of a model",
    "series": "Metrics by minute and model",
    "evaluations": "Results of `toolspeak eval` in the working directory",
    "page_file": "A file of the web page",
    "chats": "List the stored sessions; `text` filters by content",
    "chat": "Get a session as questions and answers",
    "chat_kept": "Store questions and answers in a session",
    "server_tools": "List the tools that the server runs for the caller",
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
#: Default for pages missing from `PAGES`, so the document can still be generated.
_UNKNOWN = (None, None)

#: Ways to send a key; one is enough. Servers that require no keys accept requests without one.
_SCHEMES: JSONObject = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "a key created with `toolspeak keys new`"},
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

#: Maps a page to the description of the name in its path, unless that is a model name.
_NAME_DESCRIPTIONS = {
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
#: Maps a client protocol to the media type of its streams.
_STREAMS = {"ollama": "application/x-ndjson", "ollama_generate": "application/x-ndjson"}
_STREAM = "text/event-stream"

_ERRORS = {
    "400": "Invalid request; the message names the field",
    "401": "Missing or invalid key",
    "403": "The key lacks permission, or the request is cross-site",
    "404": "Not found, or not available to this caller",
    "413": "The body is too large",
    "429": "Limit reached; retry after the time in `Retry-After`",
    "502": "The upstream failed, or the model did not meet the request's requirements",
    "503": "The server is at capacity",
    "504": "The upstream timed out",
}
_MODEL_ONLY = frozenset({"413", "429", "502", "504"})


@cache
def document(version: str) -> JSONObject:
    types = list(dict.fromkeys(_types()))
    described, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schemas = dict(zip(types, described, strict=True))
    for kind in OPEN:
        components[kind.__name__]["additionalProperties"] = True
    paths: JSONObject = {}
    for (method, path), route in sorted(all_routes().items()):
        if method != "HEAD":
            template = path.replace(_NAME, "{name}")
            paths.setdefault(template, {})[method.lower()] = _operation(method, path, route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "toolspeak",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Tool calling for any language model, in the protocol that your client already uses.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SCHEMES},
    }


def _types() -> list[type]:
    pages = (each for pair in PAGES.values() for each in pair if each is not None)
    return list(chain(BODIES.values(), REPLIES.values(), ERRORS.values(), KINDS, pages))


def _operation(method: str, path: str, route: Route, schemas: dict[type, JSONValue]) -> JSONObject:
    name = route.client_protocol or route.page
    sent = BODIES[route.client_protocol] if route.client_protocol else PAGES.get(route.page, _UNKNOWN)[0]
    operation: JSONObject = {
        "operationId": _identifier(method, path),
        "summary": SUMMARIES.get(name, name),
        "tags": [_TAGS.get(name.partition("_")[0], _OWN_TAG)],
        "security": _SECURITY[route.level],
        "responses": _responses(route, schemas),
    }
    if _NAME in path:
        what = _NAME_DESCRIPTIONS.get(route.page, "the name of a model")
        operation["parameters"] = [
            {"name": "name", "in": "path", "required": True, "description": what, "schema": {"type": "string"}}
        ]
    if route.client_protocol == "gemini":
        alt: JSONObject = {"name": "alt", "in": "query", "schema": {"enum": ["sse", "json"]}}
        operation["parameters"].append({**alt, "description": "stream format: server-sent events or a JSON list"})
    if sent is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": schemas[sent]}}}
    return operation


def _identifier(method: str, path: str) -> str:
    words = "".join(letter if letter.isalnum() else "_" for letter in path.replace(_NAME, "name"))
    return f"{method.lower()}_{words.strip('_') or 'root'}"


def _responses(route: Route, schemas: dict[type, JSONValue]) -> JSONObject:
    error: JSONObject = {_JSON: {"schema": schemas[ERRORS[route.error_protocol]]}}
    errors = {status: why for status, why in _ERRORS.items() if route.client_protocol or status not in _MODEL_ONLY}
    responses: JSONObject = {
        "200": {
            "description": SUMMARIES.get(route.client_protocol or route.page, "Success"),
            "content": _success_content(route, schemas),
        }
    }
    if route.level != "open":
        responses |= {status: {"description": why, "content": error} for status, why in errors.items()}
    return {**responses, "default": {"description": "An error", "content": error}}


def _success_content(route: Route, schemas: dict[type, JSONValue]) -> JSONObject:
    if route.client_protocol:
        whole: JSONObject = {"schema": schemas[REPLIES[route.client_protocol]]}
        stream = {_STREAMS.get(route.client_protocol, _STREAM): {"schema": {"type": "string"}}}
        if route.client_protocol == "gemini" and route.fields.get("stream"):  # either events or a JSON list of replies
            return {**stream, _JSON: {"schema": {"type": "array", "items": schemas[REPLIES[route.client_protocol]]}}}
        return {_JSON: whole} if route.client_protocol == "gemini" else {_JSON: whole, **stream}
    body = PAGES.get(route.page, _UNKNOWN)[1]
    if body is None:
        return {_TEXTS.get(route.page, _TEXT): {"schema": {"type": "string"}}}
    return {_JSON: {"schema": schemas[body]}}


# ---------------------------------------------------------------------------------------------------- as a page

#: Response headers that forbid scripts and external resources.
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
    """Render the document as an HTML page."""
    description = document(version)
    by_tag: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            row = f"<li><b>{method.upper()}</b> <code>{escape(path)}</code><br>{escape(operation['summary'])}</li>"
            by_tag.setdefault(operation["tags"][0], []).append(row)
    lists = "".join(f"<h2>{tag}</h2><ul>{''.join(rows)}</ul>" for tag, rows in sorted(by_tag.items()))
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>toolspeak {escape(version)}</title>'
        f"<style>{_STYLE}</style><h1>toolspeak {escape(version)}</h1><p>{escape(description['info']['description'])} "
        f'The full document, with the schema of every body: <a href="openapi.json">openapi.json</a>.</p>{lists}'
    )
    return text.encode()
