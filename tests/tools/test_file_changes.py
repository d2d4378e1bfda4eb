"""Changes of files by tools: conflicts are noticed, each change is recorded before it is made, and all can be undone."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import check_each, size
from toolspeak.core.types import ToolCall
from toolspeak.engine.rounds.transcript import CallRecord, Round
from toolspeak.errors import ToolError, UsageError
from toolspeak.store.session_interface import FileChange, MemoryJournal
from toolspeak.tools import confined_paths as confined
from toolspeak.tools import file_changes
from toolspeak.tools.base import CallContext, ToolOutput
from toolspeak.tools.confined_paths import ConfinedRoot, LockedFile
from toolspeak.tools.file_changes import UndoResult, undo_changes
from toolspeak.tools.files import file_tools

pytestmark = [
    pytest.mark.requirement("F10"),
    pytest.mark.skipif(sys.platform == "win32", reason="files cannot be opened relative to folders"),
]


class Killed(BaseException):
    """The process is killed at this point, as far as the tool can tell."""


class Session:
    """A session that calls file tools one after the other."""

    def __init__(self, work: Path, session: str = "s", tools: list[Any] | None = None) -> None:
        self.tools = {each.tool.name: each for each in tools or file_tools(work)}
        self.journal = MemoryJournal(session)
        self.killed = False
        self._calls = 0
        asyncio.run(self.journal.begin())

    def call(self, name: str, /, **arguments: Any) -> ToolOutput:
        self._calls += 1
        call = ToolCall(name, arguments, f"call_{self._calls}")

        def record(change: FileChange) -> None:
            asyncio.run(self.journal.change(call.id, change))
            if self.killed:
                raise Killed

        async def run() -> ToolOutput:
            await self.journal.plan(Round(calls=(CallRecord(call),)))
            await self.journal.start(call.id)
            context = CallContext(call.id, session=self.journal.session, record_change=record)
            return await self.tools[name].run(arguments, context)

        return asyncio.run(run())

    def fails(self, words: str, name: str, /, **arguments: Any) -> None:
        with pytest.raises(ToolError, match=words):
            self.call(name, **arguments)

    def undo(self, work: Path | None = None, *, dry_run: bool = False) -> UndoResult:
        return asyncio.run(undo_changes(self.journal, work, dry_run=dry_run))

    def actions(self) -> dict[str, str]:
        return {file.path: file.reason or file.action for file in self.undo().files}


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a folder: modes, contents and targets of links."""

    def content(path: Path) -> bytes:
        if path.is_symlink():
            return os.readlink(path).encode()
        return path.read_bytes() if path.is_file() else b""

    return {
        str(each.relative_to(folder)): (stat.S_IMODE(each.lstat().st_mode), content(each))
        for each in sorted(folder.rglob("*"))
    }


# ---- conflicts


