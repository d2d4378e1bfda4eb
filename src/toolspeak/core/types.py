"""Messages, tools, calls and requests: the frozen values that all other modules exchange.

Storage and wire formats are defined elsewhere. Nothing here parses model text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import cleandoc
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, TypeGuard, cast
from weakref import WeakKeyDictionary

import msgspec

from ..errors import UsageError

#: JSON as Python values. `Any`, because a recursive alias makes strict typing harder than it is worth.
JSONValue: TypeAlias = Any
JSONObject: TypeAlias = dict[str, JSONValue]


def is_object(value: JSONValue) -> TypeGuard[JSONObject]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: JSONValue) -> TypeGuard[list[JSONValue]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def require(value: object, kind: type | UnionType, name: str, expected: str) -> None:
    """Check the type of an argument at run time, for callers that do not use a type checker.

    Raises:
        UsageError: the argument has another type.
    """
    if not isinstance(value, kind):
        raise UsageError(f"{name} must be {expected}, not `{type(value).__name__}`")


Role = Literal["system", "user", "assistant", "tool"]
#: Limit for one tool schema. Coding agents send up to 75 kB for all their tools; this size compiles in 0.3 s.
MAX_SCHEMA_BYTES = 256 * 1024


class Note(msgspec.Struct, frozen=True):
    """Something toolspeak repaired or noticed.

    `code` is stable and for programs, `detail` is for people.
    """

    code: str
    detail: str = ""


class Tool(msgspec.Struct, frozen=True):
    """A tool that the model may call."""

    name: str
    description: str = ""
    #: JSON schema of the arguments; `None` accepts any object.
    parameters: JSONValue = None
    #: The tool has side effects: a call with a repair that may have changed a value must not be executed.
    side_effects: bool = False
    #: `function`; `custom`: takes one text, as its only argument `input`; anything else is run by the upstream.
    kind: str = "function"
    #: The namespace it was declared in; also the prefix of its name.
    namespace: str = ""
    #: Other fields of its declaration, in the form of the client's protocol.
    extra: JSONObject = {}


class ToolCall(msgspec.Struct, frozen=True):
    """One complete call with arguments that fit the tool's schema."""

    name: str
    arguments: JSONObject
    id: str = ""
    notes: tuple[Note, ...] = ()


class TextPart(msgspec.Struct, frozen=True, tag="text"):
    """A piece of plain text inside a message."""

    text: str
    extra: JSONObject = {}


class Media(msgspec.Struct, frozen=True, tag="media"):
    """An image, audio, video or file."""

    kind: Literal["image", "audio", "video", "file"]
    #: Its location, or the content itself as a `data:` URL.
    url: str
    extra: JSONObject = {}


class Opaque(msgspec.Struct, frozen=True, tag="opaque"):
    """A part that is passed on unread: signatures, encrypted reasoning, citations."""

    kind: str
    data: JSONValue = None


Part: TypeAlias = TextPart | Media | Opaque


class ToolResult(msgspec.Struct, frozen=True):
    """The result of the call with this id."""

    id: str
    content: str
    name: str = ""
    error: bool = False
    #: Content other than text.
    parts: tuple[Media | Opaque, ...] = ()
    extra: JSONObject = {}


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Role
    parts: tuple[Part, ...] = ()
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    name: str = ""
    extra: JSONObject = {}
    #: The protocol of its `extra` and opaque parts; empty: that of the request.
    protocol: str = ""

    @property
    def text(self) -> str:
        """The plain text of the message."""
        texts = [part.text for part in self.parts if isinstance(part, TextPart)]
        return texts[0] if len(texts) == 1 else "".join(texts)


class ToolChoice(msgspec.Struct, frozen=True):
    """Which calls the caller allows.

    `required`: at least one call. `named`: exactly one call, of the single tool in `allowed`.
    """

    mode: Literal["auto", "none", "required", "named"] = "auto"
    #: Only these tools may be called; empty means any.
    allowed: tuple[str, ...] = ()
    #: Whether one turn may contain several calls.
    parallel: bool = True

    @property
    def demands(self) -> bool:
        """Whether a turn must contain a call."""
        return self.mode in ("required", "named")

    @property
    def single(self) -> bool:
        """Whether a turn may contain at most one call."""
        return self.mode == "named" or not self.parallel

    def permits(self, name: str) -> bool:
        """Whether a tool of this name may be called."""
        return self.mode != "none" and (not self.allowed or name in self.allowed)


class ResponseFormat(msgspec.Struct, frozen=True):
    """The final text must be JSON and fit the schema, if there is one."""

    schema: JSONValue = None
    name: str = ""
    strict: bool | None = None


class Options(msgspec.Struct, frozen=True):
    """Generation options: those that all protocols share, and the rest unchanged."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    response_format: ResponseFormat | None = None
    #: A grammar for the upstream to enforce, as fields of its protocol (see `engine.constraints`).
    grammar: JSONObject = {}
    #: Fields without a common name, in the form of the client's protocol.
    extra: JSONObject = {}
    #: Fields of the upstream's protocol, sent unchanged whatever the client's protocol.
    own: JSONObject = {}
    #: Fields that toolspeak added, by their OpenAI names: if an upstream rejects one, the request is sent without it.
    dispensable: tuple[str, ...] = ()
    #: Whether the prompt describes the tools and how to call them.
    contract: bool = False
    #: Whether there is an answer before the last user message, so that message may not ask for anything.
    answered: bool = False


class Request(msgspec.Struct, frozen=True):
    """A request for one model turn."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    stream: bool = False
    options: Options = Options()
    #: The protocol of the `extra` fields.
    protocol: str = ""


