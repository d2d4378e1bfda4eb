"""The proxy beside others, in one interleaved run: `python bench/proxy.py`, or `make bench-proxy`.

An upstream and a load generator, both small C programs that `cc` compiles into a temporary folder, stand on the two
sides of each proxy; everything is on the loopback, bounded in time, and ends by itself. All proxies run at once, each
with one worker, and take turns: a round measures every probe with every proxy. The steady figure is the CPU time of the
proxy's processes per request or per chunk; of the rounds, the best counts. Wall-clock figures move with the machine.

toolspeak runs as users run it: with a key, in front of an upstream that is unknown, so tools are emulated unless a
probe says otherwise. The others pass tools on. `--json` prints all figures; `--only` limits the proxies.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from proxy_peers import PEERS, Peer, Running, install, start

#: Chunks of a stream that comes in a burst, and of one that comes one by one, so many microseconds apart.
BURST, PACED, APART = 512, 100, 10_000
#: The upstream ends by itself after this.
_LONGEST = 1800
#: How often the start of those that start quickly is measured.
_STARTS = 5
_QUICK_START = 3.0

_TOOLS = [
    {
        "name": name,
        "description": f"Tells the {name.partition('_')[2]} of a place, now and for the days to come.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The name of the city"},
                "days": {"type": "integer", "description": "How many days"},
                "unit": {"type": "string", "enum": ["metric", "imperial"]},
            },
            "required": ["city"],
        },
    }
    for name in ("get_weather", "get_time", "get_news")
]


class Probe(NamedTuple):
    """One thing to measure."""

    name: str
    #: What is said to the upstream, see `proxy_upstream.c`.
    says: str = ""
    clients: int = 1
    stream: bool = False
    tools: bool = False
    protocol: str = "openai"
    #: The model, which for toolspeak is a plan.
    model: str = "emulated"
    #: Only these are measured, where it makes no sense for others.
    only: tuple[str, ...] = ()


_BURST = f"@burst:{BURST}@"
_PACED = f"@paced:{PACED}:{APART}@"
PROBES = (
    Probe("pass, 1 client"),
    Probe("pass, 32 clients", clients=32),
    Probe("pass, 256 clients", clients=256),
    Probe("pass, burst", _BURST, stream=True),
    Probe("pass, 32 paced", _PACED, 32, stream=True),
    Probe("tools, 1 client", "@call@", tools=True),
    Probe("tools, 32 clients", "@call@", 32, tools=True),
    Probe("tools, 256 clients", "@call@", 256, tools=True),
    Probe("tools, burst", _BURST, stream=True, tools=True),
    Probe("tools, 32 paced", _PACED, 32, stream=True, tools=True),
    Probe("native, 1 client", "@call@", tools=True, model="native", only=("toolspeak",)),
    Probe("native, burst", _BURST, stream=True, tools=True, model="native", only=("toolspeak",)),
    Probe("anthropic, 1 client", "@call@", tools=True, protocol="anthropic"),
    Probe("anthropic, burst", _BURST, stream=True, tools=True, protocol="anthropic"),
)


class Figures(NamedTuple):
    """What one run of a probe showed, in microseconds where it is a time."""

    cpu_per_request: float
    cpu_per_chunk: float
    requests_per_second: float
    requests_per_core: float
    p50: float
    p99: float
    age_p50: float
    age_p99: float
    errors: int
    error: str = ""


# ------------------------------------------------------------------------------------------------- requests


def _body(probe: Probe) -> dict[str, object]:
    question = f"What is the weather in Paris, and what should I wear? {probe.says}"
    body: dict[str, object] = {
        "model": probe.model,
        "messages": [{"role": "user", "content": question}],
        "stream": probe.stream,
        "max_tokens": 1024,
    }
    if probe.tools and probe.protocol == "anthropic":
        body["tools"] = [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
            for tool in _TOOLS
        ]
    elif probe.tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in _TOOLS]
    return body


_PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


def _request(probe: Probe, port: int, key: str) -> bytes:
    body = json.dumps(_body(probe), separators=(",", ":")).encode()
    head = (
        f"POST {_PATHS[probe.protocol]} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nAccept: */*\r\nUser-Agent: bench\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


# ------------------------------------------------------------------------------------------------ measuring


class _Bench:
    """The two C programs and a folder for everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        here = Path(__file__).parent
        for name in ("upstream", "load"):
            subprocess.run(["cc", "-O2", "-o", folder / name, here / f"proxy_{name}.c"], check=True)
        self._upstream = subprocess.Popen([folder / "upstream", str(_LONGEST)], stdout=subprocess.PIPE, text=True)
        assert self._upstream.stdout is not None
        self.port = int(self._upstream.stdout.readline())

    def stop(self) -> None:
        self._upstream.kill()
        self._upstream.wait()

    def run(self, probe: Probe, port: int, key: str, seconds: float, proxy: Running | None) -> Figures:
        """One probe once."""
        file = self.folder / "request"
        file.write_bytes(_request(probe, port, key))
        before = proxy.cpu() if proxy is not None else 0.0
        command = [self.folder / "load", str(port), str(probe.clients), str(seconds), file]
        told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        cpu = (proxy.cpu() if proxy is not None else 0.0) - before
        whole, chunks = told["whole"], told["chunks"]
        return Figures(
            cpu / whole * 1e6 if whole else 0.0,
            cpu / chunks * 1e6 if chunks else 0.0,
            whole / told["seconds"],
            whole / cpu if cpu else 0.0,
            told["time_p50"] / 1e3,
            told["time_p99"] / 1e3,
            told["age_p50"] / 1e3,
            told["age_p99"] / 1e3,
            told["errors"],
            told["error"],
        )


