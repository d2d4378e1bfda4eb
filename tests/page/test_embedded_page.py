"""The page once with everything real: `toolspeak serve` as it comes, with the small model that runs here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve_process import served_as_it_comes
from toolspeak.server.process.control_file import running_servers
from toolspeak.upstreams.embedded.weights import DEFAULT

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H1", "H2")]

#: Milliseconds for a small model on a slow machine.
PATIENCE = 240_000


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Where it listens, and the session of who has started it."""
    pytest.importorskip("xllamacpp", reason="the embedded model needs toolspeak[embedded]")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "toolspeak"
    if not any(cache.glob("*.gguf")):
        pytest.skip(f"the weights of {DEFAULT} are not in the cache")
    with served_as_it_comes(tmp_path) as url:
        (door,) = running_servers(tmp_path / "toolspeak" / "servers")
        yield url, door.token
    assert running_servers(tmp_path / "toolspeak" / "servers") == []


def test_the_embedded_model_answers_and_can_be_inspected(browser: Any, serving: tuple[str, str]):
    url, token = serving
    context = browser.new_context()
    context.add_cookies([{"name": "toolspeak_session", "value": token, "url": url}])
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{url}/#/chats")
    page.fill(".composer textarea", "What time is it?")
    page.press(".composer textarea", "Enter")
    page.locator(".about").wait_for()
    assert page.locator(".answer .text, .answer .round, .answer .notice").count() > 0
    page.get_by_role("link", name="Details", exact=True).click()
    page.locator(".attempt").first.wait_for()
    page.goto(f"{url}/#/evaluate")
    page.get_by_role("button", name="Remove this column").first.click()
    page.get_by_role("combobox", name="Category").select_option("single")
    page.get_by_role("combobox", name="Cases").select_option("1")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("1 of 1 answer").wait_for()
    page.locator("button.cell-right, button.cell-wrong").wait_for()
    page.goto(f"{url}/#/models")
    page.locator(".model").first.wait_for()
    page.goto(f"{url}/#/dashboard")
    page.locator(".tiles").wait_for()
    context.close()