@check_each(("read"), [{}, {"first_line": 2, "lines": 1}])
def test_a_file_that_someone_changed_since_it_was_read_is_not_written(read: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        session = Session(work)
        (work / "f").write_text("one\ntwo\n")
        session.call("read_file", path="f", **read)
        (work / "f").write_text("one\ntwo\nthree\n")
        session.fails(
            "`f` was changed by someone else since you last read it", "edit_file", path="f", old="one", new="1"
        )
        session.fails("nothing was written .read it again", "write_file", path="f", content="1")
        assert (work / "f").read_text() == "one\ntwo\nthree\n"
        session.call("read_file", path="f")
        session.call("edit_file", path="f", old="one", new="1")
        assert (work / "f").read_text() == "1\ntwo\nthree\n"


def test_what_a_session_wrote_itself_is_known_to_it(tmp_path: Path):
    session = Session(tmp_path)
    session.call("write_file", path="f", content="one")
    session.call("edit_file", path="f", old="one", new="two")
    session.call("edit_file", path="f", old="two", new="three")
    (tmp_path / "f").write_text("someone else")
    session.fails("changed by someone else", "write_file", path="f", content="four")


def test_a_file_that_was_never_read_may_have_any_content(tmp_path: Path):
    (tmp_path / "f").write_text("one")
    Session(tmp_path).call("edit_file", path="f", old="one", new="two")
    assert (tmp_path / "f").read_text() == "two"


def test_sessions_that_share_tools_know_files_each_for_itself(tmp_path: Path):
    (tmp_path / "f").write_text("0")
    tools = file_tools(tmp_path)
    one, other = Session(tmp_path, "one", tools), Session(tmp_path, "other", tools)
    one.call("read_file", path="f")
    other.call("edit_file", path="f", old="0", new="1")
    one.fails("changed by someone else", "edit_file", path="f", old="1", new="2")
    other.call("edit_file", path="f", old="1", new="2")


def test_a_link_and_its_file_are_one_file(tmp_path: Path):
    (tmp_path / "f").write_text("0")
    (tmp_path / "link").symlink_to("f")
    session = Session(tmp_path)
    session.call("read_file", path="link")
    (tmp_path / "f").write_text("1")
    session.fails("changed by someone else", "write_file", path="f", content="2")


def test_a_file_that_was_deleted_since_is_written_only_when_the_model_insists(tmp_path: Path):
    session = Session(tmp_path)
    session.call("write_file", path="f", content="0")
    (tmp_path / "f").unlink()
    session.fails("`f` was deleted by someone else", "write_file", path="f", content="1")
    assert session.call("write_file", path="f", content="1").content == "made `f`, 1 bytes"
    (tmp_path / "f").unlink()
    session.fails("deleted by someone else", "edit_file", path="f", old="1", new="2")
    session.fails("no such file", "edit_file", path="f", old="1", new="2")


def test_a_file_that_can_no_longer_be_read_may_be_replaced(tmp_path: Path):
    session = Session(tmp_path)
    session.call("write_file", path="f", content="0")
    (tmp_path / "f").write_bytes(b"\0")
    session.fails("not a text file", "read_file", path="f")
    session.call("write_file", path="f", content="1")


def test_what_is_known_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_changes, "_MAX_REMEMBERED", 2)
    session = Session(tmp_path)
    for name in "abc":
        session.call("write_file", path=name, content="0")
        (tmp_path / name).write_text("changed")
    session.call("write_file", path="a", content="1")
    session.fails("changed by someone else", "write_file", path="c", content="1")


@check_each("change", [lambda file: file.write_text("theirs"), lambda file: file.unlink()])
def test_a_program_that_takes_no_lock_is_noticed_right_before_the_write(change: Callable[[Path], Any]):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "f"
        file.write_text("one")
        session = Session(Path(folder))
        require = LockedFile._require_unchanged  # pyright: ignore[reportPrivateUsage]

        def late(self: LockedFile, *arguments: Any) -> None:
            change(file)
            require(self, *arguments)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(LockedFile, "_require_unchanged", late)
            session.fails("changed by someone else just now, so it was not", "edit_file", path="f", old="one", new="1")
        assert not file.exists() or file.read_text() == "theirs"
        assert len(os.listdir(folder)) <= 1, "no temporary file"


def test_a_new_file_that_someone_else_makes_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    replace = LockedFile.replace

    def late(self: LockedFile, *arguments: Any) -> None:
        (tmp_path / "f").write_text("theirs")
        replace(self, *arguments)

    monkeypatch.setattr(LockedFile, "replace", late)
    Session(tmp_path).fails("changed by someone else just now", "write_file", path="f", content="ours")
    assert (tmp_path / "f").read_text() == "theirs"


def test_a_lock_that_is_not_released_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(confined, "_LOCK_SECONDS", 0.05)
    (tmp_path / "f").write_text("one")
    session = Session(tmp_path)
    with ConfinedRoot(str(tmp_path)).locked("other"):
        session.fails(
            "`f` was not changed: another program is writing in its folder .try again",
            "write_file",
            path="f",
            content="x",
        )
    monkeypatch.setattr(confined, "_same_place", lambda *_: False)
    session.fails("another program is writing", "write_file", path="f", content="x")
    assert (tmp_path / "f").read_text() == "one"


