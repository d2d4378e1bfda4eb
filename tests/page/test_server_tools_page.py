"""Tools that the server itself runs, in the chat of the page: chosen by name, shown as they run, one line afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import unfold, watched
from tests.page.page_server import Served, served
from tests.page.test_chat import FIELD, ask
from tests.page.test_sessions_page import listed
from toolspeak.server.proxy.tool_loop.loop import LoopTools
from toolspeak.server.proxy.upstream_router import PAGE
from toolspeak.tools.files import file_tools

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H2", "A15")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "notes.txt").write_text("Buy milk. It is sunny.\n")
    with served(loops=lambda: {PAGE: LoopTools(file_tools(tmp_path, write=False))}) as running:
        running.script.calls["notes"] = ("read_file", {"path": "notes.txt"})
        running.script.calls["elsewhere"] = ("read_file", {"path": "../../etc/passwd"})
        yield running


def chosen(page: Any, *names: str) -> None:
    page.click(".tools summary")
    for name in names:
        page.get_by_label(name).check()
    page.keyboard.press("Escape")
    assert not page.locator(".tools .picker").is_visible()


def test_a_tool_of_the_server_is_chosen_runs_there_and_is_shown(page: Any, server: Served):
    chosen(page, "read_file")
    page.locator(".tools summary").get_by_text("Tools (4)").wait_for()
    exchange = ask(page, "What is in my notes?")
    rounds = exchange.locator("details.round")
    assert "Round 1" in rounds.inner_text() and "read_file" in rounds.inner_text()
    unfold(rounds.locator("summary"))
    rounds.get_by_text('{"path":"notes.txt"}').first.wait_for()
    rounds.get_by_text("Buy milk.").first.wait_for()
    assert "391" in exchange.locator(".text").inner_text()  # what the model says after it
    ask(page, "hello")
    said = "\n".join(message.text for message in server.script.asked[-1].messages)
    assert "Buy milk." in said  # what was found out goes along
    exchange.get_by_role("link", name="Details", exact=True).click()
    page.get_by_title("tools running on the server").wait_for()


@pytest.mark.requirement("F10")
def test_what_a_tool_changed_is_shown_in_its_round_and_still_there_when_the_chat_is_opened_again(
    browser: Any, faults: list[str], tmp_path: Path
):
    pytest.importorskip("sqlalchemy")
    work = tmp_path / "work"
    work.mkdir()
    tools = LoopTools(file_tools(work))
    with served(store=f"sqlite:///{tmp_path}/sessions.db", loops=lambda: {PAGE: tools}) as server:
        server.script.calls["notes"] = ("write_file", {"path": "new.txt", "content": "<b>new</b>\n"})
        context = browser.new_context()
        page = watched(context, server, faults)
        page.goto(server.link())
        page.wait_for_selector(FIELD)
        chosen(page, "write_file")
        exchange = ask(page, "Write my notes.")
        unfold(exchange.locator("details.round summary").first)
        assert exchange.locator(".diff .added").inner_text().strip() == "+<b>new</b>"
        page.get_by_role("link", name="New chat").click()
        page.locator(".welcome").wait_for()
        listed(page, "Write my notes.").click()
        unfold(page.locator("details.round summary").first)
        assert page.locator(".diff .added").inner_text().strip() == "+<b>new</b>"
        assert not faults
        context.close()


def test_what_is_not_chosen_is_not_offered(page: Any, server: Served):
    ask(page, "What is in my notes?")
    assert "read_file" not in "\n".join(message.text for message in server.script.asked[0].messages)


def test_what_a_tool_may_not_do_is_an_error_that_the_model_sees(page: Any, server: Served):
    chosen(page, "read_file")
    server.script.more["error"] = "That is not for me."
    exchange = ask(page, "Read something elsewhere")
    exchange.locator("details.round summary .badge.bad").first.wait_for()
    unfold(exchange.locator("details.round summary").first)
    assert "root:" not in exchange.inner_text()


def test_two_tools_of_one_name_are_told_before_anything_is_asked(page: Any, server: Served):
    chosen(page, "read_file")
    page.click(".tools summary")
    page.get_by_label("Your own tools (JSON Schema)").fill('[{"name": "read_file"}]')
    page.locator(".tools .picker").get_by_text("Duplicate tool name: read_file").wait_for()


def test_who_may_not_use_them_is_told_why(browser: Any, faults: list[str], tmp_path: Path):
    with served(loops=lambda: {"ci": LoopTools(file_tools(tmp_path, write=False))}) as server:
        context = browser.new_context()
        page = watched(context, server, faults)
        page.goto(server.link())
        page.click(".tools summary")
        page.locator(".tools .picker").get_by_text("page = true").wait_for()
        assert page.get_by_label("read_file").count() == 0
        context.close()


def test_menus_close_by_escape_by_another_one_and_by_a_click_elsewhere(page: Any):
    page.fill(FIELD, "linger over it")
    page.press(FIELD, "Enter")
    page.locator(".live").wait_for()
    page.click(".tools summary")
    page.keyboard.press("Escape")
    assert page.locator(".composer button").inner_text() == "Stop"  # the answer goes on
    page.click(".tools summary")
    page.click(".call-settings summary")
    assert page.locator(".menu[open]").count() == 1
    page.mouse.click(600, 600)
    assert page.locator(".menu[open]").count() == 0
    page.keyboard.press("Escape")
    page.locator(".notice.warn").wait_for()
