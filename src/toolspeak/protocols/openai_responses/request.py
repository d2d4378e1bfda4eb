"""Decode and encode Responses API requests.

`Options.extra` stores every field that `Options` lacks, such as `store`, `previous_response_id` or `reasoning`, all
fields of `text` except the format, and a `tool_choice` with details that `ToolChoice` cannot express.
"""

from collections.abc import Mapping

from ...core.parsing.tool_index import toolkit
from ...core.types import (
    JSONObject,
    JSONValue,
    Media,
    Message,
    Note,
    Options,
    Request,
    ResponseFormat,
    TextPart,
    Tool,
    ToolChoice,
    is_object,
)
from ...errors import UsageError
from ..shared.dropped_fields import dropped_media_notes, foreign_notes, sendable_choice
from ..shared.fields import ROUTING_FIELDS, filled, request_fields, to_wire, without
from ..shared.request_parts import FORMAT_NAME, add_own_fields, format_field, option_fields, options_field
from ..shared.resent_values import ResentRequests
from ..shared.validation import bool_field, object_field, text_field
from .items import INSTRUCTIONS, PROTOCOL, decode_input, encode_items, is_item, split_input
from .tools import decode_choice, decode_tools, encode_choice, encode_tools, is_own, own_tools, tool_names

_OPTION_FIELDS = ("max_output_tokens", "temperature", "top_p")
_REQUEST_FIELDS = (
    "model input instructions tools tool_choice parallel_tool_calls stream max_output_tokens temperature top_p text"
).split()
#: Fields that refer to stored input.
_REFERENCES = ("previous_response_id", "conversation")
#: Entries of `Options.extra` that are encoded separately; `stream_options` also needs `stream`.
_NOT_COPIED = frozenset({"text", "tool_choice", "stream_options"})


def needs_store(request: Request) -> bool:
    """Whether a request refers to stored responses or asks to run in the background."""
    if request.protocol != PROTOCOL:
        return False
    extra = request.options.extra
    if extra.get("background") is True or any(extra.get(name) is not None for name in _REFERENCES):
        return True
    return any(is_item(part, "item_reference") for message in request.messages for part in message.parts)


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """Decode a request body. Raises UsageError, which names the invalid field."""
    fields = request_fields(body)
    messages = decode_input(fields.get("input"))
    if not messages and not any(fields.get(name) for name in (*_REFERENCES, "prompt")):
        raise UsageError("`input` must contain at least one item")
    tools = decode_tools(fields.get("tools"))
    choice = decode_choice(fields.get("tool_choice"), fields.get("parallel_tool_calls"), tools)
    model = text_field(fields.get("model"), "model")
    if instructions := text_field(fields.get("instructions"), "instructions"):
        messages = (Message("system", (TextPart(instructions),), extra={INSTRUCTIONS: True}), *messages)
    return Request(
        model,
        messages,
        tools,
        choice,
        bool_field(fields.get("stream"), "stream", False),
        _options(fields, choice, tools),
        PROTOCOL,
    )


decode_body = ResentRequests("input", b'"."', decode_request, decode_input, decode_tools, split_input).decode


def _options(fields: JSONObject, choice: ToolChoice, tools: tuple[Tool, ...]) -> Options:
    form, rest = _text(fields.get("text"))
    extra = without(fields, *_REQUEST_FIELDS) | filled({"text": rest})
    choice_field = fields.get("tool_choice")
    if is_object(choice_field) and choice_field != encode_choice(choice, tool_names(tools)):
        extra["tool_choice"] = choice_field
    return options_field(fields, _OPTION_FIELDS, form, extra)


def _text(value: JSONValue) -> tuple[ResponseFormat | None, JSONObject]:
    """Return the response format and the other fields of `text`, including a format of an unknown type."""
    if value is None:
        return None, {}
    text = object_field(value, "text")
    rest = without(text, "format")
    if text.get("format") is None:
        return None, rest
    form, format_extra = format_field(object_field(text["format"], "text.format"), "text.format", nested=False)
    return form, rest | filled({"format": format_extra})


