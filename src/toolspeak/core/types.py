"""Messages, tools, calls and requests: the frozen values that all other modules exchange.

Storage and wire formats are defined elsewhere. Nothing here parses model text.
"""

from collections.abc import Iterable, Mapping
from inspect import cleandoc
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, TypeGuard, cast, get_args
from weakref import WeakKeyDictionary

import msgspec

from ..errors import UsageError

#: A JSON value in Python. It is `Any` because a recursive alias would complicate strict typing too much.
JSONValue: TypeAlias = Any
JSONObject: TypeAlias = dict[str, JSONValue]


def is_object(value: JSONValue) -> TypeGuard[JSONObject]:
    return isinstance(value, dict)


def is_array(value: JSONValue) -> TypeGuard[list[JSONValue]]:
    return isinstance(value, list)


def require(value: object, kind: type | UnionType, name: str, expected: str) -> None:
    """Raise UsageError for an argument of the wrong type, because callers may not use a type checker."""
    if not isinstance(value, kind):
        raise UsageError(f"{name} must be {expected}, not `{type(value).__name__}`")


Role = Literal["system", "user", "assistant", "tool"]
#: Size limit of one tool schema. A schema of this size compiles in 0.3 s. Coding agents send up to 75 kB for all tools.
MAX_SCHEMA_BYTES = 256 * 1024


class Note(msgspec.Struct, frozen=True, gc=False):
    """A repair or an observation that toolspeak reports.

    `code` is stable and meant for programs; `detail` is meant for people.
    """

    code: str
    detail: str = ""


class Tool(msgspec.Struct, frozen=True, gc=False):
    """A tool that the model may call."""

    name: str
    description: str = ""
    #: JSON schema of the arguments; `None` accepts any object.
    parameters: JSONValue = None
    #: Whether the tool has side effects. If so, a call is rejected when a repair may have changed one of its values.
    side_effects: bool = False
    #: `function`; `custom`, which takes one text as its only argument `input`; any other kind is run by the upstream.
    kind: str = "function"
    #: The namespace in which the tool was declared; it is also the prefix of the name.
    namespace: str = ""
    #: Other fields of the declaration, as spelled in the client's protocol.
    extra: JSONObject = {}
    #: Whether the tool only reads. Calls to such tools may run in parallel. An agent runs all other calls one after the
    #: other, even if the tool declares no side effects.
    read_only: bool = False


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A complete call whose arguments match the tool's schema."""

    name: str
    arguments: JSONObject
    id: str = ""
    notes: tuple[Note, ...] = ()


class TextPart(msgspec.Struct, frozen=True, gc=False, tag="text"):
    """A piece of plain text inside a message."""

    text: str
    extra: JSONObject = {}


MediaKind: TypeAlias = Literal["image", "audio", "video", "file"]
MEDIA_KINDS: tuple[str, ...] = get_args(MediaKind)


class Media(msgspec.Struct, frozen=True, gc=False, tag="media"):
    """An image, an audio clip, a video or a file."""

    kind: MediaKind
    #: A link to the content, or the content itself as a `data:` URL.
    url: str
    extra: JSONObject = {}

    def __post_init__(self) -> None:
        if self.kind not in MEDIA_KINDS:
            raise UsageError(f"unknown kind of media {self.kind!r:.80}", hint=f"use one of {', '.join(MEDIA_KINDS)}")


class Opaque(msgspec.Struct, frozen=True, gc=False, tag="opaque"):
    """A part that is passed through uninterpreted, such as a signature, encrypted reasoning or a citation."""

    kind: str
    data: JSONValue = None


