"""The pictures of the documentation, made by this run where `TOOLSPEAK_PICTURES` names a folder; small ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import unfold, watched
from tests.page.http_requests import asked
from tests.page.page_server import Served
from tests.page.test_chat import ask
from tests.page.test_evaluate import finished, with_suite

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H2", "H3")]

#: What fits into a documentation.
LARGEST = 200_000


def taken(page: Any, name: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("TOOLSPEAK_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    page.screenshot(path=str(path))
    assert path.stat().st_size < LARGEST


def test_the_page_can_be_shown(browser: Any, server: Served, faults: list[str], tmp_path: Path):
    context = browser.new_context(viewport={"width": 1200, "height": 760}, color_scheme="light")
    page = watched(context, server, faults)
    page.goto(server.link())
    page.wait_for_selector(".composer")
    ask(page, "What time is it in Oslo, and what is 17 times 23?")
    unfold(page.locator("details.round summary"))
    taken(page, "page-chat", tmp_path)
    for question in ("hello", "repair it", "Show an example of a call", "what time is it?"):
        asked(server, question)
    identifier = asked(server, "refuse, please")["id"]
    page.goto(f"{server.url}/#/requests/{identifier}")
    page.locator(".one").get_by_text(identifier).wait_for()
    page.locator(".rows-row").nth(5).wait_for()
    taken(page, "page-inspector", tmp_path)
    page.goto(f"{server.url}/#/models")
    page.get_by_role("button", name="Probe small-model").click()
    page.locator(".model").first.get_by_text("Probe results").click()
    page.locator(".model").first.locator("tbody tr").first.wait_for()
    taken(page, "page-models", tmp_path)
    server.script.calls["forecast"] = ("get_weather", {"city": "Oslo"})
    page.goto(f"{server.url}/#/evaluate")
    with_suite(page, tmp_path)
    page.get_by_role("button", name="Run", exact=True).click()
    finished(page)
    page.get_by_role("button", name="simple_2, Automatic: wrong").click()
    page.get_by_role("region", name="Summary").evaluate("summary => summary.scrollIntoView()")
    taken(page, "page-evaluate", tmp_path)
    page.emulate_media(color_scheme="dark")
    page.goto(f"{server.url}/#/dashboard")
    page.locator(".tiles").wait_for()
    taken(page, "page-metrics", tmp_path)
    context.close()
    assert not faults
