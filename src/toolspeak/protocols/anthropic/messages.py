"""The messages of the Messages API, with the system prompt before them, to messages and back.

A `system` prompt is a message before all others; a system message that stands among the others is marked in its
`extra`. A user's message that holds nothing but results has the role `tool`. Thinking stands twice in a message: its
text in `reasoning`, its block, with the signature that alone makes it worth sending back, among the parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ...core.types import (
    JSONObject,
    JSONValue,
    Media,
    Message,
    Note,
    Opaque,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    is_array,
    is_object,
)
from ...errors import UsageError
from ..shared.fields import array_field, bool_field, object_field, text_field, without
from .parts import decode_block, encode_part
from .wire import INLINE, LAYOUT, MARKS, ORDER, USES, Sending

_ROLES = ("user", "assistant", "system")
#: Results, parts, calls: the order in which the blocks of a message usually stand.
_USUAL = "rpc"
_CALL_KNOWN = ("type", "id", "name", "input")
_RESULT_KNOWN = ("type", "tool_use_id", "content", "is_error")
#: What a reader may see of arguments that are no JSON object.
_SHOWN = 80


# ------------------------------------------------------------------------------------------------ from the wire


def decode_system(value: JSONValue) -> tuple[Message, ...]:
    """The system prompt as a message, if there is one."""
    parts = tuple(decode_block(block, path) for block, path in _blocks(value, "system"))
    return (Message("system", parts),) if parts else ()


def decode_messages(values: Iterable[JSONValue]) -> tuple[Message, ...]:
    """The messages of a request body."""
    return tuple(_message(object_field(value, f"messages[{at}]"), f"messages[{at}]") for at, value in enumerate(values))


def _blocks(content: JSONValue, path: str) -> list[tuple[JSONValue, str]]:
    """The blocks of a content, each with its path; a text is one block, an empty text none."""
    if isinstance(content, str):
        return [({"type": "text", "text": content}, path)] if content else []
    return [(block, f"{path}[{at}]") for at, block in enumerate(array_field(content, path))]


class _Content:
    """The blocks of one message, sorted by what they are."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.calls: list[ToolCall] = []
        self.results: list[ToolResult] = []
        self.thoughts: list[str] = []
        self.uses: JSONObject = {}
        self.order = ""

    def add(self, block: JSONValue, path: str) -> None:
        match block.get("type") if is_object(block) else "":
            case "tool_use":
                self._call(object_field(block, path), path)
            case "tool_result":
                self.results.append(_result(object_field(block, path), path))
                self.order += "r"
            case kind:
                if kind == "thinking":
                    self.thoughts.append(text_field(object_field(block, path).get("thinking"), f"{path}.thinking"))
                self.parts.append(decode_block(block, path))
                self.order += "p"

    def _call(self, block: JSONObject, path: str) -> None:
        name = text_field(block.get("name"), f"{path}.name")
        if not name:
            raise UsageError(f"`{path}.name` is missing")
        rest = without(block, *_CALL_KNOWN)
        given = block.get("input")
        notes: tuple[Note, ...] = ()
        if not is_object(given):
            if given is not None:
                notes = (Note("arguments_invalid", f"no JSON object: {str(given)[:_SHOWN]}"),)
                rest["input"] = given
            given = {}
        if rest:
            self.uses[str(len(self.calls))] = rest
        self.calls.append(ToolCall(name, given, text_field(block.get("id"), f"{path}.id"), notes))
        self.order += "c"


def _message(value: JSONObject, path: str) -> Message:
    role = text_field(value.get("role"), f"{path}.role")
    if role not in _ROLES:
        raise UsageError(f"`{path}.role` is `{role}`", hint=f"use one of {', '.join(_ROLES)}")
    content = _Content()
    for block, where in _blocks(value.get("content"), f"{path}.content"):
        content.add(block, where)
    extra = without(value, "role", "content", *MARKS)
    if role == "system":
        extra[INLINE] = True
    if content.order != "".join(sorted(content.order, key=_USUAL.index)):
        extra[ORDER] = content.order
    if content.uses:
        extra[USES] = content.uses
    only_results = role == "user" and content.results and not content.parts and not content.calls
    return Message(
        "tool" if only_results else role,
        tuple(content.parts),
        "".join(content.thoughts),
        tuple(content.calls),
        tuple(content.results),
        extra=extra,
    )


def _result(block: JSONObject, path: str) -> ToolResult:
    texts: list[str] = []
    parts: list[Media | Opaque] = []
    layout: list[JSONValue] = []
    for inner, where in _blocks(block.get("content"), f"{path}.content"):
        part = decode_block(inner, where)
        if isinstance(part, TextPart):
            texts.append(part.text)
            layout.append([len(part.text), part.extra] if part.extra else len(part.text))
        else:
            parts.append(part)
            layout.append(None)
    extra = without(block, *_RESULT_KNOWN, *MARKS)
    content = "".join(texts)
    if layout != _usual_layout(content, parts):
        extra[LAYOUT] = layout
    error = bool_field(block.get("is_error"), f"{path}.is_error", False)
    identifier = text_field(block.get("tool_use_id"), f"{path}.tool_use_id")
    return ToolResult(identifier, content, error=error, parts=tuple(parts), extra=extra)


def _usual_layout(content: str, parts: Sequence[Media | Opaque]) -> list[JSONValue]:
    """One text, then the parts."""
    return [*([len(content)] if content else []), *(None for _ in parts)]


# -------------------------------------------------------------------------------------------------- to the wire


