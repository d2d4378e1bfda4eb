"""A scripted model with a small context window: it counts tokens its own way and rejects what is too long.

It works through a number of rounds, each with calls of the tool `page`, and writes summaries when asked. It remembers
nothing but the number of rounds, so it also shows what reached it: `tasks_seen` and `sizes`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.upstreams.loopback_server import Heard
from toolspeak.errors import UpstreamError

WINDOW = 4096
TASK = "Read all the pages of the book."
SUMMARISE = "Summarise the conversation"


def page(number: int) -> str:
    """Read a page of the book."""
    return f"page {number} " + "lorem ipsum dolor sit amet " * 190


class WindowModel:
    """Plays a task of so many rounds.

    Args:
        chars: characters per token.
        states_window: whether an error says how large the window is.
    """

    def __init__(
        self, rounds: int = 40, calls: int = 1, chars: int = 4, window: int = WINDOW, states_window: bool = True
    ) -> None:
        self.rounds, self.calls, self.chars, self.window = rounds, calls, chars, window
        self.states_window = states_window
        self.round = 0
        self.sizes: list[int] = []
        self.summaries = 0
        self.complaints = 0
        self.tasks_seen = 0
        self.last_results: list[str] = []

    # ---- as a function

    def __call__(self, messages: list[dict[str, Any]]) -> str:
        size = self._count({"messages": messages})
        if size > self.window:
            raise UpstreamError(self._complaint(size), upstream_status=400)
        text = "\n".join(message["content"] for message in messages)
        if (answer := self._plain(messages)) is not None:
            return answer
        mark = re.search(r"json action (\w+)", text)
        assert mark is not None
        return "\n".join(
            f"```json action {mark[1]}\n{json.dumps({'tool': 'page', 'parameters': {'number': number}})}\n```"
            for number in self._next_pages()
        )

    # ---- over HTTP

    async def answer(self, heard: Heard) -> None:
        """Answer a chat completion, streamed or not, with native calls if tools are offered."""
        asked = heard.json
        size = self._count({key: asked[key] for key in ("messages", "tools") if key in asked})
        if size > self.window:
            await _respond(heard, 400, {"error": {"message": self._complaint(size), "code": "context_length_exceeded"}})
            return
        text = self._plain(asked["messages"])
        usage = {"prompt_tokens": size, "completion_tokens": 20, "total_tokens": size + 20}
        if text is not None:
            message: dict[str, Any] = {"role": "assistant", "content": text}
        elif "tools" in asked:
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [self._call(at) for at in self._next_pages()],
            }
        else:  # the tools are in the prompt
            marks = re.search(r"json action (\w+)", json.dumps(asked["messages"]))
            assert marks is not None
            blocks = [
                f"```json action {marks[1]}\n{json.dumps({'tool': 'page', 'parameters': {'number': at}})}\n```"
                for at in self._next_pages()
            ]
            message = {"role": "assistant", "content": "\n".join(blocks)}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        if not asked.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            await _respond(heard, 200, {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        calls = message.get("tool_calls", ())
        delta = message | {"tool_calls": [{"index": at, **call} for at, call in enumerate(calls)]} if calls else message
        chunks = [
            {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]
        lines = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
        await _send(heard, 200, lines, "text/event-stream")

    # ---- what it does

    def _count(self, body: dict[str, Any]) -> int:
        size = len(json.dumps(body)) // self.chars
        self.sizes.append(size)
        self.complaints += size > self.window
        return size

    def _complaint(self, size: int) -> str:
        if not self.states_window:
            return "Your input exceeds the context window of this model."
        return f"This model's maximum context length is {self.window} tokens. Your messages resulted in {size} tokens."

    def _plain(self, messages: list[dict[str, Any]]) -> str | None:
        """Return a text if one is due: a summary, or the end of the task."""
        last = str(messages[-1].get("content"))
        if last.startswith(SUMMARISE):
            self.summaries += 1
            numbers = sorted({int(number) for number in re.findall(r"page (\d+)", last)})
            return f"The user wants all pages read. Read so far: {numbers[:1]} to {numbers[-1:]}."
        self.tasks_seen += any(TASK in str(message.get("content")) for message in messages)
        self.last_results.append(last)
        return "Everything is read." if self.round >= self.rounds else None

    def _next_pages(self) -> range:
        start = self.round * self.calls
        self.round += 1
        return range(start, start + self.calls)

    def _call(self, number: int) -> dict[str, Any]:
        called = {"name": "page", "arguments": json.dumps({"number": number})}
        return {"id": f"call_{number}", "type": "function", "function": called}


async def _respond(heard: Heard, status: int, body: dict[str, Any]) -> None:
    await _send(heard, status, json.dumps(body).encode(), "application/json")


async def _send(heard: Heard, status: int, body: bytes, kind: str) -> None:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    await heard.send(head.encode() + body)
