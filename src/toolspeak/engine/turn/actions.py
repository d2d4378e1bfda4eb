"""Actions that the turn's state machine asks its caller to perform. The caller does all IO."""

from typing import TypeAlias

import msgspec

from ...core.events import Event, Failure
from ...core.types import Request
from .trace import Trace
from .upstream_limits import UpstreamLimitation

#: Warning added to every turn in which the prompt asks the model to write its tool calls as text.
EMULATED = "tool calls emulated"
#: Warning added to every turn whose calls were read from a description.
INTERPRETED = "tool calls interpreted from the text of the answer"
#: Code of the note that each of these calls carries.
INTERPRETED_CALL = "interpreted"


class Emit(msgspec.Struct, frozen=True, gc=False):
    """Pass these events on to the client."""

    events: list[Event]


class AskUpstream(msgspec.Struct, frozen=True, gc=False):
    """Send this request upstream and feed its events back under this attempt number."""

    attempt: int
    request: Request
    #: Whether to ask the interpreter instead of the model.
    interpreter: bool = False


class StopAttempt(msgspec.Struct, frozen=True, gc=False):
    """Close the upstream connection of this attempt and ignore the rest of its answer."""

    attempt: int


class TurnOutcome(msgspec.Struct, frozen=True, gc=False):
    requests: int
    warnings: tuple[str, ...]
    failure: Failure | None
    trace: Trace
    #: Request features that the upstream rejected during this turn.
    limitations: tuple[UpstreamLimitation, ...] = ()


class Done(msgspec.Struct, frozen=True, gc=False):
    """End the turn: no further actions follow."""

    outcome: TurnOutcome


Action: TypeAlias = Emit | AskUpstream | StopAttempt | Done
