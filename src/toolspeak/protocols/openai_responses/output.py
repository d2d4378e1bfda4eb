"""The response object of the Responses API and the items of its output, as our face writes them.

Whether a response is streamed or not, it is made here, so that both say the same. Ids of items are made from the id
of the response and the item's number.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.events import Failure, FinishReason, Reply
from ...core.types import JSONObject, JSONValue, Opaque, Request, Usage, is_object
from ..shared.fields import to_wire
from ..shared.openai_errors import code_of
from .items import INSTRUCTIONS
from .parts import ANNOTATION, ITEM, PHASE, PROTOCOL, RESPONSE, START
from .request import encode_settings
from .tools import Names

#: Reasons that leave a response incomplete, as its details word them.
DETAILS: dict[FinishReason, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
#: Fields of a request that its response repeats.
_REPEATED = (
    "background max_tool_calls metadata previous_response_id prompt_cache_key reasoning safety_identifier"
    " service_tier store top_logprobs truncation user"
).split()
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}


# ------------------------------------------------------------------------------------------------------- items


def text_part(text: str, annotations: Iterable[JSONValue] = ()) -> JSONObject:
    """The one part of a message."""
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def message_item(identifier: str, status: str, content: list[JSONObject], phase: JSONValue = None) -> JSONObject:
    """A message."""
    item: JSONObject = {"id": identifier, "type": "message", "status": status, "role": "assistant", "content": content}
    return item | {"phase": phase} if phase else item


def thought_part(field: str, text: str) -> JSONObject:
    """The one part of reasoning, or of its summary."""
    return {"type": "summary_text" if field == "summary" else "reasoning_text", "text": text}


def reasoning_item(identifier: str, field: str, parts: list[JSONObject]) -> JSONObject:
    """Reasoning."""
    return {"id": identifier, "type": "reasoning", "summary": [], field: parts}


def call_type(names: Names, name: str) -> str:
    """The type of a call's item."""
    return "custom_tool_call" if names.spoken(name).kind == "custom" else "function_call"


def call_item(names: Names, name: str, identifiers: tuple[str, str], given: str, status: str) -> JSONObject:
    """A call. `identifiers`: of its item and of the call."""
    spoken = names.spoken(name)
    custom = spoken.kind == "custom"
    item: JSONObject = {
        "id": identifiers[0],
        "type": call_type(names, name),
        "status": status,
        "call_id": identifiers[1] or identifiers[0],
        "name": spoken.name,
        "input" if custom else "arguments": given,
    }
    if custom:
        del item["status"]
    return item | {"namespace": spoken.namespace} if spoken.namespace else item


def is_reasoning(part: Opaque) -> bool:
    """Whether a carried part is a whole reasoning item."""
    return part.kind == f"{ITEM}reasoning" and is_object(part.data)


# ---------------------------------------------------------------------------------------------------- responses


class Maker:
    """Makes the response object of one request, at each of its stages."""

    def __init__(self, request: Request, id: str, created: int, model: str) -> None:
        self.names = Names(request.tools)
        self._suffix = id.removeprefix("resp_")
        ours = request.protocol == PROTOCOL
        extra = request.options.extra if ours else {}
        first = request.messages[0] if request.messages else None
        marked = first is not None and INSTRUCTIONS in first.extra
        self._base: JSONObject = {
            "id": id,
            "object": "response",
            "created_at": created,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": first.text if first is not None and marked else None,
            "max_output_tokens": None,
            "metadata": {},
            "model": model,
            "output": [],
            "parallel_tool_calls": request.tool_choice.parallel,
            "previous_response_id": None,
            "reasoning": None,
            "store": False,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "usage": None,
            "user": None,
            **{key: extra[key] for key in _REPEATED if extra.get(key) is not None},
            **encode_settings(request),
        }
        self._base["text"] = {"format": {"type": "text"}, **self._base["text"]}

    def item_id(self, kind: str, number: int) -> str:
        """The id of an item of ours."""
        return f"{_PREFIXES[kind]}_{self._suffix}_{number}"

    def begun(self) -> JSONObject:
        """The response before its first item."""
        return self._base

    def ended(
        self,
        output: list[JSONObject],
        reason: FinishReason,
        usage: Usage,
        extension: JSONObject | None,
        about: JSONObject,
    ) -> JSONObject:
        """The response with all its items. `about`: what else is said of it."""
        details = DETAILS.get(reason)
        response = {
            **self._base,
            "status": "incomplete" if details else "completed",
            **about,
            "incomplete_details": {"reason": details} if details else None,
            "output": output,
            "usage": _usage(usage),
        }
        return response | {"toolspeak": extension} if extension else response

    def failed(self, output: list[JSONObject], failure: Failure, usage: Usage) -> JSONObject:
        """The response of a turn that broke."""
        code = code_of(failure, "rate_limit_exceeded" if failure.status == 429 else "server_error")
        return {
            **self._base,
            "status": "failed",
            "error": {"code": code, "message": failure.message},
            "output": output,
            "usage": _usage(usage),
        }

    @staticmethod
    def about(reply: Reply) -> JSONObject:
        """What an upstream of this protocol said of the response as a whole."""
        return _last(reply, RESPONSE)

    def output(self, reply: Reply) -> list[JSONObject]:
        """The items of a whole reply: what is carried, reasoning, text, calls."""
        output: list[JSONObject] = [
            part.data for part in reply.opaque if part.kind.startswith(ITEM) and is_object(part.data)
        ]
        if reply.reasoning and not any(map(is_reasoning, reply.opaque)):
            output.append(self._thought(reply, len(output)))
        if reply.text:
            cut = reply.finish_reason in DETAILS and not reply.calls and reply.complete
            annotations = (part.data for part in reply.opaque if part.kind.startswith(ANNOTATION))
            identifier = self.item_id("message", len(output))
            content = [text_part(reply.text, annotations)]
            phase = _last(reply, PHASE).get("phase")
            output.append(message_item(identifier, "incomplete" if cut else "completed", content, phase))
        for call in reply.calls:
            kind = call_type(self.names, call.name)
            given = call.arguments.get("input") if kind == "custom_tool_call" else to_wire(call.arguments).decode()
            if isinstance(given, str):
                identifiers = (self.item_id(kind, len(output)), call.id)
                output.append(call_item(self.names, call.name, identifiers, given, "completed"))
        return output

    def _thought(self, reply: Reply, number: int) -> JSONObject:
        mark = _last(reply, f"{START}reasoning")
        field = mark.get("field", "summary")
        identifier = mark.get("id") or self.item_id("reasoning", number)
        return reasoning_item(identifier, field, [thought_part(field, reply.reasoning)])


def _last(reply: Reply, kind: str) -> JSONObject:
    """What the last carried part of this kind says."""
    mark: JSONObject = {}
    for part in reply.opaque:
        if part.kind == kind and is_object(part.data):
            mark = part.data
    return mark


def _usage(usage: Usage) -> JSONObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