def test_a_folder_that_another_writer_makes_while_we_wait_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lock = confined.folder_lock

    def made_meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(confined, "folder_lock", lock)
        (tmp_path / "new").mkdir()
        return lock(*arguments)

    monkeypatch.setattr(confined, "folder_lock", made_meanwhile)
    session = Session(tmp_path)
    session.call("write_file", path="new/f", content="x")
    assert [change.folders for change in asyncio.run(session.journal.changes())] == [()]


# ---- recording


def test_a_change_is_recorded_before_it_is_made_and_its_diff_is_in_the_result(tmp_path: Path):
    (tmp_path / "f").write_text("one\n")
    (tmp_path / "f").chmod(0o640)
    session = Session(tmp_path)
    output = session.call("edit_file", path="./f", old="one", new="two")
    diff = "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-one\n+two\n"
    assert [(each.path, each.diff) for each in output.diffs] == [("f", diff)]
    (change,) = asyncio.run(session.journal.changes())
    assert (change.root, change.path, change.content, change.mode) == (str(tmp_path), "f", b"one\n", 0o640)
    assert change.diff == diff
    assert session.call("write_file", path="f", content="two\n").diffs == ()


def test_only_the_first_change_of_a_file_keeps_its_content(tmp_path: Path):
    session = Session(tmp_path)
    (tmp_path / "f").write_text("0")
    for number in range(3):
        session.call("edit_file", path="f", old=str(number), new=str(number + 1))
    assert [change.content for change in asyncio.run(session.journal.changes())] == [b"0", None, None]


def test_what_cannot_be_recorded_is_not_written(tmp_path: Path):
    (tmp_path / "f").write_text("0")

    def refuse(_: FileChange) -> None:
        raise UsageError("the disk is full")

    tools = {each.tool.name: each for each in file_tools(tmp_path)}
    for path in ("f", "new/f"):
        with pytest.raises(UsageError, match="disk is full"):
            context = CallContext("c", session="s", record_change=refuse)
            asyncio.run(tools["write_file"].run({"path": path, "content": "1"}, context))
    assert tree(tmp_path).keys() == {"f"}
    assert (tmp_path / "f").read_text() == "0"


def test_a_call_that_has_ended_changes_nothing_any_more(tmp_path: Path):
    session = Session(tmp_path)
    session.call("write_file", path="f", content="0")
    change = FileChange(str(tmp_path), "f", "", "")
    for call_id in ("call_1", "call_2"):

        async def late(call_id: str = call_id) -> None:
            await session.journal.plan(Round(calls=(CallRecord(ToolCall("write_file", {}, "call_2")),)))
            await session.journal.change(call_id, change)

        with pytest.raises(UsageError, match="is not running, so it must not change files"):
            asyncio.run(late())


# ---- undo


def test_files_are_restored_with_their_permissions_and_new_ones_are_deleted(tmp_path: Path):
    (tmp_path / "run.sh").write_bytes(b"one\r\n")
    (tmp_path / "run.sh").chmod(0o754)
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("run.sh")
    before = tree(tmp_path)
    session = Session(tmp_path)
    session.call("edit_file", path="link", old="one", new="two")
    session.call("write_file", path="empty", content="no longer")
    session.call("write_file", path="new/deep/f", content="x")
    session.call("write_file", path="new/g", content="x")
    assert session.undo(dry_run=True).complete
    assert (tmp_path / "new/g").exists()
    assert session.actions() == {"run.sh": "restored", "empty": "restored", "new/deep/f": "deleted", "new/g": "deleted"}
    assert tree(tmp_path) == before
    assert session.undo().files == ()


