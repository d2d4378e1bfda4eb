"""Decode and encode messages, content blocks and the system prompt.

The `system` prompt becomes the first message; a system message in `messages` is marked in its `extra`. A user message
that contains only results gets the role `tool`. Thinking is stored twice: its text in `reasoning`, and its signed
block, which can be sent back, among the parts. Media with data or a URL become `Media`, all other blocks `Opaque`.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Literal

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
from ..shared.fields import without
from ..shared.request_parts import OrderedContent, in_order, invalid_arguments, is_fetchable, is_inline, part_field
from ..shared.validation import array_field, bool_field, name_field, object_field, objects_field, text_field
from .blocks import block_type
from .encoding_state import CALL_EXTRAS, INLINE, INTERNAL_FIELDS, LAYOUT, ORDER, EncodingContext

_ROLES = ("user", "assistant", "system")
_CALL_FIELDS = ("type", "id", "name", "input")
_RESULT_FIELDS = ("type", "tool_use_id", "content", "is_error")


def decode_system(value: JSONValue) -> tuple[Message, ...]:
    """Convert the system prompt to a message. Return an empty tuple if there is no prompt."""
    parts = tuple(_decode_block(block, path) for block, path in _blocks(value, "system"))
    return (Message("system", parts),) if parts else ()


def decode_messages(values: JSONValue) -> tuple[Message, ...]:
    return tuple(_message(value, path) for value, path in objects_field(values, "messages"))


def _blocks(content: JSONValue, path: str) -> list[tuple[JSONValue, str]]:
    """Return the blocks of a `content` field with their paths. A non-empty string counts as one text block."""
    if isinstance(content, str):
        return [({"type": "text", "text": content}, path)] if content else []
    return [(block, f"{path}[{at}]") for at, block in enumerate(array_field(content, path))]


class _MessageBlocks(OrderedContent):
    """The blocks of one message, grouped into parts, calls and results."""

    def add(self, block: JSONValue, path: str) -> None:
        match block.get("type") if is_object(block) else "":
            case "tool_use":
                self._call(object_field(block, path), path)
            case "tool_result":
                self.add_result(_result(object_field(block, path), path))
            case kind:
                if kind == "thinking":
                    self.thoughts.append(text_field(object_field(block, path).get("thinking"), f"{path}.thinking"))
                self.add_part(_decode_block(block, path))

    def _call(self, block: JSONObject, path: str) -> None:
        name = name_field(block, path)
        rest = without(block, *_CALL_FIELDS)
        arguments = block.get("input")
        notes: tuple[Note, ...] = ()
        if not is_object(arguments):
            if arguments is not None:
                notes = invalid_arguments(arguments)
                rest["input"] = arguments
            arguments = {}
        self.add_call(ToolCall(name, arguments, text_field(block.get("id"), f"{path}.id"), notes), rest)


def _message(value: JSONObject, path: str) -> Message:
    role = text_field(value.get("role"), f"{path}.role")
    if role not in _ROLES:
        raise UsageError(f"invalid `{path}.role`: `{role}`", hint=f"use one of {', '.join(_ROLES)}")
    content = _MessageBlocks()
    for block, where in _blocks(value.get("content"), f"{path}.content"):
        content.add(block, where)
    extra = without(value, "role", "content", *INTERNAL_FIELDS)
    if role == "system":
        extra[INLINE] = True
    return content.message(role, extra, ORDER, CALL_EXTRAS)


def _result(block: JSONObject, path: str) -> ToolResult:
    texts: list[str] = []
    parts: list[Media | Opaque] = []
    layout: list[JSONValue] = []
    for inner, where in _blocks(block.get("content"), f"{path}.content"):
        part = _decode_block(inner, where)
        if isinstance(part, TextPart):
            texts.append(part.text)
            layout.append([len(part.text), part.extra] if part.extra else len(part.text))
        else:
            parts.append(part)
            layout.append(None)
    extra = without(block, *_RESULT_FIELDS, *INTERNAL_FIELDS)
    content = "".join(texts)
    if layout != _default_layout(content, parts):
        extra[LAYOUT] = layout
    error = bool_field(block.get("is_error"), f"{path}.is_error", False)
    identifier = text_field(block.get("tool_use_id"), f"{path}.tool_use_id")
    return ToolResult(identifier, content, error=error, parts=tuple(parts), extra=extra)


def _default_layout(content: str, parts: Sequence[Media | Opaque]) -> list[JSONValue]:
    """Return the layout of a result that consists of one text followed by its other parts."""
    return [*([len(content)] if content else []), *(None for _ in parts)]


def encode_messages(messages: Sequence[Message], context: EncodingContext) -> tuple[JSONValue, list[JSONObject]]:
    """Return the system prompt, or None, and the encoded messages."""
    encoded = [(message, _encode_blocks(message, context.for_message(message))) for message in messages]
    filled = [(message, blocks) for message, blocks in encoded if blocks]
    if len(filled) < len(encoded):
        context.note("empty_message_dropped", "a message was not sent because it has no content")
    first = next((at for at, (message, _) in enumerate(filled) if not _is_prompt(message, context)), len(filled))
    prompt = _prompt([block for _, blocks in filled[:first] for block in blocks], context)
    wire: list[JSONObject] = []
    after_results = False
    for message, blocks in filled[first:]:
        encoder = context.for_message(message)
        extra = encoder.extra(message.extra) if encoder.same_protocol else {}
        all_results = all(block["type"] == "tool_result" for block in blocks)
        only_results = message.role == "tool" or (message.role == "user" and all_results)
        if only_results and after_results and not extra:
            wire[-1]["content"] = [*_as_list(wire[-1]["content"]), *blocks]  # results of one turn go into one message
        else:
            wire.append({"role": _role(message, context), "content": _content(blocks), **extra})
        after_results = only_results
    return (_content(prompt) if prompt else None), wire


def _prompt(blocks: list[JSONObject], context: EncodingContext) -> list[JSONObject]:
    """Return only the text blocks of a system prompt; the service accepts no others."""
    texts = [block for block in blocks if context.native or block["type"] == "text"]
    if len(texts) < len(blocks):
        context.note("system_part_dropped", "a system prompt can contain only text")
    return texts


def _is_prompt(message: Message, context: EncodingContext) -> bool:
    is_inline = context.for_message(message).same_protocol and message.extra.get(INLINE)
    return message.role == "system" and not is_inline


def _role(message: Message, context: EncodingContext) -> str:
    if _is_prompt(message, context):
        # Only newer models accept system messages after other messages, and only in certain positions.
        context.note("system_as_user", "a system message after other messages was sent as a user message")
        return "user"
    return "user" if message.role == "tool" else message.role


def _content(blocks: list[JSONObject]) -> JSONValue:
    """Return a single plain text block as a string, and any other blocks as a list."""
    text = blocks[0].get("text")
    return text if blocks == [{"type": "text", "text": text}] else blocks


def _as_list(content: JSONValue) -> list[JSONValue]:
    return content if is_array(content) else [{"type": "text", "text": content}]


def _encode_blocks(message: Message, context: EncodingContext) -> list[JSONObject]:
    if message.reasoning and not any(isinstance(part, Opaque) and part.kind == "thinking" for part in message.parts):
        context.note("reasoning_dropped", "reasoning was not sent, because the service requires signed thinking")
    call_extras: JSONObject = message.extra.get(CALL_EXTRAS, {}) if context.same_protocol else {}
    by_kind: dict[str, list[JSONObject | None]] = {
        "r": [_encode_result(result, context) for result in message.results],
        "p": [_encode_part(part, context) for part in message.parts],
        "c": [_encode_call(call, call_extras.get(str(at), {}), context) for at, call in enumerate(message.calls)],
    }
    order = message.extra.get(ORDER) if context.same_protocol else None
    blocks = [block for block in in_order(by_kind, order) if block is not None]
    if blocks and not context.same_protocol:  # cache control applies to a block here, not to a message
        blocks[-1] = {**context.extra(message.extra), **blocks[-1]}
    return blocks


def _encode_call(call: ToolCall, extra: JSONObject, context: EncodingContext) -> JSONObject:
    arguments = extra["input"] if "input" in extra and not call.arguments else call.arguments
    wire = {"type": "tool_use", "id": context.id(call.id, "call"), "name": call.name, "input": arguments}
    return {**wire, **without(extra, "input")}


def _encode_result(result: ToolResult, context: EncodingContext) -> JSONObject:
    wire: JSONObject = {"type": "tool_result", "tool_use_id": context.id(result.id, "result")}
    blocks = _encode_layout(result, context)
    wire["content"] = _content(blocks) if blocks else ""
    if result.error:
        wire["is_error"] = True
    return {**wire, **context.extra(result.extra)}


def _encode_layout(result: ToolResult, context: EncodingContext) -> list[JSONObject]:
    recorded: JSONValue = result.extra.get(LAYOUT) if context.same_protocol else None
    layout: list[JSONValue] = recorded if _fits(recorded, result) else _default_layout(result.content, result.parts)
    parts = iter(result.parts)
    blocks: list[JSONObject] = []
    at = 0
    for entry in layout:
        if entry is None:
            block = _encode_part(next(parts), context)
        else:
            size, *extra = entry if is_array(entry) else [entry]
            block = _encode_part(TextPart(result.content[at : at + size], *extra), context)
            at += size
        if block is not None:
            blocks.append(block)
    return blocks


def _fits(layout: JSONValue, result: ToolResult) -> bool:
    """Whether a layout still matches its result, which may have been changed after decoding."""
    if not is_array(layout):
        return False
    sizes = [entry[0] if is_array(entry) else entry for entry in layout if entry is not None]
    return sum(sizes) == len(result.content) and len(layout) - len(sizes) == len(result.parts)


_KINDS: dict[str, Literal["image", "file"]] = {"image": "image", "document": "file"}
_TYPES = {kind: name for name, kind in _KINDS.items()}
_DATA, _BASE64 = "data:", ";base64,"
_PLAIN_TEXT = "text/plain"
#: Block type for each media type that the service accepts as inline data.
_BY_MEDIA_TYPE = {
    "image/gif": "image",
    "image/jpeg": "image",
    "image/png": "image",
    "image/webp": "image",
    "application/pdf": "document",
    _PLAIN_TEXT: "document",
}


def _decode_block(value: JSONValue, path: str) -> Part:
    """Decode a content block to text, media (with data or a URL) or an opaque part."""
    return part_field(value, path, _decode_other)


def _decode_other(block: JSONObject, kind: str, path: str) -> Part:
    source = block.get("source")
    url = _url(source) if kind in _KINDS and is_object(source) else ""
    return Media(_KINDS[kind], url, without(block, "type", "source")) if url else Opaque(kind, block)


def _url(source: JSONObject) -> str:
    """Return the URL of a source, or its data as a `data:` URL. Other sources, such as uploaded files, yield ""."""
    kind, data, media = source.get("type"), source.get("data"), source.get("media_type")
    match kind:
        case "url" if source.keys() == {"type", "url"} and isinstance(source["url"], str):
            return source["url"]
        case "base64" | "text" if source.keys() == {"type", "media_type", "data"}:
            if not isinstance(data, str) or not isinstance(media, str):
                return ""
            if kind == "base64":
                return f"{_DATA}{media}{_BASE64}{data}" if media != _PLAIN_TEXT else ""
            encoded = base64.b64encode(data.encode("utf-8", "replace")).decode()
            return f"{_DATA}{_PLAIN_TEXT}{_BASE64}{encoded}" if media == _PLAIN_TEXT else ""
        case _:
            return ""


def _encode_part(part: Part, context: EncodingContext) -> JSONObject | None:
    """Encode a part as a block. Return None if the protocol does not support it."""
    match part:
        case TextPart(text, extra):
            # The service rejects empty text blocks.
            return {"type": "text", "text": text, **context.extra(extra)} if text else None
        case Opaque(kind, data):
            if context.same_protocol and is_object(data) and data.get("type") in (kind, block_type(kind)):
                return dict(data)
            context.note("opaque_dropped", f"the Messages API does not support parts of kind `{kind}`")
            return None
        case _:
            return _media(part, context)


def _media(media: Media, context: EncodingContext) -> JSONObject | None:
    kind = _block_type(media, context)
    source = _source(media.url) if kind else None
    if source is None:
        context.note("media_dropped", f"the Messages API does not support this type of {media.kind}")
        return None
    return {"type": kind, "source": source, **context.extra(media.extra)}


def _block_type(media: Media, context: EncodingContext) -> str:
    """Return the block type for media, or "" if they cannot be sent. Inline data is classified by its media type."""
    if media.kind not in _TYPES or not (context.same_protocol or is_inline(media.url) or is_fetchable(media.url)):
        return ""
    if context.native or not is_inline(media.url):
        return _TYPES[media.kind]
    return _BY_MEDIA_TYPE.get(media.url.removeprefix(_DATA).partition(";")[0].lower(), "")


def _source(url: str) -> JSONObject | None:
    if not url.startswith(_DATA):
        return {"type": "url", "url": url}
    kind, separator, data = url.removeprefix(_DATA).partition(_BASE64)
    if not separator:
        return None
    if kind != _PLAIN_TEXT:
        return {"type": "base64", "media_type": kind, "data": data}
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return {"type": "text", "media_type": _PLAIN_TEXT, "data": text}
