"""Actions: what a turn's state machine asks its caller to do. The caller performs all IO."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ...core.events import Event, Failure
from ...core.types import Request
from .trace import Trace
from .upstream_limits import UpstreamLimitation

#: Warning of every turn in which the model was asked to write its calls as text.
EMULATED = "tool calls emulated"


class Emit(msgspec.Struct, frozen=True, gc=False):
    """Pass these events on to the client."""

    events: list[Event]


class AskUpstream(msgspec.Struct, frozen=True):
    """Send this request upstream and feed its events back under this attempt number."""

    attempt: int
    request: Request


class StopAttempt(msgspec.Struct, frozen=True):
    """Close the connection of this attempt; the rest of its answer is not needed."""

    attempt: int


class TurnOutcome(msgspec.Struct, frozen=True):
    """How the turn ended."""

    requests: int
    warnings: tuple[str, ...]
    failure: Failure | None
    trace: Trace
    #: What the upstream turned out to reject.
    limitations: tuple[UpstreamLimitation, ...] = ()


class Done(msgspec.Struct, frozen=True):
    """The turn is over."""

    outcome: TurnOutcome


Action: TypeAlias = Emit | AskUpstream | StopAttempt | Done
