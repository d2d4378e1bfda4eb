"""A browser for the tests of the page, and what they share: signed in, with an eye on errors of scripts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.page.page_server import Served, served

NAMES = ("chromium", "chromium-browser", "google-chrome")
#: Milliseconds for anything that a test waits for.
PATIENCE = 15_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For one file of tests: while it is open an event loop runs in this thread, where others want to run theirs."""
    api = pytest.importorskip("playwright.sync_api", reason="`make test-system` installs playwright")
    path = next(found for name in NAMES if (found := shutil.which(name)))
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
def faults() -> list[str]:
    """What went wrong in the page: errors of scripts, what the policy of the page refused, requests to elsewhere."""
    return []


@pytest.fixture
def page(browser: Any, server: Served, faults: list[str]) -> Iterator[Any]:
    """The page, signed in, 1280 pixels wide. A fault of a script fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    opened = watched(context, server, faults)
    opened.goto(server.link())
    opened.wait_for_selector(".composer")
    yield opened
    context.close()
    assert not faults


def watched(context: Any, server: Served, faults: list[str]) -> Any:
    """A new tab of which every fault is written down."""
    # The first view is Start; most tests begin with a chat.
    context.add_init_script("if (location.pathname === '/' && !location.hash) location.hash = '#/chats'")
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE)
    opened.on("pageerror", lambda error: faults.append(f"script: {error}"))
    opened.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    opened.on(
        "console", lambda said: faults.append(f"console: {said.text}") if "Content Security" in said.text else None
    )
    opened.on("request", lambda asked: None if asked.url.startswith(server.url) else faults.append(f"to {asked.url}"))
    return opened


def unfold(summary: Any) -> None:
    """Open something by its line, and wait for what is inside: the page makes that only then, and a moment later."""
    summary.click()
    summary.locator("xpath=following-sibling::*").first.wait_for(state="attached")


def drawn(page: Any) -> None:
    """Wait until the page has shown what it knows: by the second picture, what scrolling set off has been drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))")
