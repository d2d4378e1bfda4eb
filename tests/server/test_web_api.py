"""What the page asks its server for, and what it never learns."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.server.asgi_client import HELLO, Parrot, ask, gateway, line, run
from tests.server.test_store_writer import one_batch, written_to
from toolspeak.config import Secret
from toolspeak.core.types import Request, Usage
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.trace import AttemptTrace, Trace
from toolspeak.errors import UpstreamError
from toolspeak.evaluation.builtin import Builtin
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.process.control_file import ControlFile, remove_control_file, running_servers, write_control_file
from toolspeak.server.proxy.exchange import RequestRecord
from toolspeak.server.recording.entries import RecordingEntry
from toolspeak.server.recording.recorder import Recorder
from toolspeak.server.recording.store_writer import StoreWriter
from toolspeak.server.recording.views import summary as shown_line
from toolspeak.server.recording.writer_process import write_batch
from toolspeak.store import open_recordings

CANARY = "sk-canary-canary-canary"
TOOLS = [{"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}]
ASKED = {**HELLO, "tools": TOOLS}
CALL = '```json action\n{"tool": "clock", "parameters": {}}\n```'
FIXED = Settings(mode="force", marks="fixed")


class Desk:
    """An application with a session, and a model that says what it is told to."""

    def __init__(self, text: str = "Hello.", settings: Settings = FIXED, **fields: Any) -> None:
        self.parrot = Parrot(text)
        self.guard = OriginGuard()
        self.app = App(gateway(line("one", self.parrot, settings=lambda model: settings)), self.guard, **fields)
        sessions = self.guard.access.sessions
        self.cookie = {"Cookie": f"toolspeak_session={sessions.exchange(sessions.new_code())}"}

    def ask(self, method: str, path: str, body: Any = b"", **headers: str) -> Any:
        return run(ask(self.app, method, path, {**self.cookie, **headers}, body))

    def asked(self, body: Any = ASKED, **headers: str) -> str:
        answer = self.ask("POST", "/v1/chat/completions", body, **headers)
        return json.loads(answer.header("x-toolspeak"))["id"]


@pytest.mark.requirement("H3")
def test_a_request_is_told_with_everything_that_belongs_to_it():
    desk = Desk(f"Hello 🦜\n{CALL}")
    told = desk.ask("GET", f"/toolspeak/requests/{desk.asked()}").json
    assert told["client"]["body"] == ASKED
    assert (told["plan"], told["tools"], told["calls"], told["status"]) == ("inline", "emulated", 1, 200)
    (attempt,) = told["trace"]["attempts"]
    assert attempt["raw"] == f"Hello 🦜\n{CALL}"
    # The bird takes two units.
    assert attempt["marks"] == [{"start": 9, "end": 9 + len(CALL), "candidates": [0]}]
    assert told["timing"].keys() == {"whole", "first", "waited", "added", "first_token", "held", "tooled"}


class _ReadingParrot(Parrot):
    """A model that reads ahead, as the embedded one does."""

    def __init__(self) -> None:
        super().__init__("Hello.")
        self.read: list[Request] = []

    async def read_ahead(self, request: Request) -> None:
        self.read.append(request)
        if len(self.read) > 1:
            raise UpstreamError("it did not start")


@pytest.mark.requirement("H3")
def test_a_model_that_reads_ahead_gets_the_tools_of_a_chat_before_the_first_question():
    desk = Desk()
    parrot = _ReadingParrot()
    desk.app = App(gateway(line("one", parrot, settings=lambda model: FIXED)), desk.guard)
    for _ in range(2):  # the second fails, which is for the question to say
        assert desk.ask("POST", "/toolspeak/prepare", ASKED).json == {}
    assert "clock" in parrot.read[0].messages[0].text
    assert desk.ask("GET", "/toolspeak/requests").json["requests"] == []
    assert desk.ask("POST", "/toolspeak/prepare", {"messages": []}).status == 400


@pytest.mark.requirement("H3")
def test_tools_of_a_chat_are_not_sent_ahead_to_other_models():
    desk = Desk()
    assert desk.ask("POST", "/toolspeak/prepare", ASKED).json == {}
    assert desk.parrot.asked == []
    assert desk.ask("GET", "/toolspeak/requests").json["requests"] == []


@pytest.mark.requirement("H3")
def test_what_has_no_answer_yet_is_told_without_keys_until_it_has_one():
    desk = Desk()

    async def looked() -> tuple[Any, Any]:
        desk.parrot.held, desk.parrot.reached = asyncio.Event(), asyncio.Event()
        body = {**HELLO, "model": f"m {CANARY}"}
        shown = {**desk.cookie, "Authorization": f"Bearer {CANARY}", "X-Request-Id": "mine"}
        asking = asyncio.create_task(ask(desk.app, "POST", "/v1/chat/completions", shown, body))
        await desk.parrot.reached.wait()
        during = await ask(desk.app, "GET", "/toolspeak/requests", desk.cookie)
        alone = await ask(desk.app, "GET", "/toolspeak/requests/mine", desk.cookie)
        assert (alone.json["sent"], alone.json["writing"], alone.json["fault"]) == (1, True, [])
        assert (await ask(desk.app, "GET", "/toolspeak/requests/mine")).status == 404
        desk.parrot.held.set()
        await asking
        return during.json, (await ask(desk.app, "GET", "/toolspeak/requests", desk.cookie)).json

    during, after = run(looked())
    (one,) = during["running"]
    assert (during["requests"], one["face"], one["model"]) == ([], "openai_chat", "m ***")
    assert (one["question"], one["sent"], one["writing"]) == ("Hello?", 1, True)
    assert one["seconds"] >= 0
    assert (after["running"], [each["id"] for each in after["requests"]]) == ([], [one["id"]])


def test_lines_are_told_from_a_number_on():
    desk = Desk()
    desk.asked()
    mark = desk.ask("GET", "/toolspeak/requests").json["next"]
    second = desk.asked()
    later = desk.ask("GET", f"/toolspeak/requests?after={mark}").json["requests"]
    assert [each["id"] for each in later] == [second]
    assert len(desk.ask("GET", "/toolspeak/requests?after=nonsense").json["requests"]) == 2


@pytest.mark.requirement("H3")
def test_requests_are_listed_with_their_question_and_client_and_searched():
    desk = Desk(CALL)
    first = desk.asked(**{"User-Agent": "codex_cli_rs/0.1"})
    second = desk.asked({**ASKED, "messages": [{"role": "user", "content": f"Use {CANARY}"}]}, **{"X-Api-Key": CANARY})
    listed = {each["id"]: each for each in desk.ask("GET", "/toolspeak/requests").json["requests"]}
    shown = listed[first]
    assert (shown["question"], shown["user_agent"], shown["called"]) == ("Hello?", "codex_cli_rs/0.1", ["clock"])
    assert (listed[second]["question"], shown["messages"]) == ("Use ***", 1)
    for query, found in (("client:codex tool:clock", [first]), ("use", [second]), (CANARY, []), ("tool:shell", [])):
        answer = desk.ask("GET", f"/toolspeak/requests?query={quote(query)}").json
        assert [each["id"] for each in answer["requests"]] == found


@pytest.mark.requirement("H6")
@check_each(
    ("text", "tool_choice", "likely"),
    [
        ("Hello.", "auto", False),
        ("I don't have access to any tools, so I cannot check the time.", "auto", True),
        ('Look: <tool_call>{"name": "clocks", "arguments": {}}</tool_call>', "auto", True),
        (CALL, "auto", False),
    ],
)
def test_a_call_was_likely_where_the_model_refused_or_wrote_something_like_one(
    text: str, tool_choice: str, likely: bool
):
    desk = Desk(text)
    desk.asked({**ASKED, "tool_choice": tool_choice})
    (line,) = desk.ask("GET", "/toolspeak/requests").json["requests"]
    assert line["call_likely"] is likely


def test_a_mark_of_another_process_is_the_beginning():
    desk = Desk()
    desk.asked()
    worker, _, number = desk.ask("GET", "/toolspeak/requests").json["next"].partition(".")
    another = f"{int(worker) + 1}.{number}"
    for mark in (another, f"{worker}.{'9' * 40}", number, f"{worker}.-1", "٣.٣"):
        assert len(desk.ask("GET", f"/toolspeak/requests?after={quote(mark)}").json["requests"]) == 1
    assert desk.ask("GET", f"/toolspeak/requests?after={another},{worker}.{number}").json["requests"] == []


def test_half_a_surrogate_pair_can_be_told():
    desk = Desk("half \ud800 of a pair")
    told = desk.ask("GET", f"/toolspeak/requests/{desk.asked(HELLO)}").json
    assert told["trace"]["attempts"][0]["raw"] == "half \ufffd of a pair"


def test_what_was_refused_is_kept_too():
    desk = Desk()
    desk.ask("POST", "/v1/chat/completions", {"model": "m", "messages": "none"})
    (told,) = desk.ask("GET", "/toolspeak/requests").json["requests"]
    assert told["status"] == 400
    assert "messages" in told["error"]


@pytest.mark.requirement("R-T2")
def test_no_key_is_in_what_is_kept_nor_in_what_is_written():
    written: list[Any] = []
    keeper = StoreWriter(written_to(written), lambda: [Secret("configured-canary")], batch_seconds=0.0)
    recorder = Recorder(sink=keeper)
    desk = Desk(
        f"{CANARY} Bearer canary-1234 configured-canary",
        recorder=recorder,
        secrets=lambda: [Secret("configured-canary")],
    )
    body = {**ASKED, "api_key": "canary-in-a-field", "user": f"{CANARY} tsk-canary-canary ?key=canary"}
    identifier = desk.asked(body, Authorization=f"Bearer {CANARY}", **{"x-api-key": CANARY})
    keeper.flush()
    shown = desk.ask("GET", f"/toolspeak/requests/{identifier}").body + desk.ask("GET", "/toolspeak/requests").body
    shown += json.dumps(written).encode()
    assert b"***" in shown
    assert b"canary" not in shown


@pytest.mark.requirement("H3", "R-T2")
def test_stored_requests_are_listed_and_shown_again_by_another_process(tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'requests.db'}"
    before, after = open_recordings(url), open_recordings(url)
    writer = StoreWriter(lambda data: write_batch(one_batch(data), before.add_all), tuple, batch_seconds=0.0)
    first = Desk(CALL, recorder=Recorder(sink=writer))
    identifiers = [first.asked({**ASKED, "model": model}) for model in ("one", "two", *["one"] * 60)]
    assert writer.flush(20)
    second = Desk(recorder=Recorder(archive=after))
    own = second.asked()

    def listed(query: str) -> list[str]:
        lines = second.ask("GET", f"/toolspeak/requests?query={quote(query)}").json["requests"]
        assert all(line["question"] == "Hello?" and line["timing"] for line in lines)
        return [line["id"] for line in lines]

    assert listed("") == [own]
    assert sorted(listed("since:1h")) == sorted([own, *identifiers])
    assert listed("since:1h model:two") == [identifiers[1]]
    assert listed("since:2h until:1h") == []
    whole = second.ask("GET", f"/toolspeak/requests/{identifiers[0]}").json
    assert whole["trace"]["attempts"][0]["raw"] == CALL
    for unknown in (identifiers[0][:4], "0", own[:1]):
        assert second.ask("GET", f"/toolspeak/requests/{unknown}").status == 404
    assert second.ask("POST", f"/toolspeak/requests/{identifiers[0]}/replay", {"policy": "eager"}).status == 404
    sqlite3.connect(tmp_path / "requests.db").executescript("DROP TABLE recordings")  # no answer from the store
    assert listed("since:1h") == [own]
    assert second.ask("GET", f"/toolspeak/requests/{identifiers[0]}").status == 404


@pytest.mark.requirement("H3", "A15")
def test_a_replay_changes_what_it_is_told_to_and_executes_nothing():
    desk = Desk(f"For example:\n```json\n{CALL[15:-4]}\n```\nthat is all.")
    identifier = desk.asked()
    again = desk.ask("POST", f"/toolspeak/requests/{identifier}/replay", {"policy": "eager", "plan": ""}).json
    assert (again["calls"], again["replay_of"], again["changed"]) == (1, identifier, {"policy": "eager"})
    assert len(desk.parrot.asked) == 2  # the model, and nobody else
    assert desk.ask("GET", f"/toolspeak/requests/{again['id']}").status == 200
    for wishes in ({"policy": "lax"}, {"base_url": "http://evil.example"}, {"dialect": "nonsense"}):
        assert desk.ask("POST", f"/toolspeak/requests/{identifier}/replay", wishes).status == 400
    assert desk.ask("POST", "/toolspeak/requests/nothing/replay", {}).status == 404


# ---- files and doors


def test_browsers_get_the_page_and_clients_a_line():
    desk = Desk()
    html = desk.ask("GET", "/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert html.header("content-type") == "text/html; charset=utf-8"
    assert html.header("content-security-policy").startswith("default-src 'self'; frame-ancestors 'none'")
    for accept in ("*/*", "", "application/json", "text/plain, text/html"):
        assert desk.ask("GET", "/", Accept=accept).body.startswith(b"toolspeak is running")
    script = desk.ask("GET", "/toolspeak/page/app.js")
    assert script.header("content-type") == "text/javascript; charset=utf-8"
    assert desk.ask("GET", "/toolspeak/page/app.js", **{"If-None-Match": script.header("etag")}).status == 304
    for name in ("nothing.js", "../app.py", "..%2fapp.py", ""):
        assert desk.ask("GET", f"/toolspeak/page/{name}").status == 404


def test_a_server_that_runs_is_found_by_its_owner_alone(tmp_path: Path):
    import os

    door = ControlFile("http://127.0.0.1:8788", "token", os.getpid())
    path = write_control_file(tmp_path / "servers", 8788, door)
    assert path.stat().st_mode & 0o777 == 0o600
    assert running_servers(tmp_path / "servers") == [door]
    path.chmod(0o644)
    assert running_servers(tmp_path / "servers") == []  # others could have written it, or read the token
    path.chmod(0o600)
    path.with_name("9.server").write_text("nonsense")
    assert running_servers(tmp_path / "servers") == [door]
    write_control_file(tmp_path / "servers", 8788, msgspec.structs.replace(door, pid=1))
    remove_control_file(path)  # another server's by now
    assert path.exists()
    write_control_file(tmp_path / "servers", 8788, door)
    remove_control_file(path)
    assert not path.exists()
    assert running_servers(tmp_path / "nowhere") == []


def test_an_answer_without_an_upstream_is_no_record_of_a_call():
    assert ts.parse(CALL).calls  # what the tests above take for granted


# ---- bodies that cannot be


@check_each(
    ("body", "field"),
    [
        ({"model": 5}, "`model`"),
        ({"model": ["m"]}, "`model`"),
        ({"model": False}, "`model`"),
        ({"policy": 5}, "`policy`"),
        ({"plan": "none"}, "`plan`"),
        ({"dialect": {}}, "`dialect`"),
        ({"retries": "many"}, "`retries`"),
        ({"colour": "red"}, "`colour`"),
        (b"[]", "object"),
    ],
)
def test_a_replay_with_a_field_that_cannot_be_is_refused_by_its_name(body: Any, field: str):
    desk = Desk()
    answer = desk.ask("POST", f"/toolspeak/requests/{desk.asked()}/replay", body)
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
    assert field in answer.json["error"]["message"]
    assert len(desk.ask("GET", "/toolspeak/requests").json["requests"]) == 1  # nothing was asked


@check_each("model", ["", None])
def test_a_replay_that_names_no_model_asks_the_one_of_then(model: Any):
    desk = Desk()
    answer = desk.ask("POST", f"/toolspeak/requests/{desk.asked()}/replay", {"model": model, "policy": ""})
    assert (answer.status, answer.json["model"], answer.json["changed"]) == (200, "m", {})


@check_each(
    ("path", "body", "field"),
    [
        ("probe", {"model": 5}, "`model`"),
        ("probe", {}, "`model`"),
        ("session", {"code": 5}, "`code`"),
        ("session", {}, "`code`"),
        ("session", b"nothing", "not valid JSON"),
        ("sessions", {"exchanges": 5}, "`$.exchanges`"),
        ("sessions", {"exchanges": [{"question": 5}]}, "`$.exchanges[0].question`"),
        ("sessions", {"exchanges": [], "keep": "all"}, "`$.keep`"),
    ],
)
def test_what_the_page_sends_is_refused_by_the_name_of_the_field(path: str, body: Any, field: str):
    answer = Desk().ask("POST", f"/toolspeak/{path}", body)
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
    assert field in answer.json["error"]["message"]


# ---- how requests end


@pytest.mark.requirement("H3")
def test_why_there_was_no_call_is_told_as_code_and_as_sentence():
    desk = Desk(CALL.replace("clock", "clocks"))
    identifier = desk.asked(**{"x-toolspeak-settings": '{"retries": 0}'})
    told = desk.ask("GET", f"/toolspeak/requests/{identifier}").json
    (shown,) = desk.ask("GET", "/toolspeak/requests").json["requests"]
    (candidate,) = told["trace"]["attempts"][0]["candidates"]
    assert (candidate["reason"], candidate["why"]) == ("unknown_tool", "there is no tool with that name")
    assert told["trace"]["no_call_code"] == shown["no_call_code"] == "unknown_tool"
    assert "unknown_tool" not in told["trace"]["why_no_call"]
    assert shown["why_no_call"] == told["trace"]["why_no_call"] != ""


@pytest.mark.requirement("H3")
def test_a_client_that_left_is_no_error():
    left, failed = line_of(status=499, error="the client went away"), line_of(status=499, error="gone", asked=True)
    assert (left["outcome"], left["error"]) == ("left", "")
    assert (failed["outcome"], failed["error"]) == ("left", "gone")  # the upstream had failed before
    assert line_of(status=200, error="gone")["outcome"] == "error"
    assert line_of(status=429)["outcome"] == "error"
    assert line_of(status=200)["outcome"] == "answered"


def line_of(status: int, error: str = "", asked: bool = False) -> Any:
    attempt = AttemptTrace("inline", Request("m", ()), "", "", (), (), "error", Usage())
    trace = Trace("inline", "", "", (attempt,) if asked else ())
    return shown_line(
        RecordingEntry(RequestRecord("1", "openai_chat", "m", "inline", 1, (), error, trace), status=status)
    )


def test_the_suite_and_its_judge_are_those_of_the_command():
    desk = Desk()
    suite = desk.ask("GET", "/toolspeak/suite").json
    builtin = Builtin()
    assert [task["id"] for task in suite["tasks"]] == [case.id for case in builtin.cases]
    assert desk.ask("POST", "/toolspeak/suite", suite).json == suite
    task = next(task for task in suite["tasks"] if task["category"] == "rounds")
    expected = task["rounds"][0]
    (call,) = expected["calls"]
    given = {name: accepted[0] for name, accepted in call["arguments"].items()}
    about: Any = {"expected": expected, "calls": [{"name": call["name"], "arguments": given}]}
    right = desk.ask("POST", "/toolspeak/judgement", about).json
    assert right == {"correct": True, "fault": "", "detail": "", "results": [call["result"]]}
    wrong = desk.ask("POST", "/toolspeak/judgement", {**about, "calls": [], "text": "No."}).json
    assert (wrong["correct"], wrong["fault"]) == (False, "no_call")


@check_each(
    ("path", "body", "words"),
    [
        ("suite", {"version": "1"}, "cannot read the suite: object missing required field `tools`"),
        ("suite", {"version": "1", "tools": {}, "tasks": [{"id": "a"}]}, "missing required field"),
        ("judgement", {}, "invalid answer: Expected `object`, got `null`"),
        ("judgement", {"expected": {}, "calls": [{"name": 5}]}, "`$.calls[0].name`"),
        ("default", {"model": "m"}, "`settings` an object"),
        ("default", {"model": "m", "settings": {"mode": "loud"}}, "invalid value for `mode`"),
        ("default", {"model": "m", "settings": {"command": "sh"}}, "unknown request setting `command`"),
    ],
)
def test_what_cannot_be_evaluated_or_changed_is_refused(path: str, body: Any, words: str):
    answer = Desk().ask("POST", f"/toolspeak/{path}", body)
    assert answer.status == 400 and words in answer.message


def test_a_default_is_changed_for_one_model_until_the_configuration_is_loaded_again():
    desk = Desk(CALL)

    def calls(model: str) -> bool:
        message = desk.ask("POST", "/v1/chat/completions", {**ASKED, "model": model}).json["choices"][0]["message"]
        return bool(message.get("tool_calls"))

    assert calls("m")
    changed = desk.ask("POST", "/toolspeak/default", {"model": "m", "settings": {"mode": "off"}})
    assert changed.json == {"model": "one:m", "changed": True}
    assert not calls("m") and calls("other")
    desk.ask("POST", "/toolspeak/default", {"model": "m", "settings": {}})
    assert calls("m")
    desk.ask("POST", "/toolspeak/default", {"model": "m", "settings": {"mode": "off"}})
    run(desk.app.replace(gateway(line("one", desk.parrot, settings=lambda model: FIXED, models=("m",)))))
    assert calls("m")
