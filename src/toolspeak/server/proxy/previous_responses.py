"""Earlier answers, for clients that name them instead of sending them again.

OpenAI keeps what it answered, and its clients rely on that: they send `previous_response_id` in place of the whole
conversation, or `item_reference` in place of a text that the model wrote before. So answers and their items are kept
for a while under their ids, unless the client says `store: false`; each tenant finds its own only.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...core.types import JSONObject, JSONValue, Request, is_array, is_object
from ...runtime.tool_memory import Conversation
from .response_store import Kept, Stored

#: The one protocol whose clients do that.
_FACE = "openai_responses"
_REFERENCE = "item_reference"
_PREVIOUS = "previous_response_id"
#: Responses before one: longer conversations are summed up long before.
_LONGEST_PATH = 1000


class Earlier:
    """What one request means of earlier answers, and what later ones may mean of it."""

    def __init__(self, conversation: Conversation, tenant: str, face: str, said: Mapping[str, JSONValue]) -> None:
        self._conversation = conversation
        self._tenant = tenant
        self._stored = Stored(conversation, tenant)
        self._ours = face == _FACE
        #: Whether there may be anything to have at hand or to keep: a protocol that does that, or others to share with.
        self.matters = self._ours or conversation.is_shared
        self._said = said
        self._path: list[str] = []
        #: The id of the response that this one goes on from, if it was found.
        self.previous = ""
        #: The id under which the answer was kept, if it was.
        self.kept_as = ""

    async def expanded(self) -> Mapping[str, JSONValue]:
        """The request with everything that it names; a name that nobody knows stays."""
        said = await self._with_items(self._said)
        previous = said.get(_PREVIOUS)
        before = await self._conversation_until(previous) if isinstance(previous, str) and previous else None
        self._said = said
        if before is None:
            return said
        self.previous = str(previous)
        rest = {name: value for name, value in said.items() if name != _PREVIOUS}
        return {**rest, "input": [*before, *_items(said)]}

    async def warm(self, request: Request) -> None:
        """Have at hand what the turn will ask for."""
        if not self._conversation.is_shared:
            return
        from .tool_loop.memory import names_of

        await self._conversation.warm(self._tenant, request.messages, names_of(request.messages))

    async def keep(self, request: Request, answer: bytes) -> None:
        """Keep an answer; `answer` is all of it, or the end of a stream. Others can go on with it then."""
        if self._ours and request.options.extra.get("store") is not False:
            # The last event of a stream holds the whole response. JSON has no line breaks, so nothing inside can pose
            # as one.
            data = answer[answer.rfind(b"\ndata: ") + len(b"\ndata: ") :] if request.stream else answer
            body: JSONValue = msgspec.json.decode(data)
            response = body.get("response", body) if is_object(body) else None
            if is_object(response):
                self._keep_response(response)
        await self._conversation.settle()

    def _keep_response(self, response: JSONObject) -> None:
        output = response.get("output")
        items = [item for item in output if is_object(item)] if is_array(output) else []
        for item in items:
            self._stored.keep_item(item.get("id"), item)
        if response.get("status") != "failed" and len(self._path) < _LONGEST_PATH:
            rest = {name: value for name, value in response.items() if name != "output"}
            self.kept_as = str(response.get("id") or "")
            self._stored.keep(response.get("id"), Kept(_items(self._said), items, self._path, rest))

    async def _with_items(self, said: Mapping[str, JSONValue]) -> Mapping[str, JSONValue]:
        items = said.get("input")
        if not is_array(items):
            return said
        await self._conversation.warm(self._tenant, items=[name for item in items if (name := _referred(item))])
        return {**said, "input": [self._found(item) for item in items]}

    def _found(self, item: JSONValue) -> JSONValue:
        name = _referred(item)
        return (self._conversation.item(self._tenant, name) if name else None) or item

    async def _conversation_until(self, previous: str) -> list[JSONValue] | None:
        """Everything up to a response and with it; None where a part of it is not kept (any more)."""
        last = await self._stored.find([previous])
        if not last:
            return None
        before = await self._stored.find(last[0].path)
        if len(before) != len(last[0].path):
            return None
        self._path = [*last[0].path, previous]
        return [item for kept in (*before, *last) for item in (*kept.input, *kept.output)]


def _items(said: Mapping[str, JSONValue]) -> list[JSONValue]:
    """The input of a request as a list."""
    given = said.get("input")
    if is_array(given):
        return given
    return [{"role": "user", "content": given}] if isinstance(given, str) else []


def _referred(item: JSONValue) -> str:
    """The name that stands in place of an item; empty: it is one."""
    if not is_object(item) or item.get("type", _REFERENCE) != _REFERENCE or "role" in item:
        return ""
    name = item.get("id")
    return name if isinstance(name, str) else ""
