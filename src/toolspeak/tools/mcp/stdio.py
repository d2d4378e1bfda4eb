"""An MCP server as a child process that is talked to line by line, with bounds.

The SDK's own way keeps a line of any length and passes errors on to our terminal; here a line has a limit, what is no
message is passed over, and the last words on standard error are kept for whoever asks why it died.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

from ..orphan_killer import WORD, Guard, waiting
from ..sandbox import environment
from .config import McpServer

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    Streams: TypeAlias = tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
    ]

#: Bytes of one message. A picture as base64 has a few million.
MOST_LINE = 16 * 1024 * 1024
_PIECE = 64 * 1024
#: Bytes of the last words that are kept.
_MOST_LAST_WORDS = 4096
#: Seconds to end by itself once nobody talks to it any more, and again after it was told to.
_GRACE = 2.0
#: What a program needs to find its files; the rest of the environment is not passed on.
_PASSED = ("HOME", "PATH", "SHELL", "TMPDIR", "SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "PATHEXT", "TEMP", "USERPROFILE")


class Child:
    """What is known of the process: whether it lives, and what it said last."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        #: Why it is not listened to any more, besides having ended.
        self.broken = ""
        self.noise = 0
        self._words = b""

    def hear(self, data: bytes) -> None:
        """It wrote to standard error."""
        self._words = (self._words + data)[-_MOST_LAST_WORDS:]

    @property
    def last_words(self) -> str:
        """The last line it wrote to standard error."""
        lines = self._words.decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""


def child_environment(server: McpServer, variables: Mapping[str, str]) -> dict[str, str]:
    """What a server learns of our environment: harmless parts, and what its configuration names."""
    passed = {name: variables[name] for name in _PASSED if name in variables}
    return {**environment(variables), **passed, **server.env}


@asynccontextmanager
async def stdio(server: McpServer, variables: Mapping[str, str], child: Child) -> AsyncGenerator[Streams]:
    """The two streams of messages, as the SDK wants them. Raises OSError if it cannot be started."""
    import anyio

    env = child_environment(server, variables)
    _check_program(server, env)
    # A server that looks at its input ends with us; one that does not is ended.
    guard = Guard()
    try:
        process = await asyncio.create_subprocess_exec(
            *waiting([server.command, *server.args]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd=server.cwd or None,
            start_new_session=True,
        )
    except BaseException:
        guard.dismiss()
        raise
    assert process.stdin is not None
    guard.watch(-process.pid)
    process.stdin.write(WORD)
    incoming, read = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    write, outgoing = anyio.create_memory_object_stream["SessionMessage"](0)
    tasks = [
        asyncio.create_task(_reading(process, incoming, child)),
        asyncio.create_task(_writing(process, outgoing)),
        asyncio.create_task(_listening(process, child)),
    ]
    try:
        yield read, write
    finally:
        try:
            await _ended(process)
        finally:
            guard.dismiss()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A grandchild may hold the pipes open; they would then be closed by the garbage collector, without a loop.
        process._transport.close()  # type: ignore[attr-defined] # pyright: ignore
        await asyncio.sleep(0)
        for stream in (incoming, read, write, outgoing):
            stream.close()


def _check_program(server: McpServer, env: Mapping[str, str]) -> None:
    """Raises OSError where there is nothing to start: a shell would say so in its own words."""
    own = os.path.dirname(server.command)
    path = os.path.join(server.cwd, server.command) if own else server.command
    if shutil.which(path, path=env.get("PATH", os.defpath)) is None:
        wrong = errno.EACCES if own and os.path.exists(path) else errno.ENOENT
        raise OSError(wrong, os.strerror(wrong), server.command)


async def _reading(
    process: asyncio.subprocess.Process, incoming: MemoryObjectSendStream[SessionMessage | Exception], child: Child
) -> None:
    """Messages from the server, until it ends or says something that nobody can follow."""
    import anyio

    assert process.stdout is not None
    held = bytearray()
    try:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while not child.broken and (data := await process.stdout.read(_PIECE)):
                *lines, rest = data.split(b"\n")
                for line in lines:
                    held += line
                    message = _message(bytes(held), child)
                    held.clear()
                    if message is not None:
                        await incoming.send(message)
                held += rest
                if len(held) > MOST_LINE:
                    child.broken = f"it sent a message of more than {MOST_LINE} bytes"
    finally:
        child.ended.set()
        incoming.close()


def _message(line: bytes, child: Child) -> SessionMessage | None:
    """One line as a message. What was meant to be one and is not breaks the connection; anything else is noise."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    if not line.strip() or child.broken:
        return None
    if len(line) > MOST_LINE:
        child.broken = f"it sent a message of more than {MOST_LINE} bytes"
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError):
        if b'"jsonrpc"' in line[:1000]:
            child.broken = "it sent a message that cannot be read"
        else:
            child.noise += 1
        return None


async def _writing(process: asyncio.subprocess.Process, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError, OSError):
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()


async def _listening(process: asyncio.subprocess.Process, child: Child) -> None:
    assert process.stderr is not None
    while data := await process.stderr.read(_PIECE):
        child.hear(data)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Close its input, then tell it, then kill it, with all that it started."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await _exited(process)
                break
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # what it left behind in its group


async def _exited(process: asyncio.subprocess.Process) -> None:
    """Waiting for the process itself would wait for its pipes too, which a child of its may hold."""
    while process.returncode is None:  # noqa: ASYNC110 - nobody else tells
        await asyncio.sleep(0.01)
