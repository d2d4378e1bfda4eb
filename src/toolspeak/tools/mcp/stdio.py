"""The stdio transport for MCP servers: a child process that exchanges one JSON message per line.

Replaces the SDK's transport, which accepts lines of any length and passes standard error on to the terminal. Here,
lines have a size limit, other output is skipped, and the end of standard error is kept for error messages.
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

from ..orphan_killer import RELEASE, OrphanKiller, delayed_command
from ..sandbox import harmless_environment
from .config import McpServer

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    Streams: TypeAlias = tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
    ]

#: Maximum size of one message. A base64 image takes a few million bytes.
MAX_LINE_BYTES = 16 * 1024 * 1024
_PIECE = 64 * 1024
_MAX_STDERR_BYTES = 4096
_GRACE = 2.0  # seconds to wait for a server to exit after its input is closed, and again after SIGTERM
#: Environment variables that programs need to find their files, passed on in addition to the harmless ones.
_PASSED_VARIABLES = ("HOME PATH SHELL TMPDIR SYSTEMROOT APPDATA LOCALAPPDATA PATHEXT TEMP USERPROFILE").split()


class Child:
    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.broken = ""  # why its messages are no longer read, although it may still be running; empty if they are
        self.stderr = b""

    @property
    def last_stderr_line(self) -> str:
        lines = self.stderr.decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""


def child_environment(server: McpServer, variables: Mapping[str, str]) -> dict[str, str]:
    """Return a server's environment: variables that are safe to pass on, and those from its configuration."""
    passed = {name: variables[name] for name in _PASSED_VARIABLES if name in variables}
    return {**harmless_environment(variables), **passed, **server.env}


@asynccontextmanager
async def stdio(server: McpServer, variables: Mapping[str, str], child: Child) -> AsyncGenerator[Streams]:
    """Start a server and yield its message streams for the SDK. Raises OSError if the server cannot be started."""
    import anyio

    env = child_environment(server, variables)
    _check_program(server, env)
    # Without the helper, a server that ignores the end of its input would outlive this program.
    orphan_killer = OrphanKiller()
    try:
        process = await asyncio.create_subprocess_exec(
            *delayed_command([server.command, *server.args]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd=server.cwd or None,
            start_new_session=True,
        )
    except BaseException:
        orphan_killer.dismiss()
        raise
    assert process.stdin is not None
    orphan_killer.watch(-process.pid)
    process.stdin.write(RELEASE)
    incoming, read = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    write, outgoing = anyio.create_memory_object_stream["SessionMessage"](0)
    tasks = [
        asyncio.create_task(_read_messages(process, incoming, child)),
        asyncio.create_task(_write_messages(process, outgoing)),
        asyncio.create_task(_read_stderr(process, child)),
    ]
    try:
        yield read, write
    finally:
        try:
            await _terminate(process)
        finally:
            orphan_killer.dismiss()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A grandchild may keep the pipes open. Close them here, because later the garbage collector has no event loop.
        process._transport.close()  # type: ignore[attr-defined] # pyright: ignore
        await asyncio.sleep(0)
        for stream in (incoming, read, write, outgoing):
            stream.close()


def _check_program(server: McpServer, env: Mapping[str, str]) -> None:
    """Raise OSError if the program is missing. Otherwise only the wrapping shell would notice and print an error."""
    own = os.path.dirname(server.command)
    path = os.path.join(server.cwd, server.command) if own else server.command
    if shutil.which(path, path=env.get("PATH", os.defpath)) is None:
        wrong = errno.EACCES if own and os.path.exists(path) else errno.ENOENT
        raise OSError(wrong, os.strerror(wrong), server.command)


async def _read_messages(
    process: asyncio.subprocess.Process, incoming: MemoryObjectSendStream[SessionMessage | Exception], child: Child
) -> None:
    """Forward messages from the server until it exits or sends a malformed message."""
    import anyio

    assert process.stdout is not None
    buffer = bytearray()
    try:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while not child.broken and (data := await process.stdout.read(_PIECE)):
                *lines, rest = data.split(b"\n")
                for line in lines:
                    buffer += line
                    message = _parse_message(bytes(buffer), child)
                    buffer.clear()
                    if message is not None:
                        await incoming.send(message)
                buffer += rest
                if len(buffer) > MAX_LINE_BYTES:
                    child.broken = f"it sent a message of more than {MAX_LINE_BYTES} bytes"
    finally:
        child.ended.set()
        incoming.close()


def _parse_message(line: bytes, child: Child) -> SessionMessage | None:
    """Parse one line. A malformed JSON-RPC message breaks the connection; any other text is skipped."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    if not line.strip() or child.broken:
        return None
    if len(line) > MAX_LINE_BYTES:
        child.broken = f"it sent a message of more than {MAX_LINE_BYTES} bytes"
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError):
        if b'"jsonrpc"' in line[:1000]:
            child.broken = "it sent a message that cannot be read"
        return None


async def _write_messages(
    process: asyncio.subprocess.Process, outgoing: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError, OSError):
        async for message in outgoing:
            process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()


async def _read_stderr(process: asyncio.subprocess.Process, child: Child) -> None:
    assert process.stderr is not None
    while data := await process.stderr.read(_PIECE):
        child.stderr = (child.stderr + data)[-_MAX_STDERR_BYTES:]


async def _terminate(process: asyncio.subprocess.Process) -> None:
    """Close the server's input, then send SIGTERM, then SIGKILL, to its whole process group."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await _wait_for_exit(process)
                break
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # processes of the group that are still running


async def _wait_for_exit(process: asyncio.subprocess.Process) -> None:
    """Wait for the process alone. `process.wait` would also wait for pipes that a grandchild may keep open."""
    while process.returncode is None:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)
