"""Parts of requests that several protocols express in the same way: messages, content, tools and options."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeVar

import msgspec

from ...core.types import (
    JSONObject,
    JSONValue,
    Media,
    Message,
    Note,
    Opaque,
    Options,
    Part,
    Request,
    ResponseFormat,
    Role,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    is_object,
    tools_from,
)
from ...errors import UsageError
from . import validation
from .fields import ROUTING_FIELDS, filled, read_arguments, without

#: Default name of a schema, because OpenAI's protocols require a name.
FORMAT_NAME: Final = "reply"
#: Field that contains the image detail level in OpenAI's protocols.
DETAIL: Final = "detail"
_NAMESPACE = "namespace"
_GRAMMAR = "grammar"
_MAX_SHOWN_ARGUMENTS = 80
#: Default order of a message: results (r), parts (p), calls (c).
_DEFAULT_ORDER = "rpc"
#: Number of the options that `option_fields` encodes.
_OPTIONS = 6
_Wire = TypeVar("_Wire")


def role_field(value: JSONObject, path: str, roles: Mapping[str, Role]) -> tuple[Role, str]:
    """Return the role of a message, and the name that the request uses for it."""
    name = validation.text_field(value.get("role"), f"{path}.role")
    if name not in roles:
        raise UsageError(f"invalid `{path}.role`: `{name}`", hint=f"use one of {', '.join(roles)}")
    return roles[name], name


def content_field(content: JSONValue, path: str, decode_part: Callable[[JSONValue, str], Part]) -> tuple[Part, ...]:
    """Decode a `content` field, a string or a list, to parts. An empty string yields no parts."""
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    return tuple(decode_part(part, f"{path}[{at}]") for at, part in enumerate(validation.array_field(content, path)))


def part_field(
    value: JSONValue, path: str, decode: Callable[[JSONObject, str, str], Part], text_types: Collection[str] = ("text",)
) -> Part:
    """Decode a part of a `content` field. `decode` gets the part, its type and its path if it is not a text."""
    if isinstance(value, str):  # some clients send lists of strings
        return TextPart(value)
    part = validation.object_field(value, path)
    kind = validation.text_field(part.get("type"), f"{path}.type")
    if kind in text_types:
        return TextPart(validation.text_field(part.get("text"), f"{path}.text"), without(part, "type", "text"))
    return decode(part, kind, path)


class OrderedContent:
    """The parts, calls and results of a message that is being decoded, and their order."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.calls: list[ToolCall] = []
        self.results: list[ToolResult] = []
        self.thoughts: list[str] = []
        self.call_extras: JSONObject = {}
        self.order = ""

    def add_part(self, part: Part) -> None:
        self.parts.append(part)
        self.order += "p"

    def add_call(self, call: ToolCall, extra: JSONObject) -> None:
        self.call_extras |= filled({str(len(self.calls)): extra})
        self.calls.append(call)
        self.order += "c"

    def add_result(self, result: ToolResult) -> None:
        self.results.append(result)
        self.order += "r"

    def message(self, role: Role, extra: JSONObject, order_key: str, calls_key: str) -> Message:
        """Return the message. A non-default order and extra fields of calls are stored in `extra`, under these keys."""
        usual = "".join(sorted(self.order, key=_DEFAULT_ORDER.index))
        extra |= filled({order_key: self.order if self.order != usual else "", calls_key: self.call_extras})
        if role == "user" and self.results and not self.parts and not self.calls:
            role = "tool"
        parts, calls, results = tuple(self.parts), tuple(self.calls), tuple(self.results)
        return Message(role, parts, "".join(self.thoughts), calls, results, extra=extra)


def in_order(by_kind: Mapping[str, Sequence[_Wire]], order: JSONValue) -> list[_Wire]:
    """Return encoded results (r), parts (p) and calls (c) in this order, or in default order if it does not fit."""
    usual = "".join(kind * len(by_kind[kind]) for kind in _DEFAULT_ORDER)
    if not isinstance(order, str) or sorted(order) != sorted(usual):  # the message was changed after decoding
        order = usual
    queues = {kind: iter(wire) for kind, wire in by_kind.items()}
    return [next(queues[kind]) for kind in order]


