"""What every decoder of replies does, whatever the protocol: what it shows of an answer does not hang on the reads."""

from __future__ import annotations

import pytest

from tests.protocols.streams import Decoder, cut, fed
from toolspeak.core.events import Failure
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses

DECODERS = {
    "anthropic": anthropic.ReplyDecoder,
    "gemini": gemini.ReplyDecoder,
    "ollama": ollama.ReplyDecoder,
    "openai_chat": openai_chat.ReplyDecoder,
    "openai_responses": openai_responses.ReplyDecoder,
}
#: Answers that end before they began, or are none.
NOTHING = {
    "the name of an event": b"event: message_sta",
    "a comment": b": ping\n\n: still at it\n\n",
    "a long comment": b": " + b"ping " * 500,
    "an empty list": b"[]",
    "white space": b" \n\n  ",
    "a byte order mark": b"\xef\xbb\xbf",
    "garbage": b"\x00\xff garbage",
    "half an object": b'{"choices": [{',
    "a page": b"<html>" + b"x" * 2000,
}


@pytest.mark.requirement("R-F15")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("data", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("name", DECODERS)
def test_what_a_failure_shows_does_not_hang_on_the_reads(name: str, data: bytes, stream: bool):
    def made() -> Decoder:
        return DECODERS[name](stream)

    whole = fed(made(), [data])
    assert isinstance(whole[-1], Failure)
    assert fed(made(), cut(data, range(1, len(data)))) == whole
    for at in range(1, len(data), 97):
        assert fed(made(), cut(data, [at])) == whole
