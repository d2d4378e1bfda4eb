"""The pages about models and about numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.page.asking import asked
from tests.page.served import MODELS, Served

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
    assert "is not in the table" in card.inner_text()
    card.get_by_text("The whole profile").click()
    assert "capability" in card.inner_text()


@pytest.mark.requirement("H3")
def test_a_probe_shows_how_far_it_is_and_what_it_found(page: Any, server: Served):
    page.goto(f"{server.url}/#/models")
    page.get_by_role("button", name="Probe small-model").click()
    page.locator(".model").first.get_by_text("What the probe found").wait_for()
    card = page.locator(".model").first
    assert "never" not in card.inner_text()
    card.get_by_text("What the probe found").click()
    assert card.locator("tbody tr").count() >= 3


def test_results_of_an_evaluation_become_a_chart(page: Any, server: Served, tmp_path: Path):
    file = tmp_path / "results.json"
    file.write_text(json.dumps(RESULTS))
    page.goto(f"{server.url}/#/models")
    page.get_by_label("Open a results.json").set_input_files(str(file))
    chart = page.locator("figure.chart svg")
    chart.wait_for()
    assert chart.get_attribute("aria-label") == "force inline: all 80 %, simple 40 %"
    bars = chart.locator("rect.bar")
    widths = [float(bars.nth(index).get_attribute("width")) for index in range(2)]
    assert widths[0] == pytest.approx(2 * widths[1])
    other = tmp_path / "other.json"
    other.write_text("[]")
    page.get_by_label("Open a results.json").set_input_files(str(other))
    page.locator(".notice.bad").get_by_text("holds no results").wait_for()


@pytest.mark.requirement("H4")
def test_numbers_are_those_of_what_was_asked(page: Any, server: Served):
    page.goto(f"{server.url}/#/metrics")
    page.get_by_text("Nothing was asked in this time.").or_(page.locator(".tiles")).wait_for()
    for question in ("refuse, please", "repair it", "hello"):
        asked(server, question, model="other-model")
    asked(server, "hello", model="other-model", tools=None)
    page.reload()
    page.get_by_role("combobox", name="Model", exact=True).select_option("other-model")
    tiles = page.locator(".tiles")
    told = {tile.split("\n")[0]: tile.split("\n")[1:] for tile in tiles.locator(".tile").all_inner_texts()}
    assert told["requests"] == ["4", "0 with an error"]
    assert told["emulated"] == ["100 %", "of 3 with tools"]
    assert told["calls"] == ["2", "1 requests without one"]
    assert told["retries"] == ["1", "1 refusal"]
    assert told["repairs"][0] == "1"
    assert told["tokens"] == ["750", "150 written"]
    assert page.locator("figure.chart").count() == 4
    chart = page.locator("figure.chart").first
    assert chart.locator("svg").get_attribute("aria-label") == "Requests: emulated 3, native 0, without tools 1"
    chart.get_by_text("As a table").click()
    assert chart.locator("tbody tr").count() == 48
