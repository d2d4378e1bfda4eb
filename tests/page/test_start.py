"""The views Start, Playground and Import in a browser."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import watched
from tests.page.http_requests import asked
from tests.page.page_server import Served, served
from tests.page.test_chat import ask
from tests.server.live_proxy import cut_text
from tests.test_doctor import document, listing, routed, running
from tests.upstreams.loopback_server import Server
from toolspeak.core.events import Event, Finish, TextDelta
from toolspeak.core.types import Request
from toolspeak.evaluation.builtin import Builtin
from toolspeak.server.web import connect

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H2", "H5")]

SECRET = "sk-canary-0123456789"
#: What a person who pastes an address may wait for the two columns.
SECONDS = 20
CURL = f"""curl https://api.example.com/v1/chat/completions \\
  -H "Authorization: Bearer {SECRET}" -H 'Content-Type: application/json' \\
  -d '{{"model": "m", "messages": [{{"role": "user", "content": "It'\\''s late. What time is it?"}}],
       "tools": [{{"type": "function", "function": {{"name": "clock", "parameters": {{"type": "object"}}}}}}]}}'"""
ANSWER = "Sure: {'name': 'clock', 'arguments': {'zone': 'Europe/Oslo'}} is what I would call."


def plain(request: Request) -> Sequence[Event]:
    """A model that only chats: it calls a tool where the prompt shows how, and refuses otherwise."""
    prompt = "\n".join(message.text for message in request.messages)
    mark = next((line for line in prompt.splitlines() if line.startswith("```json action")), "")
    tool, parameter = ("clock", "zone") if "clock" in prompt else ("get_weather", "city")
    call = f'{mark}\n{{"tool": "{tool}", "parameters": {{"{parameter}": "Oslo",}}}}\n```'
    text = call if mark else "I cannot look at a clock." if "time" in prompt else "Oslo is the capital of Norway."
    return [*(TextDelta(piece) for piece in cut_text(text)), Finish("stop")]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with running(routed(plain, listing("text-embed", "plain-7b"))) as server:
        monkeypatch.setattr(connect, "LOCAL_SERVERS", {server.url: "vllm"})
        yield server


@pytest.fixture(params=[(1440, "light"), (390, "dark")], ids=["desktop", "phone"])
def start(browser: Any, stub: Server, faults: list[str], request: Any) -> Iterator[Any]:
    """The start view of a server of its own, since the models of a server change here."""
    width, scheme = request.param
    with served() as server:
        context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion="reduce"
        )
        page = watched(context, server, faults)
        page.goto(server.link())
        page.wait_for_selector(".composer")
        page.goto(f"{server.url}/#/start")
        page.get_by_role("heading", name="Tool calling for any model").wait_for()
        page.served = server
        yield page
        context.close()
    assert not faults


def fits(page: Any) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_from_an_address_to_two_columns(start: Any, stub: Server):
    began = time.monotonic()
    start.get_by_label("Address").fill(stub.url.removeprefix("http://"))
    start.get_by_label("API key").fill(SECRET)
    start.keyboard.press("Enter")
    start.get_by_role("button", name="Use it now").wait_for()
    assert start.locator(".checks li").count() == 8
    assert start.locator(".check-ok, .check-note").count() == 8
    assert fits(start)
    start.get_by_role("button", name="Use it now").click()
    raw, own = start.get_by_role("region", name="Raw"), start.get_by_role("region", name="toolspeak", exact=True)
    own.get_by_text('clock({"zone":"Oslo"})').wait_for()
    assert time.monotonic() - began < SECONDS
    start.locator(".notice.good").get_by_text("Only the request with toolspeak led to a valid call.").wait_for()
    own.get_by_text("1 mistake was repaired").wait_for()
    assert "no call" in raw.inner_text() and "cannot look at a clock" in raw.inner_text()
    assert fits(start)
    assert SECRET not in start.content()
    assert start.get_by_label("API key").input_value() == ""
    own.get_by_role("link", name="Details").click()
    start.locator(".one .attempt").first.wait_for()
    start.goto(f"{start.served.url}/#/playground")
    start.get_by_role("heading", name="Playground").wait_for()
    assert start.get_by_label("Model").first.input_value() == "plain-7b"
    start.goto(f"{start.served.url}/#/chats")
    assert start.get_by_role("combobox", name="Model", exact=True).input_value() == "plain-7b"
    ask(start, "What time is it in Oslo?")
    assert "plain-7b" in start.locator(".about").inner_text()
    start.goto(f"{start.served.url}/#/playground")
    start.reload()
    start.get_by_role("heading", name="Playground").wait_for()
    assert start.get_by_role("combobox", name="Model").first.input_value() == "plain-7b"


