"""The requests of one turn: what goes upstream in each phase, and when it is asked again.

Contract, history and constraint are put together here; nothing is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import assert_never

import msgspec

from ...core.parsing.tool_index import toolkit
from ...core.schema.arguments import ArgumentSchema
from ...core.tokens import estimate_tokens
from ...core.types import (
    JSONObject,
    Message,
    Note,
    Options,
    Request,
    ResponseFormat,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
)
from ...dialects.registry import render_calls
from ..constraints.build import decision_constraint, envelope_constraint, inline_constraint, wire_options
from ..constraints.transforms import transformed
from ..planning.strategy import Plan, Settings
from ..prompting.call_result_pairing import pair
from ..prompting.escaping import joined, plain_name
from ..prompting.history import (
    Projected,
    cached_to,
    decision_messages,
    is_answered,
    nonce_is_free,
    plain,
    project,
    since_last_user,
    stop_sequences,
    untrusted_texts,
    without_media,
    without_system,
)
from ..prompting.tool_prompt import Contract, decision_contract, envelope_contract, inline_contract, place
from .faults import Fault
from .phases import PhaseName
from .recovery import instruction
from .upstream_limits import Concession

#: A nonce that stands in the conversation is replaced by the next one; this many are tried.
_MAX_NONCES = 16
#: How much of a failed answer is shown to the model again.
_MAX_ANSWER = 4000
#: Faults after which the model sees what it wrote. After a refusal it must not: it would only repeat it.
_SHOW_ANSWER = frozenset(
    {"bad_arguments", "unknown_tool", "truncated", "described", "permission", "too_many", "bad_format"}
)
#: Plans in which no call is read: what the tools are is the upstream's affair, or nobody's.
_UNREAD = frozenset({"pass", "plain"})
#: The protocol whose service caches a prompt only up to where the request says so.
_MARKS_CACHE = "anthropic"
_SAMPLE = "..."
#: What a caller means who wants JSON and gives no schema.
_ANY_OBJECT: JSONObject = {"type": "object"}


class Asking:
    """Builds the requests of one turn."""

    def __init__(
        self,
        request: Request,
        plan: Plan,
        settings: Settings,
        *,
        nonces: Callable[[int], str],
        protocol: str,
        templates: Mapping[str, str] | None = None,
    ) -> None:
        self._request = request
        self._plan = plan
        self._settings = settings
        self._protocol = protocol
        self._templates = templates
        self.notes: list[Note] = []
        self.contract_tokens = 0
        paired = pair(request.messages) if plan.kind != "pass" else Projected(request.messages, ())
        self._messages = paired.messages
        self.notes.extend(paired.notes)
        kit = toolkit(request.tools)
        if plan.kind not in _UNREAD:
            kit.check()
            if len(kit.readable) + len(kit.dropped) < len(request.tools):
                self.notes.append(Note("duplicate_tool", "a tool that is declared twice is offered once"))
        #: Every tool whose call can be read, allowed now or not: what is not allowed is told from what does not exist.
        self.readable = kit.readable
        self.dropped = kit.dropped
        #: What is demanded of the model: one that garbles a second call is asked for one at a time.
        choice = request.tool_choice
        alone = choice.parallel and not plan.profile.parallel
        self._choice = msgspec.structs.replace(choice, parallel=False) if alone else choice
        free = choice.mode != "none" and not choice.allowed
        self.offered = self.readable if free else tuple(tool for tool in self.readable if choice.permits(tool.name))
        self.nonce = self._free_nonce(nonces) if plan.marks == "nonce" else None
        self._examples: tuple[str, ...] = ()

    @property
    def teachable(self) -> bool:
        """Whether a prompt can teach any of the tools on offer."""
        return any(plain_name(tool.name) for tool in self.offered)

    @property
    def unnamed(self) -> tuple[Tool, ...]:
        """The tools whose names no prompt can show."""
        return tuple(tool for tool in self.readable if not plain_name(tool.name))

    def _note(self, notes: tuple[Note, ...]) -> None:
        if notes:
            self.notes.extend(note for note in notes if note not in self.notes)

    def _free_nonce(self, nonces: Callable[[int], str]) -> str | None:
        for counter in range(_MAX_NONCES):
            nonce = nonces(counter)
            if nonce_is_free(nonce, self._messages):
                return nonce
        self.notes.append(Note("no_free_nonce", "every nonce stands in the conversation; fixed marks are used"))
        return None

    def untrusted(self, phase: PhaseName) -> tuple[str, ...]:
        """Texts whose calls are not the model's own.

        The first call of a marked block needs no such search, and it keeps a call from flowing; for those after it
        there is `copied`. But the document of a decision, which is held anyway, is compared with the examples that it
        may have been copied from. A call that is demanded and enforced is the model's own, whatever it looks like: it
        had no other choice.
        """
        if phase not in ("native", "trial") and self.nonce is not None:
            forced = self._choice.demands and self._plan.profile.constraint
            return self._examples if phase == "decision" and not forced else ()
        return (*self.copied(), *self._examples)

    def copied(self) -> tuple[str, ...]:
        """What others wrote and the model may copy into an argument, where it can close the call and open another."""
        # What a tool says about itself may be a stranger's word, too, and its examples are no calls.
        descriptions = (tool.description for tool in self._request.tools if tool.description)
        return (*untrusted_texts(self._messages), *descriptions)

    def concede(self, conceded: Concession) -> Plan:
        """Do without something from now on; gives the plan that says so."""
        profile = msgspec.structs.replace(self._plan.profile, **conceded.fields)
        self._plan = msgspec.structs.replace(self._plan, profile=profile)
        return self._plan

    # ---- requests

    def request(self, phase: PhaseName) -> Request:
        """What goes upstream in this phase."""
        made = self._made(phase)
        whole = made.stream and phase != "relay" and not self._plan.profile.streams
        return msgspec.structs.replace(made, stream=False) if whole else made

    def _made(self, phase: PhaseName) -> Request:
        match phase:
            case "relay":
                return self._request
            case "native" | "trial":
                return self._native()
            case "final":
                return self._final()
            case "inline":
                return self._inline()
            case "decision":
                return self._decision()
            case "envelope":
                return self._envelope()
            case _:
                assert_never(phase)

    def _native(self) -> Request:
        """The request with its history paired, its schemas as the host wants them, and no media that it cannot take."""
        tools, lost = transformed(self._request.tools, self._plan.profile.transform)
        shown = without_media(self._messages, self._plan.profile.media)
        self._note((*lost, *shown.notes))
        options = self._request.options
        if not self._choice.parallel:  # what is too much is dropped in any case
            options = msgspec.structs.replace(options, dispensable=("parallel_tool_calls",))
        return msgspec.structs.replace(
            self._request, messages=shown.messages, tools=tools, tool_choice=self._choice, options=options
        )

    def _final(self) -> Request:
        profile = self._plan.profile
        projected = plain(self._messages, media=profile.media)
        if not profile.system_role:
            projected = Projected(without_system(projected.messages), projected.notes)
        return self._bare(projected, self._request.options)

    def _bare(self, projected: Projected, options: Options) -> Request:
        """The request without anything that speaks of tools."""
        self._note(projected.notes)
        return msgspec.structs.replace(
            self._request, messages=projected.messages, tools=(), tool_choice=ToolChoice(), options=options
        )

    def _projected(self) -> Projected:
        profile = self._plan.profile
        return project(
            self._messages, self._plan.dialect, nonce=self.nonce, media=profile.media, templates=self._templates
        )

    def _learn(self, contract: Contract) -> Contract:
        self.contract_tokens = contract.tokens
        self._note(contract.notes)
        self._examples = contract.examples
        self.offered = contract.tools
        return contract

    def _inline(self) -> Request:
        request, plan = self._request, self._plan
        contract = inline_contract(
            self.offered,
            self._choice,
            plan.dialect,
            nonce=self.nonce,
            style=self._settings.contract,
            budget=self._settings.contract_budget,
            query=partial(_last_user_text, self._messages),
            templates=self._templates,
        )
        if request.options.response_format is not None:
            contract = _with_format(contract, request.options.response_format)
        self._learn(contract)
        projected = self._projected()
        messages = self._placed(projected.messages, contract)
        grammar = self._grammar("inline")
        stops = self._stops()
        ours = ("stop",) if stops and not request.options.stop else ()
        options = msgspec.structs.replace(self._told(grammar), stop=stops, dispensable=ours)
        return self._bare(Projected(messages, projected.notes), options)

    def _stops(self) -> tuple[str, ...]:
        """The caller's stop sequences and, if there is room, the one that keeps the model from inventing results."""
        stops = self._request.options.stop
        if len(stops) >= self._plan.profile.max_stop:
            return stops
        return (*stops, stop_sequences(self._plan.dialect)[0])

    def _decision(self) -> Request:
        contract = self._learn(
            decision_contract(
                self.offered,
                self._choice,
                nonce=self.nonce,
                done=since_last_user(self._messages),
                budget=self._settings.contract_budget,
                templates=self._templates,
            )
        )
        options = self._told(self._grammar("decision"))
        profile = self._plan.profile
        messages = decision_messages(self._messages, contract.text)
        if not profile.system_role:
            messages = place(messages[1:], contract, system_role=False)
        projected = project(messages, self._plan.dialect, nonce=self.nonce, media=profile.media)
        projected = Projected(self._marked(projected.messages, contract), projected.notes)
        return msgspec.structs.replace(self._bare(projected, options), stream=False)

    def _envelope(self) -> Request:
        contract = self._learn(
            envelope_contract(
                self.offered,
                self._choice,
                nonce=self.nonce,
                budget=self._settings.contract_budget,
                style=self._settings.contract,
                templates=self._templates,
            )
        )
        projected = self._projected()
        messages = self._placed(projected.messages, contract)
        options = self._told(self._grammar("envelope"))
        return self._bare(Projected(messages, projected.notes), options)

    def _told(self, grammar: dict[str, object]) -> Options:
        """The options of a request whose prompt tells of the tools."""
        return msgspec.structs.replace(
            self._request.options,
            response_format=None,
            grammar=grammar,
            contract=True,
            answered=is_answered(self._request.messages),
        )

    def _placed(self, messages: tuple[Message, ...], contract: Contract) -> tuple[Message, ...]:
        placed = place(messages, contract, system_role=self._plan.profile.system_role)
        return self._marked(placed, contract)

    def _marked(self, messages: tuple[Message, ...], contract: Contract) -> tuple[Message, ...]:
        """The messages with a mark behind what stays the same, where the upstream caches only up to a mark."""
        return cached_to(messages, contract.stable) if self._protocol == _MARKS_CACHE else messages

    def _grammar(self, phase: PhaseName) -> dict[str, object]:
        """What the upstream is asked to enforce, if it can enforce anything."""
        flavour = self._plan.profile.constraint
        if not flavour:
            return {}
        choice, wanted = self._choice, self._request.options.response_format
        if phase == "inline":
            constraint = inline_constraint(self.offered, choice, flavour, self._plan.dialect, nonce=self.nonce)
        elif phase == "decision":
            constraint = decision_constraint(self.offered, choice, flavour, nonce=self.nonce)
        else:
            schema = wanted and (_ANY_OBJECT if wanted.schema is None else wanted.schema)
            constraint = envelope_constraint(self.offered, choice, flavour, schema, nonce=self.nonce)
        if constraint is None:
            return {}  # the dialect cannot be enforced: its calls are found and checked afterwards
        self._note(constraint.notes)
        return wire_options(constraint, self._protocol)

    # ---- once more

    def again(self, phase: PhaseName, base: Request, answer: str, fault: Fault, attempt: int) -> Request:
        """The request once more, with what was wrong and what to do."""
        last = attempt >= self._plan.retries
        text = instruction(fault, attempt, tools=self.offered, example=self._example(phase), last=last)
        messages = base.messages
        if fault.kind in _SHOW_ANSWER and answer.strip():
            shown = answer if len(answer) <= _MAX_ANSWER else f"{answer[:_MAX_ANSWER]} [...]"
            messages = (*messages, Message("assistant", (TextPart(shown),)))
        return msgspec.structs.replace(base, messages=_appended(messages, text))

    def _example(self, phase: PhaseName) -> str:
        """How a call looks, with nothing in it that could be copied as it stands."""
        if not self.offered or phase == "native":
            return ""
        tool = self.offered[0]
        names = ArgumentSchema.of(tool.parameters).names
        dialect = phase if phase in ("decision", "envelope") else self._plan.dialect
        return render_calls(dialect, [ToolCall(tool.name, dict.fromkeys(names, _SAMPLE))], self.nonce)


def _appended(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """The text as the user's last word; two user messages in a row are more than some templates take.

    It goes on with the last text rather than beside it: a message that was one text stays one.
    """
    if messages and messages[-1].role == "user":
        last = messages[-1]
        end = joined((*last.parts[-1:], TextPart(f"\n\n{text}")))
        return (*messages[:-1], msgspec.structs.replace(last, parts=(*last.parts[:-1], *end)))
    return (*messages, Message("user", (TextPart(text),)))


def _last_user_text(messages: tuple[Message, ...]) -> str:
    return next((message.text for message in reversed(messages) if message.role == "user"), "")


def _with_format(contract: Contract, wanted: ResponseFormat) -> Contract:
    """The caller wants JSON; the upstream cannot be told so, since a call would not fit it."""
    rule = "When you answer without calling a tool, the whole answer must be one JSON value and nothing else."
    if wanted.schema is not None:
        rule += f" It must fit this JSON schema:\n{msgspec.json.encode(wanted.schema).decode()}"
    tail = f"{contract.tail.rstrip()}\n\n{rule}\n"
    tokens = contract.tokens + estimate_tokens(rule)
    return msgspec.structs.replace(contract, tail=tail, tokens=tokens, message=None)
