"""Sessions as lines of JSON: out of one store and into another, nothing lost, nothing doubled."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.store.test_journal import ASKED, FIRST, ROUND, run
from tests.store.test_sessions import HOSTILE, begun
from toolspeak.core.types import Media, Message, Note, TextPart, ToolResult, Usage
from toolspeak.engine.rounds.transcript import Answer, Round
from toolspeak.errors import NoSessionError, UsageError
from toolspeak.store.sessions import Store
from toolspeak.store.transfer import FORMAT, export, import_lines

HEAD = json.dumps({"format": FORMAT, "version": 1})


A1 = '{"session": {"id": "a1"}}'


def _answer(**fields: Any) -> str:
    return json.dumps({"answer": fields})


def _rich(store: Store) -> str:
    """A session with something of everything."""
    done = msgspec.structs.replace(FIRST, state="finished", result=ToolResult("c1", "rain", "get_weather"), seconds=1.5)

    async def converse() -> str:
        journal = await store.journal(about={"model": "openai:x", "tags": ["a", 1, None]})
        await journal.say(Message("system", (TextPart("Be brief."),)))
        await journal.say(Message("user", (TextPart("".join(HOSTILE)), Media("image", "data:image/png;base64,AA=="))))
        await journal.begin()
        await journal.plan(Round("I look.", (FIRST,), reasoning="hmm"))
        await journal.start("c1")
        await journal.finish(ToolResult("c1", "rain", "get_weather"), 1.5)
        answer = Answer("It rains.", (Round("I look.", (done,), reasoning="hmm"),), "complete", "I think", None)
        answer = msgspec.structs.replace(answer, usage=Usage(7, 8, 1, 2), notes=(Note("a", "b"),), requests=3)
        await journal.end(answer)
        await journal.begin()
        await journal.plan(ROUND)
        await journal.start("c2")
        await journal.end(Answer("half", status="interrupted"))
        await journal.close()
        return journal.session

    return run(converse())


def test_what_goes_out_comes_in_as_it_was(store: Store):
    session, other = _rich(store), begun(store, "another")
    lines = list(export(store))
    with Store("sqlite://", "somebody") as second:
        assert import_lines(second, lines) == (2, 0)
        assert list(export(second)) == lines
        for each in (session, other):
            assert second.entries(each) == store.entries(each)
            assert second.info(each) == store.info(each)
        # Once more changes nothing.
        assert import_lines(second, lines) == (0, 2)
        assert list(export(second)) == lines
        # And back again, for another owner.
        back = store.of("somebody else")
        assert import_lines(back, export(second)) == (2, 0)
        assert back.entries(session) == store.entries(session)


def test_some_sessions_can_be_chosen(store: Store):
    one, _ = begun(store, "one"), begun(store, "two")
    lines = [json.loads(line) for line in export(store, [one])]
    assert [line["session"]["id"] for line in lines if "session" in line] == [one]
    with pytest.raises(NoSessionError):
        list(export(store, ["nosuchsession"]))


def test_an_answer_that_was_still_running_is_interrupted_where_it_comes_in(store: Store):
    session = begun(store, "running", done=False)
    lines = list(export(store))
    assert '"status":"running"' in lines[-1]
    with Store("sqlite://") as second:
        import_lines(second, lines)
        [_, answer] = second.entries(session)
        assert isinstance(answer, Answer)
        assert answer.status == "interrupted"
        assert all(record.result is not None for record in answer.rounds[0].calls)


def test_many_sessions_are_written_without_all_of_them_at_hand(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.store.transfer._PAGE", 2)
    ids = {begun(store, str(number)) for number in range(5)}
    found = [line["session"]["id"] for line in map(json.loads, export(store)) if "session" in line]
    assert len(found) == 5
    assert set(found) == ids


@check_each(
    ("lines", "said"),
    [
        (["{}"], "not an export"),
        (["["], "line 1 is not valid JSON"),
        (["[]"], "line 1 is not a JSON object"),
        ([json.dumps({"format": FORMAT, "version": 3})], "newer format"),
        ([json.dumps({"format": FORMAT})], "line 1: `version` must be"),
        ([json.dumps({"format": FORMAT, "version": -5})], "line 1: `version` must be"),
        ([json.dumps({"format": FORMAT, "version": True})], "line 1: `version` must be"),
        ([HEAD, '{"message": {"role": "user"}}'], "comes before the first session"),
        ([HEAD, '{"session": {}}'], "line 2 is invalid"),
        ([HEAD, '{"session": {"id": "../etc"}}'], "line 2: `session.id`.*no session"),
        ([HEAD, '{"session": {"id": ""}}'], "line 2: `session.id`"),
        ([HEAD, '{"session": {"id": "a1", "created": NaN}}'], "line 2: `session.created` is not a finite number"),
        ([HEAD, '{"session": {"id": "a1", "updated": Infinity}}'], "line 2: `session.updated` is not a finite number"),
        ([HEAD, '{"session": {"id": "a1", "updated": 1e999}}'], "line 2: `session.updated` is not a finite number"),
        ([HEAD, '{"session": {"id": "a1", "about": {"a": [1, NaN]}}}'], r"line 2: `session.about.a\[1\]` is not"),
        ([HEAD, '{"session": {"id": "a1", "updated": 1e300}}'], "line 2: `session.updated` must be from 0"),
        ([HEAD, '{"session": {"id": "a1", "created": -1e300}}'], "line 2: `session.created` must be from 0"),
        ([HEAD, '{"session": {"id": "a1", "title": "a\\ud800"}}'], "line 2: `session.title`"),
        ([HEAD, '{"session": {"id": "a1", "title": "a\\u0000b"}}'], "line 2: `session.title`"),
        ([HEAD, json.dumps({"session": {"id": "a1", "title": "x" * 10_000}})], "line 2: `session.title`"),
        ([HEAD, A1, _answer(usage={"input_tokens": 10**30})], "line 3: `answer.usage.input_tokens` must be"),
        ([HEAD, A1, _answer(usage={"output_tokens": 2**63})], "line 3: `answer.usage.output_tokens` must be"),
        ([HEAD, A1, _answer(usage={"cached_tokens": -1})], "line 3: `answer.usage.cached_tokens` must be"),
        ([HEAD, A1, _answer(requests=2**70)], "line 3: `answer.requests` must be"),
        (
            [HEAD, A1, _answer(rounds=[{"calls": [{"call": {"name": "f", "arguments": {}}, "seconds": -1}]}])],
            r"line 3: `answer.rounds\[0\].calls\[0\].seconds` must be",
        ),
        ([HEAD, '{"session": {"id": "a1"}}', '{"riddle": 1}'], "line 3 is not a session"),
        ([HEAD, '{"session": {"id": "a1"}}', '{"message": {"role": "nobody"}}'], "line 3 is invalid"),
        ([HEAD, '{"session": {"id": "a1"}}', "[" * 100_000], "line 3 is not valid JSON"),
    ],
)
def test_lines_that_are_no_export_are_refused_and_half_a_session_is_none(lines: list[str], said: str):
    with Store("sqlite://") as store:
        with pytest.raises(UsageError, match=said):
            import_lines(store, lines)
        assert store.sessions() == []


def test_sessions_before_a_bad_line_are_there(store: Store):
    good = [HEAD, '{"session": {"id": "a1"}}', json.dumps({"message": msgspec.to_builtins(ASKED)})]
    with pytest.raises(UsageError, match="line 5"):
        import_lines(store, [*good, '{"session": {"id": "a2"}}', "?"])
    assert store.entries("a1") == (ASKED,)
    assert [info.id for info in store.sessions()] == ["a1"]