def test_a_model_that_its_server_does_not_list_is_connected_by_its_name(start: Any):
    with running(routed(plain, document({}, "404 Not Found"))) as other:
        start.get_by_label("Address").fill(f"{other.url}/v1/chat/completions")
        start.keyboard.press("Enter")
        start.get_by_text("it does not list its models").wait_for()
        start.locator("input[name=model]").fill("mine")
        start.get_by_role("button", name="Check this model").click()
        start.get_by_text("about twenty short requests").wait_for()
        assert fits(start)
        start.get_by_role("button", name="Use it now").click()
        start.locator(".notice.good .strong").get_by_text("mine").wait_for()
        start.get_by_text("launch codex --url http://127.0.0.1").wait_for()


def test_where_nobody_answers_nothing_is_found(start: Any):
    start.get_by_label("Address").fill("http://127.0.0.1:9")
    start.keyboard.press("Enter")
    start.get_by_text("No server answered at http://127.0.0.1:9/v1.").wait_for()
    start.get_by_text("need “reachable” to pass first").wait_for()
    assert start.locator(".checks li").count() == 2 and start.locator(".badge.good").get_by_text("OpenAI").count() == 0


def test_a_copied_example_is_no_success(start: Any):
    """The model repeats what the retry shows it: a call with placeholders."""

    def echo(request: Request) -> Sequence[Event]:
        prompt = "\n".join(message.text for message in request.messages)
        mark = next((line for line in prompt.splitlines() if line.startswith("```json action")), "```json action")
        tool, parameter = ("clock", "zone") if "clock" in prompt else ("get_weather", "city")
        call = f'{mark}\n{{"tool": "{tool}", "parameters": {{"{parameter}": "example {parameter}"}}}}\n```'
        return [*(TextDelta(piece) for piece in cut_text(f"A call looks like this:\n\n{call}")), Finish("stop")]

    with running(routed(echo, listing("echo-7b"))) as other:
        start.get_by_label("Address").fill(other.url)
        start.keyboard.press("Enter")
        start.get_by_role("button", name="Use it now").wait_for()
        assert "no tool call: " in start.locator(".checks li").last.inner_text()
        start.get_by_role("button", name="Use it now").click()
        start.locator(".notice.warn").get_by_text("Open the details to see why").wait_for()


@pytest.mark.parametrize(
    ("trace", "text", "why"),
    [
        (
            [("No.", "it refused"), ("I would.", "it described")],
            "No.",
            "It refused. After the last retry: it described.",
        ),
        (
            [("No.", "it refused"), ("No, no.", "it refused")],
            "No.",
            "It refused. The retry failed for the same reason.",
        ),
        ([("No.", "it refused"), ("I would.", "it described")], "I would.", "It described."),
        ([("No.", "it refused")], "", "It refused."),
    ],
)
def test_the_reason_is_that_of_the_text_that_is_shown(page: Any, trace: list[tuple[str, str]], text: str, why: str):
    attempts = [{"raw": raw, "fault": {"why": fault}} for raw, fault in trace]
    script = """async ([trace, text]) => {
      const { whyNoCall } = await import("./toolspeak/page/no_call.js");
      return whyNoCall(trace, text);
    }"""
    assert page.evaluate(script, [{"why_no_call": trace[-1][1], "attempts": attempts}, text]) == why


def test_a_model_whose_name_is_taken_stays_chosen_after_a_reload(page: Any, server: Served):
    with running(routed(plain, listing("small-model"))) as other:
        page.goto(f"{server.url}/#/start")
        page.get_by_label("Address").fill(other.url)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Use it now").click()
        name = page.locator(".notice.good .strong").inner_text()
        assert name.endswith(":small-model")
        page.goto(f"{server.url}/#/playground")
        page.reload()
        page.get_by_role("heading", name="Playground").wait_for()
        assert page.get_by_role("combobox", name="Model").first.input_value() == name


