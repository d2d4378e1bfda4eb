"""Responses requests: the body a client sends, to a `Request` and back to the body an upstream gets.

`Options.extra` keeps every field without a common name (`store`, `previous_response_id`, `include`, `reasoning`, ...)
and two words about the common ones: `text` (what it says besides the format) and `tool_choice` (where it says more
than our words do).
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core.types import (
    JSONObject,
    JSONValue,
    Media,
    Message,
    Note,
    Options,
    Part,
    Request,
    ResponseFormat,
    TextPart,
    Tool,
    ToolChoice,
    is_object,
)
from ...errors import UsageError
from ..shared.dropped_fields import foreign_notes, lost_media, sendable_choice
from ..shared.fields import (
    ROUTING_FIELDS,
    bool_field,
    int_field,
    number_field,
    object_field,
    request_fields,
    text_field,
    to_wire,
    with_own,
    without,
)
from .items import INSTRUCTIONS, decode_input, encode_items
from .parts import PROTOCOL, is_item
from .tools import Names, decode_choice, decode_tools, encode_choice, encode_tools, is_own

#: A schema must have a name on the wire.
_FORMAT_NAME = "reply"
_KNOWN = (
    "model input instructions tools tool_choice parallel_tool_calls stream max_output_tokens temperature top_p text"
).split()
#: Fields that stand for input which the upstream has.
_REFERENCES = ("previous_response_id", "conversation")
#: Words in `extra` that are written with the common fields, and one that may only stand beside `stream`.
_MARKS = frozenset({"text", "tool_choice", "stream_options"})


def needs_store(request: Request) -> bool:
    """Whether a request means something that only a store of earlier responses can tell or keep."""
    if request.protocol != PROTOCOL:
        return False
    extra = request.options.extra
    if extra.get("background") is True or any(extra.get(name) is not None for name in _REFERENCES):
        return True
    return any(is_item(part, "item_reference") for message in request.messages for part in message.parts)


# ------------------------------------------------------------------------------------------------ from the wire


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """The request that a body means.

    Raises:
        UsageError: the body is no such request; the message names the field.
    """
    fields = request_fields(body)
    said = decode_input(fields.get("input"))
    if not said and not any(fields.get(name) for name in (*_REFERENCES, "prompt")):
        raise UsageError("`input` must hold at least one item")
    tools = decode_tools(fields.get("tools"))
    choice = decode_choice(fields.get("tool_choice"), fields.get("parallel_tool_calls"), tools)
    return Request(
        text_field(fields.get("model"), "model"),
        _instructions(fields.get("instructions")) + said,
        tools,
        choice,
        bool_field(fields.get("stream"), "stream", False),
        _options(fields, choice, tools),
        PROTOCOL,
    )


def _instructions(value: JSONValue) -> tuple[Message, ...]:
    text = text_field(value, "instructions")
    return (Message("system", (TextPart(text),), extra={INSTRUCTIONS: True}),) if text else ()


def _options(fields: JSONObject, choice: ToolChoice, tools: tuple[Tool, ...]) -> Options:
    extra = without(fields, *_KNOWN)
    form, rest = _text(fields.get("text"))
    if rest:
        extra["text"] = rest
    chosen = fields.get("tool_choice")
    if is_object(chosen) and chosen != encode_choice(choice, Names(tools)):
        extra["tool_choice"] = chosen
    return Options(
        int_field(fields.get("max_output_tokens"), "max_output_tokens"),
        number_field(fields.get("temperature"), "temperature"),
        number_field(fields.get("top_p"), "top_p"),
        response_format=form,
        extra=extra,
    )


def _text(value: JSONValue) -> tuple[ResponseFormat | None, JSONObject]:
    """The format, and what `text` says besides; a type that we do not know is kept whole."""
    if value is None:
        return None, {}
    text = object_field(value, "text")
    rest = without(text, "format")
    if text.get("format") is None:
        return None, rest
    form, beside = _format(object_field(text["format"], "text.format"))
    if beside:
        rest["format"] = beside
    return form, rest


def _format(form: JSONObject) -> tuple[ResponseFormat | None, JSONObject]:
    match form.get("type"):
        case "text":
            return None, {}
        case "json_object":
            return ResponseFormat(), without(form, "type")
        case "json_schema":
            path = "text.format"
            strict = None if form.get("strict") is None else bool_field(form["strict"], f"{path}.strict", False)
            name = text_field(form.get("name"), f"{path}.name") or _FORMAT_NAME
            return ResponseFormat(form.get("schema"), name, strict), without(form, "type", "schema", "name", "strict")
        case _:
            return None, form


# -------------------------------------------------------------------------------------------------- to the wire


def encode_request(request: Request) -> bytes:
    """The body to send upstream."""
    ours = request.protocol in (PROTOCOL, "")
    extra = request.options.extra if ours else {}
    instructions, messages = _split(request)
    body: JSONObject = {"model": request.model}
    if instructions:
        body["instructions"] = instructions
    body["input"] = encode_items(messages, request)
    body |= encode_settings(request)
    if request.protocol != PROTOCOL and "store" not in request.options.own:  # nobody asked that it be kept
        body["store"] = False
    body |= {key: value for key, value in extra.items() if key not in ROUTING_FIELDS and key not in _MARKS}
    if request.stream:
        body["stream"] = True
        if extra.get("stream_options") is not None:
            body["stream_options"] = extra["stream_options"]
    return to_wire(with_own(body, request.options))


def request_notes(request: Request) -> tuple[Note, ...]:
    """What `encode_request` cannot send as it is."""
    notes = foreign_notes(request, PROTOCOL, is_own) + lost_media(request, "audio", "video")
    if any(_shown_by_model(message, request) for message in request.messages):
        notes.append(Note("media_dropped", "only users show pictures and files"))
    if any(message.reasoning and not any(map(_is_thought, message.parts)) for message in request.messages):
        notes.append(Note("reasoning_dropped", "what a model thought is sent only in an item of its own"))
    if request.tool_choice.demands and not encode_tools(request.tools, request.protocol):
        notes.append(Note("choice_not_sent", "a choice may only stand beside tools, and there are none"))
    options = request.options
    unsaid = {"stop": bool(options.stop), "seed": options.seed is not None, "n": options.n != 1}
    notes += [Note(f"{name}_dropped", f"this protocol has no `{name}`") for name, given in unsaid.items() if given]
    return tuple(notes)


def _is_thought(part: Part) -> bool:
    return is_item(part, "reasoning")


def _shown_by_model(message: Message, request: Request) -> bool:
    elsewhere = message.role == "assistant" and (message.protocol or request.protocol) != PROTOCOL
    return elsewhere and any(isinstance(part, Media) for part in message.parts)


def _split(request: Request) -> tuple[str, tuple[Message, ...]]:
    """What stands in `instructions`, and the other messages; the first words of another protocol's system do."""
    if not request.messages:
        return "", ()
    first, *others = request.messages
    foreign = request.protocol not in (PROTOCOL, "")
    marked = first.role == "system" and (foreign or INSTRUCTIONS in first.extra)
    if marked and first.text and all(isinstance(part, TextPart) for part in first.parts):
        return first.text, tuple(others)
    return "", request.messages


