"""Hostile text: whatever the shape, twice the text takes about twice the time and nothing is called or raised."""

from __future__ import annotations

from time import process_time

import pytest

from bench.hostile import SHAPES, TOOLS
from tests.cases import check_each, every, size
from toolspeak import Reply, Scanner, fold

pytestmark = [pytest.mark.requirement("R-T12"), pytest.mark.no_cover]

LARGE = size(40, 256) * 1024
SMALL = LARGE // 2
CHUNK = 64
#: Twice as much for linear work, four times as much for quadratic work.
MOST_GROWTH = 3.0
#: CPU seconds for the large text below which nothing can be said about growth: about 4 MB a second.
TOO_LITTLE = LARGE / 4_400_000


def scan(text: str) -> tuple[float, Reply]:
    """The CPU seconds that a text takes in chunks, and what it means."""
    scanner = Scanner(TOOLS)
    events = []
    started = process_time()
    for start in range(0, len(text), CHUNK):
        events += scanner.feed(text[start : start + CHUNK])
    events += scanner.close(cut=True)
    return process_time() - started, fold(events)


@pytest.mark.no_cover
@pytest.mark.parametrize("shape", every(2, SHAPES))
def test_time_grows_with_the_length_of_the_text(shape: str):
    small, large = SHAPES[shape](SMALL), SHAPES[shape](LARGE)
    growth = 0.0
    for _ in range(3):  # a busy machine may spoil one measurement
        (short, _), (long, _) = scan(small), scan(large)
        growth = long / short if long > TOO_LITTLE else 1.0
        if growth < MOST_GROWTH:
            return
    raise AssertionError(f"twice the text took {growth:.1f} times as long")


CALLING = {
    "unclosed openers of many kinds",
    "weak calls one behind the other",
    "space behind a weak call",
    "DSML prefixes and names",
    "calls and tokens that end a turn",
    "calls in one block",
    "calls in one list",
    "calls that wait in a fence",
    "braces that close nothing after a call",
    "brackets that close nothing after a call",
}


@check_each("shape", [shape for shape in SHAPES if shape not in CALLING])
def test_hostile_text_calls_nothing(shape: str):
    text = SHAPES[shape](4096)
    _, reply = scan(text)
    assert reply.calls == ()
