"""The inspector of the page: the live list, one request in detail, and replays."""

from __future__ import annotations

from typing import Any
from urllib.error import HTTPError

import pytest
from click.testing import CliRunner

from tests.page.conftest import drawn
from tests.page.http_requests import asked, told
from tests.page.page_server import REFUSAL, Served
from tests.page.test_chat import FIELD, ask
from toolspeak.cli import main
from toolspeak.server.process.control_file import ControlFile, write_control_file

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H3")]


def opened(page: Any, server: Served, identifier: str) -> Any:
    page.goto(f"{server.url}/#/requests/{identifier}")
    page.locator(".one").get_by_text(identifier).wait_for()
    return page.locator(".one")


def show(page: Any, what: str) -> None:
    page.get_by_role("combobox", name="Show", exact=True).select_option(what)


def test_requests_show_up_while_one_looks(page: Any, server: Served):
    page.goto(f"{server.url}/#/requests")
    page.get_by_text("No requests yet.").wait_for()
    asked(server, "what time is it?")
    page.locator(".rows-row").wait_for()
    row = page.locator(".rows-row").inner_text()
    assert row.startswith("what time is it?") and "small-model" in row
    asked(server, "hello", model="other-model")
    page.locator(".rows-row").nth(1).wait_for()
    assert "other-model" in page.locator(".rows-row").first.inner_text()  # the newest first


def test_a_click_while_the_list_grows_is_not_lost(page: Any, server: Served):
    identifier = asked(server, "what time is it?")["id"]
    page.goto(f"{server.url}/#/requests")
    row = page.locator(f"#row-{identifier}")
    row.wait_for()
    page.evaluate("id => (window.row = document.getElementById(id))", f"row-{identifier}")
    row.hover()
    page.mouse.down()
    newer = asked(server, "hello", model="other-model")["id"]
    page.locator(f"#row-{newer}").wait_for()
    assert row.evaluate("row => row === window.row")  # it is still the same one, if further down
    page.mouse.up()
    page.locator(".one").get_by_text(identifier).wait_for()


def test_a_request_that_runs_is_marked_and_shown_once_it_is_answered(page: Any, server: Served):
    page.fill(FIELD, "linger over it")
    page.press(FIELD, "Enter")
    page.locator(".live").get_by_text("It takes a while").wait_for()
    page.goto(f"{server.url}/#/requests")
    row = page.locator(".rows-row").filter(has=page.get_by_text("running", exact=True))
    row.wait_for()
    assert "small-model" in row.inner_text()
    page.locator(".rows-summary").get_by_text(", 1 running").wait_for()
    identifier = row.get_attribute("data-key")
    row.click()
    page.get_by_text("This request is still running").wait_for()
    page.get_by_role("link", name="Chats").click()
    page.click(".composer button")
    page.locator(".notice.warn").get_by_text("Stopped").wait_for()
    page.goto(f"{server.url}/#/requests/{identifier}")
    page.locator(".one").get_by_text(identifier).wait_for()
    row.wait_for(state="detached")


def test_arrow_keys_leave_no_trail_in_the_history(page: Any, server: Served):
    for _ in range(3):
        asked(server, "hello")
    page.goto(f"{server.url}/#/requests")
    page.locator(".rows-row").nth(2).wait_for()
    before = page.evaluate("history.length")
    page.locator(".rows").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    third = page.locator(".rows-row").nth(2).get_attribute("data-key")
    page.locator(".one").get_by_text(third).wait_for()
    assert page.url.endswith(third)
    assert page.evaluate("history.length") == before