Part: TypeAlias = TextPart | Media | Opaque


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """The result of the tool call that `id` identifies."""

    id: str
    content: str
    name: str = ""
    error: bool = False
    #: Content other than text.
    parts: tuple[Media | Opaque, ...] = ()
    extra: JSONObject = {}


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of a conversation."""

    role: Role
    parts: tuple[Part, ...] = ()
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    name: str = ""
    extra: JSONObject = {}
    #: The protocol that defines `extra` and the opaque parts; empty means the protocol of the request.
    protocol: str = ""

    @property
    def text(self) -> str:
        """The plain text of the message."""
        parts = self.parts
        if len(parts) == 1 and isinstance(only := parts[0], TextPart):
            return only.text
        return "".join([part.text for part in parts if isinstance(part, TextPart)])


class ToolChoice(msgspec.Struct, frozen=True, gc=False):
    """The caller's rule for tool calls in a turn.

    `required`: at least one call. `named`: exactly one call, to the single tool in `allowed`.
    """

    mode: Literal["auto", "none", "required", "named"] = "auto"
    #: Names of the tools that may be called; empty means all of them.
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
        """Whether a tool with this name may be called."""
        return self.mode != "none" and (not self.allowed or name in self.allowed)


class ResponseFormat(msgspec.Struct, frozen=True, gc=False):
    """A request for JSON output: the final text must be JSON and match `schema`, if there is one."""

    schema: JSONValue = None
    name: str = ""
    strict: bool | None = None


class AnswerFrame(msgspec.Struct, frozen=True, gc=False):
    """The parts of an answer that a grammar would force anyway, so that the model need not generate them."""

    #: The model continues this text, which the upstream adds to the answer.
    begin: str
    #: An answer that makes calls stops after the bracket that closes them. The upstream adds this text then.
    end: str


class Options(msgspec.Struct, frozen=True, gc=False):
    """Generation options: the ones that all protocols share, and protocol-specific fields."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    response_format: ResponseFormat | None = None
    #: A grammar for the upstream to enforce, as fields of its protocol (see `engine.constraints`).
    grammar: JSONObject = {}
    #: Fields that only the client's protocol has, spelled as in that protocol.
    extra: JSONObject = {}
    #: Fields of the upstream's protocol, sent unchanged whichever protocol the client uses.
    own: JSONObject = {}
    #: OpenAI names of fields that toolspeak added. If the upstream rejects one, the request is retried without it.
    dispensable: tuple[str, ...] = ()
    #: The names of the tools that the prompt describes, with how to call them.
    described_tools: tuple[str, ...] = ()
    #: Whether an answer precedes the last user message, which may then be a remark that asks for nothing.
    answered: bool = False
    #: The parts of the answer that the grammar leaves out.
    frame: AnswerFrame | None = None
    #: Whether the caller requires a call or a response format and the prompt asks for it.
    bound: bool = False


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request for one model turn."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    stream: bool = False
    options: Options = Options()
    #: The protocol that defines the `extra` fields.
    protocol: str = ""
    #: The tenant on whose behalf it is sent. What an upstream refuses is remembered by tenant.
    tenant: str = ""


#: Cap on token counts reported by upstreams. It is exact in every JSON parser and fits into every database.
MAX_TOKEN_COUNT: Final = 2**53


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Token usage as reported by the upstream; counts that it omits are 0."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    #: Output tokens spent on reasoning.
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Usage(*(min(sum(pair), MAX_TOKEN_COUNT) for pair in pairs))


#: The argument schema of a `custom` tool, which takes one text.
_SINGLE_TEXT_SCHEMA: JSONObject = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
#: The key in `extra` that holds the fields beside the `function` or `custom` object of a declaration.
SIBLING_FIELDS: Final = "beside"
_NAMESPACE_SEPARATOR = "__"


_TOOLS = frozenset({Tool})
#: Cache of tools made from classes, because generating the schema of a class is slow.
_TOOLS_OF_CLASSES: WeakKeyDictionary[type, Tool] = WeakKeyDictionary()


def tools_from(tools: Iterable[Tool | Mapping[str, JSONValue] | type] | None) -> tuple[Tool, ...] | None:
    """Convert tools from any accepted form: `Tool` objects, dicts in OpenAI's format, pydantic model classes."""
    if tools is None:
        return None
    if isinstance(tools, str | bytes | Mapping):
        raise UsageError("`tools` must be a list of tools", hint="wrap a single tool in a list")
    if isinstance(tools, tuple) and _TOOLS.issuperset(map(type, tools)):
        return cast("tuple[Tool, ...]", tools)
    require(tools, Iterable, "`tools`", "a list of tools")
    return tuple(converted for tool in tools for converted in _tools_in(tool))


