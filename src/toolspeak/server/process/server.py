"""The server process: uvicorn around the application, with one or several workers.

SIGHUP reloads the configuration. SIGTERM or SIGINT shuts down gracefully: `/ready` reports it at once, new connections
are refused, and running requests get time to finish before they end with an error in the client's protocol. A second
signal stops the server immediately.
"""

import asyncio
import errno
import gc
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from math import ceil
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn

from ...core.text import system_reason
from ...errors import ToolspeakError, UsageError
from ..app import App
from ..http.client_connection import ClientConnection
from ..observe.counters import WorkerCounters
from ..proxy.upstream_router import Gateway
from .lifecycle import FINAL_RESPONSE_SECONDS
from .workers import Worker, Workers

_log = logging.getLogger("toolspeak.server")
#: Maximum number of pending connections. The system may allow fewer.
_BACKLOG = 4096
#: Allocations between garbage collections. A request makes hundreds, most of which are freed when it ends.
_GC_THRESHOLD = 10_000
#: Seconds for which a thread that parses a long answer may keep the event loop waiting. One request may wait several
#: times.
_SWITCH_SECONDS = 0.001
#: File descriptors reserved for other purposes than connections: log, state, event loop, libraries.
_OTHER_FILES = 128
_FILES_PER_CLIENT = 2  # file descriptors per client: its own connection and one to the upstream
_MAX_FILES = 1 << 18  # upper bound for the limit on open files; enough for 100,000 clients
#: Seconds after startup before the engine is preloaded, so early requests are not delayed.
_PRELOAD_DELAY_SECONDS = 1.0
#: uvicorn calls `on_tick` this many times a second. Counters are published once a second.
_TICKS_PER_SECOND = 10


class ServerOptions(msgspec.Struct, frozen=True):
    workers: int = 1
    drain: float = 30.0  # seconds for running requests to finish during shutdown
    #: Seconds to keep accepting connections at the start of a shutdown, for load balancers that poll `/ready`.
    linger: float = 0.0


