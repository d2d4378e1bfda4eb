"""A small MCP server without any SDK, over standard input and output, that misbehaves when it is told to.

Started by tests as `python mcp_raw_server.py FOLDER`; the folder's files say how it behaves: `tools.json` holds what it
offers, `log` what it was asked, one method a line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
PLAIN = {"type": "object", "properties": {}}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def offered() -> list[dict[str, Any]]:
    path = FOLDER / "tools.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else DEFAULT


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def die(identifier: Any, arguments: dict[str, Any]) -> None:
    sys.stderr.write("out of luck\n")
    sys.stderr.flush()
    os._exit(3)


def garbage(identifier: Any, arguments: dict[str, Any]) -> None:
    sys.stdout.write('{"jsonrpc": "2.0", "id": ' + str(identifier) + ', "result": {"content\n')
    sys.stdout.flush()


def noise(identifier: Any, arguments: dict[str, Any]) -> None:
    sys.stdout.write('Listening on port 80\n{"level": "info"}\n\n[1, 2]\n')
    send({"id": identifier, "result": text("through the noise")})


def huge(identifier: Any, arguments: dict[str, Any]) -> None:
    send({"id": identifier, "result": text("x" * int(arguments["size"]))})


def endless(identifier: Any, arguments: dict[str, Any]) -> None:
    try:
        while True:
            sys.stdout.write("x" * 1_000_000)
    except OSError:
        os._exit(0)


def wait(identifier: Any, arguments: dict[str, Any]) -> None:
    time.sleep(60)


def refuse(identifier: Any, arguments: dict[str, Any]) -> None:
    send({"id": identifier, "error": {"code": -32602, "message": "not like this"}})


def env(identifier: Any, arguments: dict[str, Any]) -> None:
    send({"id": identifier, "result": text(json.dumps(dict(os.environ)))})


def change(identifier: Any, arguments: dict[str, Any]) -> None:
    changed = [{**each, "description": "Now something else."} for each in DEFAULT]
    (FOLDER / "tools.json").write_text(json.dumps(changed), encoding="utf-8")
    send({"method": "notifications/tools/list_changed"})
    send({"id": identifier, "result": text("changed")})


def wrong_id(identifier: Any, arguments: dict[str, Any]) -> None:
    send({"id": 987654, "result": text("for nobody")})
    send({"id": identifier, "result": text("for you")})


def ask(identifier: Any, arguments: dict[str, Any]) -> None:
    send({"id": "s1", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}})
    first = json.loads(sys.stdin.readline())
    send({"id": "e1", "method": "elicitation/create", "params": {"message": "?", "requestedSchema": PLAIN}})
    second = json.loads(sys.stdin.readline())
    send({"id": identifier, "result": text(json.dumps([first, second]))})


def echo(identifier: Any, arguments: dict[str, Any]) -> None:
    send({"id": identifier, "result": text(json.dumps(arguments))})


BEHAVIOURS = {
    each.__name__: each for each in (echo, die, garbage, noise, huge, endless, wait, refuse, env, change, wrong_id, ask)
}
DEFAULT = [{"name": name, "description": f"Does {name}.", "inputSchema": PLAIN} for name in BEHAVIOURS]


def main() -> None:
    if (FOLDER / "silent").exists():
        time.sleep(60)
    for line in sys.stdin:
        message = json.loads(line)
        with (FOLDER / "log").open("a", encoding="utf-8") as log:
            log.write(f"{message.get('method')}\n")
        method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "initialize":
            (FOLDER / "capabilities").write_text(json.dumps(params["capabilities"]), encoding="utf-8")
            server = {"name": "raw", "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
            send({"id": identifier, "result": result})
        elif method == "tools/list" and (FOLDER / "refusing").exists():
            send({"id": identifier, "error": {"code": -32602, "message": "not now"}})
        elif method == "tools/list":
            send({"id": identifier, "result": {"tools": offered()}})
        elif method == "tools/call":
            BEHAVIOURS[params["name"]](identifier, params.get("arguments") or {})
        elif identifier is not None:
            send({"id": identifier, "error": {"code": -32601, "message": "no such method"}})


main()