#: What an answer that is a call holds, in the words of each protocol.
_CALLED = {"openai": b'"tool_calls":[', "anthropic": b'"tool_use"'}


def _check(proxies: list[Running], probes: Sequence[Probe]) -> None:
    """See that calls are made where they are to be measured.

    Raises:
        ValueError: there is none.
    """
    for probe in probes:
        for proxy in proxies:
            if _applies(probe, proxy.name, proxy.peer.speaks) and "@call@" in probe.says:
                said = proxy.ask(_request(probe, proxy.port, proxy.key))
                if _CALLED[probe.protocol] not in said.replace(b'": ', b'":'):
                    raise ValueError(f"`{probe.name}` of {proxy.name} is no call: {said[-500:]!r}")


#: By probe and proxy, one entry for each round.
Results = dict[str, dict[str, list[Figures]]]


def _applies(probe: Probe, name: str, speaks: Sequence[str]) -> bool:
    return probe.protocol in speaks and (not probe.only or name in probe.only)


def _measure(bench: _Bench, proxies: list[Running], probes: Sequence[Probe], rounds: int, seconds: float) -> Results:
    results: Results = defaultdict(lambda: defaultdict(list))
    for number in range(-1, rounds):  # one more, which warms everything up
        for probe in probes:
            span = seconds if number >= 0 else seconds / 3
            if probe.protocol == "openai" and not probe.tools:
                results[probe.name]["direct"].append(bench.run(probe, bench.port, "", span / 3, None))
            for proxy in proxies:
                if _applies(probe, proxy.name, proxy.peer.speaks):
                    results[probe.name][proxy.name].append(bench.run(probe, proxy.port, proxy.key, span, proxy))
        if number < 0:
            results.clear()
    return results


def _starts(bench: _Bench, peer: Peer, first: Running) -> None:
    """Start it several times more; the medians count."""
    seconds, cpu = [first.start_seconds], [first.start_cpu]
    for number in range(_STARTS - 1 if first.start_seconds < _QUICK_START else 0):
        running = start(peer, bench.folder / f"{peer.name}-{number}", bench.port)
        try:
            running.wait(_request(_first_probe(peer), running.port, running.key))
            seconds.append(running.start_seconds)
            cpu.append(running.start_cpu)
        finally:
            running.stop()
    first.start_seconds, first.start_cpu = statistics.median(seconds), statistics.median(cpu)


