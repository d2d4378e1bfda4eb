"""Changes of files by tools: detect conflicts, record each change before it is made, and undo the changes of a session.

Undo goes by hashes of contents, so it never overwrites what someone else wrote.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from ..engine.rounds.transcript import FileDiff, records_of
from ..errors import ToolError, ToolspeakError
from ..store.session_interface import FileChange, SessionJournal
from .base import CallContext
from .confined_paths import ConfinedRoot, FileState, LockedFile, content_hash, display_path
from .diffs import unified_diff
from .sandbox import own_folders
from .threads import in_thread

MAX_FILE_BYTES = 8 * 1024 * 1024  # maximum size of a file that is read, written, searched or restored
_MAX_REMEMBERED = 4096  # maximum number of files whose last known content is remembered, for all sessions together


class KnownContents:
    """The hash of each file as the model last saw it, by session and path. Thread-safe."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, session: str, path: str, data: bytes) -> None:
        """Remember the content that the model has read or written. Calls outside of sessions are not remembered."""
        if not session:
            return
        with self._lock:
            self._hashes[session, path] = content_hash(data)
            self._hashes.move_to_end((session, path))
            if len(self._hashes) > _MAX_REMEMBERED:
                self._hashes.popitem(last=False)

    def forget(self, session: str, path: str) -> None:
        """Forget a file, so that it may have any content."""
        with self._lock:
            self._hashes.pop((session, path), None)

    def check(self, session: str, path: str, state: FileState | None) -> None:
        """Check that a file is still as the model last saw it. A file that it has not seen may have any content.

        Raises ToolError if someone else has changed the file.
        """
        with self._lock:
            known = self._hashes.get((session, path))
        if known is None or (state is not None and state.hash == known):
            return
        what, hint = "changed", "read it again before you change it"
        if state is None:
            self.forget(session, path)  # there is nothing to read again
            what, hint = "deleted", "write it again if it should exist"
        message = f"`{display_path(path)}` was {what} by someone else since you last read it; nothing was written"
        raise ToolError(message, hint=hint)


def change_file(
    root: ConfinedRoot, file: LockedFile, before: FileState | None, data: bytes, context: CallContext
) -> tuple[FileDiff, ...]:
    """Record a change of a file, then make it. Returns its diff, or nothing if the content stays the same.

    Raises ToolError if the file has been changed by someone else, or cannot be written.
    """
    path, folders = file.path, file.missing_folders
    old_hash, mode, old = ("", None, None) if before is None else (before.hash, before.mode, before.data)
    diff = unified_diff(path, old, data)
    context.record_change(FileChange(root.root, path, old_hash, content_hash(data), mode or 0, folders, diff, old))
    file.replace(data, mode, before)
    return (FileDiff(path, diff),) if diff else ()


#: `unchanged`: the file already was as before. `refused`: it was left alone, and the reason says why.
UndoAction: TypeAlias = Literal["restored", "deleted", "unchanged", "refused"]


class UndoneFile(msgspec.Struct, frozen=True):
    """What undo did with a file, or would do."""

    root: str
    path: str
    action: UndoAction
    reason: str = ""


class UndoResult(msgspec.Struct, frozen=True):
    """What undo did, or would do."""

    session: str
    files: tuple[UndoneFile, ...] = ()
    #: Whether the session ran commands of the shell. What they changed is not recorded and cannot be undone.
    ran_shell: bool = False

    @property
    def complete(self) -> bool:
        """Whether no file was refused."""
        return all(file.action != "refused" for file in self.files)


async def undo_changes(
    journal: SessionJournal, work: str | os.PathLike[str] | None = None, *, dry_run: bool = False
) -> UndoResult:
    """Restore the files that the tools of a session changed to their state before its first change.

    Files that were created are deleted, and so are folders that were created for them, if they are empty. Files that
    someone else has changed since are refused, and so are those outside of `work`; the others are restored all the
    same. With `dry_run`, only find out what would be done.
    """
    changes: dict[tuple[str, str], list[FileChange]] = {}
    for change in await journal.changes():
        changes.setdefault((change.root, change.path), []).append(change)
    files: list[UndoneFile] = []
    folders: set[tuple[str, str]] = set()
    for (root, path), history in changes.items():
        action, reason = await in_thread(lambda history=history: _undo_file(history, work, dry_run))
        if action != "refused" and not dry_run:
            await journal.mark_undone(root, path)
            folders |= {(root, folder) for change in history for folder in change.folders}
        files.append(UndoneFile(root, path, action, reason))
    await in_thread(lambda: _remove_folders(folders))
    records = records_of(await journal.entries())
    ran_shell = any(record.call.name == "shell" and record.state != "planned" for record in records)
    return UndoResult(journal.session, tuple(files), ran_shell)


def _undo_file(
    changes: Sequence[FileChange], work: str | os.PathLike[str] | None, dry_run: bool
) -> tuple[UndoAction, str]:
    first = changes[0]
    if work is not None and first.root != os.path.realpath(work):
        return "refused", f"it is in another work directory, {display_path(first.root)}"
    try:
        with ConfinedRoot(first.root, own_folders(first.root)).locked(first.path) as file:
            if file.path != first.path:
                return "refused", "its path now leads through a link"
            if not dry_run:
                file.remove_leftovers()
            state = file.read(MAX_FILE_BYTES)
            if problem := _conflict(changes, state):
                return "refused", problem
            restore = _restoration(changes, file, state)
            if restore is None:
                return "unchanged", ""
            if not dry_run:
                restore()
            return ("restored" if first.before else "deleted"), ""
    except (ToolspeakError, OSError) as error:
        return "refused", str(error)


def _conflict(changes: Sequence[FileChange], state: FileState | None) -> str:
    """Return why changes of a file cannot be undone; empty if they can.

    A change that was recorded may not have been made, because the program was killed or the write failed. So after each
    change, the file may have the content before it or after it.
    """
    possible = {changes[0].before}
    for change in changes:
        if change.before not in possible:
            return "someone else changed it between two changes of the session"
        possible = {change.before, change.after}
    current = state.hash if state is not None else ""
    if current in possible or current == changes[0].before:
        return ""
    return "someone else deleted it" if state is None else "someone else has changed it since"


def _restoration(changes: Sequence[FileChange], file: LockedFile, state: FileState | None) -> Callable[[], None] | None:
    """Return the function that restores the file, or None if it already is as before.

    Raises ToolError if the recorded content is damaged.
    """
    first = changes[0]
    if not first.before:
        return None if state is None else lambda: file.delete(state)
    content = first.content
    if content is None or content_hash(content) != first.before:
        raise ToolError("its recorded content is missing or damaged")
    mode = first.mode & 0o777
    if state is not None and state.mode != changes[-1].mode:  # someone else has changed it
        mode = state.mode
    if state is not None and (state.hash, state.mode) == (first.before, mode):
        return None
    return lambda: file.replace(content, mode, state)


def _remove_folders(folders: set[tuple[str, str]]) -> None:
    """Remove the folders that were created for files, innermost first, if they are empty."""
    for root, folder in sorted(folders, key=lambda each: -each[1].count("/")):
        ConfinedRoot(root).remove_folder(folder)
