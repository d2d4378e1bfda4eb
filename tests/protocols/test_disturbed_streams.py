"""Streams whose events were lost, repeated or swapped on the way: whatever is read of them makes a reply.

An event that cannot be folded is a fault of ours, and would be told to the client as a fault of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.cases import check_each
from toolspeak.core.events import Reply, fold

pytestmark = pytest.mark.requirement("G3")

FIXTURES = Path(__file__).parent / "fixtures"
#: What ends an event, by the ending of the file's name.
ENDS = {".sse": b"\n\n", ".ndjson": b"\n"}
STREAMS = sorted(path for path in FIXTURES.glob("*/*") if path.suffix in ENDS)
#: How often each stream is disturbed, and in how many places at most.
TIMES, PLACES = 40, 3


def disturbed(path: Path) -> Iterator[list[bytes]]:
    """The events of a stream, some of them lost, repeated or swapped; always the same ones."""
    end = ENDS[path.suffix]
    events = [event + end for event in path.read_bytes().split(end) if event.strip()]
    chance = random.Random(path.name)
    for _ in range(TIMES):
        found = list(events)
        for _ in range(chance.randrange(1, PLACES + 1)):
            one, other = (chance.randrange(len(found) or 1) for _ in range(2))
            match chance.choice(["lost", "repeated", "swapped"]):
                case "lost":
                    del found[one : one + 1]
                case "repeated":
                    found[other:other] = found[one : one + 1]
                case _ if found:
                    found[one], found[other] = found[other], found[one]
                case _:
                    pass
        yield found


def read(protocol: str, reads: list[bytes]) -> Reply:
    decoder = import_module(f"toolspeak.protocols.{protocol}").ReplyDecoder(True)
    return fold([event for data in reads for event in decoder.feed(data)] + decoder.close())


def test_every_protocol_has_streams_to_disturb():
    protocols = {"anthropic", "gemini", "ollama", "openai_chat", "openai_responses"}
    assert {path.parent.name for path in STREAMS} == protocols


@pytest.mark.no_cover
@check_each("path", STREAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_disturbed_stream_makes_a_reply_however_it_is_read(path: Path):
    for events in disturbed(path):
        at_once = read(path.parent.name, [b"".join(events)])
        assert read(path.parent.name, events).calls == at_once.calls
