"""Convert between messages and the items in `input`.

An assistant turn consists of several items: reasoning, built-in calls, a message, calls. Items in this order form one
`Message`; reasoning and built-in calls become opaque parts at its start. `Message.extra` stores extra fields of the
message item, `role` (if it is `developer`), `instructions` (if the text came from that field) and `tool_calls` (by
position: extra fields of a call).

The content of a message is a string or a list of parts. The kind of an opaque part says what it contains. `item:T` is a
separate item, `content:T` a part of a message, `annotation:T` an annotation of the preceding text, `start:T` the start
of an item. The start of a message contains its `phase`: commentary or final answer. Annotation offsets count from the
start of the current text; adjacent texts count as one.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from ...core.events import CallStart, Event, OpaqueSeen, ReasoningDelta
from ...core.types import (
    JSONObject,
    JSONValue,
    Media,
    Message,
    Note,
    Opaque,
    Part,
    Request,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
    is_object,
)
from ...errors import UsageError
from ..shared.fields import filled, list_or_empty, object_or_empty, text_or_empty, to_wire, without
from ..shared.request_parts import (
    DETAIL,
    call_arguments,
    content_field,
    detail_field,
    filename_field,
    is_from_protocol,
    part_field,
    role_field,
)
from ..shared.resent_values import items_of
from ..shared.validation import name_field, objects_field, text_field
from .call_assembler import ARGUMENT_FIELDS
from .tools import PROTOCOL, ToolNames, flat_name

ITEM: Final = "item:"
CONTENT: Final = "content:"
ANNOTATION: Final = "annotation:"
START: Final = "start:"
#: Kind of the opaque part that starts a message with a phase.
PHASE: Final = START + "message"
#: Kind of the opaque part for metadata of the response.
RESPONSE: Final = "response"

#: Types of text parts. Which type is sent depends on the role.
_TEXT_TYPES = frozenset({"input_text", "output_text", "text"})
#: Default image detail level.
_DEFAULT_DETAIL = "auto"
_WEB_SCHEMES = ("http://", "https://")
#: Annotation fields that contain offsets into the text.
_ANNOTATION_OFFSETS = ("start_index", "end_index")


def is_item(part: Part, kind: str = "") -> bool:
    """Whether a part is a separate item, optionally one whose type starts with `kind`."""
    return isinstance(part, Opaque) and part.kind.startswith(ITEM + kind) and is_object(part.data)


def separates_texts(event: Event) -> bool:
    """Whether the texts before and after this event belong to different messages."""
    if isinstance(event, OpaqueSeen):
        return event.part.kind.startswith((ITEM, START))
    return isinstance(event, CallStart | ReasoningDelta)


def shift_annotation(annotation: JSONObject, distance: int) -> JSONObject:
    offsets = {key: annotation[key] + distance for key in _ANNOTATION_OFFSETS if type(annotation.get(key)) is int}
    return {**annotation, **offsets}


def decode_content(content: JSONValue, path: str) -> tuple[Part, ...]:
    """Decode a `content` or `output` field to parts. An empty string yields no parts."""
    return content_field(content, path, lambda part, where: part_field(part, where, _part, _TEXT_TYPES))


def _part(part: JSONObject, kind: str, path: str) -> Part:
    media = _image(part) if kind == "input_image" else _file(part) if kind == "input_file" else None
    return media or Opaque(CONTENT + kind, part)


def _image(part: JSONObject) -> Media | None:
    """Decode an image with a URL. Return None for an image that is stored by the upstream."""
    url = part.get("image_url")
    if not isinstance(url, str) or not url:
        return None
    extra = without(part, "type", "image_url")
    return Media("image", url, without(extra, DETAIL) if extra.get(DETAIL) == _DEFAULT_DETAIL else extra)


def _file(part: JSONObject) -> Media | None:
    """Decode a file with `file_data` (its content) or `file_url` (its web address). Return None for other files."""
    for key, on_web in (("file_data", False), ("file_url", True)):
        url = part.get(key)
        if isinstance(url, str) and url and url.startswith(_WEB_SCHEMES) is on_web:
            return Media("file", url, without(part, "type", key))
    return None


def encode_content(
    parts: Iterable[Part], same_protocol: bool, by_model: bool = False, foreign: bool = False
) -> JSONValue:
    """Encode parts as a `content` field, if possible as a plain string.

    Args:
        same_protocol: whether the `extra` fields of the parts belong to this protocol.
        by_model: whether the model wrote the parts.
        foreign: whether the message came over another protocol. If so, media are dropped and plain texts are joined,
            because a list requires a message id, which only this service assigns.
    """
    sendable = (part for part in parts if not (foreign and isinstance(part, Media)))
    wire = [encoded for part in sendable if (encoded := _encode(part, same_protocol, by_model))]
    plain = all(part.keys() == {"type", "text"} and part["type"] in _TEXT_TYPES for part in wire)
    return "".join(part["text"] for part in wire) if plain and (foreign or len(wire) <= 1) else wire


def _encode(part: Part, same_protocol: bool, by_model: bool) -> JSONObject:
    if isinstance(part, Opaque):
        return part.data if same_protocol and part.kind.startswith(CONTENT) and is_object(part.data) else {}
    extra = part.extra if same_protocol else {}
    if isinstance(part, TextPart):
        return {"type": "output_text" if by_model else "input_text", "text": part.text, **extra}
    match part.kind:
        case "image":
            # Unlike other protocols, this one requires a detail level.
            detail = {DETAIL: _DEFAULT_DETAIL, **detail_field(part)}
            return {"type": "input_image", "image_url": part.url, **detail, **extra}
        case "file":
            key = "file_url" if part.url.startswith(_WEB_SCHEMES) else "file_data"
            return {"type": "input_file", key: part.url, **filename_field(part), **extra}
        case _:
            return {}


#: Entry of `Message.extra` if the text came from the field `instructions`.
INSTRUCTIONS: Final = "instructions"
#: Key in `Message.extra` for a non-default order of parts and calls.
ORDER: Final = "toolspeak_order"

#: Role in the request -> internal role. A role with a different name is recorded in `extra`.
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_OUTPUT_TYPES = {"function_call_output": "function", "custom_tool_call_output": "custom"}
_REASONING = "reasoning"
#: Suffixes of item types that contain results.
_RESULT_SUFFIXES = ("_output", "_response")
#: Internal entries of `Message.extra`, which are not fields of the message item.
_EXTRA_MARKERS = ("role", INSTRUCTIONS, ORDER, "tool_calls")


def reasoning_of(item: JSONObject) -> str:
    """Return the text of a reasoning item or, if the text is hidden, its summary."""
    for field in ("content", "summary"):
        texts = [text_or_empty(object_or_empty(part).get("text")) for part in list_or_empty(item.get(field))]
        joined = "\n\n".join(filter(None, texts))
        if joined:
            return joined
    return ""


def decode_input(value: JSONValue) -> tuple[Message, ...]:
    """Decode `input` to messages. A plain string becomes a user message."""
    if value is None or isinstance(value, str):
        return (Message("user", (TextPart(value),)),) if value else ()
    decoder = _ItemDecoder()
    for item, path in objects_field(value, "input"):
        decoder.add(item, path)
    decoder.flush()
    return tuple(decoder.messages)


def _kind_of(item: JSONObject, path: str) -> str:
    kind = text_field(item.get("type"), f"{path}.type")
    if kind or "role" in item:
        return kind or "message"
    if "id" in item:
        return "item_reference"
    raise UsageError(f"`{path}.type` is missing")


class _ItemKind(msgspec.Struct):
    type: str | None = None
    role: str | None = None


_decode_kind = msgspec.json.Decoder(_ItemKind).decode
#: Starts of the usual items of agents. All other items are decoded to find their types.
_RESULT_START = b'{"type":"function_call_output"'
_MODEL_STARTS = (b'{"type":"function_call"', b'{"type":"reasoning"', b'{"type":"message","role":"assistant"')


def _ends_message(item: bytes) -> bool:
    """Whether an encoded item is a result or a message of the client."""
    if item.startswith(_RESULT_START):
        return True
    if item.startswith(_MODEL_STARTS):
        return False
    kind = _decode_kind(item)
    return kind.type in _OUTPUT_TYPES or (kind.type in (None, "", "message") and kind.role not in (None, "assistant"))


def split_input(value: bytes) -> Iterator[bytes]:
    """Split an encoded `input` behind the results and messages of the client. No message extends beyond such items."""
    if value.startswith(b'"'):
        yield value
        return
    group: list[bytes] = []
    for item in map(bytes, items_of(value)):
        group.append(item)
        if _ends_message(item):
            yield b"[%b]" % b",".join(group)
            group = []
    if group:
        yield b"[%b]" % b",".join(group)


class _ItemDecoder:
    """Groups consecutive items into messages."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._reset()

    def _reset(self) -> None:
        self._parts: list[Part] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        self._call_extras: JSONObject = {}
        self._extra: JSONObject = {}
        self._has_message = False

    @property
    def _only_opaque_items(self) -> bool:
        """Whether the current message has only opaque items so far, so it can continue with any item."""
        return not (self._has_message or self._calls)

    def add(self, item: JSONObject, path: str) -> None:
        kind = _kind_of(item, path)
        if kind == "message":
            self._message(item, path)
        elif kind in ARGUMENT_FIELDS:
            call, rest = _call(item, kind, path)
            self._call_extras |= filled({str(len(self._calls)): rest})
            self._calls.append(call)
        elif kind in _OUTPUT_TYPES:
            self.flush()
            self.messages.append(Message("tool", results=(_result(item, kind, path),)))
        else:
            if not self._only_opaque_items:
                self.flush()
            self._parts.append(Opaque(ITEM + kind, item))
            if kind == _REASONING and (text := reasoning_of(item)):
                self._reasoning.append(text)

    def flush(self) -> None:
        if self._parts or self._calls or self._has_message:
            results = (isinstance(part, Opaque) and part.kind.endswith(_RESULT_SUFFIXES) for part in self._parts)
            only_results = self._only_opaque_items and all(results)
            extra = self._extra | filled({"tool_calls": self._call_extras})
            reasoning = "\n\n".join(self._reasoning)
            role: Role = "tool" if only_results else "assistant"
            self.messages.append(Message(role, tuple(self._parts), reasoning, tuple(self._calls), extra=extra))
        self._reset()

    def _message(self, item: JSONObject, path: str) -> None:
        role, name = role_field(item, path, _ROLES)
        parts = decode_content(item.get("content"), f"{path}.content")
        extra = without(item, "type", "role", "content", ORDER)
        if role == "assistant":
            if not self._only_opaque_items:
                self.flush()
            self._has_message = True
            self._extra = extra
            self._parts += parts
            return
        if name != role:
            extra["role"] = name
        before: tuple[Part, ...] = ()
        if self._only_opaque_items and not self._reasoning:
            # Opaque items before a user or system message, such as item references, become part of that message.
            before = tuple(self._parts)
            self._reset()
        self.flush()
        self.messages.append(Message(role, (*before, *parts), extra=extra))


