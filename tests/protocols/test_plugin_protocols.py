"""A protocol that a plugin brings: the server answers clients in it, and the client reaches models through it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cases import check_each
from tests.plugin_helpers import run
from toolspeak.errors import ConfigError
from toolspeak.protocols import add_protocol, plugin_protocols


def work(*arguments: Any) -> Any:
    """Stand for a function of a codec, which is only looked up here."""


UPSTREAM = {
    "PATH": "/complete",
    "encode_request": work,
    "request_notes": work,
    "ReplyDecoder": work,
    "decode_error": work,
}
CLIENT = {
    "ROUTES": ("/nova/complete",),
    "decode_request": work,
    "ReplyEncoder": work,
    "encode_reply": work,
    "encode_error": work,
}


@pytest.fixture
def protocols() -> Iterator[dict[str, Any]]:
    yield plugin_protocols()
    plugin_protocols().clear()


@check_each("parts", [UPSTREAM, CLIENT, UPSTREAM | CLIENT])
def test_a_protocol_may_be_for_upstreams_or_clients_or_both(parts: dict[str, Any]):
    codec = SimpleNamespace(**parts)
    try:
        add_protocol("nova", codec)
        add_protocol("nova", codec)
        assert plugin_protocols() == {"nova": codec}
    finally:
        plugin_protocols().clear()


@check_each(
    ("name", "parts", "message"),
    [
        ("openai_chat", CLIENT, "the name of the protocol is taken"),
        ("openai", CLIENT, "the name of the protocol is taken"),
        ("other", CLIENT, "the name of the protocol is taken"),
        ("No Va", CLIENT, "is not a word of small letters"),
        ("nova", {}, "has no `PATH` or `ROUTES`"),
        ("nova", {"PATH": "/x"}, "has no `encode_request`"),
        ("nova", CLIENT | {"encode_error": 3}, "has no `encode_error`"),
        ("nova", CLIENT | {"ROUTES": ("/other",)}, "the route `/other` is taken"),
        ("nova", CLIENT | {"ROUTES": ("nova",)}, "is not a path such as `/acme/chat`"),
    ],
)
def test_an_incomplete_protocol_is_refused(name: str, parts: dict[str, Any], message: str):
    other = SimpleNamespace(**CLIENT | {"ROUTES": ("/other",)})
    try:
        add_protocol("other", other)
        with pytest.raises(ConfigError) as caught:
            add_protocol(name, SimpleNamespace(**parts))
        assert message in str(caught.value)
        assert plugin_protocols() == {"other": other}
    finally:
        plugin_protocols().clear()


# ---- a whole one

CODEC = '''
"""The protocol `nova`: `{"prompt": [[role, text]], "tools": [...]}`, and `{"text", "calls"}` or lines of them."""

import json

from toolspeak import CallArgs, CallEnd, CallStart, Failure, Finish, Message, Request, TextDelta, TextPart, Tool
from toolspeak.plugin_api import BaseReplyDecoder

PATH, ROUTES = "/complete", ("/nova/complete",)
MODELS = ("/models", "data", "id")
KEY_HEADER, KEY_PREFIX = "x-nova-key", ""
ID_PREFIX = "nova-"


def encode_request(request):
    prompt = [[each.role, "".join(part.text for part in each.parts)] for each in request.messages]
    tools = [{"name": tool.name, "parameters": tool.parameters} for tool in request.tools]
    return json.dumps({"model": request.model, "prompt": prompt, "tools": tools, "stream": request.stream}).encode()


def request_notes(request):
    return ()


class ReplyDecoder(BaseReplyDecoder):
    def _event(self, name, payload):
        self._answer(json.loads(payload))

    def _whole(self, body):
        self._answer(json.loads(body))
        self._end()

    def _answer(self, fields):
        self._read += 1
        if fields["text"]:
            self._emit(TextDelta(fields["text"]))
        for at, call in enumerate(fields["calls"]):
            for event in (CallStart(at, call["name"]), CallArgs(at, json.dumps(call["arguments"])), CallEnd(at)):
                self._emit(event)
        self._reason = self._reason or ("tool_calls" if fields["calls"] else "stop")

    def _end(self):
        self._wrap_up()
        self._emit(Finish(self._reason) if self._reason else self._truncated())


def decode_error(status, body, headers):
    return Failure(body.decode(errors="replace"), "upstream", status)


def decode_request(fields):
    messages = tuple(Message(role, (TextPart(text),)) for role, text in fields["prompt"])
    tools = tuple(Tool(each["name"], parameters=each["parameters"]) for each in fields["tools"])
    return Request(fields["model"], messages, tools, stream=fields["stream"], protocol="nova")


class ReplyEncoder:
    def __init__(self, request, *, id, created, model):
        self._names, self._arguments = {}, {}

    def encode(self, events):
        rows = []
        for event in events:
            if isinstance(event, TextDelta):
                rows.append({"text": event.text, "calls": []})
            elif isinstance(event, CallStart):
                self._names[event.index], self._arguments[event.index] = event.name, ""
            elif isinstance(event, CallArgs):
                self._arguments[event.index] += event.fragment
            elif isinstance(event, CallEnd):
                arguments = json.loads(self._arguments[event.index])
                rows.append({"text": "", "calls": [{"name": self._names[event.index], "arguments": arguments}]})
        return b"".join(b"data: %s\\n\\n" % json.dumps(row).encode() for row in rows)

    def close(self, extension=None):
        return b""


def encode_reply(reply, request, *, id, created, model, extension=None):
    calls = [{"name": call.name, "arguments": call.arguments} for call in reply.calls]
    return json.dumps({"text": reply.text, "calls": calls}).encode()


def encode_error(error):
    return 500, str(error).encode()
'''
REST = '''
from toolspeak.plugin_api import FunctionUpstream

PROFILES = """
[providers.nova]
hosts = ["*"]
protocol = "nova"
capability = "openai"
"""


def connect(model, base_url, api_key):
    def answer(messages):
        return "<tool_call>{\\\\"name\\\\": \\\\"ping\\\\", \\\\"arguments\\\\": {\\\\"a\\\\": 1}}</tool_call>" if "call" in str(messages[-1]) else "Hello."

    return FunctionUpstream(answer)
'''.replace("\\\\", "\\")
ENTRY_POINTS = """
[toolspeak.protocols]
nova = nova_codec
[toolspeak.profiles]
nova = nova_rest:PROFILES
[toolspeak.upstreams]
nova-demo = nova_rest:connect
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "nova_codec.py").write_text(CODEC, encoding="utf-8")
    (tmp_path / "nova_rest.py").write_text(REST, encoding="utf-8")
    info = tmp_path / "nova-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nova\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    return tmp_path


