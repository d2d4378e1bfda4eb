"""One engine turn without IO: a function plays the upstream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolspeak.core.events import Event, Finish, TextDelta, UsageSeen
from toolspeak.core.types import Message, Request, TextPart, Tool, ToolChoice, Usage
from toolspeak.engine.planning.capabilities import Profile, ProfileMatch
from toolspeak.engine.planning.strategy import Plan, Settings, plan
from toolspeak.engine.turn.actions import AskUpstream, Done, Emit, StopAttempt, TurnOutcome
from toolspeak.engine.turn.engine import Engine
from toolspeak.engine.turn.interpretation import Interpreter

__all__ = ["NONCE", "STAMP", "Play", "carry_out", "engine_for", "planned", "user"]

STAMP = 1_700_000_000_000_000_000
NONCE = "k7q2xm"

#: What the upstream answers: a text, or events.
Play = Callable[[Request], str | Sequence[Event]]


def user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def planned(request: Request, settings: Settings, profile: Profile | None = None) -> Plan:
    return plan(request, ProfileMatch(profile or Profile(), "test", "a test says so"), settings)


def engine_for(
    messages: Sequence[Message],
    tools: Sequence[Tool],
    settings: Settings | None = None,
    *,
    choice: ToolChoice | None = None,
    stream: bool = False,
    profile: Profile | None = None,
    nonces: Callable[[int], str] = lambda counter: NONCE if counter == 0 else f"{NONCE}{counter}",
    interpreter: Interpreter | None = None,
) -> Engine:
    settings = settings or Settings()
    request = Request("m", tuple(messages), tuple(tools), choice or ToolChoice(), stream)
    made = planned(request, settings, profile)
    return Engine(request, made, settings, stamp=STAMP, nonces=nonces, interpreter=interpreter)


def _answer(played: str | Sequence[Event], chunk: int) -> list[Event]:
    if not isinstance(played, str):
        return list(played)
    size = chunk or len(played) or 1
    pieces = [TextDelta(played[at : at + size]) for at in range(0, len(played), size)]
    return [*pieces, UsageSeen(Usage(10, 5)), Finish("stop")]


def carry_out(engine: Engine, play: Play, chunk: int = 0) -> tuple[list[Event], TurnOutcome, list[Request]]:
    """The events of the turn, how it ended, and what was asked. `chunk`: how the texts are cut; 0: not at all."""
    events: list[Event] = []
    asked: list[Request] = []
    actions = engine.start()
    while True:
        ask: AskUpstream | None = None
        for action in actions:
            match action:
                case Emit(emitted):
                    events += emitted
                case AskUpstream():
                    ask = action
                case Done(outcome):
                    return events, outcome, asked
                case StopAttempt():
                    pass
        assert ask is not None, "the engine neither asks nor ends"
        asked.append(ask.request)
        actions = []
        for event in _answer(play(ask.request), chunk):
            actions += engine.feed(ask.attempt, event)
        actions += engine.end(ask.attempt)
