"""What the SDKs that people use make of a stream that is silent for a while, and of one that breaks.

The bytes are those of our faces, handed to each SDK without a network: keep-alives mean nothing to any of them, and
none takes a broken stream for a good one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.cases import check_each
from tests.server.live_proxy import QUESTION
from tests.server.protocol_clients import SPEAKERS
from toolspeak.core.events import Event, Failure, Finish, TextDelta, UsageSeen
from toolspeak.core.types import Request, Usage
from toolspeak.server.proxy.client_protocols import client_protocol

TEXT = ("Take a walk. ", "The weather is fine.")
MESSAGES = [{"role": "user", "content": QUESTION}]
END: list[Event] = [UsageSeen(Usage(5, 5)), Finish("stop")]


def _stream(name: str, *last: Event) -> bytes:
    """A stream with silences before the first word, between words, and before its end."""
    spoken = client_protocol(name, b"alt=sse")
    encoder = spoken.encoder(Request("m", (), stream=True), id="answer_1", created=1_700_000_000, model="m")
    pieces = [spoken.filler, spoken.filler]
    for text in TEXT:
        pieces += [encoder.encode([TextDelta(text)]), spoken.keep_alive, spoken.keep_alive]
    return b"".join([*pieces, encoder.encode(last), encoder.close({"plan": "pass"})])


def _transport(name: str, data: bytes, http: Any = httpx) -> Any:
    """What a client of HTTP gets whatever it asks; `http` is the library that it is from."""
    headers = {"content-type": client_protocol(name, b"alt=sse").stream_type.decode()}
    return http.MockTransport(lambda request: http.Response(200, headers=headers, content=data))


def _chat(data: bytes) -> str:
    openai = pytest.importorskip("openai")
    http = httpx.Client(transport=_transport("openai_chat", data))
    with openai.OpenAI(base_url="http://x.test/v1", api_key="none", http_client=http) as client:
        chunks = list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def _responses(data: bytes) -> str:
    openai = pytest.importorskip("openai")
    http = httpx.Client(transport=_transport("openai_responses", data))
    with openai.OpenAI(base_url="http://x.test/v1", api_key="none", http_client=http) as client:
        events = list(client.responses.create(model="m", input=QUESTION, stream=True))
    return events[-1].response.output_text


def _messages(data: bytes) -> str:
    anthropic = pytest.importorskip("anthropic")
    httpx2 = pytest.importorskip("httpx2")
    http = httpx2.Client(transport=_transport("anthropic", data, httpx2))
    with (
        anthropic.Anthropic(base_url="http://x.test", api_key="none", http_client=http) as client,
        client.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as events,
    ):
        return events.get_final_text()


def _gemini(data: bytes) -> str:
    genai = pytest.importorskip("google.genai")
    options = {"base_url": "http://x.test", "httpx_client": httpx.Client(transport=_transport("gemini", data))}
    client = genai.Client(api_key="none", http_options=options)
    pieces = list(client.models.generate_content_stream(model="m", contents=QUESTION))
    return "".join(piece.text or "" for piece in pieces)


def _ollama(data: bytes) -> str:
    ollama = pytest.importorskip("ollama")
    client = ollama.Client(host="http://x.test", transport=_transport("ollama", data))
    pieces = list(client.chat("m", messages=MESSAGES, stream=True))
    return "".join(piece.message.content or "" for piece in pieces)


READERS: dict[str, Callable[[bytes], str]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _messages,
    "gemini": _gemini,
    "ollama": _ollama,
}
NAMES = check_each("name", READERS)


@pytest.mark.requirement("G4", "R-F8")
@NAMES
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_sdk_trips_over_what_keeps_a_stream_alive(name: str):
    assert READERS[name](_stream(name, *END)) == "".join(TEXT)


@pytest.mark.requirement("G4", "R-F6")
@NAMES
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_sdk_raises_when_a_stream_breaks(name: str):
    with pytest.raises(Exception, match="it fell over"):
        READERS[name](_stream(name, Failure("it fell over", "upstream", 500)))


@NAMES
def test_the_clients_written_by_hand_agree(name: str):
    (speaker,) = [speaker for speaker in SPEAKERS if speaker.name == name]
    good, bad = (speaker.read(_stream(name, *last), True) for last in (END, [Failure("it fell over")]))
    assert (good.text, good.ended, good.error) == ("".join(TEXT), True, "")
    assert (bad.text, bad.ended, bad.error) == ("".join(TEXT), False, "it fell over")
