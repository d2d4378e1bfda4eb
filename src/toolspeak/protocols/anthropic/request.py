"""Requests of the Messages API: the body a client sends, to a `Request` and back to the body an upstream gets.

`Options.extra` keeps every field without a common name, as `thinking`, `metadata`, `top_k` or `output_config` (less
its `format`), and three words of ours: `tool_choice` and `output_config.format` (what these say besides) and
`output_format` (the client used that older word).
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core.types import JSONObject, JSONValue, Note, Options, Request, ResponseFormat, is_array, is_object
from ...errors import UsageError
from ..shared.dropped_fields import lost_fields, sendable_choice
from ..shared.fields import (
    ROUTING_FIELDS,
    array_field,
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
from .messages import decode_messages, decode_system, encode_messages
from .tools import decode_choice, decode_tools, encode_tools, is_own
from .wire import CACHE_CONTROL, PROTOCOL, Sending

#: The service insists on a limit; this much every model can write, and it holds a file of ordinary length.
DEFAULT_MAX_TOKENS = 8192
#: The service refuses a request with more places up to which to cache.
MAX_CACHE_MARKS = 4
#: The service refuses more.
_MAX_TEMPERATURE = 1.0

_CONFIG, _FORMAT, _OLD_FORMAT, _CHOICE = "output_config", "format", "output_format", "tool_choice"
#: The word in `extra` for what a format says besides its schema.
_BESIDE = "output_config.format"
_KNOWN = (
    "model messages system tools tool_choice stream max_tokens temperature top_p stop_sequences output_format"
).split()
#: Words in `extra` that are ours.
_MARKS = frozenset({_BESIDE, _OLD_FORMAT, _CHOICE})


def needs_store(request: Request) -> bool:
    """Whether a request goes on with a thread, so that only a store can tell its tools and what was said before.

    The SDKs' tool runners begin a thread unasked; one that is not found they begin anew, with the whole conversation.
    """
    thread = request.options.extra.get("thread") if request.protocol == PROTOCOL else None
    return is_object(thread) and thread.get("type") == "continue"


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """The request that a body means; that of `count_tokens` is one as well.

    Raises:
        UsageError: the body is no such request; the message names the field.
    """
    fields = request_fields(body)
    listed = array_field(fields.get("messages"), "messages")
    if not listed:
        raise UsageError("`messages` must hold at least one message")
    choice, beside = decode_choice(fields.get(_CHOICE))
    return Request(
        text_field(fields.get("model"), "model"),
        decode_system(fields.get("system")) + decode_messages(listed),
        decode_tools(fields.get("tools")),
        choice,
        bool_field(fields.get("stream"), "stream", False),
        _options(fields, beside),
        PROTOCOL,
    )


def _options(fields: JSONObject, choice: JSONObject) -> Options:
    extra = without(fields, *_KNOWN, _BESIDE)
    if choice:
        extra[_CHOICE] = choice
    stop = array_field(fields.get("stop_sequences"), "stop_sequences")
    return Options(
        int_field(fields.get("max_tokens"), "max_tokens"),
        number_field(fields.get("temperature"), "temperature"),
        number_field(fields.get("top_p"), "top_p"),
        stop=tuple(text_field(item, f"stop_sequences[{at}]") for at, item in enumerate(stop)),
        response_format=_format(fields, extra),
        extra=extra,
    )


def _format(fields: JSONObject, extra: JSONObject) -> ResponseFormat | None:
    """The format asked for; what else is said about it goes to `extra`. A type that we do not know is kept whole."""
    found = fields.get(_CONFIG)
    config: JSONObject = found if is_object(found) else {}
    old = fields.get(_OLD_FORMAT)
    given = config.get(_FORMAT)
    path = f"{_CONFIG}.{_FORMAT}"
    if given is None and old is not None:
        given, path = old, _OLD_FORMAT
    if given is None:
        return None
    form = object_field(given, path)
    if form.get("type") != "json_schema":
        if path == _OLD_FORMAT:
            extra[_OLD_FORMAT] = form
        return None
    if path == _OLD_FORMAT:
        extra[_OLD_FORMAT] = True
    else:
        extra[_CONFIG] = without(config, _FORMAT)
        if not extra[_CONFIG]:
            del extra[_CONFIG]
    beside = without(form, "type", "schema")
    if beside:
        extra[_BESIDE] = beside
    return ResponseFormat(form.get("schema"))


# -------------------------------------------------------------------------------------------------- to the wire


def encode_request(request: Request) -> bytes:
    """The body to send upstream."""
    sendable_choice(request, PROTOCOL, is_own)
    return to_wire(_body(request)[0])


def request_notes(request: Request) -> tuple[Note, ...]:
    """What `encode_request` cannot send as it is, and what it puts in its place."""
    return _body(request)[1]


def _body(request: Request) -> tuple[JSONObject, tuple[Note, ...]]:
    sending = Sending(request.protocol, (call.id for message in request.messages for call in message.calls))
    extra = request.options.extra if sending.ours else {}
    system, messages = encode_messages(request.messages, sending)
    body: JSONObject = {"model": request.model, "max_tokens": _max_tokens(request.options, extra, sending)}
    if system is not None:
        body["system"] = system
    body["messages"] = messages
    body |= encode_tools(request, extra.get(_CHOICE, {}), sending)
    body |= _encode_options(request.options, sending)
    if request.stream:
        body["stream"] = True
    for key, value in extra.items():
        if key not in body and key not in ROUTING_FIELDS and key not in _MARKS:
            body[key] = value
    _encode_format(request.options, extra, body, sending)
    body = with_own(body, request.options)
    _limit_marks(body, sending)
    for note in () if sending.ours else lost_fields(request):
        sending.note(note.code, note.detail)
    return body, sending.notes


def _max_tokens(options: Options, extra: JSONObject, sending: Sending) -> int:
    if options.max_tokens is not None:
        return options.max_tokens
    thinking = extra.get("thinking")
    budget = thinking.get("budget_tokens") if is_object(thinking) else None
    limit = DEFAULT_MAX_TOKENS + (budget if isinstance(budget, int) else 0)  # thinking counts toward the limit
    sending.note("max_tokens_set", f"no limit was given, and one is needed: {limit} tokens")
    return limit


def _encode_options(options: Options, sending: Sending) -> JSONObject:
    fields: JSONObject = {}
    temperature = options.temperature
    if temperature is not None:
        if temperature > _MAX_TEMPERATURE and not sending.native:
            sending.note("temperature_lowered", f"{temperature:g} is above {_MAX_TEMPERATURE:g}")
            temperature = _MAX_TEMPERATURE
        fields["temperature"] = temperature
    if options.top_p is not None:
        fields["top_p"] = options.top_p
    stop = [text for text in options.stop if sending.native or text.strip()]
    if len(stop) < len(options.stop):
        sending.note("stop_dropped", "a stop sequence of nothing but white space is refused")
    if stop:
        fields["stop_sequences"] = stop
    if options.seed is not None:
        sending.note("seed_dropped", "this protocol has no seed")
    if options.n != 1:
        sending.note("n_dropped", "this protocol gives one answer")
    return fields


def _encode_format(options: Options, extra: JSONObject, body: JSONObject, sending: Sending) -> None:
    old = extra.get(_OLD_FORMAT)
    form = options.response_format
    if is_object(old):
        body[_OLD_FORMAT] = old
    if form is None:
        return
    if form.schema is None:
        sending.note("response_format_dropped", "this protocol takes a schema, not JSON of any shape")
        return
    wire = {"type": "json_schema", "schema": form.schema, **extra.get(_BESIDE, {})}
    if old is True:
        body[_OLD_FORMAT] = wire
    else:
        config: JSONValue = body.get(_CONFIG)
        body[_CONFIG] = {**(config if is_object(config) else {}), _FORMAT: wire}


def _limit_marks(body: JSONObject, sending: Sending) -> None:
    """Of too many places up to which to cache the last are kept: what lies before them is cached with them."""
    marked = [block for block in _marked(body) if block.get(CACHE_CONTROL) is not None]
    most = MAX_CACHE_MARKS - (body.get(CACHE_CONTROL) is not None)
    if len(marked) > most:
        sending.note("cache_control_dropped", f"{len(marked)} marks, and the service takes {most}")
    for block in marked[: max(0, len(marked) - most)]:
        del block[CACHE_CONTROL]


def _marked(body: JSONObject) -> list[JSONObject]:
    """Everything that may carry a mark, in the order in which the service reads it."""
    blocks: list[JSONValue] = [*_list(body.get("tools")), *_list(body.get("system"))]
    for message in body["messages"]:
        for block in _list(message["content"]):
            blocks += [*(_list(block.get("content")) if block["type"] == "tool_result" else ()), block]
    return [block for block in blocks if is_object(block)]


def _list(value: JSONValue) -> list[JSONValue]:
    return value if is_array(value) else []
