"""Routes that are not model requests: model lists, token counts, sign-in, stored responses, the web page.

The files in `static/` are served unchanged: there is no build step, and nothing is loaded from other hosts.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs

import msgspec

from ...core.text import estimate_tokens
from ...core.types import JSONObject, JSONValue, is_array, is_object
from ...errors import UsageError
from ..access.auth import Access, Caller
from ..access.limits import read_object
from ..access.login_sessions import LINK_HEADERS, LINK_PAGE, SESSION_SECONDS, cookie_name, session_in
from ..asgi import Receive, Scope, Send, header, read_body, respond
from ..proxy.client_protocols import client_protocol
from ..proxy.previous_responses import ResponseStore, StoredResponse
from ..proxy.upstream_router import Gateway
from ..routes import Route, methods_of, route_for_headers
from ..unsupported import NotFound, unsupported_error
from .api import PageApi

_log = logging.getLogger("toolspeak.server")
_ROOT = b"toolspeak is running. Point any OpenAI, Anthropic, Gemini or Ollama client at this address.\n"
_CREATED = 1_700_000_000
_CREATED_AT = "2023-11-14T22:13:20Z"

#: Returns the JSON of a page; None if its object does not exist.
_Handler: TypeAlias = Callable[[Route, Caller, bytes], JSONValue]
_MODEL_PAGES = frozenset({"models", "model", "gemini_models", "gemini_model", "ollama_tags"})
#: Fields of an Anthropic or Gemini request that the model reads, and the field that contains a nested request.
_COUNTED_FIELDS = ("system", "systemInstruction", "system_instruction", "messages", "contents", "tools")
_NESTED_REQUEST = "generateContentRequest"
#: Fields that the model reads as JSON: tool parameters, call arguments and results.
_JSON_FIELDS = frozenset({"input_schema", "parameters", "parametersJsonSchema", "input", "args", "response"})
#: Fields that the model does not read. Image data is skipped, because its size does not tell the number of tokens.
_NON_TEXT_FIELDS = ("role", "type", "id", "tool_use_id", "cache_control", "signature", "thoughtSignature", "media_type")
_FILE_FIELDS = ("inlineData", "inline_data", "fileData", "file_data")
_SKIPPED_FIELDS = _JSON_FIELDS.union(_NON_TEXT_FIELDS, _FILE_FIELDS)
_IMAGE_TYPE = "base64"
_MAX_CODE_BYTES = 1024
_DEFAULT_ITEMS, _MAX_ITEMS = 20, 100  # default and maximum number of items per page, same as OpenAI's

_RESPONSE_HINT = "responses are stored for a limited time and only for the key that created them"

_ResponseHandler: TypeAlias = Callable[[Route, Caller, Mapping[str, str]], Awaitable[JSONObject]]
_Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

_INDEX = "index.html"
_STATIC_FOLDER = Path(__file__).parent / "static"
_HTML, _TEXT = b"text/html; charset=utf-8", b"text/plain; charset=utf-8"
_SCRIPT, _STYLE = b"text/javascript; charset=utf-8", b"text/css; charset=utf-8"
_DOCUMENT_KINDS = ("text/html", "text/plain", "application/json", "*/*")
_CONTENT_TYPES = {".html": _HTML, ".css": _STYLE, ".js": _SCRIPT, ".svg": b"image/svg+xml"}
_POLICY = b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'"
#: Headers with which the page can run only its own scripts, connect only to this server, and not be framed.
_STATIC_HEADERS: _Headers = (
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    # The browser must revalidate every time, because another server version has different files.
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept"),
)


class Pages:
    """Handles all requests that need no model. Callers see only their own models and responses."""

    def __init__(self, gateway: Callable[[], Gateway], api: PageApi, access: Access) -> None:
        self._gateway = gateway
        self._api = api
        self._stored = StoredResponses(gateway)
        self._access = access
        self._json: dict[str, _Handler] = {
            "link": lambda route, caller, body: {"code": self._access.sessions.new_code()},
            "version": lambda route, caller, body: {"version": _version()},
            "models": lambda route, caller, body: self._models(caller),
            "model": lambda route, caller, body: self._model(str(route.fields["model"]), caller),
            "gemini_models": lambda route, caller, body: {"models": list(map(_gemini_entry, self._names(caller)))},
            "gemini_model": lambda route, caller, body: (
                _gemini_entry(name) if (name := str(route.fields["model"])) in self._names(caller) else None
            ),
            "openapi": lambda route, caller, body: _openapi_document(),
            "ollama_tags": lambda route, caller, body: {"models": list(map(_ollama_entry, self._names(caller)))},
            "ollama_ps": lambda route, caller, body: {"models": []},
            "ollama_version": lambda route, caller, body: {"version": "0.12.0"},
            "ollama_show": lambda route, caller, body: self._ollama_model(body, caller),
            "anthropic_count": lambda route, caller, body: {"input_tokens": self._count_tokens(body, caller)},
            "gemini_count": lambda route, caller, body: {"totalTokens": _request_tokens(read_object(body))},
        }

    async def show(self, route: Route, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        route = route_for_headers(route, scope["headers"])
        match route.page:
            case "root":
                if not _prefers_html(scope) or not await _send_file(_INDEX, scope, send):
                    await respond(send, 200, _ROOT, _TEXT, [(b"vary", b"accept")])
            case "page_file":
                if not await _send_file(str(route.fields["name"]), scope, send):
                    await self.missing(scope, send, route.error_protocol)
            case "docs":
                from ..openapi import PAGE_HEADERS, page

                await respond(send, 200, page(_version()), _HTML, headers=PAGE_HEADERS)
            case "session":
                await respond(send, 200, LINK_PAGE, _HTML, headers=LINK_HEADERS)
            case "session_begin":
                await self._begin_session(scope, receive, send)
            case "session_end":
                self._access.sessions.end(session_in(scope))
                await respond(send, 200, b"{}", headers=[(b"set-cookie", _cookie("", 0, scope))])
            case _:
                value = await self._value(route, caller, scope, receive)
                if value is None:
                    await self.missing(scope, send, route.error_protocol)
                else:
                    await respond(send, 200, msgspec.json.encode(value))

    async def _value(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        """Return the JSON of a page; None if its object does not exist."""
        handler = self._api.find(route.page)
        if handler is not None:
            return await handler(route, caller, scope, receive)
        if route.page in self._stored.pages:
            return await self._stored.show(route, caller, scope)
        if route.page in _MODEL_PAGES:
            await self._gateway().refresh()
        make = self._json.get(route.page)
        return make(route, caller, await read_body(scope, receive)) if make is not None else None

    async def _begin_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        code = read_object(await read_body(scope, receive, _MAX_CODE_BYTES)).get("code")
        if not isinstance(code, str):
            raise UsageError("`code` must be a sign-in code or an admin key", hint='send {"code": "..."}')
        session = self._access.begin_session(code.strip())
        _log.info("login session started")
        await respond(send, 200, b"{}", headers=[(b"set-cookie", _cookie(session, int(SESSION_SECONDS), scope))])

    async def missing(self, scope: Scope, send: Send, shape: str = "") -> None:
        """Send a 404 or 405 response; `shape` is the client's protocol, if known."""
        error = unsupported_error(scope["method"], scope["path"])
        status, body = client_protocol(shape or error.error_protocol).error(error)
        allowed = ", ".join(methods_of(scope["path"])).encode()
        await respond(send, status, body, headers=[(b"allow", allowed)] if status == 405 else [])

    def _names(self, caller: Caller) -> Mapping[str, str]:
        return self._gateway().models(caller)

    def _models(self, caller: Caller) -> JSONObject:
        data = [_model_entry(name, owner) for name, owner in self._names(caller).items()]
        ids = [entry["id"] for entry in data] or [None]
        return {"object": "list", "data": data, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}

    def _model(self, name: str, caller: Caller) -> JSONObject | None:
        owner = self._names(caller).get(name)
        return None if owner is None else _model_entry(name, owner)

    def _ollama_model(self, body: bytes, caller: Caller) -> JSONObject:
        fields = read_object(body)
        self._check_model(fields.get("model") or fields.get("name"), caller)  # older clients send `name`
        empty: JSONObject = {"modelfile": "", "parameters": "", "template": "", "details": {}, "model_info": {}}
        return {**empty, "capabilities": ["completion", "tools"]}

    def _count_tokens(self, body: bytes, caller: Caller) -> int:
        """Estimate the tokens of an Anthropic request; the model must exist."""
        fields = read_object(body)
        self._check_model(fields.get("model"), caller)
        return _request_tokens(fields)

    def _check_model(self, name: JSONValue, caller: Caller) -> None:
        self._gateway().locate(name if isinstance(name, str) else "", caller)


