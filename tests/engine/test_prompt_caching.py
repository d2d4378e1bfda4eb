"""What stays the same from turn to turn is marked, where a service caches only up to a mark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from tests.engine.engine_helpers import ASKED, CONSTRAINED, TOOLS
from tests.offline_turn import NONCE, STAMP, planned
from toolspeak.core.types import Message, Request, TextPart
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.prompting.history import mark_cache_prefix
from toolspeak.engine.turn.actions import AskUpstream
from toolspeak.engine.turn.engine import Engine
from toolspeak.protocols import anthropic

MARK = {"type": "ephemeral"}
PLANS = {
    "inline": Settings(mode="force"),
    "decision": Settings(mode="force", plan="decision"),
    "envelope": Settings(mode="force", plan="envelope"),
}


def sent(settings: Settings, protocol: str = "anthropic", before: tuple[Message, ...] = (), nonce: str = NONCE) -> Any:
    """The body of the first request of a turn."""
    request = Request("m", (*before, *ASKED), TOOLS, protocol="openai_chat")
    plan = planned(request, settings, CONSTRAINED)
    engine = Engine(request, plan, settings, stamp=STAMP, nonces=lambda _: nonce, protocol=protocol)
    (ask,) = [action for action in engine.start() if isinstance(action, AskUpstream)]
    return json.loads(anthropic.encode_request(ask.request))


@pytest.mark.requirement("G5")
@check_each("plan", PLANS)
def test_the_contract_is_cached_up_to_its_nonce(plan: str):
    marked, rest = sent(PLANS[plan])["system"]
    assert marked["cache_control"] == MARK
    assert "get_weather" in marked["text"]
    assert NONCE not in marked["text"]
    assert "cache_control" not in rest
    assert NONCE in rest["text"]
    assert sent(PLANS[plan], nonce="zzzzzz")["system"][0] == marked


@pytest.mark.requirement("G5")
def test_the_callers_own_system_text_is_cached_with_it_and_keeps_its_own_mark():
    own = Message("system", (TextPart("Be brief.", {"cache_control": MARK}),))
    first, *_ = blocks = sent(PLANS["inline"], before=(own,))["system"]
    assert (first["text"].startswith("Be brief."), len([each for each in blocks if "cache_control" in each])) == (
        True,
        2,
    )


@check_each("protocol", ["openai_chat", "openai_responses", "gemini", "ollama"])
def test_services_that_cache_by_themselves_get_no_mark(protocol: str):
    assert "cache_control" not in json.dumps(sent(PLANS["inline"], protocol))


def test_a_text_that_is_not_there_is_not_marked():
    messages = (Message("system", (TextPart("a"),)), Message("user"))
    assert mark_cache_prefix(messages, "b") is messages


def test_a_mark_at_the_end_leaves_nothing_behind_it():
    (message,) = mark_cache_prefix((Message("system", (TextPart("x"), TextPart("ab"), TextPart("y"))),), "b")
    assert message.parts == (TextPart("x"), TextPart("ab", {"cache_control": MARK}), TextPart("y"))
