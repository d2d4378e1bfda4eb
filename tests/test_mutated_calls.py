"""Damaged calls of every dialect mean the same however they are cut, raise nothing and name no unknown tool.

Each case renders one or two short calls, damages their text in one to three places and parses it whole, one character
at a time and in random pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, TypeAlias, get_args

import pytest

from tests.cases import size
from tests.test_generated_echoes import SHAPES, TOOLS, WORDS, WRITERS
from toolspeak import Reply, Scanner, ToolCall, fold, parse, render_calls
from toolspeak.core.parsing.acceptance import Policy
from toolspeak.core.types import JSONValue
from toolspeak.dialects.registry import DIALECTS

pytestmark = pytest.mark.no_cover

#: The cases run in so many parts, which workers share.
PARTS = 10
CASES = size(800, 60_000)
#: Parsing one character at a time takes long, so the texts are short.
MAX_LENGTH = 400
#: Failing cases that a failure shows.
MAX_SHOWN = 5

NAMES = tuple(SHAPES)
NONCE = "k7q2xm"
POLICIES: tuple[Policy, ...] = get_args(Policy)
WRITER_NAMES = tuple(WRITERS)

# ---------------------------------------------------------------------------------------------- calls


def _value(random: Random, kind: str) -> JSONValue:
    match kind:
        case "string":
            return " ".join(random.choices(WORDS, k=random.randint(1, 3)))
        case "integer":
            return random.choice((0, 7, -5, 1_000_000))
        case "boolean":
            return random.random() < 0.5
        case "array":
            return [_value(random, random.choice(("string", "integer", "boolean")))]
        case _:
            return {random.choice(("a", "name", "x y", "input")): _value(random, random.choice(("string", "array")))}


def _call(random: Random) -> ToolCall:
    name = random.choice(NAMES)
    shape = SHAPES[name]
    keys = random.sample(tuple(shape), random.randint(0, min(2, len(shape))))
    return ToolCall(name, {key: _value(random, shape[key]) for key in keys})


def _written(random: Random, writer: str, nonce: str | None) -> str:
    """Write a call of at most half the length, so that two fit into one text."""
    while True:
        call = _call(random)
        text = render_calls(writer, [call], nonce) if writer in DIALECTS else WRITERS[writer](call)
        if len(text) <= MAX_LENGTH // 2:
            return text


# ------------------------------------------------------------------------------------------- mutations

#: Tags, tokens, fences and punctuation: what gives a text the structure of a call.
MARK = re.compile(r"<[^<>\s]{0,40}[^<>]{0,20}>|\[/?[A-Z_]+\]|`{3}[\w ]*|✿\w+✿|\w+:|[^\w\s]|\n")
#: Characters that mean something in many dialects, or nothing in any.
CHARACTERS = "<>{}[]()\"'`\\/|:,=&#.\n\r\t ｜aé0\u200b\u00a0🌍"


@cache
def _all_marks() -> tuple[str, ...]:
    """The marks of every dialect and wrapper."""
    call = ToolCall("edit_file", {"path": "a", "count": 1})
    return tuple(sorted({mark for write in WRITERS.values() for mark in MARK.findall(write(call))}))


Span: TypeAlias = tuple[int, int]


def _characters(random: Random, text: str) -> Span:
    start = random.randrange(len(text))
    return start, start + random.randint(1, 6)


def _mark(random: Random, text: str) -> Span:
    marks = [match.span() for match in MARK.finditer(text)]
    return random.choice(marks) if marks else _characters(random, text)


def _span(random: Random, text: str) -> Span:
    return random.choice((_characters, _mark))(random, text)


def _delete(random: Random, text: str) -> str:
    start, end = _span(random, text)
    return text[:start] + text[end:]


def _duplicate(random: Random, text: str) -> str:
    start, end = _span(random, text)
    return text[:end] + text[start:]


def _swap(random: Random, text: str) -> str:
    (start, end), (other_start, other_end) = sorted((_span(random, text), _span(random, text)))
    if other_start < end:
        return text[:start] + text[start:other_end][::-1] + text[other_end:]
    return text[:start] + text[other_start:other_end] + text[end:other_start] + text[start:end] + text[other_end:]


def _insert(random: Random, text: str) -> str:
    at = random.choice((*_span(random, text), random.randint(0, len(text))))
    return text[:at] + random.choice((random.choice(CHARACTERS), random.choice(_all_marks()))) + text[at:]


def _truncate(random: Random, text: str) -> str:
    at = random.choice((*_span(random, text), random.randint(0, len(text))))
    return text[at:] if random.random() < 0.3 else text[:at]


#: Truncation is rarer: little of the text may be left.
MUTATIONS: tuple[Callable[[Random, str], str], ...] = (
    *(_delete, _duplicate, _swap, _insert),
    *(_delete, _duplicate, _swap, _insert, _truncate),
)

#: What stands between two calls, or before and after one.
JOINTS = (
    "",
    "",
    "",
    "",
    "\n",
    "\n",
    "\n\n",
    " ",
    "Let me see.\n",
    "\n\n    ",
    "```\n",
    "> ",
    "`",
    "<think>",
    "</think>\n",
)


@dataclass(frozen=True, slots=True)
class Example:
    text: str
    pieces: tuple[str, ...]
    options: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.options}\n  text: {self.text!r}\n  pieces: {self.pieces!r}"


def _example(seed: int) -> Example:
    random = Random(seed)
    writer = WRITER_NAMES[seed % len(WRITER_NAMES)]
    nonce = NONCE if random.random() < 0.3 else None
    text = _written(random, writer, nonce)
    if random.random() < 0.3:
        text += random.choice(JOINTS) + _written(random, random.choice((writer, *WRITER_NAMES)), nonce)
    for _ in range(random.choice((1, 1, 2, 3))):
        text = random.choice(MUTATIONS)(random, text) or random.choice(CHARACTERS)
    text = (random.choice(JOINTS) + text + random.choice(JOINTS))[:MAX_LENGTH]
    dialect = writer if writer in DIALECTS and random.random() < 0.2 else "auto"
    options = {"dialect": dialect, "policy": random.choice(POLICIES), "nonce": nonce}
    return Example(text, tuple(_pieces(random, text)), options)


def _pieces(random: Random, text: str) -> Iterable[str]:
    most = random.choice((2, 5, 12, 40))
    while text:
        end = random.randint(1, most)
        yield text[:end]
        text = text[end:]


# ------------------------------------------------------------------------------------------------ tests


def _streamed(pieces: Iterable[str], options: dict[str, Any]) -> Reply:
    scanner = Scanner(TOOLS, **options)
    events = [event for piece in pieces for event in scanner.feed(piece)]
    return fold(events + scanner.close())


def _problem(example: Example) -> str:
    """What is wrong with how the example is parsed; empty if nothing is."""
    try:
        whole = parse(example.text, TOOLS, **example.options)
        if any(call.name not in SHAPES for call in whole.calls):
            return f"a call of an unknown tool: {whole.calls}"
        for pieces in (example.text, example.pieces):
            streamed = _streamed(pieces, example.options)
            if streamed != whole:
                how = "one character at a time" if pieces is example.text else "in pieces"
                return f"another result {how}\n  whole: {whole}\n  streamed: {streamed}"
    except Exception as error:  # any exception is a failure, and the others are still tried
        return f"raised {error!r}"
    return ""


@pytest.mark.requirement("B7", "B8", "R-E6")
@pytest.mark.parametrize("part", range(PARTS))
def test_a_damaged_call_is_parsed_alike_however_it_is_cut(part: int):
    failures: list[str] = []
    for seed in range(part, CASES, PARTS):
        example = _example(seed)
        if problem := _problem(example):
            failures.append(f"case {seed}: {problem}\n  {example}")
    assert not failures, "\n\n".join([f"{len(failures)} cases failed", *failures[:MAX_SHOWN]])


def test_some_damaged_calls_are_still_calls_and_most_are_reported():
    replies = [parse(each.text, TOOLS, **each.options) for each in map(_example, range(400))]
    assert 80 < sum(bool(reply.calls) for reply in replies) < 320
    assert sum(bool(reply.candidates) for reply in replies) > 200
