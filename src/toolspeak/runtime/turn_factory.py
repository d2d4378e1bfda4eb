"""Creates turns for one model, for both client and server.

For each request, this recalls tools, looks up the model's capabilities, chooses a plan and derives the nonces.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..core.types import Note, Request, Tool
from ..engine.planning.capabilities import Capabilities, ProfileMatch
from ..engine.planning.strategy import Plan, Settings, plan
from ..engine.prompting.nonces import nonces_of
from ..engine.turn.faults import SEE_TRACE
from ..engine.turn.passthrough_turn import PassthroughTurn, is_passthrough
from ..errors import UsageError
from ..key_value import State
from ..upstreams.base import Upstream
from .model_resolution import ResolvedModel
from .prober import ProbeScheduler
from .tool_memory import ToolMemory
from .turn import AnyTurn, EngineTurn

if TYPE_CHECKING:
    from ..engine.turn.engine import Engine


def checked_templates(templates: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Validate custom prompt templates."""
    if templates is None:
        return None
    if not isinstance(templates, Mapping) or not all(isinstance(text, str) for text in templates.values()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError("`templates` must map template names to strings")
    from ..engine.prompting.templates import resolve_templates, template_texts

    resolve_templates(template_texts(templates))
    return dict(templates)


@cache
def _engine() -> type[Engine]:
    """Import the engine on first use, because programs without tools then start in half the time."""
    from ..engine.turn.engine import Engine

    return Engine


class PlannedTurn(NamedTuple):
    """A turn that is ready to run, with its request and its plan."""

    turn: AnyTurn
    request: Request
    plan: Plan
    #: Server-side tools, offered in addition to those of the request.
    served: tuple[Tool, ...] = ()


class TurnFactory:
    """Creates turns for one resolved model."""

    def __init__(
        self,
        resolved: ResolvedModel,
        capabilities: Capabilities,
        state: State,
        secret: bytes,
        templates: Mapping[str, str] | None = None,
        probes: ProbeScheduler | None = None,
        probed_upstream: Upstream | None = None,
    ) -> None:
        self.resolved = resolved
        self._probes = probes
        # Probe the upstream itself: a fallback must not answer the probe.
        self._probed = (
            resolved if probed_upstream is None else msgspec.structs.replace(resolved, upstream=probed_upstream)
        )
        self._capabilities = capabilities
        self._secret = secret
        self._templates = templates
        self.tool_memory = ToolMemory(state)

    def look_up(self) -> ProfileMatch:
        if self._probes is not None:
            self._probes.load(self.resolved)
        return self._capabilities.find(self.resolved.provider, self.resolved.model, self.resolved.base_url)

    def make(
        self,
        original: Request,
        settings: Settings,
        tenant: str = "",
        earlier_notes: tuple[Note, ...] = (),
        see: str = SEE_TRACE,
    ) -> PlannedTurn:
        """Create the turn for a request.

        `earlier_notes`: notes already made about the request. `see`: where a user finds the details of the turn.
        """
        if original.options.n > 1:
            # Only the first answer would be used, but all of them would cost money.
            raise UsageError("`n` above 1 is not supported", hint="send one request per answer")
        resolved = self.resolved
        lookup = self.look_up()
        request, notes = self.tool_memory.recall(tenant, original, settings)
        planned = plan(request, lookup, settings)
        if is_passthrough(request, planned):
            engine = PassthroughTurn(request, planned, stamp=time.time_ns(), notes=(*earlier_notes, *notes))
        else:
            engine = _engine()(
                request,
                planned,
                settings,
                stamp=time.time_ns(),
                nonces=nonces_of(self._secret, tenant, request.messages),
                protocol=resolved.protocol,
                templates=self._templates,
                notes=(*earlier_notes, *notes),
                see=see,
            )
        ended = self._probes and partial(self._probes.turn_ended, self._probed, request, planned, settings)
        return PlannedTurn(EngineTurn(engine, resolved.upstream, ended), request, planned)
