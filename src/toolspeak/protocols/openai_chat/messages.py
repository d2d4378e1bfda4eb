"""The messages of chat completions, to messages and back.

What has no place in a `Message` is kept in its `extra` under these names: `role` (developer), `reasoning_field` (the
field the reasoning stood in), `tool_calls` (by position: what a call says besides, and its arguments where they are no
JSON object), `beside` (of a result: what its texts say besides), everything else under its own name. Old function
calls become tool calls with ids of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from ...core.types import (
    BESIDE,
    JSONObject,
    JSONValue,
    Message,
    Note,
    Part,
    Request,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
)
from ...errors import UsageError
from ..shared.fields import (
    array_field,
    in_turns,
    object_field,
    read_arguments,
    speaks,
    text_field,
    to_wire,
    unspoken,
    without,
)
from .fields import PROTOCOL
from .parts import decode_content, encode_content
from .shown import by_users

#: Where servers and clients put reasoning, most common first. The first is what we write.
REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")

#: Role on the wire -> ours; those that differ are remembered in `extra`.
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_KNOWN = ("role", "content", "name", "tool_calls", "function_call")
_RESULT_KNOWN = ("role", "content", "name", "tool_call_id")
#: What a reader may see of arguments that are no JSON object.
_SHOWN = 80


def decode_messages(values: Iterable[JSONValue], path: str) -> tuple[Message, ...]:
    """The messages of a request body."""
    ids = _OldIds()
    return tuple(
        _message(object_field(value, f"{path}[{at}]"), f"{path}[{at}]", ids) for at, value in enumerate(values)
    )


class _OldIds:
    """Ids for calls of the time before ids: a result belongs to the call before it."""

    def __init__(self) -> None:
        self._count = 0

    def call(self) -> str:
        self._count += 1
        return self.result()

    def result(self) -> str:
        return f"function_call_{self._count}"


def _message(value: JSONObject, path: str, ids: _OldIds) -> Message:
    name = text_field(value.get("role"), f"{path}.role")
    role = _ROLES.get(name)
    if role is None:
        raise UsageError(f"`{path}.role` is `{name}`", hint=f"use one of {', '.join(_ROLES)}")
    if role == "tool":
        return Message("tool", results=(_result(value, path, ids),))
    calls, beside = _calls(value, path, ids)
    extra = without(value, *_KNOWN)
    field = next((key for key in REASONING_FIELDS if isinstance(extra.get(key), str)), "")
    reasoning = extra.pop(field) if field else ""
    if field not in ("", REASONING_FIELDS[0]):
        extra["reasoning_field"] = field
    if name != role:
        extra["role"] = name
    if beside:
        extra["tool_calls"] = beside
    return Message(
        role,
        decode_content(value.get("content"), f"{path}.content"),
        reasoning,
        calls,
        name=text_field(value.get("name"), f"{path}.name"),
        extra=extra,
    )


def _result(value: JSONObject, path: str, ids: _OldIds) -> ToolResult:
    parts = decode_content(value.get("content"), f"{path}.content")
    old = value["role"] == "function"
    return ToolResult(
        ids.result() if old else text_field(value.get("tool_call_id"), f"{path}.tool_call_id"),
        "".join(part.text for part in parts if isinstance(part, TextPart)),
        text_field(value.get("name"), f"{path}.name"),
        parts=tuple(part for part in parts if not isinstance(part, TextPart)),
        extra=_result_extra(value, parts),
    )


def _result_extra(value: JSONObject, parts: Iterable[Part]) -> JSONObject:
    """What a result says besides, and what its texts do, as how far to cache."""
    extra = without(value, *_RESULT_KNOWN, BESIDE)
    beside = {key: said for part in parts if isinstance(part, TextPart) for key, said in part.extra.items()}
    return {**extra, BESIDE: beside} if beside else extra


def _calls(value: JSONObject, path: str, ids: _OldIds) -> tuple[tuple[ToolCall, ...], JSONObject]:
    """The calls of a message, and what they say besides, by position."""
    listed = array_field(value.get("tool_calls"), f"{path}.tool_calls")
    if not listed and value.get("function_call") is not None:
        function = object_field(value["function_call"], f"{path}.function_call")
        listed = [{"id": ids.call(), "type": "function", "function": function}]
    calls: list[ToolCall] = []
    beside: JSONObject = {}
    for at, item in enumerate(listed):
        call, rest = _call(object_field(item, f"{path}.tool_calls[{at}]"), f"{path}.tool_calls[{at}]")
        calls.append(call)
        if rest:
            beside[str(at)] = rest
    return tuple(calls), beside


def _call(value: JSONObject, path: str) -> tuple[ToolCall, JSONObject]:
    kind = "custom" if value.get("type") == "custom" else "function"
    body = object_field(value.get(kind), f"{path}.{kind}")
    name = text_field(body.get("name"), f"{path}.{kind}.name")
    if not name:
        raise UsageError(f"`{path}.{kind}.name` is missing")
    rest = without(value, "id", "type", kind)
    notes: tuple[Note, ...] = ()
    if kind == "custom":
        rest["type"] = "custom"
        arguments: JSONObject = {"input": text_field(body.get("input"), f"{path}.custom.input")}
    else:
        given = body.get("arguments")
        parsed = read_arguments(given)
        if parsed is None:
            rest["arguments"] = given
            notes = (Note("arguments_invalid", f"no JSON object: {str(given)[:_SHOWN]}"),)
        arguments = parsed or {}
    return ToolCall(name, arguments, text_field(value.get("id"), f"{path}.id"), notes), rest


def encode_messages(request: Request, custom: Set[str]) -> list[JSONObject]:
    """The messages as chat completions want them. `custom`: the custom tools."""
    return [
        wire
        for message in by_users(in_turns(request, PROTOCOL), request)
        for wire in _encode(message, custom, speaks(message, request, PROTOCOL))
    ]


def _encode(message: Message, custom: Set[str], ours: bool) -> Iterator[JSONObject]:
    for result in message.results:
        yield _encode_result(result, ours)
    if message.role == "tool" or (message.results and not message.parts):
        return
    if not ours and unspoken(message):
        return
    extra = message.extra if ours else {}
    wire: JSONObject = {"role": extra.get("role", message.role)}
    content = encode_content(message.parts, ours)
    # Without a text, an assistant's content must be null beside calls and must not be null otherwise.
    wire["content"] = content if content or not message.calls else None
    if message.name:
        wire["name"] = message.name
    if message.reasoning:
        wire[extra.get("reasoning_field", REASONING_FIELDS[0])] = message.reasoning
    if message.calls:
        beside = extra.get("tool_calls", {})
        wire["tool_calls"] = [
            _encode_call(call, beside.get(str(at), {}), custom) for at, call in enumerate(message.calls)
        ]
    yield {**wire, **without(extra, "role", "reasoning_field", "tool_calls")} if extra else wire


def _encode_result(result: ToolResult, ours: bool) -> JSONObject:
    extra = result.extra if ours else {}
    beside = extra.get(BESIDE, {})
    texts: tuple[Part, ...] = (TextPart(result.content, beside),) if result.content else ()
    wire: JSONObject = {
        "role": "tool",
        "tool_call_id": result.id,
        "content": encode_content((*texts, *result.parts), ours),
    }
    if result.name:
        wire["name"] = result.name
    return {**wire, **without(extra, BESIDE)}


def _encode_call(call: ToolCall, beside: JSONObject, custom: Set[str]) -> JSONObject:
    rest = without(beside, "type", "arguments")
    given = call.arguments.get("input")
    if (call.name in custom or "type" in beside) and isinstance(given, str):
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": given}, **rest}
    arguments = beside["arguments"] if "arguments" in beside and not call.arguments else call.arguments
    text = arguments if isinstance(arguments, str) else to_wire(arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}, **rest}
