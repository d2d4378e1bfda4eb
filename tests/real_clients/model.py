"""A model that has never heard of tools: a small HTTP server that speaks OpenAI's chat completions, in plain text only.

It does what a good model would do with the prompt that toolspeak wrote: it looks which tools are listed there and in
which words a call is to be made, writes the calls of its script one after the other, and then answers from what the
tools said. A request in which no tools are described (a title, a summary) gets a short text. After `MOST_REQUESTS` it
refuses, so that a client that never stops is stopped.

Above: `place`. Below: the standard library.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: No client needs more for its task; the most that any was seen to send is eight.
MOST_REQUESTS = 30
#: Pieces of a stream: small enough to cut every mark.
PIECE = 7
#: What the tools find and the model cannot know otherwise.
WORD = re.compile(r"plum-[0-9a-f]{8}")
_LISTED = re.compile(r"^- ([A-Za-z0-9_.-]+)(?:: |$)", re.MULTILINE)
_INLINE = "# How to call a tool"
#: In a last request, where no more calls may be made.
_PLAIN = "These are results of earlier steps."
_NONCE = re.compile(r'"nonce":"([a-z0-9]+)"')
_DECISION = "You decide which tools, if any, are called next"
_FENCE = re.compile(r"```json action(?: ([a-z0-9]+))?\n")

#: What the model says at the end, unless it is told something else.
FINAL = "Done. The word is {word}."

#: What the model reads where calls and results did not fit together.
_REPAIRED = ("No result was recorded", "Result of an earlier call:")

Json = Any


@dataclass(frozen=True)
class Step:
    """One call: the first of the tools that is there, with its arguments. `{word}` and `{folder}` are filled in."""

    tools: Mapping[str, Mapping[str, Json]]


@dataclass
class Script:
    """What the model does: its calls, then the text of its answer."""

    steps: tuple[Step, ...]
    folder: str
    final: str = FINAL
    #: Said where no tools are described.
    aside: str = "A small errand"
    #: How a call looks in what the model has said before; clients may tell the past in words of their own.
    past: str = _FENCE.pattern
    #: What came in and what went out, for whoever looks for the reason of a failure.
    heard: list[Json] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    #: What was wrong with the prompt, as the model saw it.
    complaints: list[str] = field(default_factory=list)

    def answer(self, request: Json) -> str:
        """The text that the model writes."""
        self.heard.append(request)
        messages = [(message["role"], _text(message.get("content"))) for message in request["messages"]]
        self.complaints += [f"the upstream was sent `{name}`" for name in ("tools", "tool_choice") if name in request]
        told = "\n".join(text for _, text in messages)
        self.complaints += [f"the history had to be repaired: {sign}" for sign in _REPAIRED if sign in told]
        text = self._next(messages)
        self.said.append(text)
        return text

    def _next(self, messages: list[tuple[str, str]]) -> str:
        system = "\n".join(text for role, text in messages if role in ("system", "developer"))
        everything = "\n".join(text for _, text in messages)
        words = WORD.findall("\n".join(text for role, text in messages if role != "assistant"))
        given = {"word": words[-1] if words else "(no result came)", "folder": self.folder}
        if _DECISION in system:
            return self._decision(system, given)
        if _INLINE not in everything:
            return filled(self.final if _PLAIN in everything else self.aside, given)
        done = sum(len(re.findall(self.past, text)) for role, text in messages if role == "assistant")
        if done >= len(self.steps):
            return filled(self.final, given)
        call = self._call(self.steps[done], everything, given)
        if call is None:
            return f"I cannot: none of {sorted(self.steps[done].tools)} is listed."
        marks = _FENCE.findall(everything)
        mark = f" {marks[-1]}" if marks and marks[-1] else ""
        body = json.dumps({"tool": call[0], "parameters": call[1]}, ensure_ascii=False)
        return f"On to step {done + 1}.\n\n```json action{mark}\n{body}\n```"

    def _decision(self, system: str, given: Mapping[str, str]) -> str:
        _, _, past = system.partition("Done since the user's last message")
        done = len(re.findall(r'^\{"name":', past, re.MULTILINE))
        call = self._call(self.steps[done], system, given) if done < len(self.steps) else None
        calls = [{"name": call[0], "arguments": call[1]}] if call else []
        return json.dumps({"nonce": _NONCE.findall(system)[-1], "tools": calls})

    def _call(self, step: Step, prompt: str, given: Mapping[str, str]) -> tuple[str, Json] | None:
        listed = _LISTED.findall(prompt)
        for name, arguments in step.tools.items():
            if name in listed or f'"name":"{name}"' in prompt.replace('": "', '":"'):
                return name, _filled_value(arguments, given)
        self.complaints.append(f"none of {sorted(step.tools)} is listed, but {listed}")
        return None


def filled(text: str, given: Mapping[str, str]) -> str:
    """The text with `{word}` and `{folder}` replaced; other braces are text."""
    for name, value in given.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _filled_value(value: Json, given: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return filled(value, given)
    if isinstance(value, Mapping):
        return {key: _filled_value(each, given) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled_value(each, given) for each in value]
    return value


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or ())


# ---- the server


class ModelServer(ThreadingHTTPServer):
    """The model behind `POST /v1/chat/completions` on a free port of the loopback."""

    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.lock = threading.Lock()
        self.requests = 0
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self) -> ModelServer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        """Only the list of models."""
        self._send(200, "application/json", json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}))

    def do_POST(self) -> None:
        """One answer."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.requests += 1
            if self.server.requests > MOST_REQUESTS:
                self._send(400, "application/json", json.dumps({"error": {"message": "too many requests for a task"}}))
                return
            text = self.server.script.answer(request)
        if request.get("stream"):
            self._send(200, "text/event-stream", "".join(_events(text)))
        else:
            self._send(200, "application/json", json.dumps(_whole(text)))

    def _send(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


_USAGE = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
_HEAD = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": "m"}


def _whole(text: str) -> Json:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE}


def _events(text: str) -> Iterator[str]:
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[at : at + PIECE]} for at in range(0, len(text), PIECE)]
    for delta in deltas:
        yield _event({"index": 0, "delta": delta, "finish_reason": None})
    yield _event({"index": 0, "delta": {}, "finish_reason": "stop"}, usage=_USAGE)
    yield "data: [DONE]\n\n"


def _event(choice: Json, **more: Json) -> str:
    return f"data: {json.dumps({**_HEAD, 'object': 'chat.completion.chunk', 'choices': [choice], **more})}\n\n"
