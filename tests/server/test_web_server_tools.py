"""Tools that the server runs, asked for by the page: for whom, which of them, and what is told of their calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.server.asgi_client import Answer, ask, bearer, line, run
from tests.server.test_tool_loop import NATIVE, Clock, client_tool, said
from toolspeak.config import ServerToolsRow
from toolspeak.config.values import checked_row
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.errors import ConfigError
from toolspeak.key_value import MemoryState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.proxy.tool_loop.loop import LoopTools
from toolspeak.server.proxy.tool_loop.tools import loops_from
from toolspeak.server.proxy.upstream_router import PAGE, Gateway
from toolspeak.tools.approval import Approval
from toolspeak.tools.wrappers import Approved
from toolspeak.upstreams.scripted import Script, Scripted, calls


class Place:
    """A server; `loops` are those for whom it runs tools. `link` is a session by the printed link."""

    def __init__(self, *turns: Script, loops: tuple[str, ...] = (PAGE,), tools: Any = None) -> None:
        self.clock = Clock()
        self.upstream = Scripted(*turns)
        self.keys = ApiKeys(MemoryState())
        self.admin = self.keys.new("root", admin=True)[1]
        self.access = Access(self.keys, required=False)
        made = LoopTools(tools or [self.clock, Clock("dice")])
        lines = [line("up", self.upstream, settings=lambda model: NATIVE)]
        gateway = Gateway(lines, Capabilities(), MemoryState(), b"secret", loops=dict.fromkeys(loops, made))
        self.app = App(gateway, OriginGuard(self.access))
        self.link = {"Cookie": f"toolspeak_session={self.access.begin_session(self.access.sessions.new_code())}"}

    @property
    def signed_in(self) -> dict[str, str]:
        """A session that was begun with the admin's key."""
        return {"Cookie": f"toolspeak_session={self.access.begin_session(self.admin)}"}

    def ask(self, wanted: Any = None, headers: dict[str, str] | None = None, **body: Any) -> Answer:
        wish = {} if wanted is None else {"x-toolspeak-settings": json.dumps({"server_tools": wanted})}
        whole = {"model": "m", "messages": said(), "stream": True, **body}
        return run(ask(self.app, "POST", "/v1/chat/completions", {**(headers or self.link), **wish}, whole))

    def offered(self, headers: dict[str, str]) -> Any:
        return run(ask(self.app, "GET", "/toolspeak/tools", headers)).json


