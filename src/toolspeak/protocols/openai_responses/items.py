"""The items of the Responses API's `input`, to messages and back.

An assistant's turn is several items there: reasoning, built-in calls, a message, calls. As long as they follow each
other in this order they are one `Message`. Its `extra` holds what its message item says besides, `role` (developer),
`instructions` (it stood outside of the items) and `tool_calls` (by position: what a call says besides). Items that
have no place in a message are its first parts, carried as they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from ...core.types import (
    JSONObject,
    JSONValue,
    Message,
    Note,
    Opaque,
    Part,
    Request,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
    is_array,
    is_object,
)
from ...errors import UsageError
from ..shared.fields import array_field, object_field, read_arguments, speaks, text_field, to_wire, without
from .parts import ITEM, PHASE, PROTOCOL, decode_content, encode_content, is_item
from .tools import Names, flattened

#: The mark in `Message.extra` of what a request says in `instructions`.
INSTRUCTIONS: Final = "instructions"
#: The mark of how the parts and calls of an answer follow each other, where calls do not come last.
ORDER: Final = "toolspeak_order"

#: Role on the wire -> ours; those that differ are remembered in `extra`.
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = {"function_call_output": "function", "custom_tool_call_output": "custom"}
_REASONING = "reasoning"
#: Endings of items that answer something.
_ANSWERS = ("_output", "_response")
#: Words in `extra` that are ours.
_MARKS = ("role", INSTRUCTIONS, ORDER, "tool_calls")
#: What a reader may see of arguments that are no JSON object.
_SHOWN = 80


def reasoning_of(item: JSONObject) -> str:
    """The text of a reasoning item: what the model thought or, where that is not shown, a summary of it."""
    for field in ("content", "summary"):
        listed = item.get(field)
        texts = [part.get("text") for part in listed if is_object(part)] if is_array(listed) else []
        found = "\n\n".join(text for text in texts if isinstance(text, str) and text)
        if found:
            return found
    return ""


# ------------------------------------------------------------------------------------------------ from the wire


def decode_input(value: JSONValue) -> tuple[Message, ...]:
    """The messages that `input` stands for; a plain text is the user's."""
    if value is None or isinstance(value, str):
        return (Message("user", (TextPart(value),)),) if value else ()
    reader = _Items()
    for at, item in enumerate(array_field(value, "input")):
        path = f"input[{at}]"
        reader.add(object_field(item, path), path)
    reader.flush()
    return tuple(reader.messages)


def _kind_of(item: JSONObject, path: str) -> str:
    kind = text_field(item.get("type"), f"{path}.type")
    if kind or "role" in item:
        return kind or "message"
    if "id" in item:
        return "item_reference"
    raise UsageError(f"`{path}.type` is missing")