def is_from_protocol(message: Message, request: Request, protocol: str) -> bool:
    """Whether the `extra` fields of a message belong to `protocol`."""
    return (message.protocol or request.protocol) in (protocol, "")


def merge_assistant_turns(request: Request, protocol: str) -> Iterator[Message]:
    """Yield the messages, merging assistant messages from other protocols into a preceding one that has calls.

    Item-based protocols allow text between two calls, or between a call and its result. Other services require that
    all results directly follow the message with the calls.
    """
    group: list[Message] = []
    for message in request.messages:
        foreign = (
            message.role == "assistant" and not message.results and not is_from_protocol(message, request, protocol)
        )
        if group and not foreign:
            yield _merge_group(group)
            group = []
        if group or (foreign and message.calls):
            group.append(message)
        else:
            yield message
    if group:
        yield _merge_group(group)


def _merge_group(messages: list[Message]) -> Message:
    if len(messages) == 1:
        return messages[0]
    return msgspec.structs.replace(
        messages[0],
        parts=tuple(part for message in messages for part in message.parts),
        reasoning="\n\n".join(message.reasoning for message in messages if message.reasoning),
        calls=tuple(call for message in messages for call in message.calls),
    )


def has_only_results(message: Message) -> bool:
    """Whether only the results of a message are sent: it is a tool message, or it has nothing else to say."""
    return message.role == "tool" or (bool(message.results) and not message.parts)


def is_opaque_only(message: Message) -> bool:
    """Whether an assistant message contains only opaque parts, so it would be empty in another protocol.

    Services reject empty messages between a call and its result.
    """
    carried = bool(message.parts) and all(isinstance(part, Opaque) for part in message.parts)
    return carried and message.role == "assistant" and not message.calls


def option_fields(options: Options, names: Sequence[str]) -> JSONObject:
    """Return the options that are set. `names`: the fields for max_tokens, temperature, top_p, seed, stop and n."""
    limits = (options.max_tokens, options.temperature, options.top_p, options.seed)
    values = (*limits, list(options.stop) or None, None if options.n == 1 else options.n)
    return {name: value for name, value in zip(names, values, strict=False) if value is not None}


def options_field(
    fields: JSONObject, names: Sequence[str], form: ResponseFormat | None, extra: JSONObject, path: str = ""
) -> Options:
    """Decode the options of a request. `names`: as in `option_fields`; an option without a name is not set.

    `path`: where the fields are, for errors; empty for the top level.
    """
    places = [(fields.get(name) if name else None, f"{path}{name}") for name in names]
    limit, temperature, top_p, seed, stop, n = places + [(None, "")] * (_OPTIONS - len(places))
    return Options(
        validation.int_field(*limit),
        validation.number_field(*temperature),
        validation.number_field(*top_p),
        validation.int_field(*seed),
        validation.texts_field(*stop),
        validation.int_field(*n, positive=True) or 1,
        form,
        extra=extra,
    )


def format_field(form: JSONObject, path: str, nested: bool) -> tuple[ResponseFormat | None, JSONObject]:
    """Return an OpenAI-style response format and its extra fields. A format of an unknown type is returned as those.

    `nested`: whether a schema is in an object of its own, as in chat completions.
    """
    match form.get("type"):
        case "text":
            return None, {}
        case "json_object" if nested:  # some servers accept a schema with `json_object`
            return ResponseFormat(form.get("schema")), without(form, "type", "schema")
        case "json_object":
            return ResponseFormat(), without(form, "type")
        case "json_schema":
            path = f"{path}.json_schema" if nested else path
            body = validation.object_field(form.get("json_schema"), path) if nested else without(form, "type")
            strict = (
                None if body.get("strict") is None else validation.bool_field(body["strict"], f"{path}.strict", False)
            )
            name = validation.text_field(body.get("name"), f"{path}.name") or FORMAT_NAME
            return ResponseFormat(body.get("schema"), name, strict), without(body, "schema", "name", "strict")
        case _:
            return None, form


