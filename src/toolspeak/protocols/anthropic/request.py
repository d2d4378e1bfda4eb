"""Decode and encode requests.

`Options.extra` stores every field that `Options` lacks, such as `thinking`, `metadata`, `top_k` or `output_config`
(without its `format`). Three entries are internal: `tool_choice` and `output_config.format` store extra fields of these
objects; `output_format` records that the client used this legacy field.
"""

from collections.abc import Mapping

from ...core.types import JSONObject, JSONValue, Note, Options, Request, ResponseFormat, is_object
from ...errors import UsageError
from ..shared.dropped_fields import dropped_field_notes, sendable_choice
from ..shared.fields import filled, list_or_empty, object_or_empty, request_fields, to_wire, without
from ..shared.request_parts import add_own_fields, copy_extra_fields
from ..shared.resent_requests import ResentRequests
from ..shared.validation import array_field, bool_field, int_field, number_field, object_field, text_field, texts_field
from .encoding_state import CACHE_CONTROL, PROTOCOL, EncodingContext
from .messages import decode_messages, decode_system, encode_messages
from .tools import decode_choice, decode_tools, encode_tools, is_own

#: Default limit, because the service requires one. All models support it, and it suffices for typical files.
DEFAULT_MAX_TOKENS = 8192
#: Maximum number of cache breakpoints that the service accepts in a request.
MAX_CACHE_MARKS = 4

_MAX_TEMPERATURE = 1.0

_CONFIG, _FORMAT, _OLD_FORMAT, _CHOICE = "output_config", "format", "output_format", "tool_choice"
#: Internal `extra` field that stores extra fields of the response format.
_FORMAT_EXTRA = "output_config.format"
_REQUEST_FIELDS = (
    "model messages system tools tool_choice stream max_tokens temperature top_p stop_sequences output_format"
).split()

_INTERNAL_FIELDS = frozenset({_FORMAT_EXTRA, _OLD_FORMAT, _CHOICE})


def needs_store(request: Request) -> bool:
    """Whether a request continues a thread, whose earlier messages and tools are available only in a store.

    The tool runners of the SDKs start threads automatically and resend the whole conversation if a thread is not found.
    """
    extra = request.options.extra if request.protocol == PROTOCOL else {}
    return object_or_empty(extra.get("thread")).get("type") == "continue"


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """Decode the body of a message or `count_tokens` request. Raises UsageError, which names the invalid field."""
    fields = request_fields(body)
    listed = array_field(fields.get("messages"), "messages")
    if not listed:
        raise UsageError("`messages` must contain at least one message")
    choice, choice_extra = decode_choice(fields.get(_CHOICE))
    return Request(
        text_field(fields.get("model"), "model"),
        decode_system(fields.get("system")) + decode_messages(listed),
        decode_tools(fields.get("tools")),
        choice,
        bool_field(fields.get("stream"), "stream", False),
        _options(fields, choice_extra),
        PROTOCOL,
    )


decode_body = ResentRequests("messages", b'[{"role":"user"}]', decode_request, decode_messages, decode_tools).decode


def _options(fields: JSONObject, choice_extra: JSONObject) -> Options:
    extra = without(fields, *_REQUEST_FIELDS, _FORMAT_EXTRA)
    extra |= filled({_CHOICE: choice_extra})
    return Options(
        int_field(fields.get("max_tokens"), "max_tokens"),
        number_field(fields.get("temperature"), "temperature"),
        number_field(fields.get("top_p"), "top_p"),
        stop=texts_field(fields.get("stop_sequences"), "stop_sequences"),
        response_format=_format(fields, extra),
        extra=extra,
    )


def _format(fields: JSONObject, extra: JSONObject) -> ResponseFormat | None:
    """Return the response format. Add its extra fields, and formats of unknown types, to `extra`."""
    config = object_or_empty(fields.get(_CONFIG))
    old, raw = fields.get(_OLD_FORMAT), config.get(_FORMAT)
    path = f"{_CONFIG}.{_FORMAT}"
    if raw is None and old is not None:
        raw, path = old, _OLD_FORMAT
    if raw is None:
        return None
    form = object_field(raw, path)
    if form.get("type") != "json_schema":
        if path == _OLD_FORMAT:
            extra[_OLD_FORMAT] = form
        return None
    if path == _OLD_FORMAT:
        extra[_OLD_FORMAT] = True
    else:
        extra.pop(_CONFIG, None)
        extra |= filled({_CONFIG: without(config, _FORMAT)})
    extra |= filled({_FORMAT_EXTRA: without(form, "type", "schema")})
    return ResponseFormat(form.get("schema"))


