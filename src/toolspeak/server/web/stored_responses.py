"""Responses that were given before, shown to whom they were given: `GET` and `DELETE /v1/responses/{id}`, and what was
sent with them, `GET /v1/responses/{id}/input_items`.

Another's response is not there: nobody learns whether an id exists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import parse_qs

from ...core.types import JSONObject, JSONValue, is_object
from ...errors import UsageError
from ..access.auth import Caller
from ..asgi import Scope
from ..proxy.response_store import Kept, Stored
from ..proxy.upstream_router import Gateway
from ..routes import Route
from ..unsupported import NotFound

#: Items on one page; OpenAI has the same bounds.
_USUAL_ITEMS, _MOST_ITEMS = 20, 100

_HINT = "responses are kept for a while, for the key that they were given to, unless `store` is false"

_Show: TypeAlias = Callable[[Route, Caller, Mapping[str, str]], Awaitable[JSONObject]]


class StoredPages:
    """Shows responses."""

    def __init__(self, gateway: Callable[[], Gateway]) -> None:
        self._gateway = gateway
        self._pages: dict[str, _Show] = {
            "openai_response": self._response,
            "openai_response_items": self._items,
            "openai_response_deleted": self._deleted,
        }

    def knows(self, page: str) -> bool:
        """Whether it is one of these pages."""
        return page in self._pages

    async def show(self, route: Route, caller: Caller, scope: Scope) -> JSONObject:
        """A page.

        Raises:
            NotFound: no such response is kept for this caller.
            UsageError: the query asks for something that cannot be.
        """
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        return await self._pages[route.page](route, caller, {name: values[-1] for name, values in query.items()})

    async def _response(self, route: Route, caller: Caller, query: Mapping[str, str]) -> JSONObject:
        if query.get("stream", "false").lower() not in ("", "false", "0"):
            raise UsageError("a response that is kept comes whole, not as a stream", hint="leave `stream` out")
        _, kept = await self._found(route, caller)
        return {**kept.response, "output": kept.output}

    async def _deleted(self, route: Route, caller: Caller, query: Mapping[str, str]) -> JSONObject:
        stored, kept = await self._found(route, caller)
        name = str(route.fields["id"])
        await stored.forget(name, kept)
        return {"id": name, "object": "response", "deleted": True}

    async def _items(self, route: Route, caller: Caller, query: Mapping[str, str]) -> JSONObject:
        stored, kept = await self._found(route, caller)
        before = [part for each in await stored.find(kept.path) for part in (*each.input, *each.output)]
        name = str(route.fields["id"])
        items = [_item(name, number, each) for number, each in enumerate((*before, *kept.input))]
        return _page(items, query)

    async def _found(self, route: Route, caller: Caller) -> tuple[Stored, Kept]:
        """A response of the caller's, and where it is."""
        for tenant in dict.fromkeys(caller.tenants()):
            stored = Stored(self._gateway().conversation, tenant)
            kept = await stored.now(str(route.fields["id"]))
            if kept is not None and kept.response:
                return stored, kept
        raise NotFound("no response of this id is kept here for you", _HINT)


def _page(items: list[JSONObject], query: Mapping[str, str]) -> JSONObject:
    order, limit = query.get("order", "desc"), query.get("limit", str(_USUAL_ITEMS))
    if order not in ("asc", "desc"):
        raise UsageError("`order` must be `asc` or `desc`")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 3 and 1 <= int(limit) <= _MOST_ITEMS):
        raise UsageError(f"`limit` must be a number from 1 to {_MOST_ITEMS}")
    items = items if order == "asc" else items[::-1]
    ids = [str(item["id"]) for item in items]
    if after := query.get("after", ""):
        if after not in ids:
            raise UsageError("`after` names no item of this response")
        items = items[ids.index(after) + 1 :]
    shown = items[: int(limit)]
    first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
    return {"object": "list", "data": shown, "has_more": len(items) > len(shown), "first_id": first, "last_id": last}


def _item(response: str, number: int, sent: JSONValue) -> JSONObject:
    """An item as OpenAI tells it: with a type, a status and an id, and the content of a message as a list."""
    item: JSONObject = dict(sent) if is_object(sent) else {"role": "user", "content": sent}
    if "role" in item:
        item.setdefault("type", "message")
        if isinstance(text := item.get("content"), str):
            kind = "output_text" if item["role"] == "assistant" else "input_text"
            about: JSONObject = {"annotations": []} if kind == "output_text" else {}
            item["content"] = [{"type": kind, "text": text, **about}]
    item.setdefault("status", "completed")
    if not isinstance(item.get("id"), str) or not item["id"]:
        made = hashlib.sha256(f"{response}/{number}".encode()).hexdigest()[:32]
        item["id"] = f"{'msg' if item.get('type') == 'message' else 'item'}_{made}"
    return item
