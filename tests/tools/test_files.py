"""File tools: what they do inside the work directory, and that no path leads out of it."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import size
from tests.tools.sample_tools import run
from toolspeak import file_locks
from toolspeak.core.types import JSONObject
from toolspeak.errors import ToolError, UsageError
from toolspeak.tools import confined_paths as confined
from toolspeak.tools import files, sandbox
from toolspeak.tools.base import Executable
from toolspeak.tools.confined_paths import ConfinedRoot, LockedFile
from toolspeak.tools.files import file_tools

pytestmark = [
    pytest.mark.requirement("F5"),
    pytest.mark.skipif(sys.platform == "win32", reason="files cannot be opened relative to folders"),
]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    inner = tmp_path / "work"
    inner.mkdir()
    (tmp_path / "secret").write_text("OPEN")
    (tmp_path / "work-too").mkdir()
    (tmp_path / "work-too" / "secret").write_text("OPEN")
    return inner


def do(work: Path, name: str, /, **arguments: Any) -> str:
    return run(tools(work)[name], arguments).content


def tools(work: Path) -> dict[str, Executable]:
    return {each.tool.name: each for each in file_tools(work)}


def refused(work: Path, name: str, words: str, **arguments: Any) -> None:
    with pytest.raises(ToolError, match=words):
        do(work, name, **arguments)


# ---- what they do


def test_the_tools_say_what_they_change(work: Path):
    effects = {name: each.tool.side_effects for name, each in tools(work).items()}
    assert effects == {
        "read_file": False,
        "list_files": False,
        "search_files": False,
        "write_file": True,
        "edit_file": True,
    }
    assert [each.tool.name for each in file_tools(work, write=False)] == ["read_file", "list_files", "search_files"]
    assert tools(work)["read_file"].tool.parameters["properties"]["path"] == {
        "type": "string",
        "description": "The file, relative to the work directory.",
    }


@pytest.mark.parametrize(
    ("content", "arguments", "expected"),
    [
        ("a\nb\nc\n", {}, "a\nb\nc\n"),
        ("", {}, "[the file is empty]"),
        ("a\nb\nc\n", {"first_line": 2}, "b\nc\n"),
        ("a\nb\nc", {"first_line": 2}, "b\nc"),
        ("a\nb\nc\n", {"first_line": 1, "lines": 1}, "a\n[2 more lines]"),
        ("a\nb\nc\n", {"first_line": 3, "lines": 9}, "c\n"),
        ("a\u2028b\r\nc\n", {"first_line": 1, "lines": 1}, "a\u2028b\r\n[1 more lines]"),
    ],
)
def test_a_file_is_read_whole_or_in_part(work: Path, content: str, arguments: JSONObject, expected: str):
    (work / "file").write_text(content, newline="")
    assert do(work, "read_file", path="file", **arguments) == expected


def test_what_cannot_be_read_is_told(work: Path):
    (work / "short").write_text("a\nb\n")
    (work / "long").write_text("line\n" * 100_000)
    (work / "binary").write_bytes(b"\x7fELF\0\0")
    (work / "latin").write_bytes(b"caf\xe9")
    (work / "folder").mkdir()
    os.mkfifo(work / "pipe")
    refused(work, "read_file", "has 2 lines only", path="short", first_line=3)
    refused(work, "read_file", "1 or more", path="short", first_line=0)
    refused(work, "read_file", "1 or more", path="short", lines=0)
    refused(work, "read_file", "the file has 100000 lines", path="long")
    refused(work, "read_file", "not a text file; it has 6 bytes", path="binary")
    refused(work, "read_file", "not a text file", path="latin")
    refused(work, "read_file", "is a folder", path="folder")
    refused(work, "read_file", "is a folder", path=".")
    refused(work, "read_file", "not a regular file", path="pipe")
    refused(work, "read_file", "`missing`: no such file", path="missing")
    refused(work, "read_file", "no such file", path="missing/deeper")
    refused(work, "read_file", "not a directory", path="short/deeper")
    refused(work, "read_file", "must be a non-empty string", path="")
    refused(work, "read_file", "must be a non-empty string", path="a\0b")


def test_a_file_that_is_too_large_is_not_read(work: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 10)
    (work / "large").write_text("x" * 11)
    refused(work, "read_file", "has 11 bytes, more than 10", path="large")
    refused(work, "write_file", "has 11 bytes, more than 10", path="new", content="x" * 11)
    assert do(work, "search_files", text="x") == "[no match]"


def test_a_file_is_written_with_the_folders_that_it_needs(work: Path):
    assert do(work, "write_file", path="a/b/c.txt", content="é\r\n") == "made `a/b/c.txt`, 4 bytes"
    assert (work / "a/b/c.txt").read_bytes() == "é\r\n".encode()
    assert do(work, "write_file", path="a/b/c.txt", content="new") == "replaced `a/b/c.txt`, 3 bytes"
    assert [each.name for each in (work / "a/b").iterdir()] == ["c.txt"]


def test_a_file_keeps_its_permissions_when_it_is_replaced(work: Path):
    (work / "run.sh").write_text("old")
    (work / "run.sh").chmod(0o750)
    do(work, "write_file", path="run.sh", content="new")
    assert (work / "run.sh").stat().st_mode & 0o7777 == 0o750


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="the system has no such attributes")
def test_a_file_keeps_its_attributes_when_it_is_replaced(work: Path):
    (work / "f").write_text("old")
    try:
        os.setxattr(work / "f", "user.origin", b"here")
    except OSError:
        pytest.skip("the file system has no such attributes")
    do(work, "write_file", path="f", content="new")
    assert os.getxattr(work / "f", "user.origin") == b"here"


@pytest.mark.parametrize("allowed", [True, False])
def test_a_file_keeps_its_owner_if_that_is_possible(work: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool):
    """Only root can give files away, so the calls are recorded."""
    owners: list[tuple[int, int]] = []

    def give(descriptor: int, owner: int, group: int) -> None:
        owners.append((owner, group))
        if not allowed:
            raise PermissionError(1, "Operation not permitted")

    (work / "f").write_text("old")
    status = (work / "f").stat()
    monkeypatch.setattr(os, "fchown", give)
    do(work, "write_file", path="f", content="new")
    do(work, "write_file", path="g", content="new")
    assert (work / "f").read_text() == "new"
    assert owners == [(-1, status.st_gid), (status.st_uid, -1)]


def test_no_one_else_can_read_a_private_file_while_it_is_written(work: Path, monkeypatch: pytest.MonkeyPatch):
    (work / "f").write_text("old")
    (work / "f").chmod(0o600)
    modes: list[int] = []
    change = os.fchmod

    def watched(descriptor: int, mode: int) -> None:
        modes.append(os.fstat(descriptor).st_mode & 0o777)
        change(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", watched)
    do(work, "write_file", path="f", content="new")
    assert modes == [0o600]


def test_what_cannot_be_written_is_told(work: Path):
    (work / "folder").mkdir()
    (work / "file").touch()
    os.mkfifo(work / "pipe")
    refused(work, "write_file", "is a folder", path="folder", content="x")
    refused(work, "write_file", "is a folder", path=".", content="x")
    refused(work, "write_file", "not a regular file", path="pipe", content="x")
    refused(work, "write_file", "half a character", path="x", content="\ud800")
    refused(work, "write_file", "not a directory", path="file/x", content="x")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(work: Path, monkeypatch: pytest.MonkeyPatch):
    (work / "file").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    refused(work, "write_file", "`file`: no space left on device", path="file", content="new")
    assert [(each.name, each.read_text()) for each in work.iterdir()] == [("file", "old")]


def test_a_piece_that_occurs_once_is_replaced(work: Path):
    (work / "file").write_text("one two three\n")
    assert do(work, "edit_file", path="file", old="two", new="2") == "edited `file`"
    assert (work / "file").read_text() == "one 2 three\n"


@pytest.mark.parametrize(
    ("content", "old", "words"),
    [
        ("abc", "x", "does not contain that text .read the file"),
        ("a\r\nb", "a\nb", "its lines end with CR LF"),
        ("aXbXc", "X", "more than once"),
        ("aaa", "aa", "more than once"),
        ("abc", "", "must not be empty"),
        ("abc", "new", "are the same"),
    ],
)
def test_an_edit_that_is_not_clear_is_refused(work: Path, content: str, old: str, words: str):
    (work / "file").write_text(content, newline="")
    refused(work, "edit_file", words, path="file", old=old, new="new")
    assert (work / "file").read_text() == content or "\r" in content


def test_a_folder_is_listed_sorted_with_kinds_and_sizes(work: Path):
    (work / "b").write_text("12345")
    (work / "a").mkdir()
    (work / "a" / "inner").touch()
    (work / ".git").mkdir()
    (work / ".git" / "config").touch()
    (work / "link").symlink_to("b")
    os.mkfifo(work / "pipe")
    assert do(work, "list_files") == ".git/\na/\nb (5 bytes)\nlink (link)\npipe (not a regular file)"
    listed = do(work, "list_files", recursive=True).split("\n")
    assert listed == [".git/", "a/", "b (5 bytes)", "link (link)", "pipe (not a regular file)", "a/inner (0 bytes)"]
    assert do(work, "list_files", path="a") == "inner (0 bytes)"
    assert do(work, "list_files", path=".git") == "config (0 bytes)"
    refused(work, "list_files", "`b` is not a folder", path="b")
    (work / "empty").mkdir()
    assert do(work, "list_files", path="empty") == "[the folder is empty]"


def test_a_listing_is_bounded(work: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "_MAX_ENTRIES", 2)
    for name in "abc":
        (work / name).touch()
    assert do(work, "list_files") == "a (0 bytes)\nb (0 bytes)\n[more than 2 entries; list a folder inside]"


def test_a_name_cannot_forge_a_line_of_a_listing(work: Path):
    (work / "x\nsecret (5 bytes)").touch()
    (work / "y\x1b[31m").touch()
    assert do(work, "list_files").split("\n") == ["x\\nsecret (5 bytes) (0 bytes)", "y\\x1b[31m (0 bytes)"]


def test_files_are_searched_literally(work: Path):
    (work / "a.py").write_text("import os\nprint(os.*)\n")
    (work / "b.txt").write_text("OS.* here\n" + "x" * 400 + "os.*\n")
    (work / "binary").write_bytes(b"os.*\0")
    (work / "deep").mkdir()
    (work / "deep" / "c.py").write_text("os.*")
    (work / "link.py").symlink_to("a.py")
    assert do(work, "search_files", text="os.*", name="*.py") == "a.py:2: print(os.*)\ndeep/c.py:1: os.*"
    assert do(work, "search_files", text="os.*", name="b*") == "b.txt:2: " + "x" * 299 + "…"
    assert do(work, "search_files", text="os.* h", ignore_case=True) == "b.txt:1: OS.* here"
    assert do(work, "search_files", text="os.*", path="deep") == "c.py:1: os.*"
    assert do(work, "search_files", text="nowhere") == "[no match]"
    refused(work, "search_files", "must be one line", text="a\nb")
    refused(work, "search_files", "must be one line", text="")


def test_a_search_is_bounded(work: Path, monkeypatch: pytest.MonkeyPatch):
    (work / "a").write_text("x\n" * 10)
    (work / "b").write_text("x\n")
    monkeypatch.setattr(files, "_MAX_MATCHES", 3)
    assert do(work, "search_files", text="x") == "a:1: x\na:2: x\na:3: x\n[more than 3 matches]"
    monkeypatch.setattr(files, "_MAX_MATCHES", 100)
    monkeypatch.setattr(files, "_MAX_SEARCH_FILES", 1)
    assert do(work, "search_files", text="x").endswith(
        "a:10: x\n[the search ended here: too many files; search a folder inside]"
    )


def test_no_open_file_is_left(work: Path):
    (work / "a").mkdir()
    (work / "a" / "file").write_text("x")
    gc.collect()  # what earlier tests left behind must not be closed in between
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(3):
        do(work, "read_file", path="a/../a/file")
        do(work, "search_files", text="x")
        do(work, "list_files", recursive=True)
        refused(work, "read_file", "leads out", path="a/../../x")
        refused(work, "read_file", "is a folder", path="a")
    assert not before or len(os.listdir("/proc/self/fd")) <= before


# ---- several writers


def during_write(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """Have something happen between the reading and the writing of the next file that is written."""
    replace = LockedFile.replace

    def interrupted(self: LockedFile, *arguments: Any) -> None:
        monkeypatch.setattr(LockedFile, "replace", replace)
        meanwhile()
        replace(self, *arguments)

    monkeypatch.setattr(LockedFile, "replace", interrupted)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("edit_file", {"path": "file", "old": "two", "new": "2"}, "1 2"),
        ("edit_file", {"path": "./inner/../file", "old": "two", "new": "2"}, "1 2"),
        ("edit_file", {"path": "link", "old": "two", "new": "2"}, "1 2"),
        ("edit_file", {"path": "inner/up/file", "old": "two", "new": "2"}, "1 2"),
        ("write_file", {"path": "file", "content": "new"}, "new"),
    ],
)
def test_another_writer_of_a_file_waits_until_an_edit_of_it_has_ended(
    work: Path, monkeypatch: pytest.MonkeyPatch, name: str, arguments: JSONObject, expected: str
):
    (work / "file").write_text("one two")
    (work / "inner").mkdir()
    (work / "inner" / "up").symlink_to("..")
    (work / "link").symlink_to("file")
    other = threading.Thread(target=do, args=(work, name), kwargs=arguments)
    waited: list[bool] = []

    def meanwhile() -> None:
        other.start()
        other.join(0.2)
        waited.append(other.is_alive())

    during_write(monkeypatch, meanwhile)
    do(work, "edit_file", path="file", old="one", new="1")
    other.join(20)
    assert waited == [True]
    assert (work / "file").read_text() == expected


def test_writers_of_other_files_do_not_wait(work: Path, monkeypatch: pytest.MonkeyPatch):
    (work / "file").write_text("one")
    (work / "inner").mkdir()
    other = threading.Thread(target=do, args=(work, "write_file"), kwargs={"path": "inner/file", "content": "new"})
    alive: list[bool] = []

    def meanwhile() -> None:
        other.start()
        other.join(20)
        alive.append(other.is_alive())

    during_write(monkeypatch, meanwhile)
    do(work, "edit_file", path="file", old="one", new="1")
    assert alive == [False]
    assert [(work / name).read_text() for name in ("file", "inner/file")] == ["1", "new"]


def test_edits_from_several_threads_lose_nothing_and_leave_nothing(work: Path):
    for _ in range(10):
        (work / "file").write_text("".join(f"<{at}>\n" for at in range(8)))
        edits = [{"path": "file", "old": f"<{at}>", "new": f"[{at}]"} for at in range(8)]
        threads = [threading.Thread(target=do, args=(work, "edit_file"), kwargs=edit) for edit in edits]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert (work / "file").read_text() == "".join(f"[{at}]\n" for at in range(8))
    assert os.listdir(work) == ["file"]


def test_a_lock_is_forgotten_when_its_file_is_not_written_any_more(work: Path):
    before = len(file_locks._FOLDER_LOCKS)
    for number in range(50):
        do(work, "write_file", path=f"{number}", content="text")
    refused(work, "edit_file", "does not contain", path="0", old="missing", new="y")
    assert len(file_locks._FOLDER_LOCKS) == before


# ---- no way out

OUT = [
    "../secret",
    "../work-too/secret",
    "a/../../secret",
    "./../secret",
    "/etc/passwd",
    "{work}-too/secret",
    "{work}/../secret",
    "link",
    "absolute",
    "folder/secret",
    "inside/../../secret",
    "chain",
    "loop",
    "a/up/secret",
]


@pytest.fixture
def links(work: Path) -> Path:
    (work / "a").mkdir()
    (work / "link").symlink_to("../secret")
    (work / "absolute").symlink_to(work.parent / "secret")
    (work / "folder").symlink_to("..")
    (work / "inside").symlink_to("a")
    (work / "chain").symlink_to("link")
    (work / "loop").symlink_to("loop")
    (work / "a" / "up").symlink_to("../..")
    return work


@pytest.mark.requirement("R-T4")
@pytest.mark.parametrize("path", OUT)
def test_no_path_leads_out(links: Path, path: str):
    path = path.format(work=links)
    for name, more in (
        ("read_file", {}),
        ("write_file", {"content": "changed"}),
        ("edit_file", {"old": "OPEN", "new": "changed"}),
        ("list_files", {}),
        ("search_files", {"text": "OPEN"}),
    ):
        arguments = {"path": path, **more}
        with pytest.raises(ToolError, match=r"leads out of the work directory|too many links"):
            do(links, name, **arguments)
    assert (links.parent / "secret").read_text() == "OPEN"
    assert (links.parent / "work-too" / "secret").read_text() == "OPEN"


def test_a_search_and_a_listing_follow_no_link_out(links: Path):
    assert do(links, "search_files", text="OPEN") == "[no match]"
    assert "secret" not in do(links, "list_files", recursive=True)


def test_links_and_steps_that_stay_inside_are_followed(work: Path):
    (work / "a" / "b").mkdir(parents=True)
    (work / "a" / "file").write_text("inside")
    (work / "relative").symlink_to("a/file")
    (work / "a" / "b" / "up").symlink_to("../../a")
    (work / "absolute").symlink_to(work / "a")
    for path in (
        "a/b/../file",
        "relative",
        "a/b/up/file",
        "absolute/file",
        f"{work}/a/file",
        "./a//file",
        "a/b/.././file",
    ):
        assert do(work, "read_file", path=path) == "inside"
    do(work, "write_file", path="relative", content="through")
    assert (work / "relative").is_symlink()
    assert (work / "a" / "file").read_text() == "through"


def test_a_path_with_too_many_steps_is_refused(work: Path):
    (work / "a").mkdir()
    refused(work, "read_file", "too many steps", path="a/../" * 300 + "x")
    refused(work, "read_file", "not too long", path="x" * 5000)


@settings(max_examples=size(50, 200))
@given(
    st.lists(st.sampled_from(["a", "..", ".", "", "link", "folder", "up", "inside", "b"]), max_size=8), st.booleans()
)
def test_whatever_the_path_nothing_outside_is_touched(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], absolute: bool
):
    base = tmp_path_factory.mktemp("walk")
    work = base / "work"
    (work / "a").mkdir(parents=True)
    (base / "b").write_text("OPEN")
    (work / "link").symlink_to("../b")
    (work / "folder").symlink_to("..")
    (work / "a" / "up").symlink_to("../..")
    (work / "a" / "inside").symlink_to("../a")
    path = (f"{work}/" if absolute else "") + "/".join(parts)
    inner = files._Files(ConfinedRoot(str(work)))  # pyright: ignore[reportPrivateUsage]
    with suppress(ToolError):
        assert "OPEN" not in inner.read_file(path)
    with suppress(ToolError):
        inner.write_file(path, "new")
    assert sorted(each.name for each in base.iterdir()) == ["b", "work"]
    assert (base / "b").read_text() == "OPEN"


def test_a_link_that_is_swapped_in_meanwhile_leads_nowhere(work: Path):
    """A folder turns into a link to the outside and back, as quickly as can be, while files are read through it."""
    (work / "real").mkdir()
    (work / "real" / "secret").write_text("inside")
    (work / "out").symlink_to("..")
    (work / "swap").symlink_to("real")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in ("..", "real"):
                (work / "next").symlink_to(target)
                (work / "next").rename(work / "swap")

    inner = files._Files(ConfinedRoot(str(work)))  # pyright: ignore[reportPrivateUsage]
    thread = threading.Thread(target=swap)
    thread.start()
    seen: set[str] = set()
    try:
        for _ in range(300):
            try:
                seen.add(inner.read_file("swap/secret"))
            except ToolError as error:
                assert "leads out" in str(error) or "no such file" in str(error)
    finally:
        over.set()
        thread.join()
    assert seen <= {"inside"}


@pytest.mark.parametrize(
    "path",
    [
        "new/../../x",
        "new/deeper/../../../x",
        "a/new/../../../x",
        "a/new/../up/x",
        "new/..",
        "new/deeper/..",
        "new/" + "../new/" * 300 + "x",
    ],
)
def test_a_path_that_is_refused_leaves_no_folder_behind(work: Path, path: str):
    (work / "a").mkdir()
    (work / "a" / "up").symlink_to("../..")
    before = sorted(work.rglob("*"))
    refused(work, "write_file", "leads out|is a folder|too many steps", path=path, content="x")
    assert sorted(work.rglob("*")) == before
    assert not (work.parent / "x").exists()


@pytest.mark.parametrize(
    ("path", "made"),
    [
        ("new/deeper/x", ["new", "new/deeper", "new/deeper/x"]),
        ("new/../x", ["x"]),
        ("new/deeper/../x", ["new", "new/x"]),
        ("new/../other/./x", ["other", "other/x"]),
        ("new/../inside/../x", ["x"]),
    ],
)
def test_only_folders_that_the_file_lies_in_are_made(work: Path, path: str, made: list[str]):
    (work / "a").mkdir()
    (work / "inside").symlink_to("a")
    do(work, "write_file", path=path, content="y")
    assert sorted(str(each.relative_to(work)) for each in work.rglob("*")) == sorted(["a", "inside", *made])


@pytest.mark.parametrize("link", [False, True])
def test_a_folder_that_appears_meanwhile_is_entered_unless_it_is_a_link(
    work: Path, monkeypatch: pytest.MonkeyPatch, link: bool
):
    outside = work.parent / "work-too"

    def appears(name: str, mode: int, *, dir_fd: int) -> None:
        os.symlink(outside, name, dir_fd=dir_fd) if link else made(name, mode, dir_fd=dir_fd)
        made(name, mode, dir_fd=dir_fd)

    made = os.mkdir
    monkeypatch.setattr(confined.os, "mkdir", appears)
    if link:
        refused(work, "write_file", "not a directory|symbolic links", path="new/x", content="y")
    else:
        do(work, "write_file", path="new/x", content="y")
    assert (work / "new" / "x").exists() is not link
    assert not (outside / "x").exists()


def test_a_system_without_open_folders_has_no_file_tools(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(confined.os, "supports_dir_fd", set())
    with pytest.raises(UsageError, match="`openat`"):
        ConfinedRoot("/tmp")


def test_the_home_directory_is_no_work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / "project").mkdir()
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    # Itself, by another name, and what holds it.
    for folder in (home, tmp_path / "link", home / "project" / "..", tmp_path):
        for write in (True, False):
            with pytest.raises(UsageError, match="contains the home directory"):
                file_tools(folder, write=write)
    assert file_tools(home / "project")


def test_a_home_directory_that_nobody_names_is_still_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import pwd

    monkeypatch.delenv("HOME")
    entry = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd((*entry[:5], str(tmp_path), entry[6])))
    with pytest.raises(UsageError, match="contains the home directory"):
        file_tools(tmp_path)


def test_where_there_is_no_home_any_folder_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox.os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    assert file_tools(tmp_path)
