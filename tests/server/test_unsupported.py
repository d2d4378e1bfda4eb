"""What is not served is said in the words of whoever asks; what is, is found by every name it has."""

from __future__ import annotations

from typing import Any

import ollama
import openai
import pytest

from tests.cases import check_each
from tests.server.asgi_client import Parrot, ask, gateway, line, run
from tests.server.live_proxy import Two, live
from toolspeak.server.app import App
from toolspeak.server.unsupported import unsupported_error

pytestmark = pytest.mark.requirement("G3")

OLLAMA = ["pull", "push", "create", "copy", "delete", "embed", "embeddings", "blobs/sha256:5"]
OPENAI = [
    "completions",
    "embeddings",
    "moderations",
    "images/generations",
    "audio/speech",
    "files",
    "batches",
    "fine_tuning/jobs",
    "responses/resp_1/cancel",
    "chat/completions/1",
]


def answered(method: str, path: str) -> Any:
    return run(ask(App(gateway()), method, path, body=b"{}"))


@check_each("path", OLLAMA)
def test_what_ollama_serves_and_we_do_not_is_501_in_its_shape(path: str):
    answer = answered("DELETE" if path == "delete" else "POST", f"/api/{path}")
    assert answer.status == 501
    assert "/api/chat" in answer.json["error"]


@check_each("prefix", ["", "/v1"])
@check_each("path", OPENAI)
def test_what_openai_serves_and_we_do_not_is_404_in_its_shape(prefix: str, path: str):
    answer = answered("POST", f"{prefix}/{path}")
    assert answer.status == 404
    error = answer.json["error"]
    assert (error["type"], error["code"]) == ("not_found_error", "not_found")
    assert "/v1/chat/completions" in error["message"]


@check_each("path", ["/v1/messages/batches", "/messages/batches", "/v1/complete"])
def test_what_anthropic_serves_and_we_do_not_is_404_in_its_shape(path: str):
    answer = answered("POST", path)
    assert (answer.status, answer.json["type"], answer.json["error"]["type"]) == (404, "error", "not_found_error")


@check_each("path", ["/v1beta/models/m:embedContent", "/v1/models/m:batchEmbedContents", "/v1beta/cachedContents"])
def test_what_google_serves_and_we_do_not_is_404_in_its_shape(path: str):
    answer = answered("POST", path)
    assert (answer.status, answer.json["error"]["status"]) == (404, "NOT_FOUND")
    assert "generateContent" in answer.json["error"]["message"]


@check_each(
    ("path", "error"),
    [
        ("/v1/v1/messages", {"type": "not_found_error", "message": "unknown path /v1/v1/messages"}),
        ("/v1/v1/chat/completions", {"code": "not_found", "message": "unknown path /v1/v1/chat/completions"}),
        ("/v1beta/v1beta/models/m:generateContent", {"status": "NOT_FOUND", "code": 404}),
    ],
)
def test_a_base_url_with_a_version_too_many_is_told_so(path: str, error: dict[str, Any]):
    answer = answered("POST", path)
    assert answer.status == 404
    for name, value in error.items():
        assert str(answer.json["error"][name]).startswith(str(value))
    assert f"remove /{path.split('/')[1]} from the base URL" in answer.json["error"]["message"]


@check_each(
    ("path", "meant", "shape"),
    [
        ("//v1//messages/", "/v1/messages", {"type": "not_found_error"}),
        ("/v1/chat/completions/", "/v1/chat/completions", {"code": "not_found"}),
    ],
)
def test_a_slash_too_many_is_told(path: str, meant: str, shape: dict[str, Any]):
    error = answered("POST", path).json["error"]
    assert f"{meant} exists: check the slashes" in error["message"]
    assert shape.items() <= error.items()


def test_a_base_url_with_a_version_for_ollama_is_told_so():
    assert "remove /v1 from the base URL" in answered("POST", "/v1/api/chat").json["error"]


@check_each("path", ["/nowhere", "/v1", "/v1/nowhere", "/api", "/api/nowhere"])
def test_nothing_at_all_is_404(path: str):
    assert answered("GET", path).status == 404


