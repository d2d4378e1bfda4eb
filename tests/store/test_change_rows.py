"""File changes in the store: committed before they are made, kept with their session, undone once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from tests.cases import check_each
from tests.store.test_journal import ASKED, FIRST, RESULT, run
from tests.store.test_sessions import begun
from toolspeak.core.types import ToolResult
from toolspeak.engine.rounds.transcript import Answer, FileDiff, Round
from toolspeak.errors import SessionBusyError, StoreDamagedError, UsageError
from toolspeak.store import database as database_module
from toolspeak.store.database import Database
from toolspeak.store.journal import SqlJournal
from toolspeak.store.schema import file_changes
from toolspeak.store.session_interface import FileChange
from toolspeak.store.sessions import Store
from toolspeak.store.transfer import FORMAT, VERSION, export, import_lines

pytestmark = pytest.mark.requirement("F10")

NEW = FileChange("/work", "new/f", "", "h1", 0, ("new",), "+x")
#: Bytes that are no text, and a name that no database takes as it is.
OLD = FileChange("/work", "a\0\ud800'\"", "h0", "h1", 0o640, (), "-\0\x1b", b"\0\xff\r\n")
LATER = msgspec.structs.replace(OLD, before="h1", after="h2", content=b"not needed")


async def calling(store: Store) -> SqlJournal:
    journal = await store.journal()
    await journal.say(ASKED)
    await journal.begin()
    await journal.plan(Round("I look.", (FIRST,)))
    await journal.start("c1")
    return journal


async def ended(journal: SqlJournal, result: ToolResult = RESULT) -> str:
    await journal.finish(result, 0.5)
    await journal.end(Answer("Done."))
    await journal.close()
    return journal.session


def changed(store: Store, *changes: FileChange, result: ToolResult = RESULT) -> str:
    """A session whose only call changed files."""

    async def converse() -> str:
        journal = await calling(store)
        for change in changes:
            await journal.change("c1", change)
        return await ended(journal, result)

    return run(converse())


def diffs(store: Store, session: str) -> tuple[FileDiff, ...]:
    (answer,) = [entry for entry in store.entries(session) if isinstance(entry, Answer)]
    return answer.rounds[0].calls[0].diffs


def test_changes_are_read_back_in_order_and_each_file_keeps_its_first_content(store: Store):
    session = changed(store, NEW, OLD, LATER)
    kept = [NEW, OLD, msgspec.structs.replace(LATER, content=None)]
    assert [each.change for each in store.changes(session)] == kept
    assert [(each.entry, each.round, each.call_id, each.undone) for each in store.changes(session)] == [
        (1, 0, "c1", False)
    ] * 3
    assert diffs(store, session) == tuple(FileDiff(each.path, each.diff) for each in kept)


def test_a_call_that_failed_shows_no_diff_because_it_changed_nothing(store: Store):
    session = changed(store, OLD, result=ToolResult("c1", "changed by someone else", error=True))
    assert diffs(store, session) == ()
    assert len(store.changes(session)) == 1


def test_a_call_that_was_interrupted_shows_what_it_may_have_changed(store: Store):
    async def converse() -> str:
        journal = await calling(store)
        await journal.change("c1", NEW)
        await journal.end(Answer(status="interrupted"))
        await journal.close()
        return journal.session

    assert diffs(store, run(converse())) == (FileDiff("new/f", "+x"),)


def test_only_a_call_that_is_running_changes_files(store: Store):
    async def converse() -> None:
        journal = await calling(store)
        with pytest.raises(UsageError, match="`c2` is not running"):
            await journal.change("c2", NEW)
        await journal.finish(RESULT, 0.0)
        with pytest.raises(UsageError, match="`c1` is not running"):
            await journal.change("c1", NEW)
        await journal.end(Answer("Done."))
        with pytest.raises(UsageError, match="no answer is running"):
            await journal.change("c1", NEW)
        assert await journal.changes() == ()
        await journal.close()

    run(converse())


@pytest.mark.requirement("R-T17")
def test_a_writer_that_lost_its_session_records_no_change(store: Store):
    async def converse() -> None:
        journal = await calling(store)
        store.remove(journal.session, force=True)
        with pytest.raises(SessionBusyError):
            await journal.change("c1", NEW)
        await journal.close()

    run(converse())


def test_what_was_undone_is_shown_but_not_undone_again(store: Store):
    session = changed(store, NEW, OLD, LATER)

    async def undo() -> None:
        journal = await store.journal(session)
        assert len(await journal.changes()) == 3
        await journal.mark_undone(OLD.root, OLD.path)
        assert await journal.changes() == (NEW,)
        await journal.close()

    run(undo())
    assert [(each.undone, each.change.content) for each in store.changes(session)] == [
        (False, None),
        (True, None),
        (True, None),
    ]
    assert len(diffs(store, session)) == 3


def test_after_an_undo_the_first_change_of_a_file_keeps_its_content_again(store: Store):
    async def converse() -> None:
        journal = await calling(store)
        await journal.change("c1", OLD)
        await journal.mark_undone(OLD.root, OLD.path)
        await journal.change("c1", OLD)
        assert await journal.changes() == (OLD,)
        await ended(journal)

    run(converse())


def test_the_session_that_changed_a_work_directory_last_is_found(store: Store):
    assert store.last_changed("/work") == ""
    one, other = changed(store, NEW), changed(store, NEW)
    elsewhere = changed(store, msgspec.structs.replace(NEW, root="/elsewhere"))
    assert (store.last_changed("/work"), store.last_changed("/elsewhere")) == (other, elsewhere)
    assert one != other
    assert store.of("somebody").last_changed("/work") == ""


def test_changes_are_removed_with_their_session(store: Store):
    store.remove(changed(store, NEW, OLD))
    assert store.database.read(lambda connection: connection.execute(sa.select(file_changes)).all()) == []


def test_changes_go_out_and_come_in_with_their_session(store: Store):
    session = changed(store, NEW, OLD, LATER)
    lines = list(export(store, [session]))
    with Store("sqlite://") as second:
        assert import_lines(second, lines) == (1, 0)
        assert second.changes(session) == store.changes(session)
        assert second.entries(session) == store.entries(session)
        assert list(export(second)) == lines


def _line(**fields: Any) -> str:
    change = {"root": "/", "path": "f", "before": "", "after": ""} | fields.pop("change", {})
    return json.dumps({"file_change": {"entry": 0, "round": 0, "call_id": "c", "change": change} | fields})


@check_each(
    ("line", "words"),
    [
        (_line(entry=2**31), "line 3: `file_change.entry` must be"),
        (_line(round=-1), "line 3: `file_change.round` must be"),
        (_line(change={"mode": 0o4755}), "line 3: `file_change.change.mode` must be"),
        (_line(change={"content": "no base64!"}), "line 3 is invalid"),
        (_line(change={"path": 1}), "line 3 is invalid"),
    ],
)
def test_a_change_that_cannot_be_one_is_not_imported(line: str, words: str):
    head, session = json.dumps({"format": FORMAT, "version": VERSION}), '{"session": {"id": "a1"}}'
    with Store("sqlite://") as store:
        with pytest.raises(UsageError, match=words):
            import_lines(store, [head, session, line])
        assert store.sessions() == []
        assert import_lines(store, [head, session, _line()]) == (1, 0)


@pytest.mark.requirement("R-F42")
def test_a_damaged_change_is_a_typed_error(store: Store):
    session = changed(store, NEW)
    damage = sa.update(file_changes).values(body="no json")
    store.database.write(lambda connection: connection.execute(damage))
    for read in (store.changes, store.entries):
        with pytest.raises(StoreDamagedError, match="is unreadable"):
            read(session)


@pytest.mark.requirement("R-F41")
def test_a_store_of_the_first_version_is_migrated_with_its_sessions(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(database_module, "HEAD", "0001")
    with Store(Database(url)) as old:
        session = begun(old, "from long ago")
        tables = old.database.read(lambda connection: sa.inspect(connection).get_table_names())
        assert "file_changes" not in tables
    monkeypatch.undo()
    with Store(url) as store:
        assert [info.title for info in store.sessions()] == ["from long ago"]
        assert len(store.entries(session)) == 2
        assert store.changes(session) == ()
        changed(store, NEW)
