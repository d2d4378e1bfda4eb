"""RPC between worker processes, to query each other's recorded requests, metrics and probes.

Each worker listens on a Unix socket in the counters folder, which only its owner can access. A call is one connection
that carries JSON in both directions. Dead workers are skipped; workers that do not respond in time are counted as late.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from ...core.types import JSONObject, JSONValue

_log = logging.getLogger("toolspeak.server")
_SUFFIX = ".ask"  # suffix of a socket's file name, after the worker number
#: Call timeout. Even a worker that is busy with a stream responds within milliseconds.
_TIMEOUT_SECONDS = 3.0
#: Maximum size of a call. Responses need no limit: they are bounded by what a worker stores.
_MAX_REQUEST_BYTES = 64 * 1024
_MAX_PATH_BYTES = 100  # maximum length of a socket path that every system accepts

RpcHandler: TypeAlias = Callable[[str, JSONObject], Awaitable[JSONValue]]


class WorkerRpc:
    """Calls to the other workers, and the handler for calls from them, which returns None if it has no result.

    `folder` contains the sockets of all workers, and `place` is the number of this one.
    """

    def __init__(self, folder: Path, place: int, handler: RpcHandler) -> None:
        self._folder = folder
        self._name = f"{place}{_SUFFIX}"
        self._handler = handler
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        with suppress(FileNotFoundError):  # remove the socket of the previous worker
            (self._folder / self._name).unlink()
        try:
            with _reachable(self._folder) as folder:
                self._server = await asyncio.start_unix_server(self._handle, str(folder / self._name))
        except OSError as error:  # not fatal: the worker can still serve clients
            _log.warning("cannot listen for calls from other workers: %s", error)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                (self._folder / self._name).unlink()

    async def call_others(self, what: str, about: JSONObject) -> tuple[list[JSONValue], int]:
        """Call all other workers. Return their results and the number of workers that did not respond in time."""
        payload = msgspec.json.encode((what, about))
        names = [path.name for path in sorted(self._folder.glob(f"*{_SUFFIX}")) if path.name != self._name]
        results = await asyncio.gather(*(self._call(name, payload) for name in names), return_exceptions=True)
        late = sum(isinstance(each, TimeoutError) for each in results)
        return [each for each in results if each is not None and not isinstance(each, BaseException)], late

    async def _call(self, name: str, payload: bytes) -> JSONValue:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            with _reachable(self._folder) as folder:
                reader, writer = await asyncio.open_unix_connection(str(folder / name))
            try:
                writer.write(payload)
                writer.write_eof()
                return msgspec.json.decode(await reader.read())
            finally:
                writer.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            what, about = msgspec.json.decode(await _read_request(reader), type=tuple[str, JSONObject])
            writer.write(msgspec.json.encode(await self._handler(what, about)))
            await writer.drain()
        except OSError:  # the caller has stopped waiting
            pass
        except Exception:
            _log.exception("a call from another worker failed")
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size <= _MAX_REQUEST_BYTES and (piece := await reader.read(_MAX_REQUEST_BYTES)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


@contextmanager
def _reachable(folder: Path) -> Generator[Path]:
    """Yield a path to the folder that is short enough for a socket, through /proc if necessary."""
    if len(os.fsencode(folder)) <= _MAX_PATH_BYTES - len(_SUFFIX) - 4:
        yield folder
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
