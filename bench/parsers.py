"""How fast toolspeak turns a streamed call into events, next to parsers that read the text again at each chunk.

Prints Markdown. CPU time of this process, best of several runs, all in one run on one machine, so the ratios
mean something even where the absolute figures do not. A parser that would take longer than the budget is run
on every k-th chunk only and the time multiplied by k; such a figure is marked with "about". The other parsers
only rebuild the JSON value; toolspeak also finds the call, checks it against its schema and emits events.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from time import perf_counter, process_time
from typing import Any

import jiter
import json_repair
import partial_json_parser
from hostile import SHAPES, TOOLS

import toolspeak as ts
from toolspeak.core.parsing.context import ParseContext
from toolspeak.core.types import tools_from
from toolspeak.dialects.registry import DIALECTS
from toolspeak.engine.turn.envelope_reader import EnvelopeReader

CHUNK = 4
SIZES = {"2 KB": 2_000, "10 KB": 10_000, "200 KB": 200_000}
REPEATS = 5
HOSTILE_SIZE = 1_000_000
HOSTILE_CHUNK = 64

TOOL = {
    "type": "function",
    "function": {
        "name": "write_file",
        "description": "Writes a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
}
HEAD, TAIL = "<tool_call>", "</tool_call>"
ENVELOPE_TOOLS = tools_from([TOOL])
ENGINE = "envelope in the engine"
#: Whole calls: how often each is parsed in each round, and the goal in MB/s.
ROUNDS, RUNS = 20, 20
WHOLE_GOAL = 25

#: What is written to the file. Code, as in most long arguments, for the table; the others for toolspeak alone.
CODE = '''def total(prices: list[float], currency: str = "EUR") -> str:
    """Add the prices up and show the sum."""
    result = sum(price for price in prices if price > 0)
    return f"{result:.2f} {currency}"  # <b>not a mark</b>


'''
PROSE = "It was a bright cold day in April, and the clocks were striking thirteen, as they had done before. "
ESCAPES = '{"a": "b\\\\c", "d": ["\\n", "e"]}\n'
HTML = """<div class="card" id="c1"><h2>Title</h2>
  <p>Some <b>bold</b> and <i>other</i> text, and a <a href="/x?a=1">link</a></p>
  <ul><li>one</li><li>two</li></ul>
