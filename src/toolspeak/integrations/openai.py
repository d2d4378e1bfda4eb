"""OpenAI's client library: `wrap` gives its clients emulated tool calls, `openai_client` makes one for any model.

Requests for chat completions are answered in this process, so everything that the library builds on them works as
well: `create`, `parse`, `stream` and its exceptions. `wrap` passes all other requests on unchanged.
"""

import inspect
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias, TypeVar, Unpack, cast

import msgspec

from ..client import AsyncClient, AsyncStream, Client
from ..core.events import Event
from ..core.types import JSONObject, Request
from ..errors import ToolspeakError, UpstreamError, UpstreamTimeout, UsageError
from ..protocols import openai_chat
from ..runtime.options import SettingOptions
from ..upstreams.base import error_of, shorten
from ..upstreams.function import FunctionUpstream
from . import AnyModel, Runner, close, extra

with extra("openai"):
    import openai

    http: Any = import_module("httpx2" if int(openai.__version__.split(".")[0]) >= 3 else "httpx")

C = TypeVar("C")
#: Returns what runs the turns of a model.
RunnerFor: TypeAlias = Callable[[str], Runner]

#: Fields of a request that are not passed as `extra_body`.
_OWN_FIELDS = frozenset("messages tools tool_choice parallel_tool_calls model stream functions function_call".split())
#: Internal request field: the headers, the query and the timeout of one call of a client that is wrapped.
_CALL_FIELD = "toolspeak_call"
_NOT_AVAILABLE = b'{"error":{"message":"toolspeak answers chat completions only"}}'
_END = b"data: [DONE]\n\n"
#: Headers that the client which is wrapped sends by itself.
_CLIENT_HEADERS = frozenset(
    "accept accept-encoding api-key authorization connection content-length content-type cookie host x-api-key".split()
)


def wrap(client: C, **settings: Unpack[SettingOptions]) -> C:
    """Return an OpenAI client that gives its models emulated tool calls, with the interface of the given client.

    Args:
        client: an `OpenAI` or `AsyncOpenAI` client, or any client that has `chat.completions.create`.
        settings: any field of `Settings`, such as `mode` or `plan`.
    """
    create = getattr(getattr(getattr(client, "chat", None), "completions", None), "create", None)
    if create is None:
        raise UsageError(f"a `{type(client).__name__}` has no `chat.completions.create`", hint="pass an OpenAI client")
    is_async = inspect.iscoroutinefunction(inspect.unwrap(create))

    @lru_cache
    def runner_for(model: str) -> Runner:
        upstream = _ClientUpstream(model, create, is_async, str(getattr(client, "base_url", "")))
        return Runner((AsyncClient if is_async else Client)(upstream, **settings), {})

    if isinstance(client, openai.OpenAI | openai.AsyncOpenAI):
        return cast("Any", client).copy(http_client=_http_client(is_async, _Transport(runner_for, client)))
    return cast("C", _client(runner_for, is_async))


def openai_client(model: AnyModel, **arguments: Any) -> openai.OpenAI:
    """Return a client of OpenAI's library that asks the given model. Takes the arguments of `Client`."""
    runner = Runner(model, arguments)
    return _client(lambda name: runner, is_async=False)


def async_openai_client(model: AnyModel, **arguments: Any) -> openai.AsyncOpenAI:
    """Return an asynchronous client of OpenAI's library that asks the given model. Takes the arguments of `Client`."""
    runner = Runner(model, arguments)
    return _client(lambda name: runner, is_async=True)


def _client(runner_for: RunnerFor, is_async: bool) -> Any:
    http_client = _http_client(is_async, _Transport(runner_for, None))
    make = openai.AsyncOpenAI if is_async else openai.OpenAI
    return make(api_key="unused", base_url="http://toolspeak.invalid/v1", http_client=http_client, max_retries=0)


def _http_client(is_async: bool, transport: "_Transport") -> Any:
    return (http.AsyncClient if is_async else http.Client)(transport=transport)


class _ClientUpstream(FunctionUpstream):
    """An upstream that calls `create` of a client of OpenAI's library."""

    def __init__(self, model: str, create: Callable[..., Any], is_async: bool, base_url: str) -> None:
        super().__init__(self._events_async if is_async else self._events)
        self.model, self.name, self.base_url = model, model, base_url
        self.provider = "openai" if base_url else self.provider
        self._create = create
        names = inspect.signature(inspect.unwrap(create)).parameters
        self._names = names.keys() if "extra_body" in names else None

    def _arguments(self, request: Request) -> JSONObject:
        fields: JSONObject = msgspec.json.decode(openai_chat.encode_request(request))
        call = fields.pop(_CALL_FIELD, {})
        if "timeout" in call:
            call["timeout"] = http.Timeout(**call["timeout"])
        if self._names is not None:
            foreign = {name: fields.pop(name) for name in fields.keys() - self._names}
            call["extra_body"] = foreign or None
        return fields | call

    def _events(self, request: Request) -> Iterator[Event]:
        decoder = openai_chat.ReplyDecoder(stream=True)
        try:
            answer = self._create(**self._arguments(request))
            for chunk in answer if request.stream else (answer,):
                yield from decoder.feed(_frame(chunk))
        except Exception as error:
            raise _upstream_error(error) from error
        yield from (*decoder.feed(_END), *decoder.close())

    async def _events_async(self, request: Request) -> AsyncIterator[Event]:
        decoder = openai_chat.ReplyDecoder(stream=True)
        try:
            answer = await self._create(**self._arguments(request))
            async for chunk in answer if request.stream else _only(answer):
                for event in decoder.feed(_frame(chunk)):
                    yield event
        except Exception as error:
            raise _upstream_error(error) from error
        for event in (*decoder.feed(_END), *decoder.close()):
            yield event