def test_the_list_can_be_filtered(page: Any, server: Served):
    asked(server, "refuse, please")
    asked(server, "repair it")
    asked(server, "hello", model="other-model", tools=None)
    with pytest.raises(HTTPError):
        asked(server, "hello", tools="none of them")
    page.fill(FIELD, "linger over it")
    page.press(FIELD, "Enter")
    page.locator(".live").get_by_text("It takes a while").wait_for()
    page.click(".composer button")  # which does not wait for the end
    page.locator(".notice.warn").get_by_text("Stopped").wait_for()
    lines = told(server, "/toolspeak/requests")["requests"]  # also those of other tests
    page.goto(f"{server.url}/#/requests")
    page.locator(".rows-row").first.wait_for()
    page.get_by_label("Group").uncheck()

    def assert_shown(what: str, matching: list[dict[str, Any]]) -> None:
        show(page, what)
        count = "1 request matches" if len(matching) == 1 else f"{len(matching)} requests match"
        page.locator(".rows-summary").get_by_text(count, exact=True).wait_for()
        # Two filters may leave as many: the count alone does not say that the list is drawn.
        page.locator(f'.rows-row[data-key="{matching[0]["id"]}"]').wait_for()
        shown = page.locator(".rows-row").evaluate_all("rows => rows.map((row) => row.dataset.key)")
        assert shown == [line["id"] for line in matching][: len(shown)] != []  # the rest is drawn when it is in sight

    assert_shown("Retried", [line for line in lines if line["retries"]])
    assert_shown("Repaired", [line for line in lines if line["repairs"]])
    assert_shown("Error", [line for line in lines if line["outcome"] == "error"])
    assert_shown("Client disconnected", [line for line in lines if line["status"] == 499])
    page.locator(".rows-row .badge").get_by_text("client disconnected").first.wait_for()
    show(page, "")
    page.get_by_label("Search requests").fill("plan:pass model:other-model")
    # The list is drawn a moment later.
    page.locator(".rows-row").filter(has_not_text="other-model").first.wait_for(state="detached")
    page.locator(".rows-row .badge").get_by_text("no tools").first.wait_for()
    page.locator(".rows-row").filter(has_text="other-model").first.wait_for()
    page.get_by_label("Search requests").fill("tool:nothing")
    page.get_by_text("No recorded request matches.").wait_for()
    page.get_by_role("button", name="Clear the search").click()
    page.locator(".rows-row").nth(3).wait_for()


def test_a_search_can_be_an_address(page: Any, server: Served):
    wanted = asked(server, "a needle in the haystack")["id"]
    page.goto(f"{server.url}/#/requests/?needle haystack")
    page.locator(".rows-summary").get_by_text("1 request matches").wait_for()
    assert page.locator(".rows-row").get_attribute("data-key") == wanted


def test_a_row_begins_with_the_question_and_the_rounds_of_a_conversation_stand_together(page: Any, server: Served):
    ask(page, "What time is it in Oslo, and what is 17 times 23?")
    page.goto(f"{server.url}/#/requests")
    rows = page.locator(".rows-row")
    rows.nth(1).wait_for()
    page.locator(f"#row-{asked(server, 'hello', model='other-model')['id']}").wait_for()
    newest, result, question = rows.nth(0).inner_text(), rows.nth(1).inner_text(), rows.nth(2).inner_text()
    assert newest.startswith("hello") and "Python-urllib" in newest
    assert result.startswith("↳ result of clock, calculator\n2 rounds")
    assert question.startswith("What time is it in Oslo") and "→ clock, calculator · small-model · browser" in question
    assert rows.nth(2).locator(".row-follows").count() == 2


def test_the_requests_of_a_conversation_are_those_that_grow(page: Any):
    script = """async (requests) => {
      const { grouped } = await import("./toolspeak/page/conversations.js");
      const lines = requests.map(([id, conversation, messages]) => ({ id, conversation, messages, model: "m" }));
      return grouped(lines).map(({ request, follows, size }) => `${request.id}${follows ? "-" : ""}${size}`).join(" ");
    }"""
    requests = [["a", "x", 5], ["b", "y", 1], ["c", "x", 3], ["d", "x", 3], ["e", "", 1], ["f", "", 0], ["g", "x", 1]]
    assert page.evaluate(script, requests) == "a2 c-2 b1 d2 g-2 e1 f1"


