"""The proxy beside others, in one interleaved run: `python bench/proxy.py`, or `make bench-proxy`.

An upstream and a load generator, both small C programs that `cc` compiles into a temporary folder, stand on the two
sides of each proxy; everything is on the loopback, bounded in time, and ends by itself. All proxies run at once, each
with one worker, and take turns: a round measures every probe with every proxy. The steady figure is the CPU time of the
proxy's processes per request or per chunk; of the rounds, the best counts. Wall-clock figures move with the machine.

toolspeak runs as users run it, with a key that has limits, metrics and records, in front of an upstream that is unknown:
tools are emulated unless a probe says otherwise. The others pass tools on. Then the goals of the engine, the parser and
the client are measured, each by its own benchmark. `--json` prints everything; `--from FILE` reads such a run instead of
measuring; `--write-docs` puts it into docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent))
from goals import Outcome, from_json
from proxy_peers import PEERS, Peer, Running, install, start
from proxy_probes import AGENT_MEMORY, PROBES, Probe, request
from proxy_programs import Upstream, compile_program
from proxy_report import Facts, Figures, Run, text, write_section

_HERE = Path(__file__).parent
_PAGE = _HERE.parent / "docs" / "performance.md"
#: How often the start of those that start quickly is measured.
_STARTS = 5
_QUICK_START = 3.0
#: Seconds between two looks at the memory of a proxy under load.
_LOOK = 0.5
#: Sockets: a thousand streams on both sides of a proxy, and what the others keep open.
_FILES = 8192
#: The benchmarks whose goals stand in the same table.
_OTHERS = (("engine.py", "--json"), ("parsers.py", "--whole", "--json"), ("client.py", "--json"))


class _Load(msgspec.Struct):
    """What the load generator prints."""

    whole: int
    errors: int
    chunks: int
    seconds: float
    time_p50: int
    time_p99: int
    age_p50: int
    age_p99: int
    error: str


class _Bench:
    """The load generator before an upstream, and a folder for everything."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._load = compile_program("load", folder)

    def run(self, probe: Probe, seconds: float, proxy: Running | None) -> Figures:
        """Measure one probe once, of a proxy or of the upstream itself."""
        file = self.folder / f"request-{proxy.name if proxy else 'direct'}"
        file.write_bytes(_request(probe, proxy) if proxy else request(probe, self.port, ""))
        port = proxy.port if proxy else self.port
        options = [port, probe.clients, probe.seconds or seconds, file, probe.turns, probe.ramp]
        before = proxy.cpu() if proxy else 0.0
        load, peak = _watched([str(self._load), *map(str, options)], proxy)
        cpu = (proxy.cpu() if proxy else 0.0) - before
        chunks = load.whole * probe.chunks
        if load.chunks < chunks:  # there may be more, where a protocol says the whole text again at the end
            load.errors, load.error = load.errors + 1, f"{chunks - load.chunks} of {chunks} chunks are missing"
        return Figures(
            cpu_per_request=cpu / load.whole * 1e6 if load.whole else 0.0,
            cpu_per_chunk=cpu / chunks * 1e6 if chunks else 0.0,
            requests_per_second=load.whole / load.seconds,
            p50=load.time_p50 / 1e3,
            p99=load.time_p99 / 1e3,
            age_p50=load.age_p50 / 1e3,
            age_p99=load.age_p99 / 1e3,
            peak_mb=peak,
            complete=load.whole,
            errors=load.errors,
            error=load.error,
        )


def _watched(command: list[str], proxy: Running | None) -> tuple[_Load, float]:
    """Run the load generator; what it prints, and the most memory that the proxy had meanwhile."""
    peak = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while True:
            try:
                output, _ = process.communicate(timeout=_LOOK)
            except subprocess.TimeoutExpired:
                output = b""
            peak = max(peak, proxy.mb() if proxy else 0.0)
            if process.returncode is not None:
                break
    return msgspec.json.decode(output, type=_Load), peak


def _request(probe: Probe, proxy: Running) -> bytes:
    return request(probe, proxy.port, proxy.key, proxy.headers)


def _applies(run: Run, probe: Probe, proxy: Running) -> bool:
    failed = probe.name in run.failed.get(proxy.name, ())
    return not failed and probe.protocol in proxy.peer.speaks and (not probe.only or proxy.name in probe.only)