async def _only(answer: Any) -> AsyncIterator[Any]:
    yield answer


def _frame(value: Any) -> bytes:
    """Encode a chunk, or a whole answer, as an event of a stream."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", exclude_unset=True, warnings=False)
    return b"data: %b\n\n" % msgspec.json.encode(value)


def _upstream_error(error: Exception) -> UpstreamError:
    status, response = getattr(error, "status_code", None), getattr(error, "response", None)
    if isinstance(status, int) and response is not None:
        return error_of(openai_chat.decode_error(status, response.content, response.headers))
    kind = UpstreamTimeout if "Timeout" in type(error).__name__ else UpstreamError
    return kind(shorten(f"{type(error).__name__}: {error}"))


class _Exchange:
    """One request for a chat completion."""

    def __init__(self, runner_for: RunnerFor, request: Any, is_wrapped: bool) -> None:
        self._body: JSONObject = msgspec.json.decode(request.content)
        self._call = _call_of(request) if is_wrapped else {}
        self.runner = runner_for(str(self._body.get("model")))
        self._naming: dict[str, Any] = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time())}
        self._naming["model"] = self.runner.client.model

    async def response(self) -> Any:
        """Run the turn: to its end, or to the first bytes of a stream."""
        try:
            request = openai_chat.decode_request(self._body)
            fields = {name: value for name, value in self._body.items() if name not in _OWN_FIELDS}
            options = {name: value for name, value in self.runner.options.items() if name not in fields}
            options["extra_body"] = {**options.get("extra_body", {}), **fields, **self._call}
            turn = (list(request.messages), request.tools, request.tool_choice)
            if not request.stream:
                reply = await self.runner.client.chat(*turn, **options)
                return _response(200, openai_chat.encode_reply(reply, request, **self._naming))
            rest = self._chunks(request, self.runner.client.stream(*turn, **options))
            content = _Content(self.runner, await anext(rest), rest)
            return http.Response(200, headers={"content-type": "text/event-stream"}, stream=content)
        except ToolspeakError as error:
            return _response(*openai_chat.encode_error(error))

    async def _chunks(self, request: Request, stream: AsyncStream) -> AsyncGenerator[bytes, None]:
        encoder = openai_chat.ReplyEncoder(request, **self._naming)
        is_open = False
        try:
            async for batch in stream.batches():
                outcome = stream.turn.outcome
                # A turn that fails before its first bytes is an error with a status.
                if (outcome is None or outcome.failure is None) and (data := encoder.encode(batch)):
                    is_open = True
                    yield data
        except ToolspeakError as error:
            if not is_open:
                raise
            yield b"data: %b\n\n" % openai_chat.encode_error(error)[1]
        else:
            yield encoder.close()
        finally:
            await stream.close()


class _Content(http.SyncByteStream, http.AsyncByteStream):
    """The bytes of a stream whose first ones have arrived."""

    def __init__(self, runner: Runner, first: bytes, rest: AsyncGenerator[bytes, None]) -> None:
        self._runner, self._first, self._rest = runner, first, rest

    def __iter__(self) -> Generator[bytes, None, None]:
        yield self._first
        yield from self._runner.iterate(self._rest)

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        yield self._first
        async for data in self._runner.iterate_async(self._rest):
            yield data

    def close(self) -> None:
        self._runner.run(close(self._rest))

    async def aclose(self) -> None:
        await self._runner.run_async(close(self._rest))


class _Transport(http.BaseTransport, http.AsyncBaseTransport):
    """Answers the requests of a client. Those that are not for chat completions go to the client that is wrapped."""

    def __init__(self, runner_for: RunnerFor, wrapped: Any) -> None:
        self._runner_for, self._wrapped = runner_for, wrapped

    def handle_request(self, request: Any) -> Any:
        if not request.url.path.endswith("/chat/completions"):
            return self._wrapped._client.send(request, stream=True) if self._wrapped else _response(404, _NOT_AVAILABLE)
        request.read()
        exchange = _Exchange(self._runner_for, request, self._wrapped is not None)
        try:
            return exchange.runner.run(exchange.response())
        except UsageError as error:
            return _response(*openai_chat.encode_error(error))

    async def handle_async_request(self, request: Any) -> Any:
        if not request.url.path.endswith("/chat/completions"):
            send = self._wrapped and self._wrapped._client.send
            return await send(request, stream=True) if send else _response(404, _NOT_AVAILABLE)
        await request.aread()
        exchange = _Exchange(self._runner_for, request, self._wrapped is not None)
        return await exchange.runner.run_async(exchange.response())

    def close(self) -> None:
        if self._wrapped is not None:
            self._wrapped.close()

    async def aclose(self) -> None:
        if self._wrapped is not None:
            await self._wrapped.close()


def _call_of(request: Any) -> JSONObject:
    """Return what the client that is wrapped needs to know about a call besides its body."""
    headers = {name: value for name, value in request.headers.items() if name not in _CLIENT_HEADERS}
    timeout = request.extensions.get("timeout")
    call = {"extra_headers": headers, "extra_query": dict(request.url.params), "timeout": timeout}
    return {_CALL_FIELD: {name: value for name, value in call.items() if value}}


def _response(status: int, body: bytes) -> Any:
    headers = {"content-type": "application/json", "x-should-retry": "false"}  # toolspeak retries by itself
    return http.Response(status, headers=headers, content=body)
