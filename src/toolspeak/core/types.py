"""The values everything else speaks in: messages, tools, calls.

Pure and frozen: identity, storage and wire shapes live elsewhere. Above this module sit the events, the
scanner, the dialects and every protocol codec; below it only `errors`. Nothing here parses model text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import cleandoc
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, TypeGuard, cast
from weakref import WeakKeyDictionary

import msgspec

from ..errors import UsageError

#: Raw JSON as Python values. `Any` stands only here: a recursive alias costs strict typing more than it gives.
JSONValue: TypeAlias = Any
JSONObject: TypeAlias = dict[str, JSONValue]


def is_object(value: JSONValue) -> TypeGuard[JSONObject]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: JSONValue) -> TypeGuard[list[JSONValue]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def require(value: object, kind: type | UnionType, name: str, wanted: str) -> None:
    """Refuse an argument of another type than it is declared with: not every caller is checked.

    Raises:
        UsageError: it is of another type.
    """
    if not isinstance(value, kind):
        raise UsageError(f"{name} must be {wanted}, not `{type(value).__name__}`")


Role = Literal["system", "user", "assistant", "tool"]
#: Coding agents send up to 75 kB for all their tools together; one schema of this size compiles in 0.3 s.
MAX_SCHEMA_BYTES = 256 * 1024


class Note(msgspec.Struct, frozen=True):
    """Something toolspeak did or noticed that a reader of the result should be able to see.

    `code` is stable and meant for machines, `detail` is for people.
    """

    code: str
    detail: str = ""


class Tool(msgspec.Struct, frozen=True):
    """Something the model may call."""

    name: str
    description: str = ""
    #: JSON schema of the arguments; `None` means that none was given and any object is fine.
    parameters: JSONValue = None
    #: A call of this tool changes the world: a repair that may change a value must not be executed.
    side_effects: bool = False
    #: `function`; `custom`: takes one text, here its only argument `input`; anything else is the upstream's own.
    kind: str = "function"
    #: The group it was declared in; its name then begins with the group's.
    namespace: str = ""
    #: What its declaration says besides, in the words of the protocol it came by.
    extra: JSONObject = {}


class ToolCall(msgspec.Struct, frozen=True):
    """One call, complete and with arguments that fit the tool's schema."""

    name: str
    arguments: JSONObject
    id: str = ""
    notes: tuple[Note, ...] = ()


class TextPart(msgspec.Struct, frozen=True, tag="text"):
    """A piece of plain text inside a message."""

    text: str
    extra: JSONObject = {}


class Media(msgspec.Struct, frozen=True, tag="media"):
    """A picture, a sound, a film or a document."""

    kind: Literal["image", "audio", "video", "file"]
    #: Where it is, or the thing itself as a `data:` URL.
    url: str
    extra: JSONObject = {}


class Opaque(msgspec.Struct, frozen=True, tag="opaque"):
    """A part we carry but do not read: signatures, encrypted reasoning, citations."""

    kind: str
    data: JSONValue = None


Part: TypeAlias = TextPart | Media | Opaque


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool answered to the call with this id."""

    id: str
    content: str
    name: str = ""
    error: bool = False
    #: What it answered besides text.
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
    #: The protocol in whose words its `extra` and its opaque parts are; empty: that of the request.
    protocol: str = ""

    @property
    def text(self) -> str:
        """The plain text of its parts."""
        texts = [part.text for part in self.parts if isinstance(part, TextPart)]
        return texts[0] if len(texts) == 1 else "".join(texts)


class ToolChoice(msgspec.Struct, frozen=True):
    """Which calls the caller allows.

    `named`: exactly one call, of the one name in `allowed`. `required`: at least one call.
    """

    mode: Literal["auto", "none", "required", "named"] = "auto"
    #: Only these names may be called; empty means any.
    allowed: tuple[str, ...] = ()
    #: Whether one turn may hold several calls.
    parallel: bool = True

    @property
    def demands(self) -> bool:
        """Whether a turn without a call is wrong."""
        return self.mode in ("required", "named")

    @property
    def single(self) -> bool:
        """Whether a turn may hold one call at most."""
        return self.mode == "named" or not self.parallel

    def permits(self, name: str) -> bool:
        """Whether a tool of this name may be called."""
        return self.mode != "none" and (not self.allowed or name in self.allowed)


class ResponseFormat(msgspec.Struct, frozen=True):
    """The final text must be JSON; with a schema, JSON that fits it."""

    schema: JSONValue = None
    name: str = ""
    strict: bool | None = None


class Options(msgspec.Struct, frozen=True):
    """How to generate: what every protocol has a word for, and the rest as it came."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    response_format: ResponseFormat | None = None
    #: A grammar that the upstream enforces, as the fields that its protocol wants (see `core.constraint`).
    grammar: JSONObject = {}
    #: Fields without a common name, in the words of the protocol they came by.
    extra: JSONObject = {}
    #: Fields in the words of the upstream's own protocol, by whichever the request came: sent as they are.
    own: JSONObject = {}
    #: Fields that are ours, by the words of OpenAI's protocols: an upstream that refuses one is asked without it.
    dispensable: tuple[str, ...] = ()
    #: Whether the prompt tells which tools there are, and how to call them.
    contract: bool = False
    #: Whether an answer was given before the user spoke last: what is said now may ask for nothing.
    answered: bool = False


