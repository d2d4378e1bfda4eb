"""Decode and encode requests to generateContent.

The model, and whether to stream, are in the URL path, not in the body. `Options.extra` stores every field that
`Options` lacks: top-level fields under their own names, fields of `generationConfig` and `toolConfig` in objects with
these names.
"""

from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from ...core.types import JSONObject, JSONValue, Note, Options, Request, ResponseFormat
from ...errors import UsageError
from ..shared.dropped_fields import foreign_media_notes, foreign_notes
from ..shared.fields import filled, object_or_empty, request_fields, to_wire, without
from ..shared.request_parts import add_own_fields, copy_extra_fields, option_fields, options_field
from ..shared.resent_values import ResentRequests
from ..shared.unstreamed_calls import only_own_ids
from ..shared.validation import object_field, text_field
from .messages import decode_contents, decode_system, encode_contents, is_sendable
from .tools import TOOL_CONFIG, decode_choice, decode_tools, encode_choice, encode_tools, is_own, to_json_schema
from .wire import PROTOCOL, normalize_fields

_CONFIG, _SYSTEM = "generationConfig", "systemInstruction"
_REQUEST_FIELDS = ("model", "contents", "tools", TOOL_CONFIG, _SYSTEM, _CONFIG)
_CONFIG_FIELDS = ("maxOutputTokens", "temperature", "topP", "seed", "stopSequences", "candidateCount")
_MIME, _SCHEMA, _JSON_SCHEMA = "responseMimeType", "responseSchema", "responseJsonSchema"
_JSON = "application/json"


#: Resource collections that can prefix a model name.
_MODELS, _COLLECTIONS = "models", ("models", "tunedModels")


def path(request: Request) -> str:
    """Return the URL path of a request, relative to the base URL, which includes the API version."""
    collection, slash, name = request.model.partition("/")
    if not slash or collection not in _COLLECTIONS:
        collection, name = _MODELS, request.model
    quoted = quote(name, safe="", errors="replace")
    method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
    return f"/{collection}/{quoted}:{method}"


def decode_request(body: bytes | Mapping[str, JSONValue], *, model: str = "", stream: bool = False) -> Request:
    """Decode a body; `model` and `stream` come from the URL path. Raises UsageError, which names the invalid field."""
    fields = normalize_fields(request_fields(body))
    messages = decode_contents(fields.get("contents"))
    if not messages:
        raise UsageError("`contents` must not be empty")
    choice, choice_rest = decode_choice(fields.get(TOOL_CONFIG))
    config = normalize_fields(object_field(fields.get(_CONFIG, {}), _CONFIG))
    extra = without(fields, *_REQUEST_FIELDS) | filled({TOOL_CONFIG: choice_rest})
    return Request(
        (model or text_field(fields.get("model"), "model")).removeprefix(f"{_MODELS}/"),
        decode_system(fields.get(_SYSTEM)) + messages,
        decode_tools(fields.get("tools")),
        choice,
        stream,
        _options(config, extra),
        PROTOCOL,
    )


_bodies = ResentRequests("contents", b"[{}]", decode_request, decode_contents, decode_tools)


def decode_body(body: bytes, *, model: str = "", stream: bool = False) -> Request | None:
    request = only_own_ids(_bodies.decode(body))
    if request is None:
        return None
    name = model.removeprefix(f"{_MODELS}/") if model else request.model
    return msgspec.structs.replace(request, model=name, stream=stream)


def _options(config: JSONObject, extra: JSONObject) -> Options:
    form, rest = _response_format(without(config, *_CONFIG_FIELDS))
    extra |= filled({_CONFIG: rest})
    return options_field(config, _CONFIG_FIELDS, form, extra, f"{_CONFIG}.")


def _response_format(config: JSONObject) -> tuple[ResponseFormat | None, JSONObject]:
    """Return the response format and the remaining fields. A schema in Gemini's format remains, to be sent again."""
    if config.get(_MIME) != _JSON:
        return None, config
    if _JSON_SCHEMA in config:
        return ResponseFormat(config[_JSON_SCHEMA]), without(config, _MIME, _JSON_SCHEMA)
    schema = to_json_schema(config.get(_SCHEMA), f"{_CONFIG}.{_SCHEMA}")
    return ResponseFormat(schema), without(config, _MIME)


def encode_request(request: Request) -> bytes:
    same_protocol = request.protocol in (PROTOCOL, "")
    extra = request.options.extra if same_protocol else {}
    system, contents = encode_contents(request)
    optional = {
        _SYSTEM: system,
        "tools": encode_tools(request.tools, same_protocol),
        TOOL_CONFIG: encode_choice(request, extra.get(TOOL_CONFIG)),
        _CONFIG: _encode_config(request.options, extra.get(_CONFIG)),
    }
    body: JSONObject = {"contents": contents, **filled(optional)}
    copy_extra_fields(body, extra, _REQUEST_FIELDS)
    return to_wire(add_own_fields(body, request.options))


def request_notes(request: Request) -> tuple[Note, ...]:
    """Return notes about everything that `encode_request` drops or replaces."""
    notes = foreign_notes(request, PROTOCOL, is_own) + foreign_media_notes(request, PROTOCOL, is_sendable)
    if request.tools and not request.tool_choice.parallel:
        notes.append(Note("choice_not_sent", "the Gemini API cannot limit a reply to one call"))
    roles = [message.role for message in request.messages]
    if "system" in roles[roles.count("system") :]:
        notes.append(Note("system_moved", "system messages were moved before all other messages"))
    return tuple(notes)


def _encode_config(options: Options, rest: JSONValue) -> JSONObject:
    extra = object_or_empty(rest)
    config = option_fields(options, _CONFIG_FIELDS)
    form = options.response_format
    if form is None and _MIME not in extra:
        extra = without(extra, _SCHEMA)
    elif form is not None:
        config[_MIME] = _JSON
        own_schema = extra.get(_SCHEMA)
        if form.schema is not None and (own_schema is None or to_json_schema(own_schema, _SCHEMA) != form.schema):
            config[_JSON_SCHEMA] = form.schema
            extra = without(extra, _SCHEMA)
    return {**extra, **config}
