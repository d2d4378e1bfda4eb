"""CPU time of one `AsyncClient.chat` beside the openai SDK: `python bench/client.py`. Needs Linux and `cc`.

Both ask the upstream of the proxy benchmark, which runs in a process of its own, over kept connections and the event loop
of asyncio. With tools, the SDK passes them on and reads the call from its field; toolspeak emulates them: it writes the
contract and reads the call from the text. They take turns, no two questions are the same, and the best round counts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import openai
from goals import Outcome, as_json, number, print_table, table
from proxy_probes import Probe, body
from proxy_programs import Upstream

import toolspeak as ts

ROUNDS, REQUESTS = 5, 200
#: How many times less CPU toolspeak is to take.
GOALS = {"no tools": 8.0, "tools emulated": 6.0}
_TOOLS = body(Probe("tools", tools=True))["tools"]


class _Side(NamedTuple):
    """One client in one case."""

    case: str
    name: str
    #: Ask a question; gives the number of calls in the answer.
    ask: Callable[[str], Awaitable[int]]


def _sides(client: ts.AsyncClient, sdk: openai.AsyncOpenAI) -> list[_Side]:
    def ours(**more: Any) -> Callable[[str], Awaitable[int]]:
        async def ask(question: str) -> int:
            return len((await client.chat(question, **more)).calls)

        return ask

    def theirs(**more: Any) -> Callable[[str], Awaitable[int]]:
        async def ask(question: str) -> int:
            asked: Any = [{"role": "user", "content": question}]
            answer = await sdk.chat.completions.create(model="m", messages=asked, **more)
            return len(answer.choices[0].message.tool_calls or ())

        return ask

    return [
        _Side("no tools", "toolspeak", ours()),
        _Side("no tools", "openai", theirs()),
        _Side("tools emulated", "toolspeak", ours(tools=_TOOLS, mode="force")),
        _Side("tools emulated", "openai", theirs(tools=_TOOLS)),
    ]


async def _measure(side: _Side, requests: int, begin: int) -> float:
    """Microseconds of CPU for one answer."""
    tools = side.case != "no tools"
    started = time.process_time()
    for step in range(begin, begin + requests):
        calls = await side.ask(f"What is the weather in Paris on day {step}? {'@call@' if tools else ''}")
        if calls != tools:
            sys.exit(f"error: {side.name}, {side.case}: {calls} calls, so its time means nothing")
    return (time.process_time() - started) / requests * 1e6


async def measure(port: int, rounds: int, requests: int) -> dict[tuple[str, str], float]:
    """The best round of each client in each case."""
    base = f"http://127.0.0.1:{port}/v1"
    best: dict[tuple[str, str], float] = {}
    async with (
        ts.AsyncClient("openai:m", base_url=base, api_key="sk-0") as client,
        openai.AsyncOpenAI(base_url=base, api_key="sk-0") as sdk,
    ):
        sides = _sides(client, sdk)
        for side in sides:  # to warm up
            await _measure(side, requests // 4 + 1, 0)
        for turn in range(rounds):
            for side in sides:
                spent = await _measure(side, requests, 1000 + turn * requests)
                key = side.case, side.name
                best[key] = min(spent, best.get(key, spent))
    return best


def outcomes(best: dict[tuple[str, str], float]) -> list[Outcome]:
    return [
        Outcome(
            f"`AsyncClient.chat`, {case}, against the openai SDK",
            best[case, "openai"] / best[case, "toolspeak"],
            goal,
            "times less CPU",
            at_least=True,
        )
        for case, goal in GOALS.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="requests of each round")
    parser.add_argument("--json", action="store_true", help="print the goals as JSON")
    args = parser.parse_args()
    if not sys.platform.startswith("linux"):
        print("skipped: the upstream of this benchmark uses epoll, which only Linux has")
        return
    with tempfile.TemporaryDirectory() as name, Upstream(Path(name)) as upstream:
        # Nobody's own configuration is to be measured.
        os.environ.update(HOME=name, XDG_CONFIG_HOME=name, XDG_STATE_HOME=name)
        os.chdir(name)
        best = asyncio.run(measure(upstream.port, args.rounds, args.requests))
    if args.json:
        print(as_json(outcomes(best)))
        return
    rows = [[case, *(f"{number(best[case, name])} µs" for name in ("toolspeak", "openai"))] for case in GOALS]
    print(
        table(["CPU time of an answer", f"toolspeak {ts.__version__}", f"openai {openai.__version__}"], rows),
        end="\n\n",
    )
    print_table(outcomes(best))


if __name__ == "__main__":
    main()