def test_a_list_that_is_not_live_stays_as_it_is(page: Any, server: Served):
    page.goto(f"{server.url}/#/requests")
    asked(server, "what time is it?")
    page.locator(".rows-row").first.wait_for()
    page.get_by_label("Live").uncheck()
    before = page.locator(".rows-summary").inner_text()
    page.wait_for_timeout(100)
    asked(server, "hello")
    page.wait_for_timeout(2000)
    assert page.locator(".rows-summary").inner_text() == before
    page.get_by_label("Live").check()
    page.locator(".rows-summary").get_by_text(before, exact=True).wait_for(state="detached")


@pytest.mark.requirement("H6")
def test_a_call_that_cannot_be_run_is_an_invalid_call_in_list_and_detail(page: Any, server: Served):
    server.script.calls["wrong value"] = ("clock", {"place": "Oslo"})
    parameters = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}
    tool = {"type": "function", "function": {"name": "clock", "parameters": parameters}}
    identifier = asked(server, "wrong value", tools=[tool])["id"]
    one = opened(page, server, identifier)
    one.locator("header .badge.bad").get_by_text("invalid call").wait_for()
    assert "invalid call" in one.locator(".candidate-label").first.inner_text()
    assert "invalid call" in page.locator(f"#row-{identifier} .badge.bad").inner_text()


