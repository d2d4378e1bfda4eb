"""File tools: read, write, edit, list and search, confined to a work directory.

The docstrings of the tools and the error texts are read by the model.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from ..engine.rounds.transcript import FileDiff
from ..errors import ToolError
from .approval_patterns import matches
from .base import CallContext, Executable, ToolOutput
from .confined_paths import ConfinedRoot, FileState, OpenedEntry, display_path, open_regular, read_bytes, read_limited
from .file_changes import MAX_FILE_BYTES, KnownContents, change_file
from .functions import tool
from .sandbox import own_folders, work_folder

#: Maximum characters that one call to `read_file` returns; longer files are read in parts.
_MAX_READ_CHARS = 256 * 1024
_MAX_ENTRIES = 1000
_MAX_MATCHES = 200
_MAX_LINE_CHARS = 300
#: Limits for one search, and for the depth of a recursive listing.
_MAX_SEARCH_FILES = 20_000
_MAX_SEARCH_BYTES = 256 * 1024 * 1024
_MAX_DEPTH = 64
_SNIFF_BYTES = 8192  # a file with a NUL byte among its first bytes is treated as binary
#: Folders that a recursive walk skips: dependencies and version control.
_SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox"})
_Written: TypeAlias = tuple[bool, tuple[FileDiff, ...]]  # whether the file is new, and what has changed
_NO_CONTEXT = CallContext()  # the context of a direct call, without an agent


def file_tools(work: str | os.PathLike[str], *, write: bool = True) -> list[Executable]:
    """Return the file tools for a work directory. If `write` is False, only the read-only ones.

    Raises UsageError if the folder cannot be used as a work directory.
    """
    folder = work_folder(work)
    files = _Files(ConfinedRoot(folder, own_folders(folder)))
    reading = tool(read_only=True)
    tools: list[Executable] = [reading(files.read_file), reading(files.list_files), reading(files.search_files)]
    if write:
        tools += [tool(side_effects=True)(files.write_file), tool(side_effects=True)(files.edit_file)]
    return tools


class _Files:
    """The tools as methods. The model reads their docstrings."""

    def __init__(self, root: ConfinedRoot) -> None:
        self._root = root
        self._known = KnownContents()

    def read_file(
        self, path: str, first_line: int = 1, lines: int | None = None, context: CallContext = _NO_CONTEXT
    ) -> str:
        """Read a text file.

        Args:
            path: The file, relative to the work directory.
            first_line: The line to begin with.
            lines: How many lines to read; all if left out.
        """
        if first_line < 1 or (lines is not None and lines < 1):
            raise ToolError("`first_line` and `lines` must be 1 or more")
        text = self._read(path, context)
        if first_line == 1 and lines is None and len(text) <= _MAX_READ_CHARS:
            return text or "[the file is empty]"
        # `splitlines` is not used, because it also splits at characters that editors do not treat as line ends.
        parts = text.split("\n")
        total = len(parts) - (not parts[-1])
        if first_line > total:
            raise ToolError(f"`{display_path(path)}` has {total} lines only")
        end = total if lines is None else min(total, first_line - 1 + lines)
        chosen = "".join(f"{line}\n" for line in parts[first_line - 1 : end])
        if end == total and parts[-1]:
            chosen = chosen[:-1]
        if len(chosen) > _MAX_READ_CHARS:
            raise ToolError(f"that is more than {_MAX_READ_CHARS} characters; the file has {total} lines", hint=_PART)
        rest = total - end
        return chosen if not rest else f"{chosen}[{rest} more lines]"

    def write_file(self, path: str, content: str, context: CallContext = _NO_CONTEXT) -> ToolOutput:
        """Write a text file, new or in place of the old one. Folders that are missing are made.

        Args:
            path: The file, relative to the work directory.
            content: All that the file shall hold.
        """
        data = _encoded(content)
        new, diffs = self._write(path, context, lambda _: data)
        return ToolOutput(f"{'made' if new else 'replaced'} `{display_path(path)}`, {len(data)} bytes", diffs=diffs)

    def edit_file(self, path: str, old: str, new: str, context: CallContext = _NO_CONTEXT) -> ToolOutput:
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

        def edit(before: FileState | None) -> bytes:
            if before is None:
                missing = f"`{display_path(path)}`: no such file or directory"
                raise ToolError(missing, hint="use write_file for a new file")
            return _encoded(_edited(_text(before.data, path), path, old, new))

        _, diffs = self._write(path, context, edit)
        return ToolOutput(f"edited `{display_path(path)}`", diffs=diffs)

    def list_files(self, path: str = ".", recursive: bool = False) -> str:
        """List a folder: one entry a line, folders with a slash at the end, files with their size.

        Args:
            path: The folder, relative to the work directory.
            recursive: Whether to list the folders inside as well.
        """
        entries: list[str] = []
        with self._root.resolve(path) as place:
            for entry in _walk_folder(_folder_at(place, path), recursive):
                if len(entries) == _MAX_ENTRIES:
                    entries.append(f"[more than {_MAX_ENTRIES} entries; list a folder inside]")
                    break
                entries.append(_entry_line(entry))
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
        needle = text.casefold() if ignore_case else text
        matched: list[str] = []
        budget = _SearchBudget()
        with self._root.resolve(path) as place:
            for entry in _walk_folder(_folder_at(place, path), True):
                if entry.is_file and matches(name, entry.name):
                    matched += _matching_lines(entry, needle, ignore_case, budget, _MAX_MATCHES + 1 - len(matched))
                if len(matched) > _MAX_MATCHES:
                    return "\n".join([*matched[:_MAX_MATCHES], f"[more than {_MAX_MATCHES} matches]"])
                if budget.spent:
                    matched.append("[the search ended here: too many files; search a folder inside]")
                    break
        return "\n".join(matched) or "[no match]"

    def _read(self, path: str, context: CallContext) -> str:
        """Read a text file, and remember what the model knows of it."""
        with self._root.open_file(path) as file:
            self._known.forget(context.session, file.path)
            data = read_limited(file.descriptor, file.status, MAX_FILE_BYTES, path)
        text = _text(data, path)
        self._known.remember(context.session, file.path, data)
        return text

    def _write(self, path: str, context: CallContext, edit: Callable[[FileState | None], bytes]) -> _Written:
        """Replace the content of a file by what `edit` makes of it, while the file is locked."""
        with self._root.locked(path) as file:
            before = file.read(MAX_FILE_BYTES)
            self._known.check(context.session, file.path, before)
            data = edit(before)
            diffs = change_file(self._root, file, before, data, context)
        self._known.remember(context.session, file.path, data)
        return before is None, diffs


def _text(data: bytes, path: str) -> str:
    text = _decoded(data)
    if text is None:
        raise ToolError(f"`{display_path(path)}` is not a text file; it has {len(data)} bytes")
    return text


def _edited(text: str, path: str, old: str, new: str) -> str:
    """Replace the only occurrence of `old` in the text of a file.

    Raises ToolError if `old` does not occur, or occurs more than once.
    """
    count = text.count(old)
    if count == 0:
        hint = "its lines end with CR LF" if "\r\n" in text and "\n" in old else "read the file and copy it exactly"
        raise ToolError(f"`{display_path(path)}` does not contain that text", hint=hint)
    if count > 1 or text.find(old, text.find(old) + 1) >= 0:
        message = f"`{display_path(path)}` contains that text more than once"
        raise ToolError(message, hint="add more of the surrounding text")
    return text.replace(old, new)


_PART = "read a part with `first_line` and `lines`"


class _FolderEntry(NamedTuple):
    folder: int
    name: str
    path: str  # path relative to the folder where the listing starts
    mode: int
    size: int

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


class _SearchBudget:
    """The files and bytes that a search may still read."""

    def __init__(self) -> None:
        self.files = _MAX_SEARCH_FILES
        self.size = _MAX_SEARCH_BYTES

    @property
    def spent(self) -> bool:
        return self.files <= 0 or self.size <= 0


def _folder_at(place: OpenedEntry, path: str) -> int:
    if place.name:
        raise ToolError(f"`{display_path(path)}` is not a folder")
    return place.folder


def _walk_folder(start: int, recursive: bool) -> Iterator[_FolderEntry]:
    """Yield the sorted entries of a folder, and of its subfolders if `recursive`. Links are not followed."""
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        steps = waiting.pop()
        try:
            folder = _open_folder(start, steps)
        except OSError:
            continue  # deleted meanwhile, or not readable
        inner: list[tuple[str, ...]] = []
        try:
            for name in sorted(os.listdir(folder)):
                try:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except OSError:
                    continue
                yield _FolderEntry(folder, name, "/".join((*steps, name)), status.st_mode, status.st_size)
                if stat.S_ISDIR(status.st_mode) and name not in _SKIPPED_FOLDERS and len(steps) < _MAX_DEPTH:
                    inner.append((*steps, name))
        finally:
            os.close(folder)
        if recursive:
            waiting += reversed(inner)


def _open_folder(start: int, steps: tuple[str, ...]) -> int:
    """Open a subfolder one component at a time, without following links."""
    at = os.dup(start)
    for name in steps:
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        finally:
            os.close(at)
        at = inner
    return at


def _entry_line(entry: _FolderEntry) -> str:
    name = display_path(entry.path)
    if stat.S_ISDIR(entry.mode):
        return f"{name}/"
    if stat.S_ISLNK(entry.mode):
        return f"{name} (link)"
    return f"{name} ({entry.size} bytes)" if entry.is_file else f"{name} (not a regular file)"


def _matching_lines(entry: _FolderEntry, needle: str, ignore_case: bool, budget: _SearchBudget, most: int) -> list[str]:
    budget.files -= 1
    if entry.size > MAX_FILE_BYTES:
        return []
    try:
        with open_regular(entry.folder, entry.name, entry.path) as (descriptor, _):
            data = read_bytes(descriptor, MAX_FILE_BYTES)
    except (OSError, ToolError):
        return []
    budget.size -= len(data)
    text = _decoded(data)
    if text is None or needle not in (text.casefold() if ignore_case else text):
        return []
    matched: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if needle in (line.casefold() if ignore_case else line):
            cut = line if len(line) <= _MAX_LINE_CHARS else f"{line[: _MAX_LINE_CHARS - 1]}…"
            matched.append(f"{display_path(entry.path)}:{number}: {cut.rstrip()}")
            if len(matched) == most:
                break
    return matched


def _decoded(data: bytes) -> str | None:
    """Decode the contents of a text file. Returns None if the file is binary."""
    if b"\0" not in data[:_SNIFF_BYTES]:
        with suppress(UnicodeDecodeError):
            return data.decode()
    return None


def _encoded(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ToolError("the text contains half a character (a lone surrogate)") from None
    if len(data) > MAX_FILE_BYTES:
        raise ToolError(f"the text has {len(data)} bytes, more than {MAX_FILE_BYTES}")
    return data
