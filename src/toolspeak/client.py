"""The library's front door: `Client` and `AsyncClient`.

    client = Client("openai:my-model", base_url="http://127.0.0.1:9000/v1")
    reply = client.chat([{"role": "user", "content": "What time is it?"}], tools=[...])

A client knows one model. It turns what the caller says into a request, lets the strategy pick a plan, carries
the turn out and hands out a reply, or the events as they come.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from functools import cache, partial
from types import TracebackType
from typing import Self

import msgspec

from .config import Config, load
from .core.events import Event
from .core.types import JSONValue, Message, Tool, ToolChoice
from .engine.planning.capabilities import Capabilities, capabilities
from .engine.planning.strategy import Settings
from .engine.turn.trace import TracedReply
from .errors import ModelError, UpstreamTimeout, UsageError
from .key_value import SharedState, State
from .plugins import Plugins
from .runtime.model_resolution import Model, reach
from .runtime.probe_cache import ProbeStore, Stored
from .runtime.prober import Probes
from .runtime.sync_bridge import Portal
from .runtime.tool_memory import request_of
from .runtime.turn import AnyTurn, Told, error_after
from .runtime.turn_factory import TurnMaker, checked_templates
from .upstreams.base import DEADLINE

#: Seconds that nobody waits for, three years: no clock of an event loop need know more.
_LONGEST = 1e8

Messages = Iterable[Message | Mapping[str, JSONValue]] | str
Tools = Iterable[Tool | Mapping[str, JSONValue] | type] | None
Choice = ToolChoice | str | Mapping[str, JSONValue] | None


class AsyncStream:
    """The events of one turn, as they come. `reply` is the whole, once they have ended."""

    def __init__(
        self, turn: AnyTurn, protocol: str, remember: Callable[[list[str]], None], limit: float | None
    ) -> None:
        self._turn = turn
        self._told = Told(turn, protocol)
        self._remember = remember
        self._limit = limit  # seconds, counted from the first event that is asked for
        self._deadline: float | None = None
        self._batches = turn.batches()
        self._reply: TracedReply | None = None
        self._reader: asyncio.Task[object] | None = None  # who waits for an event right now
        self._closed: asyncio.Event | None = None  # set once nobody waits any more

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for batch in self.batches():
            for event in batch:
                if self.closed:
                    return
                yield event

    async def batches(self) -> AsyncIterator[list[Event]]:
        """The events, with those that came at the same time together."""
        if self._limit is not None and self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._limit
        try:
            while (batch := await self._next()) is not None:
                self._told.add(batch)
                yield batch
        finally:
            if self._reader is None:
                await self._batches.aclose()
        self._settle()

    async def _next(self) -> list[Event] | None:
        if self.closed:
            return None
        if self._reader is not None:
            raise UsageError("the stream is being read already", hint="read it in one place")
        self._reader = task = asyncio.current_task()
        known = DEADLINE.set(math.inf if self._deadline is None else self._deadline)
        try:
            async with asyncio.timeout_at(self._deadline):
                return await anext(self._batches, None)
        except TimeoutError:
            error = UpstreamTimeout("the turn took longer than its timeout", hint="raise `timeout`")
            raise self._with_reply(error) from None
        except asyncio.CancelledError:
            # Cancelled by `close`, and by nobody else: the turn has ended, not the task that reads it.
            if self._closed is None or task is None or task.uncancel() > 0:
                raise
            return None
        finally:
            DEADLINE.reset(known)
            self._reader = None
            if self._closed is not None:
                self._closed.set()

    def _settle(self) -> None:
        outcome = self._turn.outcome
        if outcome is None:  # it was closed before its end
            return
        self._reply = self._told.reply()
        self._remember([call.id for call in self._reply.calls])
        error = error_after(outcome)
        if error is not None and not self.closed:
            raise self._with_reply(error)

    def _with_reply(self, error: ModelError) -> ModelError:
        """The error with all that is known of the turn."""
        error.reply = self._reply or self._told.reply()
        return error

    @property
    def reply(self) -> TracedReply:
        """The whole turn; only once the events have ended."""
        if self._reply is None:
            told = "the turn was closed before its end" if self.closed else "the turn is not over"
            raise UsageError(told, hint="read the events to their end first")
        return self._reply

    @property
    def closed(self) -> bool:
        """Whether the turn was cancelled; no event comes any more."""
        return self._closed is not None

    async def close(self) -> None:
        """Cancel the turn, also while another task reads it: its loop then ends."""
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


class AsyncClient:
    """Tool calling with one model, for callers who speak asyncio.

    Args:
        model: `provider:model`, a Python function that answers messages with text, or an upstream.
        base_url: where the model is, if not at the provider's own place.
        api_key: the key to send; by default the one that the environment holds for the provider.
        protocol: what is spoken there, if not what the provider speaks: `openai`, `openai_responses`, `anthropic`,
            `gemini` or `ollama`.
        transport: `thin` or `httpx2`; by default `auto`: the first, unless the environment names a proxy.
        config: the settings to start from; by default flags, environment and files decide.
        state: where tools are remembered between turns; by default in the state file, if the configuration names
            one, else in memory.
        timeout: seconds that one turn may take.
        templates: texts of your own in place of those that teach the model, see `TEMPLATES` of `core.prompts.few_shot`.
        tenant: on whose behalf; memory and marks of tenants never meet.
        settings: anything of `Settings`, such as `mode`, `plan`, `policy`, `retries`.
    """

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
        known: Capabilities | None = None,
        **settings: JSONValue,
    ) -> None:
        config = config if config is not None else load()
        own = checked_templates(templates)
        known = known or capabilities()
        plugins = _plugins(config.load_plugins)
        plugins.extend(known)
        known.configure(*config.overrides())
        reached = reach(model, base_url, api_key, config, plugins, protocol, transport)
        changed = _changed(config.settings_for(str(reached)), settings)
        memory: State = state if state is not None else _state_of(config)
        # What `toolspeak probe` found is in the state file; what is found here is kept where everything else is.
        near = None if memory is state else config.state(near=True)
        found = ProbeStore(near) if near is not None and isinstance(memory, SharedState) else ProbeStore(memory, near)
        probes = Probes(known, found)
        secret = config.secret(memory).reveal().encode()
        turns = TurnMaker(reached, known, memory, secret, own, probes)
        self._hold(turns, changed, probes, reached.upstream.close)
        self._upstream_is_ours = reached.upstream is not model
        self._tenant = tenant
        self._timeout = _seconds(timeout)

    def _hold(self, turns: TurnMaker, settings: Settings, probes: Probes, close: Callable[[], Awaitable[None]]) -> None:
        self._turns = turns
        self._reached = turns.reached
        self._settings = settings
        self._probes = probes
        self._close = close
        self._upstream_is_ours = True
        self._tenant = ""
        self._timeout: float | None = None

    @classmethod
    def over(cls, turns: TurnMaker, settings: Settings, probes: Probes, close: Callable[[], Awaitable[None]]) -> Self:
        """A client of a model that somebody else has made ready. For the parts of toolspeak itself."""
        client = cls.__new__(cls)
        client._hold(turns, settings, probes, close)
        return client

    @property
    def model(self) -> str:
        """The name of the model, without its provider."""
        return self._reached.model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._reached})"

    async def chat(
        self,
        messages: Messages,
        tools: Tools = None,
        tool_choice: Choice = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - of the turn, which may outlive this call in a stream
        **options: JSONValue,
    ) -> TracedReply:
        """One turn, whole. `options` are settings of this turn and fields of the request, such as `temperature`."""
        stream = self._open(messages, tools, tool_choice, False, timeout, options)
        async for _ in stream.batches():
            pass
        return stream.reply

    def stream(
        self,
        messages: Messages,
        tools: Tools = None,
        tool_choice: Choice = None,
        *,
        timeout: float | None = None,
        **options: JSONValue,
    ) -> AsyncStream:
        """One turn, as it comes."""
        return self._open(messages, tools, tool_choice, True, timeout, options)

    def _open(
        self,
        messages: Messages,
        tools: Tools,
        tool_choice: Choice,
        streamed: bool,
        timeout: float | None,
        options: Mapping[str, JSONValue],
    ) -> AsyncStream:
        named = Settings.__struct_fields__
        settings = _changed(self._settings, {key: value for key, value in options.items() if key in named})
        fields = {key: value for key, value in options.items() if key not in named}
        asked = request_of(self.model, messages, tools, tool_choice, streamed, fields, self._reached.protocol)
        made = self._turns.make(asked, settings, self._tenant)
        limit = _seconds(timeout) if timeout is not None else self._timeout
        remember = partial(self._turns.conversation.remember, self._tenant, made.request)
        return AsyncStream(made.turn, self._reached.protocol, remember, limit)

    async def probe(self, *, refresh: bool = False) -> Stored | None:
        """What the model can do, found out by asking it, unless that was done lately. None: it cannot be reached."""
        return await self._probes.probe(self._reached, refresh=refresh)

    async def close(self) -> None:
        """Free the connections."""
        await self._probes.close()
        await self._close()

    async def forget(self) -> None:
        """Free what is this client's own: an upstream that the caller made may serve others."""
        await (self.close() if self._upstream_is_ours else self._probes.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


@cache
def _plugins(allow: str) -> Plugins:
    """Looked for once: what is installed does not change while a program runs."""
    return Plugins(allow)


def _state_of(config: Config) -> State:
    """The store or the state file that somebody has named; nobody expects a library to write into a file by itself."""
    named = {setting.name for setting in config.shown() if setting.value}
    return config.memory() if "store" in named or "state_file" not in named else config.state()


def _seconds(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(
            f"`timeout` must be seconds, more than none, not {timeout!r}", hint="leave it out for no limit"
        )
    return timeout if timeout < _LONGEST else None


def _changed(settings: Settings, changes: Mapping[str, JSONValue]) -> Settings:
    unknown = sorted(set(changes) - set(Settings.__struct_fields__))
    if unknown:
        known = ", ".join(Settings.__struct_fields__)
        raise UsageError(f"`{unknown[0]}` is not a setting", hint=f"settings are {known}")
    return msgspec.structs.replace(settings, **changes) if changes else settings


class _Place:
    """Where a stream is read: each event is given out once, so that two threads would get half of them each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reader: object = None
        self._thread = 0

    def enter(self, reader: object) -> None:
        """The thread that calls wants to read on. A reader may be handed from one thread to another."""
        if self._lock.acquire(blocking=False):
            here = threading.get_ident()
            if self._reader in (None, reader) or self._thread == here:
                self._reader, self._thread = reader, here
                return
            self._lock.release()
        raise UsageError("the stream is being read by another thread", hint="read it in one place")

    def leave(self, over: bool) -> None:
        """It has what it wanted; `over`: nothing more can come."""
        self._reader = None if over else self._reader
        self._lock.release()


class _Reading(Iterator[Event]):
    """One walk through a stream. When it is dropped before its end, so is the turn."""

    def __init__(self, events: Generator[Event, None, None], place: _Place) -> None:
        self._events = events
        self._place = place
        self._mark = object()  # stands for this in its place, which must not keep it alive

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
    """The events of one turn, for callers without asyncio. `reply` is the whole, once they have ended."""

    def __init__(self, owner: Client, portal: Portal, stream: AsyncStream) -> None:
        self._owner = owner  # a client that is forgotten is closed: not while this is read
        self._portal = portal
        self._stream = stream
        self._batches = stream.batches()
        self._place = _Place()

    def __iter__(self) -> Iterator[Event]:
        return _Reading(self._read(), self._place)

    def _read(self) -> Generator[Event, None, None]:
        try:
            while (batch := self._portal.run(_next(self._batches))) is not None:
                for event in batch:
                    if self._stream.closed:
                        return
                    yield event
        finally:
            self.close()

    @property
    def reply(self) -> TracedReply:
        """The whole turn; only once the events have ended."""
        return self._stream.reply

    def close(self) -> None:
        """Cancel the turn, from any thread, also while another one reads it: its loop then ends."""
        if self._portal.inside:
            self._portal.send(self._stream.close())
        elif not self._portal.closed:
            self._portal.run(self._stream.close())


async def _next(batches: AsyncIterator[list[Event]]) -> list[Event] | None:
    return await anext(batches, None)


class Client:
    """Tool calling with one model. The arguments are those of `AsyncClient`."""

    def __init__(self, model: Model, **arguments: JSONValue) -> None:
        self._client = AsyncClient(model, **arguments)
        self._portal = Portal()
        self._portal.close_with(self, self._client.forget)

    @property
    def model(self) -> str:
        """The name of the model, without its provider."""
        return self._client.model

    @property
    def inside(self) -> tuple[AsyncClient, Portal]:
        """The client behind this one, and the loop that it works in. For the parts of toolspeak itself."""
        return self._client, self._portal

    def __repr__(self) -> str:
        return repr(self._client).removeprefix("Async")

    def chat(
        self,
        messages: Messages,
        tools: Tools = None,
        tool_choice: Choice = None,
        *,
        timeout: float | None = None,
        **options: JSONValue,
    ) -> TracedReply:
        """One turn, whole. `options` are settings of this turn and fields of the request, such as `temperature`."""
        return self._portal.run(self._client.chat(messages, tools, tool_choice, timeout=timeout, **options))

    def stream(
        self,
        messages: Messages,
        tools: Tools = None,
        tool_choice: Choice = None,
        *,
        timeout: float | None = None,
        **options: JSONValue,
    ) -> Stream:
        """One turn, as it comes: iterate over it, then look at its `reply`."""
        stream = self._client.stream(messages, tools, tool_choice, timeout=timeout, **options)
        return Stream(self, self._portal, stream)

    def probe(self, *, refresh: bool = False) -> Stored | None:
        """What the model can do, found out by asking it, unless that was done lately. None: it cannot be reached."""
        return self._portal.run(self._client.probe(refresh=refresh))

    def close(self) -> None:
        """End what is under way and free the connections.

        A client that is forgotten does the same by itself, but leaves an upstream alone that it was given.
        """
        self._portal.close(self._client.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
