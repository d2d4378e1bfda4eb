"""The most important faults, in every protocol: what the codec itself writes, spoiled on its way."""

from __future__ import annotations

import gzip

import msgspec
import pytest

from tests.upstreams.asking import Instant, batches, run
from tests.upstreams.asking import request as asked
from tests.upstreams.chaos import Do, Steps, by_length, in_order, misbehaving
from tests.upstreams.loopback import head
from toolspeak.core.events import Event, Finish, TextDelta, fold
from toolspeak.errors import UpstreamError
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses
from toolspeak.upstreams.http import HttpUpstream, Retry, Timeouts

MODULES = {
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
SOON = Timeouts(connect=5, first_byte=0.05, idle=0.05, total=20)


def _pieces(name: str) -> tuple[bytes, bytes]:
    """An answer: its beginning, and the rest."""
    encoder = MODULES[name].ReplyEncoder(msgspec.structs.replace(asked(), protocol=name), id="r", created=1, model="m")
    begun: list[Event] = [TextDelta("Grüße")]
    ended: list[Event] = [TextDelta(" aus Köln"), Finish("stop")]
    return encoder.encode(begun), encoder.encode(ended) + encoder.close()


def _outcome(name: str, steps: Steps) -> tuple[str, str]:
    async def talk() -> tuple[str, str]:
        async with misbehaving(in_order(steps)) as chaos:
            upstream = HttpUpstream(chaos.url, "k" * 20, name, SOON, retry=Retry(most=0), world=Instant().world)
            try:
                reply = fold(event for batch in await batches(upstream) for event in batch)
            except UpstreamError:
                return "raised", ""
            finally:
                await upstream.close()
            return "failed" if reply.failure else "whole", reply.text

    return run(talk())


@pytest.mark.requirement("R-F20")
@pytest.mark.parametrize("fault", ["none", "gzip", "reset", "closed", "stall", "length", "garbage", "nothing"])
@pytest.mark.parametrize("name", MODULES)
def test_a_fault_means_the_same_in_every_protocol(name: str, fault: str):
    begun, rest = _pieces(name)
    kind = "Content-Type: application/x-ndjson" if name == "ollama" else "Content-Type: text/event-stream"
    whole = begun + rest
    cut = [head(kind) + begun, Do.WAIT, Do.WAIT]
    steps, outcome = {
        "none": ([by_length(whole, kind)], "whole"),
        "gzip": ([by_length(gzip.compress(whole, mtime=0), kind, "Content-Encoding: gzip")], "whole"),
        "reset": ([*cut, Do.RESET], "failed"),
        "closed": ([*cut, Do.CLOSE], "failed"),
        "stall": ([*cut, Do.STALL], "failed"),
        "length": ([head(kind, "Content-Length: 99999") + begun, Do.CLOSE], "failed"),
        "garbage": ([by_length(b"\x00\xff garbage", kind)], "raised"),
        "nothing": ([by_length(b"", kind)], "raised"),
    }[fault]
    found, text = _outcome(name, steps)
    assert found == outcome
    assert text == {"whole": "Grüße aus Köln", "failed": "Grüße", "raised": ""}[found]