@check_each(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("PUT", "/v1/models", "GET, HEAD"),
        ("GET", "/api/chat", "POST"),
        ("OPTIONS", "/toolspeak/session", "GET, POST, DELETE"),
        ("POST", "/v1/models/m", "GET, HEAD"),
        ("GET", "/v1beta/models/m:generateContent", ""),
    ],
)
def test_another_method_of_a_path_is_405_and_says_which(method: str, path: str, allowed: str):
    answer = answered(method, path)
    # A model may be called `m:generateContent`, so the last one is a model that is not there.
    assert (answer.status, answer.header("allow")) == ((405, allowed) if allowed else (404, ""))


def test_a_thing_that_is_not_there_is_told_in_the_shape_of_its_route():
    assert unsupported_error("GET", "/v1beta/models/none").error_protocol == "gemini"
    assert answered("GET", "/v1beta/models/none").json["error"]["code"] == 404
    assert answered("GET", "/v1/models/none").json["error"]["code"] == "not_found"


def test_a_model_is_shown_in_geminis_words_below_its_prefix():
    app = App(gateway(line("one", Parrot(), models=("m",))))
    shown = run(ask(app, "GET", "/v1beta/models/m")).json
    assert shown == run(ask(app, "GET", "/v1beta/models")).json["models"][0]
    assert shown["name"] == "models/m"


# ---- the real clients


def test_the_sdk_of_openai_does_not_ask_again_for_what_is_not_served():
    with live(Two()) as proxy, openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="x") as client:
        with pytest.raises(openai.NotFoundError, match="embeddings are not supported"):
            client.embeddings.create(model="m", input="x")
        with pytest.raises(openai.NotFoundError, match="no stored response with this id"):
            client.responses.retrieve("resp_1")


@pytest.mark.requirement("G4")
@check_each("upstream", ["openai_chat", "ollama", "anthropic"])
def test_the_sdk_of_ollama_generates(upstream: str):
    model = Two()
    with live(model, upstream) as proxy, ollama.Client(proxy.url) as client:
        whole = client.generate("m", "Hello?", system="Be brief.", options={"temperature": 0})
        pieces = list(client.generate("m", "And now?", context=whole.context, stream=True))
        with pytest.raises(ollama.ResponseError, match="embeddings are not supported") as caught:
            client.embed("m", "x")
    assert whole.response
    assert whole.done_reason == "stop"
    assert "".join(piece.response or "" for piece in pieces) == whole.response
    assert (pieces[-1].done, caught.value.status_code) == (True, 501)
    asked = [[(message.role, message.text) for message in request.messages] for request in model.asked]
    assert asked[0] == [("system", "Be brief."), ("user", "Hello?")]
    assert asked[1] == [("user", "Hello?"), ("assistant", whole.response), ("user", "And now?")]
    assert not any(request.tools for request in model.asked)


@check_each("path", ["/api/chat", "/api/generate"])
@check_each("stream", [True, False])
def test_a_model_that_is_elsewhere_need_not_be_loaded(path: str, stream: bool):
    parrot = Parrot()
    app = App(gateway(line("one", parrot)))
    answer = run(ask(app, "POST", path, body={"model": "m", "stream": stream}))
    assert (answer.status, answer.json["done"], answer.json["done_reason"]) == (200, True, "load")
    assert parrot.asked == []


@check_each("path", ["/api/chat", "/api/generate"])
def test_a_service_of_ollamas_is_told_to_load(path: str):
    parrot = Parrot("")
    app = App(gateway(line("one", parrot, protocol="ollama")))
    answer = run(ask(app, "POST", path, body={"model": "m", "stream": False, "keep_alive": "1h"}))
    assert (answer.status, answer.json["done_reason"]) == (200, "load")
    assert parrot.asked[0].options.extra == {"keep_alive": "1h"}


def test_what_a_prompt_loses_is_kept_with_the_record():
    app = App(gateway())
    body = {"model": "m", "prompt": "hi", "raw": True, "stream": False}
    answer = run(ask(app, "POST", "/api/generate", body=body))
    place = f"/toolspeak/requests/{answer.header('x-toolspeak').partition('id')[2][3:35]}"
    record = run(ask(app, "GET", place)).json
    assert (record["face"], [note["code"] for note in record["notes"]]) == ("ollama_generate", ["raw_as_chat"])
