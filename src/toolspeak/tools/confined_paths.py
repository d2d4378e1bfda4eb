"""Path confinement: file access that cannot leave the work directory, even through symbolic links.

Checking a path and opening it afterwards would be a race: a link could be swapped in between. Instead, each component
is opened relative to a folder that is already open, and links are resolved one component at a time.
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from secrets import token_hex
from typing import NamedTuple

from ..core.text import printable
from ..errors import ToolError, UsageError
from ..file_locks import LockTimeout, folder_lock

_MAX_LINKS = 40  # maximum number of symbolic links in one path; the same limit as in Linux
_MAX_STEPS = 512
_MAX_PATH_CHARS = 4096
#: Seconds to wait for another program that writes in the same folder. One write takes milliseconds.
_LOCK_SECONDS = 10.0
_TEMPORARY = re.compile(r"\.toolspeak-[0-9a-f]{16}\.tmp")  # names of files that are being written
#: Extended attributes that a file keeps: the user's own, access control lists and SELinux labels. Capabilities are
#: dropped like the setuid bit, because they were granted to the old content.
_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access", "security.selinux")
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
#: Non-blocking, because opening a pipe without a writer would otherwise hang.
_FILE_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class OpenedEntry(NamedTuple):
    """An open folder and a name in it. An empty name means the folder itself."""

    folder: int
    name: str
    path: str  # path from the work directory, without links
    #: Folders that do not exist yet, from the open folder down to the one that contains the name.
    missing: tuple[str, ...] = ()


class OpenedFile(NamedTuple):
    descriptor: int
    status: os.stat_result
    path: str  # path from the work directory, without links


class ConfinedRoot:
    """A work directory that no path can leave.

    Raises UsageError if the operating system cannot open files relative to a folder.
    """

    def __init__(self, root: str, protected: Iterable[str] = ()) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise UsageError("file tools need a system with `openat`", hint="use Linux or macOS")
        self.root = root
        #: Write-protected folders. Identified by device and inode, because a folder may be reachable by several paths.
        self._protected = frozenset(_identity(os.stat(path)) for path in protected)

    @contextmanager
    def resolve(self, path: str, *, for_writing: bool = False) -> Generator[OpenedEntry]:
        """Resolve a path. With `for_writing`, folders may be missing, and write-protected ones are refused.

        Raises ToolError if the path leads out of the work directory, or cannot be reached.
        """
        walk = _Walk(self.root, path, for_writing, self._protected)
        try:
            yield walk.resolve()
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()  # without paths
            raise ToolError(f"`{display_path(path)}`: {reason}") from None
        finally:
            walk.close()

    @contextmanager
    def open_file(self, path: str) -> Generator[OpenedFile]:
        """Open a regular file for reading. Raises ToolError if the file does not exist, or is not a regular file."""
        with self.resolve(path) as place:
            if not place.name:
                raise ToolError(f"`{display_path(path)}` is a folder, not a file")
            with open_regular(place.folder, place.name, path) as (descriptor, status):
                yield OpenedFile(descriptor, status, place.path)

    @contextmanager
    def locked(self, path: str) -> "Generator[LockedFile]":
        """Lock a file for writing, against all threads and processes that use this lock. The file may be missing.

        The lock is on the folder, because each write replaces the file. If the folder is missing too, it is on the
        nearest folder that exists.
        Raises ToolError if the path leads out of the work directory or to a folder, or the lock is not free in time.
        """
        deadline = time.monotonic() + _LOCK_SECONDS
        while time.monotonic() < deadline:
            with (
                self.resolve(path, for_writing=True) as place,
                _lock(place, path, deadline),
                # While we waited, the other writer may have created or moved the folder.
                self.resolve(path, for_writing=True) as current,
            ):
                if _same_place(place, current):
                    yield LockedFile(current, path)
                    return
        raise _lock_error(path)

    def remove_folder(self, path: str) -> bool:
        """Remove an empty folder, given by its path without links. Returns whether it was removed."""
        above, _, name = path.rpartition("/")
        with suppress(ToolError), self.resolve(above or ".") as place:
            if not place.name and place.path == above:
                os.rmdir(name, dir_fd=place.folder)
                return True
        return False


class FileState(NamedTuple):
    data: bytes
    mode: int

    @property
    def hash(self) -> str:
        return content_hash(self.data)


def content_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class LockedFile:
    """A file, or the place for one, that is locked for writing."""

    def __init__(self, place: OpenedEntry, requested_path: str) -> None:
        self._place = place
        self._requested_path = requested_path
        self.path = place.path  # path from the work directory, without links

    @property
    def missing_folders(self) -> tuple[str, ...]:
        """Paths of the folders that `replace` will create, outermost first."""
        steps = self.path.split("/")[:-1]
        first = len(steps) - len(self._place.missing)
        return tuple("/".join(steps[: at + 1]) for at in range(first, len(steps)))

    def read(self, limit: int) -> FileState | None:
        """Return the file's content and permissions, or None if it does not exist.

        Raises ToolError if the file is larger than `limit` bytes, or is not a regular file.
        """
        if self._place.missing:
            return None
        with suppress(FileNotFoundError), self._open(self._place.folder) as (descriptor, status):
            data = read_limited(descriptor, status, limit, self._requested_path)
            return FileState(data, stat.S_IMODE(status.st_mode) & 0o777)
        return None

    def replace(self, data: bytes, mode: int | None, before: FileState | None) -> None:
        """Write the file atomically. Folders that are missing are created; without `mode`, the umask applies.

        A file that exists keeps its owner, group and extended attributes, as far as this process may set them.
        `before` is what the file contained when it was read. Other programs do not use our lock, so this is checked
        once more right before the write. Raises ToolError if the file has been changed meanwhile, or cannot be written.
        """
        name = self._place.name
        with ExitStack() as stack:
            self.remove_leftovers()
            folder = self._create_missing(stack)
            temporary = f".toolspeak-{token_hex(8)}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    if mode is not None:
                        with suppress(FileNotFoundError), self._open(folder) as (current, _):
                            _copy_attributes(current, descriptor)
                        os.fchmod(descriptor, mode)
                    os.fsync(descriptor)
                self._require_unchanged(folder, before)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    def delete(self, before: FileState) -> None:
        """Delete the file if it still has the content that was read.

        Raises ToolError if the file has been changed meanwhile, or cannot be deleted.
        """
        self._require_unchanged(self._place.folder, before)
        os.unlink(self._place.name, dir_fd=self._place.folder)

    def remove_leftovers(self) -> None:
        """Remove what killed processes left in the folder. While it is locked, no one else writes there."""
        for name in () if self._place.missing else filter(_TEMPORARY.fullmatch, os.listdir(self._place.folder)):
            with suppress(OSError):
                os.unlink(name, dir_fd=self._place.folder)

    def _open(self, folder: int) -> AbstractContextManager[tuple[int, os.stat_result]]:
        return open_regular(folder, self._place.name, self._requested_path)

    def _create_missing(self, stack: ExitStack) -> int:
        """Create the missing folders, and lock the last one.

        One that another process has just created is used, unless it is a link.
        """
        folder = self._place.folder
        for name in self._place.missing:
            with suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=folder)
            folder = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            stack.callback(os.close, folder)
        if self._place.missing:
            inner = self._place._replace(folder=folder)
            stack.enter_context(_lock(inner, self._requested_path, time.monotonic() + _LOCK_SECONDS))
        return folder

    def _require_unchanged(self, folder: int, before: FileState | None) -> None:
        try:
            with self._open(folder) as (descriptor, _):
                # Read one byte more than expected, so a file that grows meanwhile is noticed.
                if before is not None and read_bytes(descriptor, len(before.data) + 1) == before.data:
                    return
        except FileNotFoundError:
            if before is None:
                return
        message = f"`{display_path(self._requested_path)}` was changed by someone else just now, so it was not written"
        raise ToolError(message, hint="read it again")


class _Walk:
    """Resolves a path component by component from the work directory. All folders on the way stay open."""

    def __init__(self, root: str, path: str, for_writing: bool, protected: frozenset[tuple[int, int]]) -> None:
        if not path or "\0" in path or len(path) > _MAX_PATH_CHARS:
            raise ToolError("a path must be a non-empty string without NUL characters, and not too long")
        self._root = root
        self._path = path
        self._for_writing = for_writing
        self._protected = protected
        self._links = 0
        self._steps = 0
        #: Descriptors of the open folders, which `..` returns to. The first is the work directory.
        self._folders: list[int] = []
        self._names: list[str] = []  # names of the open folders below the work directory
        self._missing: list[str] = []  # names of the folders that do not exist, inside the last open folder
        self._pending: list[str] = self._from_root(path)

    def resolve(self) -> OpenedEntry:
        self._folders.append(os.open(self._root, _FOLDER_FLAGS))
        while self._pending:
            self._steps += 1
            if self._steps > _MAX_STEPS:
                raise ToolError(f"`{display_path(self._path)}` has too many steps")
            name = self._pending.pop()
            if name == "..":
                self._go_up()
                continue
            if name in ("", ".") or self._follow(name):
                continue
            if all(step in ("", ".") for step in self._pending) and not self._is_folder(name):
                path = "/".join((*self._names, *self._missing, name))
                return OpenedEntry(self._folders[-1], name, path, tuple(self._missing))
            self._enter(name)
        if self._missing:
            raise ToolError(f"`{display_path(self._path)}` is a folder that does not exist")
        return OpenedEntry(self._folders[-1], "", "/".join(self._names))

    def close(self) -> None:
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
        self._leave_folder()

    def _follow(self, name: str) -> bool:
        """If the name is a link, queue the components of its target as the next ones and return True."""
        if self._missing:
            return False
        try:
            target = os.readlink(name, dir_fd=self._folders[-1])
        except OSError:
            return False  # missing, or not a link; opening it later reports any error
        self._links += 1
        if self._links > _MAX_LINKS:
            raise ToolError(f"`{display_path(self._path)}` leads through too many links")
        if target.startswith("/"):
            steps = self._from_root(target)
            while self._names:
                self._leave_folder()
        else:
            steps = target.split("/")[::-1]
        self._pending += steps
        return True

    def _is_folder(self, name: str) -> bool:
        if not self._missing:
            with suppress(FileNotFoundError):
                return stat.S_ISDIR(os.stat(name, dir_fd=self._folders[-1], follow_symlinks=False).st_mode)
        return False

    def _enter(self, name: str) -> None:
        if self._missing:
            self._missing.append(name)
            return
        try:
            self._open_folder(name)
        except FileNotFoundError:
            if not self._for_writing:
                raise
            self._missing.append(name)

    def _open_folder(self, name: str) -> None:
        self._folders.append(os.open(name, _FOLDER_FLAGS, dir_fd=self._folders[-1]))
        self._names.append(name)
        if self._for_writing and self._protected and _identity(os.fstat(self._folders[-1])) in self._protected:
            raise ToolError(f"`{display_path(self._path)}` belongs to the program that runs you and is not written to")

    def _leave_folder(self) -> None:
        os.close(self._folders.pop())
        self._names.pop()

    def _outside(self) -> ToolError:
        return ToolError(f"`{display_path(self._path)}` leads out of the work directory", hint="use a path inside it")


@contextmanager
def open_regular(folder: int, name: str, path: str) -> Generator[tuple[int, os.stat_result]]:
    """Open a regular file in an open folder. Links are not followed."""
    descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise ToolError(f"`{display_path(path)}` is a folder, not a file")
        if not stat.S_ISREG(status.st_mode):
            raise ToolError(f"`{display_path(path)}` is not a regular file")
        yield descriptor, status
    finally:
        os.close(descriptor)


def _copy_attributes(source: int, target: int) -> None:
    """Give an open file the owner, group and extended attributes of another one, as far as this process may."""
    status = os.fstat(source)
    for owner, group in ((-1, status.st_gid), (status.st_uid, -1)):
        with suppress(OSError):
            os.fchown(target, owner, group)
    with suppress(AttributeError, OSError):  # not on every system, or not on this file system
        for name in os.listxattr(source):
            if name.startswith(_KEPT_ATTRIBUTES):
                with suppress(OSError):
                    os.setxattr(target, name, os.getxattr(source, name))


def read_limited(descriptor: int, status: os.stat_result, limit: int, path: str) -> bytes:
    """Read an open file of at most `limit` bytes. Raises ToolError if the file is larger."""
    data = b"" if status.st_size > limit else read_bytes(descriptor, limit + 1)
    size = max(status.st_size, len(data))
    if size > limit:
        raise ToolError(f"`{display_path(path)}` has {size} bytes, more than {limit}")
    return data


def read_bytes(descriptor: int, limit: int) -> bytes:
    """Read at most `limit` bytes of an open file, even if it grows meanwhile."""
    pieces: list[bytes] = []
    while limit > 0 and (piece := os.read(descriptor, min(limit, 1024 * 1024))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


@contextmanager
def _lock(place: OpenedEntry, path: str, deadline: float) -> Generator[None]:
    if not place.name:
        raise ToolError(f"`{display_path(path)}` is a folder, not a file")
    try:
        with folder_lock(place.folder, deadline):
            yield
    except LockTimeout:
        raise _lock_error(path) from None


def _lock_error(path: str) -> ToolError:
    message = f"`{display_path(path)}` was not changed: another program is writing in its folder"
    return ToolError(message, hint="try again")


def _same_place(one: OpenedEntry, other: OpenedEntry) -> bool:
    same_folder = _identity(os.fstat(one.folder)) == _identity(os.fstat(other.folder))
    return same_folder and (one.path, one.missing) == (other.path, other.missing)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def display_path(name: str) -> str:
    """Make a path printable on one line."""
    flat = printable(name)
    return flat if len(flat) <= 300 else f"{flat[:299]}…"