class _Items:
    """Items one after the other into messages."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._reset()

    def _reset(self) -> None:
        self._parts: list[Part] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        self._beside: JSONObject = {}
        self._extra: JSONObject = {}
        self._said = False

    @property
    def _only_items(self) -> bool:
        """Whether a turn may go on with anything."""
        return not (self._said or self._calls)

    def add(self, item: JSONObject, path: str) -> None:
        kind = _kind_of(item, path)
        if kind == "message":
            self._message(item, path)
        elif kind in _CALLS:
            self._call(item, kind, path)
        elif kind in _OUTPUTS:
            self.flush()
            self.messages.append(Message("tool", results=(_result(item, kind, path),)))
        else:
            if not self._only_items:
                self.flush()
            self._parts.append(Opaque(ITEM + kind, item))
            if kind == _REASONING and (text := reasoning_of(item)):
                self._reasoning.append(text)

    def flush(self) -> None:
        """End the turn that is open, if one is."""
        if self._parts or self._calls or self._said:
            answers = not self._said and not self._calls and all(_is_answer(part) for part in self._parts)
            extra = {**self._extra, "tool_calls": self._beside} if self._beside else self._extra
            reasoning = "\n\n".join(self._reasoning)
            role: Role = "tool" if answers else "assistant"
            self.messages.append(Message(role, tuple(self._parts), reasoning, tuple(self._calls), extra=extra))
        self._reset()

    def _message(self, item: JSONObject, path: str) -> None:
        name = text_field(item.get("role"), f"{path}.role")
        role = _ROLES.get(name)
        if role is None:
            raise UsageError(f"`{path}.role` is `{name}`", hint=f"use one of {', '.join(_ROLES)}")
        parts = decode_content(item.get("content"), f"{path}.content")
        extra = without(item, "type", "role", "content", ORDER)
        if role == "assistant":
            if not self._only_items:
                self.flush()
            self._said = True
            self._extra = extra
            self._parts += parts
            return
        if name != role:
            extra["role"] = name
        before: tuple[Part, ...] = ()
        if self._only_items and not self._reasoning:
            # What was carried and belongs to nothing else goes along with what comes next.
            before = tuple(self._parts)
            self._reset()
        self.flush()
        self.messages.append(Message(role, (*before, *parts), extra=extra))

    def _call(self, item: JSONObject, kind: str, path: str) -> None:
        call, rest = _call(item, kind, path)
        if rest:
            self._beside[str(len(self._calls))] = rest
        self._calls.append(call)


def _is_answer(part: Part) -> bool:
    return isinstance(part, Opaque) and part.kind.endswith(_ANSWERS)


def _call(item: JSONObject, kind: str, path: str) -> tuple[ToolCall, JSONObject]:
    """A call, and what its item says besides."""
    field = _CALLS[kind]
    name = text_field(item.get("name"), f"{path}.name")
    if not name:
        raise UsageError(f"`{path}.name` is missing")
    rest = without(item, "type", "call_id", "name", field)
    notes: tuple[Note, ...] = ()
    if field == "input":
        rest["type"] = kind
        arguments: JSONObject = {"input": text_field(item.get("input"), f"{path}.input")}
    else:
        given = item.get("arguments")
        parsed = read_arguments(given)
        if parsed is None:
            rest["arguments"] = given
            notes = (Note("arguments_invalid", f"no JSON object: {str(given)[:_SHOWN]}"),)
        arguments = parsed or {}
    identifier = text_field(item.get("call_id"), f"{path}.call_id")
    return ToolCall(flattened(item.get("namespace"), name), arguments, identifier, notes), rest


def _result(item: JSONObject, kind: str, path: str) -> ToolResult:
    parts = decode_content(item.get("output"), f"{path}.output")
    extra = without(item, "type", "call_id", "output", "name")
    if _OUTPUTS[kind] == "custom":
        extra["type"] = kind
    return ToolResult(
        text_field(item.get("call_id"), f"{path}.call_id"),
        "".join(part.text for part in parts if isinstance(part, TextPart)),
        text_field(item.get("name"), f"{path}.name"),
        parts=tuple(part for part in parts if not isinstance(part, TextPart)),
        extra=extra,
    )


# -------------------------------------------------------------------------------------------------- to the wire


def encode_items(messages: Iterable[Message], request: Request) -> list[JSONObject]:
    """The messages, which are all of the request or those behind the first, as items."""
    writer = _Writer(request)
    return [item for message in messages for item in writer.items(message)]


class _Writer:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._names = Names(request.tools)
        self._ours = False  # the extras of the message at hand speak this protocol
        #: Whether the upstream may have kept what it said.
        self._stored = request.protocol == PROTOCOL
        self._custom: set[str] = set()

    def items(self, message: Message) -> Iterator[JSONObject]:
        self._ours = speaks(message, self._request, PROTOCOL)
        extra = message.extra if self._ours else {}
        order = extra.get(ORDER)
        if isinstance(order, str) and (order.count("p"), order.count("c")) == (len(message.parts), len(message.calls)):
            for piece in _pieces(message, order):
                yield from self._whole(piece, piece.extra if piece.text else {})
        else:
            yield from self._whole(message, extra)

    def _whole(self, message: Message, extra: JSONObject) -> Iterator[JSONObject]:
        """The items of a message in their usual order."""
        carried = [part.data for part in message.parts if is_item(part) and isinstance(part, Opaque)]
        items = [item for item in carried if self._ours and self._worth(item)]
        yield from items
        yield from map(self._result, message.results)
        if message.role != "tool":
            said = message.role == "assistant"
            elsewhere = said and (message.protocol or self._request.protocol) != PROTOCOL
            content = encode_content(message.parts, self._ours, said, elsewhere)
            rest = without(extra, *_MARKS)
            if content or rest or not (items or message.results or message.calls):
                yield {"type": "message", "role": extra.get("role", message.role), "content": content, **rest}
        beside = extra.get("tool_calls", {})
        for at, call in enumerate(message.calls):
            yield self._call(call, beside.get(str(at), {}))

    def _worth(self, item: JSONObject) -> bool:
        """An upstream that kept nothing refuses reasoning which holds nothing."""
        if self._stored or item.get("type") != _REASONING:
            return True
        return bool(item.get("encrypted_content") or item.get("content"))

    def _call(self, call: ToolCall, beside: JSONObject) -> JSONObject:
        spoken = self._names.spoken(call.name)
        namespace = beside.get("namespace") or spoken.namespace
        name = call.name.removeprefix(flattened(namespace, "")) if namespace else call.name
        rest = without(beside, "type", "arguments", "namespace")
        if namespace:
            rest["namespace"] = namespace
        given = call.arguments.get("input")
        if (spoken.kind == "custom" or "type" in beside) and isinstance(given, str):
            self._custom.add(call.id)
            return {"type": "custom_tool_call", "call_id": call.id, "name": name, "input": given, **rest}
        arguments = beside["arguments"] if "arguments" in beside and not call.arguments else call.arguments
        text = arguments if isinstance(arguments, str) else to_wire(arguments).decode()
        return {"type": "function_call", "call_id": call.id, "name": name, "arguments": text, **rest}

    def _result(self, result: ToolResult) -> JSONObject:
        extra = result.extra if self._ours else {}
        texts: tuple[Part, ...] = (TextPart(result.content),) if result.content else ()
        kind = "custom_tool_call_output" if result.id in self._custom else "function_call_output"
        wire: JSONObject = {
            "type": kind,
            "call_id": result.id,
            "output": encode_content((*texts, *result.parts), self._ours),
        }
        if result.name and self._ours:
            wire["name"] = result.name
        return wire | extra


def _pieces(message: Message, order: str) -> Iterator[Message]:
    """A message in an order that is not the usual one, as several that are: what has items in it begins a new one."""
    parts, calls = iter(message.parts), iter(message.calls)
    piece, usual = Message(message.role, protocol=message.protocol), ""
    for kind in order:
        if kind == "c":
            piece, usual = msgspec.structs.replace(piece, calls=(*piece.calls, next(calls))), "c"
            continue
        part = next(parts)
        if isinstance(part, Opaque) and part.kind == PHASE:
            if usual > "a":
                yield piece
                piece, usual = Message(message.role, protocol=message.protocol), ""
            piece = msgspec.structs.replace(piece, extra=part.data if is_object(part.data) else {})
            continue
        place = "a" if is_item(part) else "b"  # items, then what was said, then calls
        if place < usual:
            yield piece
            piece = Message(message.role, protocol=message.protocol)
        piece, usual = msgspec.structs.replace(piece, parts=(*piece.parts, part)), place
    if usual or not order:  # not a phase of nothing
        yield piece