def encode_messages(messages: Sequence[Message], sending: Sending) -> tuple[JSONValue, list[JSONObject]]:
    """The system prompt (None: there is none) and the messages, as the service wants them."""
    encoded = [(message, _encode_blocks(message, sending.by(message))) for message in messages]
    filled = [(message, blocks) for message, blocks in encoded if blocks]
    if len(filled) < len(encoded):
        sending.note("empty_message_dropped", "a message without content is not sent")
    first = next((at for at, (message, _) in enumerate(filled) if not _leads(message, sending)), len(filled))
    prompt = _prompt([block for _, blocks in filled[:first] for block in blocks], sending)
    wire: list[JSONObject] = []
    answering = False
    for message, blocks in filled[first:]:
        spoken = sending.by(message)
        beside = spoken.extra(message.extra) if spoken.ours else {}
        answers = message.role == "tool" or (message.role == "user" and all(map(_is_result, blocks)))
        if answers and answering and not beside:
            wire[-1]["content"] = [*_listed(wire[-1]["content"]), *blocks]  # all results of a turn stand together
        else:
            wire.append({"role": _role(message, sending), "content": _content(blocks), **beside})
        answering = answers
    return (_content(prompt) if prompt else None), wire


def _prompt(blocks: list[JSONObject], sending: Sending) -> list[JSONObject]:
    """What of a system prompt the service takes: texts."""
    texts = [block for block in blocks if sending.native or block["type"] == "text"]
    if len(texts) < len(blocks):
        sending.note("system_part_dropped", "a system prompt holds nothing but text")
    return texts


def _is_result(block: JSONObject) -> bool:
    return block["type"] == "tool_result"


def _inline(message: Message, sending: Sending) -> bool:
    return sending.by(message).ours and bool(message.extra.get(INLINE))


def _leads(message: Message, sending: Sending) -> bool:
    return message.role == "system" and not _inline(message, sending)


def _role(message: Message, sending: Sending) -> str:
    if _leads(message, sending):
        # Only the newer models take a system message here, and only from those who know the rules for its place.
        sending.note("system_as_user", "a system message behind others is sent as the user's")
        return "user"
    return "user" if message.role == "tool" else message.role


def _content(blocks: list[JSONObject]) -> JSONValue:
    """A plain text where that says it all."""
    text = blocks[0].get("text")
    return text if blocks == [{"type": "text", "text": text}] else blocks


def _listed(content: JSONValue) -> list[JSONValue]:
    return content if is_array(content) else [{"type": "text", "text": content}]


def _encode_blocks(message: Message, sending: Sending) -> list[JSONObject]:
    if message.reasoning and not any(isinstance(part, Opaque) and part.kind == "thinking" for part in message.parts):
        sending.note("reasoning_dropped", "thinking without a signature is refused, so it is not sent")
    uses: JSONObject = message.extra.get(USES, {}) if sending.ours else {}
    made: dict[str, list[JSONObject | None]] = {
        "r": [_encode_result(result, sending) for result in message.results],
        "p": [encode_part(part, sending) for part in message.parts],
        "c": [_encode_call(call, uses.get(str(at), {}), sending) for at, call in enumerate(message.calls)],
    }
    usual = "".join(kind * len(made[kind]) for kind in _USUAL)
    order = message.extra.get(ORDER) if sending.ours else None
    if not isinstance(order, str) or Counter(order) != Counter(usual):  # the message was changed since
        order = usual
    queues = {kind: iter(blocks) for kind, blocks in made.items()}
    blocks = [block for kind in order if (block := next(queues[kind])) is not None]
    if blocks and not sending.ours:  # elsewhere a whole message may carry a mark, here only a block
        blocks[-1] = {**sending.extra(message.extra), **blocks[-1]}
    return blocks


def _encode_call(call: ToolCall, beside: JSONObject, sending: Sending) -> JSONObject:
    given = beside["input"] if "input" in beside and not call.arguments else call.arguments
    wire = {"type": "tool_use", "id": sending.id(call.id, "call"), "name": call.name, "input": given}
    return {**wire, **without(beside, "input")}


def _encode_result(result: ToolResult, sending: Sending) -> JSONObject:
    wire: JSONObject = {"type": "tool_result", "tool_use_id": sending.id(result.id, "result")}
    blocks = _encode_layout(result, sending)
    wire["content"] = _content(blocks) if blocks else ""
    if result.error:
        wire["is_error"] = True
    return {**wire, **sending.extra(result.extra)}


def _encode_layout(result: ToolResult, sending: Sending) -> list[JSONObject]:
    kept: JSONValue = result.extra.get(LAYOUT) if sending.ours else None
    layout: list[JSONValue] = kept if _fits(kept, result) else _usual_layout(result.content, result.parts)
    parts = iter(result.parts)
    blocks: list[JSONObject] = []
    at = 0
    for entry in layout:
        if entry is None:
            block = encode_part(next(parts), sending)
        else:
            size, *extra = entry if is_array(entry) else [entry]
            block = encode_part(TextPart(result.content[at : at + size], *extra), sending)
            at += size
        if block is not None:
            blocks.append(block)
    return blocks


def _fits(layout: JSONValue, result: ToolResult) -> bool:
    """Whether a layout is that of this result: it may have been changed since."""
    if not is_array(layout):
        return False
    sizes = [entry[0] if is_array(entry) else entry for entry in layout if entry is not None]
    return sum(sizes) == len(result.content) and len(layout) - len(sizes) == len(result.parts)