def _cookie(session: str, seconds: int, scope: Scope) -> bytes:
    # HttpOnly hides the cookie from scripts. SameSite keeps other sites from making a browser send it.
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{cookie_name(scope)}={session}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}".encode()


def _model_entry(name: str, owner: str) -> JSONObject:
    """Return a model entry that both OpenAI and Anthropic clients understand."""
    openai: JSONObject = {"id": name, "object": "model", "created": _CREATED, "owned_by": owner}
    return {**openai, "type": "model", "display_name": name, "created_at": _CREATED_AT}


def _gemini_entry(name: str) -> JSONObject:
    methods: list[JSONValue] = ["generateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}


def _request_tokens(fields: JSONObject) -> int:
    """Estimate the number of tokens in a request body. Structural fields are not counted."""
    inside = fields.get(_NESTED_REQUEST)
    fields = inside if is_object(inside) else fields
    tokens = 0
    pending: list[JSONValue] = [fields[name] for name in _COUNTED_FIELDS if name in fields]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            tokens += estimate_tokens(value)
        elif is_array(value):
            pending += value
        elif is_object(value) and value.get("type") != _IMAGE_TYPE:
            as_json = [msgspec.json.encode(value[name]).decode() for name in _JSON_FIELDS & value.keys()]
            tokens += sum(map(estimate_tokens, as_json))
            pending += [each for name, each in value.items() if name not in _SKIPPED_FIELDS]
    return tokens


def _version() -> str:
    from ... import __version__

    return __version__


def _openapi_document() -> JSONObject:
    from ..openapi import document  # on demand: it builds about 120 schemas that only this page needs

    return document(_version())


def _ollama_entry(name: str) -> JSONObject:
    return {"name": name, "model": name, "modified_at": _CREATED_AT, "size": 0, "digest": "", "details": {}}


class StoredResponses:
    """Handler for stored responses: `GET` and `DELETE /v1/responses/{id}`, `GET /v1/responses/{id}/input_items`.

    Another caller's response is reported as missing, so callers cannot find out whether an id exists.
    """

    def __init__(self, gateway: Callable[[], Gateway]) -> None:
        self._gateway = gateway
        self.pages: dict[str, _ResponseHandler] = {
            "openai_response": self._response,
            "openai_response_items": self._items,
            "openai_response_deleted": self._deleted,
        }

    async def show(self, route: Route, caller: Caller, scope: Scope) -> JSONObject:
        """Return the content of a page. Raises NotFound if there is no such response, UsageError for a bad query."""
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        return await self.pages[route.page](route, caller, {name: values[-1] for name, values in query.items()})

    async def _response(self, route: Route, caller: Caller, query: Mapping[str, str]) -> JSONObject:
        if query.get("stream", "false").lower() not in ("", "false", "0"):
            raise UsageError("a stored response cannot be streamed", hint="omit `stream`")
        _, stored = await self._find(route, caller)
        return {**stored.response, "output": stored.output}

    async def _deleted(self, route: Route, caller: Caller, query: Mapping[str, str]) -> JSONObject:
        store, response = await self._find(route, caller)
        name = str(route.fields["id"])
        await store.delete(name, response)
        return {"id": name, "object": "response", "deleted": True}

    async def _items(self, route: Route, caller: Caller, query: Mapping[str, str]) -> JSONObject:
        store, response = await self._find(route, caller)
        before = [part for each in await store.find(response.path) for part in (*each.input, *each.output)]
        name = str(route.fields["id"])
        items = [_item(name, number, each) for number, each in enumerate((*before, *response.input))]
        return _item_page(items, query)

    async def _find(self, route: Route, caller: Caller) -> tuple[ResponseStore, StoredResponse]:
        for tenant in dict.fromkeys(caller.tenants()):
            store = ResponseStore(self._gateway().conversation, tenant)
            response = await store.current(str(route.fields["id"]))
            if response is not None and response.response:
                return store, response
        raise NotFound("no stored response with this id", _RESPONSE_HINT)


def _item_page(items: list[JSONObject], query: Mapping[str, str]) -> JSONObject:
    order, limit = query.get("order", "desc"), query.get("limit", str(_DEFAULT_ITEMS))
    if order not in ("asc", "desc"):
        raise UsageError("`order` must be `asc` or `desc`")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 3 and 1 <= int(limit) <= _MAX_ITEMS):
        raise UsageError(f"`limit` must be an integer from 1 to {_MAX_ITEMS}")
    items = items if order == "asc" else items[::-1]
    ids = [str(item["id"]) for item in items]
    if after := query.get("after", ""):
        if after not in ids:
            raise UsageError("`after` is not an item of this response")
        items = items[ids.index(after) + 1 :]
    page = items[: int(limit)]
    first, last = (page[0]["id"], page[-1]["id"]) if page else (None, None)
    return {"object": "list", "data": page, "has_more": len(items) > len(page), "first_id": first, "last_id": last}