def _first_probe(peer: Peer) -> Probe:
    return next(probe for probe in PROBES if probe.protocol in peer.speaks)


# -------------------------------------------------------------------------------------------------- telling


def _best(results: Results, probe: str, name: str, figure: str) -> float:
    """The best of the rounds: the most where more is better, else the least."""
    values = [getattr(figures, figure) for figures in results.get(probe, {}).get(name, ())]
    if not values:
        return 0.0
    return max(values) if figure.startswith("requests") else min(values)


class _Goal(NamedTuple):
    name: str
    value: float
    goal: float
    unit: str
    #: Whether more is better.
    more: bool

    @property
    def met(self) -> bool:
        return self.value >= self.goal if self.more else self.value <= self.goal


def _goals(results: Results, proxies: dict[str, Running]) -> Iterator[_Goal]:
    def best(probe: str, figure: str, name: str = "toolspeak") -> float:
        return _best(results, probe, name, figure)

    def ratio(probe: str, figure: str, other: str, goal: float, label: str) -> Iterator[_Goal]:
        ours, theirs = best(probe, figure), best(probe, figure, other)
        if ours and theirs:
            yield _Goal(label, ours / theirs if figure.startswith("requests") else theirs / ours, goal, "x", True)

    cpu, chunk, rate, core = "cpu_per_request", "cpu_per_chunk", "requests_per_second", "requests_per_core"
    yield from ratio("tools, 1 client", cpu, "litellm", 100, "CPU per request against LiteLLM, tools emulated")
    yield from ratio("pass, 1 client", cpu, "litellm", 100, "CPU per request against LiteLLM, pass-through")
    yield from ratio("tools, 32 clients", rate, "litellm", 150, "requests/s at 32 clients against LiteLLM, emulated")
    yield from ratio("pass, 32 clients", core, "vllm-router", 0.8, "requests/s per core against vllm-router")
    yield from ratio("tools, burst", chunk, "litellm", 100, "CPU per burst chunk against LiteLLM, tools emulated")
    yield from ratio("anthropic, 1 client", cpu, "ccr", 15, "CPU per request against claude-code-router")
    yield from ratio("anthropic, burst", chunk, "ccr", 8, "CPU per burst chunk against claude-code-router")
    added = [best("tools, 1 client", each) - best("pass, 1 client", each, "direct") for each in ("p50", "p99")]
    yield _Goal("added latency p50, tools emulated", added[0] / 1e3, 0.2, "ms", False)
    yield _Goal("added latency p99, tools emulated", added[1] / 1e3, 0.5, "ms", False)
    yield _Goal(
        "age of a chunk p50, 32 paced streams, tools", best("tools, 32 paced", "age_p50") / 1e3, 0.3, "ms", False
    )
    yield _Goal("age of a chunk p99, 32 paced streams, tools", best("tools, 32 paced", "age_p99") / 1e3, 2, "ms", False)
    running = proxies["toolspeak"]
    yield _Goal("start to the first 200", running.start_seconds, 0.3, "s", False)
    yield _Goal("memory, idle", running.idle_mb, 50, "MB", False)
    yield _Goal("memory, loaded", running.loaded_mb, 65, "MB", False)
    errors = sum(figures.errors for rounds in results.values() for figures in rounds["toolspeak"])
    yield _Goal("errors of all probes", errors, 0, "", False)
    if few := best("tools, 32 clients", rate):
        yield _Goal("throughput, 256 clients / 32 clients", best("tools, 256 clients", rate) / few, 0.7, "x", True)


