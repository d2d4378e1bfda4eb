"""The routes that are no model requests: who is there, what models, how it goes, what happened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from ...core.tokens import estimate_tokens
from ...core.types import JSONObject, JSONValue, is_array, is_object
from ...errors import UsageError
from ..access.auth import Access, Caller
from ..access.limits import read_object
from ..access.login_sessions import LINK_HEADERS, LINK_PAGE, SESSION_SECONDS, cookie_name, session_in
from ..asgi import Receive, Scope, Send, read_body, respond
from ..proxy.client_protocols import face
from ..proxy.upstream_router import Gateway
from ..routes import Route, for_caller, methods_of
from ..unsupported import refusal
from .api import PageApi
from .static_files import INDEX, prefers_html, send_file
from .stored_responses import StoredPages

_log = logging.getLogger("toolspeak.server")
_ROOT = b"toolspeak is running. Point any OpenAI, Anthropic, Gemini or Ollama client at this address.\n"
_CREATED = 1_700_000_000
_CREATED_AT = "2023-11-14T22:13:20Z"


#: Makes what a page shows; None for nothing.
_Make: TypeAlias = Callable[[Route, Caller, bytes], JSONValue]
#: Pages that show models.
_LISTS = frozenset({"models", "model", "gemini_models", "gemini_model", "ollama_tags"})
#: What a model reads of a request for Anthropic or Gemini, which may stand inside another request.
_COUNTED = ("system", "systemInstruction", "system_instruction", "messages", "contents", "tools")
_INSIDE = "generateContentRequest"
#: What it reads as JSON, with its names: the parameters of a tool, the arguments of a call, and what came of it.
_AS_JSON = frozenset({"input_schema", "parameters", "parametersJsonSchema", "input", "args", "response"})
#: What it does not read. Pictures take tokens of their own, which nobody can tell from their bytes.
_NO_TEXT = ("role", "type", "id", "tool_use_id", "cache_control", "signature", "thoughtSignature", "media_type")
_FILES = ("inlineData", "inline_data", "fileData", "file_data")
_UNREAD = _AS_JSON.union(_NO_TEXT, _FILES)
_PICTURE = "base64"
#: A code is short; what is longer need not be read.
_LARGEST_CODE = 1024


class Pages:
    """Answers what needs no model. Everybody sees what is theirs."""

    def __init__(self, gateway: Callable[[], Gateway], api: PageApi, access: Access) -> None:
        self._gateway = gateway
        self._api = api
        self._stored = StoredPages(gateway)
        self._access = access
        self._json: dict[str, _Make] = {
            "health": lambda route, caller, body: {"status": "ok"},
            "ready": lambda route, caller, body: {"status": "ready"},
            "link": lambda route, caller, body: {"code": self._access.sessions.code()},
            "version": lambda route, caller, body: {"version": _version()},
            "models": lambda route, caller, body: self._models(caller),
            "model": lambda route, caller, body: self._model(str(route.fields["model"]), caller),
            "gemini_models": lambda route, caller, body: {"models": [_gemini(name) for name in self._names(caller)]},
            "gemini_model": lambda route, caller, body: self._gemini_model(str(route.fields["model"]), caller),
            "openapi": lambda route, caller, body: _document(),
            "ollama_tags": lambda route, caller, body: {"models": [_ollama(name) for name in self._names(caller)]},
            "ollama_ps": lambda route, caller, body: {"models": []},
            "ollama_version": lambda route, caller, body: {"version": "0.12.0"},
            "ollama_show": lambda route, caller, body: self._ollama_model(body, caller),
            "anthropic_count": lambda route, caller, body: {"input_tokens": self._counted(body, caller)},
            "gemini_count": lambda route, caller, body: {"totalTokens": _tokens(read_object(body))},
        }

    async def show(self, route: Route, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """A page."""
        route = for_caller(route, scope["headers"])
        match route.page:
            case "root":
                if not prefers_html(scope) or not await send_file(INDEX, scope, send):
                    await respond(send, 200, _ROOT, b"text/plain; charset=utf-8", [(b"vary", b"accept")])
            case "page_file":
                if not await send_file(str(route.fields["name"]), scope, send):
                    await self.missing(scope, send, route.shape)
            case "docs":
                from ..openapi import PAGE_HEADERS, page

                await respond(send, 200, page(_version()), b"text/html; charset=utf-8", headers=PAGE_HEADERS)
            case "session":
                await respond(send, 200, LINK_PAGE, b"text/html; charset=utf-8", headers=LINK_HEADERS)
            case "session_begin":
                await self._begin(scope, receive, send)
            case "session_end":
                self._access.sessions.end(session_in(scope))
                await respond(send, 200, b"{}", headers=[(b"set-cookie", _cookie("", 0, scope))])
            case _:
                value = await self._value(route, caller, scope, receive)
                if value is None:
                    await self.missing(scope, send, route.shape)
                else:
                    await respond(send, 200, msgspec.json.encode(value))

    async def _value(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        """What a page shows; None for nothing."""
        asked = self._api.find(route.page)
        if asked is not None:
            return await asked(route, caller, scope, receive)
        if self._stored.knows(route.page):
            return await self._stored.show(route, caller, scope)
        if route.page in _LISTS:
            await self._gateway().refresh()
        make = self._json.get(route.page)
        return make(route, caller, await read_body(scope, receive)) if make is not None else None

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A code, or a key, becomes a session."""
        body = await read_body(scope, receive, _LARGEST_CODE)
        try:
            shown = msgspec.json.decode(body, type=_Code).code
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise UsageError("`code` must be a code or a key, as a text", hint='send {"code": "..."}') from None
        session = self._access.session(shown.strip())
        _log.info("a session has begun")
        await respond(send, 200, b"{}", headers=[(b"set-cookie", _cookie(session, int(SESSION_SECONDS), scope))])

    async def missing(
        self, scope: Scope, send: Send, shape: str = "", headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """There is nothing at this path, or not by this method. `shape` is the protocol of who asks, if known."""
        error = refusal(scope["method"], scope["path"])
        status, body = face(shape or error.shape).error(error)
        allowed = ", ".join(methods_of(scope["path"])).encode()
        await respond(send, status, body, headers=[*headers, *([(b"allow", allowed)] if status == 405 else [])])

    # ---- models

    def _names(self, caller: Caller) -> Mapping[str, str]:
        return self._gateway().models(caller)

    def _models(self, caller: Caller) -> JSONObject:
        data = [_entry(name, owner) for name, owner in self._names(caller).items()]
        ids = [entry["id"] for entry in data] or [None]
        return {"object": "list", "data": data, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}

    def _model(self, name: str, caller: Caller) -> JSONObject | None:
        owner = self._names(caller).get(name)
        return None if owner is None else _entry(name, owner)

    def _gemini_model(self, name: str, caller: Caller) -> JSONObject | None:
        return _gemini(name) if name in self._names(caller) else None

    def _ollama_model(self, body: bytes, caller: Caller) -> JSONObject:
        fields = read_object(body)
        name = fields.get("model") or fields.get("name")  # the second is what older clients say
        self._gateway().serves(name if isinstance(name, str) else "", caller)
        return _shown()

    def _counted(self, body: bytes, caller: Caller) -> int:
        """The tokens of a request to Anthropic, for a model that there is."""
        fields = read_object(body)
        name = fields.get("model")
        self._gateway().serves(name if isinstance(name, str) else "", caller)
        return _tokens(fields)


class _Code(msgspec.Struct, frozen=True):
    code: str


def _cookie(session: str, seconds: int, scope: Scope) -> bytes:
    """Scripts cannot read it, other sites cannot make a browser send it."""
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{cookie_name(scope)}={session}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}".encode()


