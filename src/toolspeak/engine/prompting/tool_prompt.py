"""The contract, or tool prompt: teaches a model to call tools with rules, a list of tools and an example call.

A contract fits a token budget and has two parts. `stable` contains the rules and the list of tools. It is identical for
identical tools, so prompt caches work. `tail` contains the parts that change between requests and conversations: the
example, the `tool_choice` rule and the nonce.

Contracts are cached by the identity of the tools, so schemas must not be modified once passed in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import msgspec

from ...core.text import estimate_tokens
from ...core.types import JSONValue, Message, Note, TextPart, Tool, ToolCall, ToolChoice, is_object
from ...dialects.registry import dialect as dialect_row
from ...errors import UsageError
from .escaping import calls_text, display_name, is_plain_name, join_text_parts, json_text, result_text, shorten
from .history import system_as_user, without_system
from .templates import Example, TemplateTexts, example_of, fill, resolve_templates, template_texts
from .tool_descriptions import describing_tool
from .tool_listing import (
    MAX_LITERAL,
    ListingDetail,
    ListingStyle,
    Vocabulary,
    declared_texts,
    relevance,
    signature,
    vocabulary,
)

#: Cache sizes: enough for about fifty agents, each with a few conversations at a time.
TOOLSET_CACHE_SIZE = 64
CONTRACT_CACHE_SIZE = 256
#: A small cache: a vocabulary takes about twenty times the memory of the tools' JSON, and few toolsets need one.
VOCABULARY_CACHE_SIZE = 8
#: Maximum JSON size of the tools in one cache entry. Coding agents send up to 75 kB.
MAX_CACHED_BYTES = 256 * 1024
#: Only this many characters per available token are counted at first. A longer text is nearly always over budget.
CHARS_PER_TOKEN = 8
#: Minimum tokens of a parameter in addition to its name: a line break or a pair of quotes, and a colon.
TOKENS_PER_PARAMETER = 2
#: How many tools that share words with the request are shortened only after all others have been left out.
MAX_RELEVANT = 8
#: Tokens reserved for the `tool_choice` rule and the nonce, so that the tool list does not depend on them.
RULE_RESERVE = 80
#: Maximum length of a result in the decision prompt. The model only has to judge whether the result is sufficient.
MAX_DONE_RESULT = 2000
#: Longer conversations get a reminder, because models forget a tool prompt after about 6,000 further tokens.
REMINDER_MESSAGES, REMINDER_CHARS = 16, 24_000
#: Kinds of tools that can be described in a prompt.
_KINDS = frozenset({"function", "custom"})


class Contract(msgspec.Struct, frozen=True):
    """The tool prompt of one request."""

    #: The rules and the list of tools, without the nonce.
    stable: str
    #: The example, the `tool_choice` rule and the nonce.
    tail: str
    #: The tools that the prompt lists.
    tools: tuple[Tool, ...]
    #: Estimated size of the prompt, in tokens.
    tokens: int
    notes: tuple[Note, ...] = ()
    #: Texts from which the model may copy a call: the example, and descriptions that contain code. The example is
    #: stored without the nonce, so that any parser recognises its call.
    examples: tuple[str, ...] = ()
    #: A short reminder of the call format, added at the end of long conversations.
    reminder: str = ""
    #: The prompt as a system message, which requests with the same contract share. None if `tail` was modified.
    message: Message | None = None
    #: The name of the built-in tool that describes tools, if the prompt offers it.
    describe: str = ""

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.stable + self.tail


# ---- tools

_Rung: TypeAlias = tuple[ListingStyle, ListingDetail]
#: Used if no generated example fits its tool's schema.
_FALLBACK_EXAMPLE = Example(ToolCall("NAME", {"PARAMETER": "VALUE"}), distinct=False)


class _Toolset:
    """Tools that can be described in a prompt. Compared by identity, which makes it a cheap cache key."""

    __slots__ = ("_costs", "_least", "_listings", "cacheable", "examples", "notes", "sample", "tools")

    def __init__(self, tools: tuple[Tool, ...], cacheable: bool) -> None:
        self.cacheable = cacheable
        self.tools, self.notes = _promptable(tools)
        self.sample = example_of(self.tools) or _FALLBACK_EXAMPLE
        self.examples = declared_texts(self.tools)
        self._least = [_least(tool) for tool in self.tools]
        #: A lower bound on the tokens of each tool, and whether it is exact.
        self._costs: dict[tuple[int, _Rung], tuple[int, bool]] = {}
        #: Rendered tools at the latest level of detail, which rarely changes between requests.
        self._listings: dict[int, tuple[_Rung, str]] = {}

    def cost(self, at: int, rung: _Rung, room: int) -> int:
        """Return the tokens that the tool at this position takes. If they exceed `room`, return a lower bound."""
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

    def listing(self, at: int, rung: _Rung) -> str:
        """Return the prompt text of the tool at this position."""
        latest = self._listings.get(at)
        if latest is None or latest[0] != rung:
            latest = self._listings[at] = rung, signature(self.tools[at], *rung)
        return latest[1]


def _least(tool: Tool) -> int:
    """Estimate the tokens of the parameter names, which are always listed."""
    table = tool.parameters.get("properties") if is_object(tool.parameters) else None
    if not is_object(table) or "$ref" in tool.parameters:
        return 1
    names = " ".join(name[: MAX_LITERAL - 1] for name in table)
    return estimate_tokens(" ".join(names.split())) + TOKENS_PER_PARAMETER * len(table)


def _promptable(tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], tuple[Note, ...]]:
    unique: dict[str, Tool] = {}
    notes: list[Note] = []
    for tool in tools:
        if tool.kind not in _KINDS:
            notes.append(
                Note("tool_kind_dropped", f"`{display_name(tool.name)}`: unsupported kind `{display_name(tool.kind)}`")
            )
        elif not is_plain_name(tool.name):
            notes.append(Note("tool_name_unusable", f"`{display_name(tool.name)}` cannot be shown in a prompt"))
        elif tool.name in unique:
            notes.append(Note("tool_duplicate", f"`{tool.name}` is declared more than once; the first one is used"))
        else:
            unique[tool.name] = tool
    return tuple(unique.values()), tuple(notes)


#: Toolsets of recent requests, by the identity of their tools. This avoids encoding the same tools again.
_recent: dict[tuple[int, ...], tuple[tuple[Tool, ...], _Toolset]] = {}


def _toolset(tools: tuple[Tool, ...]) -> _Toolset:
    identity = tuple(map(id, tools))
    cached = _recent.get(identity)
    if cached is not None:  # safe: the entry keeps the tools alive, so their ids are not reused
        return cached[1]
    try:
        source = msgspec.json.encode(tools)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError("the tools cannot be encoded as JSON", hint="use plain values in `parameters`") from error
    if len(source) > MAX_CACHED_BYTES:
        return _Toolset(tools, cacheable=False)
    toolset = _same_content(source)
    if len(_recent) >= TOOLSET_CACHE_SIZE:
        _recent.clear()
    _recent[identity] = (tools, toolset)
    return toolset


@lru_cache(maxsize=TOOLSET_CACHE_SIZE)
def _same_content(source: bytes) -> _Toolset:
    return _Toolset(msgspec.json.decode(source, type=tuple[Tool, ...]), cacheable=True)


# ---- budget

_COMPACT: tuple[_Rung, ...] = tuple(("compact", detail) for detail in ListingDetail)
_SCHEMA: tuple[_Rung, ...] = tuple(("schema", detail) for detail in ListingDetail)
#: Tool list formats to try, from the most detailed to the shortest. A decision prompt starts with whole schemas.
_LADDERS: dict[str, tuple[_Rung, ...]] = {
    "compact": _COMPACT,
    "schema": _SCHEMA,
    "decision": (*_SCHEMA[: ListingDetail.NO_NESTED_DESCRIPTIONS], *_COMPACT),
}
_DETAIL_TEXTS = {
    ListingDetail.ALL: "as signatures",
    ListingDetail.NO_EXAMPLES: "without examples",
    ListingDetail.NO_NESTED_DESCRIPTIONS: "without nested descriptions",
    ListingDetail.NO_PARAMETER_DESCRIPTIONS: "without descriptions of parameters",
    ListingDetail.FIRST_SENTENCES: "with one sentence each",
    ListingDetail.NO_DESCRIPTIONS: "without descriptions",
}


class _Kind(msgspec.Struct, frozen=True):
    """The names of the templates for one kind of tool prompt."""

    head: str
    example: str
    short: str
    mark: str
    reminder: str
    #: The dialect of the example. If empty, the example uses the dialect of the request.
    dialect: str = ""


_KIND_OF = {
    "inline": _Kind("inline", "example", "example_short", "mark", "reminder"),
    "decision": _Kind("decision", "decision_example", "decision_example", "mark_json", "reminder_json", "decision"),
    "envelope": _Kind("envelope", "envelope_example", "envelope_example", "mark_json", "reminder_json", "envelope"),
}


def _room(kind: str, toolset: _Toolset, dialect: str, budget: int, used: Mapping[str, str], *, short: bool) -> int:
    """Return how many tokens the tool list may take. `short`: with the short example."""
    example = _example(kind, toolset.sample.call, dialect, "xxxxxxxx", used, short=short)
    return budget - RULE_RESERVE - estimate_tokens(used[_KIND_OF[kind].head] + example)


@lru_cache(maxsize=CONTRACT_CACHE_SIZE)
def _fit(kind: str, toolset: _Toolset, ladder: str, dialect: str, budget: int, texts: TemplateTexts) -> bool:
    """Whether there is room for everything about every tool."""
    room = _room(kind, toolset, dialect, budget, resolve_templates(texts), short=False)
    return _fits(toolset, range(len(toolset.tools)), _LADDERS[ladder][0], room)


def _fits(toolset: _Toolset, positions: Sequence[int], rung: _Rung, room: int) -> bool:
    """Whether these tools fit into `room` tokens. Stops counting as soon as they do not."""
    for at in positions:
        if room < 0:
            break
        room -= toolset.cost(at, rung, room)
    return room >= 0


@lru_cache(maxsize=VOCABULARY_CACHE_SIZE)
def _vocabularies(toolset: _Toolset) -> list[Vocabulary]:
    return [vocabulary(tool) for tool in toolset.tools]


class _Focus(NamedTuple):
    """What matters if not everything fits."""

    #: The user's request. The tools that share the fewest words with it are shortened first.
    query: str = ""
    #: The names of the tools that are never shortened.
    whole: frozenset[str] = frozenset()
    #: The name of the built-in tool that describes tools, or an empty string if it is not offered.
    describe: str = ""


class _Listing(msgspec.Struct, frozen=True):
    """What a prompt says about the tools."""

    #: The detail of each tool that is listed, by position.
    rungs: dict[int, _Rung]
    #: The tools that are only named.
    named: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    #: Whether the example must be short, too.
    short: bool = False


class _Allotment:
    """Allots the tokens available for the tool list to the tools."""

    def __init__(self, toolset: _Toolset, room: int) -> None:
        self._toolset = toolset
        self._costs: dict[int, int] = {}
        self.room = room
        self.rungs: dict[int, _Rung] = {}
        self.names: dict[int, str] = {}

    def list_tool(self, at: int, rung: _Rung, *, always: bool = False) -> bool:
        """List a tool with this detail if there is room, or always. Return whether it was listed."""
        room = self.room + self._costs.get(at, 0)
        cost = self._toolset.cost(at, rung, room)
        if cost > room and not always:
            return False
        self.names.pop(at, None)
        self.room, self._costs[at], self.rungs[at] = room - cost, cost, rung
        return True

    def name_tools(self, positions: Sequence[int]) -> None:
        """Name tools on one line. A quarter of the room is left for descriptions of the most relevant ones."""
        least = self.room // 4
        for at in positions:
            name = self._toolset.tools[at].name
            cost = estimate_tokens(name) + 1
            if cost <= self.room - least and _fits_on_line(name):
                self.room, self._costs[at], self.names[at] = self.room - cost, cost, name


#: A name with white space, commas or quotes could not be told from its neighbours on a line, or read as a sentence.
_fits_on_line = re.compile(r"[^\s,;`'\"]+").fullmatch


def _shortened(
    kind: str,
    toolset: _Toolset,
    rungs: tuple[_Rung, ...],
    dialect: str,
    budget: int,
    focus: _Focus,
    texts: TemplateTexts,
) -> _Listing:
    """Shorten tools until they fit, the least relevant first and each only as far as needed. At last, leave tools out.

    This builds the list from its shortest form: every tool gets more detail, step by step, as long as there is room.
    The most relevant tools get all of theirs before the others do.
    """
    used = resolve_templates(texts)
    ranked = _ranked(toolset, focus.query)
    whole = [at for at, _ in ranked if toolset.tools[at].name in focus.whole]
    rest = [at for at, _ in ranked if toolset.tools[at].name not in focus.whole]
    relevant = [at for at, score in ranked if score and toolset.tools[at].name not in focus.whole][:MAX_RELEVANT]
    room = _room(kind, toolset, dialect, budget, used, short=False)
    allotment = _Allotment(toolset, room)
    for at in whole:
        allotment.list_tool(at, rungs[0], always=True)
    short = not _fits(toolset, rest, rungs[-1], allotment.room)
    if short:
        allotment.room += _room(kind, toolset, dialect, budget, used, short=True) - room
    if _fits(toolset, rest, rungs[-1], allotment.room):
        for at in rest:
            allotment.list_tool(at, rungs[-1])
    elif focus.describe:
        allotment.room -= estimate_tokens(_names_text((), focus.describe, rungs[0], used))
        allotment.name_tools(rest)
    if rest and not allotment.rungs:
        allotment.list_tool(rest[0], rungs[-1], always=True)
    first = set(relevant)
    for group in (relevant, [at for at in rest if at not in first]):
        for rung in reversed(rungs):
            group = [at for at in group if allotment.list_tool(at, rung)]
    notes = tuple(_shortening_notes(toolset, allotment, rungs[0], focus))
    return _Listing(dict(sorted(allotment.rungs.items())), tuple(allotment.names.values()), notes, short)


def _ranked(toolset: _Toolset, query: str) -> list[tuple[int, int]]:
    """Return the positions and scores of the tools, the most relevant first."""
    words = (_vocabularies if toolset.cacheable else _vocabularies.__wrapped__)(toolset)
    scores = [relevance(each, query) for each in words]
    return sorted(enumerate(scores), key=lambda each: (-each[1], each[0]))


def _shortening_notes(toolset: _Toolset, allotment: _Allotment, whole: _Rung, focus: _Focus) -> Iterator[Note]:
    rungs, tools = allotment.rungs, toolset.tools
    counts = Counter(rung for rung in rungs.values() if rung != whole)
    if counts:
        cuts = [f"{count} of {len(tools)} tools {_DETAIL_TEXTS[rung[1]]}" for rung, count in sorted(counts.items())]
        yield Note("contract_shortened", "; ".join(cuts))
    if allotment.names:
        yield Note("tools_only_named", f"no room to describe {_quoted(allotment.names.values())}")
    missing = [tool.name for at, tool in enumerate(tools) if at not in rungs and at not in allotment.names]
    if missing:
        yield Note("tools_left_out", f"no room for {_quoted(missing)}")
    if allotment.room < 0:
        fixed = [tools[at].name for at in rungs if tools[at].name in focus.whole]
        why = "in use, so they stay whole, but they exceed" if fixed else "the only ones listed, but they exceed"
        names = _quoted(fixed or [tools[at].name for at in rungs])
        yield Note("contract_over_budget", f"{names}: {why} the token budget")


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _names_text(names: tuple[str, ...], describe: str, rung: _Rung, used: Mapping[str, str]) -> str:
    """List the tool that describes tools, and name the tools that can be asked for."""
    line = fill(used["more_tools"], {"names": ", ".join(names), "describe": describe})
    return f"{signature(describing_tool(describe), *rung)}\n\n{line}"


# ---- the parts of the tail

_RESULT = "(what the tool returned)"


def _example(
    kind: str, call: ToolCall, dialect: str, nonce: str | None, used: Mapping[str, str], *, short: bool
) -> str:
    row = _KIND_OF[kind]
    values = {
        "tool": call.name,
        "call": calls_text(row.dialect or dialect, (call,), nonce),
        "result": result_text(dialect, _RESULT, nonce) if kind == "inline" else "",
        "none": _no_call(kind, nonce),
    }
    return fill(used[row.short if short else row.example], values)


def _no_call(kind: str, nonce: str | None) -> str:
    """Render the JSON document that makes no calls."""
    signed: dict[str, JSONValue] = {} if nonce is None else {"nonce": nonce}
    body: dict[str, JSONValue] = {"tools": []} if kind == "decision" else {"calls": [], "reply": ""}
    return json_text({**signed, **body})


def _rule(choice: ToolChoice, used: Mapping[str, str]) -> str:
    """Express `tool_choice` as a rule in words."""
    names = [display_name(name) for name in choice.allowed]
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
    """Render calls with their results as JSON, one per line, so that no result looks like an instruction."""
    results = {result.id: result for message in messages for result in message.results}
    calls = [call for message in messages for call in message.calls]
    rows: list[str] = []
    for call in calls:
        row: dict[str, JSONValue] = {"name": call.name, "arguments": call.arguments}
        result = results.get(call.id)
        if result is not None:
            row["error" if result.error else "result"] = shorten(result.content, MAX_DONE_RESULT)
        rows.append(json_text(row))
    return "\n".join(rows)


# ---- contracts


@lru_cache(maxsize=CONTRACT_CACHE_SIZE)
def _contract(
    kind: str,
    toolset: _Toolset,
    choice: ToolChoice,
    ladder: str,
    dialect: str,
    nonce: str | None,
    budget: int,
    focus: _Focus | None,
    texts: TemplateTexts,
) -> Contract:
    """Build a contract. `focus`: None if everything fits."""
    used, row, rungs = resolve_templates(texts), _KIND_OF[kind], _LADDERS[ladder]
    if focus is None:
        listing = _Listing(dict.fromkeys(range(len(toolset.tools)), rungs[0]))
    else:
        listing = _shortened(kind, toolset, rungs, dialect, budget, focus, texts)
    tools = tuple(toolset.tools[at] for at in listing.rungs)
    lines = [toolset.listing(at, rung) for at, rung in listing.rungs.items()]
    sample = toolset.sample if len(tools) == len(toolset.tools) else example_of(tools) or _FALLBACK_EXAMPLE
    describe = focus.describe if focus is not None and listing.named else ""
    if describe:
        tools = (*tools, describing_tool(describe))
        lines.append(_names_text(listing.named, describe, rungs[0], used))
    stable = fill(used[row.head], {"tools": "\n".join(lines)})
    mark = "" if nonce is None else " " + fill(used[row.mark], {"nonce": nonce})
    example = _example(kind, sample.call, dialect, nonce, used, short=listing.short)
    tail = f"{example}\n{_rule(choice, used)}{mark}\n"
    example_dialect, example_calls = row.dialect or dialect, (sample.call,)
    return Contract(
        stable,
        tail,
        tools,
        estimate_tokens(stable + tail),
        (*toolset.notes, *listing.notes),
        (*((calls_text(example_dialect, example_calls, None),) if sample.distinct else ()), *toolset.examples),
        fill(used[row.reminder], {"call": calls_text(example_dialect, example_calls, nonce)}),
        _prompt(stable + tail),
        describe,
    )


#: The user's request, or a function that returns it. It is needed only if some tools must be shortened.
Query: TypeAlias = str | Callable[[], str]
#: Contracts of recent requests, by the identity of their tools and all other inputs. Entries keep the tools alive.
_recent_contracts: dict[tuple[object, ...], tuple[Sequence[Tool], Contract]] = {}


def _cached_contract(
    kind: str,
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    ladder: str,
    dialect: str,
    nonce: str | None,
    budget: int,
    query: Query,
    whole: frozenset[str],
    describe: str,
    templates: Mapping[str, str] | None,
) -> Contract:
    texts = template_texts(templates)
    key = (kind, id(tools), choice, ladder, dialect, nonce, budget, texts)
    cached = _recent_contracts.get(key)
    if cached is not None:
        return cached[1]
    dialect_row(dialect)
    toolset = _toolset(tuple(tools))
    # An uncacheable toolset must not become a cache key.
    fit, build = (_fit, _contract) if toolset.cacheable else (_fit.__wrapped__, _contract.__wrapped__)
    if not fit(kind, toolset, ladder, dialect, budget, texts):
        focus = _Focus(query if isinstance(query, str) else query(), whole.union(choice.allowed), describe)
        return build(kind, toolset, choice, ladder, dialect, nonce, budget, focus, texts)
    contract = build(kind, toolset, choice, ladder, dialect, nonce, budget, None, texts)
    if toolset.cacheable:
        if len(_recent_contracts) >= CONTRACT_CACHE_SIZE:
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
    whole: frozenset[str] = frozenset(),
    describe: str = "",
    templates: Mapping[str, str] | None = None,
) -> Contract:
    """Build the tool prompt of the inline plan: the model answers in text or writes calls in this dialect.

    Args:
        tools: the tools to offer.
        choice: the caller's tool choice.
        dialect: the format of a call.
        nonce: the word that calls must carry.
        style: short signatures, or whole JSON schemas.
        budget: maximum size of the prompt, in estimated tokens.
        query: the user's request, or a function that returns it, used to shorten the least relevant tools first.
        whole: names of tools that are never shortened, such as those that the conversation has used.
        describe: the name of the built-in tool with which the model can ask for tools that are left out.
        templates: custom templates that override `templates.TEMPLATES`.
    """
    return _cached_contract("inline", tools, choice, style, dialect, nonce, budget, query, whole, describe, templates)


def decision_contract(
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    *,
    nonce: str | None = None,
    done: tuple[Message, ...] = (),
    budget: int,
    query: Query = "",
    whole: frozenset[str] = frozenset(),
    describe: str = "",
    templates: Mapping[str, str] | None = None,
) -> Contract:
    """Build the tool prompt of the decision plan: the model only writes a JSON document with the tools to call.

    `done`: the messages since the user's last message. The prompt lists their calls so that they are not repeated.
    """
    contract = _cached_contract(
        "decision", tools, choice, "decision", "decision", nonce, budget, query, whole, describe, templates
    )
    data = _done(done)
    if not data:
        return contract
    tail = fill(resolve_templates(template_texts(templates))["done"], {"done": data}) + contract.tail
    tokens = estimate_tokens(contract.stable + tail)
    return msgspec.structs.replace(contract, tail=tail, tokens=tokens, message=None)


def envelope_contract(
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    *,
    nonce: str | None = None,
    budget: int,
    style: ListingStyle = "compact",
    query: Query = "",
    whole: frozenset[str] = frozenset(),
    describe: str = "",
    templates: Mapping[str, str] | None = None,
) -> Contract:
    """Build the tool prompt of the envelope plan: the model writes one JSON document with calls or a reply."""
    return _cached_contract(
        "envelope", tools, choice, style, "envelope", nonce, budget, query, whole, describe, templates
    )


# ---- placement


def place(messages: tuple[Message, ...], contract: Contract, *, system_role: bool = True) -> tuple[Message, ...]:
    """Insert the tool prompt into the messages.

    It follows the caller's system text, so that a cached prefix remains valid. For models without a system role, both
    are put at the beginning of the first user message.
    """
    prompted = _in_system(messages, contract) if system_role else _in_user(messages, contract.text)
    return _with_reminder(prompted, contract.reminder) if _is_long(messages) else prompted


def _in_system(messages: tuple[Message, ...], contract: Contract) -> tuple[Message, ...]:
    leading = _leading(messages)
    rest = system_as_user(messages[leading:])
    if leading == 0:
        return (contract.message or _prompt(contract.text), *rest)
    last = messages[leading - 1]
    return (*messages[: leading - 1], _append_text(last, contract.text), *rest)


def _prompt(text: str) -> Message:
    return Message("system", (TextPart(text),))


def _in_user(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    leading = _leading(messages)
    return without_system((*messages[:leading], _prompt(text), *messages[leading:]))


def _leading(messages: tuple[Message, ...]) -> int:
    """Count the system messages at the start."""
    for at, message in enumerate(messages):
        if message.role != "system":
            return at
    return len(messages)


def _append_text(message: Message, text: str) -> Message:
    gap = "\n\n" if message.parts else ""
    return msgspec.structs.replace(message, parts=join_text_parts((*message.parts, TextPart(gap + text))))


def _is_long(messages: tuple[Message, ...]) -> bool:
    if len(messages) > REMINDER_MESSAGES:
        return True
    size = 0
    for message in messages:
        for part in message.parts:
            if isinstance(part, TextPart):
                size += len(part.text)
    return size > REMINDER_CHARS


def _with_reminder(messages: tuple[Message, ...], reminder: str) -> tuple[Message, ...]:
    """Append the reminder to a final user message. A final assistant message stays last: the model continues it."""
    if messages[-1].role != "user":
        return messages
    return (*messages[:-1], _append_text(messages[-1], reminder))