def add_own_fields(body: JSONObject, options: Options) -> JSONObject:
    """Add the protocol-specific options (`own`) and the grammar to a request body. Objects are merged.

    Fields in `own`, which come from the caller, never replace existing values. The grammar, set by toolspeak, does.
    """
    for key, value in options.own.items():
        body[key] = _merge_value(body.get(key), value) if key not in body or is_object(body[key]) else body[key]
    for key, value in options.grammar.items():
        body[key] = _merge_value(body.get(key), value)
    return body


def copy_extra_fields(body: JSONObject, extra: JSONObject, excluded: Collection[str]) -> None:
    """Add the `extra` fields of a request to its body. Routing fields and fields that already exist are not copied."""
    for key, value in extra.items():
        if key not in body and key not in ROUTING_FIELDS and key not in excluded:
            body[key] = value


def _merge_value(existing: JSONValue, value: JSONValue) -> JSONValue:
    return {**existing, **value} if is_object(existing) and is_object(value) else value


def declared_tools(value: JSONValue) -> Iterator[tuple[JSONObject, tuple[Tool, ...]]]:
    """Yield each declaration in OpenAI-style `tools` together with the tools that it defines."""
    for declared, path in validation.objects_field(value, "tools"):
        if validation.text_field(declared.get("type"), f"{path}.type") == _NAMESPACE:
            _check_namespace(declared, path)
        elif declared.get("type", "") is None:
            declared = without(declared, "type")
        try:
            tools = tools_from([declared]) or ()
        except UsageError as error:
            raise UsageError(f"`{path}`: {error}") from None
        yield declared, tools


def choice_mode(value: JSONValue, path: str) -> Literal["auto", "none", "required"]:
    """Validate the mode of an OpenAI-style tool choice."""
    match validation.text_field(value, path):
        case "auto" | "none" | "required" as mode:
            return mode
        case "any":
            return "required"
        case _:
            hint = "use `auto`, `none`, `required` or an object that names a tool"
            raise UsageError(f"invalid `{path}`: `{value}`", hint=hint)


def _check_namespace(declared: JSONObject, path: str) -> None:
    validation.name_field(declared, path)
    for inner, where in validation.objects_field(declared.get("tools"), f"{path}.tools"):
        if validation.text_field(inner.get("type"), f"{where}.type") == _NAMESPACE:
            raise UsageError(f"`{where}.type` is `{_NAMESPACE}`, but namespaces cannot be nested")


def custom_format(tool: Tool, nested: bool) -> JSONObject:
    """Return the input format of a custom tool. `nested` puts a grammar into its own object, as chat completions do."""
    form = tool.extra.get("format")
    if tool.kind != "custom" or not is_object(form):
        return {}
    if form.get("type") != _GRAMMAR:
        return {"format": form}
    inner = form.get(_GRAMMAR)
    rules = inner if is_object(inner) else without(form, "type")
    return {"format": {"type": _GRAMMAR, _GRAMMAR: rules} if nested else {"type": _GRAMMAR, **rules}}


def filename_field(media: Media) -> JSONObject:
    """Return the file name, if known, as a field of OpenAI's protocols."""
    name = media.extra.get("filename")
    return {"filename": name} if media.kind == "file" and isinstance(name, str) else {}


def is_inline(url: str) -> bool:
    """Whether a URL is a `data:` URL with base64 content."""
    return url.startswith("data:") and ";base64," in url


def is_fetchable(url: str, *schemes: str) -> bool:
    """Whether a service can fetch a URL, that is, whether its scheme is HTTP(S) or one of `schemes`."""
    return url.lower().startswith(("http://", "https://", *schemes))


def detail_field(media: Media) -> JSONObject:
    """Return the image detail level, if known, as a field of OpenAI's protocols."""
    detail = media.extra.get(DETAIL)
    return {DETAIL: detail} if media.kind == "image" and isinstance(detail, str) else {}


def call_arguments(raw: JSONValue) -> tuple[JSONObject, tuple[Note, ...]]:
    """Parse call arguments in a request. If they are not a JSON object, return an empty one and a note."""
    arguments = read_arguments(raw)
    return ({}, invalid_arguments(raw)) if arguments is None else (arguments, ())


def invalid_arguments(raw: JSONValue) -> tuple[Note, ...]:
    detail = f"the arguments are not a JSON object: {str(raw)[:_MAX_SHOWN_ARGUMENTS]}"
    return (Note("arguments_invalid", detail),)
