"""What an agent can be asked: texts, parts with images, messages; and images that come back."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import toolspeak as ts
from tests.agent_helpers import agent, calling, model, run
from tests.cases import check_each
from toolspeak import Media, Message, TextPart
from toolspeak.agent import inputs
from toolspeak.agent.inputs import task_messages
from toolspeak.errors import UsageError
from toolspeak.protocols import openai_chat
from toolspeak.tools.base import ToolOutput

pytestmark = pytest.mark.requirement("F13")

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PICTURE = Media("image", f"data:image/png;base64,{DOT}")
LINK = Media("image", "https://example.org/cat.png")
OPENAI_PART = {"type": "image_url", "image_url": {"url": PICTURE.url}}


def user(*parts: Any) -> Message:
    return Message("user", parts)


@check_each(
    "task, expected",
    [
        ("Go.", user(TextPart("Go."))),
        (user(TextPart("Go.")), user(TextPart("Go."))),
        (PICTURE, user(PICTURE)),
        (["What is this?", PICTURE], user(TextPart("What is this?"), PICTURE)),
        ((TextPart("a"), LINK), user(TextPart("a"), LINK)),
        (["Look:", b64decode(DOT)], user(TextPart("Look:"), PICTURE)),
        ([b"\xff\xd8\xff\x00"], user(Media("image", "data:image/jpeg;base64,/9j/AA=="))),
        ([b"RIFF....WEBPVP8 "], user(Media("image", "data:image/webp;base64,UklGRi4uLi5XRUJQVlA4IA=="))),
        ([b"RIFF....WAVEfmt "], user(Media("audio", "data:audio/wav;base64,UklGRi4uLi5XQVZFZm10IA=="))),
        ([b"%PDF-1"], user(Media("file", "data:application/pdf;base64,JVBERi0x"))),
    ],
)
def test_texts_and_parts_become_one_user_message(task: Any, expected: Message):
    assert task_messages(task) == (expected,)


def test_messages_in_openais_form_keep_their_roles_parts_and_calls():
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, OPENAI_PART]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "nothing"},
        user(TextPart("And now?")),
    ]
    messages = task_messages(history)
    assert [message.role for message in messages] == ["system", "user", "assistant", "tool", "user"]
    assert messages[1].parts == (TextPart("Look."), PICTURE)
    assert messages[2].calls[0].arguments == {"at": "x"}
    assert messages[3].results[0].content == "nothing"
    assert task_messages(["See", OPENAI_PART])[0].parts == (TextPart("See"), PICTURE)


def test_a_path_stands_for_its_content(tmp_path: Path):
    picture, plain, unknown = tmp_path / "dot.png", tmp_path / "notes.txt", tmp_path / "odd.zzz"
    picture.write_bytes(b64decode(DOT))
    plain.write_text("hi")
    unknown.write_bytes(b64decode(DOT))
    assert task_messages(picture)[0].parts == (PICTURE,)
    assert task_messages([plain])[0].parts == (Media("file", "data:text/plain;base64,aGk="),)
    assert task_messages([unknown])[0].parts == (PICTURE,)


def test_the_content_of_a_file_says_what_it_is_and_the_name_is_only_a_hint(tmp_path: Path):
    picture = tmp_path / "dot.txt"
    picture.write_bytes(b64decode(DOT))
    assert task_messages([picture])[0].parts == (PICTURE,)


@check_each("data", [b"RIFF....WAVEfmt ", b"RF64....WAVEds64"])
def test_a_wave_file_is_sent_in_the_format_that_services_know(data: bytes):
    with tempfile.TemporaryDirectory() as folder:
        (sound := Path(folder) / "a.wav").write_bytes(data)
        request = ts.Request("m", task_messages([sound]))
    (part,) = json.loads(openai_chat.encode_request(request))["messages"][0]["content"]
    assert part["input_audio"]["format"] == "wav"


@check_each(
    "task, words",
    [
        (" ", "non-empty"),
        ([], "non-empty"),
        (["", " "], "non-empty"),
        (5, "not a `int`"),
        (None, "not a `NoneType`"),
        ({"role": "user", "content": "x"}, "not a `dict`"),
        (b"x", "not a `bytes`"),
        ([b"x"], "format of the data is unknown"),
        ([b""], "format of the data is unknown"),
        ([b"RIFF....AVI LIST"], "format of the data is unknown"),
        (["a", Path(os.devnull)], "is empty"),
        (["a", 5], "cannot contain a `int`"),
        ([user(TextPart("x")), "and a text"], "list of messages contains a `str`"),
        ([user(TextPart("x")), Message("assistant", (TextPart("y"),))], "must be from the user"),
        (user(), "last message is empty"),
        ([{"role": "user", "content": 5}], "content"),
        ([{"role": "king", "content": "x"}], "role"),
        ([{"type": "image_url", "image_url": 5}], "image_url"),
        (Path("/nowhere/x.png"), "cannot read"),
    ],
)
def test_mistakes_in_a_task_raise(task: Any, words: str):
    with pytest.raises(UsageError, match=words):
        task_messages(task)


def test_a_file_that_no_provider_takes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "big.png").write_bytes(b"x" * 20)
    monkeypatch.setattr(inputs, "MAX_FILE_BYTES", 10)
    with pytest.raises(UsageError, match="larger than 10 bytes"):
        task_messages(tmp_path / "big.png")


# ---- in a run


def test_images_and_messages_are_stored_and_continued_like_texts(tmp_path: Path):
    store = f"sqlite:///{tmp_path}/s.db"
    history = [
        {"role": "user", "content": "I am Ann."},
        {"role": "assistant", "content": "Hello Ann."},
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, OPENAI_PART]},
    ]
    with ts.Agent(model("A dot."), store=store) as one:
        first = one.run(history)
    upstream = model("Your dot, Ann.")
    with ts.Agent(upstream, store=store) as later:
        second = later.run(["And this?", LINK], session=first.session)
    sent = upstream.requests[0].messages
    assert [message.role for message in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert PICTURE in sent[2].parts
    assert sent[4].parts == (TextPart("And this?"), LINK)
    assert (first.text, second.text) == ("A dot.", "Your dot, Ann.")
    assert second.task == (user(TextPart("And this?"), LINK),)


def test_an_interrupted_task_of_parts_is_resumed_with_them():
    async def both() -> Any:
        upstream = model(ts.UpstreamError("gone"), "A dot.")
        one = agent(upstream)
        first = await one.run(["What is this?", PICTURE])
        return first, await one.resume(first.session), upstream.requests[-1]

    first, second, request = run(both())
    assert (first.status, second.status, second.text) == ("failed", "complete", "A dot.")
    assert PICTURE in request.messages[0].parts


def test_a_stream_takes_the_same_input():
    upstream = model("A dot.")
    with ts.Agent(upstream) as one:
        events = list(one.stream([PICTURE, "What is this?"]))
    assert type(events[-1]).__name__ == "WorkFinished"
    assert upstream.requests[0].messages[0].parts == (PICTURE, TextPart("What is this?"))
    with ts.Agent(model()) as other, pytest.raises(UsageError, match="cannot contain"):
        list(other.stream([5]))  # type: ignore[list-item]


# ---- images that come back


def photo() -> Media:
    """Take a photo."""
    return PICTURE


def labelled() -> ToolOutput:
    """Take a photo with a label."""
    return ToolOutput("a dot", parts=(PICTURE,))


def test_images_in_results_reach_the_model_and_the_record():
    upstream = model(calling(ts.ToolCall("photo", {}), ts.ToolCall("labelled", {})), "Dots.")
    result = run(agent(upstream, photo, labelled).run("Take photos."))
    assert [record.result.parts for record in result.rounds[0].calls] == [(PICTURE,), (PICTURE,)]
    assert [each.parts for each in upstream.requests[1].messages[-1].results] == [(PICTURE,), (PICTURE,)]
    for protocol in ("openai", "responses", "anthropic", "gemini", "ollama"):
        assert json.dumps(result.messages(protocol)).count(DOT) == 2, protocol


class Eyes(BaseHTTPRequestHandler):
    """A vision model behind HTTP, in two protocols: in OpenAI's it counts images, in Gemini's it draws a dot once."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = self._drawing(body) if "Generate" in self.path else self._description(body)
        data = "".join(f"data: {json.dumps(each)}\n\n" for each in answer)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())

    def _description(self, body: Any) -> list[Any]:
        seen = json.dumps(body["messages"]).count('"image_url"') // 2
        delta = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": f"{seen} images"}}]}
        return [delta, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]

    def _drawing(self, body: Any) -> list[Any]:
        image = {"inlineData": {"mimeType": "image/png", "data": DOT}}
        part = {"text": "You have it."} if DOT in json.dumps(body) else image
        return [{"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}]

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def vision() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Eyes)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_images_reach_a_vision_model_over_http(vision: str):
    with ts.Client("openai:eyes", base_url=vision, api_key="k", probe="off") as client, ts.Agent(client) as one:
        result = one.run(["What are these?", PICTURE, OPENAI_PART])
        assert (result.status, result.text) == ("complete", "2 images")
        again = one.run("And before?", session=result.session)
    assert again.text == "2 images"


def test_an_image_in_the_answer_is_in_the_result_the_record_and_the_next_request(vision: str, tmp_path: Path):
    def drawing() -> ts.Agent:
        client = ts.Client("gemini:hand", base_url=vision, api_key="k", probe="off")
        return ts.Agent(client, store=f"sqlite:///{tmp_path}/s.db")

    with drawing() as one:
        first = one.run("Draw a dot.")
    assert (first.status, first.text, first.images) == ("complete", "", (PICTURE,))
    assert "empty_answer" not in [note.code for note in first.notes]
    assert DOT in json.dumps(first.messages("gemini"))
    with drawing() as other:
        assert other.resume(first.session).images == (PICTURE,)
        second = other.run("Do you see it?", session=first.session)
    assert (second.text, second.images) == ("You have it.", ())
