"""Helpers for engine tests: tools, answers, and a turn carried out step by step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.offline_turn import NONCE, STAMP, carry_out, engine_for, planned, user
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Finish,
    Reply,
    UsageSeen,
    fold,
)
from toolspeak.core.types import Options, Request, Tool, ToolChoice, Usage
from toolspeak.engine.planning.capabilities import Profile
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.actions import Action, Emit, TurnOutcome
from toolspeak.engine.turn.engine import Engine

WEATHER = Tool(
    "get_weather",
    "The weather in a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
SEARCH = Tool(
    "search", "Search the web.", {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
)
TOOLS = (WEATHER, SEARCH)
BROWSER = Tool("browser", kind="web_search_preview")
ASKED = [user("How is it in Oslo today?")]

NATIVE = Profile(capability="openai")
INLINE = Settings(mode="force")
DECISION = Settings(mode="force", plan="decision")
ENVELOPE = Settings(mode="force", plan="envelope")
FALLBACK = Settings(mode="fallback")
CONSTRAINED = Profile(constraint="json_schema")
PLANS: dict[str, tuple[Settings, Profile]] = {
    "native": (Settings(), NATIVE),
    "inline": (INLINE, Profile()),
    "decision": (DECISION, Profile()),
    "envelope": (ENVELOPE, CONSTRAINED),
    "fallback": (FALLBACK, NATIVE),
}

REFUSAL = "I'm sorry, but I don't have access to any tools."
UNSAFE = "I'm sorry, but I can't assist with that request."
ANSWER = "Oslo is the capital of Norway."
NO_TOOLS = json.dumps({"nonce": NONCE, "tools": []})


def action(name: str = "get_weather", **arguments: Any) -> str:
    return f"```json action {NONCE}\n{json.dumps({'tool': name, 'parameters': arguments})}\n```"


def decision(*calls: tuple[str, dict[str, Any]]) -> str:
    return json.dumps({"nonce": NONCE, "tools": [{"name": name, "arguments": given} for name, given in calls]})


def envelope(reply: Any, *calls: tuple[str, dict[str, Any]]) -> str:
    listed = [{"name": name, "arguments": given} for name, given in calls]
    return json.dumps({"nonce": NONCE, "calls": listed, "reply": reply})


def native(name: str = "get_weather", index: int = 0, id: str = "call_1", **arguments: Any) -> list[Event]:
    return [CallStart(index, name, id), CallArgs(index, json.dumps(arguments)), CallEnd(index)]


def finished(*events: Event, reason: Any = "stop", usage: Usage | None = None) -> list[Event]:
    return [*events, UsageSeen(usage or Usage(10, 5)), Finish(reason)]


def answers(*script: str | Sequence[Event]) -> Callable[[Request], str | Sequence[Event]]:
    """A model that answers in this order; asked more often, it repeats its last answer."""
    left = list(script)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


class Turn:
    """A turn that has been carried out."""

    def __init__(self, engine: Engine, *script: str | Sequence[Event], chunk: int = 0) -> None:
        self.events, outcome, self.asked = carry_out(engine, answers(*script), chunk)
        self.outcome: TurnOutcome = outcome
        self.reply: Reply = fold(self.events)
        self.calls = [(call.name, call.arguments) for call in self.reply.calls]
        self.notes = [note.code for note in self.reply.notes]
        self.warnings = outcome.warnings


def turn(*script: str | Sequence[Event], chunk: int = 0, **arguments: Any) -> Turn:
    messages = arguments.pop("messages", ASKED)
    tools = arguments.pop("tools", TOOLS)
    return Turn(engine_for(messages, tools, arguments.pop("settings", INLINE), **arguments), *script, chunk=chunk)


def with_options(options: Options, settings: Settings, profile: Profile, choice: ToolChoice | None = None) -> Engine:
    request = Request("m", tuple(ASKED), TOOLS, choice or ToolChoice(), options=options)
    return Engine(request, planned(request, settings, profile), settings, stamp=STAMP, nonces=lambda _: NONCE)


def emitted(actions: Iterable[Action]) -> list[Event]:
    return [event for each in actions if isinstance(each, Emit) for event in each.events]


def last_words(request: Request) -> str:
    return request.messages[-1].text


WEATHER_CALL = [("get_weather", {"city": "Oslo"})]
