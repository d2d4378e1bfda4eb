"""What is around the parts of the page: the bar, signing out, a server that is away, and requests that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.conftest import watched
from tests.page.http_requests import asked
from tests.page.page_server import Served, served
from tests.page.test_chat import FIELD, ask

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H2")]


def test_the_bar_of_a_phone_holds_all_parts_in_one_line(browser: Any, server: Served, faults: list[str]):
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = watched(context, server, faults)
    page.goto(server.link())
    page.wait_for_selector(".composer")
    nav = page.locator(".bar nav")
    assert nav.evaluate("nav => nav.scrollWidth <= nav.clientWidth")
    boxes = [box.bounding_box() for box in page.locator(".bar nav > a, #more").all()]
    assert len({box["y"] for box in boxes}) == 1 and boxes[0]["y"] + boxes[0]["height"] <= 740
    assert not page.locator("#theme").is_visible()
    page.get_by_role("button", name="More").click()
    for name in ("Models", "Evaluate", "Dashboard"):
        assert page.get_by_role("link", name=name).bounding_box()["x"] + 40 < 360
    page.keyboard.press("Escape")
    assert not page.get_by_role("link", name="Models").is_visible()
    page.get_by_role("button", name="More").click()
    page.get_by_role("link", name="Dashboard").click()
    page.get_by_role("heading", name="Dashboard").wait_for()
    assert not page.get_by_role("link", name="Models").is_visible()  # the menu is closed
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in to toolspeak").wait_for()
    assert not page.locator(".bar").is_visible()
    context.close()
    assert not faults


def test_who_signs_out_is_asked_again_and_leaves_nothing_behind(page: Any, server: Served):
    ask(page, "hello")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in to toolspeak").wait_for()
    assert page.locator(".exchange").count() == 0
    assert not page.locator("#sign-out").is_visible()
    page.goto(server.url)
    page.get_by_role("heading", name="Sign in to toolspeak").wait_for()


def test_a_part_that_cannot_be_loaded_says_so_in_words_and_can_be_tried_again(page: Any):
    ask(page, "hello")
    page.context.set_offline(True)
    page.get_by_role("link", name="Dashboard").click()
    page.get_by_role("heading", name="The server cannot be reached").wait_for()
    assert "TypeError" not in page.locator("main").inner_text()
    page.get_by_role("link", name="Chats").click()
    page.locator(".exchange").wait_for()  # what was loaded is still there
    ask(page, "hello again")
    assert "the server cannot be reached" in page.locator(".notice.bad").inner_text()
    page.get_by_role("link", name="Dashboard").click()
    page.get_by_role("heading", name="The server cannot be reached").wait_for()
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("heading", name="Dashboard").wait_for()


def test_the_page_begins_with_start(browser: Any, server: Served):
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.link())
    page.get_by_role("heading", name="Tool calling for any model").wait_for()
    assert page.get_by_role("link", name="Start", exact=True).get_attribute("aria-current") == "page"
    context.close()


def test_the_first_view_takes_less_than_300_kb_without_compression(browser: Any, server: Served):
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.link())
    page.get_by_role("heading", name="Tool calling for any model").wait_for()
    page.wait_for_load_state("networkidle")
    sizes = page.evaluate("""() => Object.fromEntries(
        [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
            .map((entry) => [entry.name, entry.decodedBodySize]))""")
    assert any(name.endswith("/start.js") for name in sizes)
    assert 20_000 < sum(sizes.values()) < 300_000, sizes
    context.close()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("chat/new", "chats/new"),
        ("inspector/", "requests/"),
        ("inspector/?tool:shell status:retry", "requests/?tool:shell%20status:retry"),
        ("metrics", "dashboard"),
    ],
)
def test_old_addresses_lead_to_the_new_ones(page: Any, server: Served, old: str, new: str):
    page.goto(f"{server.url}/#/{old}")
    page.wait_for_url(f"{server.url}/#/{new}")
    page.locator(f'nav a[href="#/{new.partition("/")[0]}"][aria-current=page]').wait_for()
    page.locator("main > *").first.wait_for()


def test_without_a_model_nothing_is_sent(page: Any, server: Served):
    before = len(server.script.asked)
    page.get_by_role("combobox", name="Model", exact=True).select_option("Other…")
    page.get_by_label("Model name").fill(" ")
    page.fill(FIELD, "hello")
    page.press(FIELD, "Enter")
    assert page.locator(".exchange").count() == 0
    assert page.input_value(FIELD) == "hello"
    assert len(server.script.asked) == before


def test_why_there_was_no_call_is_told_only_of_whole_answers(page: Any):
    assert ask(page, "Show an example of a call").get_by_text("Why was there no call?").count() == 1
    page.fill(FIELD, "linger over it")
    page.press(FIELD, "Enter")
    page.locator(".live").get_by_text("It takes a while").wait_for()
    page.keyboard.press("Escape")
    page.locator(".notice.warn").get_by_text("Stopped").wait_for()
    assert page.locator(".exchange").nth(1).get_by_text("Why was there no call?").count() == 0


def test_a_long_name_of_a_model_stays_in_the_page(browser: Any, faults: list[str]):
    with served() as server:
        context = browser.new_context(viewport={"width": 360, "height": 740})
        page = watched(context, server, faults)
        name = "a-very-long-name/" * 12
        page.route("**/toolspeak/about", lambda route: route.fulfill(json={**route.fetch().json(), "models": [name]}))
        page.goto(server.link())
        page.wait_for_selector(".composer")
        page.goto(f"{server.url}/#/requests/{asked(server, 'hello')['id']}")
        page.locator(".replay select").last.wait_for()
        assert page.locator(".detail").evaluate("box => box.scrollWidth <= box.clientWidth")
        context.close()
    assert not faults
