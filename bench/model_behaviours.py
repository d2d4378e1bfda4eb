"""How many scripted models end their turn with the right call, and with how many requests.

    python bench/model_behaviours.py                         a table of all behaviours
    python bench/model_behaviours.py --json now.json         also write the outcomes to a file
    python bench/model_behaviours.py --against base.json     also list what changed since then
    python bench/model_behaviours.py --show "writes YAML"    the requests and answers of one behaviour
    python bench/model_behaviours.py --interpreter           the same table with `interpreter = "embedded"`

Each behaviour is played twice, whole and streamed. Ends with status 1 if a turn that was right in the base is not right.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.behaviours.models import BEHAVIOURS, GROUPS  # noqa: E402
from tests.behaviours.runner import run  # noqa: E402

MODES = ("whole", "streamed")
#: Outcomes by mode and behaviour, as they are in a file.
Outcomes = dict[str, dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes to FILE")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with the outcomes in FILE")
    parser.add_argument("--show", metavar="NAME", help="print the conversation of one behaviour")
    parser.add_argument("--interpreter", action="store_true", help="let the embedded model read described calls")
    arguments = parser.parse_args()
    if arguments.show:
        return show(arguments.show)
    outcomes = play({"interpreter": "embedded"} if arguments.interpreter else {})
    print_table(outcomes)
    if arguments.json:
        arguments.json.write_text(json.dumps(outcomes, indent=1, ensure_ascii=False), encoding="utf-8")
    if arguments.against:
        return compare(json.loads(arguments.against.read_text(encoding="utf-8")), outcomes)
    return 0


def play(settings: dict[str, str]) -> Outcomes:
    return {
        mode: {each.name: asdict(run(each, streamed=mode == "streamed", **settings)[0]) for each in BEHAVIOURS}
        for mode in MODES
    }


def print_table(outcomes: Outcomes) -> None:
    print("| behaviour | whole | requests | streamed | requests | what came |\n|---|---|---|---|---|---|")
    for group, behaviours in GROUPS.items():
        print(f"| **{group}** | | | | | |")
        for behaviour in behaviours:
            rows = [outcomes[mode][behaviour.name] for mode in MODES]
            cells = [f"{_verdict(row)} | {row['requests']}" for row in rows]
            wrong = [row["ending"] for row in rows if not row["right"]]
            print(f"| {behaviour.name} | {' | '.join(cells)} | {_cell(wrong[0]) if wrong else ''} |")
    for mode in MODES:
        print(f"\n{mode}: {_summary(outcomes[mode])}")


def compare(base: Outcomes, now: Outcomes) -> int:
    """Print what changed. Returns 1 if anything that was right is not right any more."""
    worse = 0
    print("\n| behaviour | mode | before | now |\n|---|---|---|---|")
    for mode in MODES:
        for name in [name for name in now[mode] if name in base[mode]]:
            before, after = base[mode][name], now[mode][name]
            worse += before["right"] and not after["right"]
            if (before["right"], before["requests"]) != (after["right"], after["requests"]):
                print(f"| {name} | {mode} | {_short(before)} | {_short(after)} |")
    for mode in MODES:
        failing = [name for name, row in base[mode].items() if not row["right"] and name in now[mode]]
        mended = sum(now[mode][name]["right"] for name in failing)
        print(f"\n{mode}, before: {_summary(base[mode])}\n{mode}, now: {_summary(now[mode])}")
        print(f"{mode}: {mended} of {len(failing)} that failed before are right now")
    print(f"\n{worse} turns are worse")
    return int(worse > 0)


def show(name: str) -> int:
    """Print the requests and answers of one behaviour."""
    found = [behaviour for behaviour in BEHAVIOURS if behaviour.name == name]
    if not found:
        print(f"there is no behaviour `{name}`; the table lists their names", file=sys.stderr)
        return 2
    outcome, server = run(found[0], streamed=False)
    for number, (body, answer) in enumerate(server.exchanges, 1):
        rest = {key: value for key, value in body.items() if key != "messages"}
        print(f"======== request {number}: {json.dumps(rest, ensure_ascii=False)[:500]}")
        for message in body["messages"]:
            print(f"---- {message['role']}\n{message.get('content')}")
        print(f"-------- answer\n{answer}")
    print(f"======== {outcome}")
    return 0


def _summary(outcomes: dict[str, Any]) -> str:
    right = sum(row["right"] for row in outcomes.values())
    requests = sum(row["requests"] for row in outcomes.values())
    return f"{right} of {len(outcomes)} right ({right / len(outcomes):.0%}), {requests / len(outcomes):.2f} requests per turn"


def _verdict(row: dict[str, Any]) -> str:
    return "right" if row["right"] else "WRONG"


def _short(row: dict[str, Any]) -> str:
    return f"{_verdict(row)}, {row['requests']}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
