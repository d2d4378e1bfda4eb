"""Clients of the five protocols, written by hand from the documentation of each.

Each is independent of our codecs, so that a mistake in one of those is seen. Without a network: a client gives bodies
and reads bytes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.server.live_proxy import DESCRIPTIONS, QUESTION, SCHEMAS

#: id, name, arguments.
Call = tuple[str, str, dict[str, Any]]


@dataclass
class Seen:
    """What a client understood."""

    text: str = ""
    calls: list[Call] = field(default_factory=list[Call])
    #: Why it ended, in the words of the protocol; empty when it did not.
    reason: str = ""
    #: An error that came instead of an end.
    error: str = ""
    tokens: int = 0
    extension: dict[str, Any] | None = None
    #: The stream ended as a good one ends.
    ended: bool = False
    #: What must be sent back as it came.
    raw: list[Any] = field(default_factory=list[Any])


class Speaker(ABC):
    """A client of one protocol."""

    name: str
    #: Why it ends with calls, and without.
    reasons: tuple[str, str]

    @abstractmethod
    def path(self, stream: bool) -> str: ...
    @abstractmethod
    def ask(self, stream: bool, tools: bool = True) -> dict[str, Any]: ...
    @abstractmethod
    def tell(self, asked: dict[str, Any], seen: Seen, results: dict[str, str]) -> dict[str, Any]: ...
    @abstractmethod
    def read(self, data: bytes, stream: bool) -> Seen: ...


def sse(data: bytes) -> list[tuple[str, str]]:
    """Event names and data, by the rules of the WHATWG. A comment is nothing."""
    found: list[tuple[str, str]] = []
    for block in data.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":") for line in block.split("\n") if line and not line.startswith(":")]
        fields = {name: value.removeprefix(" ") for name, _, value in lines}
        if "data" in fields:
            found.append((fields.get("event", ""), fields["data"]))
    return found


class Chat(Speaker):
    name = "openai_chat"
    reasons = ("tool_calls", "stop")

    def path(self, stream: bool) -> str:
        return "/v1/chat/completions"

    def ask(self, stream: bool, tools: bool = True) -> dict[str, Any]:
        functions = [
            {"type": "function", "function": {"name": name, "description": DESCRIPTIONS[name], "parameters": schema}}
            for name, schema in SCHEMAS.items()
        ]
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
        if stream:
            body["stream_options"] = {"include_usage": True}
        return body | {"tools": functions} if tools else body

    def tell(self, asked: dict[str, Any], seen: Seen, results: dict[str, str]) -> dict[str, Any]:
        calls = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for id, name, given in seen.calls
        ]
        told = [{"role": "tool", "tool_call_id": id, "content": results[name]} for id, name, _ in seen.calls]
        assistant = {"role": "assistant", "content": seen.text or None, "tool_calls": calls}
        return asked | {"messages": [*asked["messages"], assistant, *told]}

    def read(self, data: bytes, stream: bool) -> Seen:
        return self._stream(data) if stream else self._whole(json.loads(data))

    def _whole(self, body: dict[str, Any]) -> Seen:
        message = body["choices"][0]["message"]
        calls = [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls") or []
        ]
        reason = body["choices"][0]["finish_reason"]
        return Seen(message["content"] or "", calls, reason, tokens=body["usage"]["completion_tokens"], ended=True)

    def _stream(self, data: bytes) -> Seen:
        seen = Seen()
        parts: dict[int, list[str]] = {}
        for _, text in sse(data):
            if text == "[DONE]":
                seen.ended = True
                continue
            chunk = json.loads(text)
            seen.error = chunk.get("error", {}).get("message", seen.error)
            seen.tokens = (chunk.get("usage") or {}).get("completion_tokens", seen.tokens)
            seen.extension = chunk.get("toolspeak", seen.extension)
            for choice in chunk.get("choices", []):
                seen.reason = choice["finish_reason"] or seen.reason
                seen.text += choice["delta"].get("content") or ""
                for call in choice["delta"].get("tool_calls") or []:
                    function = call["function"]
                    begun = parts.setdefault(call["index"], [call.get("id", ""), function.get("name", ""), ""])
                    begun[2] += function.get("arguments") or ""
        seen.calls = [(id, name, json.loads(given)) for id, name, given in parts.values()]
        return seen


class Responses(Speaker):
    name = "openai_responses"
    reasons = ("completed", "completed")

    def path(self, stream: bool) -> str:
        return "/v1/responses"

    def ask(self, stream: bool, tools: bool = True) -> dict[str, Any]:
        functions = [
            {"type": "function", "name": name, "description": DESCRIPTIONS[name], "parameters": schema}
            for name, schema in SCHEMAS.items()
        ]
        body: dict[str, Any] = {
            "model": "m",
            "input": [{"role": "user", "content": QUESTION}],
            "stream": stream,
            "store": False,
        }
        return body | {"tools": functions} if tools else body

    def tell(self, asked: dict[str, Any], seen: Seen, results: dict[str, str]) -> dict[str, Any]:
        told = [{"type": "function_call_output", "call_id": id, "output": results[name]} for id, name, _ in seen.calls]
        return asked | {"input": [*asked["input"], *seen.raw, *told]}

    def read(self, data: bytes, stream: bool) -> Seen:
        if not stream:
            return self._response(json.loads(data))
        seen = Seen()
        streamed = ""
        for name, text in sse(data):
            event = json.loads(text)
            assert event["type"] == name
            if name == "response.output_text.delta":
                streamed += event["delta"]
            elif name == "response.completed":
                seen = self._response(event["response"])
                assert streamed == seen.text
            elif name == "response.failed":
                seen.error = event["response"]["error"]["message"]
        seen.text = streamed
        return seen

    def _response(self, body: dict[str, Any]) -> Seen:
        seen = Seen(reason=body["status"], tokens=body["usage"]["output_tokens"], raw=body["output"], ended=True)
        seen.extension = body.get("toolspeak")
        for item in body["output"]:
            if item["type"] == "message":
                seen.text += "".join(part["text"] for part in item["content"])
            elif item["type"] == "function_call":
                seen.calls.append((item["call_id"], item["name"], json.loads(item["arguments"])))
        return seen


class Messages(Speaker):
    name = "anthropic"
    reasons = ("tool_use", "end_turn")

    def path(self, stream: bool) -> str:
        return "/v1/messages?beta=true"

    def ask(self, stream: bool, tools: bool = True) -> dict[str, Any]:
        listed = [
            {"name": name, "description": DESCRIPTIONS[name], "input_schema": schema}
            for name, schema in SCHEMAS.items()
        ]
        body: dict[str, Any] = {
            "model": "m",
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": QUESTION}],
            "stream": stream,
        }
        return body | {"tools": listed} if tools else body

    def tell(self, asked: dict[str, Any], seen: Seen, results: dict[str, str]) -> dict[str, Any]:
        told = [{"type": "tool_result", "tool_use_id": id, "content": results[name]} for id, name, _ in seen.calls]
        assistant = {"role": "assistant", "content": seen.raw}
        return asked | {"messages": [*asked["messages"], assistant, {"role": "user", "content": told}]}

    def read(self, data: bytes, stream: bool) -> Seen:
        if not stream:
            return self._message(json.loads(data))
        seen = Seen()
        message: dict[str, Any] = {}
        open_blocks: dict[int, str] = {}
        for name, text in sse(data):
            event = json.loads(text)
            assert event["type"] == name
            match name:
                case "message_start":
                    message = event["message"]
                case "content_block_start":
                    assert event["index"] == len(message["content"]) and not open_blocks
                    message["content"].append(event["content_block"])
                    open_blocks[event["index"]] = ""
                case "content_block_delta":
                    delta = event["delta"]
                    open_blocks[event["index"]] += delta.get("text") or delta.get("partial_json") or ""
                case "content_block_stop":
                    block, said = message["content"][event["index"]], open_blocks.pop(event["index"])
                    block.update({"input": json.loads(said)} if block["type"] == "tool_use" else {"text": said})
                case "message_delta":
                    message |= event["delta"]
                    message["usage"] |= event["usage"]
                case "message_stop":
                    seen = self._message(message)
                    seen.extension = event.get("toolspeak")
                case "error":
                    seen.error = event["error"]["message"]
                case _:
                    assert name == "ping"
        seen.text += "".join(open_blocks.values())
        return seen

    def _message(self, body: dict[str, Any]) -> Seen:
        seen = Seen(reason=body["stop_reason"], tokens=body["usage"]["output_tokens"], raw=body["content"], ended=True)
        for block in body["content"]:
            if block["type"] == "text":
                seen.text += block["text"]
            else:
                seen.calls.append((block["id"], block["name"], block["input"]))
        return seen


class Gemini(Speaker):
    name = "gemini"
    reasons = ("STOP", "STOP")

    def path(self, stream: bool) -> str:
        return "/v1beta/models/m:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")

    def ask(self, stream: bool, tools: bool = True) -> dict[str, Any]:
        declared = [
            {"name": name, "description": DESCRIPTIONS[name], "parametersJsonSchema": schema}
            for name, schema in SCHEMAS.items()
        ]
        body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
        return body | {"tools": [{"functionDeclarations": declared}]} if tools else body

    def tell(self, asked: dict[str, Any], seen: Seen, results: dict[str, str]) -> dict[str, Any]:
        told = [
            {"functionResponse": {"id": id, "name": name, "response": {"result": results[name]}}}
            for id, name, _ in seen.calls
        ]
        answered = [{"role": "model", "parts": seen.raw}, {"role": "user", "parts": told}]
        return asked | {"contents": [*asked["contents"], *answered]}

    def read(self, data: bytes, stream: bool) -> Seen:
        responses = [json.loads(text) for _, text in sse(data)] if stream else [json.loads(data)]
        seen = Seen()
        for response in responses:
            seen.error = response.get("error", {}).get("message", seen.error)
            seen.extension = response.get("toolspeak", seen.extension)
            seen.tokens = response.get("usageMetadata", {}).get("candidatesTokenCount", seen.tokens)
            for candidate in response.get("candidates", []):
                seen.raw += candidate["content"]["parts"]
                seen.reason = candidate.get("finishReason", seen.reason)
        for part in seen.raw:
            if "functionCall" in part:
                call = part["functionCall"]
                seen.calls.append((call.get("id", ""), call["name"], call["args"]))
            else:
                seen.text += part["text"]
        seen.ended = bool(seen.reason)
        return seen


class Ollama(Speaker):
    name = "ollama"
    reasons = ("stop", "stop")

    def path(self, stream: bool) -> str:
        return "/api/chat"

    def ask(self, stream: bool, tools: bool = True) -> dict[str, Any]:
        body = Chat().ask(False, tools)
        return body | {"stream": stream}

    def tell(self, asked: dict[str, Any], seen: Seen, results: dict[str, str]) -> dict[str, Any]:
        calls = [{"function": {"name": name, "arguments": given}} for _, name, given in seen.calls]
        told = [{"role": "tool", "tool_name": name, "content": results[name]} for _, name, _ in seen.calls]
        assistant = {"role": "assistant", "content": seen.text, "tool_calls": calls}
        return asked | {"messages": [*asked["messages"], assistant, *told]}

    def read(self, data: bytes, stream: bool) -> Seen:
        lines = [json.loads(line) for line in data.decode().splitlines()] if stream else [json.loads(data)]
        seen = Seen()
        for line in lines:
            seen.error = line.get("error", seen.error)
            message = line.get("message", {})
            seen.text += message.get("content", "")
            for call in message.get("tool_calls", []):
                seen.calls.append(("", call["function"]["name"], call["function"]["arguments"]))
            if line.get("done"):
                seen.reason, seen.ended = line["done_reason"], True
                seen.tokens = line.get("eval_count", 0)
                seen.extension = line.get("toolspeak")
        return seen


SPEAKERS: Sequence[Speaker] = (Chat(), Responses(), Messages(), Gemini(), Ollama())