def test_a_server_with_several_workers_says_what_to_add_to_its_configuration(
    browser: Any, stub: Server, faults: list[str], tmp_path: Path
):
    with served(workers=tmp_path) as server:
        page = watched(browser.new_context(), server, faults)
        page.goto(server.link())
        page.wait_for_selector(".composer")
        page.goto(f"{server.url}/#/start")
        page.get_by_label("Address").fill("https://models.example/v1")
        page.keyboard.press("Enter")
        page.get_by_text("This server has several workers").wait_for()
        text = page.get_by_role("region", name="Connect a model").locator("pre.code").inner_text()
        assert tomllib.loads(text)["upstreams"]["mine"]["base_url"] == "https://models.example/v1"
        page.goto(f"{server.url}/#/playground")
        page.get_by_role("button", name="Make this the default").first.click()
        page.locator(".notice.warn").get_by_text("several workers").wait_for()
        assert tomllib.loads(page.locator("pre.code").inner_text()) == {
            "models": {"scripted:small-model": {"mode": "off"}}
        }
        page.context.close()
    assert not faults


def test_a_server_on_this_machine_is_connected_with_one_click(start: Any):
    start.get_by_role("button", name="vLLM").click()
    start.get_by_text("Found vLLM").wait_for()
    start.get_by_role("button", name="Use it now").wait_for()
    start.get_by_label("Checked model").select_option("text-embed")
    start.locator(".checks code", has_text="text-embed").wait_for()


def test_what_is_wrong_with_an_address_is_said_with_what_to_do(start: Any):
    for address, words in (
        ("127.0.0.1:9", "start the service"),
        ("http://169.254.169.254/", "metadata service"),
        ("ftp://there", "must begin with http"),
    ):
        start.get_by_label("Address").fill(address)
        start.get_by_role("button", name="Connect", exact=True).click()
        start.locator(".check-fail, .notice.bad").get_by_text(words).first.wait_for()
        assert not start.get_by_role("button", name="Use it now").is_visible()


def test_how_calls_are_made_is_chosen_behind_one_word(start: Any):
    card = start.get_by_role("region", name="Compare", exact=True)
    card.get_by_text("Calls: automatic").click()
    card.get_by_role("combobox", name="Mode").locator("option", has_text="Default (force)").wait_for(state="attached")
    card.get_by_text("mode is force").wait_for()
    card.get_by_role("combobox", name="Plan").select_option("decision")
    card.get_by_text("Calls: decision").wait_for()
    picker = card.locator(".call-settings .picker").bounding_box()
    assert picker["x"] >= 0 and picker["x"] + picker["width"] <= start.viewport_size["width"]
    assert fits(start)
    start.keyboard.press("Escape")
    card.get_by_role("button", name="Compare").click()
    card.get_by_role("region", name="toolspeak").get_by_text("plan decision").wait_for()


def test_a_recorded_failure_is_repaired_step_by_step_without_a_model(start: Any):
    card = start.get_by_role("region", name="See it work")
    card.get_by_role("button", name="Python quotes").click()
    card.get_by_text("The client gets real calls").wait_for()
    assert card.locator(".steps > li").count() == 5
    assert "Expected property name" in card.locator(".steps .failed").inner_text()
    assert '"city":"Dallas"' in card.locator(".steps > li").last.inner_text()
    card.get_by_role("button", name="A call that never ends").click()
    card.get_by_text('"city":"Tokyo"').wait_for()
    assert not start.served.script.asked and fits(start)


def test_settings_of_a_client_and_a_light_for_its_first_request(start: Any):
    card = start.get_by_role("region", name="Point a client here")
    card.get_by_text("Waiting for the first request").wait_for()
    card.get_by_label("Client").select_option("openai")
    card.get_by_text(f"export OPENAI_BASE_URL='{start.served.url}/v1'").wait_for()
    card.get_by_role("combobox", name="Shell").select_option("PowerShell")
    card.get_by_text("$env:OPENAI_BASE_URL").wait_for()
    assert card.get_by_label("Client").locator("option").count() > 30
    assert card.get_by_role("button", name="Copy “Set in your shell”").is_visible()
    asked(start.served, "hello")
    card.get_by_text("Request received at").wait_for()
    assert card.locator(".dot.on").count() == 1 and fits(start)


