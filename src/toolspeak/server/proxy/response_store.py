"""Per-tenant storage of responses by id.

Each response is stored as its own items plus the ids of all earlier responses, so items are stored only once.
"""

import logging
from collections.abc import Sequence

import msgspec

from ...core.types import JSONObject, JSONValue
from ...errors import UsageError
from ...runtime.tool_memory import ToolMemory
from .idempotency import delete_stored_answer

_log = logging.getLogger("toolspeak.server")


class StoredResponse(msgspec.Struct, frozen=True):
    """A response in storage."""

    #: The new items of the request, and the items of the answer.
    input: list[JSONValue]
    output: list[JSONObject]
    #: The ids of the earlier responses, oldest first.
    path: list[str]
    #: All other fields, as sent to the client.
    response: JSONObject = {}


class ResponseStore:
    """The stored responses of one tenant."""

    def __init__(self, memory: ToolMemory, tenant: str) -> None:
        self._memory = memory
        self._tenant = tenant

    async def find(self, ids: Sequence[str]) -> list[StoredResponse]:
        """Return the responses with these ids, without those that are no longer stored."""
        await self._memory.warm(self._tenant, items=map(_item_name, ids))
        items = (self._memory.item(self._tenant, _item_name(each)) for each in ids)
        return [msgspec.convert(each, StoredResponse) for each in items if each is not None]

    def put(self, name: JSONValue, response: StoredResponse) -> None:
        """Store a response."""
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


def _item_name(response: str) -> str:
    return f"responses/{response}"
