"""Helpers for agent loop tests: a loop with two tools, model answers, and the expected next steps."""

from __future__ import annotations

from toolspeak import Message, Reply, TextPart, Tool, ToolCall, ToolResult, Usage
from toolspeak.core.events import FinishReason
from toolspeak.engine.rounds.loop import (
    AskModel,
    CallOutcome,
    Cancelled,
    Execute,
    Executed,
    Failed,
    Finished,
    Rounds,
    TimeUp,
)
from toolspeak.engine.rounds.transcript import Answer, Entry

LOOK = Tool("look", parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]})
SEND = Tool("send", side_effects=True)
TASK: tuple[Entry, ...] = (Message("user", (TextPart("Find it."),)),)


def a_loop(entries: tuple[Entry, ...] = TASK, **more: object) -> Rounds:
    return Rounds(entries, (LOOK, SEND), **more)  # type: ignore[arg-type]


def making(*calls: ToolCall, text: str = "", finish: FinishReason = "tool_calls", **more: object) -> Reply:
    usage = Usage(10, 5)
    return Reply(text, calls=calls, finish_reason=finish, usage=usage, requests=1, **more)  # type: ignore[arg-type]


def look_at(at: str = "a", id: str = "") -> ToolCall:
    return ToolCall("look", {"at": at}, id)


def saying(text: str) -> Reply:
    return Reply(text, finish_reason="stop", usage=Usage(10, 5), requests=1)


def executing(rounds: Rounds, reply: Reply) -> Execute:
    action = rounds.feed(reply)
    assert isinstance(action, Execute)
    return action


def finding(execute: Execute, content: str = "found") -> Executed:
    return Executed(
        tuple(CallOutcome(ToolResult(each.call.id, content, each.call.name), 0.5) for each in execute.calls)
    )


def asking(rounds: Rounds, heard: Reply | Executed | TimeUp, now: float = 0.0) -> AskModel:
    action = rounds.feed(heard, now)
    assert isinstance(action, AskModel)
    return action


def ending(rounds: Rounds, heard: Reply | Executed | Cancelled | Failed) -> Answer:
    action = rounds.feed(heard)
    assert isinstance(action, Finished)
    assert action.client_calls == ()
    return action.answer


def codes_of(answer: Answer) -> list[str]:
    return [note.code for note in answer.notes]
