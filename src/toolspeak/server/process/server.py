"""The process that serves: uvicorn around the application, one process or several, from the first signal to the last.

SIGHUP makes a new gateway. SIGTERM or SIGINT ends: `/ready` says so at once, then nobody new is let in, answers under
way have their time, and what is left then ends with an error of its own protocol; a second signal ends at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import signal
import socket
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

from ...errors import ToolspeakError, UsageError
from ..app import App
from ..http.uvicorn_protocol import CarefulProtocol
from ..observe.worker_counters import Board
from ..proxy.upstream_router import Gateway
from .lifecycle import LAST_WORDS_SECONDS
from .workers import Worker, Workers

_log = logging.getLogger("toolspeak.server")
#: Connections that wait to be accepted. The system may allow fewer.
_BACKLOG = 4096
#: New objects after which garbage is looked for; a request makes some hundreds, which are gone with it.
_NEW_OBJECTS = 10_000
#: Files that are open besides connections: the log, the state, the loop, libraries.
_OTHER_FILES = 128
#: Each client may need a connection upstream.
_FILES_EACH = 2
#: As many files as a process is given at most: 100,000 clients need no more.
_MOST_FILES = 1 << 18
#: Seconds after the start in which whoever comes first is answered and nothing else is done.
_FIRST = 1.0
#: uvicorn ticks ten times a second; numbers are told once.
_TICKS = 10


class Manner(msgspec.Struct, frozen=True):
    """How a server is run."""

    workers: int = 1
    #: Seconds that answers under way may take once the server is told to end.
    drain: float = 30.0
    #: Seconds before that in which the server still listens, so that whoever watches `/ready` can turn away.
    linger: float = 0.0


class Server(uvicorn.Server):
    """uvicorn, and a new gateway whenever the process is told to look at its configuration again.

    Args:
        remake: makes the new gateway; if it cannot, the old one stays.
        worker: which of several this is.
        board: where it tells the others its numbers.
        listening: hears that clients can come and signals are heard.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        app: App,
        remake: Callable[[], Gateway],
        manner: Manner | None = None,
        worker: Worker | None = None,
        board: Board | None = None,
        listening: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._listening = listening
        self._app = app
        self._remake = remake
        self._manner = manner or Manner()
        self._worker = worker
        self._board = board
        self._reloads: set[asyncio.Task[None]] = set()
        self._in_terminal = os.isatty(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        #: When nobody new is let in any more.
        self._until: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen to clients and to SIGHUP."""
        if self._board is not None:
            await self._app.meet(self._board.folder, self._board.place)
        await super().startup(sockets)
        loop = self._loop = asyncio.get_running_loop()
        # Signals are heard by the main thread only, and not by every system.
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            loop.add_signal_handler(signal.SIGHUP, self.reload)
        if self._worker is not None:
            loop.add_reader(self._worker.parent, self._orphaned)
            self._worker.listen_to_signals()
        self._listening()
        if self._worker is None:
            loop.call_later(_FIRST, loop.run_in_executor, None, load_engine)

    # ---- another configuration

    def reload(self) -> None:
        """Look at the configuration again; whoever is being answered notices nothing."""
        if self._in_terminal and not os.isatty(0):
            # The other meaning of the signal: the terminal that we were started from is gone.
            self.wind_down()
            return
        task = asyncio.ensure_future(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        try:
            # In a thread, since it reads files and loads plugins: streams go on.
            gateway = await asyncio.to_thread(self._remake)
        except ToolspeakError as error:
            _log.error("the configuration stays as it was: %s", error)
            return
        _log.warning("the configuration was read again")
        await self._app.replace(gateway)

    # ---- the end

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to end. It is not raised again at the end, as uvicorn would: what others do at exit is done."""
        self.wind_down()

    def wind_down(self) -> None:
        """Begin to end; told so again, end at once."""
        if self._app.operation.draining:
            self.should_exit = self.force_exit = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._drop)
            return
        self._app.operation.draining = True
        if self._manner.linger > 0:
            self._until = time.monotonic() + self._manner.linger
        else:
            self.should_exit = True

    def _drop(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def _orphaned(self) -> None:
        assert self._loop is not None and self._worker is not None
        self._loop.remove_reader(self._worker.parent)
        if self._board is not None:
            board, self._board = self._board, None
            board.remove()
        self.wind_down()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if self._until is not None and time.monotonic() >= self._until:
            self.should_exit = True
        if self._board is not None and counter % _TICKS == 0:
            self._board.publish(self._app.operation.own_numbers())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; gateways that were replaced end too."""
        operation = self._app.operation
        operation.draining = True
        limit = asyncio.get_running_loop().call_later(self._manner.drain, operation.break_off)
        try:
            await super().shutdown(sockets)
        finally:
            limit.cancel()
        for task in self._reloads:
            task.cancel()
        if self._board is not None:
            self._board.publish(operation.own_numbers(ended=True))


# ---- one process or several


def serve(
    app: App,
    host: str,
    port: int,
    remake: Callable[[], Gateway],
    manner: Manner | None = None,
    listening: Callable[[int], None] = lambda port: None,
) -> int:
    """Serve until interrupted; gives the status to end with. `listening` hears the port once clients can come.

    Raises:
        UsageError: nobody can listen there.
    """
    manner = manner or Manner()
    limit = raise_file_limit()
    sockets = bound(host, port)
    ready = partial(listening, sockets[0].getsockname()[1])
    answering = partial(_answer, app, remake, manner, sockets, _most_clients(limit))
    if manner.workers == 1:
        answering(None, None, ready)
        return 0
    load_engine()  # once for all of them
    folder = Path(tempfile.mkdtemp(prefix="toolspeak-"))
    parent = os.getpid()

    def work(worker: Worker) -> None:
        answering(worker, Board(folder, worker.place), lambda: None)

    try:
        return Workers(manner.workers, work, sockets).run(ready)
    finally:
        if os.getpid() == parent:
            shutil.rmtree(folder, ignore_errors=True)


def _answer(
    app: App,
    remake: Callable[[], Gateway],
    manner: Manner,
    sockets: list[socket.socket],
    most: int | None,
    worker: Worker | None,
    board: Board | None,
    listening: Callable[[], None],
) -> None:
    """What each process does."""
    if board is not None:
        app.operation.join(board)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        lifespan="on",
        backlog=_BACKLOG,
        limit_concurrency=most,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=ceil(manner.drain + LAST_WORDS_SECONDS),
        http=CarefulProtocol,
        ws="none",
        server_header=False,
        proxy_headers=False,  # nobody asks who the client is, and looking takes time with every request
    )
    # What was loaded stays: looking through it for garbage would hold up everybody, every thousand requests.
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    Server(config, app, remake, manner, worker, board, listening).run(sockets)


def load_engine() -> None:
    """Have ready what a server needs for tools: it starts without, in half of the time, and answers all else."""
    import_module("toolspeak.engine.turn.engine")
    gc.freeze()


def bound(host: str, port: int) -> list[socket.socket]:
    """Sockets for every address that a name stands for, all with one port.

    Raises:
        UsageError: nobody can listen there.
    """
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            listener = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(listener)
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            taken = port or sockets[0].getsockname()[1]
            listener.bind((address[0], taken, *address[2:]))
            # From here on clients wait to be accepted, and none is turned away because workers are still starting.
            listener.listen(_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:  # the latter two: no port, no name
        for each in sockets:
            each.close()
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise UsageError(f"cannot listen on {host} port {port}: {reason}") from None
    return sockets


def raise_file_limit() -> int:
    """Let this process have as many open files as the system allows; gives how many, 0 where nobody knows."""
    try:
        import resource
    except ImportError:
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError) as error:
            _log.debug("the limit of open files stays at %d: %s", soft, error)
    _log.debug("up to %d files may be open", soft)
    return 0 if soft == resource.RLIM_INFINITY else soft


def _most_clients(files: int) -> int | None:
    """Connections beyond which clients are told to come back: no accept and no connection upstream ever fails for
    want of a file."""
    return max(1, (files - _OTHER_FILES) // _FILES_EACH) if files else None
