"""The parser alone, inside an inference server of your own: the model writes text, your clients get OpenAI's tool calls.

    python examples/parser_server.py 8000

    curl http://127.0.0.1:8000/v1/chat/completions -d '{"messages": [{"role": "user", "content":
        "<tool_call>{\\"name\\": \\"get_weather\\", \\"arguments\\": {\\"city\\": \\"Oslo\\"}}</tool_call>"}]}'

Replace `generate` with your engine. Here it repeats the last message, so that you can try whatever a model may write.
`ts.parse` needs no model, no network and no configuration; `ts.Scanner` does the same while the text streams.
"""

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain

import toolspeak as ts


def generate(messages: list[dict]) -> Iterator[str]:
    """Stands for your engine: yields the answer piece by piece."""
    text = messages[-1]["content"]
    yield from (text[at : at + 4] for at in range(0, len(text), 4))


def complete(body: dict) -> dict:
    reply = ts.parse("".join(generate(body["messages"])), tools=body.get("tools"))
    calls = [
        {
            "id": f"call_{at}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for at, call in enumerate(reply.calls)
    ]
    message = {"role": "assistant", "content": reply.text or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "answer", "object": "chat.completion", "created": 0, "model": "mine", "choices": [choice]}


def stream(body: dict) -> Iterator[dict]:
    scanner, called = ts.Scanner(tools=body.get("tools")), False
    for piece in chain(generate(body["messages"]), [None]):
        for event in scanner.close() if piece is None else scanner.feed(piece):
            match event:
                case ts.TextDelta(text):
                    yield chunk({"content": text})
                case ts.CallStart(index, name):
                    called = True
                    start = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": name}}
                    yield chunk({"tool_calls": [start]})
                case ts.CallArgs(index, fragment):
                    yield chunk({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]})
    yield chunk({}, "tool_calls" if called else "stop")


def chunk(delta: dict, finish: str | None = None) -> dict:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "answer", "object": "chat.completion.chunk", "created": 0, "model": "mine", "choices": [choice]}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if body.get("stream") else "application/json")
        self.end_headers()
        if not body.get("stream"):
            self.wfile.write(json.dumps(complete(body)).encode())
            return
        for each in stream(body):
            self.wfile.write(b"data: %b\n\n" % json.dumps(each).encode())
        self.wfile.write(b"data: [DONE]\n\n")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8000), Handler)
    print(f"Listening on http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
