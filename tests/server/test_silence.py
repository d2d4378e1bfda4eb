"""What keeps a silent stream alive means nothing to the clients that people use.

The bytes of a stream with keep-alives before the first word, in the middle and before the end are handed to each SDK.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.live import QUESTION
from tests.server.speakers import SPEAKERS
from toolspeak.core.events import Finish, TextDelta, UsageSeen
from toolspeak.core.model import Request, Usage
from toolspeak.server.faces import face

TEXT = ("Take a walk. ", "The weather is fine.")


def _stream(name: str) -> bytes:
    spoken = face(name, b"alt=sse")
    encoder = spoken.encoder(Request("m", (), stream=True), id="answer_1", created=1_700_000_000, model="m")
    pieces = [spoken.filler, spoken.filler]
    for text in TEXT:
        pieces += [encoder.encode([TextDelta(text)]), spoken.keep_alive, spoken.keep_alive]
    pieces += [encoder.encode([UsageSeen(Usage(5, 5)), Finish("stop")]), encoder.close({"plan": "pass"})]
    return b"".join(pieces)


def _transport(name: str, http: Any = httpx) -> Any:
    """What a client of HTTP gets whatever it asks; `http` is the library that it is from."""
    spoken = face(name, b"alt=sse")
    headers = {"content-type": spoken.stream_type.decode()}
    return http.MockTransport(lambda request: http.Response(200, headers=headers, content=_stream(name)))


@pytest.mark.requirement("G4", "R-F8")
class TestNobodyTripsOverSilence:
    def test_openai_with_chat_completions(self):
        openai = pytest.importorskip("openai")
        http = httpx.Client(transport=_transport("openai_chat"))
        with openai.OpenAI(base_url="http://x.test/v1", api_key="none", http_client=http) as client:
            messages = [{"role": "user", "content": QUESTION}]
            chunks = list(client.chat.completions.create(model="m", messages=messages, stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "".join(TEXT)

    def test_openai_with_responses(self):
        openai = pytest.importorskip("openai")
        http = httpx.Client(transport=_transport("openai_responses"))
        with openai.OpenAI(base_url="http://x.test/v1", api_key="none", http_client=http) as client:
            events = list(client.responses.create(model="m", input=QUESTION, stream=True))
        assert events[-1].response.output_text == "".join(TEXT)

    def test_anthropic(self):
        anthropic = pytest.importorskip("anthropic")
        httpx2 = pytest.importorskip("httpx2")
        http = httpx2.Client(transport=_transport("anthropic", httpx2))
        with anthropic.Anthropic(base_url="http://x.test", api_key="none", http_client=http) as client:
            messages = [{"role": "user", "content": QUESTION}]
            with client.messages.stream(model="m", max_tokens=9, messages=messages) as events:
                assert events.get_final_text() == "".join(TEXT)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_google_genai(self):
        genai = pytest.importorskip("google.genai")
        options = {"base_url": "http://x.test", "httpx_client": httpx.Client(transport=_transport("gemini"))}
        client = genai.Client(api_key="none", http_options=options)
        pieces = list(client.models.generate_content_stream(model="m", contents=QUESTION))
        assert "".join(piece.text or "" for piece in pieces) == "".join(TEXT)
        client.close()

    def test_ollama(self):
        ollama = pytest.importorskip("ollama")
        client = ollama.Client(host="http://x.test", transport=_transport("ollama"))
        pieces = list(client.chat("m", messages=[{"role": "user", "content": QUESTION}], stream=True))
        assert "".join(piece.message.content or "" for piece in pieces) == "".join(TEXT)
        client._client.close()


@pytest.mark.parametrize("name", [speaker.name for speaker in SPEAKERS])
def test_the_clients_written_by_hand_agree(name: str):
    (speaker,) = [speaker for speaker in SPEAKERS if speaker.name == name]
    seen = speaker.read(_stream(name), True)
    assert (seen.text, seen.ended) == ("".join(TEXT), True)