#: What an answer that is a call has, in the words of each protocol.
_CALLED = {"openai": b'"tool_calls":[', "anthropic": b'"tool_use"', "responses": b'"function_call"'}


#: The ids of calls by the model of a probe: the upstream's own where toolspeak passes tools on, else those it makes.
_IDS = {"native": b'"id":"call_', "emulated": b'"id":"emulated_'}


def _is_right(answer: bytes, probe: Probe, proxy: Running) -> bool:
    """Whether it is the answer to measure: with a call where one is asked for, and made as the probe says."""
    wanted: list[bytes] = []
    if "@call@" in probe.says:
        wanted.append(_CALLED[probe.protocol])
        if proxy.name == "toolspeak":
            wanted.append(_IDS.get(probe.model, b""))
    return answer.startswith(b"HTTP/1.1 200") and all(each in answer.replace(b'": ', b'":') for each in wanted)


def _check(run: Run, proxies: Sequence[Running], probes: Sequence[Probe]) -> None:
    """See that a proxy answers each probe, and with a call where calls are to be measured.

    Raises:
        ValueError: toolspeak does not; others are left out of that probe.
    """
    for probe in probes:
        for proxy in proxies:
            if not _applies(run, probe, proxy):
                continue
            answer = proxy.ask(_request(probe, proxy))
            if _is_right(answer, probe, proxy):
                continue
            if proxy.name == "toolspeak":
                raise ValueError(f"`{probe.name}` has not the right answer: {answer[-500:]!r}")
            run.failed.setdefault(proxy.name, []).append(probe.name)


# ------------------------------------------------------------------------------------------------ measuring


def _measure_round(
    run: Run, bench: _Bench, proxies: Sequence[Running], probes: Sequence[Probe], seconds: float
) -> Iterator[tuple[str, str, Figures]]:
    for probe in probes:
        if probe.protocol == "openai" and not probe.only:
            yield probe.name, "direct", bench.run(probe, seconds / 3, None)
        for proxy in proxies:
            if _applies(run, probe, proxy):
                yield probe.name, proxy.name, bench.run(probe, seconds, proxy)


def _measure(run: Run, bench: _Bench, proxies: Sequence[Running], probes: Sequence[Probe], args: _Arguments) -> None:
    """The rounds of a group of probes. A first one, which is shorter, warms everything up."""
    if not probes:
        return
    for _ in _measure_round(run, bench, proxies, probes, args.seconds / 3):
        pass
    for number in range(args.rounds):
        _progress(f"{probes[0].group} probes, round {number + 1} of {args.rounds}")
        for probe, name, figures in _measure_round(run, bench, proxies, probes, args.seconds):
            run.results.setdefault(probe, {}).setdefault(name, []).append(figures)
            if name != "direct" and probes[0].group == "small":
                facts = run.proxies[name]
                facts.loaded_mb = max(facts.loaded_mb, figures.peak_mb)


def _measure_agent_memory(run: Run, bench: _Bench, proxies: Sequence[Running], seconds: float) -> None:
    """Memory under agent traffic: first toolspeak alone, then the others at once, which takes less time."""

    def measure(proxy: Running) -> None:
        run.proxies[proxy.name].agent_mb = bench.run(AGENT_MEMORY, seconds, proxy).peak_mb

    able = [proxy for proxy in proxies if _applies(run, AGENT_MEMORY, proxy)]
    for together in filter(None, (able[:1], able[1:])):
        _progress(f"agent traffic for {seconds:g} s: {', '.join(proxy.name for proxy in together)}")
        with ThreadPoolExecutor(len(together)) as threads:
            list(threads.map(measure, together))


def _measure_streams(run: Run, bench: _Bench, proxies: Sequence[Running], probes: Sequence[Probe]) -> None:
    """Very many streams, once, at the end: what they leave behind disturbs nothing then."""
    for probe in probes:
        for proxy in proxies:
            if _applies(run, probe, proxy):
                _progress(f"{probe.name} of {proxy.name}")
                run.results.setdefault(probe.name, {})[proxy.name] = [bench.run(probe, 0, proxy)]


def _measure_others() -> Iterator[Outcome]:
    """What the benchmarks of the engine, the parser and the client find."""
    for command in _OTHERS:
        _progress(f"bench/{command[0]}")
        told = subprocess.run(
            [sys.executable, _HERE / command[0], *command[1:]], check=True, stdout=subprocess.PIPE, text=True
        )
        yield from from_json(told.stdout)


