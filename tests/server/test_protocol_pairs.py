"""Every client protocol with every upstream protocol: one conversation of two tools and two rounds.

The client is written by hand, the upstream is a server on the loopback that speaks its protocol as our own face of it
does, and the model behind it knows nothing of tools: it reads the contract in its prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import ask, run
from tests.server.live_proxy import ANSWER, CALLS, PROTOCOLS, RESULTS, Two, between
from tests.server.protocol_clients import SPEAKERS, Seen, Speaker
from toolspeak.engine.planning.strategy import Settings

FACES = [pytest.param(speaker, id=speaker.name) for speaker in SPEAKERS]
STREAM = [pytest.param(True, id="stream"), pytest.param(False, id="whole")]


class Talk:
    """A conversation as it went: what the client understood in each round, and what the model was asked."""

    def __init__(self, seen: Sequence[Seen], model: Two, headers: Sequence[str], bodies: Sequence[Any]) -> None:
        self.first, self.second = seen
        self.asked = model.asked
        self.headers = headers
        self.bodies = bodies


async def _talk(speaker: Speaker, protocol: str, stream: bool, settings: Settings | None = None) -> Talk:
    model = Two()
    async with between(model, protocol, settings) as (app, server):
        body = speaker.ask(stream)
        answers = [await ask(app, "POST", speaker.path(stream), body=body)]
        seen = [speaker.read(answers[0].body, stream)]
        again = speaker.tell(body, seen[0], RESULTS)
        answers.append(await ask(app, "POST", speaker.path(stream), body=again))
        seen.append(speaker.read(answers[1].body, stream))
        assert [answer.status for answer in answers] == [200, 200]
        return Talk(seen, model, [answer.header("x-toolspeak") for answer in answers], [h.json for h in server.heard])


def _finished(talk: Talk, speaker: Speaker) -> None:
    first, second = talk.first, talk.second
    assert [(name, given) for _, name, given in first.calls] == list(CALLS.items())
    assert len({id for id, _, _ in first.calls if id}) in (0, 2)  # one for each, or none where there are none
    assert (second.text, second.calls) == (ANSWER, [])
    assert (first.reason, second.reason) == speaker.reasons
    assert first.ended and second.ended
    assert first.tokens == second.tokens == 10


@pytest.mark.requirement("G1", "G2", "G3", "A4")
@check_each("stream", STREAM)
@check_each("protocol", PROTOCOLS)
@check_each("speaker", FACES)
def test_every_pair_of_protocols_finishes_the_conversation_with_emulation(
    speaker: Speaker, protocol: str, stream: bool
):
    talk = run(_talk(speaker, protocol, stream))
    _finished(talk, speaker)
    assert [len(request.tools) for request in talk.asked] == [0, 0]
    assert [request.stream for request in talk.asked] == [stream, stream]
    assert all('"plan":"inline"' in told for told in talk.headers)
    for body in talk.bodies:
        assert not {"tools", "tool_choice", "toolConfig"} & body.keys()


@pytest.mark.requirement("G1", "G2", "G3", "A2")
@check_each("stream", STREAM)
@check_each("protocol", PROTOCOLS)
@check_each("speaker", FACES)
def test_every_pair_of_protocols_finishes_the_conversation_with_native_calls(
    speaker: Speaker, protocol: str, stream: bool
):
    talk = run(_talk(speaker, protocol, stream, Settings(mode="off")))
    _finished(talk, speaker)
    assert [len(request.tools) for request in talk.asked] == [2, 2]
    assert talk.first.text == "I look it up."


@pytest.mark.requirement("A12")
@check_each("speaker", FACES)
def test_a_stream_tells_in_its_last_event_what_was_done(speaker: Speaker):
    talk = run(_talk(speaker, "openai_chat", True))
    for seen in (talk.first, talk.second):
        assert seen.extension is not None
        assert seen.extension["plan"] == "inline" and seen.extension["requests"] == 1
        assert seen.extension["warnings"] == ["tool calls emulated"]
