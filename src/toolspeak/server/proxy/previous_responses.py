"""Support for `previous_response_id` and `item_reference` of the Responses API.

OpenAI stores responses, and clients rely on it: instead of the whole conversation they send the id of the previous
response or of one of its items. So the proxy stores responses and their items for a while, unless the client sends
`store: false`. A tenant can refer only to its own responses. A response is stored as its own items and the ids of all
earlier responses, so items are stored only once.
"""

import logging
from collections.abc import Mapping, Sequence

import msgspec

from ...core.types import JSONObject, JSONValue, Request, is_array, is_object
from ...errors import UsageError
from ...runtime.tool_memory import ToolMemory
from .idempotency import delete_stored_answer

_log = logging.getLogger("toolspeak.server")
#: The only protocol whose responses are stored.
RESPONSES = "openai_responses"
_REFERENCE = "item_reference"
_PREVIOUS = "previous_response_id"
#: Maximum number of responses in a conversation. Clients compact their conversations long before.
_MAX_CHAIN = 1000


class StoredResponse(msgspec.Struct, frozen=True):
    #: The new items of the request, and the items of the answer.
    input: list[JSONValue]
    output: list[JSONObject]
    path: list[str]  # the ids of the earlier responses, oldest first
    response: JSONObject = {}  # all other fields, as sent to the client


class ResponseStore:
    def __init__(self, memory: ToolMemory, tenant: str) -> None:
        self._memory = memory
        self._tenant = tenant

    async def find(self, ids: Sequence[str]) -> list[StoredResponse]:
        """Return the responses with these ids, without those that are no longer stored."""
        await self._memory.warm(self._tenant, items=map(_item_name, ids))
        items = (self._memory.item(self._tenant, _item_name(each)) for each in ids)
        return [msgspec.convert(each, StoredResponse) for each in items if each is not None]

    def put(self, name: JSONValue, response: StoredResponse) -> None:
        if isinstance(name, str) and name:
            self.put_item(_item_name(name), msgspec.to_builtins(response))

    def put_item(self, name: JSONValue, item: JSONObject) -> None:
        """Store a response item, so later requests can refer to it by its id."""
        try:
            if isinstance(name, str) and name:
                self._memory.keep_item(self._tenant, name, item)
        except UsageError as error:  # too large; later references will not find it
            _log.warning("cannot store a response: %s", error)

    async def current(self, name: str) -> StoredResponse | None:
        """Return a response; None if it was deleted, even by another server that shares the memory."""
        await self._memory.renew(self._tenant, [_item_name(name)])
        return next(iter(await self.find([name])), None)

    async def delete(self, name: str, response: StoredResponse) -> None:
        """Delete a response and its items. Later responses in its conversation can no longer be continued."""
        await delete_stored_answer(self._memory, self._tenant, name)
        parts = (part for item in response.output if isinstance(part := item.get("id"), str))
        await self._memory.forget_items(self._tenant, [*parts, _item_name(name)])


class PreviousResponses:
    """Resolves a request's references to earlier responses, and stores its own response for later requests."""

    def __init__(self, memory: ToolMemory, tenant: str, protocol: str, body: Mapping[str, JSONValue] | bytes) -> None:
        self._memory = memory
        self._tenant = tenant
        self._store = ResponseStore(memory, tenant)
        self._supported = protocol == RESPONSES
        #: Whether stored data may be needed: the protocol uses stored responses, or the memory is shared.
        self.in_use = self._supported or memory.is_shared
        self._body = body  # bytes are parsed only if they are needed
        self._path: list[str] = []
        #: The id of the stored response that this request continues; empty if there is none.
        self.previous_id = ""
        self.stored_id = ""  # the id under which the answer was stored; empty if it was not stored

    async def expand(self) -> Mapping[str, JSONValue]:
        """Return the request body with all references resolved. Unknown references are left unchanged."""
        body = await self._with_items(_parsed(self._body))
        previous = body.get(_PREVIOUS)
        before = await self._history(previous) if isinstance(previous, str) and previous else None
        self._body = body
        if before is None:
            return body
        self.previous_id = str(previous)
        rest = {name: value for name, value in body.items() if name != _PREVIOUS}
        return {**rest, "input": [*before, *_items(body)]}

    async def prefetch(self, request: Request) -> None:
        """Load the data that the turn will need from the shared memory."""
        if not self._memory.is_shared:
            return
        from .tool_loop.memory import item_names

        await self._memory.warm(self._tenant, request.messages, item_names(request.messages))

    async def store(self, request: Request, answer: bytes) -> None:
        """Store an answer, and wait until every process can see it."""
        self.store_now(request, answer)
        await self._memory.settle()

    def store_now(self, request: Request, answer: bytes) -> None:
        """Store an answer; `answer` is the complete body or the end of a stream."""
        if self._supported and request.options.extra.get("store") is not False:
            # The last event of a stream contains the whole response. JSON has no raw line breaks, so content cannot
            # contain this marker.
            data = answer[answer.rfind(b"\ndata: ") + len(b"\ndata: ") :] if request.stream else answer
            body: JSONValue = msgspec.json.decode(data)
            response = body.get("response", body) if is_object(body) else None
            if is_object(response):
                self._store_response(response)

    def _store_response(self, response: JSONObject) -> None:
        output = response.get("output")
        items = [item for item in output if is_object(item)] if is_array(output) else []
        for item in items:
            self._store.put_item(item.get("id"), item)
        if response.get("status") != "failed" and len(self._path) < _MAX_CHAIN:
            rest = {name: value for name, value in response.items() if name != "output"}
            self.stored_id = str(response.get("id") or "")
            self._store.put(response.get("id"), StoredResponse(_items(_parsed(self._body)), items, self._path, rest))

    async def _with_items(self, body: Mapping[str, JSONValue]) -> Mapping[str, JSONValue]:
        items = body.get("input")
        if not is_array(items):
            return body
        names = [_reference(item) for item in items]
        await self._memory.warm(self._tenant, items=filter(None, names))
        stored = (self._memory.item(self._tenant, name) if name else None for name in names)
        return {**body, "input": [full or item for full, item in zip(stored, items, strict=True)]}

    async def _history(self, previous: str) -> list[JSONValue] | None:
        """Return all items up to and including a response; None if some are no longer stored."""
        last = await self._store.find([previous])
        if not last:
            return None
        before = await self._store.find(last[0].path)
        if len(before) != len(last[0].path):
            return None
        self._path = [*last[0].path, previous]
        return [item for response in (*before, *last) for item in (*response.input, *response.output)]


def _parsed(body: Mapping[str, JSONValue] | bytes) -> Mapping[str, JSONValue]:
    return msgspec.json.decode(body) if isinstance(body, bytes) else body


def _items(body: Mapping[str, JSONValue]) -> list[JSONValue]:
    value = body.get("input")
    if is_array(value):
        return value
    return [{"role": "user", "content": value}] if isinstance(value, str) else []


def _reference(item: JSONValue) -> str:
    """Return the id that an item refers to; empty if the item is not a reference."""
    if not is_object(item) or item.get("type", _REFERENCE) != _REFERENCE or "role" in item:
        return ""
    name = item.get("id")
    return name if isinstance(name, str) else ""


def _item_name(response: str) -> str:
    return f"responses/{response}"