class Request(msgspec.Struct, frozen=True):
    """One turn asked of a model."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    stream: bool = False
    options: Options = Options()
    #: The protocol in whose words `extra` fields are.
    protocol: str = ""


#: No count of tokens is higher, whatever upstreams claim: it is exact in every JSON and fits every database.
MOST_TOKENS: Final = 2**53


class Usage(msgspec.Struct, frozen=True):
    """Tokens used, as far as the upstream told."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    #: Of the output tokens, those that the model thought in.
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            min(self.input_tokens + other.input_tokens, MOST_TOKENS),
            min(self.output_tokens + other.output_tokens, MOST_TOKENS),
            min(self.cached_tokens + other.cached_tokens, MOST_TOKENS),
            min(self.reasoning_tokens + other.reasoning_tokens, MOST_TOKENS),
        )


#: The schema of a tool that takes one text.
_ONE_TEXT: JSONObject = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
#: Where `extra` keeps the fields that stood beside the object which holds the named ones.
BESIDE: Final = "beside"
#: What stands between a group's name and a tool's.
_NAMESPACE_SEPARATOR = "__"


_TOOLS = frozenset({Tool})
#: The tools of classes: making a schema takes longer than most turns.
_CLASSES: WeakKeyDictionary[type, Tool] = WeakKeyDictionary()


def tools_from(tools: Iterable[Tool | Mapping[str, JSONValue] | type] | None) -> tuple[Tool, ...] | None:
    """Tools as toolspeak values, however they are given: also as dicts in OpenAI's shape or as pydantic's classes."""
    if tools is None:
        return None
    if isinstance(tools, str | bytes | Mapping):
        raise UsageError("`tools` must be a list of tools", hint="wrap a single tool in a list")
    if isinstance(tools, tuple) and _TOOLS.issuperset(map(type, tools)):
        return cast("tuple[Tool, ...]", tools)
    require(tools, Iterable, "`tools`", "a list of tools")
    return tuple(found for tool in tools for found in _tools_in(tool))


def _tools_in(tool: Tool | Mapping[str, JSONValue] | type) -> Iterable[Tool]:
    """The tools that one declaration stands for."""
    if isinstance(tool, Tool):
        return (tool if type(tool.name) is str else msgspec.structs.replace(tool, name=str.__str__(tool.name)),)
    if isinstance(tool, type):
        return (_tool_of_class(tool),)
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


def _tool_of_class(given: type) -> Tool:
    """A model of pydantic's, or any class that tells the JSON schema of its instances, as the tool that takes one."""
    known = _CLASSES.get(given)
    if known is not None:
        return known
    schema_of = getattr(given, "model_json_schema", None)
    if not callable(schema_of):
        raise UsageError(f"the class `{given.__name__}` is no tool", hint="use a class of pydantic's, or an object")
    try:
        schema = schema_of()
    except Exception as error:
        raise UsageError(f"the class `{given.__name__}` has no JSON schema: {error}") from error
    if not is_object(schema):
        raise UsageError(f"the schema of the class `{given.__name__}` must be an object")
    # Its own words: what it inherits is about the class that it comes from.
    description = cleandoc(vars(given).get("__doc__") or "")
    parameters = {key: value for key, value in schema.items() if key not in ("title", "description")}
    tool = _CLASSES[given] = Tool(given.__name__, description, parameters)
    return tool


def _in_namespace(namespace: JSONValue, tools: list[JSONValue]) -> Iterable[Tool]:
    if not isinstance(namespace, str) or not namespace:
        raise UsageError("a namespace of tools needs a `name`")
    if any(is_object(tool) and tool.get("type") == "namespace" for tool in tools):
        raise UsageError(f"the namespace `{namespace}` holds another, and none can")
    for tool in tools_from(tools) or ():
        name = f"{namespace}{_NAMESPACE_SEPARATOR}{tool.name}"
        yield msgspec.structs.replace(tool, name=name, namespace=namespace)


def _named_tool(tool: Mapping[str, JSONValue], kind: str) -> Tool:
    """A function or a custom tool; its fields stand under its kind or, in newer protocols, beside it."""
    body: Mapping[str, JSONValue] = tool
    beside: JSONObject = {}
    if kind in tool:
        if not is_object(tool[kind]):
            raise UsageError(f"the `{kind}` of a tool must be an object")
        body = tool[kind]
        beside = {key: value for key, value in tool.items() if key not in ("type", kind)}
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError("a tool needs a `name`", hint='use {"type": "function", "function": {"name": ...}}')
    description = body.get("description")
    known = ("type", "name", "description", "parameters", "side_effects")
    extra = {key: value for key, value in body.items() if key not in known}
    if beside:
        extra[BESIDE] = beside
    return Tool(
        name=str.__str__(name),
        description=str.__str__(description) if isinstance(description, str) else "",
        parameters=_ONE_TEXT if kind == "custom" else body.get("parameters"),
        side_effects=bool(body.get("side_effects", False)),
        kind=kind,
        extra=extra,
    )