#: Cap on token counts that upstreams report: exact in every JSON parser, and fits every database.
MAX_TOKEN_COUNT: Final = 2**53


class Usage(msgspec.Struct, frozen=True):
    """Token usage, as far as the upstream reports it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    #: Output tokens spent on reasoning.
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            min(self.input_tokens + other.input_tokens, MAX_TOKEN_COUNT),
            min(self.output_tokens + other.output_tokens, MAX_TOKEN_COUNT),
            min(self.cached_tokens + other.cached_tokens, MAX_TOKEN_COUNT),
            min(self.reasoning_tokens + other.reasoning_tokens, MAX_TOKEN_COUNT),
        )


#: The schema of a `custom` tool, which takes one text.
_SINGLE_TEXT_SCHEMA: JSONObject = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
#: The key in `extra` for fields next to the `function` or `custom` object of a declaration.
SIBLING_FIELDS: Final = "beside"
_NAMESPACE_SEPARATOR = "__"


_TOOLS = frozenset({Tool})
#: A cache: generating the schema of a class takes longer than most turns.
_TOOLS_OF_CLASSES: WeakKeyDictionary[type, Tool] = WeakKeyDictionary()


def tools_from(tools: Iterable[Tool | Mapping[str, JSONValue] | type] | None) -> tuple[Tool, ...] | None:
    """Convert tools from any accepted form: `Tool`, dicts in OpenAI's format, pydantic model classes."""
    if tools is None:
        return None
    if isinstance(tools, str | bytes | Mapping):
        raise UsageError("`tools` must be a list of tools", hint="wrap a single tool in a list")
    if isinstance(tools, tuple) and _TOOLS.issuperset(map(type, tools)):
        return cast("tuple[Tool, ...]", tools)
    require(tools, Iterable, "`tools`", "a list of tools")
    return tuple(converted for tool in tools for converted in _tools_in(tool))


def _tools_in(tool: Tool | Mapping[str, JSONValue] | type) -> Iterable[Tool]:
    """The tools in one declaration; a namespace contains several."""
    if isinstance(tool, Tool):
        return (tool if type(tool.name) is str else msgspec.structs.replace(tool, name=str.__str__(tool.name)),)
    if isinstance(tool, type):
        return (_tool_from_class(tool),)
    if not isinstance(tool, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"a tool must be an object, not `{type(tool).__name__}`")
    kind = "function" if tool.get("type") is None else tool["type"]
    if not isinstance(kind, str):
        raise UsageError(f"the `type` of a tool must be a string, not `{type(kind).__name__}`")
    if kind == "namespace" and is_array(tool.get("tools")):
        return _in_namespace(tool.get("name"), tool["tools"])
    if kind in ("function", "custom"):
        return (_named_tool(tool, kind),)
    return (Tool(str(tool.get("name") or kind), kind=kind, extra=dict(tool)),)


def _tool_from_class(cls: type) -> Tool:
    """The tool whose arguments are an instance of a pydantic model, or of any class with `model_json_schema`."""
    cached = _TOOLS_OF_CLASSES.get(cls)
    if cached is not None:
        return cached
    schema_of = getattr(cls, "model_json_schema", None)
    if not callable(schema_of):
        raise UsageError(f"the class `{cls.__name__}` is not a tool", hint="use a pydantic model or a dict")
    try:
        schema = schema_of()
    except Exception as error:
        raise UsageError(f"no JSON schema for the class `{cls.__name__}`: {error}") from error
    if not is_object(schema):
        raise UsageError(f"the schema of the class `{cls.__name__}` must be an object")
    # Only its own docstring: an inherited one describes the base class.
    description = cleandoc(vars(cls).get("__doc__") or "")
    parameters = {key: value for key, value in schema.items() if key not in ("title", "description")}
    tool = _TOOLS_OF_CLASSES[cls] = Tool(cls.__name__, description, parameters)
    return tool


def _in_namespace(namespace: JSONValue, tools: list[JSONValue]) -> Iterable[Tool]:
    if not isinstance(namespace, str) or not namespace:
        raise UsageError("a namespace of tools needs a `name`")
    if any(is_object(tool) and tool.get("type") == "namespace" for tool in tools):
        raise UsageError(f"the namespace `{namespace}` contains another namespace, which is not supported")
    for tool in tools_from(tools) or ():
        name = f"{namespace}{_NAMESPACE_SEPARATOR}{tool.name}"
        yield msgspec.structs.replace(tool, name=name, namespace=namespace)


def _named_tool(tool: Mapping[str, JSONValue], kind: str) -> Tool:
    """A `function` or `custom` tool; its fields are nested under that key or, in newer protocols, at the top level."""
    body: Mapping[str, JSONValue] = tool
    siblings: JSONObject = {}
    if kind in tool:
        if not is_object(tool[kind]):
            raise UsageError(f"the `{kind}` of a tool must be an object")
        body = tool[kind]
        siblings = {key: value for key, value in tool.items() if key not in ("type", kind)}
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError("a tool needs a `name`", hint='use {"type": "function", "function": {"name": ...}}')
    description = body.get("description")
    fields = ("type", "name", "description", "parameters", "side_effects")
    extra = {key: value for key, value in body.items() if key not in fields}
    if siblings:
        extra[SIBLING_FIELDS] = siblings
    return Tool(
        name=str.__str__(name),
        description=str.__str__(description) if isinstance(description, str) else "",
        parameters=_SINGLE_TEXT_SCHEMA if kind == "custom" else body.get("parameters"),
        side_effects=bool(body.get("side_effects", False)),
        kind=kind,
        extra=extra,
    )