@check_each(("between", "after", "mode"), [(None, 0o600, 0o600), (0o755, None, 0o644), (0o755, 0o600, 0o600)])
def test_permissions_that_someone_else_sets_after_the_last_change_stay(
    between: int | None, after: int | None, mode: int
):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "f"
        file.write_text("0")
        file.chmod(0o644)
        session = Session(Path(folder))
        session.call("write_file", path="f", content="1")
        file.chmod(between or 0o644)
        session.call("write_file", path="f", content="2")
        file.chmod(after or between or 0o644)
        assert session.actions() == {"f": "restored"}
        assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("0", mode)


#: Writes to a file and is killed right before the new file takes the place of the old one.
KILLED_WRITE = """
import asyncio, os, signal, sys
from toolspeak.tools.base import CallContext
from toolspeak.tools.files import file_tools

write = next(each for each in file_tools(sys.argv[1]) if each.tool.name == "write_file")
os.replace = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(write.run({"path": sys.argv[2], "content": "1"}, CallContext()))
"""


@pytest.mark.parametrize("path", ["f", "new/f"])
@pytest.mark.parametrize("undo", [True, False])
def test_what_a_killed_write_left_is_removed_by_undo_and_by_the_next_change(tmp_path: Path, path: str, undo: bool):
    session = Session(tmp_path)
    session.call("write_file", path=path, content="0")
    folder = (tmp_path / path).parent
    (folder / "mine.tmp").touch()
    killed = subprocess.run([sys.executable, "-c", KILLED_WRITE, str(tmp_path), path], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    session.undo(dry_run=True)
    assert len(list(folder.glob(".toolspeak-*.tmp"))) == 1
    session.undo() if undo else session.call("write_file", path=path, content="2")
    assert {each.name for each in folder.iterdir()} == ({"mine.tmp"} if undo else {"mine.tmp", "f"})


def test_a_folder_that_someone_else_uses_stays(tmp_path: Path):
    session = Session(tmp_path)
    session.call("write_file", path="new/deep/f", content="x")
    (tmp_path / "new/theirs").touch()
    session.undo()
    assert tree(tmp_path).keys() == {"new", "new/theirs"}


SINCE = "someone else has changed it since"
BETWEEN = "someone else changed it between two changes of the session"


def _replace_by_link(file: Path) -> None:
    file.rename(file.with_name("moved"))
    file.symlink_to("moved")


def _replace_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@check_each(
    ("someone", "reason"),
    [
        (lambda file: file.write_text("theirs"), SINCE),
        (lambda file: file.unlink(), "someone else deleted it"),
        (_replace_by_link, "its path now leads through a link"),
        (_replace_by_folder, "`f` is a folder, not a file"),
    ],
)
def test_a_file_that_someone_else_changed_is_left_alone_and_the_others_are_restored(
    someone: Callable[[Path], None], reason: str
):
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in ("f", "g"):
            (work / name).write_text("0")
        session = Session(work)
        for name in ("f", "g"):
            session.call("edit_file", path=name, old="0", new="1")
        someone(work / "f")
        after = tree(work)
        assert session.actions() == {"f": reason, "g": "restored"}
        assert tree(work) == {**after, "g": (after["g"][0], b"0")}
        assert session.actions() == {"f": reason}, "it is still there to be undone"


def test_a_change_by_someone_else_between_two_changes_is_not_lost(tmp_path: Path):
    (tmp_path / "f").write_text("0")
    session = Session(tmp_path)
    session.call("edit_file", path="f", old="0", new="1")
    (tmp_path / "f").write_text("1 theirs")
    session.call("read_file", path="f")
    session.call("edit_file", path="f", old="1", new="2")
    assert session.actions() == {"f": BETWEEN}
    assert (tmp_path / "f").read_text() == "2 theirs"


def test_a_new_file_that_someone_else_deleted_needs_no_undo(tmp_path: Path):
    session = Session(tmp_path)
    session.call("write_file", path="f", content="0")
    (tmp_path / "f").unlink()
    assert session.actions() == {"f": "unchanged"}
    assert session.undo().files == ()


def test_after_an_undo_new_changes_can_be_undone_again(tmp_path: Path):
    (tmp_path / "f").write_text("0")
    session = Session(tmp_path)
    for _ in range(2):
        session.call("edit_file", path="f", old="0", new="1")
        assert session.actions() == {"f": "restored"}
        session.call("read_file", path="f")
    assert (tmp_path / "f").read_text() == "0"


@pytest.mark.parametrize("other", ["f", "new"])
def test_what_a_killed_program_recorded_but_did_not_do_is_no_obstacle(tmp_path: Path, other: str):
    (tmp_path / "f").write_text("0")
    session = Session(tmp_path)
    session.call("edit_file", path="f", old="0", new="1")
    session.killed = True
    with pytest.raises(Killed):
        session.call("write_file", path=other, content="2")
    session.killed = False
    session.call("edit_file", path="f", old="1", new="3")
    session.undo()
    assert tree(tmp_path).keys() == {"f"}
    assert (tmp_path / "f").read_text() == "0"


def test_files_in_another_work_directory_are_left_alone(tmp_path: Path):
    session = Session(tmp_path)
    session.call("write_file", path="f", content="0")
    (tmp_path / "inner").mkdir()
    (file,) = session.undo(tmp_path / "inner").files
    assert (file.action, file.reason) == ("refused", f"it is in another work directory, {tmp_path}")
    assert session.undo(tmp_path).complete


@check_each("content", [None, b"forged"])
def test_content_that_is_missing_or_damaged_is_not_restored(content: bytes | None):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "f"
        file.write_text("1")
        session = Session(Path(folder))
        session.call("read_file", path="f")
        after = confined.content_hash(b"1")
        change = FileChange(folder, "f", confined.content_hash(b"0"), after, 0o600, (), "", content)
        asyncio.run(session.journal.change("call_1", change))
        assert session.actions() == {"f": "its recorded content is missing or damaged"}
        assert file.read_text() == "1"


@check_each(("root", "path", "reason"), [("/", "../x", "leads out"), ("/no/such/folder", "x", "o such file")])
def test_a_record_cannot_lead_out_of_its_work_directory(root: str, path: str, reason: str):
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder))
        (Path(folder) / "f").touch()
        session.call("read_file", path="f")
        asyncio.run(session.journal.change("call_1", FileChange(root, path, "", "")))
        (text,) = session.actions().values()
        assert reason in text


