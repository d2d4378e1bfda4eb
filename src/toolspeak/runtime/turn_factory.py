"""Makes turns for one model: from a request to an engine with its plan, ready to be carried out.

What client and server share: recalled tools, what is known of the model, the plan, the nonces of the
conversation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..core.types import Note, Request, Tool
from ..engine.planning.capabilities import Capabilities, Found
from ..engine.planning.strategy import Plan, Settings, plan
from ..engine.prompting.nonces import nonces_of
from ..engine.turn.passthrough import Passage, passes
from ..errors import UsageError
from ..key_value import State
from ..upstreams.base import Upstream
from .model_resolution import Reached
from .prober import Probes
from .tool_memory import Conversation
from .turn import AnyTurn, Turn

if TYPE_CHECKING:
    from ..engine.turn.engine import Engine


def checked_templates(templates: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Templates of the caller's own, found to be usable.

    Raises:
        UsageError: one of them has no place, or lacks a placeholder.
    """
    if templates is None:
        return None
    if not isinstance(templates, Mapping) or not all(isinstance(text, str) for text in templates.values()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError("`templates` must map names of templates to texts")
    from ..engine.prompting.few_shot import checked, texts_of

    checked(texts_of(templates))
    return dict(templates)


@cache
def _engine() -> type[Engine]:
    """Imported when it is needed: whoever is not asked for tools starts in half of the time."""
    from ..engine.turn.engine import Engine

    return Engine


class MadeTurn(NamedTuple):
    """A turn that can begin, the request it answers, and the plan it follows."""

    turn: AnyTurn
    request: Request
    plan: Plan
    #: Tools that are offered beside those of the request, and run where the turn runs.
    served: tuple[Tool, ...] = ()


class TurnMaker:
    """One model within reach."""

    def __init__(
        self,
        reached: Reached,
        known: Capabilities,
        state: State,
        secret: bytes,
        templates: Mapping[str, str] | None = None,
        probes: Probes | None = None,
        alone: Upstream | None = None,
    ) -> None:
        self.reached = reached
        self._probes = probes
        # A probe must not be answered by an upstream that stands behind the one that is probed.
        self._probed = reached if alone is None else msgspec.structs.replace(reached, upstream=alone)
        self._known = known
        self._secret = secret
        self._templates = templates
        self.conversation = Conversation(state)

    def found(self) -> Found:
        """What is known of the model."""
        if self._probes is not None:
            self._probes.look(self.reached)
        return self._known.find(self.reached.provider, self.reached.model, self.reached.base_url)

    def make(self, asked: Request, settings: Settings, tenant: str = "", seen: tuple[Note, ...] = ()) -> MadeTurn:
        """The turn that answers a request; `seen` is what was noted about it before."""
        if asked.options.n > 1:
            # One answer is read, checked and told; others would be paid for and lost.
            raise UsageError("`n` above 1 is not served: a turn has one answer", hint="ask once for each answer")
        reached = self.reached
        found = self.found()
        request, notes = self.conversation.recall(tenant, asked, settings)
        planned = plan(request, found, settings)
        if passes(request, planned):
            engine = Passage(request, planned, stamp=time.time_ns(), notes=(*seen, *notes))
        else:
            engine = _engine()(
                request,
                planned,
                settings,
                stamp=time.time_ns(),
                nonces=nonces_of(self._secret, tenant, request.messages),
                protocol=reached.protocol,
                templates=self._templates,
                notes=(*seen, *notes),
            )
        ended = self._probes and partial(self._probes.ended, self._probed, request, planned, settings)
        return MadeTurn(Turn(engine, reached.upstream, ended), request, planned)
