"""Decode and encode requests to Ollama's chat API.

Streaming is the default. `Options.extra` stores every field that `Options` lacks: top-level fields under their own
names, fields of `options` in an object with this name.
"""

from collections.abc import Mapping

from ...core.types import SIBLING_FIELDS, JSONObject, JSONValue, Media, Note, Options, Request, ResponseFormat, Tool
from ..shared.dropped_fields import COMMON_TOOL_KINDS, all_parts, foreign_notes, sendable_choice
from ..shared.fields import filled, object_or_empty, request_fields, to_wire, without
from ..shared.request_parts import add_own_fields, copy_extra_fields, declared_tools, option_fields
from ..shared.resent_requests import ResentRequests
from ..shared.tools_cache import cached_tools
from ..shared.unstreamed_calls import only_own_ids
from ..shared.validation import array_field, bool_field, int_field, number_field, object_field, text_field, texts_field
from .messages import PROTOCOL, decode_messages, encode_images, encode_messages

_REQUEST_FIELDS = ("model", "messages", "tools", "stream", "format", "options")
_COMMON_OPTIONS = ("num_predict", "temperature", "top_p", "seed", "stop")


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """Decode a body. Without messages, it only loads the model. Raises UsageError, which names the invalid field."""
    fields = request_fields(body)
    return Request(
        text_field(fields.get("model"), "model"),
        decode_messages(array_field(fields.get("messages"), "messages")),
        _tools(fields.get("tools")),
        stream=bool_field(fields.get("stream"), "stream", True),
        options=_decode_options(fields),
        protocol=PROTOCOL,
    )


@cached_tools
def _tools(value: JSONValue) -> tuple[Tool, ...]:
    return tuple(tool for _, tools in declared_tools(value) for tool in tools)


_bodies = ResentRequests("messages", b'[{"role":"user"}]', decode_request, decode_messages, _tools)


def decode_body(body: bytes) -> Request | None:
    return only_own_ids(_bodies.decode(body))


def _decode_options(fields: JSONObject) -> Options:
    raw = fields.get("options")
    options = {} if raw is None else object_field(raw, "options")
    extra = {key: value for key, value in without(fields, *_REQUEST_FIELDS).items() if value is not None}
    rest = {key: value for key, value in without(options, *_COMMON_OPTIONS).items() if value is not None}
    limit = int_field(options.get("num_predict"), "options.num_predict")
    if limit is not None and limit < 0:  # -1: unlimited; -2: fill the context
        rest["num_predict"] = limit
        limit = None
    extra |= filled({"options": rest})
    stop = options.get("stop")
    return Options(
        limit,
        number_field(options.get("temperature"), "options.temperature"),
        number_field(options.get("top_p"), "options.top_p"),
        int_field(options.get("seed"), "options.seed"),
        texts_field([stop] if isinstance(stop, str) else stop, "options.stop"),
        response_format=_response_format(fields.get("format")),
        extra=extra,
    )


def _response_format(value: JSONValue) -> ResponseFormat | None:
    if value is None or value == "":
        return None
    if value == "json":
        return ResponseFormat()
    return ResponseFormat(object_field(value, "format"))


def encode_request(request: Request) -> bytes:
    sendable_choice(request, PROTOCOL)
    same_protocol = request.protocol in (PROTOCOL, "")
    extra = request.options.extra if same_protocol else {}
    body: JSONObject = {"model": request.model, "messages": encode_messages(request), "stream": request.stream}
    # Ollama has no tool choice, so `none` is expressed by sending no tools.
    if request.tool_choice.mode != "none":
        sendable = (tool for tool in request.tools if same_protocol or tool.kind in COMMON_TOOL_KINDS)
        body |= filled({"tools": [_encode_tool(tool, same_protocol) for tool in sendable]})
    form = request.options.response_format
    if form is not None:
        body["format"] = "json" if form.schema is None else form.schema
    options = dict(object_or_empty(extra.get("options")))
    options |= option_fields(request.options, _COMMON_OPTIONS)
    body |= filled({"options": options})
    copy_extra_fields(body, extra, _REQUEST_FIELDS)
    return to_wire(add_own_fields(body, request.options))


def request_notes(request: Request) -> tuple[Note, ...]:
    """Return notes about everything that `encode_request` drops or replaces."""
    notes = foreign_notes(request, PROTOCOL)
    choice = request.tool_choice
    if request.tools and choice.mode != "none" and (choice.demands or choice.allowed or not choice.parallel):
        notes.append(Note("choice_not_sent", "Ollama does not support a tool choice"))
    media = [part for part in all_parts(request) if isinstance(part, Media)]
    if len(encode_images(media)) < len(media):
        notes.append(Note("media_dropped", "only inline images can be sent"))
    if request.options.n > 1:
        notes.append(Note("answers_dropped", "Ollama returns only one answer"))
    return tuple(notes)


def _encode_tool(tool: Tool, same_protocol: bool) -> JSONObject:
    extra = tool.extra if same_protocol else {}
    if tool.kind not in COMMON_TOOL_KINDS:
        return extra
    function: JSONObject = {"name": tool.name, **filled({"description": tool.description})}
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    function |= without(extra, SIBLING_FIELDS)
    return {"type": "function", "function": function, **object_or_empty(extra.get(SIBLING_FIELDS))}
