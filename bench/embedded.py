"""How long the embedded model takes, as a user waits for it: `python bench/embedded.py`.

Starts `toolspeak serve` with an empty state directory and asks over HTTP: first with three tools that it has never
seen, then other questions with the same tools, then the first one again after a restart of the server. Prints seconds
by the clock, and the memory of all its processes at the highest. Do this on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

_PLACE = {"type": "object", "properties": {"city": {"type": "string", "description": "Name of the city"}}}
_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_weather": ("The weather in a city today.", {**_PLACE, "required": ["city"]}),
    "local_time": ("The time of day in a city.", {**_PLACE, "required": ["city"]}),
    "convert_money": (
        "Convert an amount of money from one currency into another.",
        {
            "type": "object",
            "properties": {
                "amount": {"type": "number"},
                "source": {"type": "string", "description": "Currency code"},
                "target": {"type": "string", "description": "Currency code"},
            },
            "required": ["amount", "source", "target"],
        },
    ),
}
_QUESTIONS = (
    "How is the weather in Oslo today?",
    "What time is it in Tokyo?",
    "How many euros are 250 US dollars?",
    "Do I need an umbrella in Bergen?",
    "What is the local time in Lima?",
)
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


class Served:
    """`toolspeak serve` with the embedded model, from its start to the end of a `with` block."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        command = [str(Path(sys.executable).with_name("toolspeak")), "serve", "--port", "0"]
        started = time.perf_counter()
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder
        )
        assert self._process.stdout is not None
        self.url = ""
        for line in self._process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                self.url = found[0]
                break
        self.seconds = time.perf_counter() - started
        self.peak_mb = 0.0

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=30)

    def ask(self, question: str) -> tuple[float, str]:
        """Return the seconds until the whole answer was there, and the calls in it."""
        functions = [
            {"name": name, "description": about, "parameters": parameters}
            for name, (about, parameters) in _TOOLS.items()
        ]
        body = {
            "model": "any",
            "messages": [{"role": "user", "content": question}],
            "tools": [{"type": "function", "function": function} for function in functions],
        }
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        started = time.perf_counter()
        with urllib.request.urlopen(request, timeout=120) as reply:
            message = json.load(reply)["choices"][0]["message"]
        seconds = time.perf_counter() - started
        self.peak_mb = max(self.peak_mb, self._memory_mb())
        calls = [
            f"{call['function']['name']}{call['function']['arguments']}" for call in message.get("tool_calls") or ()
        ]
        return seconds, ", ".join(calls) or str(message["content"])

    def _memory_mb(self) -> float:
        """Return the resident memory of the server and its children."""
        pids = [self._process.pid]
        children = Path(f"/proc/{pids[0]}/task/{pids[0]}/children").read_text(encoding="ascii").split()
        pages = (int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) for pid in [*pids, *children])
        return sum(pages) * _PAGE_KB / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args()
    rows: list[tuple[str, float, str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Served(folder) as served:
            rows.append(("start of the server", served.seconds, ""))
            for question in _QUESTIONS:
                seconds, calls = served.ask(question)
                rows.append(("first answer" if len(rows) == 1 else "next answer", seconds, calls))
            time.sleep(3)  # a person reads before leaving
            peak = served.peak_mb
        with Served(folder) as served:
            rows.append(("start of the server again", served.seconds, ""))
            rows.append(("first answer after the restart", *served.ask(_QUESTIONS[1])))
            peak = max(peak, served.peak_mb)
    if chosen.json:
        print(json.dumps({"rows": rows, "peak_mb": peak}))
        return
    for what, seconds, calls in rows:
        print(f"{what:32} {seconds:6.2f} s  {calls}")
    print(f"{'memory at most':32} {peak:6.0f} MB")


if __name__ == "__main__":
    main()