def _call(item: JSONObject, kind: str, path: str) -> tuple[ToolCall, JSONObject]:
    """Decode a call item to a call and its extra fields."""
    field = ARGUMENT_FIELDS[kind]
    name = name_field(item, path)
    rest = without(item, "type", "call_id", "name", field)
    notes: tuple[Note, ...] = ()
    if field == "input":
        rest["type"] = kind
        arguments: JSONObject = {"input": text_field(item.get("input"), f"{path}.input")}
    else:
        arguments, notes = call_arguments(item.get("arguments"))
        if notes:
            rest["arguments"] = item["arguments"]
    identifier = text_field(item.get("call_id"), f"{path}.call_id")
    return ToolCall(flat_name(item.get("namespace"), name), arguments, identifier, notes), rest


def _result(item: JSONObject, kind: str, path: str) -> ToolResult:
    parts = decode_content(item.get("output"), f"{path}.output")
    extra = without(item, "type", "call_id", "output", "name")
    if _OUTPUT_TYPES[kind] == "custom":
        extra["type"] = kind
    return ToolResult(
        text_field(item.get("call_id"), f"{path}.call_id"),
        "".join(part.text for part in parts if isinstance(part, TextPart)),
        text_field(item.get("name"), f"{path}.name"),
        parts=tuple(part for part in parts if not isinstance(part, TextPart)),
        extra=extra,
    )


