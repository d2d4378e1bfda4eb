"""A store on a disk that cannot be written: it can be listed, shown and exported, and writing says what is wrong.

Processes of root may write everything, so the programs here give up that right (`CAP_DAC_OVERRIDE`) first.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import toolspeak as ts
from tests.agent_helpers import model

pytestmark = [
    pytest.mark.requirement("F13"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs the capabilities of Linux"),
]

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1


def without_privilege(*command: str, store: Path, configured: bool = True) -> subprocess.CompletedProcess[str]:
    """Run Python with what follows it, in a process for which permissions count."""
    drop = ctypes.CDLL(None).prctl
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "HOME": str(store.parent.parent)}
        | ({"TOOLSPEAK_STORE": f"sqlite:///{store}"} if configured else {}),
        preexec_fn=lambda: drop(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0),
    )


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, str]:
    """A store with one session."""
    file = tmp_path / "disk" / "work.db"
    with ts.Agent(model("It costs 3 crowns."), store=f"sqlite:///{file}") as one:
        session = one.run("What is the price?").session
    return file, session


@pytest.fixture(autouse=True)
def _writable_again(tmp_path: Path):
    yield
    (tmp_path / "disk").chmod(0o700)


def lock(file: Path, file_mode: int, folder_mode: int) -> None:
    for each in file.parent.iterdir():
        each.chmod(file_mode)
    file.parent.chmod(folder_mode)


@pytest.mark.parametrize("modes", [(0o444, 0o555), (0o444, 0o755), (0o644, 0o555)])
def test_sessions_can_be_listed_shown_and_exported(stored: tuple[Path, str], modes: tuple[int, int]):
    file, session = stored
    lock(file, *modes)
    listed = without_privilege("-m", "toolspeak", "sessions", "list", store=file)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "What is the price?" in listed.stdout
    shown = without_privilege("-m", "toolspeak", "sessions", "show", session[:8], store=file)
    assert "It costs 3 crowns." in shown.stdout
    exported = without_privilege("-m", "toolspeak", "sessions", "export", store=file)
    assert "It costs 3 crowns." in exported.stdout
    assert [json.loads(line) for line in exported.stdout.splitlines()]


def test_writing_is_a_typed_error_that_says_what_to_do(stored: tuple[Path, str]):
    file, session = stored
    lock(file, 0o444, 0o555)
    removed = without_privilege("-m", "toolspeak", "sessions", "rm", session[:8], store=file)
    assert removed.returncode != 0
    assert "can be read but not written" in removed.stderr
    assert "copy it to a disk that can be written" in removed.stderr
    program = f"""
import toolspeak as ts
from toolspeak.errors import StoreReadOnlyError
from toolspeak.store.sessions import Store
store = Store("sqlite:///{file}")
print(len(store.sessions()), len(store.entries("{session}")))
try:
    ts.Agent(ts.Scripted("x"), store="sqlite:///{file}").run("Hi.")
except StoreReadOnlyError as error:
    print(error)
"""
    ran = without_privilege("-c", program, store=file, configured=False)
    assert ran.stdout.startswith("1 2\n"), ran.stderr
    assert "can be read but not written" in ran.stdout


def test_commits_in_the_write_ahead_log_are_not_lost(stored: tuple[Path, str], tmp_path: Path):
    file, _ = stored
    writer = sqlite3.connect(file)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("UPDATE sessions SET title = 'only in the log'")
    writer.commit()
    copies = {each.name: each.read_bytes() for each in file.parent.iterdir()}
    writer.close()
    shutil.rmtree(file.parent)
    file.parent.mkdir()
    for name, data in copies.items():
        (file.parent / name).write_bytes(data)
    assert copies["work.db-wal"]
    lock(file, 0o444, 0o555)
    assert "only in the log" in without_privilege("-m", "toolspeak", "sessions", "list", store=file).stdout
    file.parent.chmod(0o700)
    (file.parent / "work.db-shm").unlink()
    file.parent.chmod(0o555)
    unreadable = without_privilege("-m", "toolspeak", "sessions", "list", store=file)
    assert (unreadable.returncode != 0, "What is the price?" in unreadable.stdout) == (True, False)
    assert "write-ahead log" in unreadable.stderr
