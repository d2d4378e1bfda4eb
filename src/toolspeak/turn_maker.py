"""Makes turns for one model: from a request to an engine with its plan, ready to be carried out.

What client and server share: recalled tools, what is known of the model, the plan, the nonces of the
conversation. Above: `client`, the server. Below: `turn`, `conversation`, `reach`, `core.engine`.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from .conversation import Conversation
from .core.capability import Capabilities
from .core.engine import Engine
from .core.model import Note, Request
from .core.nonces import nonces_of
from .core.strategy import Plan, Settings, plan
from .reach import Reached
from .state import State
from .turn import Turn

__all__ = ["MadeTurn", "TurnMaker"]


class MadeTurn(NamedTuple):
    """A turn that can begin, the request it answers, and the plan it follows."""

    turn: Turn
    request: Request
    plan: Plan


class TurnMaker:
    """One model within reach."""

    def __init__(self, reached: Reached, known: Capabilities, state: State, secret: bytes) -> None:
        self.reached = reached
        self._known = known
        self._secret = secret
        self.conversation = Conversation(state)

    def make(self, asked: Request, settings: Settings, tenant: str = "", seen: tuple[Note, ...] = ()) -> MadeTurn:
        """The turn that answers a request; `seen` is what was noted about it before."""
        reached = self.reached
        request, notes = self.conversation.recall(tenant, asked, settings)
        found = self._known.find(reached.provider, reached.model, reached.base_url)
        planned = plan(request, found, settings)
        engine = Engine(
            request,
            planned,
            settings,
            stamp=time.time_ns(),
            nonces=nonces_of(self._secret, tenant, request.messages),
            protocol=reached.protocol,
            notes=(*seen, *notes),
        )
        return MadeTurn(Turn(engine, reached.upstream), request, planned)
