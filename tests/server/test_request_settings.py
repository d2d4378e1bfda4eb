"""Settings for one request: who may send them, and what they change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import HELLO, Team, ask, bearer, gateway, run
from tests.server.protocol_clients import SPEAKERS, Speaker
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import UsageError
from toolspeak.key_value import MemoryState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.proxy.request_settings import merge_settings

CHAT = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}]
ASKED = {**HELLO, "tools": TOOLS}
WISH = {"x-toolspeak-settings": '{"mode": "force", "plan": "decision"}'}
FIXED = Settings(mode="force", marks="fixed")


def plan_of(answer: Any) -> str:
    assert answer.status == 200, answer.body
    return json.loads(answer.header("x-toolspeak"))["plan"]


@check_each("client", ["127.0.0.1", "127.8.8.8", "::1"])
@check_each("host", ["127.0.0.1:8788", "localhost", "[::1]:8788"])
@pytest.mark.requirement("A1")
def test_every_program_on_this_machine_may_send_them_where_no_key_is_required(client: str, host: str):
    team = Team(required=False)
    for headers in ({}, bearer("sk-any"), bearer(team.key("anna"))):
        answer = run(ask(team.app, "POST", CHAT, {**headers, **WISH}, ASKED, host, client))
        assert plan_of(answer) == "decision"


@check_each(
    ("client", "headers"),
    [
        ("10.0.0.7", {}),
        ("", {}),
        ("::ffff:10.0.0.7", {}),
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}),
        ("127.0.0.1", {"X-Forwarded-Host": "models.example"}),
        ("127.0.0.1", {"Forwarded": "for=10.0.0.7"}),
        ("127.0.0.1", {"X-Real-IP": "10.0.0.7"}),
        ("127.0.0.1", {"Via": "1.1 proxy"}),
    ],
)
@pytest.mark.requirement("A1")
def test_what_comes_from_elsewhere_or_through_a_proxy_may_not(client: str, headers: dict[str, str]):
    team = Team(required=False)
    refused = run(ask(team.app, "POST", CHAT, {**headers, **WISH}, ASKED, client=client))
    assert (refused.status, "toolspeak keys new NAME --admin" in refused.message) == (403, True)
    assert plan_of(run(ask(team.app, "POST", CHAT, headers, ASKED, client=client))) == "inline"
    admin = bearer(team.key("root", admin=True))
    assert plan_of(run(ask(team.app, "POST", CHAT, {**headers, **admin, **WISH}, ASKED, client=client))) == "decision"


@pytest.mark.requirement("A1")
def test_where_a_key_is_required_they_are_for_admins():
    team = Team()
    refused = run(ask(team.app, "POST", CHAT, {**bearer(team.key("anna")), **WISH}, ASKED))
    assert (refused.status, refused.message.split(" (")[0]) == (
        403,
        "`x-toolspeak-settings` requires an admin key here",
    )
    assert (
        plan_of(run(ask(team.app, "POST", CHAT, {**bearer(team.key("root", admin=True)), **WISH}, ASKED))) == "decision"
    )


@check_each("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}])
@pytest.mark.requirement("A1")
def test_a_page_in_a_browser_is_not_a_program_on_this_machine(headers: dict[str, str]):
    assert run(ask(Team(required=False).app, "POST", CHAT, {**headers, **WISH}, ASKED)).status == 403


@pytest.mark.requirement("A1")
def test_a_name_that_leads_to_this_machine_is_not_enough():
    team = Team(required=False)
    assert run(ask(team.app, "POST", CHAT, WISH, ASKED, "rebound.example:8788")).status == 403


@pytest.mark.requirement("A1")
def test_a_name_that_the_server_is_called_by_elsewhere_is_not_this_machine():
    """A reverse proxy on this machine may add no header but pass the name on."""
    guard = OriginGuard(Access(ApiKeys(MemoryState()), required=False), frozenset({"models.example"}))
    app = App(gateway(), guard)
    assert run(ask(app, "POST", CHAT, WISH, ASKED, "models.example")).status == 403
    assert run(ask(app, "POST", CHAT, {}, ASKED, "models.example")).status == 200


@check_each("speaker", [pytest.param(speaker, id=speaker.name) for speaker in SPEAKERS])
@check_each("stream", [False, True])
@pytest.mark.requirement("A1")
def test_the_refusal_has_the_shape_of_the_clients_protocol(speaker: Speaker, stream: bool):
    team = Team()
    headers = {**bearer(team.key("anna")), **WISH}
    refused = run(ask(team.app, "POST", speaker.path(stream), headers, speaker.ask(stream)))
    assert refused.status == 403
    assert "requires an admin key" in refused.message


@check_each("text", ["{", "[]", '{"mode": "often"}', '{"api_key": "x"}', '{"dialect": "nonsense"}', "\xff"])
def test_what_cannot_be_applied_is_an_error(text: str):
    answer = run(ask(Team(required=False).app, "POST", CHAT, {"x-toolspeak-settings": text}, ASKED))
    assert answer.status == 400


def test_what_is_empty_stays_as_it_is():
    assert merge_settings(FIXED, {"mode": "", "plan": None, "policy": "eager"}) == Settings(
        mode="force", marks="fixed", policy="eager"
    )
    with pytest.raises(UsageError):
        merge_settings(FIXED, {"probe": "startup"})