</div>
"""
CPP = """template <typename T>
std::vector<T> first(const std::vector<T>& all, int n) {
    for (int i = 0; i < n && all[i] > 0; ++i) { out->push_back(all[i]); }
    std::cout << "a" << n << std::endl;  // a<b
}
"""
TEXTS = {"code": CODE, "prose": PROSE, "quotes and backslashes": ESCAPES, "HTML": HTML, "C++": CPP}

#: CPU time for the whole call in 4-character chunks, measured once on another machine and quoted here:
#: to be read as an order of magnitude, not as a ratio to the rows measured in this run.
QUOTED = {
    "vLLM, hermes parser": {"10 KB": "176 ms", "200 KB": "23.3 s"},
    "SGLang, Hermes parser": {"10 KB": "4.5 s", "200 KB": "not reached"},
    "SGLang, Qwen 2.5 parser": {"10 KB": "6.4 s", "200 KB": "not reached"},
}

REPARSERS: dict[str, Callable[[str], Any]] = {
    "json-repair": json_repair.loads,
    "partial-json-parser": partial_json_parser.loads,
    "jiter": lambda text: jiter.from_json(text.encode(), partial_mode="trailing-strings"),
}


@dataclass
class Time:
    """Seconds of CPU; `every` is how many chunks one measured chunk stands for."""

    seconds: float
    every: int = 1

    def __str__(self) -> str:
        shown = f"{self.seconds:.1f} s" if self.seconds >= 1 else f"{self.seconds * 1000:.3g} ms"
        return shown if self.every == 1 else f"about {shown}"


def call_body(size: int, text: str = CODE) -> str:
    """The JSON of a call whose `content` is `size` characters of `text`, escaped as a model would write it."""
    content = (text * (size // len(text) + 1))[:size]
    return json.dumps({"name": "write_file", "arguments": {"path": "a.py", "content": content}}, separators=(",", ":"))


def cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def scan(chunks: list[str], tools: Sequence[dict[str, Any]] = (TOOL,)) -> float:
    """Feed the chunks to a fresh scanner; the CPU seconds that took."""
    scanner = ts.Scanner(tools=tools)
    feed = scanner.feed
    started = process_time()
    for chunk in chunks:
        feed(chunk)
    scanner.close()
    return process_time() - started


def scan_call(body: str) -> Time:
    reply = ts.parse(HEAD + body + TAIL, tools=[TOOL])
    if [call.arguments for call in reply.calls] != [json.loads(body)["arguments"]]:
        sys.exit("error: toolspeak did not read the call, so its time means nothing")
    chunks = cut(HEAD + body + TAIL, CHUNK)
    return Time(min(scan(chunks) for _ in range(REPEATS)))


def reparse(parse: Callable[[str], Any], body: str, budget: float) -> Time:
    """Parse the text so far at each chunk, as a streaming server around such a parser does."""
    ends = list(range(CHUNK, len(body) + CHUNK, CHUNK))
    half = body[: len(body) // 2]
    started = process_time()
    parse(half)
    every = max(1, math.ceil((process_time() - started) * len(ends) / budget))
    best = math.inf
    for _ in range(REPEATS if every == 1 else 1):
        started = process_time()
        # The middle of each group of chunks, so that the sample is neither too short nor too long.
        for end in ends[every // 2 :: every]:
            parse(body[:end])
        best = min(best, process_time() - started)
        if best > budget / REPEATS:
            break
    measured = len(ends[every // 2 :: every])
    return Time(best * len(ends) / measured, every)


def table(rows: list[list[str]]) -> None:
    head, *body = rows
    for row in [head, ["---"] * len(head), *body]:
        print("| " + " | ".join(row) + " |")


def parser_table(budget: float) -> None:
    print(f"## A streamed call with one long string argument, {CHUNK}-character chunks, CPU for the whole call\n")
    bodies = {label: call_body(size) for label, size in SIZES.items()}
    own = {label: scan_call(body) for label, body in bodies.items()}
    rows = [["parser", *SIZES, "against toolspeak"]]
    rows.append([f"toolspeak {version('toolspeak')}", *map(str, own.values()), "1"])
    for name, parse in REPARSERS.items():
        times = {label: reparse(parse, body, budget) for label, body in bodies.items()}
        ratios = " / ".join(f"{times[label].seconds / own[label].seconds:,.3g}" for label in SIZES)
        rows.append([f"{name} {version(name)}, parsed again at each chunk", *map(str, times.values()), ratios])
    for name, quoted in QUOTED.items():
        rows.append([f"{name} (quoted)", *(quoted.get(label, "-") for label in SIZES), "other machine"])
    table(rows)
    print('\n"about": every k-th chunk was measured and the time multiplied by k, to keep within the time budget.')
    print('"quoted": measured once elsewhere, not in this run.')
    per_chunk = {label: own[label].seconds / (len(bodies[label]) / CHUNK) * 1e6 for label in SIZES}
    print(
        "\ntoolspeak, µs per chunk: "
        + ", ".join(f"{value:.2f} at {label}" for label, value in per_chunk.items())
        + "\n"
    )
    goal("200 KB argument, ms of CPU", own["200 KB"].seconds * 1000, 100)
    goal("µs per chunk at 200 KB against 2 KB", per_chunk["200 KB"] / per_chunk["2 KB"], 1.3)


def written(dialect: str, text: str, raw: bool) -> str:
    """A call of 200 KB of `text`. `raw`: between tags as it is, as models write it, without entities."""
    content = (text * (SIZES["200 KB"] // len(text) + 1))[: SIZES["200 KB"]]
    call = ts.ToolCall("write_file", {"path": "a.py", "content": "@@" if raw else content})
    rendered = ts.render_calls(dialect, [call])
    return rendered.replace("@@", content) if raw else rendered


def text_table() -> None:
    """Other texts, in JSON and between tags, so that none is much dearer than code."""
    print(f"\n## 200 KB of other texts, {CHUNK}-character chunks\n")
    ways = {"in JSON": ("hermes", False), "between tags": ("qwen_xml", True), "with entities": ("qwen_xml", False)}
    rows, dearest = [["text", *ways]], 0.0
    for name, text in TEXTS.items():
        chunks = [cut(written(dialect, text, raw), CHUNK) for dialect, raw in ways.values()]
        times = [Time(min(scan(each) for _ in range(REPEATS))) for each in chunks]
        dearest = max(dearest, *(time.seconds for time in times))
        rows.append([name, *(f"{time} for {len(each):,} chunks" for time, each in zip(times, chunks, strict=True))])
    table(rows)
    print()
    goal("dearest text, ms of CPU", dearest * 1000, 100)


def dialect_table() -> None:
    """The same long argument in every dialect, so that none is much dearer than JSON."""
    print(f"\n## The 200 KB argument in every dialect, {CHUNK}-character chunks\n")
    size = SIZES["200 KB"]
    call = ts.ToolCall("write_file", {"path": "a.py", "content": (CODE * (size // len(CODE) + 1))[:size]})
    times = {name: Time(min(map(scan, [cut(ts.render_calls(name, [call]), CHUNK)] * REPEATS))) for name in DIALECTS}
    table([["dialect", "CPU"], *([name, str(time)] for name, time in times.items())])
    print()
    goal("dearest dialect, ms of CPU", max(time.seconds for time in times.values()) * 1000, 100)


def whole_table() -> None:
    """A call that is parsed in one piece, in every dialect, next to `json.loads` of the same call."""
    print("\n## One whole call in every dialect\n")
    sizes = {"300 bytes": 300, "10 KB": 10_000}
    rows: dict[str, list[Callable[[], Any]]] = {"json.loads": []}
    texts: dict[str, list[str]] = {"json.loads": [call_body(size) for size in sizes.values()]}
    rows["json.loads"] = [partial(json.loads, text) for text in texts["json.loads"]]
    for name in DIALECTS:
        calls = [json.loads(body)["arguments"] for body in texts["json.loads"]]
        texts[name] = [ts.render_calls(name, [ts.ToolCall("write_file", arguments)]) for arguments in calls]
        rows[name] = [partial(ts.parse, text, [TOOL]) for text in texts[name]]
        if [parse().calls[0].arguments for parse in rows[name]] != calls:
            sys.exit(f"error: toolspeak did not read the call in the dialect {name}, so its time means nothing")
    texts[ENGINE] = texts["envelope"]
    rows[ENGINE] = [partial(read_envelope, text) for text in texts[ENGINE]]
    times = best_times([parse for each in rows.values() for parse in each])
    shown = [["parser", *(f"{label}, µs" for label in sizes), *(f"{label}, MB/s" for label in sizes)]]
    rates: dict[str, float] = {}
    for at, name in enumerate(rows):
        small, large = times[2 * at : 2 * at + 2]
        speed = [len(text.encode()) / time / 1e6 for text, time in zip(texts[name], (small, large), strict=True)]
        rates[name] = speed[1]
        shown.append([name, f"{small * 1e6:.0f}", f"{large * 1e6:.0f}", *(f"{each:.1f}" for each in speed)])
    table(shown)
    slow = [name for name, rate in rates.items() if rate < WHOLE_GOAL]
    verdict = f"MISSED by {', '.join(slow)}" if slow else "met"
    print(f"\n- 10 KB call, slowest, MB/s: {min(rates.values()):.1f}, goal at least {WHOLE_GOAL}: {verdict}")


def read_envelope(text: str) -> list[ts.Event]:
    """The envelope as the engine reads it."""
    reader = EnvelopeReader(ParseContext(ENVELOPE_TOOLS))
    return reader.feed(text) + reader.close()


def best_times(functions: list[Callable[[], Any]]) -> list[float]:
    """The shortest time of each function, in turns, so that a busy moment does not hit one of them alone."""
    best = [math.inf] * len(functions)
    for _ in range(ROUNDS):
        for at, function in enumerate(functions):
            for _ in range(RUNS):
                started = perf_counter()
                function()
                best[at] = min(best[at], perf_counter() - started)
    return best


def hostile_table(size: int) -> None:
    print(f"\n## Hostile text, {size / 1e6:g} MB each, in {HOSTILE_CHUNK}-character chunks\n")
    rows = [["shape", "half the size", "whole", "ratio"]]
    slowest, steepest = 0.0, 0.0
    for name, shape in SHAPES.items():
        half, whole = (
            min(scan(chunks, TOOLS) for _ in range(2))
            for chunks in (cut(shape(size // 2), HOSTILE_CHUNK), cut(shape(size), HOSTILE_CHUNK))
        )
        ratio = whole / max(half, 1e-9)
        slowest, steepest = max(slowest, whole), max(steepest, ratio)
        rows.append([name, str(Time(half)), str(Time(whole)), f"{ratio:.2f}"])
    table(rows)
    print()
    goal("slowest shape, s of CPU", slowest, 1)
    goal("steepest growth when the size doubles", steepest, 2.6)


def goal(what: str, value: float, limit: float) -> None:
    print(f"- {what}: {value:.3g}, goal at most {limit:g}: {'met' if value <= limit else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Parser speed, as Markdown.")
    parser.add_argument("--budget", type=float, default=4.0, help="seconds for one figure of another parser")
    parser.add_argument("--whole", action="store_true", help="only the table of whole calls")
    parser.add_argument("--hostile-size", type=int, default=HOSTILE_SIZE, help="characters of each hostile text")
    arguments = parser.parse_args()
    print(f"Python {sys.version.split()[0]}\n")
    if arguments.whole:
        whole_table()
        return
    parser_table(arguments.budget)
    text_table()
    dialect_table()
    whole_table()
    hostile_table(arguments.hostile_size)


if __name__ == "__main__":
    main()
