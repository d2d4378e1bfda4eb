"""`Client` and `AsyncClient`: the library's main interface.

    client = Client("openai:my-model", base_url="http://127.0.0.1:9000/v1")
    reply = client.chat([{"role": "user", "content": "What time is it?"}], tools=[...])

A client is bound to one model. It builds a request from the caller's arguments, chooses a plan, runs the turn, and
returns a reply or a stream of events.
"""

import asyncio
import math
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from functools import lru_cache, partial, wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Self, Unpack, cast

import msgspec

from .config import Config, load
from .core.events import Event
from .core.text import suggestion
from .core.types import JSONValue, Message, ToolChoice
from .engine.planning.capabilities import Capabilities, capabilities
from .engine.planning.strategy import Settings
from .engine.turn.trace import TracedReply
from .errors import ModelError, UpstreamTimeout, UsageError
from .key_value import SharedState, State
from .plugins import plugins_for
from .runtime.model_resolution import InterpreterModel, Model, resolve_interpreter, resolve_model
from .runtime.options import SETTINGS, SettingOptions, TurnOptions, list_options, split_options
from .runtime.probe_cache import ProbeStore, StoredProbe
from .runtime.prober import ProbeScheduler
from .runtime.sync_bridge import SyncBridge
from .runtime.tool_memory import build_request
from .runtime.turn import AnyTurn, EngineTurn, ReplyCollector, error_after
from .runtime.turn_factory import TurnFactory, checked_templates
from .tools.other_forms import AnyTool, declarations
from .upstreams.base import DEADLINE
from .upstreams.http.retry import Retry
from .upstreams.http.thin_transport import HttpUpstream

#: About three years. Longer timeouts are ignored, because they could overflow the clock of the event loop.
_MAX_SECONDS = 1e8

_MAX_SETTINGS = 64  # maximum number of different settings for single turns that a client remembers

Messages = Iterable[Message | Mapping[str, JSONValue]] | str
Tools = Iterable[AnyTool] | None
Choice = ToolChoice | str | Mapping[str, JSONValue] | None
P = ParamSpec("P")

#: Names of the other arguments of `chat`, for the search for misspelt ones.
_CHAT_ARGUMENTS = ("messages", "tools", "tool_choice", "timeout")