def pieces(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.body
    return [json.loads(part[6:]) for part in answer.body.decode().split("\n\n") if part.startswith("data: {")]


def text_of(answer: Answer) -> str:
    return "".join(choice["delta"].get("content") or "" for piece in pieces(answer) for choice in piece["choices"])


def looks() -> list[ts.Event]:
    return [ts.TextDelta("Let me look."), *calls(ts.ToolCall("clock", {"zone": "UTC"}, "c1"))]


@pytest.mark.requirement("H2", "A15")
def test_the_page_names_tools_and_is_told_of_each_call_as_it_runs():
    place = Place(looks(), "It is noon.")
    answer = place.ask(["clock"])
    assert place.clock.ran == [{"zone": "UTC"}]
    assert text_of(answer) == "Let me look.\n\nIt is noon."
    told = [piece["toolspeak"] for piece in pieces(answer) if "toolspeak" in piece and not piece["choices"]]
    call, result = told[0]["call"], told[1]["result"]
    assert (call["name"], json.loads(call["arguments"])) == ("clock", {"zone": "UTC"})
    assert (result["id"], result["content"], result["error"]) == (call["id"], "12:00", False)
    assert result["seconds"] >= 0
    order = [piece for piece in pieces(answer) if "call" in piece.get("toolspeak", {}) or "noon" in str(piece)]
    assert "toolspeak" in order[0]  # the call is told before what is said after it


def test_only_those_tools_that_it_names_are_offered():
    place = Place("Hello.")
    place.ask(["dice"])
    assert [tool.name for tool in place.upstream.requests[0].tools] == ["dice", "read_more"]


@check_each("wanted", [None, []])
def test_without_a_name_nothing_is_run(wanted: Any):
    place = Place("Hello.")
    place.ask(wanted)
    assert place.upstream.requests[0].tools == ()


def test_a_name_that_is_none_is_refused():
    assert Place("never").ask(["rocket"]).status == 400
    assert Place("never").ask("clock").status == 400
    assert Place("never").ask([1]).status == 400


@pytest.mark.requirement("R-T7")
def test_the_configuration_says_for_whom():
    unlisted = Place("never", loops=("ci",))
    assert unlisted.ask(["clock"]).status == 403
    assert "page = true" in unlisted.offered(unlisted.link)["why"]
    assert Place("never", loops=()).ask(["clock"]).status == 403
    assert Place("never", loops=()).offered(Place().link) is not None
    for_key = Place("Hello.", "Hello.", loops=("root",))
    assert for_key.ask(["clock"]).status == 403  # by the link, nobody's key
    assert for_key.ask(["clock"], for_key.signed_in).status == 200
    assert [tool["name"] for tool in for_key.offered(for_key.signed_in)["tools"]] == ["clock", "dice"]


def test_nobody_without_a_session_or_an_admins_key_names_tools():
    place = Place("never")
    assert place.ask(["clock"], {"x-nothing": "1"}).status == 403
    assert place.upstream.requests == []


@check_each("changes", [{"marks": "fixed"}, {"policy": "eager"}, {"mode": "force", "marks": "auto"}])
@pytest.mark.requirement("A1", "A15")
def test_only_an_admin_changes_which_calls_the_server_runs(changes: dict[str, str]):
    place = Place("Hello.", "Hello.", loops=("anna", "root"))
    anna = place.keys.new("anna")[1]
    wish = {"x-toolspeak-settings": json.dumps(changes)}
    refused = place.ask(headers={**bearer(anna), **wish})
    assert (refused.status, "the server runs tools for you" in refused.message) == (403, True)
    assert place.upstream.requests == []
    assert place.ask(headers={**bearer(place.admin), **wish}).status == 200
    harmless = {"x-toolspeak-settings": '{"retries": 0, "server_tools": ["clock"]}'}
    assert place.ask(headers={**bearer(anna), **harmless}).status == 200


def test_a_key_has_all_of_its_tools_unless_it_names_some():
    place = Place("Hello.", "Hello.", "Hello.", loops=("root",))
    for wanted in (None, ["clock"], []):
        place.ask(wanted, bearer(place.admin))
    offered = [[tool.name for tool in asked.tools] for asked in place.upstream.requests]
    assert offered == [["clock", "dice", "read_more"], ["clock", "read_more"], []]


def test_what_needs_approval_answers_with_an_error():
    careful = Clock("careful")
    careful.tool = ts.Tool("careful", "Changes things.", side_effects=True)
    called = calls(ts.ToolCall("careful", {}, "c1"))
    place = Place(called, "I could not.", tools=[Approved(careful, Approval())])
    answer = place.ask(["careful"])
    (result,) = [piece["toolspeak"]["result"] for piece in pieces(answer) if "result" in piece.get("toolspeak", {})]
    assert result["error"] and "not allowed" in result["content"]
    assert careful.ran == []


def test_the_pages_own_tools_work_beside_them():
    mixed = calls(ts.ToolCall("clock", {}, "c1"), ts.ToolCall("mine", {}, "m1"))
    place = Place(mixed, "never")
    answer = place.ask(["clock"], tools=[client_tool("mine")])
    deltas = [choice["delta"] for piece in pieces(answer) for choice in piece["choices"]]
    names = [call["function"]["name"] for delta in deltas for call in delta.get("tool_calls") or [] if call.get("id")]
    assert names == ["mine"]
    assert place.clock.ran == [{}]


def test_other_protocols_are_told_nothing_beside_their_answers():
    place = Place(looks(), "It is noon.")
    wish = {**place.link, "x-toolspeak-settings": '{"server_tools": ["clock"]}'}
    body = {"model": "m", "messages": said(), "stream": True}
    answer = run(ask(place.app, "POST", "/api/chat", wish, body))
    lines = [json.loads(each) for each in answer.body.splitlines() if each.strip()]
    assert all("choices" not in each for each in lines)
    assert place.clock.ran == [{"zone": "UTC"}]


@pytest.mark.requirement("A15")
def test_a_replay_runs_no_tool_of_the_server():
    place = Place(looks(), "It is noon.", looks())
    place.ask(["clock"])
    (first,) = run(ask(place.app, "GET", "/toolspeak/requests", place.link)).json["requests"]
    assert first["timing"]["tooled"] > 0
    path = f"/toolspeak/requests/{first['id']}/replay"
    assert run(ask(place.app, "POST", path, place.link, {"server_tools": ["clock"]})).status == 400
    again = run(ask(place.app, "POST", path, place.link, {}))
    assert again.status == 200
    assert len(place.clock.ran) == 1
    # The same are offered, so that the model may call them.
    offered, _, repeated = ([tool.name for tool in each.tools] for each in place.upstream.requests)
    assert "clock" in offered and repeated == offered
    assert again.json["error"] == ""


def test_two_tables_cannot_both_be_the_pages():
    rows = {name: ServerToolsRow(page=True) for name in ("one", "two")}
    assert loops_from({"one": rows["one"]}, MemoryState(), {}).keys() == {PAGE}
    with pytest.raises(ConfigError, match="page = true"):
        loops_from(rows, MemoryState(), {})


def test_a_table_is_for_keys_or_for_the_page():
    assert checked_row("server_tools", {"page": True}, "a file") == {"page": True}
    for fields in ({}, {"keys": []}, {"page": False}):
        with pytest.raises(ConfigError, match="`keys` or `page`"):
            checked_row("server_tools", fields, "a file")


def test_an_answer_after_calls_does_not_ask_why_there_was_none():
    place = Place(looks(), "It is noon.")
    place.ask(["clock"])
    (first,) = run(ask(place.app, "GET", "/toolspeak/requests", place.link)).json["requests"]
    assert first["why_no_call"] == ""
