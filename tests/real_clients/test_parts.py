"""The parts of `make test-clients`: the model that only writes text, the relay, the table. No client is needed."""

from __future__ import annotations

import json
import socket
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import toolspeak as ts
from tests.cases import check_each
from tests.real_clients.model import ModelServer, Script, Step
from tests.real_clients.place import run
from tests.real_clients.relay import Relay, read, shape
from tests.real_clients.report import Row, merged
from tests.real_clients.tasks import OWN, PACKAGES, TASKS
from toolspeak.client_settings.table import client

WORD = "plum-0123abcd"
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": fields}}}
    for name, fields in (
        ("read_text", {"path": {"type": "string"}}),
        ("write_text", {"path": {"type": "string"}, "text": {"type": "string"}}),
    )
]


@check_each("plan", ["inline", "decision"])
@check_each("stream", [True, False])
def test_the_model_calls_what_is_listed_and_answers_from_the_results(plan: Any, stream: bool):
    script = Script(OWN, "/work")
    results = {"read_text": f"The word is {WORD}.", "write_text": "wrote it"}
    messages: list[Any] = [{"role": "user", "content": "Do it."}]
    called: list[tuple[str, Any]] = []
    with (
        ModelServer(script) as server,
        ts.Client("openai:m", base_url=server.url, mode="force", plan=plan) as asked,
    ):
        for _ in range(3):
            given: Any = {"tools": TOOLS}
            reply = ts.fold(list(asked.stream(messages, **given))) if stream else asked.chat(messages, **given)
            calls = list(reply.tool_calls)
            called += [(call.name, call.arguments) for call in calls]
            messages.append({"role": "assistant", "content": reply.text, "tool_calls": [_wire(call) for call in calls]})
            messages += [{"role": "tool", "tool_call_id": call.id, "content": results[call.name]} for call in calls]
    assert called == [
        ("read_text", {"path": "secret.txt"}),
        ("write_text", {"path": "made.txt", "text": f"{WORD}\n"}),
    ]
    assert messages[-1]["content"] == f"Done. The word is {WORD}."
    assert script.complaints == []


def _wire(call: Any) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def test_the_model_says_so_when_a_tool_is_missing():
    script = Script((Step({"fly": {}}),), "/work")
    assert "none of ['fly'] is listed" in script.answer(
        {"messages": [{"role": "system", "content": "- walk: on foot\n# How to call a tool\n"}]}
    )
    assert script.complaints == ["none of ['fly'] is listed, but ['walk']"]


def test_without_tools_the_model_says_something_short():
    assert Script(OWN, "/work").answer({"messages": [{"role": "user", "content": "A title?"}]}) == "A small errand"


def test_tools_that_reach_the_model_are_complained_about():
    script = Script(OWN, "/work")
    script.answer({"messages": [], "tools": [], "tool_choice": "auto"})
    assert script.complaints == ["the upstream was sent `tools`", "the upstream was sent `tool_choice`"]


# ---- the relay


def test_the_relay_passes_on_and_keeps_what_was_asked():
    with ModelServer(Script(OWN, "/work")) as server, Relay(server.server_address[1]) as relay:
        body = json.dumps({"messages": [{"role": "user", "content": "A title?"}]}).encode()
        request = urllib.request.Request(f"{relay.url}/v1/chat/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["choices"][0]["message"]["content"] == "A small errand"
        asked = relay.asked()
    assert [(each.method, each.path, each.status, each.protocol) for each in asked] == [
        ("POST", "/v1/chat/completions", 200, "OpenAI chat")
    ]
    assert asked[0].body["messages"][0]["content"] == "A title?"


def test_requests_of_one_connection_are_told_apart_with_their_answers():
    sent = (
        b"HEAD / HTTP/1.1\r\n\r\n"
        b"POST /v1/messages?beta=true HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        b"POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
    )
    got = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"
        b"HTTP/1.1 429 Busy\r\nContent-Length: 2\r\n\r\nno"
        b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nn\r\n0\r\n\r\n"
    )
    asked = list(read(sent, got))
    assert [(each.path, each.body, each.status, each.reply) for each in asked] == [
        ("/", None, 200, b""),
        ("/v1/messages?beta=true", {}, 429, b"no"),
        ("/x", "(3 bytes)", 404, b"n"),
    ]
    assert asked[1].protocol == "Anthropic Messages"


def test_a_request_without_an_answer_has_none():
    assert [each.status for each in read(b"GET / HTTP/1.1\r\n\r\n", b"")] == [0]
    assert list(read(b"GET / HT", b"")) == []


def test_a_shape_holds_no_texts():
    assert shape({"role": "user", "content": "x" * 50, "tools": [{"n": 1}, {"n": 1}, {"n": 2}]}) == {
        "role": "user",
        "content": "<50 characters>",
        "tools": [{"n": 1}, {"n": 2}],
    }


# ---- programs


def test_a_program_that_does_not_end_is_killed_with_all_it_started(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # The child holds a connection: when that breaks, the child is gone.
        child = f"import socket, time; s = socket.create_connection(('127.0.0.1', {port})); time.sleep(600)"
        program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
        held: list[socket.socket] = []
        thread = threading.Thread(target=lambda: held.append(server.accept()[0]))
        thread.start()
        ended = run([sys.executable, "-c", program], tmp_path, {}, 2)
        if not held:  # it was killed before it began, which is as good
            socket.create_connection(("127.0.0.1", port)).close()
        thread.join()
        held[0].settimeout(30)
        assert held[0].recv(1) == b""
        held[0].close()
    assert ended.timed_out


# ---- the table


def test_rows_are_replaced_and_others_stay():
    page = "Head\n<!-- clients -->\n\n| client |\n|---|\n| A | old |\n| B | old |\n| C | gone |\n\n<!-- /clients -->\nTail\n"
    rows = [Row("B", "2", "2026-01-01", "OpenAI chat", "a|b", "failed", "why")]
    assert merged(page, rows, ["B", "A"]) == (
        "Head\n<!-- clients -->\n\n"
        "| client | version | date | protocol | task | result |\n|---|---|---|---|---|---|\n"
        "| B | 2 | 2026-01-01 | OpenAI chat | a\\|b | failed: why |\n| A | old |\n\n<!-- /clients -->\nTail\n"
    )


@check_each("task", TASKS, ids=lambda task: task.title)
def test_every_task_has_a_package_with_a_version_and_settings(task: Any):
    assert PACKAGES[task.package].version[0].isdigit()
    assert client(task.settings)