class AsyncStream:
    """The events of one turn as they arrive. The complete `reply` is available after the last event."""

    def __init__(
        self, turn: AnyTurn, protocol: str, remember: Callable[[list[str]], None], limit: float | None
    ) -> None:
        self.turn = turn
        self._collector = ReplyCollector(turn, protocol)
        self._remember = remember
        self._limit = limit  # in seconds after the first read
        self._deadline: float | None = None
        self._batches = turn.batches()
        self._reply: TracedReply | None = None
        self._reader: asyncio.Task[object] | None = None  # the task that is waiting for an event
        self._closed: asyncio.Event | None = None  # set when that task has stopped waiting

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for batch in self.batches():
            for event in batch:
                if self.closed:
                    return
                yield event

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Yield the events in batches, as they arrived."""
        if self._limit is not None and self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._limit
        try:
            while (batch := await self._next()) is not None:
                self._collector.add(batch)
                yield batch
        finally:
            if self._reader is None:
                await self._batches.aclose()
        self._settle()

    async def _next(self) -> list[Event] | None:
        if self.closed:
            return None
        if self._reader is not None:
            raise UsageError("the stream is already being read", hint="use only one reader per stream")
        self._reader = task = asyncio.current_task()
        token = DEADLINE.set(math.inf if self._deadline is None else self._deadline)
        try:
            async with asyncio.timeout_at(self._deadline):
                return await anext(self._batches, None)
        except TimeoutError:
            raise self._timed_out() from None
        except asyncio.CancelledError:
            # If only `close` cancelled the read, end the turn, but not the task that is reading.
            if self._closed is None or task is None or task.uncancel() > 0:
                raise
            return None
        finally:
            DEADLINE.reset(token)
            self._reader = None
            if self._closed is not None:
                self._closed.set()

    async def _complete(self, *, by_callbacks: bool) -> TracedReply:
        """Run the turn to its end and return the reply. With `by_callbacks`, as far as possible without a task."""
        if self._limit is not None:
            self._deadline = asyncio.get_running_loop().time() + self._limit
        run, turn = _CallbackRun(self._collector), self.turn
        if by_callbacks and type(turn) is EngineTurn and turn.start_now(run):
            try:
                async with asyncio.timeout_at(self._deadline):
                    over = await run.over
            except BaseException as error:
                turn.abort()
                raise (self._timed_out() if isinstance(error, TimeoutError) else error) from None
            if over:
                self._settle()
                return self.reply
        async for _ in self.batches():
            pass
        return self.reply

    def _settle(self) -> None:
        outcome = self.turn.outcome
        if outcome is None:  # closed early
            return
        self._reply = self._collector.reply()
        self._remember([call.id for call in self._reply.calls])
        error = error_after(outcome)
        if error is not None and not self.closed:
            raise self._with_reply(error)

    def _timed_out(self) -> ModelError:
        return self._with_reply(UpstreamTimeout("the turn exceeded its timeout", hint="increase `timeout`"))

    def _with_reply(self, error: ModelError) -> ModelError:
        """Attach the reply so far to the error."""
        error.reply = self._reply or self._collector.reply()
        return error

    @property
    def reply(self) -> TracedReply:
        """The complete reply; available after the last event."""
        if self._reply is None:
            message = "the stream was closed before the end of the turn" if self.closed else "the turn has not ended"
            raise UsageError(message, hint="read all events first")
        return self._reply

    @property
    def closed(self) -> bool:
        """Whether the turn was cancelled, so no further events will arrive."""
        return self._closed is not None

    async def close(self) -> None:
        """Cancel the turn. If another task is iterating over the stream, its loop ends."""
        first = self._closed is None
        ended = self._closed = self._closed or asyncio.Event()
        reader = self._reader
        if reader is None:
            await self._batches.aclose()
            return
        if first:
            reader.cancel()
        if reader is not asyncio.current_task():
            await ended.wait()


class _CallbackRun:
    """Receives the events of a turn that runs without a task, and wakes the caller once, at its end."""

    is_paused = False

    def __init__(self, collector: ReplyCollector) -> None:
        self.receive = collector.add
        #: Whether the turn has ended; False if the rest of it needs a task.
        self.over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def turn_ended(self) -> None:
        if not self.over.done():
            self.over.set_result(True)

    def must_wait(self) -> None:
        if not self.over.done():
            self.over.set_result(False)

    def turn_broke(self) -> None:
        if not self.over.done():
            self.over.set_exception(cast("Exception", sys.exception()))


class AsyncClient:
    """Tool calling with one model, with an asyncio interface.

    Args:
        model: `provider:model`, a Python function that answers messages with text, or an upstream.
        base_url: the base URL of the API; by default the provider's own.
        api_key: the API key; by default the provider's key from the environment.
        protocol: the API protocol: `openai`, `openai_responses`, `anthropic`, `gemini` or `ollama`; by default the
            provider's own.
        transport: `thin`, `httpx2` or `auto`. The default, `auto`, is `thin` unless the environment sets a proxy.
        config: the base configuration; by default loaded from the environment and files.
        state: where to remember tools between turns; by default in the configured state file or store, otherwise in
            memory.
        timeout: timeout per turn in seconds.
        templates: custom prompt texts; see `TEMPLATES` in `engine.prompting.templates`.
        tenant: name that separates this client's memory and nonces from those of other tenants.
        headers: HTTP headers to send with every request.
        max_retries: maximum number of retries of a request that failed in transit; by default 2. `retries` is for
            invalid answers.
        settings: any field of `Settings`, such as `mode`, `plan`, `policy` or `retries`.
    """

    @list_options(SettingOptions)
    def __init__(
        self,
        model: Model,
        *,
        base_url: str = "",
        api_key: str = "",
        protocol: str = "",
        transport: str = "",
        config: Config | None = None,
        state: State | None = None,
        timeout: float | None = None,
        tenant: str = "",
        templates: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_retries: int | None = None,
        known: Capabilities | None = None,
        **settings: Unpack[SettingOptions],
    ) -> None:
        _merge_settings(Settings(), **settings)  # a misspelt `base_url` is an error before its consequences are
        config = config if config is not None else load()
        own = checked_templates(templates)
        known = known or capabilities()
        plugins = plugins_for(config.load_plugins)
        plugins.extend(known)
        known.configure(*config.overrides())
        sending = (headers, None if max_retries is None else _retry(max_retries))
        options = (base_url, api_key, config, plugins, protocol, transport)
        resolved = resolve_model(model, *options, *sending, needs_key=True)
        merged = _merge_settings(config.settings_for(str(resolved)), **settings)
        memory = _memory(config) if state is None else state
        # The configured state contains the results of `toolspeak probe`. New results go where tools are remembered.
        configured_state = None if memory is state else config.state(cached=True)
        probe_store = (
            ProbeStore(configured_state)
            if configured_state is not None and isinstance(memory, SharedState)
            else ProbeStore(memory, configured_state)
        )
        probes = ProbeScheduler(known, probe_store)
        secret = config.secret(memory).reveal().encode()
        interpreter = InterpreterModel(partial(resolve_interpreter, config), known)
        turns = TurnFactory(
            resolved, known, memory, secret, own, probes, learning=probes.learning, interpreter=interpreter
        )
        self._set_up(turns, merged, probes, resolved.upstream.close)
        self._interpreter = interpreter
        self._upstream_is_ours = resolved.upstream is not model
        self._tenant = tenant
        self._timeout = _seconds(timeout)

    def _set_up(
        self, turns: TurnFactory, settings: Settings, probes: ProbeScheduler, close: Callable[[], Awaitable[None]]
    ) -> None:
        self._turns = turns
        self._resolved = turns.resolved
        self._settings = settings
        # Options with the same settings yield the same object, so they are checked only once.
        self._changed_settings = lru_cache(_MAX_SETTINGS, typed=True)(partial(_merge_settings, settings))
        self._probes = probes
        self._close = close
        self._interpreter: InterpreterModel | None = None
        self._upstream_is_ours = True
        self._tenant = ""
        self._timeout: float | None = None

    @classmethod
    def over(
        cls, turns: TurnFactory, settings: Settings, probes: ProbeScheduler, close: Callable[[], Awaitable[None]]
    ) -> Self:
        """Create a client from existing components. For internal use."""
        client = cls.__new__(cls)
        client._set_up(turns, settings, probes, close)
        return client

    @property
    def model(self) -> str:
        """The model's name without its provider."""
        return self._resolved.model

    @property
    def settings(self) -> Settings:
        """The settings of every turn."""
        return self._settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._resolved})"

    @list_options(TurnOptions)
    async def chat(
        self,
        messages: Messages,
        tools: Tools = None,
        tool_choice: Choice = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - limits the turn, which can outlive this call in a stream
        **options: Unpack[TurnOptions],
    ) -> TracedReply:
        """Run one turn. `options` are settings for this turn, or request fields such as `temperature`."""
        stream = self._open(messages, tools, tool_choice, False, timeout, options)
        is_plain = type(self._resolved.upstream) is HttpUpstream  # a subclass may do more with a request than send it
        return await stream._complete(by_callbacks=is_plain)  # pyright: ignore[reportPrivateUsage]

    @list_options(TurnOptions)
    def stream(
        self,
        messages: Messages,
        tools: Tools = None,
        tool_choice: Choice = None,
        *,
        timeout: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> AsyncStream:
        """Run one turn and return its events as a stream."""
        return self._open(messages, tools, tool_choice, True, timeout, options)

    async def read_ahead(self, messages: Messages, tools: Tools = None) -> None:
        """Let the embedded model read the tools before the first question, which is then answered sooner.

        `messages` holds the instructions and any question. Other models are not asked anything.
        """
        turn = self._open(messages, tools, None, True, None, {}).turn
        if isinstance(turn, EngineTurn):
            await turn.read_ahead()

    def _open(
        self,
        messages: Messages,
        tools: Tools,
        tool_choice: Choice,
        streamed: bool,
        timeout: float | None,
        options: Mapping[str, Any],
    ) -> AsyncStream:
        settings, fields = self._split(options) if options else (self._settings, options)
        declared = declarations(tools)
        request = build_request(self.model, messages, declared, tool_choice, streamed, fields, self._resolved.protocol)
        prepared = self._turns.make(request, settings, self._tenant)
        limit = _seconds(timeout) if timeout is not None else self._timeout
        remember = partial(self._turns.tool_memory.remember, self._tenant, prepared.request)
        return AsyncStream(prepared.turn, self._resolved.protocol, remember, limit)

    def _split(self, options: Mapping[str, Any]) -> tuple[Settings, Mapping[str, JSONValue]]:
        """Separate settings from request fields."""
        changes, fields = split_options(options, _CHAT_ARGUMENTS)
        try:
            return self._changed_settings(**changes), fields
        except TypeError:  # a value that has no hash
            return _merge_settings(self._settings, **changes), fields

    @property
    def parallel(self) -> bool:
        """Whether the settings and the model's profile allow several calls at a time."""
        return self._settings.parallel and self._turns.look_up().profile.parallel

    async def probe(self, *, refresh: bool = False) -> StoredProbe | None:
        """Probe the model's capabilities, or return a recent result. Returns None if the model is unreachable."""
        return await self._probes.probe(self._resolved, refresh=refresh)

    async def close(self) -> None:
        """Close all connections."""
        await self._close_own()
        await self._close()

    async def forget(self) -> None:
        """Close everything that this client created. An upstream passed in by the caller stays open."""
        await (self.close() if self._upstream_is_ours else self._close_own())

    async def _close_own(self) -> None:
        await self._probes.close()
        if self._interpreter is not None:
            await self._interpreter.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _memory(config: Config) -> State:
    """Open the memory of a client. A library should not write files unasked, so only a configured file is used."""
    names = {setting.name for setting in config.effective_settings() if setting.value}
    return config.memory() if "store" in names or "state_file" not in names else config.state()


def _seconds(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"`timeout` must be a positive number of seconds, not {timeout!r}"
        raise UsageError(message, hint="omit it to disable the timeout")
    return timeout if timeout < _MAX_SECONDS else None


def _merge_settings(settings: Settings, /, **changes: Any) -> Settings:
    for name in changes.keys() - SETTINGS:
        elsewhere = f"`{name}` is an argument of `chat` and `stream`" if name in TurnOptions.__annotations__ else ""
        names = (*list(signature(AsyncClient.__init__).parameters)[1:], *SETTINGS)
        raise UsageError(f"unknown argument `{name}`", hint=elsewhere or suggestion(name, names))
    return msgspec.structs.replace(settings, **changes) if changes else settings


def _retry(most: int) -> Retry:
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"`max_retries` must be a whole number of at least 0, not {most!r}")
    return Retry(most=most)


class _SingleReader:
    """Ensures that only one thread reads a stream, because two readers would each miss some of the events."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reader: object = None
        self._thread = 0

    def enter(self, reader: object) -> None:
        """Start reading in the current thread. An iterator may be passed from one thread to another."""
        if self._lock.acquire(blocking=False):
            here = threading.get_ident()
            if self._reader in (None, reader) or self._thread == here:
                self._reader, self._thread = reader, here
                return
            self._lock.release()
        raise UsageError("another thread is reading the stream", hint="use only one reader per stream")

    def leave(self, over: bool) -> None:
        """Stop reading. `over`: whether no further events can arrive."""
        self._reader = None if over else self._reader
        self._lock.release()


class _EventIterator(Iterator[Event]):
    """Iterator over a stream. If it is discarded early, the turn is cancelled."""

    def __init__(self, events: Generator[Event, None, None], place: _SingleReader) -> None:
        self._events = events
        self._place = place
        self._mark = object()  # identifies this iterator without keeping it alive

    def __next__(self) -> Event:
        self._place.enter(self._mark)
        over = True
        try:
            event = next(self._events)
            over = False
            return event
        finally:
            self._place.leave(over)


class Stream:
    """The events of one turn, with a synchronous interface. The complete `reply` is available after the last event."""

    def __init__(self, owner: "Client", portal: SyncBridge, stream: AsyncStream) -> None:
        self._owner = owner  # keeps the client alive, because an unreferenced client is closed
        self._bridge = portal
        self._stream = stream
        self._batches = stream.batches()
        self._place = _SingleReader()

    def __iter__(self) -> Iterator[Event]:
        return _EventIterator(self._read(), self._place)

    def _read(self) -> Generator[Event, None, None]:
        try:
            while (batch := self._bridge.run(_next(self._batches))) is not None:
                for event in batch:
                    if self._stream.closed:
                        return
                    yield event
        finally:
            self.close()

    @property
    def reply(self) -> TracedReply:
        """The complete reply; available after the last event."""
        return self._stream.reply

    def close(self) -> None:
        """Cancel the turn, from any thread. If another thread is iterating over the stream, its loop ends."""
        if self._bridge.inside:
            self._bridge.spawn(self._stream.close())
        elif not self._bridge.closed:
            self._bridge.run(self._stream.close())


async def _next(batches: AsyncIterator[list[Event]]) -> list[Event] | None:
    return await anext(batches, None)


def _with_arguments_of(
    constructor: Callable[Concatenate[AsyncClient, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Give a constructor the arguments of another one, for type checkers and `inspect`."""
    return wraps(constructor, assigned=())


class Client:
    """Tool calling with one model. Takes the same arguments as `AsyncClient`."""

    @_with_arguments_of(AsyncClient.__init__)
    def __init__(self, model: Model, **arguments: Any) -> None:
        self._client = AsyncClient(model, **arguments)
        self._bridge = SyncBridge()
        self._bridge.close_with(self, self._client.forget)

    @property
    def model(self) -> str:
        """The model's name without its provider."""
        return self._client.model

    @property
    def inside(self) -> tuple[AsyncClient, SyncBridge]:
        """The underlying asynchronous client and its event loop. For internal use."""
        return self._client, self._bridge

    def __repr__(self) -> str:
        return repr(self._client).removeprefix("Async")

    @list_options(TurnOptions)
    def chat(
        self,
        messages: Messages,
        tools: Tools = None,
        tool_choice: Choice = None,
        *,
        timeout: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> TracedReply:
        """Run one turn. `options` are settings for this turn, or request fields such as `temperature`."""
        return self._bridge.run(self._client.chat(messages, tools, tool_choice, timeout=timeout, **options))

    @list_options(TurnOptions)
    def stream(
        self,
        messages: Messages,
        tools: Tools = None,
        tool_choice: Choice = None,
        *,
        timeout: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> Stream:
        """Run one turn as a stream. Iterate over the stream, then read its `reply`."""
        stream = self._client.stream(messages, tools, tool_choice, timeout=timeout, **options)
        return Stream(self, self._bridge, stream)

    def probe(self, *, refresh: bool = False) -> StoredProbe | None:
        """Probe the model's capabilities, or return a recent result. Returns None if the model is unreachable."""
        return self._bridge.run(self._client.probe(refresh=refresh))

    def close(self) -> None:
        """Cancel running turns and close all connections.

        Garbage collection also closes a client, but an upstream passed in by the caller then stays open.
        """
        self._bridge.close(self._client.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
