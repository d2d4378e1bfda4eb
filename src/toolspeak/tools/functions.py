"""The `@tool` decorator: a plain Python function as a tool.

Name, annotations and docstring become the definition for the model. The model's arguments are converted to the
annotated types, and the return value to text.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_origin, get_type_hints, overload

import msgspec

from ..core.types import JSONObject, JSONValue, Media, Tool
from ..errors import ToolError, ToolTimeout, UsageError
from .base import CallContext, ToolOutput
from .function_schemas import annotation_text, convert_argument, parse_docstring, to_json, type_schemas
from .threads import in_thread, threadsafe

P = ParamSpec("P")
R = TypeVar("R")

DONE = "done"

_Kind = inspect.Parameter
_STARRED = (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    side_effects: bool = False,
    read_only: bool = False,
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    side_effects: bool = False,
    read_only: bool = False,
    timeout: float | None = None,
) -> Any:
    """Turn a function into a tool. The function can still be called directly.

    `side_effects`: the function changes something. It is then never called with guessed arguments, and its calls need
    approval if the agent has an `Approval`. `timeout` is in seconds.
    `read_only`: the function changes nothing, so its calls may run in parallel, and again after an interruption. The
    calls of a function that declares neither run one after the other, and not again without approval.
    Raises UsageError if the function cannot be described to a model.
    """
    options: dict[str, Any] = {"side_effects": side_effects, "read_only": read_only, "timeout": timeout}
    decorate: Any = functools.partial(FunctionTool, name=name, description=description, **options)
    return decorate if function is None else decorate(function)


class FunctionTool(Generic[P, R]):
    """A function that an agent can run and that can still be called directly."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str = "",
        description: str = "",
        side_effects: bool = False,
        read_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        where = _check_function(function, name)
        if side_effects and read_only:
            raise UsageError(f"{where} cannot be both `read_only` and have `side_effects`", hint="set one of them")
        functools.update_wrapper(self, function)
        if timeout is not None and not timeout > 0:
            raise UsageError(f"the timeout of {where} must be greater than 0 seconds")
        self._function = function
        self._timeout = timeout
        self._parameters = _parameters(function, where)
        docstring = parse_docstring(function.__doc__)
        self._context = tuple(each.name for each in self._parameters if each.is_context)
        filled = [each for each in self._parameters if not each.is_context]
        about = (name or function.__name__, description or docstring.description)
        self.tool = Tool(*about, _schema(filled, docstring.parameters, where), side_effects, read_only=read_only)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool `{self.tool.name}`>"

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Call the function with the model's arguments.

        Raises ToolError if the arguments do not fit, and ToolTimeout if the function took too long.
        """
        args, kwargs = self._bind(arguments, context)
        stop = threading.Event()
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return output_of(await self._invoke(functools.partial(self._function, *args, **kwargs), context, stop))
        except TimeoutError:
            if limit.expired():
                raise ToolTimeout(f"`{self.tool.name}` took longer than {self._timeout:g} seconds") from None
            raise  # raised by the function itself
        finally:
            stop.set()

    async def _invoke(self, call: Callable[[], Any], context: CallContext, stop: threading.Event) -> Any:
        function = inspect.unwrap(self._function)
        if inspect.isasyncgenfunction(function):
            return await _collect_async(call(), context.emit)
        if inspect.iscoroutinefunction(function):
            return await cast("Coroutine[Any, Any, Any]", call())
        if inspect.isgeneratorfunction(function):
            emit = threadsafe(context.emit)
            return await in_thread(lambda: _collect(call(), emit, stop))
        result = await in_thread(call)
        # A function without `async` may still return an awaitable.
        return await result if inspect.isawaitable(result) else result

    def _bind(self, arguments: JSONObject, context: CallContext) -> tuple[list[Any], dict[str, Any]]:
        """Convert JSON arguments to positional and keyword arguments."""
        unknown = arguments.keys() - {each.name for each in self._parameters} | {*self._context} & arguments.keys()
        if unknown:
            raise ToolError(f"`{self.tool.name}` has no parameter {', '.join(f'`{name}`' for name in sorted(unknown))}")
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for each in self._parameters:
            if each.is_context:
                value: Any = context
            elif each.name in arguments:
                value = self._convert(each, arguments[each.name])
            elif each.required:
                raise ToolError(f"`{self.tool.name}` needs the parameter `{each.name}`")
            elif each.positional:
                value = each.default
            else:
                continue
            if each.positional:
                args.append(value)
            else:
                kwargs[each.name] = value
        return args, kwargs

    def _convert(self, parameter: _Parameter, value: JSONValue) -> Any:
        try:
            return convert_argument(value, parameter.kind)
        except msgspec.ValidationError as error:
            raise ToolError(f"`{parameter.name}` does not fit: {error}") from None


class _Parameter(msgspec.Struct, frozen=True):
    name: str
    kind: Any
    required: bool
    default: Any
    positional: bool

    @property
    def is_context(self) -> bool:
        """Whether the agent passes a `CallContext` here. The model does not see the parameter."""
        return CallContext in (self.kind, get_origin(self.kind))


def _check_function(function: Any, name: str) -> str:
    """Check that a function can become a tool, and return its name for error messages."""
    if isinstance(function, functools.partial):
        raise UsageError("a `partial` has no name or docstring", hint="wrap it in a function")
    if isinstance(function, FunctionTool):
        raise UsageError(f"`{function.tool.name}` is already a tool")
    if isinstance(function, staticmethod | classmethod):
        raise UsageError("a static or class method cannot be decorated", hint="pass `Class.method` to `tool` instead")
    if isinstance(function, type) or not callable(function):
        raise UsageError(f"`tool` needs a function, not `{type(function).__name__}`")
    if not hasattr(function, "__name__") or not (inspect.isroutine(function)):
        raise UsageError(f"an instance of `{type(function).__name__}` has no signature", hint="pass one of its methods")
    if function.__name__ == "<lambda>" and not name:
        raise UsageError("a lambda has no name", hint="pass `name`, or write a function")
    return f"`{name or function.__name__}`"


def _parameters(function: Callable[..., Any], where: str) -> list[_Parameter]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UsageError(f"cannot read the signature of {where}: {error}") from None
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        hint = "import the types at run time, not only under `TYPE_CHECKING`"
        raise UsageError(f"cannot read the annotations of {where}: {error}", hint=hint) from None
    parameters: list[_Parameter] = []
    for at, each in enumerate(signature.parameters.values()):
        if each.kind in _STARRED:
            stars = "*" if each.kind is _Kind.VAR_POSITIONAL else "**"
            raise UsageError(f"{where} takes `{stars}{each.name}`", hint="name each parameter, or take a list or dict")
        if at == 0 and each.name in ("self", "cls"):
            hint = "make the tool from the bound method: `tool(instance.method)`"
            raise UsageError(f"{where} is an unbound method", hint=hint)
        required = each.default is _Kind.empty
        kind = hints.get(each.name, Any)
        parameters.append(_Parameter(each.name, kind, required, each.default, each.kind is _Kind.POSITIONAL_ONLY))
    return parameters


def _schema(parameters: list[_Parameter], texts: dict[str, str], where: str) -> JSONObject:
    schemas, definitions = type_schemas({each.name: each.kind for each in parameters}, where)
    properties: JSONObject = {}
    for each in parameters:
        schema = dict(schemas[each.name])
        text = annotation_text(each.kind) or texts.get(each.name, "")
        if text:
            # Older drafts of JSON Schema ignore the keywords next to `$ref`.
            schema = {"allOf": [schema], "description": text} if "$ref" in schema else {**schema, "description": text}
        if not each.required and each.default is not None:
            schema |= _default(each, where)
        properties[each.name] = schema
    whole: JSONObject = {"type": "object", "properties": properties, "additionalProperties": False}
    if required := [each.name for each in parameters if each.required]:
        whole["required"] = required
    return {**whole, "$defs": definitions} if definitions else whole


def _default(parameter: _Parameter, where: str) -> JSONObject:
    try:
        return {"default": to_json(parameter.default)}
    except (TypeError, ValueError, RecursionError):
        raise UsageError(f"the default of `{parameter.name}` in {where} cannot be converted to JSON") from None


async def _collect_async(pieces: AsyncIterator[Any], emit: Callable[[str], None]) -> str:
    texts: list[str] = []
    try:
        async for piece in pieces:
            texts.append(output_of(piece).content)
            emit(texts[-1])
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
    return "".join(texts)


def _collect(pieces: Iterator[Any], emit: Callable[[str], None], stop: threading.Event) -> str:
    """Join the output of a generator, and emit each item live. Ends early if `stop` is set."""
    texts: list[str] = []
    for piece in pieces:
        if stop.is_set():
            break
        texts.append(output_of(piece).content)
        emit(texts[-1])
    close = getattr(pieces, "close", None)
    if close is not None:
        close()
    return "".join(texts)


def output_of(value: object) -> ToolOutput:
    """Convert a function's return value to a tool result."""
    match value:
        case ToolOutput():
            return value
        case None:
            return ToolOutput(DONE)
        case str():
            return ToolOutput(value)
        case bytes() | bytearray():
            return ToolOutput(bytes(value).decode(errors="replace"))
        case Media():
            return ToolOutput("", parts=(value,))
        case _:
            try:
                return ToolOutput(msgspec.json.encode(to_json(value)).decode())
            except (TypeError, ValueError, RecursionError) as error:
                raise ToolError(f"the tool returned something that is not JSON: {error}") from None