USE = """
import sys
import toolspeak as ts

tools = [ts.Tool("ping", parameters={{"type": "object", "properties": {{"a": {{"type": "integer"}}}}}})]
with ts.Client({model}, base_url=sys.argv[1] + "/nova", {options}) as client:
    print(client.chat("Hi").text)
    reply = client.chat("Please call it", tools=tools)
    print(reply.tool_calls[0].name, reply.tool_calls[0].arguments, reply.requests)
    stream = client.stream("Please call it", tools=tools)
    print([type(event).__name__ for event in stream][0], stream.reply.tool_calls[0].arguments)
"""


@pytest.mark.no_cover
def test_server_and_client_speak_it(site: Path):
    command = [sys.executable, "-m", "toolspeak", "serve", "--port", "0", "--model", "nova-demo:m"]
    environment = {
        "PYTHONPATH": str(site),
        "XDG_STATE_HOME": str(site),
        "XDG_CONFIG_HOME": str(site),
        "PATH": "/usr/bin",
    }
    with subprocess.Popen(command, env=environment, cwd=site, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = re.search(r"http://[\d.:]+", server.stdout.readline())
            assert url is not None
            for model, options in (("'nova:m'", "mode='auto'"), ("'openai:m'", "protocol='nova', mode='off'")):
                told = run(site, sys.executable, "-c", USE.format(model=model, options=options), url.group())
                assert told.splitlines() == ["Hello.", "ping {'a': 1} 1", "CallStart {'a': 1}"]
        finally:
            server.terminate()
