"""The view Evaluate in a browser: a run fills its grid, can be stopped, resumed, kept and exported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.page.conftest import drawn, watched
from tests.page.page_server import Served, served
from tests.page.test_accessibility import LONG_TASK_MS, Traced, axe, reach, violations
from tests.page.test_start import fits, plain
from tests.test_doctor import listing, routed, running
from toolspeak.evaluation.builtin import Builtin
from toolspeak.evaluation.results_file import EvalSetting, ResultsFile

__all__ = ["axe"]

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H2")]

WEATHER = {
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def expecting(city: str) -> dict[str, Any]:
    return {"calls": [{"name": "get_weather", "arguments": {"city": [city, city.upper()]}, "result": "sunny"}]}


def case(name: str, ask: str, *rounds: dict[str, Any]) -> dict[str, Any]:
    category = name.partition("_")[0]
    return {"id": name, "category": category, "ask": ask, "tools": ["get_weather"], "rounds": list(rounds)}


#: The scripted model calls `get_weather` for Oslo, whatever the city, and then answers in words.
SUITE = {
    "version": "7",
    "tools": {"get_weather": WEATHER},
    "tasks": [
        case("simple_1", "The forecast for Oslo, please.", expecting("Oslo")),
        case("simple_2", "The forecast for Bergen, please.", expecting("Bergen")),
        case("rounds_1", "Say what the forecast is.", expecting("Oslo"), {"says": ["quarter past noon"]}),
        case("words_1", "Hello!", {}),
    ],
}


@pytest.fixture(params=[(1440, "light"), (390, "dark")], ids=["desktop", "phone"])
def evaluate(browser: Any, faults: list[str], request: Any) -> Iterator[Any]:
    """The view on a server of its own, whose model can be told what to answer."""
    width, scheme = request.param
    with served() as server:
        server.script.calls["forecast"] = ("get_weather", {"city": "Oslo"})
        context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion="reduce"
        )
        page = watched(context, server, faults)
        page.goto(server.link())
        page.wait_for_selector(".composer")
        page.goto(f"{server.url}/#/evaluate")
        page.get_by_role("heading", name="Evaluate").wait_for()
        page.served = server
        yield page
        context.close()
    assert not faults


def with_suite(page: Any, folder: Path, suite: Any = SUITE) -> None:
    file = folder / "cities.json"
    file.write_text(json.dumps(suite))
    page.get_by_role("combobox", name="Suite", exact=True).select_option("file")
    page.get_by_label("Suite file").set_input_files(str(file))


def states(page: Any) -> list[str]:
    """What the cells say, row by row."""
    return [cell.get_attribute("aria-label").partition(": ")[2] for cell in page.locator("button.cell").all()]


def finished(page: Any) -> None:
    """Wait until a run has ended."""
    page.get_by_role("button", name="Download results.json").wait_for()
    page.get_by_role("button", name="Stop").wait_for(state="detached")


def test_a_run_fills_the_grid_and_each_cell_opens_to_expected_and_got(evaluate: Any, tmp_path: Path):
    with_suite(evaluate, tmp_path)
    evaluate.get_by_text("4 cases × 2 settings = 8 answers").wait_for()
    evaluate.get_by_role("button", name="Run", exact=True).click()
    evaluate.get_by_text("8 of 8 answers").wait_for()
    finished(evaluate)
    # Each row: raw, then through toolspeak.
    assert states(evaluate) == ["wrong", "right", "wrong", "wrong", "wrong", "right", "right", "right"]
    summary = evaluate.get_by_role("region", name="Summary")
    assert "1 of 4" in summary.inner_text() and "3 of 4" in summary.inner_text()
    assert "30% to 95%" in summary.inner_text()
    label = evaluate.locator(".success-plot svg").get_attribute("aria-label")
    assert "Raw 25% in" in label and "Automatic 75% in" in label
    evaluate.get_by_role("button", name="simple_2, Automatic: wrong").click()
    detail = evaluate.locator(".cell-detail")
    detail.get_by_text('get_weather(city: "Bergen" or "BERGEN")').wait_for()
    detail.get_by_text('get_weather(city: "Oslo")').wait_for()
    assert "wrong arguments" in detail.locator(".notice").inner_text()
    evaluate.get_by_role("button", name="rounds_1, Automatic: right").click()
    detail.get_by_text("Expected, round 2").wait_for()
    detail.get_by_text("quarter past noon in Oslo").wait_for()
    assert detail.count() == 1 and fits(evaluate)
    detail.get_by_role("link", name="Details of round 2").click()
    evaluate.locator(".one .attempt").first.wait_for()


def test_runs_survive_a_reload_and_can_be_opened_exported_and_deleted(evaluate: Any, tmp_path: Path):
    with_suite(evaluate, tmp_path)
    evaluate.get_by_role("button", name="Run", exact=True).click()
    evaluate.get_by_text("8 of 8 answers").wait_for()
    finished(evaluate)
    evaluate.get_by_role("region", name="Runs").get_by_text("Automatic: 3 of 4").wait_for()
    evaluate.reload()
    evaluate.get_by_text("8 of 8 answers").wait_for()  # its address is that of the run
    assert evaluate.get_by_role("button", name="Resume").count() == 0
    files = {}
    for name in ("results.json", "cases.jsonl"):
        with evaluate.expect_download() as download:
            evaluate.get_by_role("button", name=f"Download {name}").click()
        files[name] = tmp_path / name
        download.value.save_as(files[name])
    stored = ResultsFile(files["cases.jsonl"])
    setting = EvalSetting(
        suite="cities", version="7", model="small-model", base_url=f"{evaluate.served.url}/v1", max_tokens=2048
    )
    assert [(each.case, each.correct) for each in stored.all(setting)] == [
        ("simple_1", True),
        ("simple_2", False),
        ("rounds_1", True),
        ("words_1", True),
    ]
    assert stored.finished(msgspec.structs.replace(setting, mode="off"), "simple_1")
    evaluate.get_by_label("Open results.json").set_input_files(str(files["results.json"]))
    evaluate.locator(".evaluations figure.chart").nth(2).wait_for()
    evaluate.get_by_role("button", name="Delete the run").click()
    evaluate.get_by_role("region", name="Runs").wait_for(state="detached")
    evaluate.reload()
    evaluate.get_by_text("30 cases × 2 settings").wait_for()
    assert evaluate.get_by_role("region", name="Runs").count() == 0


def test_a_run_is_stopped_and_resumed_after_a_reload(evaluate: Any, tmp_path: Path):
    slow = case("slow_1", "linger over it", {})
    with_suite(evaluate, tmp_path, {**SUITE, "tasks": [SUITE["tasks"][0], slow, SUITE["tasks"][3]]})
    evaluate.get_by_role("button", name="Run", exact=True).click()
    evaluate.get_by_role("button", name="slow_1, Raw: running").wait_for()
    evaluate.get_by_role("button", name="Stop").click()
    evaluate.get_by_role("button", name="Resume").wait_for()
    assert states(evaluate) == ["wrong", "right", "not asked yet", "not asked yet", "not asked yet", "not asked yet"]
    evaluate.reload()
    evaluate.get_by_role("button", name="Resume").wait_for()
    asked = len(evaluate.served.script.asked)
    evaluate.route("**/v1/chat/completions", lambda route: route.continue_(post_data=_without("linger", route)))
    evaluate.get_by_role("button", name="Resume").click()
    evaluate.get_by_text("6 of 6 answers").wait_for()
    finished(evaluate)
    assert states(evaluate) == ["wrong", "right", *["right"] * 4]
    assert len(evaluate.served.script.asked) == asked + 4  # the finished ones are not asked again


def _without(word: str, route: Any) -> str:
    return route.request.post_data.replace(word, "hello")


def test_the_builtin_suite_can_be_run_in_part_and_with_several_models(evaluate: Any):
    evaluate.get_by_text("30 cases × 2 settings").wait_for()
    evaluate.get_by_role("combobox", name="Category").select_option("single")
    evaluate.get_by_role("combobox", name="Cases").select_option("2")
    evaluate.get_by_role("button", name="Add setting").click()
    evaluate.get_by_role("combobox", name="Model").nth(2).select_option("other-model")
    evaluate.get_by_text("2 cases × 3 settings = 6 answers").wait_for()
    evaluate.get_by_role("combobox", name="At once").select_option("2")
    evaluate.get_by_role("button", name="Run", exact=True).click()
    evaluate.get_by_text("6 of 6 answers").wait_for()
    assert "other-model, Inline" in evaluate.get_by_role("region", name="Summary").inner_text()
    assert {request.model for request in evaluate.served.script.asked} == {"small-model", "other-model"}


def test_requests_that_fail_end_the_run_and_can_be_repeated(evaluate: Any):
    evaluate.route(
        "**/v1/chat/completions", lambda route: route.fulfill(status=503, body='{"error": {"message": "no"}}')
    )
    evaluate.get_by_text("30 cases × 2 settings").wait_for()
    evaluate.get_by_role("button", name="Run", exact=True).click()
    evaluate.locator(".notice.bad").get_by_text("The first 10 requests failed: no").wait_for()
    assert states(evaluate)[:11] == [*["failed"] * 10, "not asked yet"]
    evaluate.get_by_role("button", name="Resume").wait_for()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "cannot read the suite"),
        ("{", "is not valid JSON"),
        (json.dumps({**SUITE, "tasks": []}), "has no cases"),
        (json.dumps({**SUITE, "tasks": [case("a", "b")]}), "rounds"),
    ],
    ids=["another form", "no JSON", "no cases", "no rounds"],
)
def test_a_file_that_is_no_suite_is_refused(page: Any, server: Served, tmp_path: Path, content: str, words: str):
    page.goto(f"{server.url}/#/evaluate")
    page.get_by_role("combobox", name="Suite", exact=True).select_option("file")
    file = tmp_path / "cities.json"
    file.write_text(content)
    page.get_by_label("Suite file").set_input_files(str(file))
    page.locator(".notice.bad").get_by_text(words).wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".notice.bad").get_by_text("Choose a suite file first").wait_for()


def test_a_case_of_import_is_evaluated_at_once(page: Any, server: Served):
    page.goto(f"{server.url}/#/import")
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", **WEATHER}}],
    }
    page.get_by_label("Request or answer").fill(json.dumps(request))
    page.get_by_role("button", name="Analyse", exact=True).click()
    page.get_by_role("button", name="Evaluate", exact=True).click()
    page.get_by_text("1 case × 2 settings = 2 answers").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("2 of 2 answers").wait_for()
    assert states(page) == ["right", "right"]


def test_a_model_that_was_connected_is_evaluated(page: Any, server: Served):
    with running(routed(plain, listing("plain-7b"))) as stub:
        page.goto(f"{server.url}/#/start")
        page.get_by_label("Address").fill(stub.url)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Use it now").click()
        page.locator(".notice.good").get_by_text("plain-7b").first.wait_for()
        page.goto(f"{server.url}/#/evaluate/?model=plain-7b")
        page.get_by_role("combobox", name="Category").select_option("single")
        page.get_by_role("combobox", name="Cases").select_option("1")
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_text("2 of 2 answers").wait_for()
        finished(page)
        assert "plain-7b" in page.get_by_role("region", name="Run", exact=True).inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_run(
    browser: Any, server: Served, axe: Path, scheme: str, faults: list[str], tmp_path: Path
):
    server.script.calls["forecast"] = ("get_weather", {"city": "Oslo"})
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = watched(context, server, faults)
    page.goto(server.link())
    page.wait_for_selector(".composer")
    page.goto(f"{server.url}/#/evaluate")
    with_suite(page, tmp_path)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("8 of 8 answers").wait_for()
    finished(page)
    page.get_by_role("button", name="simple_2, Automatic: wrong").click()
    page.get_by_text("By category").click()
    assert violations(page, axe) == []
    context.close()
    assert not faults


def test_a_run_works_by_keyboard(page: Any, server: Served, tmp_path: Path):
    page.goto(f"{server.url}/#/evaluate")
    with_suite(page, tmp_path)
    page.get_by_text("4 cases × 2 settings").wait_for()
    reach(page, "form button.main")
    page.keyboard.press("Enter")
    page.get_by_text("8 of 8 answers").wait_for()
    finished(page)
    reach(page, "button.cell")
    page.keyboard.press("Enter")
    page.locator(".cell-detail").wait_for()
    page.keyboard.press("Escape")
    page.locator(".cell-detail").wait_for(state="detached")
    assert page.evaluate("document.activeElement.matches('button.cell')")


def test_a_run_is_stopped_by_keyboard_and_keeps_the_focus(page: Any, server: Served, tmp_path: Path):
    page.goto(f"{server.url}/#/evaluate")
    with_suite(page, tmp_path, {**SUITE, "tasks": [SUITE["tasks"][3], case("slow_1", "linger over it", {})]})
    page.get_by_text("2 cases × 2 settings").wait_for()
    reach(page, "form button.main")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="slow_1, Raw: running").wait_for()
    page.get_by_role("button", name="Stop").focus()
    page.get_by_text("2 of 4 answers").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Resume").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Resume"


def test_a_large_suite_does_not_get_the_page_stuck(browser: Any, page: Any, server: Served, tmp_path: Path):
    with_large = {**SUITE, "tasks": [case(f"many_{number}", "linger over it", {}) for number in range(600)]}
    page.goto(f"{server.url}/#/evaluate")
    with_suite(page, tmp_path, with_large)
    page.get_by_text("The first 500 of 600 cases are run").wait_for()
    for _ in range(2):
        page.get_by_role("button", name="Add setting").click()
    with Traced(browser, page) as traced:
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_role("button", name="many_499, Inline: not asked yet").first.wait_for()
        drawn(page)
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Resume").wait_for()
    assert traced.longest < LONG_TASK_MS


def test_the_builtin_suite_of_the_page_is_that_of_the_command(page: Any, server: Served):
    suite = page.evaluate("fetch('toolspeak/suite').then((response) => response.json())")
    assert suite == json.loads(msgspec.json.encode(Builtin().file))
