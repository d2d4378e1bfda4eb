"""Parts of earlier answers, for clients that name them instead of sending them again.

OpenAI keeps what it answered, and the AI SDK relies on that: it sends `item_reference` in place of a text that the
model wrote before. So the items of an answer are kept for a while under their ids, unless the client says `store:
false`; each tenant finds its own only. Whole responses (`previous_response_id`) are not kept. Above: `exchange`.
Below: `conversation`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..conversation import Conversation
from ..core.model import JSONObject, JSONValue, Request, is_array, is_object

__all__ = ["keep", "with_items"]

#: The one protocol whose clients do that.
_FACE = "openai_responses"
_REFERENCE = "item_reference"


def keep(conversation: Conversation, tenant: str, face: str, request: Request, answer: bytes) -> None:
    """Keep the items of an answer; `answer` is all of it, or the end of a stream."""
    if face != _FACE or request.options.extra.get("store") is False:
        return
    # The last event of a stream holds the whole response. JSON has no line breaks, so nothing inside can pose as one.
    data = answer[answer.rfind(b"\ndata: ") + len(b"\ndata: ") :] if request.stream else answer
    for item in _output(data):
        name = item.get("id")
        if isinstance(name, str) and name:
            conversation.keep_item(tenant, name, item)


def _output(data: bytes) -> list[JSONObject]:
    body: JSONValue = msgspec.json.decode(data)
    response = body.get("response", body) if is_object(body) else None
    output = response.get("output") if is_object(response) else None
    return [item for item in output if is_object(item)] if is_array(output) else []


def with_items(conversation: Conversation, tenant: str, said: Mapping[str, JSONValue]) -> Mapping[str, JSONValue]:
    """The request with the items that it names; a name that nobody knows stays."""
    items = said.get("input")
    return {**said, "input": [_found(conversation, tenant, item) for item in items]} if is_array(items) else said


def _found(conversation: Conversation, tenant: str, item: JSONValue) -> JSONValue:
    if not is_object(item) or item.get("type", _REFERENCE) != _REFERENCE or "role" in item:
        return item
    name = item.get("id")
    return (conversation.item(tenant, name) if isinstance(name, str) else None) or item