def _entry(name: str, owner: str) -> JSONObject:
    """One entry that the readers of OpenAI's and of Anthropic's list both understand."""
    return {
        "id": name,
        "object": "model",
        "created": _CREATED,
        "owned_by": owner,
        "type": "model",
        "display_name": name,
        "created_at": _CREATED_AT,
    }


def _gemini(name: str) -> JSONObject:
    """One model as Gemini's clients read it."""
    methods: list[JSONValue] = ["generateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}


def _tokens(fields: JSONObject) -> int:
    """The tokens of the texts in a body; what only says how they are to be read takes none."""
    inside = fields.get(_INSIDE)
    fields = inside if is_object(inside) else fields
    counted = 0
    waiting: list[JSONValue] = [fields[name] for name in _COUNTED if name in fields]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            counted += estimate_tokens(value)
        elif is_array(value):
            waiting += value
        elif is_object(value) and value.get("type") != _PICTURE:
            as_json = [msgspec.json.encode(value[name]).decode() for name in _AS_JSON & value.keys()]
            counted += sum(map(estimate_tokens, as_json))
            waiting += [each for name, each in value.items() if name not in _UNREAD]
    return counted


def _version() -> str:
    from ... import __version__

    return __version__


def _document() -> JSONObject:
    from ..openapi import document  # with some 60 types, which nobody else needs

    return document(_version())


def _ollama(name: str) -> JSONObject:
    return {"name": name, "model": name, "modified_at": _CREATED_AT, "size": 0, "digest": "", "details": {}}


def _shown() -> JSONObject:
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": {},
        "model_info": {},
        "capabilities": ["completion", "tools"],
    }
