"""Creates turns for one model, for both client and server.

For each request, this recalls tools, looks up the model's capabilities, chooses a plan and derives the nonces.
"""

import time
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..core.types import Message, Note, Request, Tool, is_object
from ..engine.planning.capabilities import Capabilities, ProfileMatch
from ..engine.planning.strategy import OPEN_RULES, Plan, Settings, plan
from ..engine.prompting.nonces import nonces_of
from ..engine.prompting.tool_use_detection import has_tool_history
from ..engine.turn.actions import TurnOutcome
from ..engine.turn.faults import SEE_TRACE
from ..engine.turn.passthrough_turn import PassthroughTurn, is_passthrough
from ..engine.turn.trace import without_interpretation
from ..errors import UsageError
from ..key_value import State
from ..upstreams.base import Upstream
from .compacting_turn import CompactingTurn, ContextMemory
from .learning import EndedTurn, ModelUse, UseLearning
from .model_resolution import EMBEDDED, InterpreterModel, ResolvedModel
from .probe_cache import probe_target
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
def _engine() -> "type[Engine]":
    """Import the engine on first use, because programs without tools then start in half the time."""
    from ..engine.turn.engine import Engine

    return Engine


class PlannedTurn(NamedTuple):
    """A turn that is ready to run, with its request and its plan."""

    turn: AnyTurn
    request: Request
    plan: Plan
    served: tuple[Tool, ...] = ()  # server-side tools, offered in addition to those of the request


class _TurnContext(NamedTuple):
    """What the turns of one request share."""

    lookup: ProfileMatch
    settings: Settings
    tenant: str
    #: The whole conversation, from which the nonces are derived.
    messages: tuple[Message, ...]
    see: str
    untried: bool  # whether to find out how the model calls


class TurnRecipe(NamedTuple):
    """What is the same in all turns whose requests differ only in their messages."""

    lookup: ProfileMatch
    settings: Settings
    tenant: str
    plan: Plan
    notes: tuple[Note, ...]


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
        learning: UseLearning | None = None,
        interpreter: InterpreterModel | None = None,
    ) -> None:
        self.resolved = resolved
        self._interpreter = interpreter
        self._target = probe_target(resolved)
        self._probes = probes
        self._learning = learning
        # Probe the upstream itself: a fallback must not answer the probe.
        self._probed = (
            resolved if probed_upstream is None else msgspec.structs.replace(resolved, upstream=probed_upstream)
        )
        self._capabilities = capabilities
        self._secret = secret
        self._templates = templates
        self.tool_memory = ToolMemory(state)
        self._context_memory = ContextMemory()
        #: Until when not to ask the upstream for several answers, by tenant, because it gave one or does not know `n`.
        self.single_answers: dict[str, float] = {}

    def look_up(self, tenant: str = "") -> ProfileMatch:
        """Return what is known about the model for this tenant."""
        if self._probes is not None:
            self._probes.load(self.resolved)
        learned = self._learning and self._learning.learned(self._target, tenant)
        return self._capabilities.find(*self._target, learned)

    @property
    def use(self) -> ModelUse | None:
        """What use has shown about the model, for display."""
        return self._learning and self._learning.use_of(self._target)

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
            # A turn has one answer. The server runs one turn per answer.
            raise UsageError("`n` above 1 is not supported here", hint="start one turn per answer")
        lookup = self.look_up(tenant)
        untried = self._is_untried(lookup, tenant)
        request, notes = self.tool_memory.recall(tenant, original, settings)
        notes = (*earlier_notes, *notes)
        planned = plan(request, lookup, settings, untried=untried)
        context = _TurnContext(lookup, settings, tenant, request.messages, see, untried)
        if settings.compact in ("", "off"):
            return PlannedTurn(self._planned_turn(context, request, planned, notes), request, planned)
        turn = CompactingTurn(
            request,
            settings.compact,
            partial(self._turn, context),
            self._context_memory,
            _window(request) or getattr(self.resolved.upstream, "context_window", 0) or lookup.profile.context_window,
            tenant,
            notes,
        )
        return PlannedTurn(turn, request, planned)

    def recipe(
        self, request: Request, settings: Settings, tenant: str, planned: PlannedTurn, notes: tuple[Note, ...]
    ) -> TurnRecipe | None:
        """Return the recipe of a turn that was made for a request, or None if others may be planned differently."""
        lookup = self.look_up(tenant)
        untried = self._is_untried(lookup, tenant)
        recalls = not request.tools and has_tool_history(request.messages)
        if untried or recalls or planned.served or not isinstance(planned.turn, EngineTurn):
            return None
        return TurnRecipe(lookup, settings, tenant, planned.plan, notes)

    def make_from(self, recipe: TurnRecipe, request: Request, see: str) -> PlannedTurn | None:
        """Create the turn for a request as the recipe says. Returns None if something new is known about the model."""
        lookup, settings, tenant, planned, notes = recipe
        if self.look_up(tenant) is not lookup or self._is_untried(lookup, tenant):
            return None
        context = _TurnContext(lookup, settings, tenant, request.messages, see, False)
        return PlannedTurn(self._planned_turn(context, request, planned, notes), request, planned)

    def _is_untried(self, lookup: ProfileMatch, tenant: str) -> bool:
        """Whether to find out how the model calls, because nothing is known or what is known is in doubt."""
        learning = self._learning if lookup.rule in OPEN_RULES else None
        return learning is not None and learning.untried(self._target, tenant, lookup.rule)

    def _turn(self, context: _TurnContext, request: Request) -> EngineTurn:
        """Create the turn for a request, or for a part of its conversation."""
        planned = plan(request, context.lookup, context.settings, untried=context.untried)
        return self._planned_turn(context, request, planned, ())

    def _planned_turn(
        self, context: _TurnContext, request: Request, planned: Plan, notes: tuple[Note, ...]
    ) -> EngineTurn:
        resolved, settings = self.resolved, context.settings
        embedded = resolved.provider == EMBEDDED
        interpreter: InterpreterModel | None = None
        if is_passthrough(request, planned):
            engine = PassthroughTurn(request, planned, stamp=time.time_ns(), notes=notes)
        else:
            if settings.interpreter and not embedded:
                interpreter = self._interpreter
            engine = _engine()(
                request,
                planned,
                settings,
                stamp=time.time_ns(),
                nonces=nonces_of(self._secret, context.tenant, context.messages, request.tools if embedded else ()),
                protocol=resolved.protocol,
                templates=self._templates,
                notes=notes,
                see=context.see,
                interpreter=interpreter and interpreter.interpreter(self._secret, context.tenant),
            )
        ended = partial(self._ended, context, request, planned)
        return EngineTurn(engine, resolved.upstream, ended, interpreter and interpreter.resolved.upstream)

    def _ended(self, context: _TurnContext, request: Request, planned: Plan, outcome: TurnOutcome) -> None:
        if context.settings.interpreter:
            outcome = msgspec.structs.replace(outcome, trace=without_interpretation(outcome.trace))
        rule, protocol = context.lookup.rule, self.resolved.protocol
        whose = (self._target, context.tenant, rule, protocol)
        turn = EndedTurn(*whose, request, planned, context.settings, outcome)
        if self._learning is not None:
            self._learning.turn_ended(turn)
        if self._probes is not None:
            self._probes.turn_ended(self._probed, turn)


def _window(request: Request) -> int:
    """Return the size of the context window that a request sets itself, which only Ollama allows; 0 if it does not."""
    options = request.options.own.get("options") or request.options.extra.get("options")
    size = options.get("num_ctx") if is_object(options) else None
    return size if isinstance(size, int) and size > 0 else 0
