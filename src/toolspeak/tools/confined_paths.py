"""Path confinement: file access that cannot leave the work directory, even through symbolic links.

Checking a path and opening it afterwards would be a race: a link could be swapped in between. Instead, each component
is opened relative to a folder that is already open, and links are resolved one component at a time.
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

#: Maximum number of symbolic links in one path; the same limit as in Linux.
_MAX_LINKS = 40
_MAX_STEPS = 512
_MAX_PATH_CHARS = 4096
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
#: Non-blocking, because opening a pipe without a writer would otherwise hang.
_FILE_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class OpenedEntry(NamedTuple):
    """An open folder and a name in it. An empty name means the folder itself."""

    folder: int
    name: str


class ConfinedRoot:
    """A work directory that no path can leave.

    Raises:
        UsageError: the operating system cannot open files relative to a folder.
    """

    def __init__(self, root: str, protected: Iterable[str] = ()) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise UsageError("file tools need a system with `openat`", hint="use Linux or macOS")
        self.root = root
        #: Write-protected folders. Identified by device and inode, because a folder may be reachable by several paths.
        self._protected = frozenset(_identity(os.stat(path)) for path in protected)

    @contextmanager
    def resolve(self, path: str, *, create: bool = False) -> Generator[OpenedEntry]:
        """Resolve a path. With `create`, missing folders are created after the whole path has been checked.

        Raises:
            ToolError: the path leads out of the work directory, or cannot be reached.
        """
        walk = _Walk(self.root, path, create, self._protected)
        try:
            yield walk.resolve()
        except OSError as error:
            raise ToolError(f"`{display_path(path)}`: {os_error_text(error)}") from None
        finally:
            walk.close()

    @contextmanager
    def open_file(self, path: str) -> Generator[tuple[int, os.stat_result]]:
        """Open a regular file for reading.

        Raises:
            ToolError: the file does not exist, or is not a regular file.
        """
        with self.resolve(path) as place:
            if not place.name:
                raise ToolError(f"`{display_path(path)}` is a folder, not a file")
            descriptor = os.open(place.name, _FILE_FLAGS, dir_fd=place.folder)
            try:
                status = os.fstat(descriptor)
                if stat.S_ISDIR(status.st_mode):
                    raise ToolError(f"`{display_path(path)}` is a folder, not a file")
                if not stat.S_ISREG(status.st_mode):
                    raise ToolError(f"`{display_path(path)}` is not a regular file")
                yield descriptor, status
            finally:
                os.close(descriptor)

    def write(self, path: str, data: bytes) -> bool:
        """Write a file atomically; an existing file keeps its permissions. Returns whether the file is new.

        Raises:
            ToolError: the file cannot be written.
        """
        with self.resolve(path, create=True) as (folder, name):
            if not name:
                raise ToolError(f"`{display_path(path)}` is a folder, not a file")
            old = None
            with suppress(FileNotFoundError):
                old = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if old is not None and not stat.S_ISREG(old.st_mode):
                raise ToolError(f"`{display_path(path)}` is not a regular file")
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
    """Resolves a path component by component from the work directory. All folders on the way stay open."""

    def __init__(self, root: str, path: str, create: bool, protected: frozenset[tuple[int, int]]) -> None:
        if not path or "\0" in path or len(path) > _MAX_PATH_CHARS:
            raise ToolError("a path must be a non-empty string without NUL characters, and not too long")
        self._root = root
        self._path = path
        self._create = create
        self._protected = protected
        self._links = 0
        self._steps = 0
        #: Descriptors of the open folders, which `..` returns to. The first is the work directory.
        self._folders: list[int] = []
        #: Names of the folders to create inside the last open folder, once the whole path has been checked.
        self._missing: list[str] = []
        self._pending: list[str] = self._from_root(path)

    def resolve(self) -> OpenedEntry:
        """Resolve the whole path."""
        self._folders.append(os.open(self._root, _FOLDER_FLAGS))
        while self._pending:
            self._steps += 1
            if self._steps > _MAX_STEPS:
                raise ToolError(f"`{display_path(self._path)}` has too many steps")
            name = self._pending.pop()
            if name in ("", "."):
                continue
            if name == "..":
                self._go_up()
                continue
            if self._follow(name):
                continue
            is_last = all(step in ("", ".") for step in self._pending)
            if is_last and not self._is_folder(name):
                self._create_missing()
                return OpenedEntry(self._folders[-1], name)
            self._enter(name)
        if self._missing:
            raise ToolError(f"`{display_path(self._path)}` is a folder that does not exist")
        return OpenedEntry(self._folders[-1], "")

    def close(self) -> None:
        """Close all folders."""
        for descriptor in self._folders:
            os.close(descriptor)

    def _from_root(self, path: str) -> list[str]:
        """Return the components of a path in reverse order. An absolute path must begin with the work directory."""
        if path.startswith("/"):
            inner = path.removeprefix(self._root)
            if inner == path or (inner and not inner.startswith("/")):
                raise self._outside()
            path = inner
        return path.split("/")[::-1]

    def _go_up(self) -> None:
        if self._missing:
            self._missing.pop()
            return
        if len(self._folders) < 2:
            raise self._outside()
        os.close(self._folders.pop())

    def _follow(self, name: str) -> bool:
        """If the name is a link, queue the components of its target as the next ones and return True."""
        if self._missing:
            return False
        try:
            target = os.readlink(name, dir_fd=self._folders[-1])
        except (FileNotFoundError, OSError):
            return False  # missing, or not a link; opening it later reports any error
        self._links += 1
        if self._links > _MAX_LINKS:
            raise ToolError(f"`{display_path(self._path)}` leads through too many links")
        if target.startswith("/"):
            steps = self._from_root(target)
            while len(self._folders) > 1:
                os.close(self._folders.pop())
        else:
            steps = target.split("/")[::-1]
        self._pending += steps
        return True

    def _is_folder(self, name: str) -> bool:
        if self._missing:
            return False
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=self._folders[-1], follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def _enter(self, name: str) -> None:
        if self._missing:
            self._missing.append(name)
            return
        try:
            self._open_folder(name)
        except FileNotFoundError:
            if not self._create:
                raise
            self._missing.append(name)

    def _create_missing(self) -> None:
        """Create the missing folders. One that another process has just created is used, unless it is a link."""
        for name in self._missing:
            with suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=self._folders[-1])
            self._open_folder(name)

    def _open_folder(self, name: str) -> None:
        self._folders.append(os.open(name, _FOLDER_FLAGS, dir_fd=self._folders[-1]))
        if self._create and self._protected and _identity(os.fstat(self._folders[-1])) in self._protected:
            raise ToolError(f"`{display_path(self._path)}` belongs to the program that runs you and is not written to")

    def _outside(self) -> ToolError:
        return ToolError(f"`{display_path(self._path)}` leads out of the work directory", hint="use a path inside it")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def os_error_text(error: OSError) -> str:
    """Return the system's error message, without paths."""
    return (error.strerror or type(error).__name__).lower()


def display_path(name: str) -> str:
    """Make a path printable on one line."""
    flat = printable(name)
    return flat if len(flat) <= 300 else f"{flat[:299]}…"