def _item(response: str, number: int, value: JSONValue) -> JSONObject:
    """Add the fields that OpenAI returns for an item: type, status, id, and message content as a list."""
    item: JSONObject = dict(value) if is_object(value) else {"role": "user", "content": value}
    if "role" in item:
        item.setdefault("type", "message")
        if isinstance(text := item.get("content"), str):
            kind = "output_text" if item["role"] == "assistant" else "input_text"
            about: JSONObject = {"annotations": []} if kind == "output_text" else {}
            item["content"] = [{"type": kind, "text": text, **about}]
    item.setdefault("status", "completed")
    if not isinstance(item.get("id"), str) or not item["id"]:
        digest = hashlib.sha256(f"{response}/{number}".encode()).hexdigest()[:32]
        item["id"] = f"{'msg' if item.get('type') == 'message' else 'item'}_{digest}"
    return item


@cache
def _static_files() -> dict[str, tuple[bytes, bytes, bytes]]:
    """Return the content type, the data and the tag of each static file."""
    files: dict[str, tuple[bytes, bytes, bytes]] = {}
    for path in sorted(_STATIC_FOLDER.iterdir()):
        if kind := _CONTENT_TYPES.get(path.suffix):
            data = path.read_bytes()
            files[path.name] = (kind, data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'.encode())
    return files


async def _send_file(name: str, scope: Scope, send: Send) -> bool:
    """Send a static file; return False if it does not exist."""
    if name not in _static_files():
        return False
    kind, data, tag = _static_files()[name]
    headers = [*_STATIC_HEADERS, (b"etag", tag)]
    if header(scope, b"if-none-match").encode("latin-1") == tag:
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
    else:
        await respond(send, 200, data, kind, headers)
    return True


def _prefers_html(scope: Scope) -> bool:
    """Whether the client is a browser: it accepts HTML before plain text and JSON."""
    kinds = [part.partition(";")[0].strip().lower() for part in header(scope, b"accept").split(",")]
    return next((kind for kind in kinds if kind in _DOCUMENT_KINDS), "") == "text/html"