def test_the_playground_compares_and_measures(start: Any):
    start.goto(f"{start.served.url}/#/playground")
    start.get_by_label("calculator").check()
    start.get_by_text("Describe a tool").click()
    start.get_by_label("Name", exact=True).fill("get_weather")
    start.get_by_label("Parameters").fill("city, days: integer?")
    start.get_by_role("button", name="Add tool").click()
    start.get_by_text("Your tools: get_weather").wait_for()
    start.get_by_role("button", name="Add column").click()
    start.get_by_role("button", name="Run 10 times").click()
    start.locator(".slot").first.get_by_text("0 of 10", exact=True).wait_for()
    start.locator(".slot").nth(1).get_by_text("10 of 10", exact=True).wait_for()
    assert "95% interval 72% to 100%" in start.locator(".slot").nth(1).inner_text()
    asked_texts = [message.text for request in start.served.script.asked for message in request.messages]
    assert any("get_weather" in text for text in asked_texts)
    start.get_by_role("button", name="Remove this column").first.click()
    assert start.locator(".slot").count() == 2 and fits(start)


def test_an_imported_request_is_explained_and_becomes_a_test_case(start: Any, tmp_path: Path):
    sent: list[str] = []
    start.on("request", lambda request: sent.append(request.post_data or ""))
    start.goto(f"{start.served.url}/#/import")
    start.get_by_label("Request or answer").fill(CURL)
    start.get_by_label("The model's answer").fill(ANSWER)
    start.get_by_role("button", name="Analyse", exact=True).click()
    start.get_by_text("a curl command (OpenAI Chat)").wait_for()
    assert "It's late. What time is it?" in start.get_by_role("region", name="Request", exact=True).inner_text()
    assert 'With policy = "eager", toolspeak reads 1 call' in start.locator(".notice.good").inner_text()
    start.locator("mark.candidate-mark").wait_for()
    with start.expect_download() as download:
        start.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "mine.json")
    suite = Builtin(tmp_path / "mine.json")
    (case,) = suite.cases
    assert case.messages[0].text == "It's late. What time is it?" and case.tools[0].name == "clock"
    assert suite.rounds[case.id][0].calls[0].arguments == {"zone": ["Europe/Oslo"]}
    assert not any(SECRET in body for body in sent) and fits(start)


HAR = {
    "log": {
        "entries": [
            {"request": {"url": "https://example.com/picture.png", "method": "GET"}},
            *(
                {
                    "startedDateTime": f"2026-01-0{number}",
                    "request": {
                        "url": "https://api.example.com/v1/messages?beta=1",
                        "postData": {
                            "text": json.dumps(
                                {
                                    "model": "m",
                                    "max_tokens": 5,
                                    "messages": [{"role": "user", "content": f"Question {number}"}],
                                    "tools": [{"name": "clock", "input_schema": {"type": "object"}}],
                                }
                            )
                        },
                    },
                    "response": {
                        "status": 200,
                        "content": {
                            "text": json.dumps(
                                {
                                    "type": "message",
                                    "role": "assistant",
                                    "content": [{"type": "text", "text": "I don't have access to any tools."}],
                                    "stop_reason": "end_turn",
                                }
                            )
                        },
                    },
                }
                for number in (1, 2)
            ),
        ]
    }
}


@pytest.mark.parametrize(
    ("pasted", "recognised", "verdict"),
    [
        (json.dumps(HAR), "a HAR file with 2 requests", "asks the model again"),
        ('<tool_call>{"name": "ping", "arguments": {}}</tool_call>', "a model's answer", "reads 1 call"),
        ('{"choices": [{"message": {"content": "Hello."}}]}', "a response body", "offers no tools"),
        ('data: {"choices": [{"delta": {"content": "[ping()]"}}]}\n\ndata: [DONE]', "a streamed response", ""),
        ('{"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}', "a request (Gemini)", "There is no answer"),
        ("curl https://api.example.com/v1/models", "", "has no body"),
        ('{"log": {"entries": []}}', "", "contains no request"),
    ],
    ids=["har", "answer", "response", "stream", "gemini", "curl without a body", "empty har"],
)
def test_whatever_is_pasted_is_recognised(page: Any, server: Served, pasted: str, recognised: str, verdict: str):
    page.goto(f"{server.url}/#/import")
    page.get_by_label("Request or answer").fill(pasted)
    page.get_by_role("button", name="Analyse", exact=True).click()
    if recognised:
        page.get_by_text(recognised).wait_for()
    page.locator(".notice").get_by_text(verdict).first.wait_for()
    if "HAR" in recognised:
        page.get_by_role("combobox", name="Request").select_option("1")
        page.get_by_text("Question 2").wait_for()
