"""The proxy's OpenAPI 3.1 document, as JSON and as an HTML page.

Paths, access levels and protocols come from `routes`, bodies from `openapi.schemas`. Both results are cached. The page
must work without scripts and external resources.
"""

from functools import cache
from html import escape

from ...core.types import JSONObject, JSONValue
from ..routes import Route, all_routes
from .schemas import BODIES, ERRORS, PAGES, REPLIES, Page, components

__all__ = ["PAGE_HEADERS", "SUMMARIES", "document", "page"]

_NAME = "NAME"  # placeholder for a name in the paths of the route table
_NAME_PARAMETER: JSONObject = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}

SUMMARIES = {
    "openai_chat": "Chat completion (OpenAI Chat Completions)",
    "openai_responses": "Create a response (OpenAI Responses)",
    "anthropic": "Create a message (Anthropic Messages)",
    "gemini": "Generate content (Gemini generateContent)",
    "ollama": "Chat completion (Ollama chat)",
    "ollama_generate": "Complete a prompt (Ollama generate)",
    **{name: page.summary for name, page in PAGES.items()},
}
_OPENAI = dict.fromkeys(("openai", "models", "model"), "OpenAI")
_TAGS = {**_OPENAI, "anthropic": "Anthropic", "gemini": "Gemini", "ollama": "Ollama"}
_OWN_TAG = "Server"
_UNKNOWN = Page("")  # default for pages missing from `PAGES`, so the document can still be generated

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

_TEXTS = {"docs": "text/html", "session": "text/html"}
_TEXT = "text/plain"
_JSON = "application/json"
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
    paths: JSONObject = {}
    for (method, path), route in sorted(all_routes().items()):
        if method != "HEAD":
            paths.setdefault(path.replace(_NAME, "{name}"), {})[method.lower()] = _operation(method, path, route)
    info: JSONObject = {
        "title": "toolspeak",
        "version": version,
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        "description": "Tool calling for any language model, in the protocol that your client already uses.",
    }
    schemas: JSONObject = {"schemas": components(), "securitySchemes": _SCHEMES}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": schemas}


def _operation(method: str, path: str, route: Route) -> JSONObject:
    name = route.client_protocol or route.page
    described = PAGES.get(route.page, _UNKNOWN)
    sent = BODIES[route.client_protocol] if route.client_protocol else described.request
    words = "".join(letter if letter.isalnum() else "_" for letter in path.replace(_NAME, "name"))
    operation: JSONObject = {
        "operationId": f"{method.lower()}_{words.strip('_') or 'root'}",
        "summary": SUMMARIES.get(name, name),
        "tags": [_TAGS.get(name.partition("_")[0], _OWN_TAG)],
        "security": _SECURITY[route.level],
        "responses": _responses(route),
    }
    if _NAME in path:
        operation["parameters"] = [{**_NAME_PARAMETER, "description": described.name}]
    if route.client_protocol == "gemini":
        alt: JSONObject = {"name": "alt", "in": "query", "schema": {"enum": ["sse", "json"]}}
        operation["parameters"].append({**alt, "description": "stream format: server-sent events or a JSON list"})
    if sent is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": sent}}}
    return operation


def _responses(route: Route) -> JSONObject:
    error: JSONObject = {_JSON: {"schema": ERRORS[route.error_protocol]}}
    errors = {status: why for status, why in _ERRORS.items() if route.client_protocol or status not in _MODEL_ONLY}
    summary = SUMMARIES.get(route.client_protocol or route.page, "Success")
    responses: JSONObject = {"200": {"description": summary, "content": _success_content(route)}}
    if route.level != "open":
        responses |= {status: {"description": why, "content": error} for status, why in errors.items()}
    return {**responses, "default": {"description": "An error", "content": error}}


def _success_content(route: Route) -> JSONObject:
    if route.client_protocol:
        whole: JSONObject = {"schema": REPLIES[route.client_protocol]}
        stream = {_STREAMS.get(route.client_protocol, _STREAM): {"schema": {"type": "string"}}}
        if route.client_protocol == "gemini" and route.fields.get("stream"):  # either events or a JSON list of replies
            return {**stream, _JSON: {"schema": {"type": "array", "items": REPLIES[route.client_protocol]}}}
        return {_JSON: whole} if route.client_protocol == "gemini" else {_JSON: whole, **stream}
    body = PAGES.get(route.page, _UNKNOWN).reply
    if body is None:
        return {_TEXTS.get(route.page, _TEXT): {"schema": {"type": "string"}}}
    return {_JSON: {"schema": body}}


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
