"""File tools: read, write, edit, list and search, confined to a work directory.

Each is a plain function over `Confined`, made a tool like any other; errors are written for the model.
"""

from __future__ import annotations

import os
import stat
import threading
import unicodedata
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

from ..errors import ToolError
from .approval_patterns import matches
from .base import Executable
from .confined_paths import Confined, Place, shown
from .functions import tool
from .sandbox import own_folders, work_folder

#: Bytes of one file that are read, written or searched: the largest sources people keep are below.
_MOST_BYTES = 8 * 1024 * 1024
#: Characters that one reading gives at most; more is read in parts.
_MOST_READ = 256 * 1024
#: Entries of one listing, matches of one search, characters of one line that is shown.
_MOST_ENTRIES = 1000
_MOST_MATCHES = 200
_LONGEST_LINE = 300
#: What one search looks at in all, and how deep.
_MOST_FILES = 20_000
_MOST_SEARCHED = 256 * 1024 * 1024
_DEEPEST = 64
#: Binary files have a NUL near their beginning.
_SNIFFED = 8192
#: Folders that are not looked into unless they are named: other people's code, and histories.
_PASSED_BY = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox"})
#: The locks of files that are being written, in all work directories of this process; one that is not in use vanishes.
#: The key is the folder (device and inode) and the name in it: the inode of the file changes with each write.
_LOCKS: WeakValueDictionary[tuple[int, int, str], threading.Lock] = WeakValueDictionary()
_LOCKS_GUARD = threading.Lock()


def file_tools(work: str | os.PathLike[str], *, write: bool = True) -> list[Executable]:
    """The file tools of a work directory; without `write`, only those that change nothing.

    Raises:
        UsageError: it cannot be a work directory.
    """
    folder = work_folder(work)
    files = _Files(Confined(folder, own_folders(folder)))
    made: list[Executable] = [tool(files.read_file), tool(files.list_files), tool(files.search_files)]
    if write:
        made += [tool(side_effects=True)(files.write_file), tool(side_effects=True)(files.edit_file)]
    return made