def encode_settings(request: Request) -> JSONObject:
    """What a request says besides its input, as far as a response repeats it."""
    options = request.options
    extra = options.extra if request.protocol in (PROTOCOL, "") else {}
    fields: JSONObject = {}
    choice = sendable_choice(request, PROTOCOL, is_own)
    tools = encode_tools(request.tools, request.protocol)
    if tools:
        fields["tools"] = tools
        chosen = _chosen(choice, request.tools, extra.get("tool_choice"))
        if chosen != "auto":
            fields["tool_choice"] = chosen
        if not choice.parallel:
            fields["parallel_tool_calls"] = False
    numbers = {
        "max_output_tokens": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
    }
    fields |= {name: value for name, value in numbers.items() if value is not None}
    text = _encode_text(options.response_format, extra.get("text", {}))
    return fields | {"text": text} if text else fields


def _chosen(choice: ToolChoice, tools: tuple[Tool, ...], said: JSONValue) -> JSONValue:
    """The choice; as the client said it, if that is still what is wanted."""
    if is_object(said) and decode_choice(said, choice.parallel, tools) == choice:
        return said
    return encode_choice(choice, Names(tools))


def _encode_text(form: ResponseFormat | None, beside: JSONObject) -> JSONObject:
    if form is None:
        return beside
    rest = beside.get("format", {})
    if form.schema is None:  # here, and only here, a schema that has a name must be there as well
        return {**beside, "format": {"type": "json_object", **rest}}
    wire: JSONObject = {"type": "json_schema", "name": form.name or _FORMAT_NAME, "schema": form.schema}
    if form.strict is not None:
        wire["strict"] = form.strict
    return {**beside, "format": {**wire, **rest}}
