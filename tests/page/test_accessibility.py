"""The page for everybody: no serious fault by axe, every action by keyboard, on a phone, and never stuck."""

from __future__ import annotations

import io
import json
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import drawn, unfold, watched
from tests.page.http_requests import asked
from tests.page.page_server import Served, served
from tests.page.test_chat import FIELD, ask

pytestmark = [pytest.mark.system("browser")]

AXE = "https://registry.npmjs.org/axe-core/-/axe-core-4.10.3.tgz"
#: A task longer than this makes a page feel stuck.
LONG_TASK_MS = 200
MANY, LARGE = 2000, 1_000_000
#: What a trace holds: the tasks of each thread, and which thread is the page's.
CATEGORIES = ["toplevel", "__metadata"]
TASK, PAGES_THREAD = "RunTask", "CrRendererMain"


class Traced:
    """A trace of the browser while a page is used.

    What counts is the processor time of a task, not the time on the wall: that holds whatever else the machine does
    meanwhile. On a machine of its own a task takes no longer than that, since it waits for nothing.
    """

    def __init__(self, browser: Any, page: Any) -> None:
        self._browser = browser
        self._page = page
        self.longest = 0.0

    def __enter__(self) -> Traced:
        self._browser.start_tracing(page=self._page, categories=CATEGORIES)
        return self

    def __exit__(self, failed: type[BaseException] | None, *more: object) -> None:
        if failed is None:
            # What a page says comes before the end of the task in which it says it, and a trace that ends meanwhile
            # lacks that task, however long it was. When the page answers once more, all tasks before that have ended.
            self._page.evaluate("0")
        events = json.loads(self._browser.stop_tracing())["traceEvents"]
        if failed is None:
            self.longest = self._longest(events)

    def _longest(self, events: list[dict[str, Any]]) -> float:
        threads = {
            (e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == PAGES_THREAD
        }
        tasks = [e["tdur"] for e in events if TASK in e["name"] and (e["pid"], e["tid"]) in threads and "tdur" in e]
        assert tasks, "the trace holds no task of the page"
        return max(tasks) / 1000


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """axe-core, fetched for this run and kept nowhere else."""
    try:
        with urllib.request.urlopen(AXE, timeout=20) as answer:
            packed = answer.read()
    except (urllib.error.URLError, OSError) as error:
        pytest.skip(f"axe-core cannot be fetched: {error}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        path = tmp_path_factory.mktemp("axe") / "axe.min.js"
        path.write_bytes(file.read())
    return path


def violations(page: Any, axe: Path) -> list[str]:
    """What is seriously wrong. As a script of the test's own: the policy of the page would refuse it."""
    page.evaluate(axe.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{each['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, server: Served, axe: Path, scheme: str, faults: list[str]):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = watched(context, server, faults)
    page.goto(server.url)
    page.get_by_label("One-time link or admin key").wait_for()
    assert violations(page, axe) == []
    page.goto(server.link())
    page.wait_for_selector(".composer")
    ask(page, "What time is it in Oslo, and what is 17 times 23?")
    exchange = ask(page, "Show an example of a call")
    unfold(exchange.locator("summary").get_by_text("Why was there no call?"))
    unfold(page.locator("details.round summary").first)
    page.click(".tools summary")
    assert violations(page, axe) == []
    for question in ("refuse, please", "repair it", "Show an example of a call"):
        identifier = asked(server, question)["id"]
        page.goto(f"{server.url}/#/requests/{identifier}")
        page.locator(".one").get_by_text(identifier).wait_for()
        unfold(page.locator(".one summary").first)
        assert violations(page, axe) == []
    for part in ("models", "dashboard", "playground"):
        page.goto(f"{server.url}/#/{part}")
        page.locator(".card").first.wait_for()
        unfold(page.locator("summary").first)
        assert violations(page, axe) == []
    page.goto(f"{server.url}/#/start")
    page.get_by_role("button", name="Python quotes").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_role("region", name="toolspeak", exact=True).get_by_role("link", name="Details").wait_for()
    page.locator(".call-settings summary").click()
    assert violations(page, axe) == []
    page.goto(f"{server.url}/#/import")
    page.get_by_label("Request or answer").fill('<tool_call>{"name": "ping", "arguments": {}}</tool_call>')
    page.get_by_role("button", name="Analyse", exact=True).click()
    page.locator("mark.candidate-mark").wait_for()
    assert violations(page, axe) == []
    context.close()


def reach(page: Any, selector: str, most: int = 60) -> None:
    """Go there with the Tab key alone."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement?.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached")


def test_every_action_of_the_chat_works_by_keyboard(page: Any, server: Served):
    page.keyboard.type("What time is it in Oslo, and what is 17 times 23?")  # the field has the focus
    page.keyboard.press("Enter")
    page.locator(".about").wait_for()
    reach(page, "details.round summary")
    page.keyboard.press("Enter")
    page.locator("details.round .call").first.wait_for()
    reach(page, ".tools summary")
    page.keyboard.press("Enter")
    reach(page, ".tools input[type=checkbox]")
    page.keyboard.press("Space")
    page.locator(".tools summary").get_by_text("Tools (2)").wait_for()
    reach(page, ".tools textarea")
    reach(page, ".question button")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+A")
    page.keyboard.type("Show an example of a call")
    reach(page, ".edit button.main")
    page.keyboard.press("Enter")
    page.get_by_text("Why was there no call?").wait_for()
    reach(page, "details.round summary")
    page.keyboard.press("Enter")
    page.locator(".why").get_by_text("was not accepted").wait_for()
    reach(page, ".about .copy")
    reach(page, ".about .retry")
    page.locator(FIELD).focus()
    page.keyboard.type("linger over it")
    page.keyboard.press("Enter")
    page.locator(".live").wait_for()
    page.keyboard.press("Escape")
    page.locator(".notice.warn").wait_for()
    page.keyboard.press("Control+Shift+O")
    page.locator(".welcome").wait_for()
    reach(page, ".new-chat")
    reach(page, "#theme")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_every_action_of_the_inspector_works_by_keyboard(page: Any, server: Served):
    for question in ("hello", "repair it", "what time is it?"):
        asked(server, question)
    page.goto(f"{server.url}/#/requests")
    page.locator(".rows-row").first.wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("hello -example")
    page.locator(".rows-summary").get_by_text("match").wait_for()
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.locator(".rows-summary").get_by_text("match").wait_for(state="detached")
    reach(page, ".filters select")
    reach(page, ".rows")
    page.keyboard.press("j")
    page.locator(".one").wait_for()
    first = page.locator("[aria-selected=true]").get_attribute("id")
    page.keyboard.press("ArrowDown")
    page.locator(f"[aria-selected=true]:not(#{first})").wait_for()
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.locator(f"#{first}[aria-selected=true]").wait_for()
    reach(page, ".attempt summary")
    page.keyboard.press("Enter")
    reach(page, ".replay select")
    page.keyboard.type("e")  # eager
    reach(page, ".replay button")
    page.keyboard.press("Enter")
    page.locator(".compare").wait_for()


def test_models_can_be_probed_by_keyboard(page: Any, server: Served):
    page.goto(f"{server.url}/#/models")
    page.locator(".model").first.wait_for()
    reach(page, ".model button")
    page.keyboard.press("Enter")
    page.get_by_text("Probe results").first.wait_for()


@pytest.mark.parametrize("width", [360, 600])
def test_the_tools_can_be_chosen_on_a_phone(browser: Any, server: Served, faults: list[str], width: int):
    context = browser.new_context(viewport={"width": width, "height": 740}, has_touch=True)
    page = watched(context, server, faults)
    page.goto(server.link())
    page.click(".tools summary")
    for row in page.locator(".tools label.check").all():
        box, words = row.locator("input").bounding_box(), row.locator("input + span").bounding_box()
        assert box["width"] < 40 and words["width"] > 150
        assert words["x"] >= 0 and words["x"] + words["width"] <= width
    page.locator(".tools input").first.uncheck()
    page.locator(".tools summary").get_by_text("Tools (2)").wait_for()
    assert not faults
    context.close()


@pytest.mark.parametrize(
    "part", ["start", "playground", "import", "chats", "requests", "models", "evaluate", "dashboard"]
)
def test_a_phone_is_wide_enough(browser: Any, server: Served, faults: list[str], part: str):
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = watched(context, server, faults)
    page.goto(server.link())
    page.wait_for_selector(".composer")
    identifier = asked(server, "Show an example of a call")["id"]
    page.goto(f"{server.url}/#/{part}/{identifier if part == 'requests' else ''}")
    page.locator(".composer, .one, .page .card, .evaluations").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert not faults
    context.close()


def test_nothing_gets_stuck_with_2000_requests_and_a_megabyte_open(browser: Any, faults: list[str]):
    with served() as server:
        line = "line {} of a very long answer, with `code` and {{braces}}\n"
        text = "".join(line.format(number) for number in range(LARGE // 56))
        server.script.more["very long"] = text + '<tool_call>{"name": "clocks", "arguments": {}}</tool_call> and more'
        for number in range(MANY - 1):
            asked(server, f"hello {number}", tools=None)
        identifier = asked(server, "something very long")["id"]
        longest = visited(browser, server, identifier, faults)
    assert longest < LONG_TASK_MS
    assert not faults


#: How long answers come: characters, characters of a piece, and a line that is repeated.
LONG_ANSWERS = {
    "small pieces": (200_000, 6, "Some words of a long answer, **bold** and `code`.\n\n"),
    "markdown up to its limit": (199_000, 4096, "- one of very many *items*\n"),
    "one line": (1_000_000, 4096, "words without an end "),
}


@pytest.mark.parametrize("case", LONG_ANSWERS)
def test_an_answer_of_any_length_comes_without_getting_stuck(
    browser: Any, server: Served, faults: list[str], case: str
):
    size, step, line = LONG_ANSWERS[case]
    text = (line * (size // len(line) + 1))[:size]
    longest = chatted(browser, server, streamed(text, step), text, faults)
    assert longest < LONG_TASK_MS
    assert not faults


def streamed(text: str, step: int) -> str:
    """An answer as server-sent events."""
    deltas = [{"choices": [{"delta": {"content": text[at : at + step]}}]} for at in range(0, len(text), step)]
    return "".join(f"data: {json.dumps(delta)}\n\n" for delta in deltas) + "data: [DONE]\n\n"


def chatted(browser: Any, server: Served, body: str, text: str, faults: list[str]) -> float:
    """Milliseconds of the longest task while an answer comes that is there all at once."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = watched(context, server, faults)
    page.goto(server.link())
    page.wait_for_selector(".composer")
    page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    with Traced(browser, page) as traced:
        exchange = ask(page, "something long")
        shown = exchange.locator(".text").evaluate("element => element.textContent.length")
    assert shown > len(text) * 0.8
    context.close()
    return traced.longest


def visited(browser: Any, server: Served, identifier: str, faults: list[str]) -> float:
    """Milliseconds of the longest task of a visit that looks at everything."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = watched(context, server, faults)
    with Traced(browser, page) as traced:
        page.goto(server.link())
        page.wait_for_selector(".composer")
        page.goto(f"{server.url}/#/requests")
        page.locator(".rows-summary").get_by_text("2,000 requests").wait_for()
        page.evaluate("document.querySelector('.rows').scrollTop = 90000")
        page.evaluate("document.querySelector('.rows').scrollTop = 0")
        page.goto(f"{server.url}/#/requests/{identifier}")
        page.locator(".one mark.candidate-mark").wait_for(state="attached")
        for top in (100_000, 500_000, 0):
            page.evaluate("top => document.querySelector('.attempt pre').scrollTop = top", top)
            drawn(page)
        # By its place: the browser's driver would look through the megabyte for words, in the thread of the page.
        unfold(page.locator(".section > summary"))
        page.goto(f"{server.url}/#/dashboard")
        page.locator(".tiles").wait_for()
        page.goto(f"{server.url}/#/chats")
        ask(page, "something very long")
    context.close()
    return traced.longest


def test_a_task_that_is_long_would_be_seen(browser: Any, page: Any):
    """Also one that still runs when the page has said what was waited for."""
    work = "() => { console.log('begun'); let sum = 0; for (let i = 0; i < 1e9; i += 1) sum += i % 7; return sum; }"
    with Traced(browser, page) as traced, page.expect_console_message():
        page.evaluate(f"() => {{ setTimeout({work}); }}")
    assert traced.longest > LONG_TASK_MS
