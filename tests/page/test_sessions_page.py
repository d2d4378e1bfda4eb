"""The sessions of the store in the chat of the page: listed, searched, opened, gone on with."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import watched
from tests.page.served import served
from tests.page.test_chat import ask
from toolspeak.core.model import Message, TextPart, ToolCall, ToolResult
from toolspeak.core.record import Answer, CallRecord, Round
from toolspeak.store import open_store

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H2")]


async def written(url: str, question: str, answer: str, *, call: bool = False) -> None:
    store = open_store(url)
    journal = await store.journal()
    await journal.say(Message("user", (TextPart(question),)))
    await journal.begin()
    if call:
        made = ToolCall("clock", {"zone": "Europe/Oslo"}, "call_1")
        await journal.plan(Round("Let me look.", (CallRecord(made),)))
        await journal.start("call_1")
        await journal.finish(ToolResult("call_1", "<b>noon</b>"), 0.5)
    await journal.end(Answer(answer))
    await journal.close()
    store.close()


def test_sessions_are_listed_searched_opened_and_gone_on_with(browser: Any, faults: list[str], tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    with ThreadPoolExecutor() as pool:  # in this thread the browser has a loop
        pool.submit(asyncio.run, written(url, "What time is it in Oslo?", "It is noon.", call=True)).result()
        pool.submit(asyncio.run, written(url, "<img src=x onerror=alert(1)>", "That is no picture.")).result()
    with served(store=url) as server:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = watched(context, server, faults)
        page.goto(server.link())
        page.wait_for_selector(".composer")
        page.get_by_text("Sessions", exact=True).click()
        page.locator(".session").nth(1).wait_for()
        page.get_by_label("Search").fill("oslo")
        page.locator(".sessions").get_by_text("1 session", exact=True).wait_for()
        page.locator(".session").click()
        page.locator("details.round summary").click()
        shown = page.locator(".exchange").inner_text()
        assert "What time is it in Oslo?" in shown and "It is noon." in shown and "<b>noon</b>" in shown
        ask(page, "hello")
        roles = [message.role for message in server.script.asked[-1].messages if message.role != "system"]
        assert roles[:1] == ["user"] and len(roles) > 3  # the whole conversation went along
        assert not faults
        context.close()


def test_without_a_store_the_list_says_so(page: Any):
    page.get_by_text("Sessions", exact=True).click()
    page.locator(".sessions").get_by_text("without a store").wait_for()
