"""What a turn wants done: the words between the state machines and whoever carries them out."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ...core.events import Event, Failure
from ...core.types import Request
from .trace import Trace
from .upstream_limits import Concession

#: The warning of every turn whose calls were asked for by text.
EMULATED = "tool calls emulated"


class Emit(msgspec.Struct, frozen=True, gc=False):
    """These events belong to the turn."""

    events: list[Event]


class Ask(msgspec.Struct, frozen=True):
    """Send this request upstream and feed its events under this number."""

    attempt: int
    request: Request


class Stop(msgspec.Struct, frozen=True):
    """Nothing more of this attempt is wanted: close it."""

    attempt: int


class Outcome(msgspec.Struct, frozen=True):
    """How the turn ended."""

    requests: int
    warnings: tuple[str, ...]
    failure: Failure | None
    trace: Trace
    #: What the upstream was found not to take.
    conceded: tuple[Concession, ...] = ()


class Done(msgspec.Struct, frozen=True):
    """The turn is over."""

    outcome: Outcome


Action: TypeAlias = Emit | Ask | Stop | Done