def test_a_trace_is_one_file_that_loads_nothing(
    page: Any, server: Served, browser: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    payload = "</script><img src=x onerror=alert(1)><script>alert(2)</script><!--"
    identifier = asked(server, f'{payload} refuse, please, {{"api_key": "canary-canary"}}')["id"]
    one = opened(page, server, identifier)
    with page.expect_download() as file:
        one.get_by_role("button", name="Download trace").click()
    path = tmp_path / file.value.suggested_filename
    file.value.save_as(path)
    assert path.name == f"toolspeak-{identifier[:8]}.html"
    assert "canary" not in path.read_text(encoding="utf-8")
    context = browser.new_context()
    trace = context.new_page()
    requests: list[str] = []
    trace.on("request", lambda sent: requests.append(sent.url))
    trace.on("dialog", lambda dialog: (requests.append("dialog"), dialog.dismiss()))
    trace.goto(path.as_uri())
    text = trace.locator("body").inner_text()
    assert payload in text and REFUSAL in text and "Attempt 2" in text
    assert trace.locator("img").count() == 0
    assert requests == [path.as_uri()]
    context.close()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    write_control_file(tmp_path / "toolspeak" / "servers", 1, ControlFile(server.url, server.session()))
    assert CliRunner().invoke(main, ["explain", identifier, "--html", "-"]).stdout == path.read_text(encoding="utf-8")


def test_candidates_are_marked_where_they_stand(page: Any, server: Served):
    one = opened(page, server, asked(server, "Show an example of a call")["id"])
    marks = one.locator("mark.candidate-mark")
    assert marks.all_inner_texts() == [
        '```json\n{"tool": "clock", "parameters": {}}\n```',
        '<tool_call>{"name": "clocks", "arguments": {}}</tool_call>',
    ]
    names = one.locator(".candidate-label").all_inner_texts()
    assert names == ["1 · clock: rejected", "2 · clocks: rejected"]
    listed = one.locator(".candidates > li")
    assert "the model continued after it" in listed.nth(0).inner_text()
    assert "there is no tool with that name" in listed.nth(1).inner_text()
    assert "near miss" in listed.nth(1).inner_text()  # it meant `clock`
    listed.nth(1).get_by_text("Evidence").click()
    assert "wrapper" in listed.nth(1).locator(".evidence").inner_text()


def test_a_repair_is_shown_as_one(page: Any, server: Served):
    one = opened(page, server, asked(server, "repair it")["id"])
    assert one.locator(".candidate-label").inner_text() == "1 · clock: repaired"
    assert "trailing comma" in one.locator(".candidates").inner_text()


def test_places_hold_behind_characters_of_any_width(page: Any, server: Served):
    server.script.more["wide"] = 'Größe 🦜 日本 𝒳 <tool_call>{"name": "clocks", "arguments": {}}</tool_call> 🦜'
    one = opened(page, server, asked(server, "something wide")["id"])
    assert (
        one.locator("mark.candidate-mark").inner_text() == '<tool_call>{"name": "clocks", "arguments": {}}</tool_call>'
    )


def test_retries_stand_side_by_side(page: Any, server: Served):
    one = opened(page, server, asked(server, "refuse, please")["id"])
    attempts = one.locator(".attempt")
    assert attempts.count() == 2
    assert REFUSAL in attempts.nth(0).inner_text()
    assert "Retried: " in attempts.nth(0).inner_text()
    assert "accepted" in attempts.nth(1).inner_text()
    first, second = (attempts.nth(index).bounding_box() for index in range(2))
    assert first["y"] == second["y"] and first["x"] < second["x"]


def test_what_was_sent_to_us_and_by_us_can_be_read(page: Any, server: Served):
    one = opened(page, server, asked(server, "hello there")["id"])
    one.get_by_text("Request from the client").click()
    assert '"content": "hello there"' in one.locator(".section").inner_text()
    one.get_by_text("Sent to the model").click()
    sent = one.locator(".attempt").inner_text()
    assert "json action" in sent and "hello there" in sent
    assert (
        one.locator(".time-bar").get_attribute("aria-label").startswith(("1", "2", "3", "4", "5", "6", "7", "8", "9"))
    )


@pytest.mark.requirement("H6")
def test_why_there_was_no_call_stands_on_top(page: Any, server: Served):
    one = opened(page, server, asked(server, "hello")["id"])
    assert "The model answered without calling a tool." in one.locator("header").inner_text()


def test_a_replay_with_another_policy_is_compared(page: Any, server: Served):
    one = opened(page, server, asked(server, "Show an example of a call")["id"])
    before = len(server.script.asked)
    page.locator(".replay").get_by_role("combobox", name="Policy", exact=True).select_option("eager")
    page.get_by_role("button", name="Re-run").click()
    table = one.locator(".compare")
    table.wait_for()
    assert len(server.script.asked) == before + 1
    row = table.locator("tr", has_text="calls")
    assert row.locator("td").all_inner_texts()[0] == "none"
    assert "clock({})" in row.locator("td.changed").inner_text()  # accepted now
    one.get_by_text("Open the re-run as a separate request").click()
    page.locator(".one").get_by_text("Re-run of").wait_for()


@pytest.mark.requirement("H3")
def test_a_replay_with_another_plan_and_model_asks_that_model(page: Any, server: Served):
    identifier = asked(server, "what time is it?")["id"]
    opened(page, server, identifier)
    replay = page.locator(".replay")
    replay.get_by_role("combobox", name="Plan", exact=True).select_option("decision")
    replay.get_by_role("combobox", name="Model", exact=True).select_option("other-model")
    replay.get_by_role("button", name="Re-run").click()
    page.locator(".compare").wait_for()
    assert server.script.asked[-1].model == "other-model"
    lines = told(server, "/toolspeak/requests")["requests"]
    assert (lines[0]["replay_of"], lines[0]["plan"], lines[0]["model"]) == (identifier, "decision", "other-model")


def test_a_request_that_nobody_knows_is_told(page: Any, server: Served):
    page.goto(f"{server.url}/#/requests/nothing")
    page.locator(".detail .notice.bad").wait_for()


def test_an_answer_that_comes_late_replaces_nothing(page: Any, server: Served):
    late, wanted = (asked(server, question)["id"] for question in ("hello", "hello again"))
    held: list[Any] = []
    page.route(f"**/toolspeak/requests/{late}", lambda route: held.insert(0, route))
    with page.expect_request(f"**/toolspeak/requests/{late}"):
        page.goto(f"{server.url}/#/requests/{late}")
    opened(page, server, wanted)
    with page.expect_response(f"**/toolspeak/requests/{late}") as answer:
        held[0].continue_()
    answer.value.finished()
    drawn(page)
    assert wanted in page.locator(".one").inner_text()


def test_while_a_request_loads_nothing_of_another_one_can_be_replayed(page: Any, server: Served):
    before, wanted = (asked(server, question)["id"] for question in ("hello", "hello again"))
    opened(page, server, before)
    held: list[Any] = []
    page.route(f"**/toolspeak/requests/{wanted}", lambda route: held.insert(0, route))
    with page.expect_request(f"**/toolspeak/requests/{wanted}"):
        page.locator(f"#row-{wanted}").click()
    detail = page.locator(".detail")
    detail.get_by_text("Loading").wait_for()
    assert detail.get_attribute("aria-busy") == "true"
    assert before not in detail.inner_text()
    assert page.get_by_role("button", name="Re-run").count() == 0
    held[0].continue_()
    page.locator(".one").get_by_text(wanted).wait_for()
    assert detail.get_attribute("aria-busy") == "false"


def test_looking_at_many_requests_lists_each_once_and_asks_in_one_loop(page: Any, server: Served):
    ids = [asked(server, "hello")["id"] for _ in range(4)]
    for identifier in ids * 2:
        page.evaluate("id => { location.hash = `#/requests/${id}`; }", identifier)
    opened(page, server, ids[0])
    asking: list[str] = []
    page.on("request", lambda sent: asking.append(sent.url) if "requests?after" in sent.url else None)
    page.wait_for_timeout(3200)
    assert len(asking) <= 6  # one every 1.5 s, and not one for each of the eight that were opened
    shown = page.locator(".rows-row").evaluate_all("rows => rows.map((row) => row.id)")
    assert len(shown) == len(set(shown)) >= 4


def test_a_session_that_has_ended_leads_back_to_the_form(page: Any, server: Served):
    page.goto(f"{server.url}/#/requests")
    page.locator(".rows-summary").wait_for()
    page.context.clear_cookies()
    page.locator(".notice.warn").get_by_text("Your session has expired").wait_for()
    page.get_by_label("One-time link or admin key").fill(server.link())
    page.get_by_role("button", name="Sign in").click()
    page.locator(".rows-summary").wait_for()


def test_the_chat_notices_that_the_session_has_ended_and_keeps_what_was_said(page: Any, server: Served):
    ask(page, "hello")
    page.click(".call-settings summary")
    page.get_by_role("combobox", name="Plan", exact=True).select_option("decision")
    page.context.clear_cookies()
    page.fill(FIELD, "hello again")
    page.press(FIELD, "Enter")
    page.get_by_label("One-time link or admin key").fill(server.link())
    page.get_by_role("button", name="Sign in").click()
    page.locator(".exchange").wait_for()
    assert page.locator(FIELD).input_value() == "hello again"


@pytest.mark.parametrize("address", ["#/constructor", "#/requests/%", "#/__proto__"])
def test_an_address_that_nobody_meant_does_no_harm(page: Any, server: Served, address: str):
    page.goto(f"{server.url}/{address}")
    page.locator(".composer, .start, .detail .notice").first.wait_for()


def test_of_very_many_candidates_the_first_hundred_are_drawn(page: Any, server: Served):
    server.script.more["swarm"] = '<tool_call>{"name": "clocks", "arguments": {}}</tool_call> and\n' * 250
    one = opened(page, server, asked(server, "a swarm")["id"])
    listed = one.locator(".candidates > li")
    assert listed.count() == 100
    one.get_by_role("button", name="Show 100 more of 150").click()
    one.get_by_role("button", name="Show 50 more of 50").click()
    assert listed.count() == 250
    assert one.get_by_role("button", name="more of").count() == 0
