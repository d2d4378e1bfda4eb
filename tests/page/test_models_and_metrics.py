"""The pages about models and about numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import watched
from tests.page.http_requests import asked
from tests.page.page_server import MODELS, Served

pytestmark = [pytest.mark.system("browser")]

SCORE = {"cases": 10, "correct": 8, "share": 0.8, "low": 0.49, "high": 0.94, "errors": 0}
RESULTS = {
    "model": "small-model",
    "suite": "builtin",
    "when": "2026-01-01 12:00 UTC",
    "complete": True,
    "rows": [{"label": "force inline", "scores": {"all": SCORE, "simple": {**SCORE, "correct": 4, "share": 0.4}}}],
}


@pytest.mark.requirement("H3")
def test_profiles_say_how_they_were_learned(page: Any, server: Served):
    page.goto(f"{server.url}/#/models")
    page.locator(".model").first.wait_for()
    assert page.locator(".model h2").all_inner_texts() == list(MODELS)
    card = page.locator(".model").first
    assert "mode is force" in card.inner_text()
    assert "nothing is known about provider scripted" in card.inner_text()
    card.get_by_text("Full profile").click()
    assert "capability" in card.inner_text()


@pytest.mark.requirement("H3")
def test_a_probe_shows_how_far_it_is_and_what_it_found(page: Any, server: Served):
    page.goto(f"{server.url}/#/models")
    page.get_by_role("button", name="Probe small-model").click()
    page.locator(".model").first.get_by_text("Probe results").wait_for()
    card = page.locator(".model").first
    assert "never" not in card.inner_text()
    card.get_by_text("Probe results").click()
    assert card.locator("tbody tr").count() >= 3


def test_a_model_says_how_it_is_used_and_leads_to_other_views(page: Any, server: Served):
    asked(server, "hello", model="other-model")
    page.goto(f"{server.url}/#/models")
    card = page.locator(".model").filter(has_text="other-model")
    card.get_by_text("succeeded").wait_for()
    assert "100% succeeded" in card.inner_text() and "with tools but without a call" in card.inner_text()
    assert "scripted" in card.locator("p.small").first.inner_text()
    views = card.get_by_role("navigation", name="Views of other-model")
    views.get_by_role("link", name="Requests").click()
    page.locator(".rows-row").first.wait_for()
    assert page.get_by_role("searchbox").input_value() == "model:other-model"
    for link, heading in (("Try in Playground", "Playground"), ("Evaluate", "Evaluate")):
        page.goto(f"{server.url}/#/models")
        views.get_by_role("link", name=link).click()
        page.get_by_role("heading", name=heading, exact=True).wait_for()
        assert page.get_by_role("combobox", name="Model").first.input_value() == "other-model"


def test_results_of_an_evaluation_become_a_chart(page: Any, server: Served, tmp_path: Path):
    file = tmp_path / "results.json"
    file.write_text(json.dumps(RESULTS))
    page.goto(f"{server.url}/#/evaluate")
    page.get_by_label("Open results.json").set_input_files(str(file))
    chart = page.locator("figure.chart svg")
    chart.wait_for()
    assert chart.get_attribute("aria-label") == "force inline: all 80%, simple 40%"
    bars = chart.locator("rect.bar")
    widths = [float(bars.nth(index).get_attribute("width")) for index in range(2)]
    assert widths[0] == pytest.approx(2 * widths[1])
    other = tmp_path / "other.json"
    other.write_text("[]")
    page.get_by_label("Open results.json").set_input_files(str(other))
    page.locator(".notice.bad").get_by_text("does not contain results").wait_for()


#: How high the words of a drawing must be on the screen, in pixels: below that nobody reads them.
READABLE = 10
#: The height of each text of the charts on the screen, and whether it stands within its drawing.
WORDS = """() => [...document.querySelectorAll("figure.chart svg text")].map((text) => {
  const drawing = text.ownerSVGElement, [own, around] = [text, drawing].map((each) => each.getBoundingClientRect());
  const scale = drawing.getScreenCTM().a;
  return [
    parseFloat(getComputedStyle(text).fontSize) * scale,
    own.left >= around.left - 1 && own.right <= around.right + 1, text.textContent
  ];
})"""
OVERLAPS = """() => [...document.querySelectorAll("figure.chart svg")].flatMap((drawing) => {
  const boxes = [...drawing.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], index) => boxes.slice(index + 1)
    .filter(([, b]) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom)
    .map(([other]) => `${one} | ${other}`));
})"""
LONG_NAMES = {"all": {**SCORE, "cases": 1000, "correct": 1000, "share": 1, "high": 1}, "live_parallel_multiple": SCORE}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 700, 1280])
def test_the_words_of_charts_can_be_read_on_a_phone(
    browser: Any, server: Served, faults: list[str], tmp_path: Path, width: int, scheme: str
):
    file = tmp_path / "results.json"
    file.write_text(json.dumps({**RESULTS, "rows": [{"label": "force inline", "scores": LONG_NAMES}]}))
    asked(server, "repair it")
    context = browser.new_context(viewport={"width": width, "height": 740}, color_scheme=scheme)
    page = watched(context, server, faults)
    page.goto(server.link())
    page.wait_for_selector(".composer")
    for part in ("dashboard", "evaluate"):
        page.goto(f"{server.url}/#/{part}")
        if part == "evaluate":
            page.get_by_label("Open results.json").set_input_files(str(file))
        page.locator("figure.chart svg text >> visible=true").first.wait_for()
        words = page.evaluate(WORDS)
        assert [text for size, _, text in words if size < READABLE] == []
        assert [text for _, inside, text in words if not inside] == []
        assert page.evaluate(OVERLAPS) == []
        assert page.evaluate("document.querySelector('.scroll').scrollWidth") <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not faults
    context.close()


def test_charts_are_drawn_anew_for_another_width(page: Any, server: Served):
    asked(server, "hello")
    page.goto(f"{server.url}/#/dashboard")
    page.locator("figure.chart svg").first.wait_for()
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator("figure.chart svg[viewBox^='0 0 2'], figure.chart svg[viewBox^='0 0 3']").first.wait_for()
    assert page.evaluate(f"Math.min(...({WORDS})().map(([size]) => size))") >= READABLE
