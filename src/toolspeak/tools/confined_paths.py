"""A folder that no path leads out of: every step is taken from an open folder, links are followed by hand.

A path that is checked first and opened afterwards may mean something else by then. Here the last opening is made
relative to a folder that is already held open and was reached from the work directory, so that nobody can swap a link
in between.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import NamedTuple

from ..core.text import printable
from ..errors import ToolError, UsageError

#: As many links as Linux follows.
_MOST_LINKS = 40
_MOST_STEPS = 512
_LONGEST_PATH = 4096
#: How a folder is opened on the way: for passing through, and never by a link.
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
#: A pipe without a writer would make an ordinary opening wait for ever.
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Place(NamedTuple):
    """A name in a folder that is held open. An empty name is the folder itself."""

    folder: int
    name: str


class Confined:
    """The work directory.

    Raises:
        UsageError: this system cannot open files relative to folders.
    """

    def __init__(self, root: str, protected: Iterable[str] = ()) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise UsageError("file tools need a system that opens files relative to folders", hint="use Linux or macOS")
        self.root = root
        #: Folders that are never written to, whatever they are called on the way.
        self._protected = frozenset(_identity(os.stat(path)) for path in protected)

    @contextmanager
    def reached(self, path: str, *, create: bool = False) -> Generator[Place]:
        """The place that a path means. With `create`, folders that are missing on the way are made, once all is known.

        Raises:
            ToolError: it leads outside, or there is no way.
        """
        walk = _Walk(self.root, path, create, self._protected)
        try:
            yield walk.through()
        except OSError as error:
            raise ToolError(f"`{shown(path)}`: {reason(error)}") from None
        finally:
            walk.close()

    @contextmanager
    def opened(self, path: str) -> Generator[tuple[int, os.stat_result]]:
        """An ordinary file, open for reading.

        Raises:
            ToolError: there is none, or it is something else.
        """
        with self.reached(path) as place:
            if not place.name:
                raise ToolError(f"`{shown(path)}` is a folder, not a file")
            descriptor = os.open(place.name, _FILE, dir_fd=place.folder)
            try:
                status = os.fstat(descriptor)
                if stat.S_ISDIR(status.st_mode):
                    raise ToolError(f"`{shown(path)}` is a folder, not a file")
                if not stat.S_ISREG(status.st_mode):
                    raise ToolError(f"`{shown(path)}` is no ordinary file")
                yield descriptor, status
            finally:
                os.close(descriptor)

    def write(self, path: str, data: bytes) -> bool:
        """Put a file in place, whole or not at all; whether it is new. An old one keeps its permissions.

        Raises:
            ToolError: it cannot be written.
        """
        with self.reached(path, create=True) as (folder, name):
            if not name:
                raise ToolError(f"`{shown(path)}` is a folder, not a file")
            old = None
            with suppress(FileNotFoundError):
                old = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if old is not None and not stat.S_ISREG(old.st_mode):
                raise ToolError(f"`{shown(path)}` is no ordinary file")
            temporary = f".{token_hex(8)}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o666, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    if old is not None:
                        os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)
                    os.fsync(descriptor)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            return old is None


class _Walk:
    """From the work directory to a place, one step at a time. All folders on the way are held open."""

    def __init__(self, root: str, path: str, create: bool, protected: frozenset[tuple[int, int]]) -> None:
        if not path or "\0" in path or len(path) > _LONGEST_PATH:
            raise ToolError("a path must be a text that is not empty, holds no NUL and is not too long")
        self._root = root
        self._path = path
        self._create = create
        self._protected = protected
        self._links = 0
        self._steps = 0
        #: The way back, for `..`; the first is the work directory.
        self._held: list[int] = []
        #: Folders after these that are still to be made: nothing is, before the whole path has been judged.
        self._missing: list[str] = []
        self._left: list[str] = self._from_root(path)

    def through(self) -> Place:
        """Go all the way."""
        self._held.append(os.open(self._root, _FOLDER))
        while self._left:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise ToolError(f"`{shown(self._path)}` has too many steps")
            name = self._left.pop()
            if name in ("", "."):
                continue
            if name == "..":
                self._back()
                continue
            if self._follow(name):
                continue
            is_last = all(step in ("", ".") for step in self._left)
            if is_last and not self._is_folder(name):
                self._make()
                return Place(self._held[-1], name)
            self._enter(name)
        if self._missing:
            raise ToolError(f"`{shown(self._path)}` is a folder that does not exist")
        return Place(self._held[-1], "")

    def close(self) -> None:
        """Let go of all folders."""
        for descriptor in self._held:
            os.close(descriptor)

    def _from_root(self, path: str) -> list[str]:
        """The steps of a path, last one first. A path from the root of the system must begin with our own."""
        if path.startswith("/"):
            inner = path.removeprefix(self._root)
            if inner == path or (inner and not inner.startswith("/")):
                raise self._outside()
            path = inner
        return path.split("/")[::-1]

    def _back(self) -> None:
        if self._missing:
            self._missing.pop()
            return
        if len(self._held) < 2:
            raise self._outside()
        os.close(self._held.pop())

    def _follow(self, name: str) -> bool:
        """Whether this was a link; its target then stands before what is left."""
        if self._missing:
            return False
        try:
            target = os.readlink(name, dir_fd=self._held[-1])
        except (FileNotFoundError, OSError):
            return False  # not there, or no link: whoever opens it finds out
        self._links += 1
        if self._links > _MOST_LINKS:
            raise ToolError(f"`{shown(self._path)}` leads through too many links")
        if target.startswith("/"):
            steps = self._from_root(target)
            while len(self._held) > 1:
                os.close(self._held.pop())
        else:
            steps = target.split("/")[::-1]
        self._left += steps
        return True

    def _is_folder(self, name: str) -> bool:
        if self._missing:
            return False
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=self._held[-1], follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def _enter(self, name: str) -> None:
        if self._missing:
            self._missing.append(name)
            return
        try:
            self._hold(name)
        except FileNotFoundError:
            if not self._create:
                raise
            self._missing.append(name)

    def _make(self) -> None:
        """Make the folders that are missing. Another call may just have made one: then it is entered, unless a link."""
        for name in self._missing:
            with suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=self._held[-1])
            self._hold(name)

    def _hold(self, name: str) -> None:
        self._held.append(os.open(name, _FOLDER, dir_fd=self._held[-1]))
        if self._create and self._protected and _identity(os.fstat(self._held[-1])) in self._protected:
            raise ToolError(f"`{shown(self._path)}` belongs to the program that runs you and is not written to")

    def _outside(self) -> ToolError:
        return ToolError(f"`{shown(self._path)}` leads out of the work directory", hint="use a path inside it")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def reason(error: OSError) -> str:
    """What went wrong, in the system's words and without paths."""
    return (error.strerror or type(error).__name__).lower()


def shown(name: str) -> str:
    """A path on one line, whatever it holds."""
    flat = printable(name)
    return flat if len(flat) <= 300 else f"{flat[:299]}…"