class _Files:
    """The tools as functions; their docstrings are what the model reads."""

    def __init__(self, confined: Confined) -> None:
        self._confined = confined

    def read_file(self, path: str, first_line: int = 1, lines: int | None = None) -> str:
        """Read a text file.

        Args:
            path: The file, relative to the work directory.
            first_line: The line to begin with.
            lines: How many lines to read; all if left out.
        """
        if first_line < 1 or (lines is not None and lines < 1):
            raise ToolError("`first_line` and `lines` must be 1 or more")
        text = self._text(path)
        if first_line == 1 and lines is None and len(text) <= _MOST_READ:
            return text or "[the file is empty]"
        # Only the ends of lines that an editor shows count, not everything that `splitlines` knows.
        parts = text.split("\n")
        total = len(parts) - (not parts[-1])
        if first_line > total:
            raise ToolError(f"`{shown(path)}` has {total} lines only")
        end = total if lines is None else min(total, first_line - 1 + lines)
        chosen = "".join(f"{line}\n" for line in parts[first_line - 1 : end])
        if end == total and parts[-1]:
            chosen = chosen[:-1]
        if len(chosen) > _MOST_READ:
            raise ToolError(f"that is more than {_MOST_READ} characters; the file has {total} lines", hint=_PART)
        rest = total - end
        return chosen if not rest else f"{chosen}[{rest} more lines]"

    def write_file(self, path: str, content: str) -> str:
        """Write a text file, new or in place of the old one. Folders that are missing are made.

        Args:
            path: The file, relative to the work directory.
            content: All that the file shall hold.
        """
        data = _encoded(content)
        with self._locked(path, create=True):
            new = self._confined.write(path, data)
        return f"{'made' if new else 'replaced'} `{shown(path)}`, {len(data)} bytes"

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace one piece of a text file by another. The old piece must occur exactly once.

        Args:
            path: The file, relative to the work directory.
            old: The piece as it stands there, with enough around it to be found once only.
            new: What shall stand there instead.
        """
        if not old:
            raise ToolError("`old` must not be empty", hint="use write_file for a new file")
        if old == new:
            raise ToolError("`old` and `new` are the same")
        with self._locked(path):
            self._confined.write(path, _encoded(_edited(self._text(path), path, old, new)))
        return f"edited `{shown(path)}`"

    def list_files(self, path: str = ".", recursive: bool = False) -> str:
        """List a folder: one entry a line, folders with a slash at the end, files with their size.

        Args:
            path: The folder, relative to the work directory.
            recursive: Whether to list the folders inside as well.
        """
        entries: list[str] = []
        with self._confined.reached(path) as place:
            for found in _below(_folder_at(place, path), recursive):
                if len(entries) == _MOST_ENTRIES:
                    entries.append(f"[more than {_MOST_ENTRIES} entries; list a folder inside]")
                    break
                entries.append(_entry(found))
        return "\n".join(entries) or "[the folder is empty]"

    def search_files(self, text: str, path: str = ".", name: str = "*", ignore_case: bool = False) -> str:
        """Search text files for a text. Each match is shown as `file:line: text`.

        Args:
            text: What to look for, literally.
            path: The folder to search, relative to the work directory.
            name: Which files, such as `*.py`; a star stands for any text.
            ignore_case: Whether case does not matter.
        """
        if not text or "\n" in text:
            raise ToolError("`text` must be one line that is not empty")
        wanted = text.casefold() if ignore_case else text
        matched: list[str] = []
        budget = _Budget()
        with self._confined.reached(path) as place:
            for found in _below(_folder_at(place, path), True):
                if found.is_file and matches(name, found.name):
                    matched += _found_in(found, wanted, ignore_case, budget, _MOST_MATCHES + 1 - len(matched))
                if len(matched) > _MOST_MATCHES:
                    return "\n".join([*matched[:_MOST_MATCHES], f"[more than {_MOST_MATCHES} matches]"])
                if budget.spent:
                    matched.append("[the search ended here: too many files; search a folder inside]")
                    break
        return "\n".join(matched) or "[no match]"

    @contextmanager
    def _locked(self, path: str, *, create: bool = False) -> Generator[None]:
        """Hold the lock of a file: among all threads of this process, only one writes it at a time.

        Other processes are not kept out. With `create`, folders that are missing on the way are made.

        Raises:
            ToolError: the path leads outside, or cannot be reached.
        """
        with self._confined.reached(path, create=create) as place:
            folder = os.fstat(place.folder)
        # Some file systems ignore case and the composition of characters. Two files that share a lock do no harm.
        key = (folder.st_dev, folder.st_ino, unicodedata.normalize("NFC", place.name).casefold())
        with _LOCKS_GUARD:
            lock = _LOCKS.setdefault(key, threading.Lock())
        with lock:
            yield

    def _text(self, path: str) -> str:
        with self._confined.opened(path) as (descriptor, status):
            if status.st_size > _MOST_BYTES:
                raise ToolError(f"`{shown(path)}` has {status.st_size} bytes, more than {_MOST_BYTES}")
            data = _bytes(descriptor, _MOST_BYTES)
        text = _decoded(data)
        if text is None:
            raise ToolError(f"`{shown(path)}` is no text file; it has {len(data)} bytes")
        return text


def _edited(text: str, path: str, old: str, new: str) -> str:
    """Replace the one occurrence of `old` in the text of a file.

    Raises:
        ToolError: there is none, or more than one.
    """
    count = text.count(old)
    if count == 0:
        hint = "its lines end with CR LF" if "\r\n" in text and "\n" in old else "read the file and copy it exactly"
        raise ToolError(f"`{shown(path)}` does not hold that piece", hint=hint)
    if count > 1 or text.find(old, text.find(old) + 1) >= 0:
        raise ToolError(f"`{shown(path)}` holds that piece more than once", hint="add more of what stands around it")
    return text.replace(old, new)


_PART = "read a part with `first_line` and `lines`"


class _Found(NamedTuple):
    """An entry of a folder that is held open."""

    folder: int
    name: str
    #: Seen from where the listing began.
    path: str
    mode: int
    size: int

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


class _Budget:
    """What a search may still look at."""

    def __init__(self) -> None:
        self.files = _MOST_FILES
        self.size = _MOST_SEARCHED

    @property
    def spent(self) -> bool:
        return self.files <= 0 or self.size <= 0


def _folder_at(place: Place, path: str) -> int:
    """The folder that a path means."""
    if place.name:
        raise ToolError(f"`{shown(path)}` is no folder")
    return place.folder


def _below(start: int, recursive: bool) -> Iterator[_Found]:
    """What is in a folder, sorted, and in the folders inside; no link is followed, and one folder is open at a time."""
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        steps = waiting.pop()
        try:
            folder = _entered(start, steps)
        except OSError:
            continue  # gone, or not ours to read
        inner: list[tuple[str, ...]] = []
        try:
            for name in sorted(os.listdir(folder)):
                try:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except OSError:
                    continue
                yield _Found(folder, name, "/".join((*steps, name)), status.st_mode, status.st_size)
                if stat.S_ISDIR(status.st_mode) and name not in _PASSED_BY and len(steps) < _DEEPEST:
                    inner.append((*steps, name))
        finally:
            os.close(folder)
        if recursive:
            waiting += reversed(inner)


def _entered(start: int, steps: tuple[str, ...]) -> int:
    """Open a folder inside another one, step by step, so that no link is followed on the way."""
    at = os.dup(start)
    for name in steps:
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        finally:
            os.close(at)
        at = inner
    return at


def _entry(found: _Found) -> str:
    name = shown(found.path)
    if stat.S_ISDIR(found.mode):
        return f"{name}/"
    if stat.S_ISLNK(found.mode):
        return f"{name} (link)"
    return f"{name} ({found.size} bytes)" if found.is_file else f"{name} (no ordinary file)"


def _found_in(found: _Found, wanted: str, ignore_case: bool, budget: _Budget, most: int) -> list[str]:
    """The matches in one file."""
    budget.files -= 1
    if found.size > _MOST_BYTES:
        return []
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(found.name, flags, dir_fd=found.folder)
    except OSError:
        return []
    try:
        data = _bytes(descriptor, _MOST_BYTES)
    except OSError:
        return []
    finally:
        os.close(descriptor)
    budget.size -= len(data)
    text = _decoded(data)
    if text is None or wanted not in (text.casefold() if ignore_case else text):
        return []
    matched: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if wanted in (line.casefold() if ignore_case else line):
            cut = line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
            matched.append(f"{shown(found.path)}:{number}: {cut.rstrip()}")
            if len(matched) == most:
                break
    return matched


def _bytes(descriptor: int, most: int) -> bytes:
    """All of an open file, and no more than was asked for even if it grows."""
    pieces: list[bytes] = []
    left = most
    while left > 0:
        piece = os.read(descriptor, min(left, 1024 * 1024))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _decoded(data: bytes) -> str | None:
    """The text, or None where it is none."""
    if b"\0" in data[:_SNIFFED]:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _encoded(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ToolError("the text holds half a character (a lone surrogate)") from None
    if len(data) > _MOST_BYTES:
        raise ToolError(f"the text has {len(data)} bytes, more than {_MOST_BYTES}")
    return data
