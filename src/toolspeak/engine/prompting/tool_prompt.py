"""The prompt that teaches a model to call tools: rules, tools, a worked example, all within a budget.

A contract has two halves. `stable` holds the rules and the list of tools; it is the same, byte for byte, for the
same tools, so that prompt caches hold. `tail` holds what changes from request to request and from conversation
to conversation: the example, what `tool_choice` demands, and the mark that calls must carry. It comes last.

Contracts are kept: the same tools give the same object. Treat the schemas of tools as read-only once they have
been passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

from ...core.tokens import estimate_tokens
from ...core.types import JSONValue, Message, Note, TextPart, Tool, ToolCall, ToolChoice, is_object
from ...dialects.registry import dialect as dialect_row
from ...errors import UsageError
from .escaping import joined, json_text, plain_name, result_text, shortened, shown_name, written
from .few_shot import Example, Texts, checked, example_of, fill, texts_of
from .signatures import MAX_LITERAL, Detail, ListingStyle, Vocabulary, declared_texts, relevance, signature, vocabulary

#: Sets of tools and contracts that are kept: some fifty agents, each with a few conversations at a time.
KEPT_TOOLSETS = 64
KEPT_CONTRACTS = 256
#: Sets of tools that there is no room for whose words are kept; they take some twenty times their JSON.
KEPT_VOCABULARIES = 8
#: Declarations larger than this are not kept; coding agents send up to 75 kB.
MAX_KEPT_BYTES = 256 * 1024
#: A text of more characters for each token that there is room for is mostly too long: its beginning tells.
CHARS_PER_TOKEN = 8
#: A parameter takes a line, or a pair of quotes, and a colon on top of its name.
TOKENS_PER_PARAMETER = 2
#: Tokens set aside for the rule of `tool_choice` and the mark, so that neither changes what is said of the tools.
RULE_RESERVE = 80
#: How much of a result the decision prompt repeats. It is asked only whether the result is enough.
MAX_DONE_RESULT = 2000
#: A conversation with more messages or more characters than this gets a reminder: models forget a contract that
#: stands some 6,000 tokens before their answer.
REMINDER_MESSAGES, REMINDER_CHARS = 16, 24_000
#: Kinds of tools that a prompt can teach.
_KINDS = frozenset({"function", "custom"})


class Contract(msgspec.Struct, frozen=True):
    """What is said to a model so that it calls tools."""

    #: Rules and tools, without the nonce.
    stable: str
    #: The example, the rule of `tool_choice` and the mark.
    tail: str
    #: The tools that it speaks of.
    tools: tuple[Tool, ...]
    #: What it costs, as estimated.
    tokens: int
    notes: tuple[Note, ...] = ()
    #: Texts of the contract from which a call may be copied: its own example (without the nonce, so that any
    #: reader finds the call in it), and code in descriptions.
    examples: tuple[str, ...] = ()
    #: What is said again near the end of long conversations.
    reminder: str = ""
    #: The prompt as a message of its own, where it is kept: many records share it.
    message: Message | None = None

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.stable + self.tail


# ---- tools

_Rung: TypeAlias = tuple[ListingStyle, Detail]
#: Shown where no tool gives an example that fits its own schema.
_NOBODY = Example(ToolCall("NAME", {"PARAMETER": "VALUE"}), distinct=False)


class _Toolset:
    """Tools that a prompt can teach. Compared by identity, so that it is cheap as a key."""

    __slots__ = ("_costs", "_least", "_written", "examples", "kept", "notes", "sample", "tools")

    def __init__(self, tools: tuple[Tool, ...], kept: bool) -> None:
        self.kept = kept
        self.tools, self.notes = _promptable(tools)
        self.sample = example_of(self.tools) or _NOBODY
        self.examples = declared_texts(self.tools)
        self._least = [_least(tool) for tool in self.tools]
        #: What tools take at least, and whether it is all that they take.
        self._costs: dict[tuple[int, _Rung], tuple[int, bool]] = {}
        #: As they were listed last: what is left out changes with the request, how it is written seldom does.
        self._written: tuple[_Rung | None, dict[int, str]] = None, {}

    def cost(self, at: int, rung: _Rung, room: int) -> int:
        """How many tokens the tool at this place takes; if that is more than there is room for, perhaps a part."""
        tokens, whole = self._costs.get((at, rung), (self._least[at], False))
        if whole or tokens > room:
            return tokens
        text = signature(self.tools[at], *rung)
        head = text[: CHARS_PER_TOKEN * max(room, 0)]
        tokens, whole = estimate_tokens(head) + 1, len(head) == len(text)
        if tokens <= room and not whole:
            tokens, whole = estimate_tokens(text) + 1, True
        self._costs[at, rung] = tokens, whole
        return tokens

    def listed(self, at: int, rung: _Rung) -> str:
        """The tool at this place as it is listed."""
        if self._written[0] != rung:
            self._written = rung, {}
        texts = self._written[1]
        if at not in texts:
            texts[at] = signature(self.tools[at], *rung)
        return texts[at]


def _least(tool: Tool) -> int:
    """How many tokens the names of the parameters take, which are always listed."""
    table = tool.parameters.get("properties") if is_object(tool.parameters) else None
    if not is_object(table) or "$ref" in tool.parameters:
        return 1
    names = " ".join(name[: MAX_LITERAL - 1] for name in table)
    return estimate_tokens(" ".join(names.split())) + TOKENS_PER_PARAMETER * len(table)


def _promptable(tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], tuple[Note, ...]]:
    found: dict[str, Tool] = {}
    notes: list[Note] = []
    for tool in tools:
        if tool.kind not in _KINDS:
            notes.append(Note("tool_kind_dropped", f"`{shown_name(tool.name)}` is of kind `{shown_name(tool.kind)}`"))
        elif not plain_name(tool.name):
            notes.append(Note("tool_name_unusable", f"`{shown_name(tool.name)}` cannot be shown in a prompt"))
        elif tool.name in found:
            notes.append(Note("tool_duplicate", f"`{tool.name}` is declared more than once; the first counts"))
        else:
            found[tool.name] = tool
    return tuple(found.values()), tuple(notes)


#: The tools of recent requests by the identity of each, so that a set that comes again costs no look inside.
_recent: dict[tuple[int, ...], tuple[tuple[Tool, ...], _Toolset]] = {}


def _toolset(tools: tuple[Tool, ...]) -> _Toolset:
    identity = tuple(map(id, tools))
    known = _recent.get(identity)
    if known is not None:  # it holds the tools, so their identities belong to nobody else
        return known[1]
    try:
        source = msgspec.json.encode(tools)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError("the tools are not JSON", hint="use plain values in `parameters`") from error
    if len(source) > MAX_KEPT_BYTES:
        return _Toolset(tools, kept=False)
    toolset = _same_content(source)
    if len(_recent) >= KEPT_TOOLSETS:
        _recent.clear()
    _recent[identity] = (tools, toolset)
    return toolset


@lru_cache(maxsize=KEPT_TOOLSETS)
def _same_content(source: bytes) -> _Toolset:
    return _Toolset(msgspec.json.decode(source, type=tuple[Tool, ...]), kept=True)


# ---- what fits

_COMPACT: tuple[_Rung, ...] = tuple(("compact", detail) for detail in Detail)
_SCHEMA: tuple[_Rung, ...] = tuple(("schema", detail) for detail in Detail)
#: What is tried, from the fullest to the shortest. A decision begins with whole schemas.
_LADDERS: dict[str, tuple[_Rung, ...]] = {
    "compact": _COMPACT,
    "schema": _SCHEMA,
    "decision": (*_SCHEMA[: Detail.NO_NESTED_DESCRIPTIONS], *_COMPACT),
}
_CUTS = {
    Detail.ALL: "whole schemas",
    Detail.NO_EXAMPLES: "examples",
    Detail.NO_NESTED_DESCRIPTIONS: "examples, nested descriptions",
    Detail.NO_PARAMETER_DESCRIPTIONS: "examples, descriptions of parameters",
    Detail.FIRST_SENTENCES: "examples, descriptions of parameters, all but the first sentence of descriptions of tools",
    Detail.NO_DESCRIPTIONS: "examples, all descriptions",
}


class _Kind(msgspec.Struct, frozen=True):
    """What one kind of contract is made of, by the names of its templates."""

    head: str
    example: str
    short: str
    mark: str
    reminder: str
    #: The dialect that the example is written in; empty: the one that is asked for.
    dialect: str = ""


_KIND_OF = {
    "inline": _Kind("inline", "example", "example_short", "mark", "reminder"),
    "decision": _Kind("decision", "decision_example", "decision_example", "mark_json", "reminder_json", "decision"),
    "envelope": _Kind("envelope", "envelope_example", "envelope_example", "mark_json", "reminder_json", "envelope"),
}


class _Fit(msgspec.Struct, frozen=True):
    """How much is said of each tool, and whether even the least is too much."""

    rung: _Rung
    room: int
    over: bool
    notes: tuple[Note, ...]


@lru_cache(maxsize=KEPT_CONTRACTS)
def _fit(kind: str, toolset: _Toolset, ladder: str, dialect: str, budget: int, texts: Texts) -> _Fit:
    rungs = _LADDERS[ladder]
    used = checked(texts)
    room = 0
    for rung in rungs:
        shell = used[_KIND_OF[kind].head] + _example(kind, rung[1], toolset.sample.call, dialect, "xxxxxxxx", used)
        room = budget - RULE_RESERVE - estimate_tokens(shell)
        if _fits(toolset, rung, room):
            cut = () if rung is rungs[0] else (Note("contract_shortened", f"left out: {_CUTS[rung[1]]}"),)
            return _Fit(rung, room, False, cut)
    return _Fit(rungs[-1], room, True, (Note("contract_shortened", f"left out: {_CUTS[rungs[-1][1]]}"),))


def _fits(toolset: _Toolset, rung: _Rung, room: int) -> bool:
    """Whether there is room for all tools; no more are written than it takes to know."""
    for at in range(len(toolset.tools)):
        if room < 0:
            break
        room -= toolset.cost(at, rung, room)
    return room >= 0


@lru_cache(maxsize=KEPT_VOCABULARIES)
def _vocabularies(toolset: _Toolset) -> list[Vocabulary]:
    return [vocabulary(tool) for tool in toolset.tools]


def _chosen(toolset: _Toolset, fit: _Fit, choice: ToolChoice, query: str) -> tuple[Sequence[int], tuple[Note, ...]]:
    """The places of the tools that there is room for: those that must be called first, then by what they share with
    the request."""
    if not fit.over:
        return range(len(toolset.tools)), ()
    words = (_vocabularies if toolset.kept else _vocabularies.__wrapped__)(toolset)
    order = sorted(
        range(len(toolset.tools)),
        key=lambda at: (toolset.tools[at].name not in choice.allowed, -relevance(words[at], query), at),
    )
    kept: set[int] = set()
    room = fit.room
    for at in order:
        cost = toolset.cost(at, fit.rung, room)
        if cost <= room or not kept:
            kept.add(at)
            room -= cost
    left = [tool.name for at, tool in enumerate(toolset.tools) if at not in kept]
    notes = [Note("tools_left_out", f"no room for {', '.join(f'`{name}`' for name in left)}")] if left else []
    places = sorted(kept)
    if room < 0 and places:
        alone = toolset.tools[places[0]].name
        notes.append(Note("contract_over_budget", f"`{alone}` alone takes more than there is"))
    return places, tuple(notes)


# ---- the parts of the tail

_RESULT = "(what the tool returned)"


def _example(
    kind: str, detail: Detail, call: ToolCall, dialect: str, nonce: str | None, used: Mapping[str, str]
) -> str:
    row = _KIND_OF[kind]
    values = {
        "tool": call.name,
        "call": written(row.dialect or dialect, (call,), nonce),
        "result": result_text(dialect, _RESULT, nonce) if kind == "inline" else "",
        "none": _no_call(kind, nonce),
    }
    return fill(used[row.example if detail < Detail.NO_EXAMPLES else row.short], values)


def _no_call(kind: str, nonce: str | None) -> str:
    """The document that calls nothing."""
    signed: dict[str, JSONValue] = {} if nonce is None else {"nonce": nonce}
    body: dict[str, JSONValue] = {"tools": []} if kind == "decision" else {"calls": [], "reply": ""}
    return json_text({**signed, **body})


def _rule(choice: ToolChoice, used: Mapping[str, str]) -> str:
    """What `tool_choice` demands, in words."""
    names = [shown_name(name) for name in choice.allowed]
    if choice.mode == "none":
        return used["none"]
    if choice.mode == "named":
        return fill(used["named"], {"name": names[0] if names else "the tool"})
    rules = [used["required"]] if choice.mode == "required" else []
    if names:
        rules.append(fill(used["subset"], {"names": ", ".join(names)}))
    rules.append(used["single" if choice.single else "several"])
    return " ".join(rules)


def _done(messages: tuple[Message, ...]) -> str:
    """Calls and their results as JSON, a line for each: nothing in them can be taken for an instruction of ours."""
    results = {result.id: result for message in messages for result in message.results}
    calls = [call for message in messages for call in message.calls]
    rows: list[str] = []
    for call in calls:
        row: dict[str, JSONValue] = {"name": call.name, "arguments": call.arguments}
        result = results.get(call.id)
        if result is not None:
            row["error" if result.error else "result"] = shortened(result.content, MAX_DONE_RESULT)
        rows.append(json_text(row))
    return "\n".join(rows)


# ---- contracts


@lru_cache(maxsize=KEPT_CONTRACTS)
def _contract(
    kind: str,
    toolset: _Toolset,
    choice: ToolChoice,
    ladder: str,
    dialect: str,
    nonce: str | None,
    budget: int,
    query: str,
    texts: Texts,
) -> Contract:
    used, row = checked(texts), _KIND_OF[kind]
    # What is not kept is not kept as a key either.
    fit = (_fit if toolset.kept else _fit.__wrapped__)(kind, toolset, ladder, dialect, budget, texts)
    places, left_out = _chosen(toolset, fit, choice, query)
    tools = tuple(toolset.tools[at] for at in places)
    listing = "\n".join(toolset.listed(at, fit.rung) for at in places)
    stable = fill(used[row.head], {"tools": listing})
    mark = "" if nonce is None else " " + fill(used[row.mark], {"nonce": nonce})
    sample = toolset.sample if not left_out else example_of(tools) or _NOBODY
    tail = f"{_example(kind, fit.rung[1], sample.call, dialect, nonce, used)}\n{_rule(choice, used)}{mark}\n"
    spoken, shown = row.dialect or dialect, (sample.call,)
    return Contract(
        stable,
        tail,
        tools,
        estimate_tokens(stable + tail),
        (*toolset.notes, *fit.notes, *left_out),
        (*((written(spoken, shown, None),) if sample.distinct else ()), *toolset.examples),
        fill(used[row.reminder], {"call": written(spoken, shown, nonce)}),
        _prompt(stable + tail),
    )


#: The request, or what finds it: it matters only where something must be left out.
Query: TypeAlias = str | Callable[[], str]
#: Contracts of recent requests by the identity of their tools, which each row holds, and by all else that counts.
_recent_contracts: dict[tuple[object, ...], tuple[Sequence[Tool], Contract]] = {}


def _made(
    kind: str,
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    ladder: str,
    dialect: str,
    nonce: str | None,
    budget: int,
    query: Query,
    templates: Mapping[str, str] | None,
) -> Contract:
    texts = texts_of(templates)
    key = (kind, id(tools), choice, ladder, dialect, nonce, budget, texts)
    known = _recent_contracts.get(key)
    if known is not None:
        return known[1]
    dialect_row(dialect)
    toolset = _toolset(tuple(tools))
    fit, build = (_fit, _contract) if toolset.kept else (_fit.__wrapped__, _contract.__wrapped__)
    if fit(kind, toolset, ladder, dialect, budget, texts).over:
        asked = query if isinstance(query, str) else query()
        return build(kind, toolset, choice, ladder, dialect, nonce, budget, asked, texts)
    contract = build(kind, toolset, choice, ladder, dialect, nonce, budget, "", texts)
    if toolset.kept:
        if len(_recent_contracts) >= KEPT_CONTRACTS:
            _recent_contracts.clear()
        _recent_contracts[key] = (tools, contract)
    return contract


def inline_contract(
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    dialect: str,
    *,
    nonce: str | None = None,
    style: ListingStyle = "compact",
    budget: int,
    query: Query = "",
    templates: Mapping[str, str] | None = None,
) -> Contract:
    """The contract of the one-pass plan: the model answers, or calls in this dialect.

    Args:
        tools: what it may call.
        choice: what the caller demands.
        dialect: the format of a call.
        nonce: the mark that calls must carry.
        style: short signatures, or whole JSON schemas.
        budget: tokens that it may take, as estimated.
        query: the request, or what finds it; what is left out for want of room has least in common with it.
        templates: texts of the caller's own, see `TEMPLATES`.
    """
    return _made("inline", tools, choice, style, dialect, nonce, budget, query, templates)


def decision_contract(
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    *,
    nonce: str | None = None,
    done: tuple[Message, ...] = (),
    budget: int,
    query: str = "",
    templates: Mapping[str, str] | None = None,
) -> Contract:
    """The contract of the two-phase plan: nothing but the document that says which tools are called.

    `done` are the messages since the user's last one: calls and results that need not be asked for again.
    """
    contract = _made("decision", tools, choice, "decision", "decision", nonce, budget, query, templates)
    data = _done(done)
    if not data:
        return contract
    tail = fill(checked(texts_of(templates))["done"], {"done": data}) + contract.tail
    tokens = estimate_tokens(contract.stable + tail)
    return msgspec.structs.replace(contract, tail=tail, tokens=tokens, message=None)


def envelope_contract(
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    *,
    nonce: str | None = None,
    budget: int,
    style: ListingStyle = "compact",
    query: str = "",
    templates: Mapping[str, str] | None = None,
) -> Contract:
    """The contract of the constrained plan: one document that holds the calls, or the reply."""
    return _made("envelope", tools, choice, style, "envelope", nonce, budget, query, templates)


# ---- placement


def place(messages: tuple[Message, ...], contract: Contract, *, system_role: bool = True) -> tuple[Message, ...]:
    """The messages with the contract in them.

    It stands behind the caller's own system text, so that what the caller keeps stable stays a prefix. Models
    without a system role read both at the beginning of the first user message.
    """
    placed = _in_system(messages, contract) if system_role else _in_user(messages, contract.text)
    return _reminded(placed, contract.reminder) if _is_long(messages) else placed


def _in_system(messages: tuple[Message, ...], contract: Contract) -> tuple[Message, ...]:
    leading = _leading(messages)
    rest = _without_system(messages[leading:])
    if leading == 0:
        return (contract.message or _prompt(contract.text), *rest)
    last = messages[leading - 1]
    return (*messages[: leading - 1], _appended(last, contract.text), *rest)


def _prompt(text: str) -> Message:
    return Message("system", (TextPart(text),))


def _in_user(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    leading = _leading(messages)
    system = [message.text for message in messages[:leading] if message.text]
    rest = _without_system(messages[leading:])
    head = "\n\n".join([*system, text])
    if not rest or rest[0].role != "user":
        return (Message("user", (TextPart(head),)), *rest)
    first = rest[0]
    begun = msgspec.structs.replace(first, parts=joined((TextPart(f"{head}\n---\n\n"), *first.parts)))
    return (begun, *rest[1:])


def _without_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Behind the beginning, what the system says is said by the user: many templates take it nowhere else."""
    if "system" not in [message.role for message in messages]:
        return messages
    return tuple(
        msgspec.structs.replace(message, role="user") if message.role == "system" else message for message in messages
    )


def _leading(messages: tuple[Message, ...]) -> int:
    """How many system messages stand at the beginning."""
    for at, message in enumerate(messages):
        if message.role != "system":
            return at
    return len(messages)


def _appended(message: Message, text: str) -> Message:
    gap = "\n\n" if message.parts else ""
    return msgspec.structs.replace(message, parts=joined((*message.parts, TextPart(gap + text))))


def _is_long(messages: tuple[Message, ...]) -> bool:
    if len(messages) > REMINDER_MESSAGES:
        return True
    size = 0
    for message in messages:
        for part in message.parts:
            if isinstance(part, TextPart):
                size += len(part.text)
    return size > REMINDER_CHARS


def _reminded(messages: tuple[Message, ...], reminder: str) -> tuple[Message, ...]:
    """The reminder is the last thing the model reads, unless it is the model's own turn that goes on."""
    if messages[-1].role != "user":
        return messages
    return (*messages[:-1], _appended(messages[-1], reminder))