_COLUMNS = (
    ("µs/request", "cpu_per_request"),
    ("µs/chunk", "cpu_per_chunk"),
    ("req/s", "requests_per_second"),
    ("p50 µs", "p50"),
    ("p99 µs", "p99"),
    ("age p50", "age_p50"),
    ("age p99", "age_p99"),
    ("errors", "errors"),
)


def _show(results: Results, proxies: dict[str, Running]) -> None:
    print(f"{'probe':<22}{'proxy':<13}" + "".join(f"{label:>12}" for label, _ in _COLUMNS))
    for probe, by_name in results.items():
        for name, rounds in by_name.items():
            values = [_best(results, probe, name, figure) for _, figure in _COLUMNS]
            error = next((figures.error for figures in rounds if figures.error), "")
            shown = "".join(f"{value:>12,.1f}" if value < 1000 else f"{value:>12,.0f}" for value in values)
            print(f"{probe:<22}{name:<13}{shown}  {error}")
    print(f"\n{'proxy':<13}{'start s':>10}{'its CPU s':>11}{'idle MB':>10}{'loaded MB':>11}")
    for name, each in proxies.items():
        starts = f"{each.start_seconds:>10.2f}{each.start_cpu:>11.2f}"
        print(f"{name:<13}{starts}{each.idle_mb:>10.1f}{each.loaded_mb:>11.1f}")
    print(f"\n{'goal':<55}{'here':>10}{'wanted':>10}")
    for goal in _goals(results, proxies):
        wanted = f"{'>=' if goal.more else '<='} {goal.goal:g} {goal.unit}"
        print(f"{goal.name:<55}{goal.value:>10.2f}{wanted:>12}  {'reached' if goal.met else 'MISSED'}")


def _as_json(results: Results, proxies: dict[str, Running]) -> str:
    figures = {
        probe: {name: [each._asdict() for each in rounds] for name, rounds in by_name.items()}
        for probe, by_name in results.items()
    }
    told = {
        name: {
            "start_s": each.start_seconds,
            "start_cpu_s": each.start_cpu,
            "idle_mb": each.idle_mb,
            "loaded_mb": each.loaded_mb,
        }
        for name, each in proxies.items()
    }
    goals = [{**goal._asdict(), "met": goal.met} for goal in _goals(results, proxies)]
    return json.dumps({"probes": figures, "proxies": told, "goals": goals}, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each probe is measured")
    parser.add_argument("--seconds", type=float, default=1.5, help="how long each time")
    parser.add_argument("--only", default="", help="proxies, separated by commas; toolspeak is always among them")
    parser.add_argument("--probes", default="", help="only probes whose names hold this")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    args = parser.parse_args()
    if not sys.platform.startswith("linux"):
        sys.exit("skipped: the benchmark reads /proc and uses epoll, which only Linux has")
    wanted = {"toolspeak", *args.only.split(",")} if args.only else {peer.name for peer in PEERS}
    probes = [probe for probe in PROBES if args.probes in probe.name]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        bench = _Bench(Path(name))
        stack.callback(bench.stop)
        proxies: dict[str, Running] = {}
        for peer in PEERS:
            problem = install(peer) if peer.name in wanted else "not asked for"
            running = None if problem else start(peer, Path(name) / peer.name, bench.port)
            if running is not None:
                stack.callback(running.stop)
                try:
                    running.wait(_request(_first_probe(peer), running.port, running.key))
                except TimeoutError as error:
                    problem = str(error)
            if running is None or problem:
                print(f"left out: {peer.name}: {problem}", file=sys.stderr)
                continue
            running.idle_mb = running.mb()
            _starts(bench, peer, running)
            proxies[peer.name] = running
        _check(list(proxies.values()), probes)
        results = _measure(bench, list(proxies.values()), probes, args.rounds, args.seconds)
        for running in proxies.values():
            running.loaded_mb = running.mb()
        print(_as_json(results, proxies)) if args.json else _show(results, proxies)


if __name__ == "__main__":
    main()
