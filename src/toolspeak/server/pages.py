"""The routes that are no model requests: who is there, what models, how it goes.

Above: `app`. Below: `gateway`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ..core.contract import estimate_tokens
from ..core.model import JSONObject, JSONValue
from .asgi import Receive, Scope, Send, read_body, respond
from .exchange import Record
from .gateway import Gateway
from .routes import Route

__all__ = ["Pages"]

_ROOT = b"toolspeak is running. Point any OpenAI, Anthropic, Gemini or Ollama client at this address.\n"
_CREATED = 1_700_000_000
_CREATED_AT = "2023-11-14T22:13:20Z"


class Pages:
    """Answers what needs no model."""

    def __init__(self, gateway: Gateway, records: Mapping[str, Record]) -> None:
        self._gateway = gateway
        self._records = records
        self._json: dict[str, Callable[[Route, bytes], JSONValue]] = {
            "health": lambda route, body: {"status": "ok"},
            "ready": lambda route, body: {"status": "ready"},
            "version": lambda route, body: {"version": _version()},
            "models": lambda route, body: self._models(),
            "model": lambda route, body: self._model(str(route.fields["model"])),
            "gemini_models": lambda route, body: self._gemini_models(),
            "ollama_tags": lambda route, body: {"models": [_ollama(name) for name in self._gateway.models()]},
            "ollama_ps": lambda route, body: {"models": []},
            "ollama_version": lambda route, body: {"version": "0.12.0"},
            "ollama_show": lambda route, body: _shown(),
            "anthropic_count": lambda route, body: {"input_tokens": estimate_tokens(body.decode("utf-8", "replace"))},
            "gemini_count": lambda route, body: {"totalTokens": estimate_tokens(body.decode("utf-8", "replace"))},
            "record": lambda route, body: self._record(str(route.fields["id"])),
        }

    async def show(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        """A page."""
        if route.page == "root":
            await respond(send, 200, _ROOT, b"text/plain; charset=utf-8")
            return
        make = self._json.get(route.page)
        value = make(route, await read_body(scope, receive)) if make is not None else None
        if value is None:
            await self.missing(scope, send)
        else:
            await respond(send, 200, msgspec.json.encode(value))

    async def missing(self, scope: Scope, send: Send) -> None:
        """There is nothing at this path."""
        message = f"nothing is served at {scope['method']} {scope['path']}"
        body = msgspec.json.encode(
            {"error": {"message": message, "type": "invalid_request_error", "code": "not_found"}}
        )
        await respond(send, 404, body)

    # ---- models

    def _models(self) -> JSONObject:
        data = [self._entry(name, owner) for name, owner in self._gateway.models().items()]
        ids = [entry["id"] for entry in data] or [None]
        return {"object": "list", "data": data, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}

    @staticmethod
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

    def _model(self, name: str) -> JSONObject | None:
        owner = self._gateway.models().get(name)
        return None if owner is None else self._entry(name, owner)

    def _gemini_models(self) -> JSONObject:
        methods = ["generateContent", "countTokens"]
        return {
            "models": [
                {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
                for name in self._gateway.models()
            ]
        }

    def _record(self, identifier: str) -> JSONValue:
        record = self._records.get(identifier)
        return None if record is None else msgspec.to_builtins(record)


def _version() -> str:
    from .. import __version__

    return __version__


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
