"""Sessions: listed, searched, read and removed by their owner and by nobody else; damage stays where it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import size
from tests.store.test_journal import ASKED, FIRST, RESULT, ROUND, run
from toolspeak.core.types import Message, TextPart, ToolCall, ToolResult
from toolspeak.engine.rounds.transcript import Answer, CallRecord, Round
from toolspeak.errors import ConfigError, NoSessionError, SessionBusyError, StoreDamagedError, UsageError
from toolspeak.store import open_store
from toolspeak.store.check import check
from toolspeak.store.schema import calls, entries, metadata
from toolspeak.store.sessions import Store
from toolspeak.store.transfer import FORMAT, import_lines

#: What breaks out of SQL, patterns and JSON where texts are pasted.
HOSTILE = (
    "'; DROP TABLE sessions; --",
    '" OR 1=1 --',
    "%",
    "_",
    "\\",
    "x' UNION SELECT * FROM state --",
    "$1",
    ":owner",
    "{{7*7}}",
    '{"a": [1]}',
    "a\x00b",
    "\ud800",
    "",
)


def begun(store: Store, *texts: str, done: bool = True, **about: Any) -> str:
    """A session in which these texts were said, and one call was made."""

    async def converse() -> str:
        journal = await store.journal(about=about)
        for text in texts:
            await journal.say(Message("user", (TextPart(text),)))
        await journal.begin()
        await journal.plan(ROUND)
        if done:
            await journal.start("c1")
            await journal.finish(RESULT, 0.0)
            await journal.end(Answer("It rains in Oslo."))
        await journal.close()
        return journal.session

    return run(converse())


def test_sessions_are_listed_the_last_one_first(store: Store):
    first, second = begun(store, "the first"), begun(store, "the second", model="openai:x")
    assert [(info.id, info.title) for info in store.sessions()] == [(second, "the second"), (first, "the first")]
    assert store.sessions()[0].about == {"model": "openai:x"}
    assert [info.id for info in store.sessions(limit=1, offset=1)] == [first]


@pytest.mark.parametrize(
    ("text", "title"),
    [("\n\n  Do this.  \nAnd that.", "Do this."), ("a\x1b[2Jb", "a [2Jb"), ("x" * 200, "x" * 79 + "…"), (" \n ", "")],
)
def test_a_session_is_called_by_the_first_line_that_was_said(store: Store, text: str, title: str):
    begun(store, text)
    assert store.sessions()[0].title == title


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("UMBRELLA", ["said"]),
        ("grüße", ["said"]),
        ("GRÜSSE", []),
        ("GRÜßE", ["said"]),
        ("oslo", ["said", "other"]),
        ("get_weather", ["said", "other"]),
        ("rain", ["said", "other"]),
        ("100%", ["said"]),
        ("100_", []),
        ('"quoted"', ["said"]),
        ("nowhere", []),
    ],
)
def test_sessions_are_found_by_what_was_said_called_or_answered(store: Store, text: str, found: list[str]):
    said = begun(store, 'Shall I take an Umbrella? Grüße, 100% "quoted"')
    other = begun(store, "Hello")
    names = {said: "said", other: "other"}
    assert sorted(names[info.id] for info in store.sessions(text)) == sorted(found)


def test_an_id_may_be_shortened_as_long_as_it_means_one_session(store: Store):
    one = begun(store, "one")
    assert store.find(one[:6]) == one
    for nothing in ("zz", "%", "_", one + "0", "no such"):
        with pytest.raises(NoSessionError):
            store.find(nothing)
    head = json.dumps({"format": FORMAT, "version": 1})
    import_lines(store, [head, *(json.dumps({"session": {"id": name}}) for name in ("zz1", "zz2"))])
    assert store.find("zz1") == "zz1"
    with pytest.raises(UsageError, match="several"):
        store.find("zz")


def test_what_is_removed_is_gone_with_everything_in_it(store: Store):
    session, other = begun(store, "one"), begun(store, "two")
    store.remove(session)
    with pytest.raises(NoSessionError):
        store.entries(session)
    with pytest.raises(NoSessionError):
        store.remove(session)
    assert len(store.entries(other)) == 2
    for name in ("entries", "rounds", "calls", "file_changes", "leases"):
        table = metadata.tables[name]
        rows = store.database.read(lambda connection, t=table: connection.execute(sa.select(t.c.session)).all())
        assert {row[0] for row in rows} <= {other}


def test_what_somebody_writes_into_is_removed_only_by_force(store: Store):
    async def converse() -> None:
        journal = await store.journal()
        with pytest.raises(SessionBusyError):
            store.remove(journal.session)
        store.remove(journal.session, force=True)
        with pytest.raises(SessionBusyError, match="has been released or removed"):
            await journal.say(ASKED)
        await journal.close()

    run(converse())
    assert store.sessions() == []


@pytest.mark.requirement("R-T8")
def test_no_owner_finds_anything_of_another(store: Store):
    anna = store.of("anna")
    session = begun(anna, "a secret")
    for owner in ("", "berta", "ann", "anna ", "ANNA", *HOSTILE):
        other = store.of(owner)
        assert other.sessions() == other.sessions("secret") == []
        for look in (other.entries, other.info, other.find, other.remove):
            with pytest.raises(NoSessionError):
                look(session)
        assert check(other).sessions == 0
    assert len(anna.entries(session)) == 2


@pytest.mark.requirement("R-T8")
def test_ids_are_128_random_bits(store: Store):
    ids = {begun(store, "one") for _ in range(3)}
    assert len(ids) == 3
    assert all(len(each) == 32 and int(each, 16) >= 0 for each in ids)


@pytest.mark.requirement("R-T10")
def test_hostile_texts_are_texts_in_every_field(store: Store):
    for text in HOSTILE:
        own = store.of(text)
        call = CallRecord(ToolCall(text, {text: text}, text))

        async def converse(own: Store = own, text: str = text, call: CallRecord = call) -> str:
            journal = await own.journal(about={text: text})
            await journal.say(Message("user", (TextPart(text),), name=text))
            await journal.begin()
            await journal.stream(text)
            await journal.plan(Round(text, (call,)))
            await journal.start(text)
            await journal.finish(ToolResult(text, text, text), 0.0)
            await journal.end(Answer(text))
            await journal.close()
            return journal.session

        session = run(converse())
        assert [info.about for info in own.sessions()] == [{text: text}]
        [_, answer] = own.entries(session)
        assert isinstance(answer, Answer)
        assert answer.content == text
        assert answer.rounds[0].calls[0].call == call.call
        assert [info.id for info in own.sessions(text)] == [session]
        for other in HOSTILE:
            if other != text:
                with pytest.raises(NoSessionError):
                    store.of(other).entries(session)
        with pytest.raises(NoSessionError):
            own.entries(text or "-")
    names = store.database.read(lambda connection: sa.inspect(connection).get_table_names())
    assert set(metadata.tables) <= set(names)


@pytest.mark.requirement("R-T10")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=size(12, 50))
@given(text=st.text(max_size=40), part=st.text(min_size=1, max_size=3))
def test_a_search_finds_what_stands_there_and_nothing_else(text: str, part: str):
    with Store("sqlite://") as store:
        begun(store, text)
        # Found if it stands in the text, or in what every such session holds.
        always = "It rains in Oslo.rainI look.get_weathercityOslopayamountc1c2"
        if part in text:
            assert len(store.sessions(part)) == 1
        elif part.isascii() and part.isalnum() and len(part) == 3 and part.lower() not in (text + always).lower():
            known = store.database.read(_everything).lower()
            assert (part.lower() in known) == bool(store.sessions(part))


def _everything(connection: sa.Connection) -> str:
    tables = (metadata.tables[name] for name in ("entries", "rounds", "calls"))
    return "".join(str(tuple(row)) for table in tables for row in connection.execute(sa.select(table)))


@pytest.mark.requirement("R-F42")
@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        (entries, "body", "{"),
        (entries, "body", "[]"),
        (entries, "body", '{"role": "nobody"}'),
        (entries, "kind", "riddle"),
        (calls, "call", '{"name": 7}'),
        (calls, "result", "nonsense"),
        (calls, "state", "lost"),
    ],
)
def test_a_damaged_session_is_a_typed_error_and_concerns_no_other(
    store: Store, table: sa.Table, column: str, value: str
):
    bad, good = begun(store, "bad", done=False), begun(store, "good")
    damage = sa.update(table).where(table.c.session == bad)
    if (table, column) == (entries, "body"):
        damage = damage.where(table.c.number == 0)
    store.database.write(lambda connection: connection.execute(damage.values({column: value})))
    with pytest.raises(StoreDamagedError, match=bad) as caught:
        store.entries(bad)
    assert caught.value.status == 500
    assert len(store.entries(good)) == 2
    assert len(store.sessions()) == 2
    report = check(store)
    assert ([finding.session for finding in report.damaged], report.good) == ([bad], False)
    store.remove(bad)
    assert check(store).good


@pytest.mark.requirement("R-F42", "R-F35")
def test_the_doctor_finds_and_repairs_what_was_broken_off(store: Store):
    session = begun(store, "broken off", done=False)
    report = check(store)
    assert (report.good, report.unfinished, report.repaired, report.sessions) == (True, (session,), 0, 1)
    assert check(store, repair=True).repaired == 1
    assert check(store).unfinished == ()
    [_, answer] = store.entries(session)
    assert isinstance(answer, Answer)
    assert answer.status == "interrupted"
    assert answer.rounds[0].calls[0].call == FIRST.call


def test_the_doctor_leaves_what_somebody_writes_into_alone(store: Store):
    async def converse() -> None:
        journal = await store.journal()
        await journal.begin()
        assert check(store, repair=True).repaired == 0
        await journal.end(Answer("done"))
        await journal.close()

    run(converse())
    assert check(store).unfinished == ()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    import builtins

    real = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name in ("sessions", "sqlalchemy"):
            raise ImportError(name="sqlalchemy")
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match="sqlalchemy") as caught:
        open_store("sqlite://")
    assert "toolspeak[agent]" in caught.value.hint
