"""Request builder: assembles the upstream requests of one turn.

A request combines the contract (the tool prompt), the rendered history and the output constraint.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, assert_never

import msgspec

from ...core.bounded_cache import BoundedCache
from ...core.events import Candidate, Reply
from ...core.parsing.tool_index import toolkit
from ...core.schema.json_values import encode_json
from ...core.text import estimate_tokens
from ...core.types import JSONObject, Message, Note, Options, Request, ResponseFormat, TextPart, Tool, ToolChoice
from ...dialects.registry import render_calls
from ..constraints.build import Constraint, decision_constraint, envelope_constraint, inline_constraint, wire_options
from ..constraints.native_tool_schemas import transform_tools
from ..context.sizes import prompt_limit, request_tokens
from ..planning.strategy import Plan, Settings
from ..prompting import history
from ..prompting.call_result_pairing import pair
from ..prompting.escaping import is_plain_name, join_text_parts
from ..prompting.templates import copied_placeholders, placeholder_call
from ..prompting.tool_descriptions import MAX_ROUNDS, DescribedTools, describe_tools, describing_tool, free_name
from ..prompting.tool_prompt import (
    Contract,
    ListingOptions,
    decision_contract,
    envelope_contract,
    inline_contract,
    place,
)
from .faults import Fault
from .phases import PhaseName
from .response_format import FORMAT_REMINDER, compile_format, format_rule
from .retry_prompt import instruction
from .upstream_limits import UpstreamLimitation

#: How many nonces to try to find one that does not occur in the conversation.
_MAX_NONCES = 16
#: How many characters of a faulty answer a retry shows to the model.
_MAX_ANSWER = 4000
#: Faults for which a retry shows the model its own answer. A refusal is not shown, because the model would repeat it.
_SHOW_ANSWER = frozenset(
    {"bad_arguments", "unknown_tool", "truncated", "unmarked", "described", "permission", "too_many", "bad_format"}
)
#: Plans in which calls are not parsed, so tool definitions need no validation.
_UNPARSED = frozenset({"pass", "plain"})
#: The protocol in which a request must mark the prompt prefix to cache.
_MARKS_CACHE = "anthropic"
#: The schema for a JSON response format that specifies none.
_ANY_OBJECT: JSONObject = {"type": "object"}
_FORMAT_TAUGHT = Note("format_taught", "the prompt asks for the response format, which the upstream may not enforce")


def _describing_name(tools: tuple[Tool, ...]) -> str:
    return free_name({tool.name for tool in tools})


def _names(tools: tuple[Tool, ...]) -> tuple[str, ...]:
    return tuple(tool.name for tool in tools)


def _with_describing_tool(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    return (*tools, describing_tool(_describing_name(tools)))


def _unshowable(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    return tuple(tool for tool in tools if not is_plain_name(tool.name))


_ANY_CHOICE = ToolChoice()
#: The options of recent inline requests, by the identity of the client's, which the entry keeps alive, and what else
#: they depend on.
_recent_options: BoundedCache[tuple[object, ...], tuple[Options, Options]] = BoundedCache(512 * 1024)


class RequestBuilder:
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
        paired = pair(request.messages) if plan.kind != "pass" else history.Projection(request.messages, ())
        self._messages = paired.messages
        self.notes.extend(paired.notes)
        kit = self._kit = toolkit(request.tools)
        if plan.kind not in _UNPARSED:
            self.notes.extend(kit.check())
            if len(kit.readable) + len(kit.dropped) < len(request.tools):
                self.notes.append(Note("duplicate_tool", "a tool was declared twice and is offered only once"))
        #: Tools whose calls can be parsed, including forbidden ones, so that those are not reported as unknown.
        self.readable_tools = kit.readable
        self.dropped_tools = kit.dropped
        #: The tools whose names cannot appear in a prompt.
        self.unshowable_tools = kit.derive(_unshowable)
        choice = request.tool_choice
        #: Whether to ask for one call at a time, because the model garbles parallel calls.
        sequential = choice.parallel and not plan.profile.parallel
        self._choice = msgspec.structs.replace(choice, parallel=False) if sequential else choice
        unrestricted = choice.mode != "none" and not choice.allowed
        self.offered_tools = (
            self.readable_tools
            if unrestricted
            else tuple(tool for tool in self.readable_tools if choice.permits(tool.name))
        )
        response_format = request.options.response_format
        if response_format is not None and plan.kind != "pass":
            self.notes.extend(compile_format(response_format).notes)  # reject an unusable schema before any request
        self.nonce = self._free_nonce(nonces) if plan.marks == "nonce" else None
        self._examples: tuple[str, ...] = ()
        #: The tools that the prompt lists, with the one that describes the others.
        self._listed_tools = self.offered_tools
        #: The name of the built-in tool that describes tools, if the prompt offers it.
        self.describe = ""
        self._described: list[DescribedTools] = []  # the answers to its calls

    @cached_property
    def has_teachable_tools(self) -> bool:
        """Whether at least one of the offered tools can be described in a prompt."""
        return any(is_plain_name(tool.name) for tool in self.offered_tools)

    def _note(self, notes: tuple[Note, ...]) -> None:
        if notes:
            self.notes.extend(note for note in notes if note not in self.notes)

    def _free_nonce(self, nonces: Callable[[int], str]) -> str | None:
        for counter in range(_MAX_NONCES):
            nonce = nonces(counter)
            if history.nonce_is_free(nonce, self._messages):
                return nonce
        self.notes.append(Note("no_free_nonce", "every nonce occurs in the conversation; calls carry no nonce"))
        return None

    def untrusted_texts(self, phase: PhaseName) -> tuple[str, ...]:
        """Return the texts from which the model may copy a call; a copied call is not accepted.

        With a nonce, the first call of a block is not compared, because that would delay streaming. Later calls are
        compared with `copyable_texts`. A decision is not streamed, so it is also compared with the examples in the
        tool prompt. An exception is a call that is both required and enforced: there the model had no choice.
        """
        if phase not in ("native", "trial") and self.nonce is not None:
            forced = self._choice.demands and self._plan.profile.constraint
            return self._examples if phase == "decision" and not forced else ()
        return (*self.copyable_texts(), *self._examples)

    def is_example(self, candidate: Candidate) -> bool:
        """Whether a call has the placeholders of its tool's example for arguments, which the user has not written."""
        forced = self._choice.demands and self._plan.profile.constraint  # the model has no choice but to write a call
        tool = self._kit.by_name.get(candidate.name) if not forced else None
        copied = copied_placeholders(tool, candidate.arguments) if tool is not None else []
        texts = [message.text for message in self._messages if copied and message.role == "user"]
        return bool(copied) and not any(each in text for each in copied for text in texts)

    def copyable_texts(self) -> tuple[str, ...]:
        """Return the untrusted texts that could, if copied into an argument, close the call and open another one."""
        # Tool descriptions may be untrusted too, and they may contain example calls.
        return (*history.untrusted_texts(self._messages), *self._kit.descriptions)

    def declared_texts(self) -> tuple[str, ...]:
        """Return the untrusted texts that tell the model how to call tools."""
        return (*self._kit.descriptions, *self._examples)

    @property
    def teaches_format(self) -> bool:
        """Whether toolspeak teaches and checks the response format, which the upstream is not known to enforce."""
        if self._request.options.response_format is None or self._plan.kind == "pass":
            return False
        return self._settings.check_format and not self._plan.profile.constraint

    def apply_limitation(self, limitation: UpstreamLimitation) -> Plan:
        """Work around an upstream limitation in all further requests. Return the adapted plan."""
        profile = msgspec.structs.replace(self._plan.profile, **limitation.profile_fields)
        return self.change_plan(profile=profile)

    def change_plan(self, **fields: object) -> Plan:
        """Change fields of the plan for all further requests. Return the changed plan."""
        self._plan = msgspec.structs.replace(self._plan, **fields)
        return self._plan

    def build(self, phase: PhaseName) -> Request:
        request = self._phase_request(phase)
        whole = request.stream and phase != "relay" and not self._plan.profile.streams
        return msgspec.structs.replace(request, stream=False) if whole else request

    def _phase_request(self, phase: PhaseName) -> Request:
        match phase:
            case "relay":
                return self._request
            case "native" | "trial":
                return self._native()
            case "final":
                return self._final()
            case "both":
                return self._with_native_tools(self._inline())
            case "inline":
                return self._inline()
            case "decision":
                return self._decision()
            case "envelope" | "interpretation":
                return self._envelope()
            case _:
                assert_never(phase)

    def _native_tools(self) -> tuple[Tool, ...]:
        """Return the tools for a native request, with schemas that the upstream accepts."""
        tools, losses = transform_tools(self._request.tools, self._plan.profile.transform)
        self._note(losses)
        return tools

    def _native(self) -> Request:
        """Build a request with native tools, adapting the schemas and media to what the upstream accepts."""
        tools = self._native_tools()
        projected = history.without_media(self._messages, self._plan.profile.media)
        self._note(projected.notes)
        messages = self._with_format_rule(projected.messages)
        messages = history.alternate_roles(messages) if self._plan.profile.alternates else messages
        options = self._with_dispensable(self._sendable_options())
        return msgspec.structs.replace(
            self._request, messages=messages, tools=tools, tool_choice=self._choice, options=options
        )

    def _with_dispensable(self, options: Options) -> Options:
        """Name the field that may be left out, because extra calls are dropped anyway."""
        if self._choice.parallel:
            return options
        return msgspec.structs.replace(options, dispensable=(*options.dispensable, "parallel_tool_calls"))

    def _with_native_tools(self, request: Request) -> Request:
        """Also send the functions natively, unless both copies together exceed the known context window."""
        functions = tuple(tool for tool in self._native_tools() if tool.kind == "function")
        options = self._with_dispensable(request.options)
        both = msgspec.structs.replace(request, tools=functions, tool_choice=self._choice, options=options)
        window = self._plan.profile.context_window
        fits = not window or request_tokens(both) <= prompt_limit(window, request.options.max_tokens)
        return both if fits else request

    def _final(self) -> Request:
        profile = self._plan.profile
        projected = history.plain(self._messages, media=profile.media)
        messages = self._with_format_rule(projected.messages)
        if not profile.system_role:
            messages = history.without_system(messages)
        return self._bare(history.Projection(messages, projected.notes), self._sendable_options())

    def _with_format_rule(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Ask for the response format in the prompt, if the upstream is not known to enforce it."""
        response_format = self._request.options.response_format
        if response_format is None or not self.teaches_format:
            return messages
        rule = format_rule(response_format)
        self.contract_tokens = self.contract_tokens or estimate_tokens(rule)
        self._note((_FORMAT_TAUGHT,))
        prompt = Contract("", rule, (), 0, reminder=FORMAT_REMINDER)
        return place(messages, prompt, system_role=self._plan.profile.system_role)

    def _sendable_options(self) -> Options:
        """Return the caller's options, without a response format that the upstream rejects."""
        options = self._request.options
        unwanted = self.teaches_format and not self._plan.profile.response_format
        return msgspec.structs.replace(options, response_format=None) if unwanted else options

    def _bare(self, projected: history.Projection, options: Options) -> Request:
        """Build a request without native tools and without a tool choice."""
        self._note(projected.notes)
        messages = history.alternate_roles(projected.messages)
        return msgspec.structs.replace(
            self._request, messages=messages, tools=(), tool_choice=_ANY_CHOICE, options=options
        )

    def _projected(self) -> history.Projection:
        profile = self._plan.profile
        return history.project(
            self._conversation, self._plan.dialect, nonce=self.nonce, media=profile.media, templates=self._templates
        )

    def _learn(self, contract: Contract) -> Contract:
        self.contract_tokens = contract.tokens
        self._note(contract.notes)
        self._examples = contract.examples
        self._listed_tools = contract.tools
        self.describe = contract.describe
        kit = self._kit
        self.readable_tools = kit.derive(_with_describing_tool) if contract.describe else kit.readable
        return contract

    def _listing_options(self) -> ListingOptions:
        """Return which tools must be listed in full, and how to ask for the others."""
        described = {name for each in self._described for name in each.names}
        used = {call.name for message in self._messages for call in message.calls}
        may_describe = len(self._described) < MAX_ROUNDS
        budget, window = self._settings.contract_budget, self._plan.profile.context_window
        return {
            "budget": min(budget, window // 2) if window else budget,
            "query": partial(_last_user_text, self._messages),
            "whole": frozenset(used | described),
            "describe": self._kit.derive(_describing_name) if may_describe else "",
            "templates": self._templates,
        }

    def describe_tools(self, reply: Reply) -> Note | None:
        """Answer the calls with which the model asks for descriptions of tools. Return a note, or None without one."""
        calls = [call for call in reply.calls if self.describe and call.name == self.describe]
        if not calls:
            return None
        described = describe_tools(calls, reply.text.strip(), self.offered_tools, len(self._described))
        self._described.append(described)
        return Note("tools_described", ", ".join(f"`{name}`" for name in described.names) or "no known tool")

    @property
    def _conversation(self) -> tuple[Message, ...]:
        """The messages, with the model's questions about tools."""
        return (*self._messages, *(message for each in self._described for message in each.messages))

    def _inline(self) -> Request:
        request, plan = self._request, self._plan
        contract = inline_contract(
            self.offered_tools,
            self._choice,
            plan.dialect,
            nonce=self.nonce,
            style=self._settings.contract,
            **self._listing_options(),
        )
        if request.options.response_format is not None:
            contract = _with_format(contract, request.options.response_format)
        self._learn(contract)
        projected = self._projected()
        messages = self._place(projected.messages, contract)
        constraint = self._constraint("inline")
        return self._bare(history.Projection(messages, projected.notes), self._inline_options(constraint))

    def _inline_options(self, constraint: Constraint | None) -> Options:
        """Return the options of an inline request. They are the same object if those of the client are."""
        own, stops, facts = self._request.options, self._stops(), self._facts()
        key = (id(own), stops, *facts.values())
        recent = None if constraint else _recent_options.get(key)
        if recent is not None:
            return recent[1]
        ours = ("stop",) if stops and not own.stop else ()
        options = msgspec.structs.replace(self._contract_options(constraint), stop=stops, dispensable=ours)
        if constraint is None and (source := encode_json(own)) is not None:
            _recent_options.keep(key, (own, options), len(source) + sum(map(len, facts["described_tools"])))
        return options

    def _stops(self) -> tuple[str, ...]:
        """Return the caller's stop sequences, plus one against invented tool results if the upstream allows it."""
        stops = self._request.options.stop
        if len(stops) >= self._plan.profile.max_stop:
            return stops
        return (*stops, history.stop_sequences(self._plan.dialect)[0])

    def _decision(self) -> Request:
        contract = self._learn(
            decision_contract(
                self.offered_tools,
                self._choice,
                nonce=self.nonce,
                done=history.since_last_user(self._conversation),
                **self._listing_options(),
            )
        )
        options = self._contract_options(self._constraint("decision"))
        profile = self._plan.profile
        messages = history.decision_messages(self._messages, contract.text)
        if not profile.system_role:
            messages = place(messages[1:], contract, system_role=False)
        projected = history.project(messages, self._plan.dialect, nonce=self.nonce, media=profile.media)
        projected = history.Projection(self._mark_cache(projected.messages, contract), projected.notes)
        return msgspec.structs.replace(self._bare(projected, options), stream=False)

    def _envelope(self) -> Request:
        contract = self._learn(
            envelope_contract(
                self.offered_tools,
                self._choice,
                nonce=self.nonce,
                style=self._settings.contract,
                **self._listing_options(),
            )
        )
        projected = self._projected()
        messages = self._place(projected.messages, contract)
        options = self._contract_options(self._constraint("envelope"))
        return self._bare(history.Projection(messages, projected.notes), options)

    def _contract_options(self, constraint: Constraint | None) -> Options:
        return msgspec.structs.replace(
            self._request.options,
            response_format=None,
            grammar={} if constraint is None else wire_options(constraint, self._protocol),
            frame=None if constraint is None else constraint.frame,
            **self._facts(),
        )

    def _facts(self) -> dict[str, Any]:
        """Return the options that describe the request to the upstream."""
        return {
            "described_tools": self._kit.derive_from_all(_names),
            "answered": history.is_answered(self._request.messages),
            "bound": self._choice.demands or self._request.options.response_format is not None,
        }

    def _place(self, messages: tuple[Message, ...], contract: Contract) -> tuple[Message, ...]:
        return self._mark_cache(place(messages, contract, system_role=self._plan.profile.system_role), contract)

    def _mark_cache(self, messages: tuple[Message, ...], contract: Contract) -> tuple[Message, ...]:
        return history.mark_cache_prefix(messages, contract.stable) if self._protocol == _MARKS_CACHE else messages

    def _constraint(self, phase: PhaseName) -> Constraint | None:
        """Return the constraint that makes the upstream enforce the format, or None if it cannot."""
        profile = self._plan.profile
        flavour = profile.constraint
        if not flavour:
            return None
        choice, response_format = self._choice, self._request.options.response_format
        if phase == "inline":
            constraint = inline_constraint(self._listed_tools, choice, flavour, self._plan.dialect, nonce=self.nonce)
        elif phase == "decision":
            constraint = decision_constraint(self._listed_tools, choice, flavour, nonce=self.nonce)
        else:
            schema = response_format and (_ANY_OBJECT if response_format.schema is None else response_format.schema)
            constraint = envelope_constraint(
                self._listed_tools, choice, flavour, schema, nonce=self.nonce, framed=profile.frames
            )
        if constraint is not None:  # else the dialect cannot be enforced: calls are only parsed and checked
            self._note(constraint.notes)
        return constraint

    def retry_request(self, phase: PhaseName, base: Request, answer: str, fault: Fault, attempt: int) -> Request:
        """Build a retry request that tells the model what was wrong and what to do."""
        last = attempt >= self._plan.retries
        text = instruction(fault, attempt, tools=self._listed_tools, example=self._example(phase, fault), last=last)
        messages = base.messages
        if fault.kind in _SHOW_ANSWER and answer.strip():
            excerpt = answer if len(answer) <= _MAX_ANSWER else f"{answer[:_MAX_ANSWER]} [...]"
            messages = (*messages, Message("assistant", (TextPart(excerpt),)))
        if base.options.described_tools:
            messages = history.alternate_roles(messages)
        return msgspec.structs.replace(base, messages=_append_user_text(messages, text))

    def _example(self, phase: PhaseName, fault: Fault) -> str:
        """Render an example call of the tool that the fault concerns, with placeholders of the right types."""
        if not self.offered_tools or phase == "native":
            return ""
        tools = (*self._listed_tools, *self.offered_tools)
        tool = next((each for each in tools if each.name == fault.name), tools[0])
        dialect = phase if phase in ("decision", "envelope") else self._plan.dialect
        return render_calls(dialect, [placeholder_call(tool)], self.nonce)


def _append_user_text(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """Append text to the last message if it is from the user, otherwise as a new user message.

    Some chat templates reject two user messages in a row. A single text part is extended, so it stays a single part.
    """
    if messages and messages[-1].role == "user":
        last = messages[-1]
        end = join_text_parts((*last.parts[-1:], TextPart(f"\n\n{text}")))
        return (*messages[:-1], msgspec.structs.replace(last, parts=(*last.parts[:-1], *end)))
    return (*messages, Message("user", (TextPart(text),)))


def _last_user_text(messages: tuple[Message, ...]) -> str:
    return next((message.text for message in reversed(messages) if message.role == "user" and message.text), "")


def _with_format(contract: Contract, response_format: ResponseFormat) -> Contract:
    """Ask for JSON in the prompt. The upstream cannot enforce it, because a call would not fit the format."""
    rule = format_rule(response_format, "When you answer without calling a tool, the")
    tail = f"{contract.tail.rstrip()}\n\n{rule}\n"
    tokens = contract.tokens + estimate_tokens(rule)
    return msgspec.structs.replace(contract, tail=tail, tokens=tokens, message=None)