class ToolspeakServer(uvicorn.Server):
    """uvicorn with reload, graceful shutdown and shared counters.

    Args:
        make_gateway: builds the new gateway on reload; if it fails, the old gateway stays.
        worker: the worker that this process is; None for a single process.
        counters: the counters shared with the other workers.
        on_ready: called once the server accepts connections and handles signals.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        app: App,
        make_gateway: Callable[[], Gateway],
        options: ServerOptions | None = None,
        worker: Worker | None = None,
        counters: WorkerCounters | None = None,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._app = app
        self._make_gateway = make_gateway
        self._options = options or ServerOptions()
        self._worker = worker
        self._counters = counters
        self._reloads: set[asyncio.Task[None]] = set()
        self._in_terminal = os.isatty(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Time at which to stop accepting connections; None if not shutting down.
        self._linger_until: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._counters is not None:
            await self._app.join_workers(self._counters.folder, self._counters.slot)
        await super().startup(sockets)
        loop = self._loop = asyncio.get_running_loop()
        # Signal handlers work only in the main thread, and some systems lack SIGHUP.
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            loop.add_signal_handler(signal.SIGHUP, self.reload)
        if self._worker is not None:
            loop.add_reader(self._worker.parent_pipe, self._orphaned)
            self._worker.listen_to_signals()
        self._on_ready()
        if self._worker is None:
            loop.call_later(_PRELOAD_DELAY_SECONDS, loop.run_in_executor, None, load_engine)

    def reload(self) -> None:
        """Reload the configuration; running requests are not affected."""
        if self._in_terminal and not os.isatty(0):
            # The terminal was closed, which also sends SIGHUP.
            self.wind_down()
            return
        task = asyncio.ensure_future(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        try:
            # In a thread, because it reads files and loads plugins while streams continue.
            gateway = await asyncio.to_thread(self._make_gateway)
        except ToolspeakError as error:
            _log.error("keeping the previous configuration: %s", error)
            return
        _log.warning("configuration reloaded")
        await self._app.replace(gateway)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down on a signal. Unlike uvicorn, do not re-raise the signal, so exit handlers run."""
        self.wind_down()

    def wind_down(self) -> None:
        """Begin a graceful shutdown; on a second call, stop immediately."""
        if self._app.lifecycle.draining:
            self.should_exit = self.force_exit = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._abort_connections)
            return
        self._app.lifecycle.draining = True
        if self._options.linger > 0:
            self._linger_until = time.monotonic() + self._options.linger
        else:
            self.should_exit = True

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def _orphaned(self) -> None:
        assert self._loop is not None and self._worker is not None
        self._loop.remove_reader(self._worker.parent_pipe)
        if self._counters is not None:
            counters, self._counters = self._counters, None
            counters.remove()
        self.wind_down()

    async def on_tick(self, counter: int) -> bool:
        """Publish the counters and stop lingering when it is time. uvicorn calls this ten times a second."""
        if self._linger_until is not None and time.monotonic() >= self._linger_until:
            self.should_exit = True
        if self._counters is not None and counter % _TICKS_PER_SECOND == 0:
            self._counters.publish(self._app.lifecycle.own_counters())
        return await super().on_tick(counter)

    def _break_off(self) -> None:
        """End every running request with an error, and start no other."""
        for connection in self.server_state.connections:
            if isinstance(connection, ClientConnection):
                connection.break_off()
        self._app.lifecycle.break_off()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain running requests, then stop, including replaced gateways that are still closing."""
        operation = self._app.lifecycle
        operation.draining = True
        limit = asyncio.get_running_loop().call_later(self._options.drain, self._break_off)
        try:
            await super().shutdown(sockets)
        finally:
            limit.cancel()
        for task in self._reloads:
            task.cancel()
        if self._counters is not None:
            self._counters.publish(operation.own_counters(ended=True))


def serve(
    app: App,
    host: str,
    port: int,
    make_gateway: Callable[[], Gateway],
    options: ServerOptions | None = None,
    on_ready: Callable[[int], None] = lambda port: None,
) -> int:
    """Serve until interrupted; return the exit status. Raises UsageError if the server cannot listen on the address.

    `on_ready` is called with the port once connections are accepted.
    """
    options = options or ServerOptions()
    limit = raise_file_limit()
    sockets = bind_sockets(host, port)
    ready = partial(on_ready, sockets[0].getsockname()[1])

    def run_process(worker: Worker | None, counters: WorkerCounters | None, ready: Callable[[], None]) -> None:
        if counters is not None:
            app.lifecycle.join(counters)
        config = _uvicorn_config(app, options, _max_connections(limit))
        # Exclude loaded modules from garbage collection: scanning them would pause all requests.
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
        sys.setswitchinterval(_SWITCH_SECONDS)
        ToolspeakServer(config, app, make_gateway, options, worker, counters, ready).run(sockets)

    if options.workers == 1:
        run_process(None, None, ready)
        return 0
    load_engine()  # before forking, so workers share its memory
    folder = Path(tempfile.mkdtemp(prefix="toolspeak-"))
    parent = os.getpid()

    def work(worker: Worker) -> None:
        run_process(worker, WorkerCounters(folder, worker.place), lambda: None)

    try:
        return Workers(options.workers, work, sockets).run(ready)
    finally:
        if os.getpid() == parent:
            shutil.rmtree(folder, ignore_errors=True)


def _uvicorn_config(app: App, options: ServerOptions, max_connections: int | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        lifespan="on",
        backlog=_BACKLOG,
        limit_concurrency=max_connections,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=ceil(options.drain + FINAL_RESPONSE_SECONDS),
        http=ClientConnection,
        ws="none",
        server_header=False,
        proxy_headers=False,  # not needed, and it would cost time on every request
    )


def load_engine() -> None:
    """Import the tool engine. Startup does not need it and is twice as fast without it."""
    import_module("toolspeak.engine.turn.engine")
    gc.freeze()


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Listen on every address of a host name, all on the same port. Raises UsageError if that is impossible."""
    sockets: list[socket.socket] = []
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((each[0], each[4]) for each in addresses):
            listener = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(listener)
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address[0], port or sockets[0].getsockname()[1], *address[2:]))
            # From now on, connections queue and are not refused while workers start.
            listener.listen(_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:  # OverflowError: invalid port; UnicodeError: invalid name
        for each in sockets:
            each.close()
        in_use = getattr(error, "errno", 0) == errno.EADDRINUSE
        hint = "stop the program that uses it, or add --port N" if in_use else ""
        raise UsageError(f"cannot listen on {host} port {port}: {system_reason(error)}", hint=hint) from None
    return sockets


def raise_file_limit() -> int:
    """Raise the limit on open files as far as allowed. Return the new limit, or 0 if it is unknown or unlimited."""
    try:
        import resource
    except ImportError:
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            soft = target
        except (OSError, ValueError) as error:
            _log.debug("cannot raise the limit on open files above %d: %s", soft, error)
    _log.debug("limit on open files: %d", soft)
    return 0 if soft == resource.RLIM_INFINITY else soft


def _max_connections(files: int) -> int | None:
    """Return the connection limit, beyond which clients get a 503: it saves file descriptors for upstreams."""
    return max(1, (files - _OTHER_FILES) // _FILES_PER_CLIENT) if files else None