def encode_request(request: Request) -> bytes:
    sendable_choice(request, PROTOCOL, is_own)
    return to_wire(_body(request)[0])


def request_notes(request: Request) -> tuple[Note, ...]:
    """Return notes about everything that `encode_request` drops or replaces."""
    return _body(request)[1]


def _body(request: Request) -> tuple[JSONObject, tuple[Note, ...]]:
    context = EncodingContext(request.protocol, (call.id for message in request.messages for call in message.calls))
    extra = request.options.extra if context.same_protocol else {}
    system, messages = encode_messages(request.messages, context)
    body: JSONObject = {"model": request.model, "max_tokens": _max_tokens(request.options, extra, context)}
    if system is not None:
        body["system"] = system
    body["messages"] = messages
    body |= encode_tools(request, extra.get(_CHOICE, {}), context)
    body |= _encode_options(request.options, context)
    if request.stream:
        body["stream"] = True
    copy_extra_fields(body, extra, _INTERNAL_FIELDS)
    _encode_format(request.options, extra, body, context)
    body = add_own_fields(body, request.options)
    _limit_cache_marks(body, context)
    for note in () if context.same_protocol else dropped_field_notes(request):
        context.note(note.code, note.detail)
    return body, context.notes


def _max_tokens(options: Options, extra: JSONObject, context: EncodingContext) -> int:
    if options.max_tokens is not None:
        return options.max_tokens
    budget = object_or_empty(extra.get("thinking")).get("budget_tokens")
    limit = DEFAULT_MAX_TOKENS + (budget if isinstance(budget, int) else 0)  # thinking counts toward the limit
    context.note("max_tokens_set", f"`max_tokens` was set to {limit}, because the service requires it")
    return limit


def _encode_options(options: Options, context: EncodingContext) -> JSONObject:
    fields: JSONObject = {}
    temperature = options.temperature
    if temperature is not None:
        if temperature > _MAX_TEMPERATURE and not context.native:
            context.note(
                "temperature_lowered", f"temperature {temperature:g} is above the maximum of {_MAX_TEMPERATURE:g}"
            )
            temperature = _MAX_TEMPERATURE
        fields["temperature"] = temperature
    if options.top_p is not None:
        fields["top_p"] = options.top_p
    stop = [text for text in options.stop if context.native or text.strip()]
    if len(stop) < len(options.stop):
        context.note("stop_dropped", "the service rejects stop sequences that contain only white space")
    if stop:
        fields["stop_sequences"] = stop
    if options.seed is not None:
        context.note("seed_dropped", "the Messages API does not support `seed`")
    if options.n != 1:
        context.note("n_dropped", "the Messages API returns only one answer")
    return fields


def _encode_format(options: Options, extra: JSONObject, body: JSONObject, context: EncodingContext) -> None:
    old = extra.get(_OLD_FORMAT)
    form = options.response_format
    if is_object(old):
        body[_OLD_FORMAT] = old
    if form is None:
        return
    if form.schema is None:
        context.note("response_format_dropped", "the Messages API requires a schema for a response format")
        return
    wire = {"type": "json_schema", "schema": form.schema, **extra.get(_FORMAT_EXTRA, {})}
    if old is True:
        body[_OLD_FORMAT] = wire
    else:
        body[_CONFIG] = {**object_or_empty(body.get(_CONFIG)), _FORMAT: wire}


def _limit_cache_marks(body: JSONObject, context: EncodingContext) -> None:
    """Remove the first cache breakpoints if there are too many; each one includes everything before it."""
    marked = [block for block in _cacheable(body) if block.get(CACHE_CONTROL) is not None]
    limit = MAX_CACHE_MARKS - (body.get(CACHE_CONTROL) is not None)
    if len(marked) > limit:
        context.note("cache_control_dropped", f"only the last {limit} of {len(marked)} cache breakpoints were sent")
    for block in marked[: max(0, len(marked) - limit)]:
        del block[CACHE_CONTROL]


def _cacheable(body: JSONObject) -> list[JSONObject]:
    """Return all blocks that can have a cache breakpoint, in the order in which the service reads them."""
    blocks: list[JSONValue] = [*list_or_empty(body.get("tools")), *list_or_empty(body.get("system"))]
    for message in body["messages"]:
        for block in list_or_empty(message["content"]):
            blocks += [*(list_or_empty(block.get("content")) if block["type"] == "tool_result" else ()), block]
    return [block for block in blocks if is_object(block)]
