"""The dashboard: numbers of requests over time, and bars that lead to their requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import watched
from tests.page.http_requests import asked
from tests.page.page_server import Served, served
from tests.page.test_accessibility import axe, reach, violations
from tests.page.test_models_and_metrics import OVERLAPS, READABLE, WORDS

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H4")]

__all__ = ["axe"]  # a fixture
#: What is asked of `other-model`: the first answer is refused, the second repaired, the third is plain.
QUESTIONS = ("refuse, please", "repair it", "hello")


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as running:
        for question in QUESTIONS:
            asked(running, question, model="other-model")
        asked(running, "hello", model="other-model", tools=None)
        asked(running, "hello", model="small-model")
        yield running


@pytest.fixture
def dashboard(page: Any, server: Served) -> Any:
    page.goto(f"{server.url}/#/dashboard")
    page.get_by_label("Period").select_option("Last hour")
    page.locator(".success").wait_for()
    return page


def choose(page: Any, name: str) -> None:
    page.get_by_role("combobox", name="Show", exact=True).select_option(label=name)
    page.locator(".success").get_by_text("2 of 3 requests").or_(
        page.locator(".success").get_by_text("1 of 3")
    ).first.wait_for()


def tiles(page: Any) -> dict[str, list[str]]:
    texts = page.locator(".tiles .tile").all_inner_texts()
    return {text.split("\n")[0]: text.split("\n")[1:] for text in texts}


def test_numbers_are_those_of_what_was_asked(dashboard: Any):
    choose(dashboard, "other-model")
    told = tiles(dashboard)
    assert told["Requests"] == ["4", "0 failed"]
    assert told["Emulated"] == ["100%", "of 3 with tools"]
    assert told["Calls"] == ["2", "1 request without a call"]
    assert told["Retries"] == ["1", "1 refusal"]
    assert told["Repairs"][0] == "1"
    assert told["Tokens"] == ["750", "150 output"]
    charts = dashboard.locator("figure.chart")
    assert charts.count() == 8
    labels = [chart.get_attribute("aria-label") for chart in dashboard.locator("figure.chart svg").all()]
    assert labels[:2] == [
        "Success over time: first answer 1, recovered 2, failed 0",
        "Requests: emulated 3, native 0, without tools 1",
    ]
    charts.first.get_by_text("Show as table").click()
    assert charts.first.locator("tbody tr").count() == 30


def test_success_is_told_with_and_without_help(dashboard: Any):
    choose(dashboard, "other-model")
    rows = dashboard.locator(".success-row").all_inner_texts()
    assert [row.split("\n")[:2] for row in rows] == [["Model's first answer", "33%"], ["With toolspeak", "100%"]]
    dashboard.get_by_text("What is counted?").click()
    dashboard.get_by_text("its prompt asks for the calls").wait_for()


def listed(page: Any, count: int) -> list[str]:
    """The questions of the requests to which a link has led."""
    page.locator(".rows-summary").get_by_text(f"{count} request").wait_for()
    return [row.inner_text().split("\n")[0] for row in page.locator(".rows-row").all()]


@pytest.mark.parametrize(
    ("name", "selector", "questions"),
    [
        ("a model", ".bar-link:has-text('other-model')", ["hello", "hello", "repair it", "refuse, please"]),
        ("a client", ".bar-link:has-text('Python-urllib')", ["hello"] * 3 + ["repair it", "refuse, please"]),
        ("a key", ".bar-link:has-text('no key')", ["hello"] * 3 + ["repair it", "refuse, please"]),
        ("success at once", ".success-row:first-of-type", ["hello", "hello"]),
        ("success in the end", ".success-row:nth-of-type(2)", ["hello", "hello", "repair it", "refuse, please"]),
        ("what was repaired", ".legend a:has-text('repairs')", ["repair it"]),
        ("what was retried", ".legend a:has-text('retries')", ["refuse, please"]),
        ("a moment", "figure.chart svg a >> nth=-1", ["hello"] * 3 + ["repair it", "refuse, please"]),
    ],
)
def test_every_bar_leads_to_its_requests(dashboard: Any, name: str, selector: str, questions: list[str]):
    link = dashboard.locator(selector)
    if name == "a moment":
        link.locator(".target").click()
    else:
        link.click()
    assert listed(dashboard, len(questions)) == questions


def test_the_bars_of_a_model_lead_to_its_requests_only(dashboard: Any):
    choose(dashboard, "other-model")
    dashboard.locator("figure.chart svg a .target >> nth=-1").click()
    assert listed(dashboard, 4)[-1] == "refuse, please"
    assert "model:=other-model" in dashboard.get_by_label("Search requests").input_value()


def test_the_bars_are_reached_by_keyboard(dashboard: Any):
    reach(dashboard, "figure.chart svg a", 40)
    label = dashboard.evaluate("document.activeElement.getAttribute('aria-label')")
    assert "first answer 2, recovered 2, failed 0. Show requests" in label
    for key in ("ArrowLeft", "End", "ArrowRight", "Home"):
        dashboard.keyboard.press(key)
        assert dashboard.evaluate("document.activeElement.matches('figure.chart svg a[tabindex=\"0\"]')")
    dashboard.keyboard.press("Tab")  # one stop for each chart
    assert not dashboard.evaluate("Boolean(document.activeElement.closest('svg'))")
    dashboard.keyboard.press("Shift+Tab")
    dashboard.keyboard.press("Enter")
    assert len(listed(dashboard, 5)) == 5


def test_any_range_can_be_chosen(dashboard: Any):
    dashboard.get_by_label("Period").select_option("Custom range")
    dashboard.locator(".success").wait_for()
    dashboard.get_by_role("textbox", name="To", exact=True).fill("2020-01-02T00:00")
    dashboard.get_by_text("The start must be before the end.").wait_for()
    dashboard.get_by_role("textbox", name="From", exact=True).fill("2020-01-01T00:00")
    dashboard.get_by_text("No requests in this period.").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_it_can_be_read_on_every_screen(browser: Any, server: Served, faults: list[str], width: int, scheme: str):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = watched(context, server, faults)
    page.goto(server.link())
    page.wait_for_selector(".composer")
    for period in ("Last hour", "Last 24 hours", "Last 90 days"):
        page.goto(f"{server.url}/#/dashboard")
        page.get_by_label("Period").select_option(period)
        page.locator("figure.chart svg text >> visible=true").first.wait_for()
        words = page.evaluate(WORDS)
        assert [text for size, _, text in words if size < READABLE] == []
        assert [text for _, inside, text in words if not inside] == []
        assert page.evaluate(OVERLAPS) == []
        assert page.evaluate("document.querySelector('.scroll').scrollWidth") <= width
    assert not faults
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing_serious(browser: Any, server: Served, axe: Path, faults: list[str], width: int, scheme: str):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = watched(context, server, faults)
    page.goto(server.link())
    page.wait_for_selector(".composer")
    page.goto(f"{server.url}/#/dashboard")
    page.locator("figure.chart svg a").first.wait_for()
    page.locator("figure.chart summary").first.click()
    assert violations(page, axe) == []
    context.close()


@pytest.mark.parametrize(
    ("buckets", "share", "low", "high"),
    [
        ("{}", 0.5, None, None),
        ("{0: 1}", 0.5, 0.004, 0.006),
        ("{21: 100}", 0.5, 0.87, 1.09),
        ("{10: 50, 21: 49, 30: 1}", 0.95, 1.0, 1.09),
        ("{9: 1, 10: 1}", 1, 0.09, 0.094),
    ],
)
def test_percentiles_are_right_to_a_tenth(page: Any, buckets: str, share: float, low: float | None, high: float | None):
    code = f"async () => (await import('/toolspeak/page/histogram.js')).percentile({buckets}, {share})"
    found = page.evaluate(code)
    assert found is None if low is None or high is None else low <= found <= high
