"""The contract, or tool prompt: teaches a model to call tools with rules, a list of tools and an example call.

A contract fits a token budget and has two parts. `stable` contains the rules and the list of tools. It is identical for
identical tools, so prompt caches work, unless `tool_budget` has to shorten the list. `tail` contains the parts that
change between requests and conversations: the example, the `tool_choice` rule and the nonce.

Contracts are cached by the identity of the tools, so schemas must not be modified once passed in.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Required, TypeAlias, TypedDict, Unpack

import msgspec

from ...core.bounded_cache import BoundedCache, bounded_cache
from ...core.text import estimate_tokens
from ...core.types import JSONValue, Message, Note, TextPart, Tool, ToolCall, ToolChoice
from ...dialects.registry import dialect as dialect_row
from ..context.shortening import shorten
from .escaping import calls_text, display_name, join_text_parts, json_text, result_text
from .history import leading_system_messages, system_as_user, without_system
from .templates import TemplateTexts, example_of, fill, resolve_templates, template_texts
from .tool_budget import (
    FALLBACK_EXAMPLE,
    LADDERS,
    Focus,
    Listing,
    Room,
    Rung,
    Toolset,
    fits,
    shortened_listing,
    toolset_of,
)
from .tool_descriptions import describing_tool
from .tool_listing import ListingStyle, signature

#: Maximum size of the tools and prompts in a cache: enough for about fifty agents with a few conversations each.
_MAX_CACHED_TOTAL = 4 * 1024 * 1024
#: Contracts are built with this nonce and then get the one of their conversation.
_SAMPLE_NONCE = "bd4gh7k"
#: Tokens reserved for the `tool_choice` rule and the nonce, so that the tool list does not depend on them.
RULE_RESERVE = 80
#: Maximum length of a result in the decision prompt. The model only has to judge whether the result is sufficient.
MAX_DONE_RESULT = 2000
#: Longer conversations get a reminder, because models forget a tool prompt after about 6,000 further tokens.
REMINDER_MESSAGES, REMINDER_CHARS = 16, 24_000


class Contract(msgspec.Struct, frozen=True, gc=False):
    """The tool prompt of one request."""

    #: The rules and the list of tools, without the nonce.
    stable: str
    #: The example, the `tool_choice` rule and the nonce.
    tail: str
    #: The tools that the prompt lists, including the built-in one.
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
    #: Whether the sample nonce also occurs as a part of something else.
    unmarked_sample: bool = False

    @property
    def text(self) -> str:
        return self.stable + self.tail


class _Kind(msgspec.Struct, frozen=True):
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


def _room(kind: str, toolset: Toolset, dialect: str, budget: int, used: Mapping[str, str], *, short: bool) -> int:
    """Return how many tokens the tool list may take. `short`: with the short example."""
    example = _example(kind, toolset.sample.call, dialect, "xxxxxxxx", used, short=short)
    return budget - RULE_RESERVE - estimate_tokens(used[_KIND_OF[kind].head] + example)


def _size(result: Contract | bool, kind: str, toolset: Toolset, *rest: object) -> int:
    """Return the size of a cached value and of the tools that its entry keeps alive."""
    return toolset.size + (2 * len(result.text) if isinstance(result, Contract) else 0)


@bounded_cache(_MAX_CACHED_TOTAL, _size)
def _fit(kind: str, toolset: Toolset, ladder: str, dialect: str, budget: int, texts: TemplateTexts) -> bool:
    """Whether there is room for everything about every tool."""
    room = _room(kind, toolset, dialect, budget, resolve_templates(texts), short=False)
    return fits(toolset, range(len(toolset.tools)), LADDERS[ladder][0], room)


def _listing(
    kind: str, toolset: Toolset, ladder: str, dialect: str, budget: int, focus: Focus | None, used: Mapping[str, str]
) -> Listing:
    rungs = LADDERS[ladder]
    if focus is None:
        return Listing(dict.fromkeys(range(len(toolset.tools)), rungs[0]))
    long, short = (_room(kind, toolset, dialect, budget, used, short=each) for each in (False, True))
    names = estimate_tokens(_names_text((), focus.describe, rungs[0], used)) if focus.describe else 0
    return shortened_listing(toolset, rungs, Room(long, short - long, names), focus)


def _names_text(names: tuple[str, ...], describe: str, rung: Rung, used: Mapping[str, str]) -> str:
    """List the tool that describes tools, and name the tools that can be asked for."""
    line = fill(used["more_tools"], {"names": ", ".join(names), "describe": describe})
    return f"{signature(describing_tool(describe), *rung)}\n\n{line}"


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


@bounded_cache(_MAX_CACHED_TOTAL, _size)
def _contract(
    kind: str,
    toolset: Toolset,
    choice: ToolChoice,
    ladder: str,
    dialect: str,
    nonce: str | None,
    budget: int,
    focus: Focus | None,
    texts: TemplateTexts,
) -> Contract:
    """Build a contract. `focus`: None if everything fits."""
    used, row = resolve_templates(texts), _KIND_OF[kind]
    listing = _listing(kind, toolset, ladder, dialect, budget, focus, used)
    tools = tuple(toolset.tools[at] for at in listing.rungs)
    lines = [toolset.listing(at, rung) for at, rung in listing.rungs.items()]
    sample = toolset.sample if len(tools) == len(toolset.tools) else example_of(tools) or FALLBACK_EXAMPLE
    describe = focus.describe if focus is not None and listing.named else ""
    if describe:
        tools = (*tools, describing_tool(describe))
        lines.append(_names_text(listing.named, describe, LADDERS[ladder][0], used))
    stable = fill(used[row.head], {"tools": "\n".join(lines)})
    mark = "" if nonce is None else " " + fill(used[row.mark], {"nonce": nonce})
    example = _example(kind, sample.call, dialect, nonce, used, short=listing.short)
    tail = f"{example}\n{_rule(choice, used)}{mark}\n"
    example_dialect, example_calls = row.dialect or dialect, (sample.call,)
    examples = (*((calls_text(example_dialect, example_calls, None),) if sample.distinct else ()), *toolset.examples)
    unmarked = _example(kind, sample.call, dialect, None, used, short=listing.short) + _rule(choice, used)
    return Contract(
        stable,
        tail,
        tools,
        estimate_tokens(stable + tail),
        (*toolset.notes, *listing.notes),
        examples,
        fill(used[row.reminder], {"call": calls_text(example_dialect, example_calls, nonce)}),
        _prompt(stable + tail),
        describe,
        any(_SAMPLE_NONCE in each for each in (stable, unmarked, *examples)),
    )


def _with_nonce(contract: Contract, nonce: str) -> Contract | None:
    """Put a nonce in place of the sample. Returns None if a tool or a template contains the sample as well."""
    if contract.unmarked_sample:
        return None
    tail, reminder = contract.tail.replace(_SAMPLE_NONCE, nonce), contract.reminder.replace(_SAMPLE_NONCE, nonce)
    return msgspec.structs.replace(contract, tail=tail, reminder=reminder, message=_prompt(contract.stable + tail))


#: The user's request, or a function that returns it. It is needed only if some tools must be shortened.
Query: TypeAlias = str | Callable[[], str]
#: Contracts of recent requests, by the identity of their tools and all other inputs. Entries keep the tools alive.
_recent_contracts: BoundedCache[tuple[object, ...], tuple[Sequence[Tool], Contract]] = BoundedCache(_MAX_CACHED_TOTAL)


class ListingOptions(TypedDict, total=False):
    """What every contract needs to know about its tool list."""

    #: Maximum size of the prompt, in estimated tokens.
    budget: Required[int]
    #: The user's request, or a function that returns it, used to shorten the least relevant tools first.
    query: Query
    #: Names of tools that are never shortened, such as those that the conversation has used.
    whole: frozenset[str]
    #: The name of the built-in tool with which the model can ask for tools that are left out.
    describe: str
    #: Custom templates that override `templates.TEMPLATES`.
    templates: Mapping[str, str] | None


def _cached_contract(
    kind: str,
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    ladder: str,
    dialect: str,
    nonce: str | None,
    options: ListingOptions,
) -> Contract:
    budget, query, texts = options["budget"], options.get("query", ""), template_texts(options.get("templates"))
    key = (kind, id(tools), choice, ladder, dialect, nonce, budget, texts)
    cached = _recent_contracts.get(key)
    if cached is not None:
        return cached[1]
    dialect_row(dialect)
    toolset = toolset_of(tuple(tools))
    # An uncacheable toolset must not become a cache key.
    fit, build = (_fit, _contract) if toolset.cacheable else (_fit.__wrapped__, _contract.__wrapped__)
    if not fit(kind, toolset, ladder, dialect, budget, texts):
        whole = options.get("whole", frozenset[str]()).union(choice.allowed)
        focus = Focus(query if isinstance(query, str) else query(), whole, options.get("describe", ""))
        return build(kind, toolset, choice, ladder, dialect, nonce, budget, focus, texts)
    contract = build(kind, toolset, choice, ladder, dialect, nonce and _SAMPLE_NONCE, budget, None, texts)
    if nonce is not None:
        contract = _with_nonce(contract, nonce) or build(
            kind, toolset, choice, ladder, dialect, nonce, budget, None, texts
        )
    if toolset.cacheable:
        _recent_contracts.keep(key, (tools, contract), _size(contract, kind, toolset))
    return contract


def inline_contract(
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    dialect: str,
    *,
    nonce: str | None = None,
    style: ListingStyle = "compact",
    **options: Unpack[ListingOptions],
) -> Contract:
    """Build the tool prompt of the inline plan: the model answers in text or writes calls in this dialect.

    Args:
        tools: the tools to offer.
        choice: the caller's tool choice.
        dialect: the format of a call.
        nonce: the word that calls must carry.
        style: short signatures, or whole JSON schemas.
        options: the budget of the tool list, and how to shorten it.
    """
    return _cached_contract("inline", tools, choice, style, dialect, nonce, options)


def decision_contract(
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    *,
    nonce: str | None = None,
    done: tuple[Message, ...] = (),
    **options: Unpack[ListingOptions],
) -> Contract:
    """Build the tool prompt of the decision plan: the model only writes a JSON document with the tools to call.

    `done`: the messages since the user's last message, whose calls the prompt lists last to suit prompt caches.
    """
    contract = _cached_contract("decision", tools, choice, "decision", "decision", nonce, options)
    data = _done(done)
    if not data:
        return contract
    tail = contract.tail + fill(resolve_templates(template_texts(options.get("templates")))["done"], {"done": data})
    tokens = estimate_tokens(contract.stable + tail)
    return msgspec.structs.replace(contract, tail=tail, tokens=tokens, message=None)


def envelope_contract(
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    *,
    nonce: str | None = None,
    style: ListingStyle = "compact",
    **options: Unpack[ListingOptions],
) -> Contract:
    """Build the tool prompt of the envelope plan: the model writes one JSON document with calls or a reply."""
    return _cached_contract("envelope", tools, choice, style, "envelope", nonce, options)


def place(messages: tuple[Message, ...], contract: Contract, *, system_role: bool = True) -> tuple[Message, ...]:
    """Insert the tool prompt into the messages.

    It follows the caller's system text, so that a cached prefix remains valid. For models without a system role, both
    are put at the beginning of the first user message.
    """
    prompted = _in_system(messages, contract) if system_role else _in_user(messages, contract.text)
    return _with_reminder(prompted, contract.reminder) if _is_long(messages) else prompted


def _in_system(messages: tuple[Message, ...], contract: Contract) -> tuple[Message, ...]:
    leading = leading_system_messages(messages)
    rest = system_as_user(messages[leading:])
    if leading == 0:
        return (contract.message or _prompt(contract.text), *rest)
    last = messages[leading - 1]
    return (*messages[: leading - 1], _append_text(last, contract.text), *rest)


def _prompt(text: str) -> Message:
    return Message("system", (TextPart(text),))


def _in_user(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    leading = leading_system_messages(messages)
    return without_system((*messages[:leading], _prompt(text), *messages[leading:]))


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
