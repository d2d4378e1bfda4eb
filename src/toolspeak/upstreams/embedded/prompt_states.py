"""States of tool prompts on disk, so that the model need not read them again after a restart.

Reading a tool prompt takes a small model seconds. What it has made of the prompt depends on the prompt and the model
only. It is saved when the same prompt has come twice, since one that changes each time is not worth it, or when a
program announces its tools before the first question; and it is restored after a restart. A file holds the system
message with the tools, nothing that follows, and only its owner can read it. Its name holds a checksum, because the
engine takes whatever stands in a file for the prompt.
"""

import asyncio
import hashlib
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from ...core.types import Request
from .model_process import StateCommand

#: Maximum number of files, and their total size. The state of a usual tool prompt takes 10 MB.
_MAX_FILES, _MAX_BYTES = 16, 128 * 1024 * 1024
#: Number of prompts that the model process certainly keeps in memory.
_MAX_IN_MEMORY = 4
_SUFFIX = ".state"


class PromptStates:
    """The states of one model. `carry_out` sends a command to its process."""

    def __init__(self, folder: Path, carry_out: Callable[[StateCommand], Awaitable[bool]]) -> None:
        self._root = self._folder = folder
        self._carry_out = carry_out
        self._in_memory: OrderedDict[str, None] = OrderedDict()
        self._running = 0
        self._saving: asyncio.Task[None] | None = None

    def process_starts(self, *files: str) -> Path:
        """Return the folder with the states of a process that has loaded these files."""
        self._in_memory.clear()
        identity = [(file, os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files if os.path.exists(file)]
        self._folder = self._root / _digest(f"{identity} {version('xllamacpp')}".encode())
        with suppress(OSError):  # then nothing can be saved
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder

    @asynccontextmanager
    async def of(self, request: Request) -> AsyncGenerator[None]:
        """Restore the state of a request's tool prompt, and save it after the answer if the prompt has come before."""
        text, prompt = _tool_prompt(request)
        has_come = prompt in self._in_memory
        self._running += 1
        try:
            if self._saving is not None:  # it uses the slot that has read this prompt
                await asyncio.shield(self._saving)
            if text and not has_come and self._running == 1:
                await asyncio.shield(asyncio.ensure_future(self._restore(prompt)))
            yield
        finally:
            self._running -= 1
        if text and has_come:
            self.save_when_idle(request)
        self._in_memory[prompt] = None
        self._in_memory.move_to_end(prompt)
        if len(self._in_memory) > _MAX_IN_MEMORY:
            self._in_memory.popitem(last=False)

    def save_when_idle(self, request: Request) -> None:
        """Save the state of a request's tool prompt in the background, unless the model is busy."""
        if not self._running and self._saving is None:
            self._saving = asyncio.get_running_loop().create_task(self.save(request))
            self._saving.add_done_callback(lambda task: setattr(self, "_saving", None))

    async def save(self, request: Request) -> None:
        """Let the model read the tool prompt of a request, and save its state, unless that is saved."""
        text, prompt = _tool_prompt(request)
        if text and self._saved(prompt) is None:
            part = self._folder / f"{prompt}.{os.getpid()}"
            is_saved = await self._carry_out(StateCommand("save", part.name, text))
            with suppress(OSError):  # another process has removed a file
                if not is_saved:  # for example, because the disk is full
                    part.unlink()
                    return
                checksum = await asyncio.to_thread(_checksum, part)
                part.replace(self._folder / f"{prompt}-{checksum}{_SUFFIX}")
                self._prune()

    async def settle(self) -> None:
        """Wait for a state that is being saved."""
        if self._saving is not None:
            await self._saving

    async def _restore(self, prompt: str) -> None:
        path = self._saved(prompt)
        if path is None:
            return
        with suppress(OSError):
            is_whole = path.name == f"{prompt}-{await asyncio.to_thread(_checksum, path)}{_SUFFIX}"
            if not (is_whole and await self._carry_out(StateCommand("restore", path.name))):
                path.unlink()  # damaged, or of another engine

    def _saved(self, prompt: str) -> Path | None:
        """Return the file with the state of a prompt, if there is one."""
        return next(self._folder.glob(f"{prompt}-*{_SUFFIX}"), None)

    def _prune(self) -> None:
        """Remove the oldest files, also those of other models."""
        files = sorted(self._root.glob("*/*"), key=os.path.getmtime, reverse=True)
        total = 0
        for number, file in enumerate(files):
            total += file.stat().st_size
            if number >= _MAX_FILES or total > _MAX_BYTES:
                file.unlink(missing_ok=True)


def _tool_prompt(request: Request) -> tuple[str, str]:
    """Return the system message of a request if it describes tools, otherwise an empty string; and its digest."""
    first = request.messages[0]
    text = first.text if request.options.described_tools and first.role == "system" else ""
    return text, _digest(text.encode("utf-8", "surrogatepass"))


def _checksum(file: Path) -> str:
    return _digest(file.read_bytes())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
