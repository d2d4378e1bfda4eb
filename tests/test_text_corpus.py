"""What models write, and what it means: the cases of `tests/corpus`, whole and in every kind of pieces.

One JSON object a line: `text`, the `tools` on offer (name -> schema, or null when nobody said), options of the
scanner, and what must come out. `calls` is always there; `said`, `reasoning`, `complete`, `verdicts` (of the
candidates, in order) and `codes` (notes that must be among those of the reply) where they matter.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each, size
from tests.requirements import REQUIREMENTS
from toolspeak import CallArgs, CallEnd, CallStart, Event, Reply, Scanner, Tool, fold, parse
from toolspeak.dialects.registry import DIALECTS

pytestmark = [
    pytest.mark.requirement("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "B10", "B11"),
    pytest.mark.requirement("R-E2", "R-E4", "R-E5", "R-E6"),
]

CORPUS = Path(__file__).parent / "corpus"
OPTIONS = ("policy", "nonce", "untrusted", "dialect")
EXPECTATIONS = {"calls", "said", "reasoning", "complete", "verdicts", "codes"}
KEYS = {"id", "why", "requirement", "text", "tools", *OPTIONS, *EXPECTATIONS}

LEAST_CASES = 120
#: Every text is cut in two at every place (at full size; at each `STEP`th otherwise) and into random groupings.
STEP = size(13, 1)
GROUPINGS = size(5, 200)
#: The tests that cut texts run in so many parts, which workers share.
PARTS = 8

Case = dict[str, Any]


def load() -> dict[str, Case]:
    """The cases by id."""
    found: dict[str, Case] = {}
    for path in sorted(CORPUS.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            assert case["id"] not in found, f"{path.name}: `{case['id']}` occurs twice"
            found[case["id"]] = case
    return found


CASES = load()
each_case = check_each("name", CASES)


@cache
def tools_of(name: str) -> tuple[Tool, ...] | None:
    offered = CASES[name]["tools"]
    return None if offered is None else tuple(Tool(name=tool, parameters=schema) for tool, schema in offered.items())


def options_of(name: str) -> dict[str, Any]:
    return {key: CASES[name][key] for key in OPTIONS if key in CASES[name]}


def events_of(name: str, pieces: Iterable[str]) -> list[Event]:
    scanner = Scanner(tools_of(name), **options_of(name))
    events: list[Event] = []
    for piece in pieces:
        events += scanner.feed(piece)
    return events + scanner.close()


@cache
def whole(name: str) -> Reply:
    return fold(events_of(name, [CASES[name]["text"]]))


@cache
def characters(name: str) -> list[Event]:
    """The events of the text, fed one character at a time."""
    return events_of(name, CASES[name]["text"])


def exact(value: Any) -> str:
    """A value with its types: 1, 1.0 and true differ here, as they do in JSON. The order of keys does not matter."""
    return json.dumps(value, sort_keys=True)


def groupings(name: str, text: str) -> Iterator[list[str]]:
    """The text in random pieces, many small and some large, the same on every run."""
    dice = random.Random(name)
    for _ in range(GROUPINGS):
        longest = dice.choice((2, 4, 8, 16, 32))
        ends = accumulate(dice.choices(range(longest + 1), k=2 * len(text) // longest))
        yield [text[start:end] for start, end in pairwise((0, *ends, len(text)))]


# ---- the corpus itself


def test_there_are_enough_cases():
    assert len(CASES) >= LEAST_CASES


def test_every_dialect_has_a_case_that_asks_for_it():
    assert {case["dialect"] for case in CASES.values() if "dialect" in case} >= DIALECTS.keys()


def test_every_behaviour_of_the_core_has_a_case():
    named = {requirement for case in CASES.values() for requirement in case["requirement"]}
    assert named >= {"B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "B10", "B11", "R-E2", "R-E4", "R-E5", "R-E6"}


def test_every_case_is_well_formed():
    for name, case in CASES.items():
        assert not case.keys() - KEYS, name
        assert {"id", "why", "requirement", "text", "tools", "calls"} <= case.keys(), name
        assert case["why"].endswith("."), name
        assert case["requirement"], name
        assert set(case["requirement"]) <= REQUIREMENTS.keys(), name


# ---- what comes out


@each_case
def test_a_text_means_what_its_case_says(name: str):
    case, reply = CASES[name], whole(name)
    notes = [*reply.notes, *(note for item in (*reply.calls, *reply.candidates) for note in item.notes)]
    got = {
        "calls": [[call.name, call.arguments] for call in reply.calls],
        "said": reply.text,
        "reasoning": reply.reasoning,
        "complete": reply.complete,
        "verdicts": [[each.name, each.verdict, each.reason] for each in reply.candidates],
    }
    for key, value in got.items():
        if key in case:
            assert exact(value) == exact(case[key]), key
    assert set(case.get("codes", ())) <= {note.code for note in notes}


@each_case
def test_parsing_whole_is_the_fold_of_the_stream(name: str):
    assert parse(CASES[name]["text"], tools_of(name), **options_of(name)) == whole(name)


@pytest.mark.no_cover
@pytest.mark.parametrize("part", range(PARTS))
def test_a_cut_anywhere_changes_nothing(part: int):
    for name in list(CASES)[part::PARTS]:
        text, expected = CASES[name]["text"], whole(name)
        for at in range(len(name) % STEP, len(text) + 1, STEP):
            pieces = (text[:at], text[at:])
            assert fold(events_of(name, pieces)) == expected, f"{name}: cut before {text[at : at + 20]!r}"


@check_each("name", list(CASES)[:: size(3, 1)])
def test_one_character_at_a_time_changes_nothing(name: str):
    assert fold(characters(name)) == whole(name)


@pytest.mark.no_cover
@pytest.mark.parametrize("part", range(PARTS))
def test_random_pieces_change_nothing(part: int):
    for name in list(CASES)[part::PARTS]:
        expected = whole(name)
        for pieces in groupings(name, CASES[name]["text"]):
            assert fold(events_of(name, pieces)) == expected, (name, pieces)


# ---- the stream


@each_case
def test_the_fragments_of_a_call_are_its_arguments(name: str):
    events = characters(name)
    ended = [event.index for event in events if isinstance(event, CallEnd) and event.valid]
    assert len(ended) == len(whole(name).calls)
    for index, call in zip(sorted(ended), whole(name).calls, strict=True):
        fragments = [event.fragment for event in events if isinstance(event, CallArgs) and event.index == index]
        assert exact(json.loads("".join(fragments), parse_constant=_refuse)) == exact(call.arguments)


def _refuse(constant: str) -> None:
    raise AssertionError(f"`{constant}` is not JSON")


@each_case
def test_the_fragments_of_a_refused_call_are_still_an_object_if_any_has_left(name: str):
    events = characters(name)
    for end in (event for event in events if isinstance(event, CallEnd) and not event.valid):
        fragments = [event.fragment for event in events if isinstance(event, CallArgs) and event.index == end.index]
        assert not fragments or isinstance(json.loads("".join(fragments)), dict)


@each_case
def test_a_call_starts_before_its_arguments_and_ends_after_them(name: str):
    open_calls: set[int] = set()
    seen: set[int] = set()
    for event in characters(name):
        match event:
            case CallStart(index):
                assert index == len(seen)
                seen.add(index)
                open_calls.add(index)
            case CallArgs(index):
                assert index in open_calls
            case CallEnd(index):
                open_calls.remove(index)
    assert len(open_calls) <= 1  # only the call in which the text ended


@each_case
def test_a_closed_scanner_says_nothing_more(name: str):
    scanner = Scanner(tools_of(name), **options_of(name))
    scanner.feed(CASES[name]["text"])
    scanner.close()
    assert scanner.close() == []
    with pytest.raises(ValueError, match="closed"):
        scanner.feed("more")
