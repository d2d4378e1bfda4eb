"""What a conversation leaves behind: what was said, and answers with the rounds that led to them.

Compact: a finished answer holds its final text and its rounds, each round the text that was streamed before its
calls, the calls and their results. `expansion` turns this into the messages of a protocol. Values only. Above:
`rounds`, the journal, the store, the agent. Below: `model`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .model import Message, Note, Opaque, ToolCall, ToolResult, Usage

__all__ = ["Answer", "AnswerStatus", "CallRecord", "CallState", "Entry", "Round"]

#: `planned`: the model asked for it. `started`: it may have changed the world. `finished`: there is a result.
CallState: TypeAlias = Literal["planned", "started", "finished"]

#: `running` is what a crash leaves behind; whoever opens the session next makes it `interrupted`.
AnswerStatus: TypeAlias = Literal["running", "complete", "interrupted", "failed"]


class CallRecord(msgspec.Struct, frozen=True):
    """One call, how far it got, and what came of it."""

    call: ToolCall
    state: CallState = "planned"
    #: Whether it changes the world: such a call is never run a second time by itself.
    side_effects: bool = False
    result: ToolResult | None = None
    #: How long it ran.
    seconds: float = 0.0


class Round(msgspec.Struct, frozen=True):
    """Text, then calls, then their results."""

    #: What was streamed before the calls.
    text: str = ""
    calls: tuple[CallRecord, ...] = ()
    reasoning: str = ""
    #: What the upstream wants back unread: signatures, encrypted reasoning.
    opaque: tuple[Opaque, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """What became of one thing that was said: the final text, and the rounds before it."""

    #: Only the final text; that of the rounds stands there.
    content: str = ""
    rounds: tuple[Round, ...] = ()
    status: AnswerStatus = "complete"
    reasoning: str = ""
    opaque: tuple[Opaque, ...] = ()
    usage: Usage = Usage()
    notes: tuple[Note, ...] = ()
    #: Requests that went upstream for it.
    requests: int = 0


#: A conversation is a row of these.
Entry: TypeAlias = Message | Answer
