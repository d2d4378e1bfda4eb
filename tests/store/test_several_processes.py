"""Several processes and one file: what one has written, the others see, whoever opens and closes it in between."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from toolspeak.core.types import Message, TextPart
from toolspeak.errors import StoreError
from toolspeak.store.database import Database
from toolspeak.store.sessions import Store

READER = """
import sys
from toolspeak.store import open_store
with open_store(sys.argv[1]) as store:
    print(*sorted(each.title for each in store.sessions("")))
"""


def seen_by_another(url: str) -> list[str]:
    """The titles that a process of its own finds; it opens the store, reads and closes."""
    command = [sys.executable, "-c", READER, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.split()


def say(store: Store, text: str) -> None:
    async def said() -> None:
        journal = await store.journal("")
        await journal.say(Message("user", (TextPart(text),)))
        await journal.close()

    asyncio.run(said())


@pytest.mark.requirement("R-F30")
def test_what_is_written_after_another_process_was_there_is_not_lost(tmp_path: Path):
    """A server has several stores on one file. Opening one must not take the locks of the others away."""
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    first = Store(Database(url))
    assert first.sessions("") == []
    second = Store(Database(url))
    try:
        say(first, "one")
        assert seen_by_another(url) == ["one"]
        say(first, "two")
        say(second, "three")
        assert seen_by_another(url) == ["one", "three", "two"]
    finally:
        first.close()
        second.close()
    assert seen_by_another(url) == ["one", "three", "two"]


def test_a_link_to_a_file_that_is_not_there_yet_is_followed(tmp_path: Path):
    link, file = tmp_path / "link.db", tmp_path / "real.db"
    link.symlink_to(file)
    Database(f"sqlite:///{link}").close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path):
    with pytest.raises(StoreError, match=r"cannot open the store.*[Dd]irectory"):
        Database(f"sqlite:///{tmp_path}")


def test_a_file_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "sessions.db"
    file.touch()
    # Who runs the tests may be allowed everything.
    monkeypatch.setattr("toolspeak.store.db_engines.os.access", lambda *_: False)
    with pytest.raises(StoreError, match=r"cannot open the store.*denied"):
        Database(f"sqlite:///{file}")