def encode_request(request: Request) -> bytes:
    same_protocol = request.protocol in (PROTOCOL, "")
    extra = request.options.extra if same_protocol else {}
    instructions, messages = _split_instructions(request)
    body: JSONObject = {"model": request.model, **filled({"instructions": instructions})}
    body["input"] = encode_items(messages, request)
    body |= encode_settings(request)
    if request.protocol != PROTOCOL and "store" not in request.options.own:  # do not store unless asked to
        body["store"] = False
    body |= {key: value for key, value in extra.items() if key not in ROUTING_FIELDS and key not in _NOT_COPIED}
    if request.stream:
        body["stream"] = True
        if extra.get("stream_options") is not None:
            body["stream_options"] = extra["stream_options"]
    return to_wire(add_own_fields(body, request.options))


def request_notes(request: Request) -> tuple[Note, ...]:
    """Return notes about everything that `encode_request` drops or replaces."""
    notes = foreign_notes(request, PROTOCOL, is_own) + dropped_media_notes(request, "audio", "video")
    foreign = (message for message in request.messages if (message.protocol or request.protocol) != PROTOCOL)
    by_model = (part for message in foreign if message.role == "assistant" for part in message.parts)
    if any(isinstance(part, Media) for part in by_model):
        notes.append(Note("media_dropped", "only user messages can contain images and files"))
    reasoned = (message.parts for message in request.messages if message.reasoning)
    if any(not any(is_item(part, "reasoning") for part in parts) for parts in reasoned):
        notes.append(Note("reasoning_dropped", "reasoning can be sent only as a reasoning item from an upstream"))
    if request.tool_choice.demands and not encode_tools(request.tools, request.protocol):
        notes.append(Note("choice_not_sent", "the tool choice was not sent because the request has no tools"))
    options = request.options
    unsupported = {"stop": bool(options.stop), "seed": options.seed is not None, "n": options.n != 1}
    notes += [
        Note(f"{name}_dropped", f"the Responses API has no `{name}`") for name, is_set in unsupported.items() if is_set
    ]
    return tuple(notes)


def _split_instructions(request: Request) -> tuple[str, tuple[Message, ...]]:
    """Return `instructions` and the other messages. For other protocols, use the first system message."""
    if not request.messages:
        return "", ()
    first, *others = request.messages
    foreign = request.protocol not in (PROTOCOL, "")
    is_instructions = first.role == "system" and (foreign or INSTRUCTIONS in first.extra)
    if is_instructions and first.text and all(isinstance(part, TextPart) for part in first.parts):
        return first.text, tuple(others)
    return "", request.messages


def encode_settings(request: Request) -> JSONObject:
    """Encode the fields, other than the input, that a response repeats."""
    options = request.options
    extra = options.extra if request.protocol in (PROTOCOL, "") else {}
    fields: JSONObject = {}
    choice = sendable_choice(request, PROTOCOL, is_own)
    if request.tools and request.protocol == PROTOCOL:
        tools = toolkit(request.tools).derive_from_all(own_tools)
    else:
        tools = encode_tools(request.tools, request.protocol)
    if tools:
        fields["tools"] = tools
        choice_field = extra.get("tool_choice")  # the client's original version, if it still has the same meaning
        if not is_object(choice_field) or decode_choice(choice_field, choice.parallel, request.tools) != choice:
            choice_field = encode_choice(choice, tool_names(request.tools))
        if choice_field != "auto":
            fields["tool_choice"] = choice_field
        if not choice.parallel:
            fields["parallel_tool_calls"] = False
    fields |= option_fields(options, _OPTION_FIELDS)
    return fields | filled({"text": _encode_text(options.response_format, extra.get("text", {}))})


def _encode_text(form: ResponseFormat | None, extra: JSONObject) -> JSONObject:
    rest = extra.get("format", {})
    if form is None:  # without a type, `rest` belongs to a format that is not sent
        return extra if "type" in rest else without(extra, "format")
    if form.schema is None:  # unlike others, this protocol has no named format without a schema
        return {**extra, "format": {"type": "json_object", **rest}}
    wire: JSONObject = {"type": "json_schema", "name": form.name or FORMAT_NAME, "schema": form.schema}
    if form.strict is not None:
        wire["strict"] = form.strict
    return {**extra, "format": {**wire, **rest}}
