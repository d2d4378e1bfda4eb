"""Tools in other forms than toolspeak's own: functions, dicts of other vendors, and objects of other libraries.

Libraries are recognised by the attributes of their objects and never imported.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeAlias, cast

import msgspec

from ..core.types import JSONObject, JSONValue, Tool, is_array, is_object, tools_from
from ..errors import UsageError
from ..plugins import plugins_for
from .base import CallContext, Executable, ToolOutput
from .functions import FunctionTool, output_of
from .threads import in_thread

#: A tool in any form: a function, a class of pydantic's, a dict, or an object of toolspeak or another library.
AnyTool: TypeAlias = Tool | Executable | Mapping[str, JSONValue] | type | Callable[..., Any]

#: Fields in which other vendors put a tool's schema.
_SCHEMA_FIELDS = ("input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")
_MAX_CACHED = 64  # lists of tools that are not dicts


def declarations(tools: Iterable[AnyTool] | None) -> Iterable[Tool | Mapping[str, JSONValue] | type] | None:
    """Convert tools in any form to those that `tools_from` accepts. A list in such a form is returned unchanged."""
    if tools is None or type(tools) is tuple or isinstance(tools, str | bytes | Mapping | Tool):
        return cast("Any", tools)
    if not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"`tools` must be a list, not a `{type(tools).__name__}`")
    listed = list(tools)
    if all(type(each) is dict and "function" in cast("JSONObject", each) for each in listed):
        return cast("Any", listed)
    try:
        return _converted(tuple(listed))
    except TypeError:  # dicts have no hash
        return [form for each in listed for form in _declared(each)]


@lru_cache(_MAX_CACHED, typed=True)
def _converted(tools: tuple[AnyTool, ...]) -> tuple[Tool, ...]:
    """Convert tools once, because reading a signature takes long, and equal tuples are what other caches go by."""
    return tools_from([form for each in tools for form in _declared(each)]) or ()


def _declared(tool: Any) -> list[Any]:
    if isinstance(tool, Tool | type):
        return [tool]
    return (
        _from_dict(cast("Mapping[str, Any]", tool))
        if isinstance(tool, Mapping)
        else [executable(tool, offered_only=True).tool]
    )


def _from_dict(tool: Mapping[str, Any]) -> list[Any]:
    """Bring the dicts of Anthropic, Gemini, Bedrock and MCP into OpenAI's form."""
    listed = tool.get("functionDeclarations", tool.get("function_declarations"))
    if is_array(listed):
        return [form for each in listed if is_object(each) for form in _from_dict(each)]
    spec = tool.get("toolSpec")
    if is_object(spec):
        schema = spec.get("inputSchema")
        return [_function(spec, schema.get("json") if is_object(schema) else None)]
    field = next((each for each in _SCHEMA_FIELDS if each in tool), "")
    own_kind = tool.get("type") not in (None, "custom", "function")  # such as Anthropic's own tools
    return [tool] if not field or own_kind else [_function(tool, tool[field])]


def _function(tool: Mapping[str, Any], parameters: Any) -> JSONObject:
    read_only = is_object(hints := tool.get("annotations")) and hints.get("readOnlyHint") is True
    about = {"name": tool.get("name"), "description": tool.get("description")}
    return {"type": "function", "function": {**about, "parameters": parameters, "read_only": read_only}}


def executable(source: Any, *, offered_only: bool = False) -> Executable:
    """Return a tool that an agent can run. With `offered_only`, one that cannot be run is accepted as well."""
    if isinstance(getattr(source, "tool", None), Tool) and callable(getattr(source, "run", None)):
        return cast("Executable", source)
    if inspect.isroutine(source):
        return cast("Executable", FunctionTool(source))
    for form in (_langchain, _pydantic_ai, _llama_index, _smolagents, _declared_only):
        if (tool := form(source)) is not None:
            if tool.call is None and not offered_only:
                raise UsageError(f"the tool `{tool.tool.name}` cannot be run outside its library", hint=tool.hint)
            return tool
    if isinstance(source, Tool | Mapping | type):
        hint = "pass a Python function, or a tool from `toolspeak.tools`"
        raise UsageError(f"a `{type(cast('object', source)).__name__}` only describes a tool and cannot run", hint=hint)
    hint = "pass a Python function, a pydantic model, a dict, or a tool of toolspeak, LangChain, pydantic-ai or MCP"
    raise UsageError(f"a `{type(source).__name__}` is not a tool", hint=hint)


