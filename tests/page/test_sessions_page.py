"""The chats of the store on the page: listed, searched, opened by their address, continued, renamed, deleted, exported."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.page.conftest import unfold, watched
from tests.page.page_server import Served, served
from tests.page.test_chat import ask
from tests.page.test_page_injection import PAYLOADS, inert
from toolspeak.cli import main
from toolspeak.core.types import Message, TextPart, ToolCall, ToolResult
from toolspeak.engine.rounds.transcript import Answer, CallRecord, FileDiff, Round
from toolspeak.key_value import MemoryState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.store import open_store

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H2")]


async def written(url: str, question: str, answer: str, *, call: bool = False) -> None:
    store = open_store(url)
    journal = await store.journal()
    await journal.say(Message("user", (TextPart(question),)))
    await journal.begin()
    if call:
        made = ToolCall("clock", {"zone": "Europe/Oslo"}, "call_1")
        diff = FileDiff("a.txt", "--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-<b>old</b>\n+new\n")
        await journal.plan(Round("Let me look.", (CallRecord(made, diffs=(diff,)),)))
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
        page.locator(".chat-link").nth(1).wait_for()
        page.get_by_label("Search chats").fill("oslo")
        page.locator(".chats").get_by_text("1 chat", exact=True).wait_for()
        page.locator(".chat-link").click()
        unfold(page.locator("details.round summary"))
        shown = page.locator(".exchange").inner_text()
        assert "What time is it in Oslo?" in shown and "It is noon." in shown and "<b>noon</b>" in shown
        assert page.locator(".diff .removed").inner_text().strip() == "-<b>old</b>"
        assert page.locator(".diff .added").inner_text().strip() == "+new"
        ask(page, "hello")
        roles = [message.role for message in server.script.asked[-1].messages if message.role != "system"]
        assert roles[:1] == ["user"] and len(roles) > 3  # the whole conversation went along
        assert not faults
        context.close()


def test_without_a_store_the_list_says_so(page: Any):
    page.locator(".chats").get_by_text("This server does not store chats.").wait_for()
    page.goto(f"{page.url.partition('#')[0]}#/chats/{'0' * 32}")
    page.get_by_text("so there is none at this address").wait_for()


@pytest.mark.requirement("R-T8")
def test_a_chat_outlives_the_server_and_is_nobody_elses(browser: Any, faults: list[str], tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    keys = ApiKeys(MemoryState())
    with served(store=url, keys=keys) as server:
        page = opened(browser, server, server.link(), faults)
        ask(page, "What time is it in Oslo, and what is 17 times 23?")
        ask(page, "hello")
        resent(page, "hello", "markdown, please")
        listed(page, "What time is it in Oslo, and what is 17 times 23?")
    with served(store=url, keys=keys) as server:  # started again
        page = opened(browser, server, server.link(), faults)
        listed(page, "What time is it in Oslo, and what is 17 times 23?").click()
        page.get_by_text("A heading").wait_for()
        assert page.locator(".bubble").all_inner_texts() == [
            "What time is it in Oslo, and what is 17 times 23?",
            "markdown, please",
        ]
        unfold(page.locator("details.round summary"))
        assert "17 * 23" in page.locator("details.round").inner_text()
        other = opened(browser, server, server.url, faults)
        other.get_by_label("One-time link or admin key").fill(keys.new("other", admin=True)[1])
        other.get_by_role("button", name="Sign in").click()
        other.wait_for_selector(".composer")
        other.locator(".chats").get_by_text("Your chats will be listed here.").wait_for()
        other.goto(page.url)
        other.get_by_text("This chat was deleted, or it belongs to another user.").wait_for()
    told = CliRunner().invoke(main, ["sessions", "--store", url, "list", "--json"])
    (info,) = json.loads(told.stdout)
    assert info["title"] == "What time is it in Oslo, and what is 17 times 23?"
    assert not faults


def test_two_tabs_with_one_chat_lose_nothing(browser: Any, faults: list[str], tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    with served(store=f"sqlite:///{tmp_path / 'sessions.db'}") as server:
        first = opened(browser, server, server.link(), faults)
        ask(first, "hello")
        listed(first, "hello")
        address = first.url
        second = first.context.new_page()
        second.goto(address)
        second.locator(".bubble").get_by_text("hello").wait_for()
        ask(first, "from tab one")
        first.wait_for_function(
            "(url) => fetch(url).then((it) => it.json()).then((it) => it.exchanges.length === 2)",
            arg=f"{server.url}/toolspeak/sessions/{address.rpartition('/')[2]}",
        )
        ask(second, "from tab two")
        second.wait_for_url(lambda url: url != address)
        for page, own in ((first, "from tab one"), (second, "from tab two")):
            page.reload()
            page.locator(".bubble").get_by_text(own).wait_for()
            assert page.locator(".bubble").all_inner_texts() == ["hello", own]
    faults.clear()  # the answer that refuses to overwrite a chat is an error in the console


def test_a_chat_that_is_deleted_in_another_tab_while_it_streams_stays_deleted(
    browser: Any, faults: list[str], tmp_path: Path
):
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    with served(store=url) as server:
        first = opened(browser, server, server.link(), faults)
        first.fill(".composer textarea", "linger over it")
        first.press(".composer textarea", "Enter")
        first.locator(".live").get_by_text("It takes a while").wait_for()
        first.wait_for_url(re.compile("#/chats/[0-9a-f]{32}$"))
        second = first.context.new_page()
        second.goto(first.url)
        second.locator(".bubble").get_by_text("linger over it").wait_for()
        deleted(second)
        first.bring_to_front()
        first.click(".composer button")
        first.get_by_text("It is no longer saved. To keep it, fork it.").wait_for()
        assert first.locator(".live, .answer").get_by_text("It takes a while").is_visible()
        first.wait_for_load_state("networkidle")
        with open_store(url) as store:
            assert store.sessions("") == []
        first.reload()
        first.get_by_text("This chat was deleted").wait_for()
        ask(first, "hello")  # in a new chat
        listed(first, "hello")
        # Deleted in its own tab, while an answer comes.
        first.fill(".composer textarea", "linger once more")
        first.press(".composer textarea", "Enter")
        first.locator(".live").get_by_text("It takes a while").wait_for()
        deleted(first)
        first.wait_for_url("**/#/chats/new")
        first.locator(".welcome").wait_for()
        first.wait_for_load_state("networkidle")
        assert not first.get_by_text("no longer saved").is_visible()
        with open_store(url) as store:
            assert store.sessions("") == []
        first.context.close()
    faults.clear()  # that the session is gone is an error in the console


def deleted(page: Any) -> None:
    page.get_by_text("Manage", exact=True).click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete for good").click()
    page.locator(".welcome").wait_for()


def test_a_page_that_is_left_before_its_first_save_arrives_keeps_the_chat(
    browser: Any, faults: list[str], tmp_path: Path
):
    pytest.importorskip("sqlalchemy")
    with served(store=f"sqlite:///{tmp_path / 'sessions.db'}") as server:
        page = opened(browser, server, server.link(), faults)
        held = threading.Event()
        page.route("**/toolspeak/sessions", lambda route: held.set())  # it stays on its way until the page is left
        told = ask(page, "hello").locator(".about").inner_text()
        assert held.is_set() and page.url.endswith("#/chats")
        page.unroute("**/toolspeak/sessions")
        page.reload()
        page.locator(".exchange .about").wait_for()
        assert page.locator(".exchange .about").inner_text() == told
        listed(page, "hello")  # once
        page.wait_for_url(re.compile("#/chats/[0-9a-f]{32}$"))
        page.context.close()
    assert not faults


def test_a_page_that_is_closed_while_an_answer_comes_keeps_what_has_come(
    browser: Any, faults: list[str], tmp_path: Path
):
    pytest.importorskip("sqlalchemy")
    with served(store=f"sqlite:///{tmp_path / 'sessions.db'}") as server:
        page = opened(browser, server, server.link(), faults)
        page.fill(".composer textarea", "linger over it")
        page.press(".composer textarea", "Enter")
        page.locator(".live").get_by_text("It takes a while").wait_for()
        page.wait_for_url(re.compile("#/chats/[0-9a-f]{32}$"))
        page.reload()
        page.get_by_text("It takes a while, and then").wait_for()
        listed(page, "linger over it")
        page.get_by_text("Stopped. The partial answer is kept.").wait_for()


def test_a_store_that_fails_is_told_and_the_chat_goes_on(browser: Any, faults: list[str], tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    (tmp_path / "sessions.db").write_text("this is no database, and it is long enough to be looked at" * 40)
    with served(store=f"sqlite:///{tmp_path / 'sessions.db'}") as server:
        page = opened(browser, server, server.link(), faults)
        ask(page, "hello")
        page.get_by_text("This chat is not saved yet").wait_for()
        ask(page, "hello again")


def test_what_could_not_be_kept_is_sent_with_what_comes_next(browser: Any, faults: list[str], tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    notice = "This chat is not saved yet"
    with served(store=url) as server:
        page = opened(browser, server, server.link(), faults)
        for question in ("one", "two"):
            ask(page, question)
        assert kept(url, 2) == ["one", "two"]
        page.context.set_offline(True)  # as if the server were away
        ask(page, "three")
        page.get_by_text(notice).wait_for()
        page.context.set_offline(False)
        page.route(
            "**/toolspeak/sessions", lambda route: route.fulfill(status=409, json={"error": {"message": "held"}})
        )
        ask(page, "four")
        assert page.get_by_text(notice).is_visible()
        page.unroute("**/toolspeak/sessions")
        ask(page, "five")
        page.get_by_text(notice).wait_for(state="detached")
        assert kept(url, 5) == ["one", "two", "three", "four", "five"]
        resent(page, "four", "markdown, please")
        assert kept(url, 4) == ["one", "two", "three", "markdown, please"]
        page.context.close()
    assert not faults


def kept(url: str, count: int) -> list[str]:
    """The questions of the only session, once there are so many."""
    questions: list[str] = []
    for _ in range(200):
        with open_store(url) as store:
            found = store.sessions("")  # two while one takes the place of another
            entries = store.entries(found[0].id) if found else ()
            questions = [each.text for each in entries if isinstance(each, Message)]
        if (len(found), len(questions)) == (1, count):
            break
        threading.Event().wait(0.05)
    return questions


def test_a_session_opened_again_tells_what_it_told(browser: Any, faults: list[str], tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    with ThreadPoolExecutor() as pool:
        pool.submit(asyncio.run, written(url, "What time is it in Bergen?", "It is noon.", call=True)).result()
    with served(store=url) as server:
        page = opened(browser, server, server.link(), faults)
        first = ask(page, "What time is it in Oslo, and what is 17 times 23?").locator(".about").inner_text()
        page.reload()
        page.locator(".exchange .about").wait_for()
        assert page.locator(".exchange .about").inner_text() == first
        listed(page, "What time is it in Bergen?").click()
        page.locator(".bubble").get_by_text("Bergen").wait_for()
        assert page.locator(".exchange .answer-facts").inner_text() == "2 rounds"  # nobody noted a time
        page.context.close()
    assert not faults


def opened(browser: Any, server: Served, address: str, faults: list[str]) -> Any:
    page = watched(browser.new_context(viewport={"width": 1280, "height": 800}), server, faults)
    page.goto(address)
    page.wait_for_selector(".composer, .welcome form")
    return page


def listed(page: Any, title: str) -> Any:
    """The link of a chat in the list; what is kept comes a moment after its answer."""
    link = page.locator(".chat-link").filter(has=page.get_by_text(title, exact=True))
    link.wait_for()
    return link


def resent(page: Any, old: str, new: str) -> None:
    exchange = page.locator(".exchange").filter(has=page.get_by_text(old, exact=True))
    exchange.get_by_role("button", name="Edit").click()
    page.locator(".edit").get_by_label("Your question").fill(new)
    page.get_by_role("button", name="Resend").click()
    page.get_by_text("A heading").wait_for()
    page.locator(".composer button").get_by_text("Send").wait_for()
    page.wait_for_load_state("networkidle")  # what has ended is saved


async def hostile(url: str) -> None:
    """A session with every payload in every text of it."""
    everything = " ".join(PAYLOADS)
    store = open_store(url)
    journal = await store.journal(about={"model": everything, "from": everything})
    for number, payload in enumerate(PAYLOADS):
        await journal.say(Message("user", (TextPart(payload),)))
        await journal.begin()
        made = ToolCall(payload, {payload: payload}, f"call_{number}")
        await journal.plan(Round(payload, (CallRecord(made),), payload))
        await journal.start(made.id)
        await journal.finish(ToolResult(made.id, payload, payload, error=bool(number % 2)), 0.5)
        await journal.end(Answer(payload, reasoning=payload))
    await journal.say(Message("user", (TextPart(everything),)))
    await journal.begin()
    await journal.end(Answer(f"# {everything}", status="interrupted"))
    await journal.close()
    store.close()


@pytest.mark.requirement("R-T16")
def test_texts_of_sessions_are_text(browser: Any, faults: list[str], tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    with ThreadPoolExecutor() as pool:
        pool.submit(asyncio.run, hostile(url)).result()
    with served(store=url) as server:
        page = opened(browser, server, server.link(), faults)
        page.locator(".chat-link").first.wait_for()
        for payload in PAYLOADS:
            page.get_by_label("Search chats").fill(payload)
        page.get_by_label("Search chats").fill("")
        page.locator(".chat-link").first.wait_for()
        inert(page, faults)
        page.locator(".chat-link").first.click()
        page.locator(".exchange").nth(len(PAYLOADS)).wait_for()
        inert(page, faults)
        for summary in page.locator("details.round > summary").all():
            unfold(summary)
        inert(page, faults)
        shown = page.locator(".transcript").inner_text()
        assert all(shown.count(payload) >= 4 for payload in PAYLOADS[:1])
        page.context.close()


def test_a_chat_has_an_address_from_its_first_question_on(browser: Any, faults: list[str], tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    with served(store=f"sqlite:///{tmp_path / 'sessions.db'}") as server:
        page = opened(browser, server, server.link(), faults)
        page.wait_for_url("**/#/chats/new")
        page.fill(".composer textarea", "linger over it")
        page.press(".composer textarea", "Enter")
        page.wait_for_url(re.compile("#/chats/[0-9a-f]{32}$"))
        page.click(".composer button")
        page.locator(".notice.warn").wait_for()
        page.keyboard.press("Control+Shift+O")
        page.wait_for_url("**/#/chats/new")
        ask(page, "hello")
        page.wait_for_url(re.compile("#/chats/[0-9a-f]{32}$"))
        address = page.url
        ask(page, "hello again")
        resent(page, "hello again", "markdown, please")
        assert page.url == address
        page.goto(f"{server.url}/#/requests")
        page.locator(".rows-summary").wait_for()
        page.goto(f"{server.url}/")
        page.wait_for_url(address)
        assert page.locator(".bubble").all_inner_texts() == ["hello", "markdown, please"]
        page.get_by_role("link", name="New chat").click()
        page.locator(".welcome").wait_for()
        ask(page, "hello")
        page.wait_for_function("address => location.href !== address && !location.href.endsWith('new')", arg=address)
        page.go_back()
        page.locator(".welcome").wait_for(state="detached")
        page.goto(address)
        page.locator(".bubble").get_by_text("markdown, please").wait_for()
        page.context.close()
    assert not faults


def test_a_chat_is_renamed_forked_exported_and_deleted(browser: Any, faults: list[str], tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    with served(store=f"sqlite:///{tmp_path / 'sessions.db'}") as server:
        page = opened(browser, server, server.link(), faults)
        ask(page, "What time is it in Oslo, and what is 17 times 23?")
        listed(page, "What time is it in Oslo, and what is 17 times 23?")
        original = page.url
        page.get_by_text("Manage", exact=True).click()
        page.get_by_label("Title").fill("Time and sums")
        page.get_by_role("button", name="Rename").click()
        listed(page, "Time and sums")
        page.locator(".chat-name").get_by_text("Time and sums").wait_for()
        page.get_by_text("Manage", exact=True).click()
        for kind in ("Markdown", "JSON"):
            with page.expect_download() as file:
                page.get_by_role("button", name=f"Export as {kind}").click()
            text = Path(file.value.path()).read_text(encoding="utf-8")
            assert "quarter past noon" in text and "calculator" in text and "Time and sums" in text
            assert file.value.suggested_filename == f"Time-and-sums.{'md' if kind == 'Markdown' else 'json'}"
            page.get_by_text("Manage", exact=True).click()
        assert json.loads(text)["exchanges"][0]["answer"]["status"] == "complete"
        page.get_by_role("button", name="Fork").first.click()
        page.locator(".chat-link").nth(1).wait_for()
        assert page.url != original
        ask(page, "hello")
        page.goto(original)
        page.locator(".chat-name").get_by_text("Time and sums").wait_for()
        assert page.locator(".exchange").count() == 1
        page.get_by_text("Manage", exact=True).click()
        page.get_by_role("button", name="Delete…").click()
        page.get_by_role("button", name="Delete for good").click()
        page.locator(".welcome").wait_for()
        page.locator(".chat-link").nth(1).wait_for(state="detached")
        page.goto(original)
        page.get_by_text("This chat was deleted").wait_for()
        page.context.close()
    assert not faults


def test_on_a_phone_the_chats_are_in_a_drawer(browser: Any, faults: list[str], tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    with served(store=f"sqlite:///{tmp_path / 'sessions.db'}") as server:
        page = watched(browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True), server, faults)
        page.goto(server.link())
        page.wait_for_selector(".composer")
        ask(page, "hello")
        page.get_by_role("button", name="All chats").click()
        listed(page, "hello")
        page.keyboard.press("Escape")
        page.locator(".chat-link").wait_for(state="hidden")
        page.get_by_role("button", name="All chats").click()
        page.get_by_role("link", name="New chat").click()
        page.locator(".welcome").wait_for()
        page.locator(".chat-link").wait_for(state="hidden")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.context.close()
    assert not faults
