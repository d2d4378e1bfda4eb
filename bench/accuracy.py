"""How many model outputs toolspeak parses right, next to other parsers of tool calls, and what CPU time that takes.

    python bench/accuracy.py CASES...

CASES are files of cases, or folders of them: JSON lines with `text`, `tools` and `expected_calls`. Prints a Markdown
table. Each case is given to every parser in turn before the next one, in one run. The others are installed below
`.bench`; one that cannot be installed is left out, and the reason printed.

toolspeak has one setting, which parses every format. The others have a parser for each format and do not choose among
them by the text, so there are two rows for each: the one parser that gets most calls right, and an oracle that gets a
call right if any of them does, and a text without calls wrong if any of them finds one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, NamedTuple, TypeAlias

from proxy_peers import CACHE, install_once, npm, venv

import toolspeak as ts

HERE = Path(__file__).parent
#: Each parser parses a case so often; the fastest counts.
REPEATS = 3
#: Marks in the notes of cases that assert something else than the calls in a whole answer.
LEFT_OUT = ("POLICY", "GENPROMPT", "STREAM_PARTIAL", "ARGS_RAW", "EXPECT_NO_CRASH", "IGNORED_IN_SOURCE")

#: A download that takes longer hangs.
INSTALL_SECONDS = 900

SGLANG = "0.5.23"
#: What SGLang's detectors import, apart from what stands in `accuracy_sglang.py`.
SGLANG_NEEDS = ("lxml", "msgspec", "openai", "orjson", "partial-json-parser", "pydantic", "regex")
SGLANG_PARTS = (
    "sglang/srt/function_call/",
    "sglang/srt/parser/",
    "sglang/srt/entrypoints/openai/protocol.py",
    "sglang/srt/environ.py",
)
AI_SDK = "4.1.26"

#: JSON Schema's names of types.
TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}

Case: TypeAlias = dict[str, Any]

# ---------------------------------------------------------------------------------------------- cases


def cases_of(path: Path) -> list[Case]:
    """The cases of a file or folder, without those that assert something else and those whose sources disagree."""
    folder = path if path.is_dir() else path.parent
    disputed: set[str] = set()
    with suppress(FileNotFoundError):
        conflicts = json.loads((folder / "CONFLICTS.json").read_text(encoding="utf-8"))
        disputed = {each["id"] for conflict in conflicts for each in conflict["expectations"]}
    return [case for case in _lines(path) if case["id"] not in disputed and _is_about_calls(case)]


def _lines(path: Path) -> Iterator[Case]:
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        for line in file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def _is_about_calls(case: Case) -> bool:
    if "expected_calls" not in case or case["dialect"] == "args_json":
        return False
    return not any(mark in (case["notes"] or "") for mark in LEFT_OUT)


def is_right(case: Case, calls: Sequence[Sequence[Any]]) -> bool:
    wanted = case["expected_calls"]
    partial = "ARGS_PARTIAL" in (case["notes"] or "")
    return len(calls) == len(wanted) and all(
        _is_same(name, arguments, each, partial) for (name, arguments), each in zip(calls, wanted, strict=True)
    )


def _is_same(name: str, arguments: Any, wanted: dict[str, Any], partial: bool) -> bool:
    if wanted["name"] not in (None, name):
        return False
    if not partial or not isinstance(arguments, dict):
        return arguments == wanted["arguments"]
    return all(arguments.get(key) == value for key, value in (wanted["arguments"] or {}).items())


def offered(case: Case) -> list[dict[str, Any]]:
    """The tools of a case for the other parsers, most of which find no call without tools.

    If the case has none, these are the tools it expects, with the types of the arguments it expects.
    """
    tools = case["tools"] or [_tool_of(call) for call in case["expected_calls"] if call["name"]]
    return [{"type": "function", "function": tool.get("function", tool)} for tool in tools]


def _tool_of(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call["arguments"] if isinstance(call["arguments"], dict) else {}
    properties = {key: {"type": TYPES[type(value)]} for key, value in arguments.items()}
    return {"name": call["name"], "parameters": {"type": "object", "properties": properties}}


# -------------------------------------------------------------------------------------------- readers


class Outcome(NamedTuple):
    """What one parser made of a case. `calls` is None if it failed."""

    calls: list[list[Any]] | None
    seconds: float


Parse: TypeAlias = Callable[[Case], dict[str, Outcome]]


@dataclass
class Reader:
    """A project and what its parsers made of the cases: for each case, the outcome of each parser."""

    name: str
    parse: Parse
    outcomes: list[dict[str, Outcome]] = field(default_factory=list)


def parse_with_toolspeak(case: Case) -> dict[str, Outcome]:
    calls: list[list[Any]] | None = None
    best = float("inf")
    for _ in range(REPEATS):
        started = process_time()
        found = ts.parse(case["text"], case["tools"]).calls
        best = min(best, process_time() - started)
        calls = [[call.name, call.arguments] for call in found]
    return {"auto": Outcome(calls, best)}


class Worker:
    """A process that answers a line with a line."""

    def __init__(self, command: Sequence[Path | str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return line
        raise OSError(f"it ended with {self._process.wait()}")

    def parse(self, case: Case) -> dict[str, Outcome]:
        assert self._process.stdin is not None
        asked = {"text": case["text"], "tools": offered(case), "repeats": REPEATS}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return {name: Outcome(**outcome) for name, outcome in json.loads(self._line()).items()}


def _install_sglang(folder: Path) -> str:
    """Take the detectors out of SGLang's wheel: the rest needs torch and a GPU."""
    if problem := venv(folder.name, *SGLANG_NEEDS)():
        return problem
    command = [folder / "bin" / "pip", "download", "--quiet", "--no-deps", "--dest", folder, f"sglang=={SGLANG}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if done.returncode != 0:
        return done.stderr.strip().rpartition("\n")[2]
    (wheel,) = folder.glob("sglang-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(SGLANG_PARTS)])
    return ""


def _start_sglang() -> Worker:
    folder = CACHE / f"sglang-{SGLANG}"
    if problem := install_once(folder.name, partial(_install_sglang, folder)):
        raise OSError(problem)
    return Worker([folder / "bin" / "python", HERE / "accuracy_sglang.py", folder])


def _start_ai_sdk() -> Worker:
    node = shutil.which("node")
    if node is None:
        raise OSError("node is not installed")
    folder = CACHE / f"ai-sdk-tool-{AI_SDK}"
    if problem := install_once(folder.name, npm(folder.name, f"@ai-sdk-tool/parser@{AI_SDK}")):
        raise OSError(problem)
    # Node looks for packages beside the program.
    return Worker([node, shutil.copy(HERE / "accuracy_ai_sdk.mjs", folder)])


OTHERS: dict[str, Callable[[], Worker]] = {
    f"SGLang {SGLANG}": _start_sglang,
    f"@ai-sdk-tool/parser {AI_SDK}": _start_ai_sdk,
}


def readers() -> list[Reader]:
    found = [Reader(f"toolspeak {version('toolspeak')}", parse_with_toolspeak)]
    for name, start in OTHERS.items():
        try:
            found.append(Reader(name, start().parse))
        except OSError as error:
            print(f"{name} is left out: {error}\n")
    return found


# -------------------------------------------------------------------------------------------- scoring

#: Whether the outcomes of a reader's parsers make a case right.
Rule: TypeAlias = Callable[[Case, dict[str, Outcome]], bool]


def right_with(parser: str) -> Rule:
    return lambda case, outcomes: is_right(case, outcomes[parser].calls or [])


def right_with_oracle(case: Case, outcomes: dict[str, Outcome]) -> bool:
    right = any if case["expected_calls"] else all
    return right(is_right(case, outcome.calls or []) for outcome in outcomes.values())


def share(rule: Rule, cases: Sequence[Case], outcomes: Sequence[dict[str, Outcome]], *, with_calls: bool) -> str:
    pairs = zip(cases, outcomes, strict=True)
    results = [rule(case, found) for case, found in pairs if bool(case["expected_calls"]) == with_calls]
    return f"{sum(results) / len(results):.1%} of {len(results)}" if results else "-"


def best_parser(reader: Reader, cases: Sequence[Case]) -> str:
    """The parser that gets most calls right; if several do, the one that finds fewest calls where there are none."""

    def score(parser: str) -> tuple[int, int]:
        pairs = list(zip(cases, reader.outcomes, strict=True))
        right = [case for case, found in pairs if right_with(parser)(case, found)]
        calls = sum(bool(case["expected_calls"]) for case in right)
        return calls, len(right) - calls

    return max(reader.outcomes[0], key=score)


def median_cost(own: Reader, other: Reader, seconds: Callable[[dict[str, Outcome]], float]) -> str:
    """CPU time of one or more parsers against toolspeak's, as the median over the cases."""
    pairs = zip(own.outcomes, other.outcomes, strict=True)
    return f"{median(seconds(found) / mine['auto'].seconds for mine, found in pairs):.2g}"


def informed_cost(own: Reader, other: Reader, cases: Sequence[Case]) -> str:
    """CPU time of the fastest parser that is right, against toolspeak's, where both find the calls."""
    ratios: list[float] = []
    for case, mine, found in zip(cases, own.outcomes, other.outcomes, strict=True):
        right = [each.seconds for each in found.values() if each.calls and is_right(case, each.calls)]
        if right and is_right(case, mine["auto"].calls or []):
            ratios.append(min(right) / mine["auto"].seconds)
    return f"{median(ratios):.2g} in {len(ratios)} cases" if ratios else "unknown"


def rows_of(own: Reader, reader: Reader, cases: Sequence[Case]) -> list[tuple[str, Rule, str]]:
    """The rows of a reader: its name, when a case is right, and its CPU time."""
    if reader is own:
        micros = median(found["auto"].seconds for found in own.outcomes) * 1e6
        return [(f"{own.name}, every format", right_with("auto"), f"1 ({micros:.0f} µs)")]
    best, count = best_parser(reader, cases), len(reader.outcomes[0])
    cost_of_best = median_cost(own, reader, lambda found: found[best].seconds)
    cost_of_all = median_cost(own, reader, lambda found: sum(each.seconds for each in found.values()))
    return [
        (f"{reader.name}, the best parser ({best})", right_with(best), cost_of_best),
        (f"{reader.name}, an oracle over {count} parsers", right_with_oracle, cost_of_all),
    ]


def print_table(found: Sequence[Reader], groups: dict[str, list[Case]]) -> None:
    cases = [case for group in groups.values() for case in group]
    head = [column for name in groups for column in (f"{name}: calls right", f"{name}: clean without calls")]
    print(f"| parser | {' | '.join(head)} | CPU against toolspeak |")
    print("| --- " * (len(head) + 2) + "|")
    for reader in found:
        for name, rule, cost in rows_of(found[0], reader, cases):
            print(f"| {name} | {' | '.join(_shares(rule, reader, groups))} | {cost} |")


def _shares(rule: Rule, reader: Reader, groups: dict[str, list[Case]]) -> Iterator[str]:
    start = 0
    for group in groups.values():
        outcomes = reader.outcomes[start : start + len(group)]
        yield share(rule, group, outcomes, with_calls=True)
        yield share(rule, group, outcomes, with_calls=False)
        start += len(group)


def main() -> None:
    parser = argparse.ArgumentParser(description="How exactly parsers read model outputs, as Markdown.")
    parser.add_argument("cases", nargs="+", type=Path, help="files of cases, or folders of them")
    groups = {path.stem: cases_of(path) for path in parser.parse_args().cases}
    if not all(groups.values()):
        sys.exit("error: there is no case in one of the files")
    found = readers()
    for group in groups.values():
        for case in group:
            for reader in found:
                reader.outcomes.append(reader.parse(case))
    print_table(found, groups)
    print_remarks(found, [case for group in groups.values() for case in group])


def _chosen(
    places: Sequence[int], cases: Sequence[Case], outcomes: Sequence[dict[str, Outcome]]
) -> tuple[list[Case], list[dict[str, Outcome]]]:
    return [cases[at] for at in places], [outcomes[at] for at in places]


def print_remarks(found: Sequence[Reader], cases: Sequence[Case]) -> None:
    own, *others = found
    offering = [at for at, case in enumerate(cases) if case["tools"]]
    clean = [
        f"{name} {share(rule, *_chosen(offering, cases, reader.outcomes), with_calls=False)}"
        for reader in found
        for name, rule, _ in rows_of(own, reader, cases)
    ]
    print(f"\n- Clean among texts without calls that come with tools: {'; '.join(clean)}.")
    for other in others:
        failed = sum(outcome.calls is None for outcomes in other.outcomes for outcome in outcomes.values())
        print(f"- {other.name}: {failed} of {sum(map(len, other.outcomes))} parses failed with an error.")
        print(
            f"- {other.name}, a parser that knows the format: CPU {informed_cost(own, other, cases)} where both are right."
        )


if __name__ == "__main__":
    main()