#: Prefix of the name of a plugin whose tools are offered, in commands and in `[server_tools]`.
PLUGIN = "plugin:"


def plugin_tools(names: Iterable[str], load_plugins: str) -> list[Executable]:
    """Return the tools of the plugins `plugin:NAME`. Raises ConfigError if one is not installed or not allowed."""
    plugins = plugins_for(load_plugins)
    listed = (each for name in names if name.startswith(PLUGIN) for each in plugins.tools(name.removeprefix(PLUGIN)))
    return [executable(each) for each in listed]


class OtherTool(msgspec.Struct, frozen=True):
    tool: Tool
    call: Callable[[JSONObject], Any] | None  # its result may be awaitable
    hint: str = ""  # what to do if it cannot be called

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        assert self.call is not None
        result = self.call(arguments)
        return output_of(await result if inspect.isawaitable(result) else result)


def _langchain(source: Any) -> OtherTool | None:
    schema = getattr(source, "tool_call_schema", None)
    return None if schema is None else _other(source, schema, source.ainvoke)


def _pydantic_ai(source: Any) -> OtherTool | None:
    schema = getattr(source, "function_schema", None)
    if schema is None:
        return None
    run = None if schema.takes_ctx else FunctionTool(source.function, name=source.name).run
    call = None if run is None else partial(run, context=CallContext())
    return _other(source, schema.json_schema, call, "it takes a `RunContext`; write it as a function for toolspeak")


def _llama_index(source: Any) -> OtherTool | None:
    metadata: Any = getattr(source, "metadata", None)
    if not hasattr(metadata, "get_parameters_dict"):
        return None

    async def run(arguments: JSONObject) -> ToolOutput:
        output = await source.acall(**arguments)
        return ToolOutput(output.content, error=output.is_error)

    return _other(metadata, metadata.get_parameters_dict(), run)


def _smolagents(source: Any) -> OtherTool | None:
    inputs = getattr(source, "inputs", None)
    if not is_object(inputs) or not hasattr(source, "output_type"):
        return None
    optional = {name for name, schema in inputs.items() if is_object(schema) and schema.get("nullable")}
    schema: JSONObject = {"type": "object", "properties": inputs, "required": sorted(inputs.keys() - optional)}
    return _other(source, schema, lambda arguments: in_thread(lambda: source(**arguments)))


def _declared_only(source: Any) -> OtherTool | None:
    """Convert a tool of the OpenAI Agents SDK, or of an MCP server."""
    schema = getattr(source, "params_json_schema", None)
    if schema is not None:
        return _other(source, schema, None, "pass the function that it was made of")
    hints = getattr(source, "annotations", None)
    read_only = (getattr(hints, "read_only_hint", None) or getattr(hints, "readOnlyHint", None)) is True
    schema = getattr(source, "input_schema", getattr(source, "inputSchema", None))
    return _other(source, schema, None, "pass its server: `Agent(mcp=...)`", read_only=read_only)


def _other(
    source: Any, schema: Any, call: Callable[[JSONObject], Any] | None, hint: str = "", *, read_only: bool = False
) -> OtherTool | None:
    parameters = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema
    if not is_object(parameters):
        return None
    parameters = {key: value for key, value in parameters.items() if key not in ("title", "description")}
    tool = Tool(str(source.name), str(source.description or ""), parameters, read_only=read_only)
    return OtherTool(tool, call, hint)