def _progress(what: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {what}", file=sys.stderr, flush=True)


# -------------------------------------------------------------------------------------------------- running


def _first_probe(peer: Peer) -> Probe:
    return next(probe for probe in PROBES if probe.protocol in peer.speaks)


def _facts(bench: _Bench, peer: Peer, first: Running, starts: int) -> Facts:
    """Memory at rest, and the medians of several starts."""
    idle = first.mb()
    seconds, cpu = [first.start_seconds], [first.start_cpu]
    for number in range(starts - 1 if first.start_seconds < _QUICK_START else 0):
        running = start(peer, bench.folder / f"{peer.name}-{number}", bench.port)
        try:
            running.wait(_request(_first_probe(peer), running))
            seconds.append(running.start_seconds)
            cpu.append(running.start_cpu)
        finally:
            running.stop()
    return Facts(peer.title, peer.version(), statistics.median(seconds), statistics.median(cpu), idle, idle)


@contextmanager
def _started(bench: _Bench, run: Run, wanted: set[str], starts: int) -> Iterator[list[Running]]:
    """The proxies, each of them once it answers."""
    proxies: list[Running] = []
    with ExitStack() as stack:
        for peer in PEERS:
            if peer.name not in wanted:
                continue
            _progress(f"start {peer.name}")
            if problem := install(peer):
                run.left_out[peer.name] = problem
                continue
            running = start(peer, bench.folder / peer.name, bench.port)
            stack.callback(running.stop)
            try:
                running.wait(_request(_first_probe(peer), running))
            except TimeoutError as error:
                run.left_out[peer.name] = str(error)
                continue
            run.proxies[peer.name] = _facts(bench, peer, running, starts)
            proxies.append(running)
        yield proxies


def measure(args: _Arguments) -> Run:
    """A whole run."""
    run = Run(datetime.now(UTC).date(), platform.python_version(), os.cpu_count() or 1, os.getloadavg()[0], {})
    probes = [probe for probe in PROBES if args.probes in probe.name]
    groups = {group: [probe for probe in probes if probe.group == group] for group in ("small", "agent", "many")}
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most if most != resource.RLIM_INFINITY else _FILES, most))
    with tempfile.TemporaryDirectory() as name, Upstream(Path(name)) as upstream:
        bench = _Bench(Path(name), upstream.port)
        with _started(bench, run, args.wanted, args.starts) as proxies:
            _check(run, proxies, probes)
            _measure(run, bench, proxies, groups["small"], args)
            _measure(run, bench, proxies, groups["agent"], args)
            if groups["agent"]:
                _measure_agent_memory(run, bench, proxies, args.agent_seconds)
            _measure_streams(run, bench, proxies, groups["many"])
    if not args.probes:
        run.others = list(_measure_others())
    return run


class _Arguments(argparse.Namespace):
    rounds: int
    seconds: float
    agent_seconds: float
    starts: int
    only: str
    probes: str
    json: bool
    source: Path | None
    write_docs: bool

    @property
    def wanted(self) -> set[str]:
        return {"toolspeak", *self.only.split(",")} if self.only else {peer.name for peer in PEERS}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each probe is measured")
    parser.add_argument("--seconds", type=float, default=1.5, help="how long each time")
    parser.add_argument(
        "--agent-seconds", type=float, default=60.0, help="how long memory is watched under agent traffic"
    )
    parser.add_argument("--starts", type=int, default=_STARTS, help="how often each proxy is started, if that is quick")
    parser.add_argument("--only", default="", help="proxies, separated by commas; toolspeak is always among them")
    parser.add_argument("--probes", default="", help="only probes whose names hold this, and no other benchmarks")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument("--from", dest="source", type=Path, help="a run that `--json` printed, instead of a new one")
    parser.add_argument("--write-docs", action="store_true", help="rewrite the figures of docs/performance.md")
    args = parser.parse_args(namespace=_Arguments())
    if args.source is None and not sys.platform.startswith("linux"):
        sys.exit("skipped: the benchmark reads /proc and uses epoll, which only Linux has")
    run = msgspec.json.decode(args.source.read_bytes(), type=Run) if args.source else measure(args)
    print(msgspec.json.format(msgspec.json.encode(run), indent=1).decode() if args.json else text(run))
    if args.write_docs:
        write_section(_PAGE, run)


if __name__ == "__main__":
    main()
