"""Responses that are kept under their ids, each for the tenant that it was given to.

A response is kept as what was new in it and the ids of those before it, so a conversation takes room in proportion to
its length.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from ...core.types import JSONObject, JSONValue
from ...errors import UsageError
from ...runtime.tool_memory import Conversation
from .idempotency import answer_deleted

_log = logging.getLogger("toolspeak.server")


class Kept(msgspec.Struct, frozen=True):
    """A response as it is kept."""

    #: What was sent with its request, and what came of it.
    input: list[JSONValue]
    output: list[JSONObject]
    #: The ids of those before it, the oldest first.
    path: list[str]
    #: All the rest of it, as the client got it.
    response: JSONObject = {}


class Stored:
    """The responses of one tenant; those of others are not there."""

    def __init__(self, conversation: Conversation, tenant: str) -> None:
        self._conversation = conversation
        self._tenant = tenant

    async def find(self, ids: Sequence[str]) -> list[Kept]:
        """Those of these that are there (still)."""
        await self._conversation.warm(self._tenant, items=map(_name, ids))
        found = (self._conversation.item(self._tenant, _name(each)) for each in ids)
        return [msgspec.convert(each, Kept) for each in found if each is not None]

    def keep(self, name: JSONValue, kept: Kept) -> None:
        """Keep a response."""
        if isinstance(name, str) and name:
            self.keep_item(_name(name), msgspec.to_builtins(kept))

    def keep_item(self, name: JSONValue, item: JSONObject) -> None:
        """Keep a part of one, which can be named by itself."""
        try:
            if isinstance(name, str) and name:
                self._conversation.keep_item(self._tenant, name, item)
        except UsageError as error:  # too large: whoever names it is told that it is not kept
            _log.warning("an answer is not kept: %s", error)

    async def now(self, name: str) -> Kept | None:
        """One of them, if nobody has deleted it, also at another server that shares the memory."""
        await self._conversation.renew(self._tenant, [_name(name)])
        return next(iter(await self.find([name])), None)

    async def forget(self, name: str, kept: Kept) -> None:
        """Delete a response and its parts. What went on from it cannot be gone on from any more."""
        await answer_deleted(self._conversation, self._tenant, name)
        parts = (part for item in kept.output if isinstance(part := item.get("id"), str))
        await self._conversation.forget_items(self._tenant, [*parts, _name(name)])


def _name(response: str) -> str:
    return f"responses/{response}"
