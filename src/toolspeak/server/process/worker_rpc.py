"""The workers beside this one, each of which can be asked what it alone knows: its requests, its minutes, its probe.

Each listens at a socket of its own in the folder of the board, which only its owner can enter. A question is one
connection: JSON there until the end, JSON back until the end. Nothing is asked and nothing waits unless somebody
looks. Who has died is not there, and what it knew is gone; who does not answer in time is told of as late.
"""

from __future__ import annotations

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
#: How the socket of a worker is called behind its place.
_ENDING = ".ask"
#: Seconds for an answer: one that is busy with a stream answers in some milliseconds.
_PATIENCE = 3.0
#: What is asked is short. What is told is bounded by what a worker keeps.
_LARGEST_QUESTION = 64 * 1024
#: The longest path of a socket that every system takes.
_LONGEST_PATH = 100

#: What answers a question: what is asked, and about what.
Answers: TypeAlias = Callable[[str, JSONObject], Awaitable[JSONValue]]


class _Question(msgspec.Struct, frozen=True):
    what: str
    about: JSONObject


class Neighbours:
    """The others, as one worker sees them.

    Args:
        folder: where all of them listen.
        place: this one's.
        answers: what tells the others what this one knows; None means that it knows nothing of it.
    """

    def __init__(self, folder: Path, place: int, answers: Answers) -> None:
        self._folder = folder
        self._name = f"{place}{_ENDING}"
        self._answers = answers
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        """From now on the others can ask."""
        with suppress(FileNotFoundError):  # whoever had the place before
            (self._folder / self._name).unlink()
        try:
            with _reachable(self._folder) as folder:
                self._server = await asyncio.start_unix_server(self._asked, str(folder / self._name))
        except OSError as error:  # a worker that cannot be asked still answers its clients
            _log.warning("the other workers cannot ask this one about its requests: %s", error)

    async def close(self) -> None:
        """Nobody can ask any more."""
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                (self._folder / self._name).unlink()

    async def ask(self, what: str, about: JSONObject) -> tuple[list[JSONValue], int]:
        """What the others know, and how many of them did not answer in time."""
        question = msgspec.json.encode(_Question(what, about))
        names = [path.name for path in sorted(self._folder.glob(f"*{_ENDING}")) if path.name != self._name]
        told = await asyncio.gather(*(self._one(name, question) for name in names), return_exceptions=True)
        late = sum(isinstance(each, TimeoutError) for each in told)
        return [each for each in told if each is not None and not isinstance(each, BaseException)], late

    async def _one(self, name: str, question: bytes) -> JSONValue:
        async with asyncio.timeout(_PATIENCE):
            with _reachable(self._folder) as folder:
                reader, writer = await asyncio.open_unix_connection(str(folder / name))
            try:
                writer.write(question)
                writer.write_eof()
                return msgspec.json.decode(await reader.read())
            finally:
                writer.close()

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = msgspec.json.decode(await _all_of(reader), type=_Question)
            writer.write(msgspec.json.encode(await self._answers(asked.what, asked.about)))
            await writer.drain()
        except OSError:  # it did not wait
            pass
        except Exception:
            _log.exception("another worker could not be answered")
        finally:
            writer.close()


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    """A question to its end."""
    pieces: list[bytes] = []
    size = 0
    while size <= _LARGEST_QUESTION and (piece := await reader.read(_LARGEST_QUESTION)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


@contextmanager
def _reachable(folder: Path) -> Generator[Path]:
    """The folder by a path that is short enough for the name of a socket, where the system has a way to one."""
    if len(os.fsencode(folder)) <= _LONGEST_PATH - len(_ENDING) - 4:
        yield folder
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
