"""Cases for dialect tests, and checks that parse an answer whole and one character at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.cases import check_each
from tests.test_text_corpus import exact
from toolspeak import Reply, Scanner, Tool, fold, parse

STRING = {"type": "string"}


def tool(name: str, **properties: Any) -> Tool:
    """A tool whose parameters have these types, or schemas of their own."""
    typed = {key: {"type": value} if isinstance(value, str) else value for key, value in properties.items()}
    return Tool(name, parameters={"type": "object", "properties": typed})


#: What the model may call: parameters of every type; no schema at all; one text; two texts.
TOOLS = (
    tool("save", path="string", text="string", n="integer", ok="boolean", tags="array", opts="object", any={}),
    Tool("ping"),
    tool("run", command="string"),
    tool("pair", a="string", b="string"),
)

Verdicts = tuple[tuple[str, str, str], ...]


class Case(NamedTuple):
    """A text and all that must come of it; by default every call is accepted without a note and nothing is said."""

    name: str
    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    said: str = ""
    codes: frozenset[str] | set[str] = frozenset()
    verdicts: Verdicts | None = None
    reasoning: str = ""
    complete: bool = True
    options: Mapping[str, Any] = MappingProxyType({})


def each(cases: Iterable[Case]) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    return check_each("case", cases, ids=lambda case: case.name)


def by_character(text: str, **options: Any) -> Reply:
    scanner = Scanner(**options)
    events = [event for char in text for event in scanner.feed(char)]
    return fold(events + scanner.close())


def codes_of(reply: Reply) -> set[str]:
    notes = [*reply.notes, *(note for item in (*reply.calls, *reply.candidates) for note in item.notes)]
    return {note.code for note in notes}


def verdicts_of(reply: Reply) -> Verdicts:
    return tuple((each.name, each.verdict, each.reason) for each in reply.candidates)


def check(case: Case) -> None:
    """The text means what the case says, however it is cut."""
    options = {"tools": TOOLS, **case.options}
    reply = parse(case.text, **options)
    expected = case.verdicts
    if expected is None:
        expected = tuple((name, "call", "accepted") for name, _ in case.calls)
    assert exact([[call.name, call.arguments] for call in reply.calls]) == exact([list(call) for call in case.calls])
    assert reply.text == case.said
    assert reply.reasoning == case.reasoning
    assert verdicts_of(reply) == expected
    assert codes_of(reply) == case.codes
    assert reply.complete is case.complete
    assert by_character(case.text, **options) == reply