def _tools_in(tool: Tool | Mapping[str, JSONValue] | type) -> Iterable[Tool]:
    """Convert one declaration; a namespace contains several tools."""
    if isinstance(tool, Tool):
        return (tool if type(tool.name) is str else msgspec.structs.replace(tool, name=str.__str__(tool.name)),)
    if isinstance(tool, type):
        return (_tool_from_class(tool),)
    if not isinstance(tool, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"a tool must be an object, not `{type(tool).__name__}`")
    kind = "function" if tool.get("type") is None else tool["type"]
    if not isinstance(kind, str):
        raise UsageError(f"the `type` field of a tool must be a string, not `{type(kind).__name__}`")
    if kind == "namespace" and is_array(tool.get("tools")):
        return _in_namespace(tool.get("name"), tool["tools"])
    if kind in ("function", "custom"):
        return (_named_tool(tool, kind),)
    return (Tool(str(tool.get("name") or kind), kind=kind, extra=dict(tool)),)


def _tool_from_class(cls: type) -> Tool:
    """Convert a pydantic model, or any class with `model_json_schema`; its fields become the arguments."""
    cached = _TOOLS_OF_CLASSES.get(cls)
    if cached is not None:
        return cached
    schema_of = getattr(cls, "model_json_schema", None)
    if not callable(schema_of):
        raise UsageError(f"the class `{cls.__name__}` is not a tool", hint="pass a pydantic model or a dict")
    try:
        schema = schema_of()
    except Exception as error:
        raise UsageError(f"cannot generate a JSON schema for the class `{cls.__name__}`: {error}") from error
    if not is_object(schema):
        raise UsageError(f"the JSON schema of the class `{cls.__name__}` must be an object")
    # Use only the class's own docstring, because an inherited one describes the base class.
    description = cleandoc(vars(cls).get("__doc__") or "")
    parameters = {key: value for key, value in schema.items() if key not in ("title", "description")}
    tool = _TOOLS_OF_CLASSES[cls] = Tool(cls.__name__, description, parameters)
    return tool


def _in_namespace(namespace: JSONValue, tools: list[JSONValue]) -> Iterable[Tool]:
    if not isinstance(namespace, str) or not namespace:
        raise UsageError("a tool namespace needs a `name`")
    if any(is_object(tool) and tool.get("type") == "namespace" for tool in tools):
        raise UsageError(f"the namespace `{namespace}` contains another namespace, which is not supported")
    for tool in tools_from(tools) or ():
        name = f"{namespace}{_NAMESPACE_SEPARATOR}{tool.name}"
        yield msgspec.structs.replace(tool, name=name, namespace=namespace)


def _named_tool(tool: Mapping[str, JSONValue], kind: str) -> Tool:
    """Convert a `function` or `custom` tool. Newer protocols put its fields at the top level, older ones nest them."""
    body: Mapping[str, JSONValue] = tool
    siblings: JSONObject = {}
    if kind in tool:
        if not is_object(tool[kind]):
            raise UsageError(f"the `{kind}` field of a tool must be an object")
        body = tool[kind]
        siblings = {key: value for key, value in tool.items() if key not in ("type", kind)}
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError("a tool needs a `name`", hint='use {"type": "function", "function": {"name": ...}}')
    description = body.get("description")
    fields = ("type", "name", "description", "parameters", "side_effects", "read_only")
    extra = {key: value for key, value in body.items() if key not in fields}
    if siblings:
        extra[SIBLING_FIELDS] = siblings
    return Tool(
        name=str.__str__(name),
        description=str.__str__(description) if isinstance(description, str) else "",
        parameters=_SINGLE_TEXT_SCHEMA if kind == "custom" else body.get("parameters"),
        side_effects=bool(body.get("side_effects", False)),
        read_only=bool(body.get("read_only", False)),
        kind=kind,
        extra=extra,
    )