def encode_items(messages: Iterable[Message], request: Request) -> list[JSONObject]:
    encoder = _ItemEncoder(request)
    return [item for message in messages for item in encoder.items(message)]


class _ItemEncoder:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._names = ToolNames(request.tools)
        self._same_protocol = False  # whether `extra` of the current message belongs to this protocol
        #: Whether the upstream may have stored earlier items.
        self._upstream_may_store = request.protocol == PROTOCOL
        self._custom_call_ids: set[str] = set()

    def items(self, message: Message) -> Iterator[JSONObject]:
        self._same_protocol = is_from_protocol(message, self._request, PROTOCOL)
        extra = message.extra if self._same_protocol else {}
        order = extra.get(ORDER)
        if isinstance(order, str) and (order.count("p"), order.count("c")) == (len(message.parts), len(message.calls)):
            for split in _split_by_order(message, order):
                yield from self._encode_message(split, split.extra if split.text else {})
        else:
            yield from self._encode_message(message, extra)

    def _encode_message(self, message: Message, extra: JSONObject) -> Iterator[JSONObject]:
        """Yield the items of a message in the default order."""
        opaque_items = [part.data for part in message.parts if is_item(part) and isinstance(part, Opaque)]
        items = [item for item in opaque_items if self._same_protocol and self._is_sendable(item)]
        yield from items
        yield from map(self._result, message.results)
        if message.role != "tool":
            by_model = message.role == "assistant"
            foreign = by_model and (message.protocol or self._request.protocol) != PROTOCOL
            content = encode_content(message.parts, self._same_protocol, by_model, foreign)
            rest = without(extra, *_EXTRA_MARKERS)
            if content or rest or not (items or message.results or message.calls):
                yield {"type": "message", "role": extra.get("role", message.role), "content": content, **rest}
        call_extras = extra.get("tool_calls", {})
        for at, call in enumerate(message.calls):
            yield self._call(call, call_extras.get(str(at), {}))

    def _is_sendable(self, item: JSONObject) -> bool:
        """Whether an item can be sent. An upstream that has not stored it rejects an empty reasoning item."""
        if self._upstream_may_store or item.get("type") != _REASONING:
            return True
        return bool(item.get("encrypted_content") or item.get("content"))

    def _call(self, call: ToolCall, extra: JSONObject) -> JSONObject:
        wire_name = self._names.wire_name(call.name)
        namespace = extra.get("namespace") or wire_name.namespace
        name = call.name.removeprefix(flat_name(namespace, "")) if namespace else call.name
        rest = without(extra, "type", "arguments", "namespace") | filled({"namespace": namespace})
        input_text = call.arguments.get("input")
        if (wire_name.kind == "custom" or "type" in extra) and isinstance(input_text, str):
            self._custom_call_ids.add(call.id)
            return {"type": "custom_tool_call", "call_id": call.id, "name": name, "input": input_text, **rest}
        arguments = extra["arguments"] if "arguments" in extra and not call.arguments else call.arguments
        text = arguments if isinstance(arguments, str) else to_wire(arguments).decode()
        return {"type": "function_call", "call_id": call.id, "name": name, "arguments": text, **rest}

    def _result(self, result: ToolResult) -> JSONObject:
        extra = result.extra if self._same_protocol else {}
        texts: tuple[Part, ...] = (TextPart(result.content),) if result.content else ()
        kind = "custom_tool_call_output" if result.id in self._custom_call_ids else "function_call_output"
        wire: JSONObject = {
            "type": kind,
            "call_id": result.id,
            "output": encode_content((*texts, *result.parts), self._same_protocol),
        }
        if result.name and self._same_protocol:
            wire["name"] = result.name
        return wire | extra


def _split_by_order(message: Message, order: str) -> Iterator[Message]:
    """Split a message with a non-default order into messages with the default order."""
    parts, calls = iter(message.parts), iter(message.calls)
    current, last_place = Message(message.role, protocol=message.protocol), ""
    for kind in order:
        if kind == "c":
            current, last_place = msgspec.structs.replace(current, calls=(*current.calls, next(calls))), "c"
            continue
        part = next(parts)
        if isinstance(part, Opaque) and part.kind == PHASE:
            if last_place > "a":
                yield current
                current, last_place = Message(message.role, protocol=message.protocol), ""
            current = msgspec.structs.replace(current, extra=part.data if is_object(part.data) else {})
            continue
        place = "a" if is_item(part) else "b"  # default order: a (items), b (message parts), c (calls)
        if place < last_place:
            yield current
            current = Message(message.role, protocol=message.protocol)
        current, last_place = msgspec.structs.replace(current, parts=(*current.parts, part)), place
    if last_place or not order:  # a phase without content is dropped
        yield current
