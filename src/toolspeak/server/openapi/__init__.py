"""The proxy's OpenAPI 3.1 document, as JSON and as an HTML page.

Paths, access levels and protocols come from `routes`, and all texts and schemas from the JSON files: the schemas of
bodies from `components.json`, the pages from `pages.json`, and the rest from `document.json`. Tests compare them with
the codecs. Both results are cached. The page must work without scripts and external resources.
"""

from functools import cache
from html import escape
from importlib.resources import files

import msgspec

from ...core.types import JSONObject, JSONValue
from ..routes import Route, all_routes

__all__ = ["PAGES", "PAGE_HEADERS", "PROTOCOLS", "SUMMARIES", "Page", "document", "page"]

_NAME = "NAME"  # placeholder for a name in the paths of the route table
_NAME_PARAMETER: JSONObject = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


class Page(msgspec.Struct, frozen=True):
    summary: str
    reply: JSONObject | None = None  # schema of the reply; None if the reply is text
    request: JSONObject | None = None  # schema of the request; None if it has no body
    name: str = "the name of a model"  # what the name in the path is
    error: JSONObject = {}  # schema of an error, for a client protocol


class _Parts(msgspec.Struct, frozen=True):
    """The parts of the document that do not depend on the routes."""

    info: JSONObject
    errors: dict[str, str]
    security_schemes: JSONObject  # ways to send a key; servers that require no keys accept requests without one
    protocols: dict[str, Page]


def _read(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()


PAGES = msgspec.json.decode(_read("pages.json"), type=dict[str, Page])
_PARTS = msgspec.json.decode(_read("document.json"), type=_Parts)
PROTOCOLS = _PARTS.protocols
SUMMARIES = {name: page.summary for name, page in (PROTOCOLS | PAGES).items()}
_OPENAI = dict.fromkeys(("openai", "models", "model"), "OpenAI")
_TAGS = {**_OPENAI, "anthropic": "Anthropic", "gemini": "Gemini", "ollama": "Ollama"}
_OWN_TAG = "Server"
_UNKNOWN = Page("")  # default for pages missing from `PAGES`, so the document can still be generated

#: One of the ways to send a key is enough.
_CLIENT: list[JSONValue] = [{}, *({name: []} for name in _PARTS.security_schemes if name != "session")]
_ADMIN: list[JSONValue] = [{"bearer": []}, {"session": []}]
_SECURITY: dict[str, list[JSONValue]] = {"open": [], "client": _CLIENT, "admin": _ADMIN}

_TEXTS = {"docs": "text/html", "session": "text/html"}
_TEXT = "text/plain"
_JSON = "application/json"
_STREAMS = {"ollama": "application/x-ndjson", "ollama_generate": "application/x-ndjson"}
_STREAM = "text/event-stream"

_MODEL_ONLY = frozenset({"413", "429", "502", "504"})


@cache
def document(version: str) -> JSONObject:
    paths: JSONObject = {}
    for (method, path), route in sorted(all_routes().items()):
        if method != "HEAD":
            paths.setdefault(path.replace(_NAME, "{name}"), {})[method.lower()] = _operation(method, path, route)
    components: JSONObject = {
        "schemas": msgspec.json.decode(_read("components.json")),
        "securitySchemes": _PARTS.security_schemes,
    }
    return {"openapi": "3.1.0", "info": {**_PARTS.info, "version": version}, "paths": paths, "components": components}


def _operation(method: str, path: str, route: Route) -> JSONObject:
    name = route.client_protocol or route.page
    described = _described(route)
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
    if described.request is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": described.request}}}
    return operation


def _responses(route: Route) -> JSONObject:
    error: JSONObject = {_JSON: {"schema": PROTOCOLS[route.error_protocol].error}}
    errors = {
        status: why for status, why in _PARTS.errors.items() if route.client_protocol or status not in _MODEL_ONLY
    }
    summary = SUMMARIES.get(route.client_protocol or route.page, "Success")
    responses: JSONObject = {"200": {"description": summary, "content": _success_content(route)}}
    if route.level != "open":
        responses |= {status: {"description": why, "content": error} for status, why in errors.items()}
    return {**responses, "default": {"description": "An error", "content": error}}


def _described(route: Route) -> Page:
    return PROTOCOLS[route.client_protocol] if route.client_protocol else PAGES.get(route.page, _UNKNOWN)


def _success_content(route: Route) -> JSONObject:
    body = _described(route).reply
    if body is None:
        return {_TEXTS.get(route.page, _TEXT): {"schema": {"type": "string"}}}
    whole: JSONObject = {_JSON: {"schema": body}}
    stream = {_STREAMS.get(route.client_protocol, _STREAM): {"schema": {"type": "string"}}}
    if route.client_protocol != "gemini":
        return {**whole, **stream} if route.client_protocol else whole
    # Either events or a JSON list of replies.
    return {**stream, _JSON: {"schema": {"type": "array", "items": body}}} if route.fields.get("stream") else whole


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