NAMES = ["a.txt", "d/e.txt", "d/f/g.txt", "link", "new/h.txt", "new/i/j.txt"]
CONTENTS = st.sampled_from(["", "x", "one\ntwo\n", "one\r\ntwo\r\n", "a\u2028b", "é" * 50])
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "edit", "kill", "read"]), st.sampled_from(NAMES), CONTENTS), max_size=25
)
BEFORE = st.dictionaries(st.sampled_from(NAMES[:3]), st.tuples(CONTENTS, st.sampled_from([0o600, 0o644, 0o755])))


@settings(max_examples=size(50, 500))
@given(BEFORE, STEPS)
def test_any_sequence_of_edits_is_undone_byte_for_byte(
    files: dict[str, tuple[str, int]], steps: list[tuple[str, str, str]]
):
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "link").symlink_to("a.txt")
        for name, (content, mode) in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(content, newline="")
            (work / name).chmod(mode)
        before = tree(work)
        session = Session(work)
        for kind, name, content in steps:
            session.killed = kind == "kill"
            _step(session, kind, name, content)
        assert session.undo().complete
        assert tree(work) == before


def _step(session: Session, kind: str, name: str, content: str) -> None:
    try:
        if kind == "read":
            session.call("read_file", path=name)
        elif kind == "edit":
            session.call("edit_file", path=name, old="x", new=content + "y")
        else:
            session.call("write_file", path=name, content=content)
    except (ToolError, Killed):
        pass
