"""How long a hostile answer keeps the proxy from answering others: `GET /health` is polled while it is read.

    python bench/event_loop.py                     a megabyte of each kind, 512 tools
    python bench/event_loop.py --size 100000       a short look

Two processes on the loopback: the proxy as users start it, and this one, which plays the model service and the client.
Each answer is fetched twice, streamed and not. Ends with status 1 if an answer to `/health` took more than 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hostile import SHAPES

ROOT = Path(__file__).parents[1]
#: Longest time for one answer to `/health`, in milliseconds.
LIMIT = 100.0
#: Number of characters of a streamed answer in one event.
PIECE = 64
_OBJECT = {"type": "object"}
_FORMS = [
    {**_OBJECT, "properties": {f"k{n}": {"type": "string"}, "kind": {"const": n}}, "required": ["kind", f"k{n}"]}
    for n in range(200)
]
_FILE = {**_OBJECT, "properties": {"path": {"type": "string"}, "content": {"type": "string"}}, "required": ["content"]}
_NAME = "get_the_review_comments_of_a_pull_request_in_a_repository_"
SCHEMAS: dict[str, Any] = {
    "write_file": _FILE,
    "f": _OBJECT,
    "choose": {**_OBJECT, "properties": {"a": {"anyOf": _FORMS}}},
    "add": {**_OBJECT, "properties": {"n": {"type": "array", "items": {"type": "integer"}}}},
    "fill": {
        **_OBJECT,
        "properties": {f"field_{n}": {"type": "integer"} for n in range(2000)},
        "required": ["field_0"],
    },
    **{f"{_NAME}{n}": _OBJECT for n in range(507)},
}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()]


def _calls(name: str, arguments: str) -> Callable[[int], str]:
    """Calls whose name and arguments contain their number."""

    def text(size: int) -> str:
        call = '<tool_call>{"name": "%s", "arguments": %s}</tool_call>\n'
        length = len(call % (name, arguments))
        return "".join(
            call % (name.replace("#", str(n)), arguments.replace("#", str(n))) for n in range(size // length)
        )

    return text


def _numbers(size: int) -> str:
    return '<tool_call>{"name": "add", "arguments": {"n": [' + '"1",' * (size // 4) + '"1"]}}</tool_call>'


ANSWERS: dict[str, Callable[[int], str]] = {
    "prose": lambda size: "All is well that ends well. " * (size // 28),
    "a long argument": lambda size: (
        '<tool_call>{"name": "write_file", "arguments": {"content": "' + "x = 1\\n" * (size // 7) + '"}}</tool_call>'
    ),
    "calls of similar names": _calls(_NAME + "x#", "{}"),
    "calls that match no alternative": _calls("choose", '{"a": {"kind": "no", "k": #}}'),
    "numbers as strings": _numbers,
    "misspelled keys of a large schema": _calls("fill", '{"Field-#": "1", "field_0": 1}'),
    "calls like those of a long page": _calls("write_file", '{"path": "a", "content": "note #"}'),
    "values without letters, and a long page": _calls("write_file", '{"path": "/", "content": "*"}'),
    "an argument of combined characters": lambda size: (
        '<tool_call>{"name": "write_file", "arguments": {"content": "'
        + "e\u0301\u200d\u6f22" * (size // 4)
        + '"}}</tool_call>'
    ),
    **{
        name: SHAPES[name]
        for name in (
            "brace storm",
            "unclosed openers of many kinds",
            "nothing but line breaks in a string",
            "quote storm in a call",
            "calls in one list",
            "bare calls of nobody",
            "HTML in a value",
        )
    },
}


#: What the user says before an answer of this name; otherwise it is a greeting.
QUESTIONS: dict[str, Callable[[int], str]] = {
    "calls like those of a long page": lambda size: "write_file(path='a', content='b') and a note. " * (size // 46),
    "values without letters, and a long page": lambda size: "write_file('" * (size // 12),
    "an argument of combined characters": lambda size: "write_file(content='e\u0301')",
}


# ---- the model service


class Service:
    """Answers every request with the same bytes."""

    def __init__(self) -> None:
        self.reply = b""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                await reader.readexactly(int(length[1]) if length else 0)
                writer.write(self.reply if head.startswith(b"POST") else _http(b"{}", "404 Not Found"))
                await writer.drain()
        writer.close()


def whole(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    return _http(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode())


def streamed(text: str) -> bytes:
    deltas = [{"content": text[at : at + PIECE]} for at in range(0, len(text), PIECE)]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    events = "".join(f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices)
    return _http(f"{events}data: [DONE]\n\n".encode(), kind="text/event-stream")


def _http(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


# ---- the client


async def _request(port: int, text: str) -> None:
    """Send a request and read the answer to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.encode())
    await reader.read()
    writer.close()


async def ask(port: int, stream: bool, question: str = "Hello") -> None:
    said = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": question}], "tools": TOOLS}
    body = json.dumps(said)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {len(body)}"
    await _request(port, f"{head}\r\n\r\n{body}")


async def poll(port: int, over: asyncio.Event) -> float:
    """Ask for `/health` until it is over. Returns the milliseconds of the slowest answer."""
    delays: list[float] = []
    while not (over.is_set() and delays):
        began = time.perf_counter()
        await _request(port, "GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        delays.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.002)
    return max(delays)


def _cpu(process: int) -> float:
    """Seconds of CPU so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(size: int, only: str) -> bool:
    service = Service()
    server = await asyncio.start_server(service.handle, "127.0.0.1", 0, limit=1 << 24)
    upstream = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    command = [sys.executable, "-m", "toolspeak", "serve", "--port", "0", "--mode", "force", "--upstream", upstream]
    fine = True
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "PYTHONPATH": str(ROOT / "src"), "TOOLSPEAK_MARKS": "fixed"}
        pipe = asyncio.subprocess.PIPE
        proxy = await asyncio.create_subprocess_exec(*command, stdout=pipe, env=environment, cwd=home)
        try:
            assert proxy.stdout is not None
            found = re.search(rb"http://[\d.]+:(\d+)", await proxy.stdout.readline())
            assert found is not None
            port = int(found[1])
            print("| answer | streamed | seconds of CPU | worst /health (ms) |\n|---|---|---|---|")
            service.reply = whole("Hello")
            await ask(port, False)  # the first request loads modules
            for name, text in ANSWERS.items():
                for stream in (False, True) if only in name else ():
                    service.reply = (streamed if stream else whole)(text(size))
                    over, before = asyncio.Event(), _cpu(proxy.pid)
                    polling = asyncio.create_task(poll(port, over))
                    await ask(port, stream, QUESTIONS[name](size) if name in QUESTIONS else "Hello")
                    over.set()
                    worst = await polling
                    print(f"| {name} | {stream} | {_cpu(proxy.pid) - before:.2f} | {worst:.0f} |", flush=True)
                    fine = fine and worst <= LIMIT
        finally:
            proxy.terminate()
            await proxy.wait()
            server.close()
    return fine


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--size", type=int, default=1_000_000, help="characters of each answer")
    options.add_argument("--only", default="", help="a part of the name of the answers to measure")
    given = options.parse_args()
    sys.exit(0 if asyncio.run(measure(given.size, given.only)) else 1)
