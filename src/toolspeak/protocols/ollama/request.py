"""Requests to Ollama's chat: the body a client sends, to a `Request` and back to the body an upstream gets.

A request streams unless it says otherwise. `Options.extra` keeps every field without a common name: those of the body
under their names, those of `options` in an object of this name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...core.types import BESIDE, JSONObject, JSONValue, Media, Note, Options, Request, ResponseFormat, Tool, is_object
from ..shared.dropped_fields import FUNCTIONS, all_parts, foreign_notes, sendable_choice
from ..shared.fields import (
    ROUTING_FIELDS,
    array_field,
    bool_field,
    declared_tools,
    int_field,
    number_field,
    object_field,
    request_fields,
    text_field,
    to_wire,
    with_own,
    without,
)
from ..shared.tools_cache import kept_tools
from .messages import PROTOCOL, decode_messages, encode_images, encode_messages

_KNOWN = ("model", "messages", "tools", "stream", "format", "options")
_OPTIONS = ("num_predict", "temperature", "top_p", "seed", "stop")


# ------------------------------------------------------------------------------------------------ from the wire


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """The request that a body means. One without messages asks to load the model.

    Raises:
        UsageError: the body is no such request; the message names the field.
    """
    fields = request_fields(body)
    return Request(
        text_field(fields.get("model"), "model"),
        decode_messages(array_field(fields.get("messages"), "messages")),
        _tools(fields.get("tools")),
        stream=bool_field(fields.get("stream"), "stream", True),
        options=_decode_options(fields),
        protocol=PROTOCOL,
    )


@kept_tools
def _tools(value: JSONValue) -> tuple[Tool, ...]:
    return tuple(tool for _, tools in declared_tools(value) for tool in tools)


def _decode_options(fields: JSONObject) -> Options:
    given = fields.get("options")
    options = {} if given is None else object_field(given, "options")
    extra = {key: value for key, value in without(fields, *_KNOWN).items() if value is not None}
    rest = {key: value for key, value in without(options, *_OPTIONS).items() if value is not None}
    limit = int_field(options.get("num_predict"), "options.num_predict")
    if limit is not None and limit < 0:  # without end, or as much as fits
        rest["num_predict"] = limit
        limit = None
    if rest:
        extra["options"] = rest
    return Options(
        limit,
        number_field(options.get("temperature"), "options.temperature"),
        number_field(options.get("top_p"), "options.top_p"),
        int_field(options.get("seed"), "options.seed"),
        _stop(options.get("stop")),
        response_format=_response_format(fields.get("format")),
        extra=extra,
    )


def _stop(value: JSONValue) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else array_field(value, "options.stop")
    return tuple(text_field(item, f"options.stop[{at}]") for at, item in enumerate(listed))


def _response_format(value: JSONValue) -> ResponseFormat | None:
    if value is None or value == "":
        return None
    if value == "json":
        return ResponseFormat()
    return ResponseFormat(object_field(value, "format"))


# -------------------------------------------------------------------------------------------------- to the wire


def encode_request(request: Request) -> bytes:
    """The body to send upstream."""
    sendable_choice(request, PROTOCOL)
    ours = request.protocol in (PROTOCOL, "")
    extra = request.options.extra if ours else {}
    body: JSONObject = {
        "model": request.model,
        "messages": encode_messages(request),
        "stream": request.stream,
    }
    # There is no word for a choice; what may not be called is not shown.
    if request.tool_choice.mode != "none":
        tools = [_encode_tool(tool, ours) for tool in request.tools if ours or tool.kind in FUNCTIONS]
        body |= {"tools": tools} if tools else {}
    form = request.options.response_format
    if form is not None:
        body["format"] = "json" if form.schema is None else form.schema
    given = extra.get("options")
    options: JSONObject = {**(given if is_object(given) else {})}
    options |= {name: value for name, read in _PLAIN.items() if (value := read(request.options)) is not None}
    if options:
        body["options"] = options
    for key, value in extra.items():
        if key not in body and key not in ROUTING_FIELDS and key not in _KNOWN:
            body[key] = value
    return to_wire(with_own(body, request.options))


def request_notes(request: Request) -> tuple[Note, ...]:
    """What `encode_request` cannot send as it is, and what it puts in its place."""
    notes = foreign_notes(request, PROTOCOL)
    choice = request.tool_choice
    if request.tools and choice.mode != "none" and (choice.demands or choice.allowed or not choice.parallel):
        notes.append(Note("choice_not_sent", "there is no word for a choice of tools"))
    media = [part for part in all_parts(request) if isinstance(part, Media)]
    if len(encode_images(media)) < len(media):
        notes.append(Note("media_dropped", "only pictures that are sent along can be sent"))
    if request.options.n > 1:
        notes.append(Note("answers_dropped", "only one answer is asked for"))
    return tuple(notes)


_PLAIN: dict[str, Callable[[Options], JSONValue]] = {
    "num_predict": lambda options: options.max_tokens,
    "temperature": lambda options: options.temperature,
    "top_p": lambda options: options.top_p,
    "seed": lambda options: options.seed,
    "stop": lambda options: list(options.stop) or None,
}


def _encode_tool(tool: Tool, ours: bool) -> JSONObject:
    extra = tool.extra if ours else {}
    if tool.kind not in FUNCTIONS:
        return extra
    function: JSONObject = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    beside = extra.get(BESIDE)
    wire: JSONObject = {"type": "function", "function": {**function, **without(extra, BESIDE)}}
    return {**wire, **beside} if is_object(beside) else wire
