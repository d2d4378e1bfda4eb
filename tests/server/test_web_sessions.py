"""Chats of the page in the store: kept, gone on with, shortened, and nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.server.asgi_client import Parrot, ask, gateway, line, run
from toolspeak.core.types import Message, TextPart
from toolspeak.engine.rounds.transcript import Answer
from toolspeak.key_value import MemoryState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.web.sessions import QuestionAnswer, from_transcript, to_transcript
from toolspeak.store import open_store

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.requirement("H2")

CALL = {"id": "c1", "name": "clock", "arguments": '{"zone":"UTC"}', "result": "noon", "seconds": 0.5}


def exchange(question: str, answer: str = "It is noon.", *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    rounds = [{"text": "Let me look.", "reasoning": "", "calls": list(calls)}] if calls else []
    return {"question": question, "answer": {"content": answer, "rounds": rounds, **more}}


class Desk:
    """A server with a store; started again, it is another one with the same store."""

    def __init__(self, folder: Path, keys: ApiKeys | None = None) -> None:
        self.url = f"sqlite:///{folder / 'sessions.db'}"
        self.keys = keys or ApiKeys(MemoryState())
        self.access = Access(self.keys, required=False)
        self.app = App(gateway(line("one", Parrot())), OriginGuard(self.access), store=self.url)
        self.link = self.session(self.access.sessions.new_code())

    def session(self, shown: str) -> dict[str, str]:
        return {"Cookie": f"toolspeak_session={self.access.begin_session(shown)}"}

    def ask(self, method: str, path: str, body: Any = b"", who: dict[str, str] | None = None) -> Any:
        return run(ask(self.app, method, path, who or self.link, body))

    def keep(self, asked: dict[str, Any], session: str = "", keep: int = 0, who: dict[str, str] | None = None) -> str:
        body = {"exchanges": [asked], "session": session, "keep": keep, "model": "m"}
        answer = self.ask("POST", "/toolspeak/sessions", body, who)
        assert answer.status == 200, answer.body
        return answer.json["id"]

    def listed(self, text: str = "", who: dict[str, str] | None = None) -> list[str]:
        return [each["title"] for each in self.ask("GET", f"/toolspeak/sessions?text={text}", who=who).json["sessions"]]

    def questions(self, session: str) -> list[str]:
        told = self.ask("GET", f"/toolspeak/sessions/{session}").json
        return [each["question"] for each in told["exchanges"]]


def test_a_chat_outlives_its_server_and_is_found_by_its_words(tmp_path: Path):
    desk = Desk(tmp_path)
    session = desk.keep(exchange("What time is it?", "It is noon.", CALL, input_tokens=7, output_tokens=3))
    assert desk.keep(exchange("And in Oslo?", "Later."), session, 1) == session
    again = Desk(tmp_path)
    assert again.listed("oslo") == ["What time is it?"]
    assert again.listed("umbrella") == []
    first, second = again.ask("GET", f"/toolspeak/sessions/{session}").json["exchanges"]
    assert (second["question"], second["answer"]["content"]) == ("And in Oslo?", "Later.")
    (made,) = first["answer"]["rounds"]
    assert made["text"] == "Let me look."
    assert made["calls"] == [{**CALL, "failed": False, "done": True, "diffs": []}]
    assert (first["answer"]["input_tokens"], first["answer"]["output_tokens"]) == (7, 3)


@pytest.mark.requirement("F10")
def test_what_a_call_changed_is_kept_also_when_the_chat_is_copied(tmp_path: Path):
    desk = Desk(tmp_path)
    diffs = [{"path": "f", "diff": "--- a/f\n+++ b/f\n"}]
    call = {**CALL, "diffs": diffs}
    session = desk.keep(exchange("Edit it.", "Done.", call), "", 0)
    session = desk.keep(exchange("And again.", "Done.", call), session, 1)
    copy = desk.keep(exchange("Something else.", "Done."), session, 1)
    assert copy == session
    shown = desk.ask("GET", f"/toolspeak/sessions/{copy}").json["exchanges"]
    assert [each["diffs"] for each in shown[0]["answer"]["rounds"][0]["calls"]] == [diffs]


def test_it_is_the_same_that_the_terminal_lists(tmp_path: Path):
    desk = Desk(tmp_path)
    session = desk.keep(exchange("What time is it?"))
    with open_store(desk.url) as store:
        (info,) = store.sessions()
        question, answer = store.entries(session)
    assert (info.id, info.entries, info.about) == (session, 2, {"from": "page", "model": "m"})
    assert isinstance(question, Message) and question.text == "What time is it?"
    assert isinstance(answer, Answer) and answer.content == "It is noon."


@pytest.mark.requirement("R-T8")
def test_nobody_sees_the_chats_of_another(tmp_path: Path):
    desk = Desk(tmp_path)
    one, two = (desk.session(desk.keys.new(name, admin=True)[1]) for name in ("one", "two"))
    mine = desk.keep(exchange("mine"))
    theirs = desk.keep(exchange("theirs"), who=one)
    assert (desk.listed(), desk.listed(who=one), desk.listed(who=two)) == (["mine"], ["theirs"], [])
    for session, who in ((mine, one), (theirs, two), (theirs, desk.link)):
        assert desk.ask("GET", f"/toolspeak/sessions/{session}", who=who).status == 404
        body = {"exchanges": [exchange("in between")], "session": session, "keep": 1}
        assert desk.ask("POST", "/toolspeak/sessions", body, who).status == 404
    assert desk.questions(mine) == ["mine"]


def test_a_key_shown_with_each_request_is_the_same_person_as_its_session(tmp_path: Path):
    desk = Desk(tmp_path)
    key = desk.keys.new("one", admin=True)[1]
    desk.keep(exchange("theirs"), who=desk.session(key))
    assert desk.listed(who={"Authorization": f"Bearer {key}"}) == ["theirs"]


def test_what_is_asked_again_takes_the_place_of_what_followed(tmp_path: Path):
    desk = Desk(tmp_path)
    session = desk.keep(exchange("one"))
    for number, question in enumerate(("two", "three"), 1):
        session = desk.keep(exchange(question), session, number)
    shorter = desk.keep(exchange("another two", "Yes.", CALL), session, 1)
    assert desk.questions(shorter) == ["one", "another two"]
    assert desk.listed() == ["one"]
    from_the_start = desk.keep(exchange("another one"), shorter, 0)
    assert desk.questions(from_the_start) == ["another one"]
    assert desk.listed() == ["another one"]
    assert from_the_start == shorter == session  # the address of a chat stays the same


def test_a_chat_gets_another_title_which_outlives_what_is_asked_again(tmp_path: Path):
    desk = Desk(tmp_path)
    session = desk.keep(exchange("one"))
    renamed = desk.ask("POST", f"/toolspeak/sessions/{session}", {"title": "  My chat\nand more"})
    assert (renamed.status, desk.listed()) == (200, ["My chat"])
    desk.keep(exchange("another one"), session, 0)
    assert desk.listed() == ["My chat"]


@pytest.mark.parametrize("body", [{}, {"title": " "}, {"title": 7}])
def test_a_title_must_be_a_text(tmp_path: Path, body: dict[str, Any]):
    desk = Desk(tmp_path)
    session = desk.keep(exchange("one"))
    refused = desk.ask("POST", f"/toolspeak/sessions/{session}", body)
    assert (refused.status, desk.listed()) == (400, ["one"])
    assert "`title` must be a text" in refused.json["error"]["message"]


@pytest.mark.requirement("R-T8")
def test_a_chat_is_deleted_and_renamed_only_by_its_owner(tmp_path: Path):
    desk = Desk(tmp_path)
    other = desk.session(desk.keys.new("other", admin=True)[1])
    session = desk.keep(exchange("one"))
    path = f"/toolspeak/sessions/{session}"
    assert desk.ask("DELETE", path, who=other).status == 404
    assert desk.ask("POST", path, {"title": "theirs"}, who=other).status == 404
    assert desk.listed() == ["one"]
    assert desk.ask("DELETE", path).status == 200
    assert desk.listed() == []
    assert desk.ask("DELETE", path).status == desk.ask("GET", path).status == 404


def test_several_are_kept_at_once_in_their_order(tmp_path: Path):
    desk = Desk(tmp_path)
    session = desk.keep(exchange("one"))
    body = {"exchanges": [exchange("two"), exchange("three")], "session": session, "keep": 1}
    assert desk.ask("POST", "/toolspeak/sessions", body).json == {"id": session, "kept": 3}
    assert desk.questions(session) == ["one", "two", "three"]


def test_where_some_are_missing_nothing_is_written_and_the_page_hears_how_many_there_are(tmp_path: Path):
    desk = Desk(tmp_path)
    session = desk.keep(exchange("one"))
    body = {"exchanges": [exchange("four")], "session": session, "keep": 3}
    assert desk.ask("POST", "/toolspeak/sessions", body).json == {"id": session, "kept": 1}
    assert desk.questions(session) == ["one"]


def test_what_somebody_else_has_added_is_not_overwritten(tmp_path: Path):
    desk = Desk(tmp_path)
    session = desk.keep(exchange("one"))
    desk.keep(exchange("from tab one"), session, 1)
    body = {"exchanges": [exchange("from tab two")], "session": session, "keep": 1, "expected": 1}
    refused = desk.ask("POST", "/toolspeak/sessions", body)
    assert refused.status == 412 and "continued elsewhere" in refused.message
    assert desk.questions(session) == ["one", "from tab one"]
    assert desk.ask("POST", "/toolspeak/sessions", {**body, "expected": 2}).json == {"id": session, "kept": 2}
    assert desk.questions(session) == ["one", "from tab two"]


def test_a_chat_is_created_once_with_the_id_that_the_page_has_chosen(tmp_path: Path):
    desk = Desk(tmp_path)
    session = "0123456789abcdef" * 2
    body = {"exchanges": [exchange("one")], "session": session, "keep": 0, "create": True}
    for _ in range(2):  # the first reply may have been lost
        assert desk.ask("POST", "/toolspeak/sessions", body).json == {"id": session, "kept": 1}
    assert desk.questions(session) == ["one"]
    other = desk.session(desk.keys.new("other", admin=True)[1])
    assert desk.ask("POST", "/toolspeak/sessions", body, who=other).status == 200  # in a chat of its own
    assert desk.ask("DELETE", f"/toolspeak/sessions/{session}").status == 200
    later = {**body, "keep": 1, "create": False}
    assert desk.ask("POST", "/toolspeak/sessions", later).status == 404
    assert desk.ask("POST", "/toolspeak/sessions", {**body, "session": "../x"}).status == 404
    assert desk.listed() == []


def test_what_the_page_knew_of_an_answer_it_knows_again(tmp_path: Path):
    desk = Desk(tmp_path)
    facts = {"plan": "decision", "error": "it broke", "record": "abc123", "seconds": 2.25, "model": "m", "why": "no"}
    session = desk.keep(exchange("What time is it?", "", CALL, status="failed", **facts))
    (told,) = desk.ask("GET", f"/toolspeak/sessions/{session}").json["exchanges"]
    assert {name: told["answer"][name] for name in facts} == facts


def test_a_time_that_nobody_noted_is_not_told(tmp_path: Path):
    """The times of the tools are no time of the answer."""
    desk = Desk(tmp_path)
    session = desk.keep(exchange("What time is it?", "It is noon.", CALL))
    (told,) = desk.ask("GET", f"/toolspeak/sessions/{session}").json["exchanges"]
    assert told["answer"]["seconds"] is None
    assert told["answer"]["rounds"][0]["seconds"] is None
    assert told["answer"]["rounds"][0]["calls"][0]["seconds"] == 0.5


def test_what_an_agent_has_written_is_gone_on_with_and_never_shortened(tmp_path: Path):
    desk = Desk(tmp_path)

    async def written() -> str:
        with open_store(desk.url) as store:
            journal = await store.journal(about={"task": "bills"})
            for question in ("one", "two"):
                await journal.say(Message("user", (TextPart(question),)))
                await journal.begin()
                await journal.end(Answer("Yes."))
            await journal.close()
            return journal.session

    session = run(written())
    assert desk.keep(exchange("three"), session, 2) == session
    other = desk.keep(exchange("another two"), session, 1)
    assert desk.questions(session) == ["one", "two", "three"]
    assert desk.questions(other) == ["one", "another two"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"exchanges": [{"question": "?"}]},
        {"exchanges": [{"question": 1, "answer": {}}]},
        {"exchanges": [{"question": "?", "answer": {"status": "running"}}]},
        {"exchanges": [{"question": "?", "answer": {"rounds": [{"calls": [{"id": "x"}]}]}}]},
    ],
)
def test_what_is_no_question_with_an_answer_is_refused(tmp_path: Path, body: dict[str, Any]):
    desk = Desk(tmp_path)
    assert desk.ask("POST", "/toolspeak/sessions", body).status == 400
    assert desk.listed() == []


def test_without_a_store_nothing_is_kept_and_the_page_knows(tmp_path: Path):
    desk = Desk(tmp_path)
    assert desk.ask("GET", "/toolspeak/about").json["keeping"] is True
    desk.app = App(gateway(line("one", Parrot())), OriginGuard(desk.access))
    assert desk.ask("GET", "/toolspeak/about").json["keeping"] is False
    assert desk.ask("POST", "/toolspeak/sessions", {"exchanges": [exchange("?")]}).status == 400


def test_calls_that_are_odd_are_kept_all_the_same():
    odd = [
        {"name": "clock", "arguments": "{not json", "id": "same", "result": "error", "failed": True},
        {"name": "clock", "arguments": "[1]", "id": "same"},
        {"name": "clock", "done": False},
    ]
    given = exchange("?", "", *odd, status="interrupted")

    question, answer = to_transcript(msgspec.convert(given, QuestionAnswer))
    calls = answer.rounds[0].calls
    assert [each.call.arguments for each in calls] == [{"arguments": "{not json"}, {"arguments": "[1]"}, {}]
    assert len({each.call.id for each in calls}) == 3
    assert [each.result is None for each in calls] == [False, False, True]
    (shown,) = from_transcript([question, answer])
    assert isinstance(shown, dict)
    told: Any = shown["answer"]
    assert told["status"] == "interrupted"
    assert [call["done"] for call in told["rounds"][0]["calls"]] == [True, True, False]
